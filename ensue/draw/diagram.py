"""Pictures of automata: Graphviz source, SVG, PNG and PDF, from what an automaton shows of itself.

States are circles with their label (a longer label stretches its circle), states inside `{- -}`
are dashed, what accepts has a second ring. The arcs of a state of a row pattern are numbered by
preference; other arcs say what is taken, tested and set, and are dotted where nothing is taken.
Conditions stand below the label they belong to, cut where they are long; tooltips have them whole.
Automata inside others stand in frames below them. Where Graphviz's `dot` is installed it does the
layout, otherwise `layout.py` does, so that a picture never depends on a system package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ensue import errors
from ensue.automaton.view import ACCEPT, START, State, View
from ensue.draw.layout import MARK_SIZE, RADIUS, STUB, Curve, arrange, collect_arcs
from ensue.draw.svg import (
    FILL,
    INK,
    LINE,
    Drawing,
    Group,
    Head,
    Pill,
    Point,
    Shape,
    Stroke,
    Text,
    printable,
    text_width,
)

MAX_STATES = 200
MAX_ARCS = 2_000

_LONGEST_LABEL = 24
_LONGEST_TITLE = 90
_LONGEST_TOOLTIP = 2_000
_CIRCLE = "shape=circle, fixedsize=true, width=0.67"
_TEXT_SIZE = 14.0
_END_SIZE = 10.0
_PAD = 16.0
_ROW_WIDTH = 1_400.0  # of frames side by side


class Picture:
    """An automaton drawn; shows itself in a notebook."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def dot(self) -> str:
        """Graphviz source."""
        return dot(self._view)

    @cached_property
    def svg(self) -> str:
        return svg(self._view)

    def __repr__(self) -> str:
        return "<ensue picture: save('automaton.svg') writes it>"

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
                path.write_bytes(image(self._view, suffix[1:]))
            case suffix:
                raise errors.UnsupportedError(
                    f"a picture cannot be saved as {path.name!r}: {suffix or 'no suffix'} is not "
                    "one of .svg, .png, .pdf, .dot, .gv",
                    remedy="give the file one of these suffixes",
                )
        return path


def svg(view: View) -> str:
    """The automaton as SVG, laid out by Graphviz where it is installed, else by Ensue."""
    if _too_large(view):
        return _note(view).svg()
    return _by_graphviz(view, "svg", lambda written: written.decode("utf-8")) or draw_svg(view)


def draw_svg(view: View) -> str:
    """The automaton as SVG without Graphviz, the same text on every run."""
    return _drawing(view).svg()


def image(view: View, kind: str) -> bytes:
    """The automaton as "png" or "pdf"."""
    if not _too_large(view):
        written: bytes | None = _by_graphviz(view, kind, bytes)
        if written is not None:
            return written
    return draw_image(view, kind)


def draw_image(view: View, kind: str) -> bytes:
    """The drawing of `draw_svg`, for formats that SVG cannot be written as here."""
    return (_note(view) if _too_large(view) else _drawing(view)).image(kind)


# -- what is shown --------------------------------------------------------------------------------


def _all(view: View) -> Iterator[View]:
    yield view
    for part in view.parts:
        yield from _all(part)


def _sizes(view: View) -> tuple[int, int]:
    states = sum(state.key != ACCEPT for part in _all(view) for state in part.states)
    return states, sum(len(part.arcs) for part in _all(view))


def _too_large(view: View) -> bool:
    states, arcs = _sizes(view)
    return states > MAX_STATES or arcs > MAX_ARCS


def _name(state: State) -> str:
    return printable(state.label or state.key, _LONGEST_LABEL)


def _tooltip(state: State) -> str:
    told = state.note or state.text
    if state.condition and state.condition not in told:
        told += f" AS {state.condition}"
    return printable(told, _LONGEST_TOOLTIP)


def _detail(state: State) -> str:
    return state.detail or printable(state.condition, _LONGEST_LABEL)


