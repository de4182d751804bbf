"""How the browser is started: its flags, its sandbox, and a launcher that ends it with its driver.

Source: contract, section 3; design, section 7 (4, 10).
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penelope.pages.browser import persona
from penelope.pages.browser.node import dies_with_parent, environment
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.profile import Place

FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--no-pings",
    "--hide-crash-restore-bubble",
)

# Of two --disable-features the last one counts, so ours go into the one that is there.
DISABLED_FEATURES = (
    "RenderDocument",  # with it `page.close()` hangs while a reload is in flight
    # The suggestions below the address bar, which nobody sees here: since 151 each browser, a headless one too, makes
    # ready two pages of them, for half of the CPU of its start and 75 MB that it never gives back.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
)

START_S = 30.0
USERNS_PROBE_S = 5.0
SETUID_HELPERS = (Path("/usr/lib/chromium/chrome-sandbox"), Path("/opt/google/chrome/chrome-sandbox"))

_LAUNCHER = """\
#!/bin/sh
# Made at each start of the browser, by Penelope.
echo $$ > {pid_file}
disabled= enabled=
for word do
    shift
    case $word in
    --disable-features=*) word="$word,{disable}"; disabled=1 ;;
    --enable-features=*) word="$word{and_enable}"; enabled=1 ;;
    esac
    set -- "$@" "$word"
done
[ -n "$disabled" ] || set -- "$@" --disable-features={disable}
[ -n "$enabled" ] || set -- "$@" {enable_flag}
exec {prefix}{browser} "$@"
"""


def write_launcher(place: Place, browser: Path, driver_pid: int, enabled: Sequence[str] = ()) -> Path:
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
        disable=",".join(DISABLED_FEATURES),
        and_enable="".join(f",{feature}" for feature in enabled),
        enable_flag=f"--enable-features={','.join(enabled)}" if enabled else "",
        prefix=prefix,
        browser=shlex.quote(str(browser)),
    )
    folder = place.profile if os.statvfs(place.temp).f_flag & os.ST_NOEXEC else place.temp
    launcher = folder / "penelope-browser"
    launcher.write_text(text)
    launcher.chmod(0o700)
    return launcher


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
    """Keyword arguments of Playwright's `launch_persistent_context`.

    Raises:
        BadSettings: the persona's are none that this machine's browser can have; the message names the setting.
    """
    persona.check(options)
    arguments: dict[str, Any] = {
        "user_data_dir": str(place.profile),
        "executable_path": str(launcher),
        "headless": options.headless,
        "chromium_sandbox": sandboxed,
        "args": [*FLAGS, *persona.flags(options)],
        "env": environment(place.temp) | persona.variables(options),
        "downloads_path": str(place.temp / "downloads"),
        "timeout": START_S * 1000,
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }
    return arguments | persona.context_arguments(options)
