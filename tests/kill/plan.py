"""When and how each life of a worker ends: drawn from a seed, so that a run can be had again."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tests.kill.points import Point, every_point

# Not in such a life: the probe wants a disk that refused, the closing a stop, the making a store that is not there; and
# the load has no runs.
# `test_points.py` comes to all of them.
HARD_TO_REACH = ("JobStore.probe", "opening.close", "opening._create", "RunStore.")
NEAREST_S, FARTHEST_S = 0.1, 10.0
WEBHOOK_MOMENTS_S = (61.0, 241.0, 301.0, 700.0)


class How(Enum):
    """What ends a life."""

    KILL = "SIGKILL"
    POINT = "SIGKILL at a commit point"
    BIRTH = "SIGKILL while it starts"
    TERM = "SIGTERM"
    TERM_KILL = "SIGTERM, then SIGKILL"
    TERM_TERM = "SIGTERM twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Attributes:
    after_s: since it was ready; of a death at birth, since it was launched; of a point, when it has to be reached.
    then_s: until the second signal, from the first.
    point: of a death at a commit point.
    down_s: how long it then counts as down for the webhook jobs, seconds: their times are moved into the past.
    """

    how: How
    after_s: float
    then_s: float | None = None
    point: Point | None = None
    down_s: float = 0.0

    def __str__(self) -> str:
        words = [str(self.point) if self.point else self.how.value, f"after {self.after_s:.2f} s"]
        if self.then_s is not None:
            words.append(f"and {self.then_s:.2f} s")
        if self.down_s:
            words.append(f"down for {self.down_s:.0f} s")
        return ", ".join(words)


def stops(seed: int, longest_s: float = FARTHEST_S) -> Iterator[Stop]:
    """Stops without end: the named points in an order of the seed's, again and again, and signals between them.

    Args:
        longest_s: from a first to a second signal.
    """
    dice = random.Random(f"stops {seed}")
    points = _shuffled_for_ever(dice)
    while True:
        (how,) = dice.choices(list(How), weights=(30, 35, 5, 10, 12, 8))
        yield Stop(
            how=how,
            after_s=_alive(dice, how),
            then_s=_between(dice, longest_s) if how in {How.TERM_KILL, How.TERM_TERM} else None,
            point=next(points) if how is How.POINT else None,
            down_s=dice.choice(WEBHOOK_MOMENTS_S[:3]) if dice.random() < 0.2 else 0.0,
        )


def _shuffled_for_ever(dice: random.Random) -> Iterator[Point]:
    while True:
        deck = [point for point in every_point() if not point.name.startswith(HARD_TO_REACH)]
        dice.shuffle(deck)
        for point in deck:
            yield Point(point.name, point.moment, dice.choice((1, 1, 2, 3)))


def _alive(dice: random.Random, how: How) -> float:
    match how:
        case How.POINT:
            return 3.0  # time to come there
        case How.BIRTH:
            return dice.uniform(0.05, 2.0)
        case _:
            return dice.uniform(0.0, 3.0)


def _between(dice: random.Random, longest_s: float) -> float:
    """As many short ones as long ones, by their order of magnitude."""
    return math.exp(dice.uniform(math.log(NEAREST_S), math.log(longest_s)))
