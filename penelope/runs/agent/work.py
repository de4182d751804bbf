"""A run of an agent: a model is asked, the tools that it calls are run, until it answers.

A step is one question, and what is done of the answer to it. All tools work one page, one after another.

Trio-flavoured. A run that is cancelled has nothing to clean up: what its tool had begun is ended by the desk.

Source: contract, section 10 ("bounded in steps and time, each step a progress event").
"""

import secrets
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import RequestError
from penelope.runs.agent import tools, wire
from penelope.runs.agent.asking import Asking, open_asking
from penelope.runs.agent.conversation import LAST_STEP, MAX_RESULT_CHARS, NO_WORDS, Conversation, with_ids
from penelope.runs.agent.links import Files
from penelope.runs.agent.model import MAX_CALLS, MAX_USELESS, Agent, AgentFailed, Endpoint, Tool
from penelope.runs.agent.wire import Said, ToolCall, Usage
from penelope.runs.port import Desk, OnProgress, RunFailed, StepFailed

MARK_BYTES: Final = 8
CHARS_A_TOKEN: Final = 4  # about, where an endpoint does not count
MAX_ARGUMENT_CHARS: Final = 256 * 1024

log = structlog.get_logger("penelope.runs")


@dataclass(frozen=True, slots=True)
class AgentWork:
    """A `Work`: one prompt, worked by an agent."""

    agent: Agent
    prompt: str
    endpoint: Endpoint

    @property
    def page(self) -> str | None:
        return self.agent.page

    @property
    def agent_id(self) -> str:
        return f"agent:{self.agent.name}"

    async def run(self, desk: Desk) -> Any:
        """Work until the model answers.

        Raises:
            RunFailed: it did not; the message says why.
        """
        try:
            async with open_asking(self.endpoint) as asking:
                conversation = Conversation(
                    self.agent.instructions, self.prompt, secrets.token_hex(MARK_BYTES)
                )
                return await _Running(self.agent, desk, asking, conversation).run()
        except AgentFailed as exc:
            raise RunFailed(exc.message) from exc


