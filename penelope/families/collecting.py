"""Gathering the items of a list that loads as it scrolls, also of one that keeps only what is in sight.

Bounded in items, in rounds and in time; and it says why it stopped.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from playwright.async_api import Error, JSHandle, Page, Request, Response

from penelope import PluginError

MAX_VALUE_CHARS: Final = 20_000
LOADS: Final = frozenset({"xhr", "fetch"})
SLACK_S: Final = 2.0
LOOK_S: Final = 0.1
KEEP_EVERY_S: Final = 2.0
_READER: Final = re.compile(r"(?P<selector>.*?)(?:@(?P<attribute>[A-Za-z_:][\w:.-]*))?", re.DOTALL)

EndedBy = Literal["end", "limit", "site", "rounds", "time"]
Item = dict[str, str | None]
Report = Callable[[list[Item]], Awaitable[None]]  # all items so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to gather, and how far to go.

    Attributes:
        selector: Playwright's, of an item.
        readers: by field name, see `reader`.
        key: the field by which items are told apart; None: all fields.
        seconds: for all of it.
        patience_s: without anything new at the list's end for so long, it has ended.
    """

    selector: str
    readers: dict[str, dict[str, str | None]]
    key: str | None
    limit: int
    rounds: int
    seconds: float
    patience_s: float


@dataclass(slots=True)
class Gathered:
    """What was gathered, in the order in which it came into sight, and why there is no more."""

    items: list[Item] = field(default_factory=list)
    rounds: int = 0
    ended_by: EndedBy = "end"


class Seldom:
    """Says when the next checkpoint is due: each has all items, so that one a round would write their square."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + KEEP_EVERY_S
        return True


def reader(text: str) -> dict[str, str | None]:
    """How a field is read: `CSS` is the text of the first such element in the item, `CSS@name` its attribute; without
    CSS it is of the item itself.

    Raises:
        PluginError: 400, it is neither.
    """
    match = _READER.fullmatch(text.strip())
    if match is None or (match["attribute"] is None and "@" in re.sub(r"\[[^]]*\]", "", text)):
        raise PluginError(f"the field {text[:80]!r} is neither CSS, CSS@attribute nor @attribute", status=400)
    return {"selector": match["selector"].strip() or None, "attribute": match["attribute"]}


async def gather(page: Page, wanted: Wanted, report: Report) -> Gathered:
    """Scroll and gather until a bound is met or the list ends.

    Raises:
        PluginError: 400: a selector that is none.
    """
    gathered = Gathered()
    with _Loads(page) as loads:
        try:
            # A page that does not answer must not outlast the bound.
            async with asyncio.timeout(wanted.seconds + SLACK_S):
                gathered.ended_by = await _gather(_List(page, wanted), gathered, loads, report)
        except TimeoutError:
            gathered.ended_by = "time"
    return gathered


async def _gather(list_: "_List", gathered: Gathered, loads: "_Loads", report: Report) -> EndedBy:
    wanted = list_.wanted
    until = time.monotonic() + wanted.seconds
    seen: set[str] = set()
    while True:
        gathered.rounds += 1
        before = len(gathered.items)
        _add(gathered.items, seen, await list_.read(), wanted)
        if len(gathered.items) > before:
            await report(gathered.items)
        if (why := _bound(gathered, wanted, until)) is not None:
            return why
        if not await list_.scroll_on(min(until, time.monotonic() + wanted.patience_s)):
            if time.monotonic() >= until:
                return "time"
            return "site" if loads.starved else "end"


def _bound(gathered: Gathered, wanted: Wanted, until: float) -> EndedBy | None:
    if len(gathered.items) >= wanted.limit:
        return "limit"
    if time.monotonic() >= until:
        return "time"
    return "rounds" if gathered.rounds >= wanted.rounds else None


def _add(items: list[Item], seen: set[str], read: list[Item], wanted: Wanted) -> None:
    for item in read:
        key = repr(item) if wanted.key is None else repr(item[wanted.key])
        if key not in seen and len(items) < wanted.limit:
            seen.add(key)
            items.append(item)


class _List:
    """The list on the page, over its reloads."""

    def __init__(self, page: Page, wanted: Wanted) -> None:
        self.wanted = wanted
        self._page = page
        self._items = page.locator(wanted.selector)
        self._sent: JSHandle | None = None

    async def read(self) -> list[Item]:
        """The items there are now which were not read before as they are now, in the page's order."""
        try:
            return await self._read()
        except Error as error:
            if not _left(error):
                raise _explained(error) from error
        await self._page.wait_for_load_state("domcontentloaded")
        self._sent = None
        return await self._read()

    async def _read(self) -> list[Item]:
        if self._sent is None:  # a handle, so that nothing of ours can be seen on the page
            self._sent = await self._page.evaluate_handle("() => new WeakMap()")
        asked = [self.wanted.readers, self._sent, MAX_VALUE_CHARS]
        items: list[Item] = await self._items.evaluate_all(READ, asked)
        return items

    async def scroll_on(self, until: float) -> bool:
        """Scroll on by most of what is in sight; False when that is the end and nothing came until `until`."""
        try:
            there = await self._items.evaluate_all(LOOK, True)
            if not there["end"] and there["in_sight"]:
                return True
            # At the end, or before an empty stretch that is yet to be filled.
            while time.monotonic() < until:
                await asyncio.sleep(LOOK_S)
                now = await self._items.evaluate_all(LOOK, False)
                if (now["mark"], now["height"]) != (there["mark"], there["height"]):
                    return True
            return not there["end"]
        except Error as error:
            if _left(error):  # for another document: it is read afresh
                return True
            raise


