"""A desk for recipes: it answers what a test says, and notes what it was asked. Its files are kept in memory."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from penelope.errors import MediaFull
from penelope.plugin import MediaLink
from penelope.runs.port import OnProgress

Answer = Any | Exception | Callable[[Mapping[str, Any]], Awaitable[Any]]


@dataclass
class FakeDesk:
    """Answers by name, in order, the last one again and again; notes what it was asked, and when."""

    answers: Mapping[str, list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    files: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    told: list[tuple[float, str, int, int | None]] = field(default_factory=list)
    progress_of: Mapping[str, list[tuple[float, str]]] = field(default_factory=dict)
    run_id: str = "run_0123456789ab"
    page_id: str = "main"

    async def plugin(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        for fraction, words in self.progress_of.get(name, ()):
            assert on_progress is not None
            await on_progress(fraction, words)
        return await self._answer(name, arguments)

    async def primitive(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return await self._answer(name, options)

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink:
        assert isinstance(source, bytes)
        if "full" in filename:
            raise MediaFull("the files that wait have 4096 MiB")
        self.files[filename] = (source, content_type)
        return MediaLink(
            url=f"/api/v1/media/{filename}",
            filename=filename,
            content_type=content_type,
            size=len(source),
            expires_at=300.0,
        )

    async def progress(
        self, fraction: float, step: str, *, completed: int = 0, total: int | None = None
    ) -> None:
        self.told.append((round(fraction, 4), step, completed, total))

    async def _answer(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((name, dict(given)))
        self.times.append(trio.current_time())
        answers = self.answers.get(name, [{}])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        found: dict[str, Any] = await answer(given) if callable(answer) else answer
        return found
