"""A picture of a query: each automaton a row of states, those it invokes in boxes below it.

Windows, groups, pipelines and operations are boxes around what they hold, left to right.

Drawn here without any tool, so that a notebook shows it anywhere; the same hierarchy always gives
the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from ensue import errors
from ensue.quantities.model import Automaton, Invocation, Silent, State, Step, Transition
from ensue.quantities.stages import AutomatonStage, Stage

_STATE = 18.0
_GAP = 150.0
_ROW = 46.0
_PAD = 24.0
_INK, _LINE, _FILL, _CALL = "#1f2733", "#76808f", "#eef1f6", "#3d6fb4"


class HierarchyPicture:
    """`.svg` is the picture; `.save("query.svg")` writes it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @property
    def svg(self) -> str:
        drawn = _draw_stage(self.stage, 1)[0]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawn.width:.0f}" '
            f'height="{drawn.height:.0f}" viewBox="0 0 {drawn.width:.0f} {drawn.height:.0f}" '
            f'font-family="Helvetica, Arial, sans-serif">\n' + "\n".join(drawn.body) + "\n</svg>\n"
        )

    def save(self, path: str | Path) -> None:
        target = Path(path)
        if target.suffix.lower() != ".svg":
            raise errors.UnsupportedError(
                f"a hierarchy is drawn as SVG, not {target.suffix or 'a file without an ending'!r}",
                remedy="save it under a name that ends in .svg",
            )
        target.write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass
class _Drawn:
    width: float
    height: float
    body: list[str]


def _draw_stage(stage: Stage, number: int) -> tuple[_Drawn, int]:
    """A stage with everything inside, and the next free number of an invocation."""
    if isinstance(stage, AutomatonStage):
        return _draw(stage.automaton, number)
    parts = []
    for part in stage.parts():
        drawn, number = _draw_stage(part, number)
        parts.append(drawn)
    title = _short(stage.title(), 90)
    body, x, tallest = _boxes(parts, 30.0, _LINE)
    body.insert(0, _text(_PAD, 20, title, 13, _INK, anchor="start"))
    width = max(x, 8.0 * len(title) + 2 * _PAD)
    return _Drawn(width, 30 + tallest + _PAD, body), number


def _boxes(parts: list[_Drawn], y: float, ink: str) -> tuple[list[str], float, float]:
    """Parts side by side in frames: their drawing, the width they take and the tallest."""
    body: list[str] = []
    x, tallest = _PAD, 0.0
    for part in parts:
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{part.width:.1f}" '
            f'height="{part.height:.1f}" rx="8" fill="none" stroke="{ink}" '
            'stroke-dasharray="4 3"/>'
        )
        body += [f'<g transform="translate({x:.1f} {y:.1f})">', *part.body, "</g>"]
        x += part.width + _PAD
        tallest = max(tallest, part.height)
    return body, x, tallest


def _draw(automaton: Automaton, number: int) -> tuple[_Drawn, int]:
    """The automaton with everything below it, and the next free number of an invocation."""
    below: list[tuple[str, list[_Drawn]]] = []
    numbers: dict[int, int] = {}
    for index, transition in enumerate(automaton.transitions):
        if isinstance(transition, Invocation):
            numbers[index] = number
            number += 1
            parts = []
            for inner in transition.automata:
                drawn, number = _draw(inner, number)
                parts.append(drawn)
            below.append((f"{numbers[index]}: {transition.operation}", parts))
    places = {s: (_PAD + 40 + i * _GAP, 0.0) for i, s in enumerate(automaton.states)}
    arcs, above, under = _arcs(automaton, places, numbers)
    middle = _PAD + 30 + above
    width = max(2 * _PAD + 80 + (len(places) - 1) * _GAP, 8.0 * len(automaton.name) + 2 * _PAD)
    body = [_text(_PAD, 22, _short(automaton.name, 90), 13, _INK, anchor="start")]
    body += [f'<g transform="translate(0 {middle:.1f})">', *arcs]
    for state, (x, _) in places.items():
        body += _state(automaton, state, x)
    body.append("</g>")
    height = middle + under + _PAD + _STATE
    for title, parts in below:
        body.append(_text(_PAD, height + 6, _short(title, 90), 11, _CALL, anchor="start"))
        height += 14
        boxes, x, tallest = _boxes(parts, height, _CALL)
        body += boxes
        width = max(width, x)
        height += tallest + _PAD
    return _Drawn(width, height, body), number


