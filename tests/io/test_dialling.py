"""Where a POST goes, on real sockets: the address that was judged is the one dialled, and the name stays the name."""

import gc
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import trustme

from penelope.clock import Clock
from penelope.jobs import delivery
from penelope.jobs.answers import CLASSES
from penelope.jobs.deliveries import Deliveries
from penelope.jobs.ends import JobEnds
from penelope.jobs.ledger import Entry, Ledger
from penelope.jobs.schedule import Verdict
from penelope.jobs.screening import Rules, rules
from penelope.jobs.store import JobStore
from penelope.store.database import Database
from tests.io import receivers
from tests.io.conftest import NewReceiver, NewWorker
from tests.io.jobs_made import KEY, ended, stored
from tests.io.waiting import until

NAME = "receiver.example"
ANY = rules("any", (), None)
# The loopback addresses of a test stand for public ones, one by one; what is not among them is inside.
PUBLIC = rules("public", ("127.0.0.2", "127.0.0.3"), None)

# A POST that is cut off leaves generators of httpx's to the garbage collector, which Trio remarks upon.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")


@pytest.fixture(autouse=True)
def collect_here() -> Iterator[None]:
    yield
    gc.collect()


class Names(trio.abc.HostnameResolver):
    """A resolver under our thumb.

    Attributes:
        answers: the addresses of `NAME`, look-up for look-up; the last for ever.
        asked: every look-up of a name.
    """

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        family: int = 0,
        type: int = 0,  # noqa: A002
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host.decode() if isinstance(host, bytes) else str(host))
        if self.asked[-1] != NAME:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [entry for it in found for entry in socket.getaddrinfo(it, port, type=socket.SOCK_STREAM)]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        raise NotImplementedError


@pytest.fixture
def names() -> Callable[..., Names]:
    """Answers look-ups of the running test."""

    def answer(*answers: list[str]) -> Names:
        made = Names(*answers)
        trio.socket.set_custom_hostname_resolver(made)
        return made

    return answer


async def post(url: str, rule: Rules = ANY) -> Entry:
    clock = Clock()
    async with delivery.open_client(rules=rule) as client:
        return (await delivery.post(client, ended(url), keys=(KEY,), due=clock.now(), clock=clock)).entry


async def test_a_name_that_changes_between_two_look_ups_gains_nothing(
    names: Callable[..., Names], new_receiver: NewReceiver
) -> None:
    """J62: there is one look-up, and what it said is judged and dialled. The next attempt looks again."""
    resolver = names(["127.0.0.2"], ["127.0.0.1"])
    outside = await new_receiver(host="127.0.0.2")
    inside = await new_receiver(host="127.0.0.1", port=outside.port)
    entry = await post(f"http://{NAME}:{outside.port}/", PUBLIC)

    assert [NAME] == resolver.asked
    assert (200, "127.0.0.2", "delivered") == (entry.status, entry.address, entry.verdict)
    assert f"{NAME}:{outside.port}" == outside.received[0].header("Host")
    assert 0 == inside.connections

    again = await post(f"http://{NAME}:{outside.port}/", PUBLIC)
    assert ("policy", None, "retry") == (again.error_class, again.address, again.verdict)
    assert 0 == inside.connections


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.2", "::1"],
        ["::1", "127.0.0.2"],
        ["127.0.0.2", "127.0.0.3", "10.0.0.1"],
        ["127.0.0.2", "::ffff:10.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["::127.0.0.1"],
        ["ff02::1"],
        ["224.0.0.1"],
        ["fec0::1"],
        ["100.64.0.1"],
    ],
)
async def test_any_bad_address_refuses(
    names: Callable[..., Names], new_receiver: NewReceiver, addresses: list[str]
) -> None:
    """J63, J64, J66: also the good one is not dialled, since another look-up may put the bad one first."""
    names(addresses)
    outside = await new_receiver(host="127.0.0.2")
    entry = await post(f"http://{NAME}:{outside.port}/", PUBLIC)

    assert ("policy", None, None, "retry") == (entry.error_class, entry.address, entry.status, entry.verdict)
    assert str(entry.error).startswith("not sent: ")
    assert "WEBHOOK_POLICY=public" in str(entry.error)
    assert "WEBHOOK_ALLOW" in str(entry.error)
    assert 0 == outside.connections


