"""`penelope deliveries`: what was POSTed where, and how it was answered."""

from collections.abc import Iterable, Mapping

from rich.text import Text

from penelope.client import AsyncClient, Posted
from penelope.client.models import shown as as_shown
from penelope.terminal import shown
from penelope.terminal.jobs import moment, print_json
from penelope.terminal.plain import duration, note, one_line, say

STYLES = {"delivered": "green", "retry": "yellow", "give up": "bold red"}


async def show(client: AsyncClient, filters: Mapping[str, object], *, as_json: bool) -> None:
    """Print the last POSTs of webhooks, newest first, a line each."""
    answer = await client.get("/api/v1/deliveries", filters)
    if as_json:
        print_json(answer)
        return
    posts = [as_shown(Posted, one) for one in answer["deliveries"]]
    if not posts:
        note("there was no such POST in the last 7 days")
        return
    heads = ("at", "job", "attempt", "receiver", "address", "answer", "took", "verdict", "error")
    say(shown.table(heads, (_row(one) for one in posts), folds=("receiver", "address", "error")))
    if answer.get("next_cursor"):
        note("there are more; --limit shows up to 1000")


def _row(one: Posted) -> Iterable[str | Text]:
    return (
        moment(one.at),
        one.job_id,
        str(one.attempt),
        one_line(one.receiver),
        one.address or "",
        "" if one.status is None else str(one.status),
        duration(one.took_s),
        Text(one.verdict, style=STYLES.get(one.verdict, "")),
        one_line(one.error or ""),
    )
