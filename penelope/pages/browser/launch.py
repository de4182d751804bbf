"""How the browser is started: its flags, its sandbox, and a launcher that ends it with its driver.

Source: contract, section 3; design, section 7 (4, 10).
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penelope.errors import BadSettings
from penelope.pages.browser.loop import dies_with_parent
from penelope.pages.browser.profile import Place

FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--no-pings",
    "--hide-crash-restore-bubble",
)
PROXY_FLAGS = ("--webrtc-ip-handling-policy=disable_non_proxied_udp",)

# With it `page.close()` hangs while a reload is in flight. Of two --disable-features the last one counts, so ours goes
# into the one that is there.
DISABLED_FEATURES = ("RenderDocument",)

START_S = 30.0
USERNS_PROBE_S = 5.0
SETUID_HELPERS = (Path("/usr/lib/chromium/chrome-sandbox"), Path("/opt/google/chrome/chrome-sandbox"))

_LAUNCHER = """\
#!/bin/sh
# Made at each start of the browser, by Penelope.
echo $$ > {pid_file}
found=
for word do
    shift
    case $word in
    --disable-features=*) word="$word,{features}"; found=1 ;;
    esac
    set -- "$@" "$word"
done
[ -n "$found" ] || set -- "$@" --disable-features={features}
exec {prefix}{browser} "$@"
"""


@dataclass(frozen=True)
class BrowserOptions:
    """What a persona's browser is like.

    Attributes:
        profile: folder of its user data; made when it is not there.
        executable: PENELOPE_BROWSER; None: look for one.
        headless: without a window.
        proxy: `scheme://[user:password@]host:port`; None: none.
        locale: e.g. `de-DE`; None: the browser's own.
        timezone: e.g. `Europe/Berlin`; None: the machine's.
        viewport: width and height in CSS pixels; None: Playwright's default.
        user_agent: None: the browser's own.
    """

    profile: Path
    executable: Path | None = None
    headless: bool = True
    proxy: str | None = field(default=None, repr=False)  # it may hold a password
    locale: str | None = None
    timezone: str | None = None
    viewport: tuple[int, int] | None = None
    user_agent: str | None = None


def write_launcher(place: Place, browser: Path, driver_pid: int) -> Path:
    """A small script to start instead of `browser`: it leaves its pid, merges the features, and dies with the driver.

    It is the one place that sees the flags as Playwright made them, whatever its version.
    """
    words = dies_with_parent()
    if words:
        check = '[ "$PPID" = "$0" ] || exit 1; exec "$@"'
        words = (*words, "/bin/sh", "-c", check, str(driver_pid))
    prefix = shlex.join(words) + " " if words else ""
    text = _LAUNCHER.format(
        pid_file=shlex.quote(str(place.browser_pid_file)),
        features=",".join(DISABLED_FEATURES),
        prefix=prefix,
        browser=shlex.quote(str(browser)),
    )
    folder = place.profile if os.statvfs(place.temp).f_flag & os.ST_NOEXEC else place.temp
    launcher = folder / "penelope-browser"
    launcher.write_text(text)
    launcher.chmod(0o700)
    return launcher


def environment(place: Place) -> dict[str, str]:
    """For driver and browser: this process's, without Penelope's own settings (keys, passwords), with our TMPDIR."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENELOPE_")}
    return kept | {"TMPDIR": str(place.temp)}


def sandbox() -> tuple[bool, str]:
    """Whether to run with Chromium's sandbox, and why, in words for the log."""
    if sys.platform != "linux":
        return True, "on"
    if os.geteuid() == 0:
        return False, "off: running as root"
    if any(helper.exists() and helper.stat().st_mode & stat.S_ISUID for helper in SETUID_HELPERS):
        return True, "on: setuid helper"
    if _user_namespaces():
        return True, "on: user namespaces"
    return False, "off: neither user namespaces nor a setuid helper"


def _user_namespaces() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return True  # nothing says otherwise
    try:
        tried = subprocess.run(
            [unshare, "--user", "--map-root-user", "/bin/true"],
            capture_output=True,
            check=False,
            timeout=USERNS_PROBE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def launch_arguments(
    options: BrowserOptions, place: Place, launcher: Path, *, sandboxed: bool
) -> dict[str, Any]:
    """Keyword arguments of Playwright's `launch_persistent_context`."""
    arguments: dict[str, Any] = {
        "user_data_dir": str(place.profile),
        "executable_path": str(launcher),
        "headless": options.headless,
        "chromium_sandbox": sandboxed,
        "args": [*FLAGS, *(PROXY_FLAGS if options.proxy else ())],
        "env": environment(place),
        "downloads_path": str(place.temp / "downloads"),
        "timeout": START_S * 1000,
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }
    if options.proxy:
        arguments["proxy"] = _proxy(options.proxy)
    if options.viewport:
        arguments["viewport"] = {"width": options.viewport[0], "height": options.viewport[1]}
    worn = {"locale": options.locale, "timezone_id": options.timezone, "user_agent": options.user_agent}
    return arguments | {name: value for name, value in worn.items() if value is not None}


def _proxy(url: str) -> dict[str, str]:
    """Playwright's form of a proxy: the password never reaches a command line.

    Raises:
        BadSettings: not a URL with a host; the message does not repeat it.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        raise BadSettings("PENELOPE_PROXY is not a URL with a host and a port") from None
    if not parts.hostname:
        raise BadSettings("PENELOPE_PROXY is not a URL with a host and a port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    proxy = {"server": f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")}
    if parts.username is not None:
        proxy["username"] = unquote(parts.username)
        proxy["password"] = unquote(parts.password or "")
    return proxy
