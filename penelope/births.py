"""When each task was born, which Trio itself does not note: what the live tree needs.

Source: contract, section 7 (`GET /api/v1/tree`).
"""

import trio


class Births(trio.abc.Instrument):
    """Notes births while it is one of the run's instruments: an entry of a dictionary for each task that lives."""

    def __init__(self) -> None:
        self._born: dict[trio.lowlevel.Task, float] = {}

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self._born[task] = trio.current_time()

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._born.pop(task, None)

    def age(self, task: trio.lowlevel.Task) -> float | None:
        """Seconds that a task has lived; None: it is older than this instrument."""
        born = self._born.get(task)
        return None if born is None else trio.current_time() - born

    def __len__(self) -> int:
        return len(self._born)


def watch_births() -> Births:
    """Note births from now on, the caller's among them: it is taken to be born now. Immediate."""
    births = Births()
    trio.lowlevel.add_instrument(births)
    births.task_spawned(trio.lowlevel.current_task())
    return births
