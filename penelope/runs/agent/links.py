"""The files in a tool's result: handed to the client, kept from the model.

A link is good for one download, without a key. A model that opened it would take the file from the client, and one that
a page has talked over could tell it to others; so it reads of a file but not its link.
"""

from collections.abc import Mapping
from typing import Any, Final

from penelope.plugin import MediaLink
from penelope.runs.agent.fitting import MAX_DEPTH

MEDIA_PATH: Final = "/api/v1/media/"
_KEYS: Final = frozenset(MediaLink.__annotations__)


def taken_out(value: Any, files: list[Mapping[str, Any]], depth: int = 0) -> Any:
    """The same value, with each link in it replaced by its file's number in `files`, which it is added to; what lies
    deeper than is ever shown is left as it is.
    """
    if depth > MAX_DEPTH:
        return value
    match value:
        case dict() if _is_link(value):
            if value not in files:
                files.append(value)
            shown = {key: value[key] for key in ("filename", "content_type", "size")}
            return {"file": files.index(value) + 1, **shown}
        case dict():
            return {key: taken_out(part, files, depth + 1) for key, part in value.items()}
        case list():
            return [taken_out(part, files, depth + 1) for part in value]
    return value


def _is_link(value: Mapping[str, Any]) -> bool:
    return value.keys() == _KEYS and str(value["url"]).startswith(MEDIA_PATH)
