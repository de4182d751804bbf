"""Who lives on the stand-in site: accounts and posts, made from their names alone.

The same handle gives the same account on every machine and in every run; nothing is stored. No clock, no IO.

How an account behaves follows from how its handle begins, so that a client can ask for any case by name:

    missing…     there is none: 404
    private-…    its posts and whom it follows are hidden
    limited-…    429, with Retry-After
    broken-…     500, with a page
    throttled-…  the list of whom it follows answers 429 after THIN_LIST names, that of its posts after the first page
    stalled-…    those lists go silent there
"""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from functools import lru_cache
from itertools import islice
from random import Random
from typing import Final

HANDLE: Final = "[a-z0-9][a-z0-9._-]{0,29}"
THIN_LIST: Final = 40

FIRST_NAMES: Final = tuple(
    (
        "ada alma amir anton aylin bela bruno carmen chidi clara dario dilan edda elias emil esra farah felix"
        " freya gita hanna hugo ida imran ines iris jonas juno kaan karla keiko kofi lale leon lina luca mara"
        " matteo mila mira nadia nils noor olga omar otto pablo petra quinn rafael rania rosa samir selma simon"
        " sofia tariq tessa theo tove uma vera viktor wanda yara yusuf zoe"
    ).split()
)
LAST_NAMES: Final = tuple(
    (
        "abad adler amsel bach berg brandt castell cruz dahl demir eich falk feld fink fontaine gold grau haas"
        " hart heller holm ibarra jansen kern koch kraft lang lind lorca marin meer moreau nord okafor ortega"
        " park perl quast rask reis rossi sand sauer silva sommer stein sturm tal tanaka thorn vogel wald weber"
        " winter wolf yilmaz zander"
    ).split()
)
# Those that the home page shows and the docs name; all others are made up when they are asked for.
RESIDENTS: Final = {
    "alice": ("Alice Amsel", 24, 12_480, 137),
    "bob": ("Bob Brandt", 9, 342, 12),
    "carol": ("Carol Castell", 57, 1_893, 420),
    "dave": ("Dave Dahl", 3, 88, 0),
    "erin": ("Erin Eich", 31, 5_204, 61),
}
TRADES: Final = ("baker", "botanist", "cartographer", "cellist", "ferry pilot", "gardener", "night-train guard",
                 "paper maker", "potter", "school teacher", "weaver", "wood carver")  # fmt: skip
PLACES: Final = ("Bergen", "Cádiz", "Galway", "Görlitz", "Hvar", "İzmir", "Kochi", "Lucca", "Ohrid", "Piran",
                 "Tartu", "Valparaíso")  # fmt: skip
LIKES: Final = ("old harbours", "fog", "hand-drawn maps", "the first snow", "long walks", "slow trains", "tide pools",
                "bread", "lighthouses", "quiet squares")  # fmt: skip
SCENES: Final = ("Morning over the ridge", "The last ferry", "Before the rain", "Up early", "The long way home",
                 "Nobody here but us", "First light", "After the storm", "A good place to wait")  # fmt: skip
NEWEST: Final = date(2026, 6, 30)


class Manner(Enum):
    """How an account behaves; the value is how its handle begins."""

    MISSING = "missing"
    PRIVATE = "private-"
    LIMITED = "limited-"
    BROKEN = "broken-"
    THROTTLED = "throttled-"
    STALLED = "stalled-"
    ORDINARY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account. `posts`, `followers` and `following` are counts."""

    handle: str
    name: str
    bio: str
    posts: int
    followers: int
    following: int
    manner: Manner


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One post. `number` counts from 1, the oldest; `shortcode` names it on the whole site."""

    shortcode: str
    handle: str
    number: int
    caption: str
    likes: int
    day: date


def manner_of(handle: str) -> Manner:
    """How the account of this handle behaves; MISSING also for what is no handle."""
    if not re.fullmatch(HANDLE, handle):
        return Manner.MISSING
    return next(manner for manner in Manner if handle.startswith(manner.value))


