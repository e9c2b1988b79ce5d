"""Pictures of shared plans: layers of sub-patterns from the root to the complete patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from xml.sax.saxutils import escape

from ensue import errors
from ensue.automaton.share_plan import SharingPlan

MAX_NODES = 400
_LINE, _FILL, _DONE, _INK = "#76808f", "#eef1f6", "#cfe3d4", "#1f2733"
_WIDE, _HIGH, _BOX, _TALL = 150, 74, 116, 40


@dataclass(frozen=True)
class SharingPicture:
    """The plans drawn; shows itself in a notebook."""

    plans: Sequence[SharingPlan]

    @cached_property
    def dot(self) -> str:
        """Graphviz source."""
        lines = ["digraph workload {", "  rankdir=TB;", "  node [shape=box, style=filled];"]
        for number, plan in enumerate(self.plans):
            for index, node in enumerate(plan.nodes):
                text = _text(plan, index)
                colour = _DONE if node.complete else _FILL
                label = "\\n".join(part.replace('"', '\\"') for part in text)
                lines.append(f'  n{number}_{index} [label="{label}", fillcolor="{colour}"];')
                for name, target in node.successors:
                    shown = name.replace('"', '\\"')
                    lines.append(f'  n{number}_{index} -> n{number}_{target} [label="{shown}"];')
        return "\n".join([*lines, "}"]) + "\n"

    @cached_property
    def svg(self) -> str:
        if sum(len(plan.nodes) for plan in self.plans) > MAX_NODES:
            return _frame(420, 40, ["<text x='10' y='24'>the plan is too large to draw; see "
                                    "explain()</text>"])  # fmt: skip
        drawn: list[str] = []
        top, width = 0, 0
        for plan in self.plans:
            places = _places(plan)
            for index, node in enumerate(plan.nodes):
                x, y = places[index]
                for name, target in node.successors:
                    drawn.append(
                        _arrow(x, y + top, places[target][0], places[target][1] + top, name)
                    )
                colour = _DONE if node.complete else _FILL
                drawn.append(_box(x, y + top, _text(plan, index), colour))
            top += max(y for _, y in places) + _HIGH + 20
            width = max(width, max(x for x, _ in places) + _WIDE)
        return _frame(width + 20, top, drawn)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Writes the picture; the suffix chooses .svg, .dot or .gv."""
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in (".svg", ".dot", ".gv"):
            raise errors.UnsupportedError(
                f"a shared plan cannot be saved as {path.name!r}", remedy="use .svg, .dot or .gv"
            )
        path.write_text(self.svg if suffix == ".svg" else self.dot, encoding="utf-8")
        return path


def _text(plan: SharingPlan, index: int) -> tuple[str, str]:
    node = plan.nodes[index]
    label = node.path or "start"
    if node.complete:
        names = [name for i, name in enumerate(plan.names) if node.complete >> i & 1]
        label += ": " + ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    degree = (
        plan.text(node.bitmap) if len(plan.names) <= 12 else f"{node.bitmap.bit_count()} patterns"
    )
    return label, degree


def _places(plan: SharingPlan) -> list[tuple[int, int]]:
    """Column and row of each node: its distance from the root, in order of discovery."""
    depth = {0: 0}
    for index, node in enumerate(plan.nodes):
        for _, target in node.successors:
            depth.setdefault(target, depth.get(index, 0) + 1)
    used: dict[int, int] = {}
    places = []
    for index in range(len(plan.nodes)):
        level = depth.get(index, 0)
        places.append((10 + used.get(level, 0) * _WIDE, 10 + level * _HIGH))
        used[level] = used.get(level, 0) + 1
    return places


def _box(x: int, y: int, text: tuple[str, str], colour: str) -> str:
    shown = text[0] if len(text[0]) <= 17 else "…" + text[0][-16:]
    return (
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_TALL}" rx="6" fill="{colour}" '
        f'stroke="{_LINE}"><title>{escape(text[0])}</title></rect>'
        f'<text x="{x + _BOX / 2}" y="{y + 17}" text-anchor="middle">{escape(shown)}</text>'
        f'<text x="{x + _BOX / 2}" y="{y + 32}" text-anchor="middle" font-size="10">'
        f"{escape(text[1])}</text>"
    )


def _arrow(x: int, y: int, to_x: int, to_y: int, name: str) -> str:
    begin, end = (x + _BOX / 2, y + _TALL), (to_x + _BOX / 2, to_y)
    if (x, y) == (to_x, to_y):
        right = x + _BOX
        path = f"M{right},{y + 12} C{right + 24},{y + 4} {right + 24},{y + 36} {right},{y + 28}"
        at = (right + 20.0, y + 23.0)
    else:
        path = f"M{begin[0]},{begin[1]} L{end[0]},{end[1]}"
        at = ((begin[0] + end[0]) / 2 + 6, (begin[1] + end[1]) / 2)
    return (
        f'<path d="{path}" fill="none" stroke="{_LINE}" marker-end="url(#tip)"/>'
        f'<text x="{at[0]}" y="{at[1]}" font-size="11" fill="{_LINE}">{escape(name)}</text>'
    )


def _frame(width: int, height: int, drawn: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="12" fill="{_INK}"><defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" '
        f'markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" '
        f'fill="{_LINE}"/></marker></defs>{"".join(drawn)}</svg>'
    )
