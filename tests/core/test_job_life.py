"""A job's life as a machine: starts, ends, answers, stops, restarts and hours, played against the pure core.

The machine is the smallest shell there can be: it keeps what a store would have been told, and asks the core what to
do.
"""

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penelope.jobs.model import Job, Polling, State, Webhook
from penelope.jobs.schedule import Verdict, forget_at, next_attempt, verdict
from penelope.jobs.transitions import Attempt, attempted, cancel, finish, interrupt, time_out
from penelope.outcome import Outcome

MOMENTS = (0.0, 60.0, 300.0, 600.0)
OUTCOME = Outcome(200, '{"success": true, "page_id": "main"}')
WAYS = st.sampled_from([Webhook("http://h/"), Polling(0.5), Polling(600.0)])
SECONDS = st.sampled_from([0, 1, 5, 59, 60, 61, 240, 299, 300, 301, 599, 600, 605, 610, 611, 3600, 7 * 3600])
# None: the receiver gave no answer.
ANSWERS = st.sampled_from([None, 500, 503, 429, 200, 204, 301, 404, 410])
TOOK = st.sampled_from([0.0, 0.2, 9.9])


@dataclass
class Posts:
    """What a receiver saw of one job."""

    ended_at: float
    numbers: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    recorded: list[float] = field(default_factory=list)  # those whose outcome was stored
    cut: int = 0
    settled: bool = False


class JobLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000.0
        self.up = True
        self.count = 0
        self.store: dict[str, Job] = {}
        self.posts: dict[str, Posts] = {}

    @initialize()
    def begin(self) -> None:
        self.started(Webhook("http://h/"))

    @rule(way=WAYS, limit_s=st.sampled_from([None, 0.5, 3600.0]))
    @precondition(lambda self: self.up and len(self.store) < 4)
    def started(self, way: Webhook | Polling, limit_s: float | None = None) -> None:
        self.count += 1
        job = Job(
            job_id=f"{self.count:016x}",
            page_id=f"p{self.count}",
            plugin="a/b",
            way=way,
            request_id="r",
            started_at=self.now,
            limit_s=limit_s,
        )
        self.store[job.job_id] = job

    @rule(data=st.data())
    @precondition(lambda self: self.up and self._in(State.RUNNING))
    def ended(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self._in(State.RUNNING)))
        self.store[job.job_id] = finish(job, OUTCOME, self.now)

    @rule(data=st.data())
    @precondition(lambda self: self.up and self._in(State.RUNNING))
    def cancelled(self, data: st.DataObject) -> None:
        """As a client asks, of a job with or without a limit."""
        job = data.draw(st.sampled_from(self._in(State.RUNNING)))
        self.store[job.job_id] = cancel(job, self.now)

    @rule(seconds=SECONDS, data=st.data())
    @precondition(lambda self: self.up)
    def hours_pass(self, seconds: int, data: st.DataObject) -> None:
        """The worker lives: every attempt is made when the core says, and its outcome stored."""
        until = self.now + seconds
        for job in self._in(State.RUNNING):
            if job.limit_s is not None and job.started_at + job.limit_s <= until:
                self.store[job.job_id] = time_out(job, max(self.now, job.started_at + job.limit_s))
        while (next_one := self._next(until)) is not None:
            due, job = next_one
            self.now = max(self.now, due)
            if self._post(job, due, data.draw(ANSWERS), data.draw(TOOK), cut=False):
                self.posts[job.job_id].settled = True
        self.now = max(self.now, until)
        self._sweep()

    @rule(data=st.data(), answer=ANSWERS)
    @precondition(lambda self: self.up and self._next(self.now + 600) is not None)
    def killed_while_posting(self, data: st.DataObject, answer: int | None) -> None:
        """The receiver saw the POST and answered; the worker never stored how."""
        next_one = self._next(self.now + 600)
        assert next_one is not None
        due, job = next_one
        self.now = max(self.now, due)
        self._post(job, due, answer, 1.0, cut=True)
        self.up = False

    @rule()
    @precondition(lambda self: self.up)
    def stopped(self) -> None:
        self.up = False

    @rule(seconds=SECONDS)
    @precondition(lambda self: not self.up)
    def down(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    @precondition(lambda self: not self.up)
    def started_again(self) -> None:
        self.up = True
        for job in self._in(State.RUNNING):
            self.store[job.job_id] = interrupt(job, self.now)
        self._sweep()

    def _in(self, state: State) -> list[Job]:
        return [job for job in self.store.values() if job.state is state]

    def _next(self, until: float) -> tuple[float, Job] | None:
        """The attempt that is due first, at `until` at the latest."""
        due = [
            (at, job.job_id)
            for job in self.store.values()
            if job.state is not State.RUNNING
            and isinstance(job.way, Webhook)
            and (at := next_attempt(job.ended_at, job.last_at, self.now)) is not None
            and at <= until
        ]
        return (min(due)[0], self.store[min(due)[1]]) if due else None

    def _post(self, job: Job, due: float, answer: int | None, took: float, *, cut: bool) -> bool:
        """Make one POST; true when it settled the job."""
        seen = self.posts.setdefault(job.job_id, Posts(job.ended_at))
        assert not seen.settled, "a settled job was POSTed again"
        seen.numbers.append(job.attempts + 1)
        seen.at.append(self.now)
        meant = verdict(answer)
        attempt = Attempt(due=due, at=self.now, verdict=meant, error=None)
        self.now += took
        if cut:
            seen.cut += 1
            return False
        seen.recorded.append(attempt.at)
        after = attempted(job, attempt)
        if after is not None:
            self.store[job.job_id] = after
            return False
        assert meant is not Verdict.RETRY or len(seen.recorded) == 4 or self.now >= job.ended_at + 600
        del self.store[job.job_id]
        return True

    def _sweep(self) -> None:
        """Polling jobs at their deadline; webhook jobs past theirs, which only a worker that was down has."""
        for job in list(self.store.values()):
            deadline = forget_at(job)
            if deadline is None:
                continue
            over = self.now >= deadline if isinstance(job.way, Polling) else self.now > deadline
            if over:
                del self.store[job.job_id]

    @invariant()
    def at_most_four_posts(self) -> None:
        """POSTs per job ≤ 4 + kills that cut an attempt."""
        for seen in self.posts.values():
            assert len(seen.recorded) <= 4
            assert len(seen.at) == len(seen.recorded) + seen.cut
            assert set(seen.numbers) <= {1, 2, 3, 4}
            # A number comes again only for an attempt that was cut.
            assert len(seen.numbers) - len(set(seen.numbers)) <= seen.cut
            assert sorted(seen.numbers) == seen.numbers

    @invariant()
    def none_early(self) -> None:
        """Attempts at 0, 60, 300 and 600 s after the end, and none past its deadline."""
        for seen in self.posts.values():
            for number, at in zip(seen.numbers, seen.at, strict=True):
                assert MOMENTS[number - 1] <= at - seen.ended_at <= 610

    @invariant()
    def missed_attempts_collapse(self) -> None:
        """Between two recorded POSTs there is always a moment of the schedule."""
        for seen in self.posts.values():
            for one, two in zip(seen.recorded, seen.recorded[1:], strict=False):
                assert any(one < seen.ended_at + moment <= two for moment in MOMENTS)

    @invariant()
    def nothing_is_kept_past_its_time(self) -> None:
        """The worker keeps nothing past about 10 minutes after the job ended."""
        if self.up:
            for job in self.store.values():
                deadline = forget_at(job)
                if deadline is not None and not isinstance(job.way, Polling):
                    assert self.now <= deadline + 10, "a webhook job outlived its deadline"
                    # A worker that is up has made every attempt that is due.
                    assert job.attempts < 4

    @invariant()
    def a_limit_holds(self) -> None:
        """Past it the job ends."""
        if self.up:
            for job in self._in(State.RUNNING):
                assert job.limit_s is None or self.now <= job.started_at + job.limit_s

    @invariant()
    def polling_jobs_are_never_posted(self) -> None:
        """Two ways, never both."""
        assert (
            not {job_id for job_id, job in self.store.items() if isinstance(job.way, Polling)}
            & self.posts.keys()
        )


TestJobLife = JobLife.TestCase
TestJobLife.settings = settings(max_examples=60, stateful_step_count=25)


def test_a_last_attempt_that_was_cut_is_made_again_within_its_deadline() -> None:
    """Kill inside attempt 4 at 600 s: start at 605 s, attempt 4 again; at 615 s, past the deadline."""
    ended = 1_800_000_000.0
    job = Job(
        job_id="0" * 16,
        page_id="main",
        plugin="a/b",
        way=Webhook("http://h/"),
        request_id="r",
        started_at=ended,
    )
    third = replace(finish(job, OUTCOME, ended), attempts=3, last_at=ended + 300)
    assert ended + 605 == next_attempt(third.ended_at, third.last_at, ended + 605)
    assert next_attempt(third.ended_at, third.last_at, ended + 615) is None
