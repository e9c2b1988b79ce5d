"""Pictures of a program: Graphviz source, SVG and PNG.

States are circles with their label (a longer label stretches its circle), states inside `{- -}`
are dashed, the accepting end is a double circle. The arcs of a state that has several are numbered
by preference; `^` and `$` are the anchors. Where Graphviz's `dot` is installed it does the layout,
otherwise `layout.py` does, so that a picture never depends on a system package. The colours are
readable on white and on black, since a notebook does not say which it has.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ensue import errors
from ensue.automaton.program import START, Program
from ensue.draw.layout import RADIUS, Curve, Layout, Point, arrange, collect_arcs
from ensue.query import condition as c
from ensue.query.sql import condition_sql

MAX_STATES = 200
MAX_ARCS = 2_000

_LINE = "#76808f"
_FILL = "#eef1f6"
_INK = "#1f2733"
_FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
_LONGEST_LABEL = 24
_LONGEST_TOOLTIP = 300
_CIRCLE = "shape=circle, fixedsize=true, width=0.67"
_TEXT_SIZE = 14.0
_MARK_SIZE = 10.0
_END_SIZE = 10.0


class Picture:
    """A program drawn; shows itself in a notebook."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @cached_property
    def dot(self) -> str:
        """Graphviz source."""
        return dot(self._program)

    @cached_property
    def svg(self) -> str:
        return svg(self._program)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Writes the picture; the suffix chooses .svg, .png, .pdf, .dot or .gv."""
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                path.write_text(self.svg, encoding="utf-8")
            case ".dot" | ".gv":
                path.write_text(self.dot, encoding="utf-8")
            case ".png" | ".pdf" as suffix:
                path.write_bytes(_image(self._program, suffix[1:]))
            case suffix:
                raise errors.UnsupportedError(
                    f"a picture cannot be saved as {path.name!r}: {suffix or 'no suffix'} is not "
                    "one of .svg, .png, .pdf, .dot, .gv",
                    remedy="give the file one of these suffixes",
                )
        return path


def dot(program: Program) -> str:
    """The program as Graphviz source, the same text on every run."""
    lines = [
        "digraph program {",
        "  rankdir=LR;",
        '  bgcolor="transparent";',
        f'  node [fontname="Helvetica", fontsize=14, style=filled, fillcolor="{_FILL}", '
        f'color="{_LINE}", fontcolor="{_INK}"];',
        f'  edge [fontname="Helvetica", fontsize=11, color="{_LINE}", fontcolor="{_LINE}"];',
    ]
    for state in range(program.states):
        name = _label(program, state)
        shape = _CIRCLE if _half_width(name) == RADIUS else "shape=ellipse"
        style = ', style="filled,dashed"' if program.excluded[state] else ""
        style += f', fontsize=10, fontcolor="{_LINE}"' if state == START else ""
        tooltip = _quoted(_tooltip(program, state))
        lines.append(f"  {state} [label={_quoted(name)}, {shape}{style}, tooltip={tooltip}];")
    lines.append(
        f'  accept [label="accept", {_CIRCLE}, peripheries=2, fontsize=10, '
        f'fontcolor="{_LINE}", tooltip="accept"];'
    )
    for arc in collect_arcs(program):
        target = "accept" if arc.target == program.states else str(arc.target)
        mark = f" [label={_quoted(' ' + arc.marks)}]" if arc.marks else ""
        lines.append(f"  {arc.source} -> {target}{mark};")
    return "\n".join([*lines, "}"]) + "\n"


def svg(program: Program) -> str:
    """The program as SVG, laid out by Graphviz where it is installed, else by Ensue."""
    if _too_large(program):
        return _note_svg(program)
    return _by_graphviz(program, "svg", _as_text) or draw_svg(program)


def draw_svg(program: Program) -> str:
    """The program as SVG without Graphviz, the same text on every run."""
    names = _names(program)
    layout = arrange(program, [_half_width(name) for name in names])
    body = [part for curve in layout.curves for part in _curve_svg(curve)]
    for state, (name, centre) in enumerate(zip(names, layout.centres, strict=True)):
        body += _state_svg(program, state, name, centre)
    body += [part for curve in layout.curves for part in _mark_svg(curve)]
    return _svg_page(layout.width, layout.height, body)


def _names(program: Program) -> list[str]:
    return [_label(program, state) for state in range(program.states)] + ["accept"]


def _too_large(program: Program) -> bool:
    return program.states > MAX_STATES or program.arcs > MAX_ARCS


def _label(program: Program, state: int) -> str:
    if state == START:
        return "start"
    name = _printable(program.labels[program.label[state]])
    return name if len(name) <= _LONGEST_LABEL else name[: _LONGEST_LABEL - 1] + "…"


def _tooltip(program: Program, state: int) -> str:
    if state == START:
        return "start"
    index = program.label[state]
    text = f"state {state}: {program.labels[index]}"
    if program.definitions[index] != c.TRUE:
        text += f" AS {condition_sql(program.definitions[index])}"
    if program.excluded[state]:
        text += ", excluded from the output"
    text = _printable(text)
    return text if len(text) <= _LONGEST_TOOLTIP else text[: _LONGEST_TOOLTIP - 1] + "…"


def _printable(text: str) -> str:
    """Quoted names may hold any character; XML may not."""
    kept = (" " if char in "\t\n\r" else char for char in text)
    unfit = ("Cc", "Cs", "Cn", "Co")
    return "".join("�" if unicodedata.category(char) in unfit else char for char in kept)


def _text_width(text: str, size: float) -> float:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return size * (0.58 * (len(text) - wide) + wide)


def _half_width(name: str) -> float:
    plain = _TEXT_SIZE if name not in ("start", "accept") else _END_SIZE
    return max(RADIUS, _text_width(name, plain) / 2 + 4)


def _quoted(text: str) -> str:
    # Graphviz reads backslash escapes and HTML entities even inside quoted strings.
    for char, written in (("&", "&amp;"), ("\\", "\\\\"), ('"', '\\"')):
        text = text.replace(char, written)
    return f'"{text}"'


def _by_graphviz(program: Program, kind: str, read: Callable[[bytes], Any]) -> Any:
    """The picture from the `dot` binary, or None where there is none or it fails."""
    import subprocess

    import graphviz

    try:
        return read(graphviz.Source(dot(program)).pipe(format=kind))
    except (graphviz.ExecutableNotFound, subprocess.CalledProcessError, OSError):
        return None


def _as_text(written: bytes) -> str:
    return written.decode("utf-8")


def _number(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _pair(point: Point) -> str:
    return f"{_number(point[0])},{_number(point[1])}"


def _svg_page(width: float, height: float, body: list[str]) -> str:
    size = f'width="{_number(width)}" height="{_number(height)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {_number(width)} {_number(height)}" '
            f"font-family={quoteattr(_FONT)}>",
            *body,
            "</svg>\n",
        ]
    )


def _curve_svg(curve: Curve) -> list[str]:
    points = [_pair(point) for point in curve.points]
    pieces = [" ".join(points[i : i + 3]) for i in range(1, len(points), 3)]
    tip = " ".join(_pair(point) for point in _arrow_head(curve))
    return [
        f'<path d="M{points[0]} C{" ".join(pieces)}" fill="none" stroke="{_LINE}" '
        'stroke-width="1.4"/>',
        f'<polygon points="{tip}" fill="{_LINE}"/>',
    ]


def _arrow_head(curve: Curve) -> list[Point]:
    (x, y), before = curve.points[-1], curve.points[-2]
    angle = math.atan2(y - before[1], x - before[0])
    back = (x - 9 * math.cos(angle), y - 9 * math.sin(angle))
    side = (4 * math.sin(angle), -4 * math.cos(angle))
    return [(x, y), (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1])]


def _state_svg(program: Program, state: int, name: str, centre: Point) -> list[str]:
    end = state == program.states
    tooltip = "accept" if end else _tooltip(program, state)
    dashed = ' stroke-dasharray="5 3"' if not end and program.excluded[state] else ""
    parts = [f"<g><title>{escape(tooltip)}</title>"]
    for inset in (0.0, 4.0) if end else (0.0,):
        half, radius = _half_width(name) - inset, RADIUS - inset
        parts.append(
            f'<rect x="{_number(centre[0] - half)}" y="{_number(centre[1] - radius)}" '
            f'width="{_number(2 * half)}" height="{_number(2 * radius)}" rx="{_number(radius)}" '
            f'fill="{_FILL}" stroke="{_LINE}" stroke-width="1.6"{dashed}/>'
        )
    size, ink = _style(program, state)
    parts.append(_text_svg(centre, name, size, ink) + "</g>")
    return parts


def _style(program: Program, state: int) -> tuple[float, str]:
    """Text size and colour: the two ends are not labels and stand back."""
    return (_END_SIZE, _LINE) if state in (START, program.states) else (_TEXT_SIZE, _INK)


def _text_svg(centre: Point, text: str, size: float, ink: str) -> str:
    # A baseline shifted by hand: renderers differ on dominant-baseline.
    baseline = centre[1] + size * 0.35
    return (
        f'<text x="{_number(centre[0])}" y="{_number(baseline)}" font-size="{_number(size)}" '
        f'text-anchor="middle" fill="{ink}">{escape(text)}</text>'
    )


def _mark_size(curve: Curve) -> tuple[float, float]:
    return max(7.5, _text_width(curve.arc.marks, _MARK_SIZE) / 2 + 4), 7.5


def _mark_svg(curve: Curve) -> list[str]:
    if not curve.arc.marks:
        return []
    (x, y), (half, radius) = curve.mark_at, _mark_size(curve)
    return [
        f'<rect x="{_number(x - half)}" y="{_number(y - radius)}" width="{_number(2 * half)}" '
        f'height="{_number(2 * radius)}" rx="{_number(radius)}" fill="{_FILL}" '
        f'stroke="{_LINE}" stroke-width="0.8"/>',
        _text_svg(curve.mark_at, curve.arc.marks, _MARK_SIZE, _INK),
    ]


def _note(program: Program) -> tuple[str, str]:
    return (
        f"{program.states:,} states and {program.arcs:,} arcs: too many to draw "
        f"(limits {MAX_STATES} and {MAX_ARCS:,}).",
        "Program.dump() lists them; Picture.dot is their Graphviz source.",
    )


def _note_svg(program: Program) -> str:
    first, second = _note(program)
    body = [
        f'<rect x="1" y="1" width="618" height="78" rx="8" fill="{_FILL}" stroke="{_LINE}"/>',
        _text_svg((310, 30), first, _TEXT_SIZE, _INK),
        _text_svg((310, 54), second, 12.0, _LINE),
    ]
    return _svg_page(620, 80, body)


def _image(program: Program, kind: str) -> bytes:
    if not _too_large(program):
        image: bytes | None = _by_graphviz(program, kind, bytes)
        if image is not None:
            return image
    return _draw_image(program, kind)


def _draw_image(program: Program, kind: str) -> bytes:
    """The drawing of `draw_svg` by matplotlib, for formats that SVG cannot be written as here."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = _names(program)
    layout = None
    width, height = 620.0, 80.0
    if not _too_large(program):
        layout = arrange(program, [_half_width(name) for name in names])
        width, height = layout.width, layout.height
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    if layout is None:
        for row, line in enumerate(_note(program)):
            axes.text(310, 30 + 24 * row, line, ha="center", va="center", size=12, color=_INK)
    else:
        _draw_layout(axes, program, names, layout)
    sink = io.BytesIO()
    # A date would make two runs differ.
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    # Agg cannot hold more than 2^16 pixels a side.
    dpi = min(144.0, 60_000 * 72 / max(width, height))
    figure.savefig(sink, format=kind, dpi=dpi, facecolor="white", metadata=metadata)
    return sink.getvalue()


