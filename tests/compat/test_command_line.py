"""The public client's command line, by the function that its own dispatcher calls."""

import json
import re
from typing import Any

import pytest

from tests.compat.conftest import Client


async def said(client: Client, *words: str) -> str:
    """What a command that does well prints."""
    done = await client.command(*words)
    assert 0 == done["code"], done["printed"]
    printed: str = done["printed"]
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", printed)


async def submitted(client: Client, recipe: str, prompt: str = "x", *more: str) -> str:
    answer = json.loads(await said(client, "submit", prompt, "--recipe", recipe, "--json", *more))
    return str(answer["job_id"])


async def ended(client: Client, recipe: str, prompt: str = "x", *more: str) -> str:
    """The id of a run that is over."""
    lines = await said(client, "submit", prompt, "--recipe", recipe, "--wait", *more)
    return str(re.findall(r"run_[0-9a-f]{12}", lines)[0])


async def test_submit_says_where_to_look(client: Client) -> None:
    printed = await said(client, "submit", "Analyze this", "--recipe", "text")
    assert re.search(r"Job submitted: run_[0-9a-f]{12}\n", printed)
    assert re.search(r"Status URL: http://127\.0\.0\.1:\d+/api/v1/runs/run_[0-9a-f]{12}\n", printed)


async def test_submit_with_all_its_options(client: Client) -> None:
    options = (
        *("--recipe-config", '{"format": "json"}', "--session-id", "s2", "--timeout", "30"),
        *("--idempotency-key", "c1", "--idempotency-scope", "session", "--metadata", "a=b", "--stream"),
    )
    first = await submitted(client, "my-recipe", "Analyze", *options)
    assert first == await submitted(client, "my-recipe", "Analyze", *options)
    assert first != await submitted(client, "my-recipe", "Analyze", *options, "--session-id", "s3")
    assert "s2" in await said(client, "status", first, "--json")


async def test_submit_and_wait_prints_the_result(client: Client) -> None:
    printed = await said(client, "submit", "# Title", "--recipe", "text", "--wait")
    assert "Result" in printed
    assert "Title" in printed
    answers = await said(client, "submit", "x", "--recipe", "text", "--wait", "--json")
    assert '"result": "x"' in answers


async def test_submit_and_wait_for_one_that_fails(client: Client) -> None:
    printed = await said(client, "submit", "x", "--recipe", "fails", "--wait", "--json")
    assert '"status": "failed"' in printed
    assert "no luck" in printed


async def test_a_prompt_alone_is_refused_where_no_agent_is(client: Client) -> None:
    done = await client.command("submit", "Analyze this data")
    assert 1 == done["code"]
    assert "422" in done["printed"]


async def test_status_result_and_list(client: Client) -> None:
    run_id = await ended(client, "my-recipe")
    for words in (("Status: succeeded", "Progress: 100%"), (run_id, "Created: 20")):
        for word in words:
            assert word in await said(client, "status", run_id)
    assert '"input"' in await said(client, "result", run_id)
    printed = await said(client, "list", "--status", "succeeded", "--page", "1", "--page-size", "3")
    assert run_id in printed
    assert re.search(r"Total: \d+ jobs", printed)
    listed: Any = (await said(client, "list", "--json")).partition("Total")[2].partition("\n")[2]
    assert {"jobs", "total", "page", "page_size"} == set(json.loads(listed))
    assert "No jobs found" in await said(client, "list", "--page", "500")


@pytest.mark.parametrize(
    "words",
    [
        ("status", "run_0123456789ab"),
        ("result", "run_0123456789ab"),
        ("cancel", "run_0123456789ab"),
        ("stream", "run_0123456789ab"),
        ("list", "--status", "bogus"),
        ("list", "--page-size", "1000"),
    ],
)
async def test_what_cannot_be_is_exit_code_1(client: Client, words: tuple[str, ...]) -> None:
    assert 1 == (await client.command(*words))["code"]


async def test_cancel(client: Client) -> None:
    run_id = await submitted(client, "slow", "x", "--recipe-config", '{"seconds": 60}')
    assert f"Job cancelled: {run_id}" in await said(client, "cancel", run_id)
    assert 1 == (await client.command("cancel", run_id))["code"]
    assert "Job cancelled: None" in await said(client, "result", run_id)


async def test_stream_shows_progress_and_the_end(client: Client) -> None:
    """From the server that it was made for it prints nothing."""
    run_id = await submitted(client, "slow")
    printed = await said(client, "stream", run_id)
    assert "half of it | Progress: 25%" in printed
    assert "Progress: 50%" in printed
    assert "Progress: 100%" in printed
    assert "Job completed: succeeded" in printed


async def test_stream_of_one_that_fails(client: Client) -> None:
    printed = await said(client, "stream", await submitted(client, "fails"))
    assert "no luck" in printed


async def test_every_event_of_a_stream_is_json(client: Client) -> None:
    text = 'a "word",\na back\\slash and é'
    run_id = await ended(client, "text", text)
    lines = (await said(client, "stream", run_id, "--json")).splitlines()
    events = [json.loads(line) for line in lines]
    assert text == events[-1]["result"]
    assert ("complete", {"status": "succeeded"}) == (events[-1]["event"], events[-1]["data"])
