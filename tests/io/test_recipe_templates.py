"""Templates in their threads: a long one stops nobody.

Source: docs/recipes.md, "Templates".
"""

from pathlib import Path

import trio

from penelope import registry
from penelope.runs.recipes import book
from penelope.runs.recipes.templates import thread_runner


async def test_a_long_template_stops_nobody(tmp_path: Path) -> None:
    """The loop goes on, and a run that is cancelled does not wait for it."""
    file = tmp_path / "one" / "TEMPLATE.yaml"
    file.parent.mkdir()
    file.write_text(
        "name: one\nsteps: [{primitive: reload, when: \"{{ range(100000) | map('string') | join | length > 0 }}\"}]\n"
        'output: "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"\n'
    )
    recipe = book.load([tmp_path], registry.load(()), {})["one"]
    render = thread_runner()
    ticks = 0

    with trio.move_on_after(0.5) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(render, lambda: recipe.output.value({"input": {}, "config": {}}))
            while True:
                await trio.sleep(0.01)
                ticks += 1

    assert scope.cancelled_caught
    assert ticks > 5
    assert trio.current_time() - scope.deadline < 1.0
