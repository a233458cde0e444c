"""Draw cost against size, one small panel for each operation, as SVG: a few lines of our own."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import NamedTuple

COLUMNS = 4
WIDTH, HEIGHT = 215, 130
# Inside of a panel, from its edges: room for the title, the numbers and the sizes.
LEFT, RIGHT, TOP, BOTTOM = 16, 40, 40, 22
MARGIN = 8
# At least so many powers of ten from the bottom to the top, so that what is flat looks flat.
LEAST_SPAN = 2.0
# Attributes, so that a renderer without style sheets draws it too; a dark page changes the colors.
LOOKS = {
    "name": 'fill="#24292f" font-size="11" font-weight="600"',
    "value": 'fill="#24292f" font-size="11"',
    "small": 'fill="#6e7781" font-size="9"',
    "line": 'fill="none" stroke="#0969da" stroke-width="2"',
    "dot": 'fill="#0969da"',
    "limit": 'fill="none" stroke="#cf222e" stroke-dasharray="3 3"',
    "frame": 'fill="none" stroke="#d0d7de"',
}
DARK = """
@media (prefers-color-scheme: dark) {
  .name, .value { fill: #e6edf3 } .small { fill: #8d96a0 }
  .line { stroke: #4493f8 } .dot { fill: #4493f8 } .frame { stroke: #30363d }
}
"""


class Panel(NamedTuple):
    """An operation: its name, its unit, its cost by size, and limits by size where it has some."""

    name: str
    unit: str
    costs: Mapping[int, float]
    limits: Mapping[int, float]


def draw(panels: Sequence[Panel]) -> str:
    """Return the whole picture."""
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif">',
        "<title>Cost of each operation against the number of passages, both logarithmic</title>",
        f"<style>{DARK}</style>",
    ]
    for place, panel in enumerate(panels):
        row, column = divmod(place, COLUMNS)
        across, down = MARGIN + column * WIDTH, MARGIN + row * HEIGHT
        parts.append(f'<g transform="translate({across} {down})">{_panel(panel)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel) -> str:
    sizes = sorted(panel.costs)
    values = [max(value, 1e-3) for value in (*panel.costs.values(), *panel.limits.values())]
    low, high = log10(min(values)), log10(max(values))
    middle, span = (low + high) / 2, max(high - low, LEAST_SPAN)
    first, last = log10(sizes[0]), log10(max(sizes[-1], sizes[0] * 10))

    def across(size: float) -> float:
        return LEFT + (log10(size) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def down(value: float) -> float:
        height = HEIGHT - TOP - BOTTOM
        return TOP + height * (0.5 - (log10(max(value, 1e-3)) - middle) / span)

    points = [(across(size), down(panel.costs[size])) for size in sizes]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [
        _drawn("rect", "frame", x=2, y=2, width=WIDTH - 6, height=HEIGHT - 6, rx=4),
        _drawn("text", "name", panel.name, x=10, y=17),
        _drawn("text", "small", panel.unit, x=10, y=29),
        _drawn("polyline", "line", points=line),
    ]
    for size, (x, y) in zip(sizes, points, strict=True):
        parts.append(_drawn("circle", "dot", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3))
        parts.append(_drawn("text", "value", short(panel.costs[size]), x=x - 6, y=round(y - 6, 1)))
        parts.append(_drawn("text", "small", short(size), x=x - 6, y=HEIGHT - 10))
        if size in panel.limits:
            y = down(panel.limits[size])
            parts.append(_drawn("path", "limit", d=f"M {x - 8:.1f} {y:.1f} h 30"))
    return "".join(parts)


def _drawn(shape: str, look: str, text: str = "", **values: object) -> str:
    """Return one element."""
    given = " ".join(f'{name}="{value}"' for name, value in values.items())
    return f'<{shape} class="{look}" {LOOKS[look]} {given}>{escape(text)}</{shape}>'


def short(value: float) -> str:
    """Return a number as people write it in little room.

    >>> short(0.1234), short(12.34), short(1234), short(100_000), short(1_000_000)
    ('0.12', '12.3', '1,234', '100 k', '1 M')
    """
    for unit, name in ((1_000_000, " M"), (10_000, " k")):
        if value >= unit:
            return f"{value / (unit if name == ' M' else 1000):.3g}{name}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
