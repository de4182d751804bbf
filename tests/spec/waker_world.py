"""A whole waker but for its port and its workers' processes, on the mock clock: a driver of this module's makes workers
that say of themselves what a test wants.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import trio

from penelope.clock import Clock
from penelope.errors import WorkerDown, WorkerLate
from penelope.settings import Settings
from penelope.waker import asking, config
from penelope.waker.app import create_app
from penelope.waker.gateway import Gateway
from penelope.waker.house import House, open_house
from penelope.waker.keeper import Keeper, Tools
from penelope.waker.model import Life, Order, Persona
from penelope.waker.records import Owed
from tests.spec.asgi import AppTransport
from tests.spec.world import EPOCH

KEY = "the-key-of-the-waker-0123456789"
READY_S = 2.0


@dataclass(eq=False)
class FakeWorker:
    """Attributes:
    in_flight: what it says.
    touched_at: when somebody last wanted something, Trio's clock.
    key: the one that it takes.
    silent: it answers nothing.
    stop_s: how long its stop takes; infinite: it ignores SIGTERM.
    asked: what came to it, but for `/activity`.
    """

    order: Order
    life: Life
    key: str
    in_flight: int = 0
    touched_at: float = field(default_factory=trio.current_time)
    memory_mb: float = 300.0
    silent: bool = False
    stop_s: float = 0.5
    asked: list[httpx.Request] = field(default_factory=list)
    questions: int = 0
    gone: trio.Event = field(default_factory=trio.Event)
    how: str = "ended with 0"

    async def answer(self, request: httpx.Request) -> httpx.Response:
        by_link = request.extensions.get("target", b"").startswith(b"/api/v1/media/")
        if not by_link and request.headers["Authorization"] != f"Bearer {self.key}":
            return httpx.Response(401, json={"success": False, "error": "no"})
        if request.url.path == "/api/v1/activity":
            self.questions += 1
            if self.silent:
                await trio.sleep_forever()
            idle = 0.0 if self.in_flight else trio.current_time() - self.touched_at
            said = {"in_flight": self.in_flight, "idle_for_s": idle, "rss_mb": 80.0}
            return httpx.Response(200, json={**said, "browser_rss_mb": self.memory_mb - 80.0})
        self.asked.append(request)
        self.touched_at = trio.current_time()
        return await self._passed(request)

    async def _passed(self, request: httpx.Request) -> httpx.Response:
        match request.extensions["target"].partition(b"?")[0].rsplit(b"/", 1)[1]:
            case b"slow":
                self.in_flight += 1
                try:
                    await trio.sleep(float(request.extensions["target"].partition(b"=")[2]))
                finally:
                    self.in_flight -= 1
                    self.touched_at = trio.current_time()
            case b"hangs-up":
                raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
            case b"cut":
                return httpx.Response(200, stream=_Cut())
        body = await request.aread() or b"{}"
        headers = {
            "X-Of": self.order.name,
            "Connection": "X-Hop",
            "X-Hop": "1",
            "Content-Length": str(len(body)),
        }
        return httpx.Response(201, headers=headers, stream=_Whole(body))


class _Whole(httpx.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:  # noqa: ASYNC900  # httpx asks for one
        yield self._body


class _Cut(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:  # noqa: ASYNC900  # httpx asks for one
        yield b"half"
        raise httpx.ReadError("reset")


class FakeDriver:
    """Attributes:
    workers: those that run, by persona.
    starts: how often each was started.
    at_once: the most that were ever starting side by side.
    """

    def __init__(self, clock: Clock) -> None:
        self.workers: dict[str, FakeWorker] = {}
        self.starts: Counter[str] = Counter()
        self.kills: list[str] = []
        self.fails: dict[str, str] = {}
        self.ready_s = READY_S
        self.starting = self.at_once = 0
        self.hurried = False
        self._clock = clock

    async def start(self, order: Order) -> Life:
        self.starts[order.name] += 1
        self.starting += 1
        self.at_once = max(self.at_once, self.starting)
        try:
            with trio.move_on_after(order.start_within_s):
                await trio.sleep(self.ready_s)
                if words := self.fails.get(order.name):
                    raise WorkerDown(f"the worker of {order.name} {words}", lines=["one", "two"])
                return self._ready(order).life
        finally:
            self.starting -= 1
        raise WorkerLate(f"the worker of {order.name} was not ready within {order.start_within_s:g} s")

    def _ready(self, order: Order) -> FakeWorker:
        number = 6000 + sum(self.starts.values())
        life = Life(
            pid=number,
            address=f"http://127.0.0.1:{order.port or number}",
            started_at=self._clock.now(),
            salt="salt",
            digest=order.digest("salt"),
        )
        worker = self.workers[order.name] = FakeWorker(order, life, order.key)
        return worker

    def left_behind(self, order: Order) -> FakeWorker:
        """A worker of an earlier waker's."""
        return self._ready(order)

    async def stop(self, name: str, kill_after_s: float) -> None:
        worker = self.workers.get(name)
        if worker is None:
            return
        with trio.move_on_after(kill_after_s) as scope:
            await trio.sleep(worker.stop_s)
        if scope.cancelled_caught:
            self.kills.append(name)
        self.end(name)

    def end(self, name: str, how: str = "ended with 0") -> None:
        worker = self.workers.pop(name)
        worker.how = how
        worker.gone.set()

    async def status(self) -> Mapping[str, Life]:
        await trio.lowlevel.checkpoint()
        return {name: worker.life for name, worker in self.workers.items()}

    def address(self, name: str) -> str | None:
        worker = self.workers.get(name)
        return None if worker is None else worker.life.address

    async def ended(self, name: str) -> str:
        worker = self.workers[name]
        await worker.gone.wait()
        return worker.how

    async def log(self, name: str, lines: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return [f"line {number} of {name}" for number in range(200)][-lines:]

    def hurry(self) -> None:
        self.hurried = True


class ToWorkers(httpx.AsyncBaseTransport):
    """What the waker sends, to the fake worker of that port."""

    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for worker in self._driver.workers.values():
            assert worker.life.address is not None
            if httpx.URL(worker.life.address).port == request.url.port:
                return await self._answer(worker, request)
        raise httpx.ConnectError("refused")

    async def _answer(self, worker: FakeWorker, request: httpx.Request) -> httpx.Response:
        """Its answer, or that it is gone."""
        found: list[httpx.Response | Exception] = []
        async with trio.open_nursery() as nursery:

            async def die() -> None:
                await worker.gone.wait()
                found.append(httpx.RemoteProtocolError("gone"))
                nursery.cancel_scope.cancel()

            nursery.start_soon(die)
            try:
                found.append(await worker.answer(request))
            except httpx.TransportError as exc:
                found.append(exc)
            nursery.cancel_scope.cancel()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]