def _is_end(state: State) -> bool:
    """Whether it is not a state of its own but where matches begin or end: it stands back."""
    return state.label in (START, ACCEPT) and state.label in state.marks


def _half_width(state: State) -> float:
    widths = [
        text_width(_name(state), _END_SIZE if _is_end(state) else _TEXT_SIZE),
        text_width(_detail(state), _END_SIZE),
    ]
    ring = 4 if ACCEPT in state.marks and not _is_end(state) else 0
    return max(RADIUS, max(widths) / 2 + 4 + ring)


# -- drawn here -----------------------------------------------------------------------------------


def _drawing(view: View) -> Drawing:
    """The title, the automaton under it, and what it holds in frames under that."""
    page = Drawing(2 * _PAD, 0.0)
    if view.title:
        title = printable(view.title, _LONGEST_TITLE)
        page.shapes.append(Text((_PAD, 18), title, 13, anchor="start"))
        page.width = max(page.width, text_width(title, 13) + 2 * _PAD)
        page.height = 30.0
    if view.states:
        own = _automaton(view)
        page.add(own, 0, page.height)
        page.width, page.height = max(page.width, own.width), page.height + own.height
    page.height = page.height or _PAD
    x, row = _PAD, 0.0
    for part in view.parts:
        inner = _drawing(part)
        if x > _PAD and x + inner.width > _ROW_WIDTH:
            x, row, page.height = _PAD, 0.0, page.height + row + _PAD
        half = (inner.width / 2, inner.height / 2)
        centre = (x + half[0], page.height + half[1])
        page.shapes.append(Pill(centre, *half, width=0.8, dashed=True, corner=8, filled=False))
        page.add(inner, x, page.height)
        x += inner.width + _PAD
        row, page.width = max(row, inner.height), max(page.width, x)
    page.height += row + _PAD if view.parts else 0.0
    return page


def _automaton(view: View) -> Drawing:
    layout = arrange(view, [_half_width(state) for state in view.states])
    page = Drawing(layout.width, layout.height)
    for curve in layout.curves:
        page.shapes += [Stroke(curve.points, curve.arc.faint), _head(*curve.points[-2:])]
    for state, centre in zip(view.states, layout.centres, strict=True):
        if START in state.marks and not _is_end(state):
            tip = (centre[0] - _half_width(state), centre[1])
            tail = (tip[0] - STUB, tip[1])
            page.shapes += [Stroke((tail, tail, tip, tip)), _head(tail, tip)]
        page.shapes.append(_state(state, centre))
    for curve in layout.curves:
        page.shapes += _mark(curve)
    return page


def _head(before: Point, tip: Point) -> Head:
    angle = math.atan2(tip[1] - before[1], tip[0] - before[0])
    back = (tip[0] - 9 * math.cos(angle), tip[1] - 9 * math.sin(angle))
    side = (4 * math.sin(angle), -4 * math.cos(angle))
    left, right = (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1])
    return Head((tip, left, right))


def _state(state: State, centre: Point) -> Group:
    half = _half_width(state)
    dashed = "excluded" in state.marks or "pending" in state.marks
    rings = (0.0, 4.0) if ACCEPT in state.marks or "pending" in state.marks else (0.0,)
    shapes: list[Pill | Text] = [
        Pill(centre, half - inset, RADIUS - inset, dashed=dashed) for inset in rings
    ]
    size, ink = (_END_SIZE, LINE) if _is_end(state) else (_TEXT_SIZE, INK)
    x, y = centre
    if _detail(state):
        shapes.append(Text((x, y + 11), _detail(state), _END_SIZE, LINE))
        y -= 5
    shapes.append(Text((x, y), _name(state), size, ink))
    return Group(tuple(shapes), _tooltip(state))


