"""Clients that start jobs of every kind without pause, one on each page, and look how they went."""

import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import trio

from tests.io.receivers import Receiver
from tests.kill.record import SHORT_TTL_S, End, Record, Story, demand

PAGES: Final = ("main", "second", "third")
LOOK_AGAIN_S: Final = 0.03
TTLS: Final = (1.0, SHORT_TTL_S, 120.0, 300.0, 600.0)
FIRST_TTL_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Ask:
    """A job to be had: plugin, body, and whether its result says the value (a bug's does not)."""

    plugin: str
    body: dict[str, Any]
    says: bool = True


@dataclass(frozen=True, slots=True)
class Start:
    """One request; what repeats it is the same. `key` is its Idempotency-Key, None: it has none."""

    page_id: str
    ask: Ask
    value: str
    ttl: float | None
    url: str | None
    key: str | None
    limit_s: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        way = {"X-Callback-Url": self.url} if self.url is not None else {"X-Result-Ttl": f"{self.ttl:g}"}
        if self.key is not None:
            way["Idempotency-Key"] = self.key
        if self.limit_s is not None:
            way["X-Job-Timeout"] = f"{self.limit_s:g}"
        return way


def any_ask(dice: random.Random) -> Ask:
    """A job of one of the kinds that there are."""
    (kind,) = dice.choices(
        ("now", "page", "long", "fail", "bug", "steps", "files", "large", "deaf"),
        weights=(5, 2, 4, 2, 1, 4, 3, 1, 1),
    )
    match kind:
        case "long":
            return Ask(kind, {"seconds": round(dice.uniform(0.1, 3.0), 2)})
        case "fail":
            return Ask(kind, {"seconds": dice.choice((0.0, 0.2))})
        case "bug":
            return Ask(kind, {}, says=False)
        case "steps":
            return Ask(kind, {"count": dice.randrange(1, 12)})
        case "files":
            return Ask(kind, {"count": dice.randrange(1, 4)})
        case "large":
            return Ask(kind, {"kib": dice.choice((64, 1024))})
        case "deaf":
            return Ask(kind, {"seconds": 2.0})
        case _:
            return Ask(kind, {})


class _Body(httpx.AsyncByteStream):
    """A request's body whose iterator is no generator: httpx's own is left half-used when the worker dies under it, and
    says so when it is collected.
    """

    def __init__(self, body: bytes) -> None:
        self._left = [body]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


async def unbroken(request: httpx.Request) -> None:
    """For a client's `event_hooks`, of each request."""
    request.stream = _Body(await request.aread())


