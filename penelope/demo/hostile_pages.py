"""Pages that mistreat who reads them: dialogs, loops, floods, prompts, odd structures. Plain values, nothing runs here.

Each page of `PAGES` is served as `/hostile/<name>`.
"""

from typing import Final

BANDS: Final = 20  # of 1,000 pixels each, in colours that tell them apart
ROWS: Final = 5_000  # of the virtualised list


def _page(title: str, body: str) -> str:
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><body>{body}</body></html>"
    )


def _script(title: str, script: str, body: str = "") -> str:
    return _page(title, f"{body}<script>{script}</script><p id=after>after</p>")


PAGES: Final = {
    "good": _page("good", "<h1 id=good>good</h1>"),
    # Dialogs.
    "alert": _script("alert", "alert('at load')"),
    "confirm": _script("confirm", "document.title = 'confirm ' + confirm('Really?')"),
    "prompt": _script("prompt", "document.title = 'prompt ' + prompt('Who?')"),
    "alerts": _script("alerts", "for (;;) alert('again')"),
    "alert-later": _script("alert-later", "setTimeout(() => alert('later'), 300)"),
    "stay": _script(
        "stay", "onbeforeunload = (e) => { e.preventDefault(); return 'stay' }", "<input id=field>"
    ),
    "stay-unload": _script("stay-unload", "onpagehide = onunload = () => { alert('bye'); confirm('bye'); }"),
    # Loads that do not end.
    "silent-picture": _page("silent-picture", "<p id=text>text</p><img src=/hang>"),
    "silent-frame": _page("silent-frame", "<p id=text>text</p><iframe src=/hang></iframe>"),
    "silent-script": _page("silent-script", "<p id=text>text</p><script src=/hang></script>"),
    "leaves-for-nowhere": _script("leaves-for-nowhere", "setTimeout(() => location.href = '/hang', 200)"),
    # Pages that do not stay.
    "refresh": _page("refresh", "<meta http-equiv=refresh content=0><p id=text>text</p>"),
    "moves-once": _page("moves-once", "<meta http-equiv=refresh content='0.2; url=good'><p id=text>text</p>"),
    "reload": _script(
        "reload", "onload = () => setTimeout(() => location.reload(), 30)", "<p id=text>text</p>"
    ),
    "history": _script(
        "history",
        "let n = 0; setInterval(() => history.pushState(0, '', '?n=' + n++), 25)",
        "<p id=text>text</p>",
    ),
    "schemes": _script(
        "schemes",
        "onload = () => { for (const u of ['mailto:a@example.org', 'tel:1', 'x-app:open', 'file:///etc/passwd', 'chrome://settings',"
        " 'view-source:file:///etc/passwd']) { try { location.href = u } catch (e) {} } }",
    ),
    # Scripts that do not end.
    "busy": _script("busy", "for (;;);"),
    "busy-later": _script("busy-later", "setTimeout(() => { for (;;); }, 100)"),
    "busy-always": _script("busy-always", "setTimeout(() => setInterval(() => { for (;;); }, 1), 100)"),
    "busy-promises": _script(
        "busy-promises", "setTimeout(() => { (function again() { Promise.resolve().then(again) })() }, 100)"
    ),
    "busy-leaving": _script("busy-leaving", "onbeforeunload = onpagehide = () => { for (;;); }"),
    # Floods.
    "console": _script(
        "console",
        "const x = 'x'.repeat(500); setInterval(() => { for (let i = 0; i < 20; i++) console.log(x, i) }, 5)",
    ),
    "fetches": _script(
        "fetches",
        "setInterval(() => { for (let i = 0; i < 20; i++) fetch('good?' + Math.random()).catch(() => 0) }, 20)",
    ),
    "popups": _script(
        "popups",
        "for (let i = 0; i < 100; i++) window.open('good?' + i, 'popup' + i, 'width=100,height=100')",
    ),
    "popup-dialogs": _script(
        "popup-dialogs", "window.open('alerts'); window.open('stay'); window.open('/hang')"
    ),
    # What the browser asks its user.
    "print": _script("print", "print(); document.title = 'printed'"),
    "prompts": _script(
        "prompts",
        "navigator.geolocation.getCurrentPosition(() => 0); Notification.requestPermission();"
        " navigator.mediaDevices?.getUserMedia({audio: true, video: true}).catch(() => 0);"
        " navigator.clipboard?.readText().catch(() => 0); navigator.storage?.persist();"
        " document.documentElement.requestFullscreen().catch(() => 0);"
        " try { navigator.registerProtocolHandler('web+x', '/?%s') } catch (e) {}",
    ),
    # Structures.
    "tall": _page(
        "tall",
        "<style>body { margin: 0 } div { height: 1000px }</style>"
        + "".join(f"<div style='background: rgb({i * 12}, 100, 200)'>{i}</div>" for i in range(BANDS)),
    ),
    "endless": _script(
        "endless",
        """let n = 0;
        const more = () => { for (let i = 0; i < 20; i++) {
          const row = document.createElement('div'); row.className = 'row'; row.textContent = 'row ' + n++;
          document.body.append(row) } };
        more(); more();
        onscroll = () => { if (scrollY + innerHeight > document.body.scrollHeight - 400) more() }""",
        "<style>.row { height: 40px }</style>",
    ),
    "virtual": _script(
        "virtual",
        f"""const rows = {ROWS}, high = 30, [box, list] = ['box', 'list'].map((id) => document.getElementById(id));
        list.style.height = rows * high + 'px';
        const draw = () => {{
          const first = Math.floor(box.scrollTop / high);
          list.replaceChildren(...Array.from({{length: Math.min(20, rows - first)}}, (_, i) => {{
            const row = document.createElement('div'); row.className = 'row'; row.textContent = 'row ' + (first + i);
            row.style.cssText = `position: absolute; top: ${{(first + i) * high}}px; height: ${{high}}px`;
            return row }})) }};
        box.onscroll = draw; draw()""",
        "<div id=box style='height: 400px; overflow: auto'><div id=list style='position: relative'></div></div>",
    ),
    "shadow": _script(
        "shadow",
        """for (const mode of ['open', 'closed']) {
          const root = document.getElementById(mode).attachShadow({mode});
          root.innerHTML = `<p class=inside>in the ${mode} root</p><button>go</button>`;
          root.querySelector('button').onclick = () => document.title = mode + ' clicked'
        }""",
        "<div id=open></div><div id=closed></div>",
    ),
    "overridden": _script(
        "overridden",
        """JSON.stringify = JSON.parse = () => { throw new Error('mine') };
        Array.from = Object.entries = Object.keys = () => [];
        Object.prototype.toJSON = () => 'mine'; window.setTimeout = () => 0""",
        "<img name=title><form name=body></form>",
    ),
    "deep": _script(
        "deep",
        "let at = document.body; for (let i = 0; i < 20000; i++) { const e = document.createElement('i');"
        " at.append(e); at = e } at.textContent = 'bottom'",
    ),
    # Other ways out of the page.
    "worker": _script(
        "worker",
        "navigator.serviceWorker.register('worker.js').then(() => navigator.serviceWorker.ready)"
        ".then(() => document.title = 'worker ready')",
    ),
    "socket": _script(
        "socket",
        "const s = new WebSocket(location.origin.replace('http', 'ws') + '/hostile/socket-flood');"
        " let n = 0; s.onmessage = () => document.title = 'messages ' + ++n",
    ),
    "blob": _script(
        "blob",
        """document.getElementById('save').onclick = () => {
          const link = document.createElement('a');
          link.href = URL.createObjectURL(new Blob(['made in the page'], {type: 'text/plain'}));
          link.download = 'made.txt'; link.click() };
        document.getElementById('many').onclick = () => {
          for (let i = 0; i < 30; i++) { const link = document.createElement('a');
            link.href = 'data:text/plain,' + i; link.download = i + '.txt'; link.click() } }""",
        "<button id=save>save</button><button id=many>many</button>",
    ),
}

# A worker that answers what the site does not, and keeps the site's own silence for `gone`.
SERVICE_WORKER: Final = """
oninstall = () => skipWaiting();
onactivate = (event) => event.waitUntil(clients.claim());
onfetch = (event) => {
  const path = new URL(event.request.url).pathname;
  if (path.endsWith("/worked"))
    event.respondWith(new Response("<title>worked</title>by the worker",
      {status: 418, headers: {"content-type": "text/html"}}));
  if (path.endsWith("/worked-never")) event.respondWith(new Promise(() => {}));
};
"""
