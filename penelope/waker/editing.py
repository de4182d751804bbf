"""Adds a persona to `personas.toml`, by hand as it were: what is written there stays as it is.

Source: contract, section 9 (`penelope personas new`).
"""

import os
from pathlib import Path
from string import Template
from typing import Final

from pydantic import SecretStr

from penelope.errors import BadPersonas
from penelope.settings import Settings
from penelope.waker import config

HEAD: Final = """\
# The personas of this machine's waker; see docs/waker.md. `penelope personas reload` reads it again.
"""
TABLE: Final = Template("""
[personas.$name]
mode = "$mode"
# idle_timeout_s = 60                # of a sleepy one
# recycle_after_h = 24               # of an always one
# recycle_above_mb = 1500            # of an always one
# port = 5101                        # a free one unless set
# store = "stores/$name"
# proxy = "http://user:password@proxy.example:8080"
# locale = "de-DE"
# timezone = "Europe/Berlin"
# viewport = "1280x800"
# key = "…"                          # the waker's own unless set
# env = { MAX_PAGES = 4 }
""")
_ANY_KEY: Final = "a-key-that-only-stands-for-one"


def add(file: Path, name: str, mode: str) -> None:
    """Append a table for the persona.

    Raises:
        BadPersonas: a name that is none or is taken, or a file that is not good or cannot be written; it is then as it
            was.
    """
    if not config.NAME.fullmatch(name) or name in config.RESERVED:
        raise BadPersonas(
            f"{name!r} is no name of a persona: 1 to 64 letters, digits, _ and -, and not `reload`"
        )
    settings = Settings.model_validate({"key": SecretStr(_ANY_KEY), "port": 0})
    if file.exists() and name in config.load(file, settings).by_name:
        raise BadPersonas(f"{file} has a persona {name} already, nothing was written")
    before = file.read_text("utf-8") if file.exists() else HEAD
    kept = file.resolve()  # a link stays one
    fresh = kept.with_name(f"{kept.name}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            new.write(before.rstrip("\n") + "\n" + TABLE.substitute(name=name, mode=mode))
        config.load(fresh, settings)
        if file.exists():
            fresh.chmod(file.stat().st_mode & 0o777)
        fresh.replace(kept)
    except OSError as exc:
        raise BadPersonas(f"{file} cannot be written: {exc.strerror}") from exc
    finally:
        fresh.unlink(missing_ok=True)