class Load:
    """The clients of one life of the worker."""

    def __init__(
        self,
        record: Record,
        client: httpx.AsyncClient,
        receivers: list[str],
        seed: str,
        unsure: "list[Start] | None" = None,
    ) -> None:
        """
        Args:
            receivers: URLs, each as often as it is to be taken.
            unsure: starts with a key whose answer broke off; they are made again, and those of this life come in.
        """
        self._unsure = [] if unsure is None else unsure
        self._record = record
        self._client = client
        self._receivers = receivers
        self._seed = seed

    async def run(self) -> None:
        """Until cancelled, or the worker is gone."""
        async with trio.open_nursery() as nursery:
            for page_id in PAGES:
                nursery.start_soon(self._work, page_id)
            nursery.start_soon(self.look_at_all)

    async def first(self) -> None:
        """No life leaves a page claimed for the next: the first start on it is accepted, without a wait."""
        answer = await self._start(self._new("main", Ask("now", {}), FIRST_TTL_S))
        demand(answer.status_code == 202, "the first start answered", answer.status_code, answer.text)

    async def _work(self, page_id: str) -> None:
        dice = random.Random(f"{self._seed} {page_id}")
        try:
            if page_id != "main":
                await self._client.post("/api/v1/pages", json={"page_id": page_id})
            for start in [start for start in self._unsure if start.page_id == page_id]:
                await self._accepted(start)
                self._unsure.remove(start)
                self._record.counts["repeated"] += 1
            while True:
                await self._one(page_id, dice)
        except httpx.TransportError:
            return

    async def _one(self, page_id: str, dice: random.Random) -> None:
        if dice.random() < 0.5:
            ttl, url = dice.choice(TTLS), None
        else:
            ttl, url = None, dice.choice(self._receivers)
        key = f"{self._seed}-{page_id}-{dice.random()}".replace(" ", "-") if dice.random() < 0.5 else None
        ask, watches = any_ask(dice), dice.random() < 0.5
        start = self._new(page_id, ask, ttl, url, key, 0.5 if dice.random() < 0.1 else None)
        story = self._record.jobs[await self._accepted(start)]
        if dice.random() < 0.15:
            await trio.sleep(dice.uniform(0.0, 0.5))
            await self._cancel(story)
        if watches and ttl is not None:
            while not (story.shown or story.gone):
                await trio.sleep(LOOK_AGAIN_S)
                await self.look(story)

    async def _cancel(self, story: Story) -> None:
        """Cancelled is an end like any other: once it was answered, it is the one."""
        answer = await self._client.delete(f"/api/v1/jobs/{story.job_id}")
        demand(
            answer.status_code in {200, 404, 409, 503}, "a cancel answered", answer.status_code, answer.text
        )
        if answer.status_code == 200:
            demand(answer.json()["state"] == "cancelled", story.job_id, "is not cancelled:", answer.text)
            story.ends_as(End.of(answer.json()), "its cancel")
            self._record.counts["cancelled"] += 1

    def _new(
        self,
        page_id: str,
        ask: Ask,
        ttl: float | None,
        url: str | None = None,
        key: str | None = None,
        limit_s: float | None = None,
    ) -> Start:
        value = f"value {len(self._record.jobs)} {time.monotonic_ns():x}"
        return Start(page_id, ask, value, ttl, url, key, limit_s)

    async def _accepted(self, start: Start) -> str:
        """Ask until the page is free; the job's id."""
        while True:
            answer = await self._start(start)
            if answer.status_code == 202:
                return str(answer.json()["job_id"])
            demand(answer.status_code in {404, 409, 503}, "a start answered", answer.status_code, answer.text)
            if answer.status_code == 404:  # the page opens again
                await self._client.post("/api/v1/pages", json={"page_id": start.page_id})
            await trio.sleep(LOOK_AGAIN_S)

    async def _start(self, start: Start) -> httpx.Response:
        path = f"/api/v1/{start.page_id}/plugin/kill/{start.ask.plugin}"
        asked_at = time.monotonic()
        body = {"value": start.value, **start.ask.body}
        try:
            answer = await self._client.post(path, json=body, headers=start.headers)
        except httpx.TransportError:
            if start.key is not None and start not in self._unsure:
                self._unsure.append(start)
            raise
        if answer.status_code == 202:
            job_id, value = answer.json()["job_id"], start.value if start.ask.says else ""
            if answer.headers.get("Idempotency-Replayed") == "true":
                demand(start.key is not None, job_id, "was replayed without a key")
                self._record.counts["replayed"] += 1
            self._record.accepted(job_id, value, start.ttl, asked_at)
        return answer

    async def look_at_all(self) -> None:
        """Ask for each job that has not come to its end."""
        try:
            for story in [story for story in self._record.jobs.values() if not story.gone]:
                if story.ttl is None or not story.shown:
                    await self.look(story)
        except httpx.TransportError:
            return

    async def look(self, story: Story) -> None:
        """Ask for a job, and for its first file when it has ended."""
        asked_at = time.monotonic()
        answer = await self._client.get(f"/api/v1/jobs/{story.job_id}")
        self._record.counts["polls"] += 1
        if answer.status_code == 404:
            self._record.check_gone(story)
            return
        demand(answer.status_code == 200, "a poll answered", answer.status_code, answer.text)
        shown = answer.json()
        if shown["state"] == "running":
            demand(story.end is None, story.job_id, "runs again, having ended as", story.end)
            story.seen_at = asked_at
            return
        story.ends_as(End.of(shown), "a poll")
        if not story.shown:
            story.shown = True
            await self._fetch_file(story)

    async def _fetch_file(self, story: Story) -> None:
        """A file lives as long as its result, and is handed over whole, once."""
        assert story.end is not None
        links = story.end.result.get("files", [])
        if not links:
            return
        answer = await self._client.get(links[0]["url"])
        demand(answer.status_code == 200, story.job_id, "has no file", links[0], answer.status_code)
        demand(answer.text == story.value, story.job_id, "has another file:", answer.text[:80])
        self._record.counts["files"] += 1


def urls(receivers: dict[str, Receiver], dead_port: int) -> list[str]:
    """Where webhooks go: mostly to somebody who takes them; seldom to one who holds each stop up for 10 s."""
    shares = {"good": 20, "slow": 8, "flaky": 8, "failing": 4, "refusing": 4, "resetting": 4, "hanging": 1}
    found = [receivers[name].url for name, share in shares.items() if name in receivers for _ in range(share)]
    return [*found, *[f"http://127.0.0.1:{dead_port}/hooks/dead"] * 4]
