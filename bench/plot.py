"""Plots as SVG, without a library, readable on a light and a dark page.

Small multiples, one strip a figure, phases side by side; and bars to compare with.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, STRIP, LEFT, RIGHT, TOP = 760, 74, 52, 12, 26
GAP = 18  # between two phases
BAR_LEFT, BAR_RIGHT = 230, 110

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a }
.what { fill: #1f2328; font-weight: 600 }
.axis { stroke: #d0d7de }
.line { fill: none; stroke: #0969da; stroke-width: 1.6; stroke-linejoin: round }
.ours { fill: #0969da }
.other { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
  text { fill: #8b949e } .what { fill: #e6edf3 } .axis { stroke: #30363d } .line { stroke: #58a6ff }
  .ours { fill: #58a6ff } .other { fill: #484f58 }
}
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure.

    Attributes:
        what: it is, with its unit.
        parts: points (rounds, value) by phase.
    """

    what: str
    parts: Mapping[str, Sequence[tuple[float, float]]]


def draw(lines: Iterable[Line]) -> str:
    """All of them, one below the other."""
    strips = list(lines)
    height = TOP + STRIP * len(strips) + 24
    body = "\n".join(part for at, line in enumerate(strips) for part in _strip(line, TOP + at * STRIP))
    legend = "\n".join(_legend(strips[0], height - 8)) if strips else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<style>{STYLE}</style>\n{body}\n{legend}\n</svg>\n"
    )


def _spans(line: Line) -> Iterator[tuple[str, float, float]]:
    """Each phase with its left and right edge."""
    width = (WIDTH - LEFT - RIGHT - GAP * (len(line.parts) - 1)) / len(line.parts)
    for at, name in enumerate(line.parts):
        left = LEFT + at * (width + GAP)
        yield name, left, left + width


def _strip(line: Line, top: float) -> Iterator[str]:
    """From 0 at the bottom to a little above the highest value: a leak is a slope, noise is not."""
    highest = max(value for points in line.parts.values() for _, value in points)
    bottom, room = top + STRIP - 12, STRIP - 34
    scale = room / (highest * 1.05 or 1)
    yield f'<text class="what" x="{LEFT}" y="{top + 12}">{escape(line.what)}</text>'
    yield f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'
    yield f'<text x="{LEFT - 6}" y="{bottom - highest * scale + 4:.0f}" text-anchor="end">{highest:,.0f}</text>'
    for name, left, right in _spans(line):
        yield f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{bottom}" y2="{bottom}"/>'
        points = line.parts[name]
        most = max(rounds for rounds, _ in points) or 1
        path = " ".join(
            f"{left + rounds / most * (right - left):.1f},{bottom - value * scale:.1f}"
            for rounds, value in points
        )
        yield f'<polyline class="line" points="{path}"/>'


def _legend(line: Line, y: float) -> Iterator[str]:
    for name, left, right in _spans(line):
        most = max(rounds for rounds, _ in line.parts[name])
        yield f'<text x="{left:.1f}" y="{y}">0</text>'
        yield f'<text x="{right:.1f}" y="{y}" text-anchor="end">{most:,.0f} {escape(name)}</text>'


def bars(groups: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """A bar for each name in each group, all to one scale; the first of a group, which the page is about, is filled."""
    highest = max((value for group in groups.values() for value in group.values()), default=0.0) or 1.0
    parts: list[str] = []
    top = 8.0
    for title, group in groups.items():
        parts.append(f'<text class="what" x="8" y="{top + 12:.0f}">{escape(title)}</text>')
        top += 20
        for at, (name, value) in enumerate(group.items()):
            width = max(1.0, value / highest * (WIDTH - BAR_LEFT - BAR_RIGHT))
            kind = "ours" if at == 0 else "other"
            said = f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
            parts += [
                f'<text x="{BAR_LEFT - 8}" y="{top + 13:.0f}" text-anchor="end">{escape(name)}</text>',
                f'<rect class="{kind}" x="{BAR_LEFT}" y="{top:.0f}" width="{width:.1f}" height="16"/>',
                f'<text x="{BAR_LEFT + width + 6:.1f}" y="{top + 13:.0f}">{said} {escape(unit)}</text>',
            ]
            top += 21
        top += 10
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" role="img">\n'
        f"<style>{STYLE}</style>\n{body}\n</svg>\n"
    )
