"""The steps of the demo: each shows what it does, does it, and checks what came of it.

Source: contract, sections 2 (a plain call), 5 (jobs), 6 (media) and 8 (stops).
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from penelope.demo.child import StepFailed, Worker
from penelope.demo.curl import Request, preamble
from penelope.demo.show import Show
from penelope.demo.webhook import Delivery, verify

POLL_EVERY_S: Final = 0.3
FORGET_S: Final = 5.0
PNG: Final = b"\x89PNG\r\n\x1a\n"


class Walk:
    """The steps, in order."""

    def __init__(self, show: Show, worker: Worker, *, key: str, site: str) -> None:
        self._show = show
        self._worker = worker
        self._key = key
        self._site = site

    async def all(self, hook: str, deliveries: "trio.MemoryReceiveChannel[Delivery]", folder: Path) -> None:
        await self._start()
        await self._plain_call()
        await self._polled_job()
        await self._webhook_job(hook, deliveries)
        await self._screenshot(folder)
        await self._stop()

    async def _start(self) -> None:
        self._show.step("A worker, and a site to work on")
        self._show.note(f"site    {self._site}   `penelope demo-site`; everybody on it is made up")
        self._show.note(f"worker  {self._worker.origin}   `penelope serve`, process {self._worker.pid}")
        began = trio.current_time()
        await self._worker.wait_ready()
        self._show.verified(f"ready after {trio.current_time() - began:.1f} s")
        self._show.note("While this runs, the lines below work in your shell too, after:")
        self._show.preamble(preamble(self._worker.origin, self._key))

    async def _plain_call(self) -> None:
        self._show.step("1. A plain call: ask, wait, have the answer")
        answer = await self._ask(
            Request(path="/main/plugin/instagram/open-account", body={"handle": "alice"}), expected=200
        )
        _check(
            answer.get("handle") == "alice" and answer.get("success") is True, "the answer is not about alice"
        )
        self._show.verified("the browser opened the profile, the plugin read it")

    async def _polled_job(self) -> None:
        self._show.step("2. A job, polled: the same way in, with a header")
        request = Request(path="/main/plugin/instagram/get-following", headers={"X-Result-Ttl": "600"})
        accepted = await self._ask(request, expected=202)
        poll = Request(path=f"/jobs/{accepted['job_id']}")
        _check(accepted["status_url"] == f"/api/v1{poll.path}", "status_url is not the job's")
        self._show.command(poll.line())
        job = await self._poll(poll)
        self._show.answer(200, job)
        result = job["result"]
        _check(
            job["state"] == "done" and job["status"] == 200,
            f"the job ended as {job['state']} {job['status']}",
        )
        _check(len(result["following"]) == result["total"] > 0, "the list is not whole")
        self._show.verified(f"{len(result['following'])} accounts; kept for {job['expires_in']:.0f} s more")

    async def _poll(self, request: Request) -> dict[str, Any]:
        """Ask until the job has ended; meanwhile show how far the plugin says it is."""
        began = trio.current_time()
        with self._show.live() as live:
            while (job := _read(await self._worker.send(request), 200))["state"] == "running":
                elapsed = trio.current_time() - began
                doing = await self._progress(job["job_id"])
                live.update(f"{elapsed:4.1f} s  {job['state']}  {doing}")
                await trio.sleep(POLL_EVERY_S)
        return job

    async def _progress(self, job_id: str) -> str:
        """The plugin's last `call.progress`, as `/activity` shows it; "" when the job has just ended."""
        activity = _read(await self._worker.send(Request(path="/activity")), 200)
        for call in activity["calls"]:
            if call["job_id"] == job_id:
                return f"{call['progress']:4.0%}  {call['note']}"
        return ""

    async def _webhook_job(self, hook: str, deliveries: "trio.MemoryReceiveChannel[Delivery]") -> None:
        self._show.step("3. A job, delivered: the answer comes to you")
        request = Request(
            path="/main/plugin/instagram/get-following",
            headers={"X-Callback-Url": hook},
            body={"handle": "alice", "limit": 40},
        )
        accepted = await self._ask(request, expected=202)
        with self._show.live() as live:
            live.update(f"waiting for the POST to {hook}")
            delivery = await deliveries.receive()
        job = json.loads(delivery.body)
        self._show.note(f"POST {hook}")
        self._show.headers(_interesting(delivery.headers))
        self._show.answer(204, job)
        _check(
            job["job_id"] == accepted["job_id"] == delivery.headers.get("X-Penelope-Job"),
            "it is another job's",
        )
        _check(len(job["result"]["following"]) == 40, "the result is not what was asked for")
        self._check_signature(delivery)
        await self._check_forgotten(accepted["job_id"])

    def _check_signature(self, delivery: Delivery) -> None:
        _check(delivery.verified, "the signature does not verify")
        self._show.verified("signature verified: HMAC-SHA256 over the raw body, with the key")
        tampered = delivery.body.replace(b'"state"', b'"State"', 1)
        signature = delivery.headers["X-Penelope-Signature"]
        _check(tampered != delivery.body, "there was nothing to tamper with")
        _check(not verify(tampered, signature, self._key), "a tampered body verifies")
        _check(not verify(delivery.body, signature, self._key + "x"), "another key verifies")
        self._show.verified("one letter changed, or another key: it does not verify")

    async def _check_forgotten(self, job_id: str) -> None:
        """A delivered job is deleted: at once, though not before the receiver's answer has been read."""
        request = Request(path=f"/jobs/{job_id}")
        self._show.command(request.line())
        deadline = trio.current_time() + FORGET_S
        answer = await self._worker.send(request)
        while answer.status_code == httpx.codes.OK and trio.current_time() < deadline:
            await trio.sleep(0.02)
            answer = await self._worker.send(request)
        self._show.answer(answer.status_code, answer.json())
        _check(
            answer.status_code == httpx.codes.NOT_FOUND,
            f"{FORGET_S:.0f} s after its delivery the job is there",
        )
        self._show.verified("delivered once and forgotten: the worker keeps nothing")

    async def _screenshot(self, folder: Path) -> None:
        self._show.step("4. A file: a screenshot behind a link that works once")
        request = Request(
            path="/main/plugin/web/screenshot", body={"url": f"{self._site}/alice/", "full_page": True}
        )
        answer = await self._ask(request, expected=200)
        file = folder / "alice.png"
        fetch = Request(path=answer["media"]["url"], with_key=False, save_as=str(file))
        self._show.command(fetch.line())
        picture = await self._worker.send(fetch)
        _check(picture.status_code == httpx.codes.OK, f"the link answered {picture.status_code}")
        _check(_png_size(picture.content) == (answer["width"], answer["height"]), "the file is not that PNG")
        await trio.Path(folder).mkdir(parents=True, exist_ok=True)
        await trio.Path(file).write_bytes(picture.content)
        again = await self._worker.send(fetch)
        _check(
            again.status_code == httpx.codes.NOT_FOUND,
            f"the second fetch answered {again.status_code}, not 404",
        )
        self._show.verified(f"saved {file}: PNG, {answer['width']} × {answer['height']}")

    async def _stop(self) -> None:
        self._show.step("5. The end")
        self._show.command(f"kill -TERM {self._worker.pid}")
        exit_code, left = await self._worker.stop()
        _check(exit_code == 0, f"the worker's exit code is {exit_code}, not 0")
        _check(not left, f"processes are left: {'; '.join(left)}")
        self._show.verified("exit code 0, and no process is left")

    async def _ask(self, request: Request, *, expected: int) -> dict[str, Any]:
        """Show the line, send it, show the answer."""
        self._show.command(request.line())
        answer = await self._worker.send(request)
        body = _read(answer, expected)
        self._show.answer(answer.status_code, body)
        return body


def _read(answer: httpx.Response, expected: int) -> dict[str, Any]:
    """The answer's JSON object.

    Raises:
        StepFailed: another status, or no object.
    """
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.status_code != expected or not isinstance(body, dict):
        raise StepFailed(
            f"{answer.request.url} answered {answer.status_code}, not {expected}: {answer.text[:300]}"
        )
    return body


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StepFailed(otherwise)


def _interesting(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name == "Content-Type" or name.startswith("X-Penelope")
    }


def _png_size(data: bytes) -> tuple[int, int] | None:
    """Width and height; None when it is no PNG."""
    if len(data) < 24 or not data.startswith(PNG):
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height