@dataclass(slots=True)
class _Spent:
    """Tokens; where the endpoint does not count, about as many as its characters come to."""

    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    estimated: bool = False

    def add(self, question: bytes, said: Said) -> None:
        counted = said.usage
        if counted is None:
            self.estimated = True
            written = len(said.text) + sum(len(call.arguments) for call in said.calls)
            counted = Usage(len(question) // CHARS_A_TOKEN, written // CHARS_A_TOKEN)
        self.usage += counted


@dataclass(slots=True)
class _Running:
    agent: Agent
    desk: Desk
    asking: Asking
    conversation: Conversation
    spent: _Spent = field(default_factory=_Spent)
    files: Files = field(default_factory=Files)
    called: int = 0
    useless: int = 0  # answers in a row of which nothing could be done

    async def run(self) -> dict[str, Any]:
        for step in range(1, self.agent.max_steps + 1):
            said = await self._asked(step)
            if said.refusal is not None:
                raise RunFailed(f"step {step}: the model refuses: {said.refusal[:500]}")
            if said.finish == "content_filter":
                raise RunFailed(f"step {step}: the endpoint's filter stopped the answer")
            if not said.calls and said.text.strip():
                return self._result(step, said)
            if step < self.agent.max_steps:
                await self._work(step, said)
        raise RunFailed(f"the agent had no answer after {self.agent.max_steps} steps (max_steps)")

    async def _asked(self, step: int) -> Said:
        if self.spent.usage.total >= self.agent.max_total_tokens:
            raise RunFailed(
                f"step {step}: the agent has used {self.spent.usage.total} tokens of "
                f"{self.agent.max_total_tokens} (max_total_tokens)"
            )
        is_last = step == self.agent.max_steps
        if is_last and step > 1:
            self.conversation.reminded(LAST_STEP)
        self.conversation.shortened()
        await self._tell(step, 0.0, "asks the model")
        question = wire.question(
            model=self.agent.model,
            messages=self.conversation.messages,
            tools=tools.as_sent(self.agent.tools),
            may_call=not is_last,
            max_tokens=self.agent.max_tokens,
            stream=self.agent.stream,
        )
        said = await self.asking.ask(question)
        self.spent.add(question, said)
        return said

    async def _work(self, step: int, said: Said) -> None:
        """Do what the model asks for, as far as it can be done."""
        calls = with_ids(said.calls, step)
        if calls:
            self.conversation.said(said.text, calls)
        else:
            self.conversation.reminded(NO_WORDS)
        done, words = 0, "it said nothing"
        for at, call in enumerate(calls):
            refusal = await self._call(step, call, at, len(calls))
            done, words = done + (refusal is None), refusal or words
        self.useless = 0 if done else self.useless + 1
        if self.useless >= MAX_USELESS:
            raise RunFailed(
                f"step {step}: {MAX_USELESS} answers of the model in a row were of no use: {words[:300]}"
            )

    async def _call(self, step: int, call: ToolCall, at: int, calls: int) -> str | None:
        """One call; why it was not made, None: it was."""
        tool = next((tool for tool in self.agent.tools if tool.wire == call.name), None)
        try:
            if at >= MAX_CALLS:
                raise _NotCalled(f"at most {MAX_CALLS} tools are called for one answer")
            if tool is None:
                there = ", ".join(tool.wire for tool in self.agent.tools) or "no tools"
                raise _NotCalled(f"there is no tool {call.name[:100]!r}: there are {there}")
            await self._run(step, tool, call, at / calls, calls)
        except (_NotCalled, RequestError) as exc:
            words = str(exc)
            log.info("agent's call refused", run_id=self.desk.run_id, step=step, tool=tool and tool.name)
            self.conversation.refused(call, words)
            return words
        return None

    async def _run(self, step: int, tool: Tool, call: ToolCall, before: float, calls: int) -> None:
        given = _arguments(call)
        await self._tell(step, before, tool.name)

        async def told(share: float, note: str) -> None:
            await self._tell(step, before + share / calls, f"{tool.name}: {note}" if note else tool.name)

        status = 200
        try:
            gave = await self._gave(tool, given, told)
        except StepFailed as exc:
            status = exc.answered
            self.conversation.failed(call, status, exc.fault, exc.message)
        else:
            self.conversation.gave(call, await self._shown(gave))
        self.called += 1
        log.info("agent's tool called", run_id=self.desk.run_id, step=step, tool=tool.name, status=status)

    async def _gave(self, tool: Tool, given: dict[str, Any], told: OnProgress) -> dict[str, Any]:
        if tool.is_plugin:
            return await self.desk.plugin(tool.name, given, told)
        return await self.desk.primitive(tool.name, given)

    async def _shown(self, gave: dict[str, Any]) -> str:
        """In a thread: a page's answer may have 32 MiB, and the worker's loop goes on meanwhile. It touches only what
        is this run's, so that one that is cancelled leaves it alone.
        """
        return await trio.to_thread.run_sync(self.files.shown, gave, MAX_RESULT_CHARS, abandon_on_cancel=True)

    async def _tell(self, step: int, share: float, words: str) -> None:
        done = step - 1
        far = (done + min(max(share, 0.0), 1.0)) / self.agent.max_steps
        await self.desk.progress(far, f"step {step}: {words}", completed=done, total=None)

    def _result(self, step: int, said: Said) -> dict[str, Any]:
        return {
            "answer": said.text,
            "steps": step,
            "tool_calls": self.called,
            "files": self.files.links,
            "model": self.agent.model,
            "finish_reason": said.finish,
            "tokens": {
                "prompt": self.spent.usage.prompt,
                "completion": self.spent.usage.completion,
                "estimated": self.spent.estimated,
            },
        }


class _NotCalled(Exception):
    """A call that cannot be made; the message is for the model."""


def _arguments(call: ToolCall) -> dict[str, Any]:
    """
    Raises:
        _NotCalled: there are none that could be taken.
    """
    if len(call.arguments) > MAX_ARGUMENT_CHARS:
        raise _NotCalled(f"the arguments have more than {MAX_ARGUMENT_CHARS} characters")
    if not call.arguments.strip():
        return {}
    try:
        given = jsontext.loads(call.arguments)
    except ValueError as exc:
        raise _NotCalled(f"the arguments are no JSON: {exc}") from exc
    if not isinstance(given, dict):
        raise _NotCalled("the arguments are no JSON object")
    return given
