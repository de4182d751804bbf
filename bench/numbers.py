"""Samples, and how they are told: medians, since other work on the machine makes a tail of its own."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report.

    Attributes:
        what: was measured.
        figure: with its unit.
        spread: how far it moved within the run.
        goal: what it should be; "" where nothing was promised.
    """

    what: str
    figure: str
    spread: str = ""
    goal: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Some rows under a title, with the numbers behind them for `--json`."""

    title: str
    rows: Sequence[Row]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    """The smallest value that 95 % of them do not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    """Between which two values the middle half lies."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return ordered[quarter], ordered[-1 - quarter]


def ms(values: Sequence[float]) -> str:
    """The median of milliseconds."""
    return f"{median(values):.2f} ms"


def spread_ms(values: Sequence[float]) -> str:
    low, high = middle_half(values)
    return f"middle half {low:.2f} to {high:.2f}, p95 {p95(values):.2f}, n = {len(values)}"


def rate(values: Sequence[float]) -> str:
    """The median of rates."""
    return f"{median(values):,.0f} /s"


def spread_rate(values: Sequence[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f} in {len(values)} rounds"


def ratio(upper: Sequence[float], lower: Sequence[float]) -> str:
    """The median of the rounds' ratios: the two of a pair were measured beside each other."""
    ratios = [a / b for a, b in zip(upper, lower, strict=True)]
    return f"{median(ratios):.2f} (rounds: {min(ratios):.2f} to {max(ratios):.2f})"
