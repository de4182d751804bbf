"""A request as plain values: all that its checks and a call read of it, whichever way it is answered.

Source: contract, section 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """Attributes:
    query: the query string, as it was sent.
    headers: names in lower case; repeated ones as often as they came.
    """

    method: str
    path: str
    query: bytes
    headers: list[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        """The values of a header, its name in lower case, in their order."""
        return [value for known, value in self.headers if known == name]

    def first(self, name: str) -> str | None:
        """The first of them; None: there is none."""
        return next((value for known, value in self.headers if known == name), None)

    @property
    def has_body(self) -> bool:
        """Does it say that it has one?"""
        return self.first("transfer-encoding") is not None or (self.first("content-length") or "0") != "0"


def plain(method: str, path: str, query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Asked:
    """Of what a server gives: header names in lower case, values as bytes."""
    return Asked(
        method, path, query, [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    )