def _arcs(
    automaton: Automaton, places: dict[State, tuple[float, float]], numbers: dict[int, int]
) -> tuple[list[str], float, float]:
    """Arrows with their labels, and how far they reach above and below the states."""
    body: list[str] = []
    seen: dict[tuple[State, State], int] = {}
    above, under = _STATE, _STATE
    for index, transition in enumerate(automaton.transitions):
        pair = (transition.source, transition.target)
        level = seen[pair] = seen.get(pair, -1) + 1
        x1, x2 = places[transition.source][0], places[transition.target][0]
        label = _label(transition, numbers.get(index))
        ink = _CALL if isinstance(transition, Invocation) else _LINE
        if x1 == x2:
            height = _STATE + 22 + 26 * level
            path = (
                f"M {x1 - 8:.1f} {-_STATE + 2:.1f} C {x1 - 34:.1f} {-height - 16:.1f} "
                f"{x1 + 34:.1f} {-height - 16:.1f} {x1 + 8:.1f} {-_STATE + 2:.1f}"
            )
            where = (x1, -height - 8)
            above = max(above, height + 20)
        elif x2 > x1:
            bend = (abs(x2 - x1) / _GAP - 1) * 30 + 30 * level
            path = f"M {x1 + _STATE:.1f} 0 Q {(x1 + x2) / 2:.1f} {bend * 2:.1f} {x2 - _STATE:.1f} 0"
            where = ((x1 + x2) / 2, bend - 6)
            under = max(under, bend + 14)
        else:
            bend = 40 + (abs(x2 - x1) / _GAP - 1) * 24 + 26 * level
            path = (
                f"M {x1 - 6:.1f} {_STATE:.1f} Q {(x1 + x2) / 2:.1f} {bend * 2 - _STATE:.1f} "
                f"{x2 + 6:.1f} {_STATE:.1f}"
            )
            where = ((x1 + x2) / 2, bend + 10)
            under = max(under, bend + 20)
        dash = ' stroke-dasharray="2 3"' if isinstance(transition, Silent) else ""
        body.append(f'<path d="{path}" fill="none" stroke="{ink}"{dash}/>')
        body.append(_head(transition, x1, x2, ink))
        body.append(_text(*where, _short(label, 34), 10, ink))
    return body, above, under


def _head(transition: Transition, x1: float, x2: float, ink: str) -> str:
    if x1 == x2:
        x, y = x1 + 8, -_STATE + 2
        points = [(x, y), (x + 8, y - 6), (x + 1, y - 9)]
    elif x2 > x1:
        points = [(x2 - _STATE, 0.0), (x2 - _STATE - 8, -4.0), (x2 - _STATE - 8, 4.0)]
    else:
        points = [(x2 + 6, _STATE), (x2 + 14, _STATE + 4), (x2 + 8, _STATE + 9)]
    shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{shown}" fill="{ink}"/>'


def _label(transition: Transition, number: int | None) -> str:
    folds = "; ".join(f"{a.fold} {', '.join(map(str, a.weights))}" for a in transition.actions)
    match transition:
        case Step():
            return f"{transition.predicate} ↦ {folds}" if folds else str(transition.predicate)
        case Silent():
            return f"ε ↦ {folds}" if folds else "ε"
        case _:
            return f"call {number}" + (f" ↦ {folds}" if folds else "")


def _state(automaton: Automaton, state: State, x: float) -> list[str]:
    body = [
        f'<circle cx="{x:.1f}" cy="0" r="{_STATE:.0f}" fill="{_FILL}" stroke="{_LINE}"/>',
        _text(x, 4, _short(state, 6), 11, _INK),
    ]
    if state in automaton.final:
        body.insert(1, f'<circle cx="{x:.1f}" cy="0" r="{_STATE - 3:.0f}" fill="none" '
                       f'stroke="{_LINE}"/>')  # fmt: skip
    if state in automaton.initial:
        body.append(
            f'<path d="M {x - 42:.1f} 0 H {x - _STATE:.1f}" stroke="{_LINE}" fill="none"/>'
            f'<polygon points="{x - _STATE:.1f},0 {x - _STATE - 8:.1f},-4 {x - _STATE - 8:.1f},4" '
            f'fill="{_LINE}"/>'
        )
    return body


def _text(x: float, y: float, text: str, size: int, ink: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{ink}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
