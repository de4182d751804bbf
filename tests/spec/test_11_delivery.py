"""Contract, section 11: signatures and the change of keys, where a POST may go, the ledger, traces."""

import httpx
import pytest
import trio

from penelope import signing
from penelope.signing import BadSignature
from tests.spec.receiver import Receiver
from tests.spec.world import KEY, Life, World, live

OLD_KEY = "the-key-before-0123456789"


# Signatures


async def test_each_attempt_is_signed_as_standard_webhooks_has_it(life: Life, receiver: Receiver) -> None:
    """Beside `X-Penelope-Signature`: `webhook-id` (the job), `webhook-timestamp`, `webhook-signature`."""
    receiver.answers(500, 200)
    job_id = await life.start("echo")
    await trio.sleep(61)

    assert 2 == len(receiver.posts)
    for post, now in zip(receiver.posts, (life.now() - 61, life.now() - 1), strict=True):
        assert signing.is_signed(post.body, post.headers["X-Penelope-Signature"], KEY)
        assert job_id == signing.verify(post.body, post.headers, KEY, now=now, tolerance_s=2)
        with pytest.raises(BadSignature):
            signing.verify(post.body, post.headers, OLD_KEY, now=now)


async def test_during_a_rotation_both_keys_sign(world: World, receiver: Receiver) -> None:
    """`PENELOPE_KEY_PREVIOUS`; our own signature has one value, the new key's."""
    world.settings["key_previous"] = OLD_KEY
    async with live(world) as life:
        job_id = await life.start("echo")
        await trio.sleep(1)
        (post,) = receiver.posts
        for key in (KEY, OLD_KEY):
            assert job_id == signing.verify(post.body, post.headers, key, now=life.now())
        assert signing.is_signed(post.body, post.headers["X-Penelope-Signature"], KEY)


async def test_during_a_rotation_both_keys_open_the_api(world: World) -> None:
    """And a third one does not; without the setting the old one does not either."""

    async def statuses() -> list[int]:
        async with live(world) as life:
            answers = [await ask(life.http, key) for key in (KEY, OLD_KEY, "another-key-0123456789")]
            return [answer.status_code for answer in answers]

    assert [200, 401, 401] == await statuses()
    world.settings["key_previous"] = OLD_KEY
    assert [200, 200, 401] == await statuses()


async def ask(client: httpx.AsyncClient, key: str) -> httpx.Response:
    return await client.get("/api/v1/pages", headers={"Authorization": f"Bearer {key}"})
