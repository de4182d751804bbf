"""Idempotent starts: a start that is repeated under its key is answered again, and starts nothing.

Of the starts under one key one is decided at a time. The key's row is written in the transaction of its job's: a start
that is refused leaves none, and the key is free.

Source: contract, section 11 ("Idempotent starts").
"""

import hashlib
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import trio
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from penelope.clock import Clock
from penelope.errors import KeyReused
from penelope.jobs.model import Polling, Start
from penelope.jobs.options import JobOptions
from penelope.jobs.store import JobStore

SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A start that came with a key.

    Attributes:
        key: its SHA-256.
        text: what was asked; equal for equal requests, whatever their method and the order of their parameters.
    """

    key: bytes
    text: bytes

    def start(self) -> Start:
        """What is stored of it."""
        salt = secrets.token_bytes(SALT_BYTES)
        return Start(key=self.key, salt=salt, request=self._hashed(salt))

    def is_of(self, start: Start) -> bool:
        """Was that the same request?"""
        return secrets.compare_digest(self._hashed(start.salt), start.request)

    def _hashed(self, salt: bytes) -> bytes:
        return hashlib.sha256(salt + self.text).digest()


def asked(options: JobOptions, page_id: str, plugin: str, arguments: Mapping[str, Any]) -> Asked | None:
    """What a start asks for; None: it has no key.

    Args:
        arguments: as the plugin gets them, its defaults among them.
    """
    if options.key is None:
        return None
    way = options.way.ttl if isinstance(options.way, Polling) else options.way.url
    what = [page_id, plugin, _plain(dict(arguments)), way, options.limit_s]
    return Asked(hashlib.sha256(options.key.encode()).digest(), json.dumps(what, sort_keys=True).encode())


def _plain(value: Any) -> Any:
    """A parameter as JSON has it, always in the same order, and with its secrets: it is hashed, and not kept."""
    match value:
        case BaseModel():
            return {name: _plain(field) for name, field in value}
        case dict():
            return {str(name): _plain(field) for name, field in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return sorted((_plain(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        case SecretStr() | SecretBytes():
            return _plain(value.get_secret_value())
        case Enum():
            return _plain(value.value)
        case bytes():
            return value.hex()
        case _:
            return to_jsonable_python(value, fallback=str)


class Turn:
    """A start's turn under its key.

    Attributes:
        start: what to store of it; None: it has no key.
        earlier: the job that the same start began before; None: there is none, it may begin one.
    """

    def __init__(self, start: Start | None, over: Callable[[], None]) -> None:
        self.start = start
        self.earlier: str | None = None
        self._over = over
        self._kept = False

    def keep(self) -> Callable[[], None]:
        """The start goes on without its request, which may leave: the turn lasts until what this gives is called."""
        self._kept = True
        return self._over

    def leave(self) -> None:
        """The request is done with it; immediate."""
        if not self._kept:
            self._over()


class Starts:
    """The starts under a key, one at a time each."""

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._busy: dict[bytes, trio.Event] = {}

    @asynccontextmanager
    async def turn(self, asked: Asked | None) -> AsyncGenerator[Turn]:
        """Wait until no start under the key is under way, and look what came of the last. Without a key, nothing waits.

        Raises:
            KeyReused: another request began a job under this key.
            StoreBusy, StoreFull: the store cannot be read.
        """
        if asked is None:
            yield Turn(None, lambda: None)
            return
        key = asked.key
        while (busy := self._busy.get(key)) is not None:
            await busy.wait()
        self._busy[key] = trio.Event()
        turn = Turn(asked.start(), lambda: self._busy.pop(key).set())
        try:
            turn.earlier = await self._earlier(asked)
            yield turn
        finally:
            turn.leave()

    async def _earlier(self, asked: Asked) -> str | None:
        found = await self._store.start_of(asked.key, self._clock.now())
        if found is None:
            return None
        start, job_id = found
        if not asked.is_of(start):
            raise KeyReused(
                f"Idempotency-Key was given before with another request, which began job {job_id}"
            )
        return job_id
