"""What the bench makes of its figures: ratios, verdicts, and a page whose hand-written parts stay."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import page, record
from bench.numbers import Aim, Row, Section, percentile, ratio_row, ratios
from bench.page import BadMarks, written
from bench.record import Record

PAGE = """# Title

By hand, before.

<!-- bench: polls -->
old
<!-- /bench: polls -->

By hand, between.

<!-- bench: runs -->
<!-- /bench: runs -->

By hand, after.
"""


def made(name: str = "polls", *rows: Row) -> Record:
    return Record(
        Section(name, name.title(), rows, {"a.svg": "<svg/>"}),
        "nox -s bench",
        "2026-11-29 23:50",
        "2 cores.",
        (0.1, 1.9),
    )


def test_what_was_written_by_hand_stays() -> None:
    found = written(PAGE, {"polls": "new", "runs": "newer"})

    assert "old" not in found
    assert "<!-- bench: polls -->\nnew\n<!-- /bench: polls -->" in found
    assert "<!-- bench: runs -->\nnewer\n<!-- /bench: runs -->" in found
    for words in ("# Title", "By hand, before.", "By hand, between.", "By hand, after."):
        assert words in found


def test_a_part_that_was_not_measured_stays() -> None:
    assert "old" in written(PAGE, {"runs": "new"})


def test_a_block_without_marks_comes_at_the_end_with_marks() -> None:
    found = written(PAGE, {"soak": "new"})

    assert found.startswith(PAGE.rstrip())
    assert found.endswith("<!-- bench: soak -->\nnew\n<!-- /bench: soak -->\n")


@given(st.dictionaries(st.sampled_from(["polls", "runs", "soak"]), st.text("ab |\n", max_size=20)))
def test_writing_twice_is_writing_once(blocks: dict[str, str]) -> None:
    once = written(PAGE, blocks)

    assert once == written(once, blocks)
    assert written(PAGE, blocks).replace("old", "") == written(written(PAGE, dict(blocks)), {}).replace(
        "old", ""
    )


@pytest.mark.parametrize(
    "broken",
    [
        "<!-- bench: a -->\nwords",
        "words\n<!-- /bench: a -->",
        "<!-- bench: a -->\n<!-- bench: b -->\n<!-- /bench: a -->",
        "<!-- bench: a -->\n<!-- /bench: a -->\n<!-- bench: a -->\n<!-- /bench: a -->",
    ],
)
def test_marks_that_do_not_pair_stop_it(broken: str) -> None:
    with pytest.raises(BadMarks, match="bench: a"):
        written(broken, {"a": "new"})


@pytest.mark.parametrize(
    ("aim", "met"),
    [
        (Aim(0.9, "≥", 0.9), True),
        (Aim(0.8999, "≥", 0.9), False),
        (Aim(20.0, "<", 20.0), False),
        (Aim(20.0, "≤", 20.0), True),
        (Aim(1.0, ">", 1.0), False),
        (Aim(0.0, "=", 0.0), True),
        (Aim(math.nan, "<", 20.0), False),
        (Aim(math.nan, "≥", 20.0), False),
    ],
)
def test_a_verdict_is_of_the_figure_as_measured(aim: Aim, met: bool) -> None:
    assert met == aim.met
    assert ("met" if met else "**missed**") == aim.verdict


def test_an_aim_is_told_with_its_unit() -> None:
    assert "< 1.5×" == Aim(2, "<", 1.5, "×").wanted
    assert "2.00×" == Aim(2, "<", 1.5, "×").found
    assert "1,234 ms" == Aim(1234.4, "<", 1.5, "ms", digits=0).found


def test_a_ratio_is_the_median_of_the_pairs() -> None:
    """Not the ratio of the medians: the two of a pair met the same machine."""
    upper, lower = [10.0, 40.0, 90.0], [10.0, 10.0, 10.0]

    assert [1.0, 4.0, 9.0] == ratios(upper, lower)
    assert Row("a ÷ b", "4.00×", "rounds: 1.00 to 9.00", Aim(4.0, "≥", 2.0, "×")) == ratio_row(
        "a ÷ b", upper, lower, ("≥", 2.0)
    )


def test_rounds_that_do_not_pair_are_no_ratio() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0], [1.0, 2.0])


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([50, 95, 99, 100]))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    values: list[float], part: int
) -> None:
    found = percentile(values, part)

    assert found in values
    assert sum(value <= found for value in values) * 100 >= part * len(values)
    assert sum(value < found for value in values) * 100 < part * len(values)


def test_the_goals_say_plainly_what_is_missed() -> None:
    kept = made("polls", Row("a", "1", "", Aim(1, "≥", 1)), Row("told", "5"))
    missed = made("runs", Row("b", "2", "", Aim(2, "<", 1)))

    assert page.goals([kept, missed]).splitlines() == [
        "1 of 2 goals are met, 1 missed.",
        "",
        "| work | | goal | measured | |",
        "|---|---|---|---|---|",
        "| Polls | a | ≥ 1 | 1.00 | met |",
        "| Runs | b | < 1 | 2.00 | **missed** |",
    ]


def test_without_figures_no_goal_is_met() -> None:
    assert "Nothing is measured yet." == page.goals([])


def test_the_goals_come_in_the_order_of_the_page() -> None:
    records = {name: made(name, Row("x", "1", "", Aim(1, "<", 2))) for name in ("runs", "polls", "a")}

    assert ["polls", "runs"] == page.order(PAGE)
    assert ["goals", "polls", "runs", "a"] == list(page.blocks(records, page.order(PAGE), "plots"))


def test_a_block_tells_its_command_load_and_plot() -> None:
    block = page.blocks({"polls": made("polls", Row("x", "1"))}, [], "plots")["polls"]

    assert block.startswith("**Polls**\n\n| | measured | spread |\n")
    assert "| x | 1 |" in block
    assert "![Polls](plots/a.svg)" in block
    assert "`nox -s bench`, 2026-11-29 23:50 UTC, load 0.1 before and 1.9 after. 2 cores." in block


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    first = made("polls", Row("x", "1", "so", Aim(1.25, "<", 2, "ms")))
    record.write(path, {"polls": first})
    again = record.read(path)

    assert {} == record.read(tmp_path / "none.json")
    assert list(first.section.rows) == again["polls"].section.rows
    assert (first.load, first.on) == (again["polls"].load, again["polls"].on)
    assert page.blocks({"polls": first}, [], "p") == page.blocks(again, [], "p")
    assert ["a.svg"] == json.loads(path.read_text())["polls"]["plots"]
