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
    heads = ("at", "job", "attempt", "verdict", "took", "receiver", "answer")
    say(shown.table(heads, (_row(one) for one in posts), folds=("receiver", "answer")))
    if answer.get("next_cursor"):
        note("there are more; --limit shows up to 1000")


def _row(one: Posted) -> Iterable[str | Text]:
    receiver = one_line(one.receiver)
    if one.address and not receiver.startswith((one.address, f"[{one.address}]")):
        receiver += f" at {one.address}"
    return (
        moment(one.at),
        one.job_id,
        str(one.attempt),
        Text(one.verdict, style=STYLES.get(one.verdict, "")),
        duration(one.took_s),
        receiver,
        str(one.status) if one.error is None else one_line(f"{one.error_class}: {one.error}"),
    )
