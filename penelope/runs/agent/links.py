"""The files in a tool's result: handed to the client, kept from the model.

A link is good for one download, without a key. A model that opened it would take the file from the client, and one that
a page has talked over could tell it to others; so it reads of a file but not its link.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penelope.plugin import MediaLink
from penelope.runs.agent.fitting import MAX_DEPTH, fitted

MEDIA_PATH: Final = "/api/v1/media/"
_KEYS: Final = frozenset(MediaLink.__annotations__)


@dataclass(slots=True)
class Files:
    """The files of one run, numbered from 1 in the order in which they came."""

    _links: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    @property
    def links(self) -> list[dict[str, Any]]:
        return [dict(link) for link in self._links.values()]

    def shown(self, result: Any, most: int) -> str:
        """A tool's result as the model reads it: JSON of about `most` characters. Slow for a large one."""
        return fitted(self.taken_out(result), most)

    def taken_out(self, value: Any, depth: int = 0) -> Any:
        """The same value, with its file's number in place of each link; what lies deeper than is ever shown is left as
        it is.
        """
        if depth > MAX_DEPTH:
            return value
        match value:
            case dict() if _is_link(value):
                return self._numbered(value)
            case dict():
                return {key: self.taken_out(part, depth + 1) for key, part in value.items()}
            case list():
                return [self.taken_out(part, depth + 1) for part in value]
        return value

    def _numbered(self, link: Mapping[str, Any]) -> dict[str, Any]:
        url = str(link["url"])
        self._links.setdefault(url, link)
        number = self._numbers.setdefault(url, len(self._links))
        return {"file": number, **{key: link[key] for key in ("filename", "content_type", "size")}}


def _is_link(value: Mapping[str, Any]) -> bool:
    return value.keys() == _KEYS and str(value["url"]).startswith(MEDIA_PATH)