def _mark(curve: Curve) -> list[Shape]:
    lines = curve.arc.marks
    if not lines:
        return []
    half, radius = curve.arc.mark_size
    x, y = curve.mark_at
    first = y - 13.0 * (len(lines) - 1) / 2
    texts = [Text((x, first + 13.0 * n), line, MARK_SIZE) for n, line in enumerate(lines)]
    box = Pill(curve.mark_at, half, radius, width=0.8, corner=7.5)
    shapes: tuple[Pill | Text, ...] = (box, *texts)
    note = curve.arc.note
    return [Group(shapes, printable(note, _LONGEST_TOOLTIP))] if note else list(shapes)


def _note(view: View) -> Drawing:
    states, arcs = _sizes(view)
    first = (
        f"{states:,} states and {arcs:,} arcs: too many to draw "
        f"(limits {MAX_STATES} and {MAX_ARCS:,})."
    )
    second = "dump() lists them; Picture.dot is their Graphviz source."
    return Drawing(
        620,
        80,
        [
            Pill((310, 40), 309, 39, width=1, corner=8),
            Text((310, 30), first, _TEXT_SIZE),
            Text((310, 54), second, 12, LINE),
        ],
    )


# -- Graphviz -------------------------------------------------------------------------------------


def dot(view: View) -> str:
    """The automaton as Graphviz source, the same text on every run."""
    lines = [
        "digraph program {",
        "  rankdir=LR;",
        '  bgcolor="transparent";',
        f'  node [fontname="Helvetica", fontsize=14, style=filled, fillcolor="{FILL}", '
        f'color="{LINE}", fontcolor="{INK}"];',
        f'  edge [fontname="Helvetica", fontsize=11, color="{LINE}", fontcolor="{LINE}"];',
        *_dot_lines(view, ""),
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_lines(view: View, prefix: str) -> Iterator[str]:
    if view.title:
        title = printable(view.title, _LONGEST_TITLE)
        yield f'  label={_quoted(title)}; labeljust=l; color="{LINE}"; style=dashed;'
    ids = [
        f"{prefix}{ACCEPT if state.key == ACCEPT else number}"
        for number, state in enumerate(view.states)
    ]
    for name, state in zip(ids, view.states, strict=True):
        yield f"  {name} [{_dot_state(state)}];"
    for arc in collect_arcs(view):
        style = [f"label={_quoted(' ' + chr(10).join(arc.marks))}"] if arc.marks else []
        style += ["style=dashed"] if arc.faint else []
        if arc.note:
            note = _quoted(printable(arc.note, _LONGEST_TOOLTIP))
            style += [f"tooltip={note}", f"labeltooltip={note}"]
        told = f" [{', '.join(style)}]" if style else ""
        yield f"  {ids[arc.source]} -> {ids[arc.target]}{told};"
    for number, part in enumerate(view.parts):
        yield f"  subgraph cluster_{prefix}{number} {{"
        yield from _dot_lines(part, f"{prefix or 'p'}{number}_")
        yield "  }"


def _dot_state(state: State) -> str:
    shown = "\n".join(filter(None, (_name(state), _detail(state))))
    parts = [
        f"label={_quoted(shown)}",
        _CIRCLE if _half_width(state) == RADIUS else "shape=ellipse",
    ]
    if "excluded" in state.marks or "pending" in state.marks:
        parts.append('style="filled,dashed"')
    if ACCEPT in state.marks:
        parts.append("peripheries=2")
    if _is_end(state):
        parts.append(f'fontsize=10, fontcolor="{LINE}"')
    return ", ".join([*parts, f"tooltip={_quoted(_tooltip(state))}"])


def _quoted(text: str) -> str:
    # Graphviz reads backslash escapes and HTML entities even inside quoted strings.
    for char, written in (("&", "&amp;"), ("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(char, written)
    return f'"{text}"'


def _by_graphviz(view: View, kind: str, read: Callable[[bytes], Any]) -> Any:
    """The picture from the `dot` binary, or None where there is none or it fails."""
    import subprocess

    try:
        import graphviz
    except ModuleNotFoundError:
        return None
    try:
        return read(graphviz.Source(dot(view)).pipe(format=kind))
    except (graphviz.ExecutableNotFound, subprocess.CalledProcessError, OSError):
        return None
