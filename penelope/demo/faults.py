"""What goes wrong on real sites, on request: slow, failing, silent and endless answers.

Each is a part of a URL:

    ?delay=2.5          on any page: the answer takes that many seconds longer, 0 to 60
    /status/503         that status, with a page; `?body=0` without one
    /hang               never answers; it is over when the client leaves
    /drip               a page that comes a few bytes at a time: `?every=` seconds (0.5), `?pieces=` (120)
    /redirect-loop      redirects to itself for ever
    /echo-headers       the headers that the browser sent, as JSON pairs
"""

from http import HTTPStatus
from typing import Any

import trio
from quart import Blueprint, Response, redirect, render_template, request
from quart.typing import ResponseReturnValue

MAX_DELAY_S = 60.0
MAX_PIECES = 100_000

faults = Blueprint("faults", __name__)


async def wait_as_asked() -> ResponseReturnValue | None:
    """Before every page: sleep for `?delay=`; a page of its own when that is no number from 0 to 60."""
    if "delay" not in request.args:
        return None
    delay = _number("delay", 0.0, MAX_DELAY_S)
    if delay is None:
        return await _refusal(f"delay is a number of seconds from 0 to {MAX_DELAY_S:.0f}.")
    await trio.sleep(delay)
    return None


@faults.get("/status/<int:code>")
async def status(code: int) -> ResponseReturnValue:
    if not 200 <= code <= 599:
        return await _refusal("The site answers with a status from 200 to 599.")
    if request.args.get("body") == "0" or code in (204, 205, 304):
        return Response(b"", code)
    known = code in {entry.value for entry in HTTPStatus}
    heading = f"{code} {HTTPStatus(code).phrase}" if known else str(code)
    return await render_template("notice.html", heading=heading, words="As you asked."), code


@faults.get("/hang")
async def hang() -> ResponseReturnValue:
    await trio.sleep_forever()
    raise AssertionError("unreachable")


@faults.get("/drip")
async def drip() -> ResponseReturnValue:
    every, pieces = _number("every", 0.0, MAX_DELAY_S, 0.5), _number("pieces", 0, MAX_PIECES, 120)
    if every is None or pieces is None:
        return await _refusal("every and pieces are numbers from 0.")
    return Response(_Drops(every, int(pieces)), mimetype="text/html")


@faults.get("/redirect-loop")
async def redirect_loop() -> Any:
    return redirect("/redirect-loop")


@faults.get("/echo-headers")
async def echo_headers() -> ResponseReturnValue:
    return {"headers": [[name.lower(), value] for name, value in request.headers.items()]}


class _Drops:
    """The pieces of a page, each after its pause. No generator: nothing is left to finalise when the client leaves."""

    def __init__(self, every: float, pieces: int) -> None:
        self._every = every
        self._left = pieces
        self._begun = False

    def __aiter__(self) -> "_Drops":
        return self

    async def __anext__(self) -> bytes:
        if not self._begun:
            self._begun = True
            return b"<!doctype html><html lang=en><title>Drip</title><h1>Drip</h1><p>"
        if self._left == 0:
            raise StopAsyncIteration
        self._left -= 1
        await trio.sleep(self._every)
        return b"drop "


def _number(name: str, low: float, high: float, default: float | None = None) -> float | None:
    """A number of the query; None when it is none, or not from `low` to `high`."""
    text = request.args.get(name)
    try:
        number = default if text is None else float(text)
    except ValueError:
        return None
    return number if number is not None and low <= number <= high else None


async def _refusal(words: str) -> tuple[str, int]:
    return await render_template("notice.html", heading="Bad request", words=words), 400
