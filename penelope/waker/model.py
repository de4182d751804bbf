"""A persona as the waker keeps it, and what it sees of its worker. Values, no IO.

Source: contract, section 9.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Mode(StrEnum):
    """`SLEEPY`: there while it is needed. `ALWAYS`: kept up."""

    SLEEPY = "sleepy"
    ALWAYS = "always"


class State(StrEnum):
    """Of a persona. `FAILED`: its worker ended unasked, or did not start; nobody has started it again yet."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"


class Why(StrEnum):
    """Why a worker that runs has to end."""

    IDLE = "idle"
    AGE = "age"
    MEMORY = "memory"
    CHANGED = "changed"
    REMOVED = "removed"
    STOP = "stop"
    RESTART = "restart"
    SHUTDOWN = "shutdown"
    SILENT = "silent"
    DIED = "died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When a worker is stopped or renewed; a change of it needs no restart.

    Attributes:
        idle_timeout_s: of a sleepy one.
        recycle_after_s: of an always one; None: never for its age.
        recycle_above_mb: of an always one, worker and browser together, MiB; None: never for its memory.
    """

    mode: Mode = Mode.SLEEPY
    idle_timeout_s: float = 60.0
    recycle_after_s: float | None = None
    recycle_above_mb: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a driver needs to start a persona's worker.

    Attributes:
        port: the port on loopback; 0: one that is free.
        key: the worker's own; it goes to the worker through its environment and nowhere else.
        variables: its further settings, by their names in the environment.
        start_within_s: after which a start has failed.
        kill_after_s: after which a worker that was told to stop is ended by force.
    """

    name: str
    port: int
    store: Path
    key: str = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    start_within_s: float
    kill_after_s: float

    def digest(self, salt: str) -> str:
        """Of all that a worker has to be started anew for, 64 hex digits; nothing can be read out of it."""
        told = [salt, self.name, self.port, str(self.store), self.key, sorted(self.variables.items())]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """One of `personas.toml`.

    Attributes:
        own_key: its key is not the waker's: whoever has it reaches this persona and no other.
        previous_key: the one before a change of keys, which its worker takes too; None: there is none.
    """

    order: Order
    policy: Policy
    own_key: bool
    previous_key: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.order.name

    @property
    def keys(self) -> tuple[str, ...]:
        """With which its clients come."""
        return (self.order.key,) if self.previous_key is None else (self.order.key, self.previous_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A worker that runs, as its driver knows it.

    Attributes:
        pid: None where the driver knows none.
        address: its base URL; None: it is not ready yet.
        started_at: epoch seconds.
        salt, digest: of the order that it was started with.
    """

    pid: int | None
    address: str | None
    started_at: float
    salt: str
    digest: str

    def is_of(self, order: Order) -> bool:
        """Was it started with just this order?"""
        return order.digest(self.salt) == self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What a worker says of itself; memory in MiB, worker and browser together."""

    in_flight: int
    idle_for_s: float
    memory_mb: float