async def test_the_worker_itself_is_found_behind_a_name(
    names: Callable[..., Names], new_receiver: NewReceiver
) -> None:
    """`lan` lets loopback through, but not the worker's own port."""
    names(["127.0.0.1"])
    worker, neighbour = await new_receiver(), await new_receiver()
    lan = rules("lan", (), ("127.0.0.1", worker.port))
    refused = await post(f"http://{NAME}:{worker.port}/", lan)

    assert "policy" == refused.error_class
    assert "127.0.0.1 is the worker itself, which WEBHOOK_POLICY=lan refuses" in str(refused.error)
    assert 0 == worker.connections
    assert "delivered" == (await post(f"http://{NAME}:{neighbour.port}/", lan)).verdict


async def test_without_a_policy_the_address_is_known_too(
    names: Callable[..., Names], new_receiver: NewReceiver
) -> None:
    resolver = names(["127.0.0.1"])
    receiver = await new_receiver()
    assert "127.0.0.1" == (await post(f"http://{NAME}:{receiver.port}/")).address
    assert "127.0.0.1" == (await post(receiver.url)).address
    assert [NAME] == resolver.asked  # an address is not looked up


async def test_where_one_address_is_dead_the_next_is_dialled(
    names: Callable[..., Names], new_receiver: NewReceiver
) -> None:
    """It is the one that the ledger has."""
    names(["127.0.0.3", "127.0.0.2"])
    alive = await new_receiver(host="127.0.0.2")
    entry = await post(f"http://{NAME}:{alive.port}/", PUBLIC)
    assert ("delivered", "127.0.0.2") == (entry.verdict, entry.address)


# TLS


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority that this machine trusts."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return authority


