"""Webhooks over TLS, against certificates right and wrong (J57)."""

import datetime as dt
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme

from penelope.clock import Clock
from penelope.jobs import delivery
from penelope.jobs.schedule import Verdict
from penelope.jobs.transitions import Attempt
from tests.io.conftest import NewReceiver
from tests.io.jobs_made import KEY, ended

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority that this machine trusts."""
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    return authority


def server(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


async def post(url: str) -> Attempt:
    clock = Clock()
    async with delivery.open_client() as client:
        return (await delivery.post(client, ended(url), keys=(KEY,), due=clock.now(), clock=clock)).attempt


async def test_a_good_certificate_of_an_authority_of_the_machine(
    trusted: trustme.CA, new_receiver: NewReceiver
) -> None:
    receiver = await new_receiver(tls=server(trusted.issue_cert("127.0.0.1")))
    assert Verdict.DELIVERED is (await post(receiver.url)).verdict
    assert 1 == len(receiver.received)


async def test_authorities_are_read_when_the_first_receiver_wants_them_and_once(
    trusted: trustme.CA, new_receiver: NewReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start does without."""
    read: list[ssl.SSLContext] = []
    of_the_machine = delivery.trust

    def counted() -> ssl.SSLContext:
        read.append(of_the_machine())
        return read[-1]

    monkeypatch.setattr(delivery, "trust", counted)
    plain, safe = await new_receiver(), await new_receiver(tls=server(trusted.issue_cert("127.0.0.1")))
    clock = Clock()

    async def delivered(url: str) -> bool:
        posted = await delivery.post(client, ended(url), keys=(KEY,), due=clock.now(), clock=clock)
        return posted.attempt.verdict is Verdict.DELIVERED

    async with delivery.open_client() as client:
        assert await delivered(plain.url)
        assert 0 == len(read)
        assert await delivered(safe.url)
        assert await delivered(safe.url)
        assert 1 == len(read)


def of_another_name(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert("another.example")


def expired(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert("127.0.0.1", not_before=LONG_AGO, not_after=LONG_AGO + dt.timedelta(30))


def of_a_stranger(_: trustme.CA) -> trustme.LeafCert:
    return trustme.CA().issue_cert("127.0.0.1")


@pytest.mark.parametrize(
    ("issue", "says"),
    [
        (of_another_name, "TLS: IP address mismatch, certificate is not valid for '127.0.0.1'."),
        (expired, "TLS: certificate has expired"),
        (of_a_stranger, "TLS: unable to get local issuer certificate"),
    ],
)
async def test_a_bad_certificate_waits_for_the_next_attempt_and_says_why(
    trusted: trustme.CA,
    new_receiver: NewReceiver,
    issue: Callable[[trustme.CA], trustme.LeafCert],
    says: str,
) -> None:
    receiver = await new_receiver(tls=server(issue(trusted)))
    attempt = await post(receiver.url)
    assert (Verdict.RETRY, says) == (attempt.verdict, attempt.error)
    assert [] == receiver.received


async def test_a_receiver_that_speaks_no_tls_says_so(nursery: trio.Nursery) -> None:
    async def greet(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(b"220 mail.example ESMTP\r\n")
            await stream.receive_some()

    (listener,) = await nursery.start(partial(trio.serve_tcp, greet, 0, host="127.0.0.1"))
    attempt = await post(f"https://127.0.0.1:{listener.socket.getsockname()[1]}/")
    assert (Verdict.RETRY, "TLS: WRONG_VERSION_NUMBER") == (attempt.verdict, attempt.error)