def _left(error: Error) -> bool:
    return "context was destroyed" in error.message or "JSHandle is disposed" in error.message


def _explained(error: Error) -> Exception:
    said = " ".join(error.message.partition("Call log")[0].split())[:300]
    if re.search("not a valid selector|while parsing|Unknown engine|Malformed", said):
        return PluginError(f"a selector is none: {said}", status=400)
    return error


class _Loads:
    """What the page asks its site for by script, while it is scrolled: the last answer says whether the site gives."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open: set[Request] = set()
        self._failed = False

    def __enter__(self) -> "_Loads":
        self._page.on("request", self._on_request)
        self._page.on("response", self._on_response)
        self._page.on("requestfinished", self._on_end)
        self._page.on("requestfailed", self._on_failed)
        return self

    def __exit__(self, *_: object) -> None:
        for event, listener in (
            ("request", self._on_request),
            ("response", self._on_response),
            ("requestfinished", self._on_end),
            ("requestfailed", self._on_failed),
        ):
            self._page.remove_listener(event, listener)

    @property
    def starved(self) -> bool:
        """The site refused the last thing that was asked for, or has not answered it."""
        return self._failed or bool(self._open)

    def _on_request(self, request: Request) -> None:
        with suppress(Exception):
            if request.resource_type in LOADS:
                self._open.add(request)

    def _on_response(self, response: Response) -> None:
        with suppress(Exception):
            if response.request.resource_type in LOADS:
                self._failed = response.status >= 400

    def _on_end(self, request: Request) -> None:
        self._open.discard(request)

    def _on_failed(self, request: Request) -> None:
        if request in self._open:
            self._open.discard(request)
            self._failed = True


# The items that were not sent yet, or read otherwise now: a list that keeps only what is in sight uses its elements
# again.
READ: Final = """(elements, [readers, sent, most]) => {
  const clean = (text) => text === null ? null : text.slice(0, most).toWellFormed();
  const read = (item, {selector, attribute}) => {
    const found = selector === null ? item : item.querySelector(selector);
    if (!found) return null;
    if (attribute === null) return clean((found.innerText ?? found.textContent ?? "").trim());
    const absolute = ["href", "src"].includes(attribute) && typeof found[attribute] === "string";
    return clean(absolute && found.hasAttribute(attribute) ? found[attribute] : found.getAttribute(attribute));
  };
  const items = [];
  for (const element of elements) {
    const item = Object.fromEntries(Object.entries(readers).map(([name, how]) => [name, read(element, how)]));
    const text = JSON.stringify(item);
    if (sent.get(element) === text) continue;
    sent.set(element, text);
    items.push(item);
  }
  return items;
}"""

# Where the list is scrolled to, after scrolling on if that is asked for: by less than what is in sight, since a list
# that keeps only that would skip the rest. `mark` changes with the items that there are.
LOOK: Final = """async (elements, scroll) => {
  const frame = () => new Promise((done) => { requestAnimationFrame(done); setTimeout(done, 100); });
  const last = elements.at(-1);
  const up = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode()?.host ?? null;
  let box = last ? up(last) : null;
  const scrolls = (e) =>
    e.scrollHeight > e.clientHeight + 1 && /auto|scroll|overlay/.test(getComputedStyle(e).overflowY);
  while (box && !scrolls(box)) box = up(box);
  const root = document.scrollingElement ?? document.documentElement;
  if (!box || box === document.body) box = root;
  const sight = box === root ? innerHeight : box.clientHeight;
  if (scroll) {
    box.scrollBy({top: Math.max(1, sight * 0.8), behavior: "instant"});
    await frame(); await frame();
  }
  const edge = box === root ? {top: 0, bottom: innerHeight} : box.getBoundingClientRect();
  const inSight = elements.some((element) => {
    const at = element.getBoundingClientRect();
    return at.bottom > edge.top && at.top < edge.bottom;
  });
  let mark = elements.length;
  for (const element of [...elements.slice(0, 50), ...elements.slice(-50)])
    for (const char of (element.textContent ?? "").slice(0, 200)) mark = (mark * 31 + char.codePointAt(0)) | 0;
  return {
    end: box.scrollTop + sight >= box.scrollHeight - 2, in_sight: inSight, height: box.scrollHeight, mark,
  };
}"""
