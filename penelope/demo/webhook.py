"""A webhook receiver as a client would write it: it checks the signature over the raw body before it believes it.

Source: the job specification, "Receiving".
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

import trio
from hypercorn.trio import serve
from quart import request
from quart_trio import QuartTrio

from penelope.demo.serving import listening

PATH = "/hooks/42"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One POST that came in: its headers as sent, its body byte for byte."""

    headers: Mapping[str, str]
    body: bytes
    verified: bool


def verify(body: bytes, signature: str, key: str) -> bool:
    """Whether `X-Penelope-Signature` is this body's, with this key."""
    expected = "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


async def serve_receiver(
    key: str,
    deliveries: "trio.MemorySendChannel[Delivery]",
    *,
    task_status: "trio.TaskStatus[str]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take webhooks until cancelled; started with the URL to give as `X-Callback-Url`.

    Answers 204 once a delivery is handed on, 401 when its signature is wrong.
    """
    app = QuartTrio(__name__)

    async def receive() -> tuple[str, int]:
        body = await request.data
        verified = verify(body, request.headers.get("X-Penelope-Signature", ""), key)
        await deliveries.send(Delivery(headers=dict(request.headers), body=body, verified=verified))
        return "", 204 if verified else 401

    app.add_url_rule(PATH, view_func=receive, methods=["POST"])
    config = listening("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        (base_url,) = await nursery.start(serve, app, config)
        task_status.started(base_url + PATH)