@lru_cache(maxsize=512)
def account(handle: str) -> Account | None:
    """The account of this handle; None when there is none."""
    manner = manner_of(handle)
    if manner is Manner.MISSING:
        return None
    dice = Random(f"account:{handle}")
    made_up = (name_of(handle), dice.randint(1, 60), dice.randint(3, 9_000), dice.randint(THIN_LIST + 1, 400))
    name, posts, followers, follows = RESIDENTS.get(handle, made_up)
    bio = f"{dice.choice(TRADES).capitalize()} in {dice.choice(PLACES)}. {_both(dice.sample(LIKES, 2))}."
    return Account(
        handle=handle, name=name, bio=bio, posts=posts, followers=followers, following=follows, manner=manner
    )


@lru_cache(maxsize=64)
def following(handle: str) -> tuple[str, ...]:
    """Whom an account follows: as many distinct handles as its count says, in a fixed order."""
    found = account(handle)
    if found is None:
        return ()
    friends = [friend for friend in RESIDENTS if friend != handle][: found.following]
    width = len(LAST_NAMES)
    picks = Random(f"following:{handle}").sample(
        range(len(FIRST_NAMES) * width), found.following - len(friends)
    )
    return (*friends, *(f"{FIRST_NAMES[pick // width]}.{LAST_NAMES[pick % width]}" for pick in picks))


def latest_posts(owner: Account, limit: int, after: int = 0) -> list[Post]:
    """An account's newest posts, newest first, `limit` at most, without the `after` newest of all."""
    newest = owner.posts - after
    return [_post(owner, number) for number in range(newest, max(0, newest - limit), -1)]


def post(shortcode: str) -> Post | None:
    """The post of this shortcode; None when there is none, or its account hides it."""
    handle, _, number = _decoded(shortcode).partition(":")
    owner = account(handle)
    if owner is None or owner.manner is Manner.PRIVATE or not re.fullmatch("[1-9][0-9]{0,5}", number):
        return None
    if int(number) > owner.posts or shortcode != shortcode_of(handle, int(number)):
        return None
    return _post(owner, int(number))


def shortcode_of(handle: str, number: int) -> str:
    return base64.urlsafe_b64encode(f"{handle}:{number}".encode()).decode().rstrip("=")


def search(words: str, limit: int) -> list[str]:
    """The handles of those whose handle or name has all these words, residents first, `limit` at most."""
    wanted = words.lower().split()
    if not wanted:
        return []
    everybody = (*RESIDENTS, *(f"{first}.{last}" for first in FIRST_NAMES for last in LAST_NAMES))
    found = (
        handle
        for handle in everybody
        if all(word in f"{handle} {name_of(handle)}".lower() for word in wanted)
    )
    return list(islice(found, limit))


def name_of(handle: str) -> str:
    """What an account of this handle is called: `mira.holm` -> `Mira Holm`."""
    if handle in RESIDENTS:
        return RESIDENTS[handle][0]
    return " ".join(part.capitalize() for part in re.split("[._-]+", handle) if part)


def _post(owner: Account, number: int) -> Post:
    dice = Random(f"post:{owner.handle}:{number}")
    return Post(
        shortcode=shortcode_of(owner.handle, number),
        handle=owner.handle,
        number=number,
        caption=f"{dice.choice(SCENES)}, {dice.choice(PLACES)}.",
        likes=dice.randint(0, owner.followers),
        day=NEWEST - timedelta(days=3 * (owner.posts - number) + dice.randint(0, 2)),
    )


def _decoded(shortcode: str) -> str:
    """What a shortcode stands for; "" when it stands for nothing."""
    try:
        return base64.urlsafe_b64decode(shortcode + "=" * (-len(shortcode) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""


def _both(pair: list[str]) -> str:
    return f"{pair[0].capitalize()} and {pair[1]}"
