"""Samples, and how they are told: medians, since other work on the machine makes a tail of its own."""

import math
import operator
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Sign = Literal["≥", ">", "<", "≤", "="]

_HOLDS: Final = {
    "≥": operator.ge,
    ">": operator.gt,
    "<": operator.lt,
    "≤": operator.le,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure should be, beside what it is.

    Attributes:
        value: as measured.
        sign, bound: `value sign bound` should hold.
        unit: of both, as it is written after a number; "" for a count, "×" for a ratio.
        digits: after the point.
    """

    value: float
    sign: Sign
    bound: float
    unit: str = ""
    digits: int = 2

    @property
    def met(self) -> bool:
        """As measured, not as rounded; what is no number meets nothing."""
        return bool(_HOLDS[self.sign](self.value, self.bound))

    @property
    def wanted(self) -> str:
        return f"{self.sign} {self.bound:,g}{_after(self.unit)}"

    @property
    def found(self) -> str:
        return f"{self.value:,.{self.digits}f}{_after(self.unit)}"

    @property
    def verdict(self) -> str:
        return "met" if self.met else "**missed**"


def _after(unit: str) -> str:
    return unit if unit in ("", "×", "%") else f" {unit}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report.

    Attributes:
        what: was measured.
        figure: with its unit.
        spread: how far it moved within the run.
        aim: what it should be; None where nothing was promised.
    """

    what: str
    figure: str
    spread: str = ""
    aim: Aim | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Some rows under a title.

    Attributes:
        name: what `--only` calls it, and its place on the page.
        plots: SVG by file name.
    """

    name: str
    title: str
    rows: Sequence[Row]
    plots: Mapping[str, str] = field(default_factory=dict)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that `part` percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part / 100 * len(ordered)) - 1)]


def p95(values: Sequence[float]) -> float:
    return percentile(values, 95)


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
    return f"middle half {low:.2f} to {high:.2f}, p95 {p95(values):.2f}, n = {len(values):,}"


def rate(values: Sequence[float]) -> str:
    """The median of rates."""
    return f"{_few(median(values))} /s"


def spread_rate(values: Sequence[float]) -> str:
    return f"{_few(min(values))} to {_few(max(values))} in {len(values)} rounds"


def _few(value: float) -> str:
    """Three digits are enough of a rate."""
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def ratios(upper: Sequence[float], lower: Sequence[float]) -> list[float]:
    """Of each round: the two of a pair were measured beside each other."""
    return [a / b for a, b in zip(upper, lower, strict=True)]


def ratio_row(
    what: str, upper: Sequence[float], lower: Sequence[float], wanted: tuple[Sign, float] | None = None
) -> Row:
    """The median of the rounds' ratios, and how far they moved.

    Args:
        wanted: of the median.
    """
    found = ratios(upper, lower)
    aim = None if wanted is None else Aim(median(found), wanted[0], wanted[1], "×")
    spread = f"rounds: {min(found):.2f} to {max(found):.2f}" if len(found) > 1 else "one round"
    return Row(what, f"{median(found):.2f}×", spread, aim)
