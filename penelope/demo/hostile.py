"""The hostile part of the stand-in site: what real sites do to a browser, each under `/hostile/…`, listed there.

    pages       dialogs, loops, floods, prompts, odd structures     hostile_pages
    answers     bodies, encodings, downloads, redirects, logins     here
    wire        what no HTTP library sends, and a bad certificate   hostile_wire; `/hostile/wire/<what>` leads there

Source: contract, section 3; docs/pages.md, which says for each what a caller gets.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import trio
from quart import Blueprint, Response, current_app, redirect, request, websocket
from quart.typing import ResponseReturnValue

from penelope.demo import hostile_bodies as bodies
from penelope.demo.hostile_pages import PAGES, SERVICE_WORKER
from penelope.demo.hostile_wire import REPLIES, SECURE, Wire

WIRE: Final = "hostile_wire"  # where the site has the `Wire` that is served beside it
MIB: Final = 2**20
ENCODINGS: Final = {
    "utf-16": ("text/html; charset=utf-16", "<title>Ünïcödé</title>".encode("utf-16")),
    "latin-1": ("text/html; charset=iso-8859-1", "<title>Café</title>".encode("latin-1")),
    "wrong": ("text/html; charset=utf-8", "<title>Café</title>".encode("latin-1")),
    "unknown": ("text/html; charset=klingon", b"<title>unknown</title>"),
    "nul": ("text/html; charset=utf-8", b"<title>a\0b</title>\0\xff\xfe\xed\xa0\x80"),
    "surrogate": ("text/html", rb"<title>x</title><script>document.title = 'half \ud83d'</script>\ud83d"),
}
# As a site would write them: with folders, quotes, line ends, an override of the reading direction, no end.
EVIL_NAMES: Final = {
    "folders": '"../../../../etc/passwd"',
    "windows": '"..\\\\..\\\\boot.ini"',
    "quotes": '"a\\"b\'c.txt"',
    "utf-8": "x; filename*=UTF-8''%e2%80%aegnp.exe%0d%0aX-Evil%3a%201",
    "long": '"' + "n" * 300 + '.pdf"',
    "dots": '"..."',
    "nothing": '""',
}

hostile = Blueprint("hostile", __name__, url_prefix="/hostile")

paths: list[str] = []  # of everything there is, for the list and for the tests


def _answers(path: str) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]:
    """As the blueprint's `get`, and in the list."""

    def add(view: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        paths.append(path)
        hostile.add_url_rule(f"/{path}", view.__name__, view)
        return view

    return add


@hostile.get("/")
async def index() -> str:
    links = "".join(f"<li><a href='/hostile/{path}'>{path}</a>" for path in sorted([*paths, *PAGES]))
    links += "".join(f"<li><a href='/hostile/wire/{what}'>wire/{what}</a>" for what in [*REPLIES, *SECURE])
    return f"<!doctype html><title>Hostile</title><h1>Hostile</h1><ul>{links}</ul>"


@hostile.get("/<any({}):name>".format(", ".join(f'"{name}"' for name in PAGES)))
async def page(name: str) -> str:
    return PAGES[name]


@hostile.get("/wire/<what>")
async def wire(what: str) -> ResponseReturnValue:
    """Lead to the wire, whose ports are other ones each time."""
    served: Wire | None = current_app.extensions.get(WIRE)
    if served is None or what not in {*REPLIES, *SECURE}:
        return "<!doctype html><title>Nothing here</title>", 404
    return redirect(served.url(what))


@_answers("worker.js")
async def service_worker() -> Response:
    return Response(SERVICE_WORKER, mimetype="text/javascript")


@hostile.websocket("/socket-flood")
async def socket_flood() -> None:
    for number in range(5_000):
        await websocket.send(f"{number} " + "x" * 1_000)
    await trio.sleep_forever()


@_answers("frames")
async def frames() -> str:
    """Frames of another origin: the same site by its other name."""
    port = request.host.rpartition(":")[2]
    other = f"http://localhost:{port}/hostile"
    return (
        "<!doctype html><title>frames</title><p id=text>outside</p>"
        f"<iframe src='{other}/good'></iframe><iframe src='{other}/alert'></iframe><iframe src='{other}/stay'></iframe>"
    )


@_answers("busy-frame")
async def busy_frame() -> str:
    port = request.host.rpartition(":")[2]
    return (
        "<!doctype html><title>busy-frame</title><p id=text>outside</p>"
        f"<iframe src='http://localhost:{port}/hostile/busy-later'></iframe>"
    )


@_answers("never-ends")
async def never_ends() -> Response:
    return Response(bodies.Repeated(b"<p>more", every_s=0.2), mimetype="text/html")


@_answers("redirects")
async def redirects() -> Any:
    return redirect("/hostile/redirects")


@_answers("login")
async def login() -> ResponseReturnValue:
    """HTTP's own login, which makes a browser ask its user."""
    if request.authorization is None:
        return "<title>who</title>Who are you?", 401, {"WWW-Authenticate": 'Basic realm="hostile"'}
    return "<title>in</title>"


@_answers("encoding/<name>")
async def encoding(name: str) -> ResponseReturnValue:
    if name not in ENCODINGS:
        return "<title>Nothing here</title>", 404
    content_type, body = ENCODINGS[name]
    return Response(body, content_type=content_type)


@_answers("large")
async def large() -> Response:
    """`?mb=` of one document (100), none of which is shown."""
    size = request.args.get("mb", 100, int) * MIB
    head = b"<!doctype html><title>large</title><p id=text>text</p><pre hidden>"
    return Response(
        bodies.Repeated(b"<i>" + b"words and " * 6_500 + b"</i>", total=size, head=head), mimetype="text/html"
    )


@_answers("bomb")
async def bomb() -> Response:
    """200 kB of gzip, 200 MB of tags, some GB of a document."""
    return Response(bodies.bomb(), mimetype="text/html", headers={"Content-Encoding": "gzip"})


@_answers("download")
async def download() -> Response:
    """`?size=` bytes as an attachment (1,000), `?name=` one of the evil names; `?status=` of the answer."""
    disposition = "attachment; filename=" + EVIL_NAMES.get(request.args.get("name", ""), '"file.bin"')
    size = request.args.get("size", 1_000, int)
    return Response(
        bodies.Repeated(b"\0" * 65_536, total=size),
        request.args.get("status", 200, int),
        mimetype="application/octet-stream",
        headers={"Content-Disposition": disposition, "Content-Length": str(size)},
    )


@_answers("download-endless")
async def download_endless() -> Response:
    """An attachment that never ends: a trickle, or with `?fast=1` as much as goes through."""
    fast = request.args.get("fast") == "1"
    pieces: AsyncIterator[bytes] = bodies.Repeated(
        b"\0" * (262_144 if fast else 1_000), every_s=0 if fast else 0.2
    )
    return Response(
        pieces,
        mimetype="application/octet-stream",
        headers={"Content-Disposition": 'attachment; filename="endless.bin"'},
    )
