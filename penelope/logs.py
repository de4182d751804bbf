"""Structured logs on stderr: JSON or readable, the request id in every line of a request and of its job.

Source: contract, section 1 (`X-Request-Id`), section 12 (`PENELOPE_LOG`).
"""

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import Processor

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure(style: Literal["auto", "json", "text"], level: int = logging.INFO) -> None:
    """Set logging up for the process; `auto` is text in a terminal and JSON elsewhere."""
    text = style == "text" or (style == "auto" and sys.stderr.isatty())
    last: tuple[Processor, ...] = (
        (
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        )
        if text
        else (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
    )
    handler = logging.StreamHandler(sys.stderr)
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
        processors=[*_SHARED, *last],
        logger_factory=lambda *names: _Lines(handler, *names),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )


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
        except (OSError, ValueError):  # nobody takes it, or it is closed: what is logged goes on
            pass
        finally:
            handler.release()

    debug = info = warning = error = critical = msg
