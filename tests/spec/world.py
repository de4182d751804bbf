"""A whole worker but for its browser, its port and its network, on the mock clock.

A `World` is what outlasts a worker: the store's folder, the wall clock, the receiver. A `Life` is one worker on it.
"""

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import trio

from penelope.births import watch_births
from penelope.clock import Clock
from penelope.http.app import create_app
from penelope.http.worker import Worker
from penelope.jobs.dialling import refusal_now
from penelope.jobs.ledger import Ledger
from penelope.jobs.nurseries import open_supervisor
from penelope.jobs.screening import rules
from penelope.jobs.store import JobStore
from penelope.jobs.supervisor import Parts, Supervisor
from penelope.main import COOKIES
from penelope.pages.manager import MAIN, PageManager
from penelope.runs.service import Limits, Runs, open_runs
from penelope.runs.store import RunStore
from penelope.settings import Settings
from penelope.store.database import Database, open_database
from penelope.store.lock import hold_store
from penelope.store.media import MediaStore
from penelope.store.persona import PersonaStore
from penelope.store.request_log import RequestLog
from penelope.worker import MIB, run_rules
from tests.spec.asgi import AppTransport
from tests.spec.fakes import FakeDriver, FakePage, FakeTab
from tests.spec.plugins import REGISTRY
from tests.spec.receiver import URL, Receiver
from tests.spec.works import plan

KEY = "a-key-of-the-tests-0123456789"
EPOCH = 1_800_000_000.0  # what the wall shows when Trio's clock shows 0

_Result = TypeVar("_Result")


async def inline(function: Callable[[], _Result], /) -> _Result:
    """Run blocking work in place: the mock clock does not see threads, and would jump while one works."""
    await trio.lowlevel.checkpoint()
    return function()


@dataclass
class World:
    """Attributes:
    store: the folder.
    skew: by how many seconds somebody moved the wall clock.
    settings: fields of `Settings` that are not the default.
    """

    store: Path
    skew: float = 0.0
    receiver: Receiver = field(default_factory=Receiver)
    settings: dict[str, Any] = field(default_factory=dict)

    def wall(self) -> float:
        return EPOCH + trio.current_time() + self.skew

    def image(self) -> "World":
        """What the disk would have if the worker were killed now: a copy of the store, on which another can start."""
        copy = self.store.with_name(self.store.name + "'")
        shutil.copytree(self.store, copy)
        return World(copy, self.skew, self.receiver, self.settings)


@dataclass
class Life:
    """One worker.

    Attributes:
        http: a client that has the key.
        closing: whether leaving the block is a stop that waits for its calls.
    """

    world: World
    http: httpx.AsyncClient
    worker: Worker
    driver: FakeDriver
    database: Database

    @property
    def supervisor(self) -> Supervisor:
        return self.worker.supervisor

    @property
    def tab(self) -> FakeTab:
        return self.driver.tabs[MAIN]

    @property
    def page(self) -> FakePage:
        return self.tab.page

    def now(self) -> float:
        return self.worker.clock.now()

    async def call(self, name: str, page_id: str = MAIN, headers: Any = None, **body: Any) -> httpx.Response:
        """A plain call."""
        return await self.http.post(f"/api/v1/{page_id}/plugin/test/{name}", json=body, headers=headers)

    async def ask(self, name: str, page_id: str = MAIN, headers: Any = None, **body: Any) -> httpx.Response:
        """Ask for a webhook job."""
        given = {"X-Callback-Url": URL, **(headers or {})}
        return await self.call(name, page_id, given, **body)

    async def start(self, name: str, page_id: str = MAIN, ttl: float | None = None, **body: Any) -> str:
        """Start a job, which must be accepted; its id. `ttl` None: a webhook job."""
        headers = {"X-Callback-Url": URL} if ttl is None else {"X-Result-Ttl": f"{ttl:g}"}
        answer = await self.call(name, page_id, headers, **body)
        assert 202 == answer.status_code, answer.text
        return str(answer.json()["job_id"])

    async def poll(self, job_id: str) -> httpx.Response:
        return await self.http.get(f"/api/v1/jobs/{job_id}")

    async def shown(self, job_id: str) -> Any:
        """The job as a poll shows it, which must answer."""
        answer = await self.poll(job_id)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def gone(self, job_id: str) -> bool:
        return (await self.poll(job_id)).status_code == 404

    async def open(self, page_id: str) -> None:
        assert 201 == (await self.http.post("/api/v1/pages", json={"page_id": page_id})).status_code

    async def stop(self) -> None:
        """A `SIGTERM`: return when the calls are drained; the block must end next."""
        self.supervisor.stop()
        await self.supervisor.drained.wait()


@asynccontextmanager
async def live(world: World) -> AsyncGenerator[Life]:
    """A worker on the world's store, nested as in `penelope.main`. Leaving the block without `stop` cuts it off."""
    settings = Settings.model_validate({"key": KEY, "store": world.store, **world.settings})
    births = watch_births()
    with hold_store(world.store):
        async with open_database(world.store / "penelope.db", run=inline) as database:
            clock = Clock(world.wall)
            clock.at_least(await JobStore(database).newest() or 0.0)
            clock.at_least(await RunStore(database).newest() or 0.0)
            persona = PersonaStore(database)
            cookies = await persona.load(COOKIES)
            driver = FakeDriver(cookies)

            def keep(text: str) -> Awaitable[None]:
                return persona.save(COOKIES, text, clock.now())

            pages = PageManager(
                driver, clock, max_pages=settings.max_pages, keep_cookies=keep, cookies=cookies
            )
            await pages.open(MAIN)
            media = MediaStore(
                database,
                world.store / "media",
                cap_bytes=settings.media_max_mb * MIB,
                clock=clock,
                run=inline,
            )
            parts = Parts(
                pages=pages,
                store=JobStore(database),
                media=media,
                requests=RequestLog(database),
                ledger=Ledger(database),
                clock=clock,
                keys=settings.keys,
                stop_grace_s=settings.stop_grace_s,
                page_memory_bytes=settings.page_memory_mb * MIB,
                rules=rules(settings.webhook_policy, settings.webhook_allow, (settings.host, settings.port)),
                run_rules=run_rules(settings, (settings.host, settings.port)),
                transport=world.receiver,
            )
            limits = Limits(
                concurrent=settings.runs_max_concurrent,
                admitted=settings.runs_admitted,
                resume=settings.runs_resume_queued,
            )
            async with (
                open_supervisor(parts) as supervisor,
                open_runs(Runs(supervisor, parts, REGISTRY, RunStore(database), plan, limits)) as runs,
            ):
                worker = Worker(
                    settings=settings,
                    registry=REGISTRY,
                    clock=clock,
                    pages=pages,
                    jobs=parts.store,
                    media=media,
                    requests=parts.requests,
                    ledger=parts.ledger,
                    supervisor=supervisor,
                    runs=runs,
                    planner=plan,
                    screen=partial(refusal_now, parts.run_rules),
                    started_at=clock.now(),
                    births=births,
                )
                async with trio.open_nursery() as serving:
                    app = create_app(worker)
                    transport = AppTransport(app, serving, app.at_once)
                    http = httpx.AsyncClient(
                        transport=transport,
                        base_url="http://127.0.0.1:5000",
                        headers={"Authorization": f"Bearer {KEY}"},
                        timeout=None,
                    )
                    yield Life(world, http, worker, driver, database)
                    serving.cancel_scope.cancel()