def _draw_layout(axes: Any, program: Program, names: list[str], layout: Layout) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Outline

    def pill(centre: Point, half: float, radius: float, **style: Any) -> None:
        # matplotlib's own rounded box has corners that are not circular.
        left = np.asarray(Outline.arc(90, 270).vertices) * radius
        right = np.asarray(Outline.arc(-90, 90).vertices) * radius
        left += (centre[0] - half + radius, centre[1])
        right += (centre[0] + half - radius, centre[1])
        curved = [Outline.CURVE4] * (len(left) - 1)
        codes = [Outline.MOVETO, *curved, Outline.LINETO, *curved, Outline.CLOSEPOLY]
        outline = Outline([*left, *right, left[0]], codes)
        axes.add_patch(PathPatch(outline, **style))

    def write(centre: Point, text: str, size: float, ink: str, order: float) -> None:
        # parse_math off: a label `$` is not the start of a formula.
        style = {"size": size, "color": ink, "zorder": order, "parse_math": False}
        axes.text(*centre, text, ha="center", va="center_baseline", **style)

    for curve in layout.curves:
        codes = [Outline.MOVETO, *[Outline.CURVE4] * (len(curve.points) - 1)]
        line = Outline(curve.points, codes)
        axes.add_patch(PathPatch(line, fill=False, edgecolor=_LINE, linewidth=1.4, zorder=1))
        axes.add_patch(Polygon(_arrow_head(curve), facecolor=_LINE, zorder=1))
    for state, (name, centre) in enumerate(zip(names, layout.centres, strict=True)):
        end = state == program.states
        dashed = not end and bool(program.excluded[state])
        style: dict[str, Any]
        style = {"facecolor": _FILL, "edgecolor": _LINE, "linewidth": 1.6, "zorder": 2}
        for inset in (0.0, 4.0) if end else (0.0,):
            line_style = (0, (3, 2)) if dashed else "solid"
            pill(centre, _half_width(name) - inset, RADIUS - inset, linestyle=line_style, **style)
        write(centre, name, *_style(program, state), 3)
    for curve in layout.curves:
        if curve.arc.marks:
            half, radius = _mark_size(curve)
            style = {"facecolor": _FILL, "edgecolor": _LINE, "linewidth": 0.8, "zorder": 4}
            pill(curve.mark_at, half, radius, **style)
            write(curve.mark_at, curve.arc.marks, _MARK_SIZE, _INK, 5)
