"""Section 5: what waits for a POST does not wait in memory."""

import gc

import pytest
import trio

from penelope.jobs.model import Job
from tests.spec.receiver import Receiver, slow
from tests.spec.world import Life, World, live

LARGE = 500_000


def held() -> int:
    """How many large results are in memory as part of a job."""
    gc.collect()
    return sum(isinstance(o, Job) and len(o.result or "") > LARGE for o in gc.get_objects())


@pytest.mark.parametrize("attempts", [1, 2, 3])
async def test_between_the_attempts_no_result_waits_in_memory(
    life: Life, receiver: Receiver, attempts: int
) -> None:
    """A thousand of 50 MB would not fit: the store has them."""
    receiver.answers(500)
    job_id = await life.start("result", what="big")
    await trio.sleep({1: 30, 2: 200, 3: 500}[attempts])
    assert attempts == len(receiver.posts)
    assert 0 == held()
    receiver.answers(200)
    await trio.sleep(400)
    assert await life.gone(job_id)
    assert receiver.posts[0].json["result"] == receiver.posts[-1].json["result"]


async def test_what_waits_behind_a_slow_receiver_waits_in_the_store(world: World) -> None:
    """At most 32 POSTs at a time to one host: the rest wait their turn, without their results."""
    world.settings = {"max_pages": 60}
    world.receiver.answers(slow(9))
    async with live(world) as life:
        for number in range(50):
            await life.open(f"p{number}")
            await life.start("result", f"p{number}", what="big")
        await trio.sleep(5)
        assert 32 == world.receiver.now
        assert held() <= 32
        await trio.sleep(20)
        assert 50 == len(world.receiver.posts)
        assert all(post.json["result"]["success"] for post in world.receiver.posts)
