"""What a run came to, as a table of the docs."""

from collections import Counter

from tests.kill.record import Story
from tests.kill.run import Run


def table(run: Run) -> str:
    """Markdown."""
    stories = run.record.jobs.values()
    accepted = [story for story in stories if story.accepted]
    words = Counter(run.record.came_to(story) for story in accepted)
    posts = [post for story in stories for post in story.posts]
    again = sum(len(story.posts) - len({post.attempt for post in story.posts}) for story in stories)
    rows: list[tuple[str, int]] = [
        ("lives, each ended by", sum(run.ends[how] for how in run.ends if not how.startswith("of these"))),
        *((f"· {how}", count) for how, count in sorted(run.ends.items())),
        ("· points not reached in their life, killed then", sum(run.missed.values())),
        ("jobs accepted (`202` seen)", len(accepted)),
        ("starts whose `202` was cut off, found in the store", len(stories) - len(accepted)),
        ("accepted jobs whose end was seen by a poll or a receiver", _ended(accepted)),
        (
            "· `interrupted`",
            sum(story.end is not None and story.end.state == "interrupted" for story in accepted),
        ),
        ("· `cancelled`, and the cancel answered", run.record.counts["cancelled"]),
        ("polling jobs read", words["read"]),
        ("polling jobs whose short `ttl` ran out before anybody asked", words["expired unread"]),
        ("webhook jobs delivered", words["delivered"]),
        ("· delivered twice", sum(story.delivered > 1 for story in accepted)),
        ("· given up by rule", words["given up"]),
        ("POSTs", len(posts)),
        ("· made again after a stop had cut them", again),
        (
            "starts repeated under their `Idempotency-Key`, since the answer broke off",
            run.record.counts["repeated"],
        ),
        ("· answered with the job that there was", run.record.counts["replayed"]),
        ("files fetched, whole", run.record.counts["files"]),
        ("stores looked at after a stop, `integrity_check` clean", run.checks),
        ("stops after which no process was left, worker's or browser's", run.record.counts["nothing left"]),
        ("accepted jobs without an end, or lost", words["lost"]),
    ]
    return "\n".join(("| | |", "|---|---|", *(f"| {what} | {count} |" for what, count in rows)))


def _ended(stories: list[Story]) -> int:
    return sum(story.shown or bool(story.posts) for story in stories)