def server(certificate: trustme.LeafCert, asked_for: list[str | None]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    context.sni_callback = lambda _socket, name, _context: asked_for.append(name)
    return context


async def test_over_tls_the_name_stays_the_name(
    names: Callable[..., Names], new_receiver: NewReceiver, trusted: trustme.CA
) -> None:
    """SNI and the certificate's check are by name, the connection is to the address."""
    names(["127.0.0.2"])
    asked_for: list[str | None] = []
    receiver = await new_receiver(tls=server(trusted.issue_cert(NAME), asked_for), host="127.0.0.2")
    entry = await post(f"https://{NAME}:{receiver.port}/", PUBLIC)

    assert (200, "127.0.0.2") == (entry.status, entry.address)
    assert [NAME] == asked_for
    assert f"{NAME}:{receiver.port}" == receiver.received[0].header("Host")


async def test_a_certificate_of_the_address_is_not_one_of_the_name(
    names: Callable[..., Names], new_receiver: NewReceiver, trusted: trustme.CA
) -> None:
    names(["127.0.0.2"])
    receiver = await new_receiver(tls=server(trusted.issue_cert("127.0.0.2"), []), host="127.0.0.2")
    entry = await post(f"https://{NAME}:{receiver.port}/", PUBLIC)

    assert ("tls", "127.0.0.2", "retry") == (entry.error_class, entry.address, entry.verdict)
    assert "Hostname mismatch" in str(entry.error)
    assert [] == receiver.received


async def test_a_handshake_that_is_cut_off_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """One that never answers the client's hello."""
    monkeypatch.setattr(delivery, "WEBHOOK_TIMEOUT_S", 0.3)
    over = trio.Event()

    async def swallow(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            pass
        over.set()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, swallow, [listener])
    entry = await post(f"https://127.0.0.1:{listener.socket.getsockname()[1]}/")
    assert ("timeout", "127.0.0.1") == (entry.error_class, entry.address)
    with trio.fail_after(1):
        await over.wait()
    nursery.cancel_scope.cancel()


# Classes


@asynccontextmanager
async def closed_port() -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    yield f"http://127.0.0.1:{port}/"


async def ssh(stream: receivers.Stream, _: receivers.Received) -> None:
    await stream.send_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


BEHAVIOURS: list[tuple[str, receivers.Behaviour, str, str]] = [
    ("reset", receivers.reset, "connection reset", "retry"),
    ("timeout", receivers.hang, "no answer within 0 s", "retry"),
    ("broken", ssh, "broken answer: ", "retry"),
    (
        "redirect",
        receivers.status(308, "Location: /there"),
        "answered 308 to '/there', not followed",
        "give up",
    ),
    ("http_4xx", receivers.status(404), "answered 404", "give up"),
    ("http_4xx", receivers.status(429), "answered 429", "retry"),
    ("http_5xx", receivers.status(503), "answered 503", "retry"),
    ("other", receivers.status(600), "answered 600", "give up"),
]


@pytest.mark.parametrize(("error_class", "behaviour", "says", "verdict"), BEHAVIOURS)
async def test_each_way_to_fail_has_its_class(
    new_receiver: NewReceiver,
    monkeypatch: pytest.MonkeyPatch,
    error_class: str,
    behaviour: receivers.Behaviour,
    says: str,
    verdict: str,
) -> None:
    """J57; and the address is known in each."""
    monkeypatch.setattr(delivery, "WEBHOOK_TIMEOUT_S", 0.4)
    receiver = await new_receiver(behaviour)
    entry = await post(receiver.url)

    assert (error_class, verdict, "127.0.0.1") == (entry.error_class, entry.verdict, entry.address)
    assert str(entry.error).startswith(says)
    assert ("127.0.0.1", receiver.port, 1) == (entry.host, entry.port, entry.attempt)
    assert (error_class[:4] == "http" or verdict == "give up") == (entry.status is not None)


async def test_each_way_not_to_connect_has_its_class(names: Callable[..., Names]) -> None:
    names(["127.0.0.1"])
    async with closed_port() as url:
        refused = await post(url)
    assert ("refused", "127.0.0.1") == (refused.error_class, refused.address)
    nobody = await post("http://no-such-name.example/")
    assert ("dns", None, "no such host: Name or service not known") == (
        nobody.error_class,
        nobody.address,
        nobody.error,
    )
    broadcast = await post("http://255.255.255.255/")
    assert ("unreachable", "255.255.255.255") == (broadcast.error_class, broadcast.address)


async def test_a_look_up_that_hangs_is_over_with_the_time(
    names: Callable[..., Names], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "WEBHOOK_TIMEOUT_S", 0.3)

    async def hang(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(names(["127.0.0.1"]), "getaddrinfo", hang)
    entry = await post(f"http://{NAME}/")
    assert ("timeout", None, Verdict.RETRY.value) == (entry.error_class, entry.address, entry.verdict)


async def test_no_descriptor_is_left_open_by_any_way_to_end(
    names: Callable[..., Names],
    new_receiver: NewReceiver,
    trusted: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """J115: not even until the garbage is collected."""
    monkeypatch.setattr(delivery, "WEBHOOK_TIMEOUT_S", 0.1)
    names(["127.0.0.1"])
    wrong = server(trusted.issue_cert("another.example"), [])
    urls = [
        (await new_receiver(behaviour)).url
        for behaviour in (
            receivers.status(200, body=b"x" * 100_000),
            receivers.status(302),
            receivers.reset,
            receivers.hang,
            receivers.drip_headers,
            receivers.endless(200),
            ssh,
        )
    ]
    urls += [(await new_receiver(tls=wrong)).url, "http://no-such-name.example/"]
    silent = await new_receiver(None)
    urls += [silent.url, silent.url.replace("http:", "https:")]
    async with closed_port() as url:
        urls.append(url)
    monkeypatch.setattr(delivery, "DRAIN_S", 0.05)
    before = -1
    gc.disable()
    try:
        async with delivery.open_client() as client:
            for rounds in (1, 5):  # the first one opens what stays, e.g. the authorities' file
                for url in urls * rounds:
                    job, clock = ended(url, "x" * 100_000), Clock()
                    await delivery.post(client, job, keys=(KEY,), due=clock.now(), clock=clock)
                if rounds == 1:
                    await trio.sleep(0.3)
                    before = ours()
            assert before == ours()
    finally:
        gc.enable()


def ours() -> int:
    """Connections of this process that it dialled: those of the receivers are theirs to close."""
    open_now = psutil.Process().net_connections("tcp")
    listening = {it.laddr.port for it in open_now if it.status == psutil.CONN_LISTEN}
    return len([it for it in open_now if it.laddr.port not in listening])


def test_no_class_is_untried() -> None:
    """Each has its real socket above."""
    elsewhere = {"dns", "policy", "refused", "unreachable", "tls"}
    assert set(CLASSES) == elsewhere | {error_class for error_class, *_ in BEHAVIOURS}


async def test_a_refused_job_shows_why_and_looks_again(
    names: Callable[..., Names], new_receiver: NewReceiver, database: Database
) -> None:
    """It waits for its next attempt, with the reason in `delivery.error` and a row in the ledger."""
    names(["10.0.0.1"])
    store, clock = JobStore(database), Clock()

    async def sweep_media(_: float) -> None:
        await trio.lowlevel.checkpoint()

    job = await stored(store, ended(f"http://{NAME}/"))

    async def tried() -> bool:
        found = await store.get(job.job_id)
        return found is not None and found.attempts == 1

    async with delivery.open_client(rules=PUBLIC) as client, trio.open_nursery() as nursery:
        deliveries = Deliveries(nursery, client, JobEnds(store, clock), clock, (KEY,), sweep_media)
        deliveries.start(job)
        await until(tried)
        assert {job.job_id} == deliveries.pending
        nursery.cancel_scope.cancel()
    waiting = await store.get(job.job_id)
    assert waiting is not None
    assert (
        "not sent: 10.0.0.1 is a private address, which WEBHOOK_POLICY=public refuses "
        "(WEBHOOK_ALLOW lets single hosts and networks through)"
    ) == waiting.error
    ((_, entry),) = await Ledger(database).newest(limit=10)
    assert (waiting.error, "policy", job.job_id, NAME, 80) == (
        entry.error,
        entry.error_class,
        entry.job_id,
        entry.host,
        entry.port,
    )


# The worker


async def test_a_worker_keeps_its_webhooks_off_itself_and_remembers_them(
    new_worker: NewWorker, new_receiver: NewReceiver
) -> None:
    """Its port was chosen by the system: the rule knows it all the same. The ledger outlives a kill."""
    receiver = await new_receiver(receivers.statuses(503, 200))
    worker = new_worker(WEBHOOK_POLICY="lan")
    await worker.start()
    call = "/api/v1/main/plugin/tested/echo"
    async with worker.client() as client:
        refused = await client.get(call, headers={"X-Callback-Url": f"{worker.base_url}/hooks"})
        assert 400 == refused.status_code
        assert "the worker itself, which WEBHOOK_POLICY=lan refuses" in refused.json()["error"]
        started = await client.get(call, headers={"X-Callback-Url": receiver.url})
        assert 202 == started.status_code
        await receiver.wait_for(1)

        async def noted() -> bool:
            return bool((await client.get("/api/v1/deliveries")).json()["deliveries"])

        await until(noted)
    await worker.kill()
    await worker.start()
    async with worker.client() as client:
        (row,) = (await client.get("/api/v1/deliveries")).json()["deliveries"]
    assert (started.json()["job_id"], "http_5xx", "127.0.0.1") == (
        row["job_id"],
        row["error_class"],
        row["address"],
    )
