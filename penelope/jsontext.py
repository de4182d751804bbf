"""JSON as this API speaks it: strict in, valid out.

Python's own reader takes `NaN` and its writer makes it; neither is JSON. A lone surrogate, which a page's title may
hold, cannot be written in UTF-8 at all: it goes out as U+FFFD.

Source: contract, section 1; section 2 ("A result that is no JSON is a 500").
"""

import json
import math
from typing import Any, Final, NoReturn


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float:
    """A number as large as 1e999 is JSON, but would be read as an infinity, which is not."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


# Made once: `json.loads` and `json.dumps` make one for each document, a third of what a small one costs.
_READER: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_number)
_WRITER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "))


def loads(text: str | bytes) -> Any:
    """Read a JSON document.

    Raises:
        ValueError: not JSON, not UTF-8, or nested too deeply; the message says which.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return _READER.decode(text)
    except UnicodeDecodeError as exc:
        raise ValueError(f"not UTF-8 at byte {exc.start}") from exc
    except json.JSONDecodeError as exc:
        raise ValueError(f"{exc.msg} at character {exc.pos}") from exc
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def dumps(value: object) -> str:
    """Write a JSON document that can be encoded in UTF-8.

    Raises:
        ValueError: a value that is no JSON: NaN, an infinity, an unknown type, a circle, or nested too deeply.
    """
    try:
        text = _WRITER.encode(value)
    except (TypeError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
    return encodable(text)


def encodable(text: str) -> str:
    """The text as UTF-8 can have it, and with it the store and every wire: a lone surrogate becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
