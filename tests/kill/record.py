"""What the clients and the receivers of a run saw, and what each job came to by it."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.io.receivers import Received

MOMENTS_S = (0.0, 60.0, 300.0, 600.0)
WEBHOOK_KEEP_S = 610.0
CLOCK_S = 0.05  # by which two readings of the wall clock may differ
SAYING = {200, 409}  # the plugins' own words; a browser that is starved ends a call as 502 or 408
SHORT_TTL_S = 5.0  # a result that is held for less may be gone before anybody asks


class Broken(AssertionError):
    """A promise that was not kept."""


def demand(kept: object, *what: object) -> None:
    if not kept:
        raise Broken(" ".join(map(str, what)))


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended; `finished_at` in epoch seconds."""

    state: str
    status: int
    result: Any
    finished_at: float

    @classmethod
    def of(cls, shown: dict[str, Any]) -> "End":
        return cls(shown["state"], shown["status"], shown["result"], shown["finished_at"])

    def same(self, other: "End") -> bool:
        """But for the time that was moved, which is no float's exact business."""
        close = abs(self.finished_at - other.finished_at) < 1e-3
        return close and (self.state, self.status, self.result) == (other.state, other.status, other.result)


@dataclass(slots=True)
class Post:
    """A POST that came in; `answered` once the receiver has said all it had to say."""

    attempt: int
    life: int
    receiver: str
    answered: bool = False


@dataclass(slots=True)
class Story:
    """One job.

    Attributes:
        ttl: seconds; None: a webhook job.
        accepted: its 202 was seen. The others were found in the store: their start broke off.
        seen_at: when it was last known not to have ended, in monotonic seconds.
        end: the one it has; `shown`: a client saw it.
        gone: it is not there any more, and nobody expects it to be.
        log: what the worker said of it when it gave up.
    """

    job_id: str
    value: str
    ttl: float | None
    accepted: bool
    seen_at: float
    end: End | None = None
    shown: bool = False
    gone: bool = False
    log: str = ""
    posts: list[Post] = field(default_factory=list)

    @property
    def delivered(self) -> int:
        """How often a receiver said that it has it."""
        return sum(post.answered and post.receiver in {"good", "slow", "flaky"} for post in self.posts)

    def ends_as(self, end: End, where: str) -> None:
        """It ended, as seen there; a second end that is another is one too many."""
        if self.end is None:
            self.end = end
        demand(self.end.same(end), self.job_id, where, "shows", end, "after", self.end)
        if end.state == "done" and end.status in SAYING:
            demand(self.value in str(end.result), self.job_id, where, "has another job's result:", end)

    @property
    def said(self) -> str | None:
        """The value in its result, which no other job was given."""
        return None if self.end is None else self.end.result.get("value")


class Record:
    """The stories of all jobs. `life` is the number of the worker's present one."""

    def __init__(self) -> None:
        self.jobs: dict[str, Story] = {}
        self.life = 0
        self.cut_lives: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []

    def accepted(self, job_id: str, value: str, ttl: float | None, asked_at: float) -> Story:
        """Its 202 was seen. A POST may have overtaken it."""
        story = self.jobs.get(job_id) or Story(job_id, value, ttl, accepted=True, seen_at=asked_at)
        story.accepted, story.value = True, value
        if story.end is not None:
            story.ends_as(story.end, "a POST before its 202")
        self.jobs[job_id] = story
        return story

    def posted(self, name: str, received: Received) -> Post:
        """A receiver was sent a job. Nobody else hears what is raised here, so it is kept."""
        job_id, attempt = received.header("X-Penelope-Job"), int(received.header("X-Penelope-Attempt"))
        post = Post(attempt, self.life, name)
        # A delivery may overtake the 202 of its own start.
        story = self.jobs.setdefault(
            job_id, Story(job_id, "", None, accepted=False, seen_at=time.monotonic())
        )
        story.posts.append(post)
        try:
            self._check_post(story, received.job, post)
        except Broken as exc:
            self.broken.append(str(exc))
        return post

    def _check_post(self, story: Story, job: dict[str, Any], post: Post) -> None:
        """Numbered 1 to 4, one each, again only when the life that made it was cut off; not early; the same end."""
        job_id, earlier = story.job_id, story.posts[:-1]
        demand(1 <= post.attempt <= 4, job_id, "has attempt", post.attempt)
        for other in earlier:
            demand(other.attempt <= post.attempt, job_id, "went back to attempt", post.attempt)
            if other.attempt == post.attempt:
                cut = other.life < post.life and other.life in self.cut_lives
                demand(cut, job_id, "attempt", post.attempt, "twice, lives", other.life, post.life)
        since = time.time() - job["finished_at"]
        due = MOMENTS_S[post.attempt - 1]
        demand(since > due - CLOCK_S, job_id, "attempt", post.attempt, "early, after", since)
        story.ends_as(End.of(job), f"attempt {post.attempt}")

    def moved(self, by_s: float) -> None:
        """The times of the webhook jobs in the store were moved into the past."""
        for story in self.jobs.values():
            if story.ttl is None and story.end is not None:
                end = story.end
                story.end = End(end.state, end.status, end.result, end.finished_at - by_s)

    def came_to(self, story: Story) -> str:
        """A word for how it was with this job, once the run is over."""
        if story.ttl is not None:
            return "read" if story.shown else "expired unread" if story.gone else "lost"
        if story.delivered:
            return "delivered"
        refused = any(post.receiver == "refusing" for post in story.posts)
        return "given up" if story.gone and (story.log or refused) else "lost"

    def check_gone(self, story: Story) -> None:
        """The worker says 404, or its store has it no more: only for one of the reasons that there are.

        Those of a webhook job are heard only once its life is over: see `check_webhooks_gone`.
        """
        story.gone = True
        if story.ttl is not None:
            since_end = None if story.end is None else time.time() - story.end.finished_at
            age = time.monotonic() - story.seen_at if since_end is None else since_end
            demand(age > story.ttl - CLOCK_S, story.job_id, "is gone after", age, "of", story.ttl)
            demand(story.shown or story.ttl <= SHORT_TTL_S, story.job_id, "was never seen ended")

    def check_once(self) -> None:
        """No start made two jobs, however often it was asked for under its key."""
        (most, count), *_ = [
            *Counter(filter(None, (job.said for job in self.jobs.values()))).most_common(1),
            ("", 0),
        ]
        demand(count <= 1, count, "jobs ran for one start:", most)

    def check_webhooks_gone(self) -> None:
        """Those that are gone were delivered or given up."""
        for story in self.jobs.values():
            if story.gone and story.ttl is None:
                demand(self.came_to(story) != "lost", story.job_id, "is gone undelivered:", story)