@dataclass
class WakerWorld:
    """What outlasts a waker: its folder, its file, its key (and the one before), and the workers."""

    folder: Path
    text: str = "[personas.alice]\n[personas.bob]\n"
    keys: tuple[str, ...] = (KEY,)
    driver: FakeDriver | None = None
    turns: int = 2

    @property
    def file(self) -> Path:
        return self.folder / "personas.toml"

    @property
    def settings(self) -> Settings:
        previous = self.keys[1] if len(self.keys) > 1 else None
        return Settings.model_validate({"key": self.keys[0], "key_previous": previous, "port": 5050})

    def orders(self) -> dict[str, Order]:
        self.file.write_text(self.text)
        found = config.load(self.file, self.settings).by_name
        return {name: persona.order for name, persona in found.items()}


@dataclass
class WakerLife:
    """One waker. `http` has its key."""

    world: WakerWorld
    house: House
    driver: FakeDriver
    http: httpx.AsyncClient

    def keeper(self, name: str = "alice") -> Keeper:
        return self.house.get(name)

    def worker(self, name: str = "alice") -> FakeWorker:
        return self.driver.workers[name]

    async def get(self, path: str) -> Any:
        """What `/api/v1` answers, which must be well."""
        answer = await self.http.get(f"/api/v1{path}")
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def order(self, what: str, name: str = "alice") -> httpx.Response:
        return await self.http.post(f"/api/v1/personas/{name}/{what}")

    async def call(self, path: str = "main/plugin/x/y", name: str = "alice", **more: Any) -> httpx.Response:
        """Through the gateway."""
        return await self.http.post(f"/p/{name}/api/v1/{path}", **more)

    async def state(self, name: str = "alice") -> str:
        return str((await self.get(f"/personas/{name}"))["state"])

    def write(self, text: str) -> None:
        self.world.file.write_text(text)


@asynccontextmanager
async def live_waker(world: WakerWorld) -> AsyncGenerator[WakerLife]:
    """A waker on the world's file. Leaving the block without `house.close` is its crash."""
    world.file.write_text(world.text)
    state = world.folder / "waker"
    state.mkdir(exist_ok=True)
    clock = Clock(lambda: EPOCH + trio.current_time())
    driver = world.driver = world.driver or FakeDriver(clock)

    def read() -> list[Persona]:
        return list(config.load(world.file, world.settings).by_name.values())

    async with asking.open_client(ToWorkers(driver)) as client:
        tools = Tools(
            driver=driver,
            client=client,
            clock=clock,
            owed=Owed(state),
            turns=trio.CapacityLimiter(world.turns),
        )
        async with open_house(tools, read) as house, trio.open_nursery() as serving:
            gateway = Gateway(house, client, world.settings)
            transport = AppTransport(create_app(world.settings, house, gateway, driver), serving)
            http = httpx.AsyncClient(
                transport=transport,
                base_url="http://127.0.0.1:5050",
                headers={"Authorization": f"Bearer {KEY}"},
                timeout=None,
            )
            yield WakerLife(world, house, driver, http)
            serving.cancel_scope.cancel()
