"""Which browser to run.

Source: contract, section 3 ("The browser").
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from penelope.errors import NoBrowser

SYSTEM_NAMES = ("chromium", "chromium-browser", "chrome", "google-chrome", "google-chrome-stable")


def find_browser(
    setting: Path | None, *, bundled: Path | None = None, names: Sequence[str] = SYSTEM_NAMES
) -> Path:
    """The executable to run.

    Args:
        setting: PENELOPE_BROWSER; None when it is not set.
        bundled: where Playwright would have its own Chromium, whether it is there or not.
        names: what to look for on PATH, best first.

    Raises:
        NoBrowser: the setting is no executable, or there is none at all.
    """
    if setting is not None:
        return _from_setting(setting)
    if bundled is not None and _is_executable(bundled):
        return bundled
    for name in names:
        if (found := shutil.which(name)) is not None:
            return Path(found)
    raise NoBrowser(
        f"no browser found: get one with `{_install_command()}`, or set PENELOPE_BROWSER to its path"
    )


def _from_setting(setting: Path) -> Path:
    path = setting.expanduser()
    if os.sep not in str(setting) and (on_path := shutil.which(str(setting))) is not None:
        path = Path(on_path)
    if not path.exists():
        raise NoBrowser(f"PENELOPE_BROWSER is {setting}: there is no such file")
    if not _is_executable(path):
        raise NoBrowser(f"PENELOPE_BROWSER is {setting}: it is not an executable")
    return path.absolute()


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _install_command() -> str:
    if sys.platform == "linux" and shutil.which("apt-get") is not None:
        return "apt-get install chromium" if os.geteuid() == 0 else "sudo apt-get install chromium"
    return f"{Path(sys.executable).name} -m playwright install chromium"
