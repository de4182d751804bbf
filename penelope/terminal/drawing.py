"""The live tree, drawn: who holds which page and what waits behind it, then the tasks in their nurseries."""

import re
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from penelope.terminal.plain import duration, one_line

GUIDE: Final = "dim"
# What Trio calls a task that was given no name: the module and the function.
FUNCTION: Final = re.compile(r"(?:\w+\.)+?(?:\w+\.<locals>\.)*((?:\w+\.)?\w+)")
LINE: Final[Any] = {"no_wrap": True, "overflow": "ellipsis"}
STATES: Final = {"idle": "green", "busy": "yellow", "job": "yellow", "crashed": "bold red"}


def drawing(shown: dict[str, Any], *, all_of_it: bool = False) -> RenderableType:
    """What `GET /api/v1/tree` answers, to be read.

    Args:
        all_of_it: each task in a line of its own, those of the server's connections too.
    """
    tasks = (_task(task, all_of_it=all_of_it) for task in shown["tree"])
    return Group(_pages(shown["pages"]), Text(""), *tasks)


def _pages(pages: list[dict[str, Any]]) -> Tree:
    tree = Tree(Text("pages", style="bold"), guide_style=GUIDE)
    for page in pages:
        head = Text.assemble(
            (page["page_id"], "bold"), "  ", (page["state"], STATES.get(page["state"], "")), **LINE
        )
        if page["lease"] is not None:
            head.append(f"  leased, {duration(page['lease']['expires_in'])} left", "magenta")
        head.append(f"  {one_line(page['url'])[:100]}", "dim")
        node = tree.add(head)
        if (holder := page["holder"]) is not None:
            node.add(_holder(holder))
        for place, one in enumerate(page["waiting"], 1):
            node.add(_waiting(place, one))
    return tree


def _waiting(place: int, one: dict[str, Any]) -> Text:
    return Text.assemble(
        (f"{place}. in line  ", "dim"), _what(one), (f"  {duration(one['for_s'])}", "dim"), **LINE
    )


def _holder(holder: dict[str, Any]) -> Text:
    line = Text.assemble(
        ("held by  ", "dim"), _what(holder), (f"  {duration(holder['for_s'])}", "dim"), **LINE
    )
    if holder["progress"] or holder["note"]:
        line.append(f"  {holder['progress']:.0%}", "cyan")
        line.append(f"  {one_line(holder['note'])}")
    return line


def _what(one: dict[str, Any]) -> Text:
    if one["job_id"] is None:
        return Text(one["what"], "bold yellow")
    sort = "run" if one["job_id"].startswith("run_") else "job"
    return Text.assemble((f"{sort} {one['job_id']}", "bold yellow"), f" of {one['what']}")


def _task(task: dict[str, Any], *, all_of_it: bool) -> Tree:
    tree = Tree(_name(task), guide_style=GUIDE)
    _add_nurseries(tree, task["nurseries"], all_of_it=all_of_it)
    return tree


def _add_nurseries(at: Tree, nurseries: list[dict[str, Any]], *, all_of_it: bool) -> None:
    """The outermost nursery's tasks, and below a node of its own what its block has opened inside of it."""
    if not nurseries:
        return
    if not all_of_it and not _has_a_name(nurseries):
        if count := _count(nurseries):
            at.add(_counted(count))
        return
    nursery, *inner = nurseries
    if (ends := nursery["ends_in_s"]) is not None or nursery["cancelled"]:
        words = "cancelled" if nursery["cancelled"] else f"ends in {duration(ends)}"
        at = at.add(Text(words, "bold red"))
    for task in nursery["tasks"]:
        _add_nurseries(at.add(_name(task)), task["nurseries"], all_of_it=all_of_it)
    if inner:
        below = at.add(Text("inside", "dim italic")) if nursery["tasks"] else at
        _add_nurseries(below, inner, all_of_it=all_of_it)


def _has_a_name(nurseries: list[dict[str, Any]]) -> bool:
    """Has anybody named a task in there? Those of libraries are called as their functions are."""
    return any(
        not FUNCTION.fullmatch(task["task"]) or _has_a_name(task["nurseries"])
        for nursery in nurseries
        for task in nursery["tasks"]
    )


def _counted(count: int) -> Text:
    return Text(
        f"{count} {'task' if count == 1 else 'tasks'} without a name; --all draws them", "dim", **LINE
    )


def _count(nurseries: list[dict[str, Any]]) -> int:
    return sum(1 + _count(task["nurseries"]) for nursery in nurseries for task in nursery["tasks"])


def _name(task: dict[str, Any]) -> Text:
    """A task's own name, or the last parts of its function's: where that lives is of no use here."""
    name = one_line(task["task"])
    if (function := FUNCTION.fullmatch(name)) is not None:
        name, style = function[1], ""
    else:
        style = "bold yellow" if re.match(r"(job|run|call|work|delivery) ", name) else "bold"
    return Text.assemble((name, style), (f"  {duration(task['for_s'])}", "dim"), **LINE)
