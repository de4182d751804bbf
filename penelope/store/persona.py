"""What the persona keeps between lives, by name, e.g. its cookies.

Source: contract, section 3 ("A login survives").
"""

from typing import Final

from penelope.store.database import Database

_SAVE: Final = """
    INSERT INTO persona (name, value, changed_at) VALUES (:name, :value, :now)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at
"""


class PersonaStore:
    """The table `persona`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, name: str) -> str | None:
        """The value; None: never saved."""
        row = await self._database.read(
            lambda c: c.execute("SELECT value FROM persona WHERE name = :name", {"name": name}).fetchone()
        )
        return None if row is None else str(row["value"])

    async def save(self, name: str, value: str, now: float) -> None:
        """Keep a value; durable once it returns.

        Raises:
            StoreBusy, StoreFull: it was not kept.
        """
        row = {"name": name, "value": value, "now": now}
        await self._database.write(lambda connection: connection.execute(_SAVE, row))
