"""Draws boxes and labelled arrows as SVG: for docs/states.svg, with no program but Python.

The colours are those of the docs site where the drawing stands in one of its pages, and dark on
white elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WIDTH, HEIGHT = 128.0, 36.0
# Two arrows between the same boxes are this far apart.
_APART: Final = 18.0

_STYLE: Final = """
.ground { fill: var(--md-default-bg-color, #fff) }
.box { fill: var(--md-code-bg-color, #f5f5f5); stroke: var(--md-default-fg-color--light, #666) }
.final { stroke-width: 3 }
.arrow { stroke: var(--md-default-fg-color--light, #666); fill: none; marker-end: url(#tip) }
.tip, .dot { fill: var(--md-default-fg-color--light, #666) }
text { font: 14px system-ui, sans-serif; text-anchor: middle; dominant-baseline: central;
  fill: var(--md-default-fg-color, #222) }
.name { font-weight: 600 }
.label { font-size: 13px; paint-order: stroke; stroke: var(--md-default-bg-color, #fff);
  stroke-width: 6px; stroke-linejoin: round }
"""
_TIP: Final = """<defs>
<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" orient="auto">
<path class="tip" d="M0 0 8 4 0 8z"/>
</marker>
</defs>"""


@dataclass(frozen=True)
class Box:
    """A box around its middle; one without a name is a dot."""

    x: float
    y: float
    name: str = ""
    final: bool = False

    def edge(self, towards: tuple[float, float], shift: tuple[float, float]) -> tuple[float, float]:
        """Where a line from the middle, moved by ``shift``, leaves the box."""
        half = (WIDTH / 2, HEIGHT / 2) if self.name else (8.0, 8.0)
        start = (self.x + shift[0], self.y + shift[1])
        shares = [
            (room - (moved if way > 0 else -moved)) / abs(way)
            for way, room, moved in zip(towards, half, shift, strict=True)
            if way
        ]
        share = min(shares)
        return start[0] + towards[0] * share, start[1] + towards[1] * share


def drawing(
    boxes: dict[str, Box], arrows: dict[tuple[str, str], str], size: tuple[int, int]
) -> str:
    """An SVG of the boxes, and of the arrows between their keys with their labels."""
    width, height = size
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        _TIP,
        f'<rect class="ground" width="{width}" height="{height}"/>',
    ]
    labels: list[str] = []
    for (source, target), label in arrows.items():
        twofold = (target, source) in arrows
        line, text = _arrow(boxes[source], boxes[target], label, _APART / 2 if twofold else 0.0)
        lines.append(line)
        labels.append(text)
    lines += [_box(box) for box in boxes.values()]
    return "\n".join([*lines, *labels, "</svg>\n"])


def _arrow(source: Box, target: Box, label: str, aside: float) -> tuple[str, str]:
    way = (target.x - source.x, target.y - source.y)
    length = (way[0] ** 2 + way[1] ** 2) ** 0.5
    shift = (way[1] / length * aside, -way[0] / length * aside)
    x1, y1 = source.edge(way, shift)
    x2, y2 = target.edge((-way[0], -way[1]), shift)
    line = f'<path class="arrow" d="M{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f}"/>'
    x, y = (x1 + x2) / 2 + shift[0], (y1 + y2) / 2 + shift[1]
    return line, f'<text class="label" x="{x:.1f}" y="{y:.1f}">{label}</text>'


def _box(box: Box) -> str:
    if not box.name:
        return f'<circle class="dot" cx="{box.x:g}" cy="{box.y:g}" r="6"/>'
    left, top = box.x - WIDTH / 2, box.y - HEIGHT / 2
    kind = "box final" if box.final else "box"
    return (
        f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{WIDTH:g}" height="{HEIGHT:g}"'
        f' rx="6"/><text class="name" x="{box.x:g}" y="{box.y:g}">{box.name}</text>'
    )
