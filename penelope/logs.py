"""Structured logs on stderr: JSON or readable, the request id in every line of a request and of its job.

Source: contract, section 1 (`X-Request-Id`), section 12 (`PENELOPE_LOG`).
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure(style: Literal["auto", "json", "text"], level: int = logging.INFO) -> None:
    """Set logging up for the process; `auto` is text in a terminal and JSON elsewhere."""
    # None: the process was started with none.
    stream = sys.stderr if sys.stderr is not None else Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    text = style == "text" or (style == "auto" and stream.isatty())
    last: tuple[Processor, ...] = (
        (
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        )
        if text
        else (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for chatty in ("httpx", "httpcore", "asyncio", "quart.serving"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*_SHARED, _Rendered(last)],
        logger_factory=lambda *names: _Lines(handler, *names),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )


class _Rendered:
    """The last processors, as one that does not fail: what a plugin logs may hold anything, and break when it is read.
    It is the line that is poorer then.
    """

    def __init__(self, processors: tuple[Processor, ...]) -> None:
        self._processors = processors

    def __call__(self, logger: Any, name: str, line: EventDict) -> Any:
        try:
            return self._render(logger, name, dict(line))
        except Exception as error:
            told = {"event": "a line that cannot be written", "unwritable": type(error).__name__}
            plain = {key: value for key, value in line.items() if type(value) is str}
            return self._render(logger, name, told | plain)

    def _render(self, logger: Any, name: str, line: Any) -> Any:
        for process in self._processors:
            line = process(logger, name, line)
        return line


class _Lines:
    """Writes our own lines where the standard library's handler writes those of others, each whole. A record of its for
    each line would be more than half of what a line costs.
    """

    def __init__(self, handler: logging.StreamHandler[TextIO], name: str = "penelope") -> None:
        self.name = name
        self._handler = handler

    def msg(self, line: str) -> None:
        handler = self._handler
        handler.acquire()
        try:
            handler.stream.write(f"{line}\n")
            handler.flush()
        except Exception:  # noqa: S110  # nobody takes it, it is closed, it is in the midst of another: who logs goes on
            pass
        finally:
            handler.release()

    debug = info = warning = error = critical = msg
