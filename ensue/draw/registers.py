"""Pictures and texts of automata with registers: states in a row, arcs with fence and transfer."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from xml.sax.saxutils import escape

from ensue import errors
from ensue.automaton.registers import FIELD, Arc, Expression, Machine
from ensue.query import condition as c
from ensue.query.sql import row_sql

_LINE, _FILL, _INK = "#76808f", "#eef1f6", "#1f2733"
_RADIUS, _GAP, _ROW = 24, 190, 16
_LONGEST = 60


def expression_text(value: Expression | None) -> str:
    """A fence or transfer as short text."""
    if value is None:
        return "always"
    if isinstance(value, c.CONDITIONS):
        return row_sql(value).replace("`", "").replace(FIELD, "")
    return f"{getattr(value, '__name__', 'function')}()"


def text_of(arc: Arc) -> str:
    """One arc as a line of text."""
    how = "at the end of the window" if arc.closing else "ε" if arc.epsilon else ""
    when = f" when {expression_text(arc.when)}" if arc.when is not None else ""
    changes = ", ".join(f"{name} = {expression_text(value)}" for name, value in arc.set)
    if arc.transfer is not None:
        changes = expression_text(arc.transfer)
    told = f" set {changes}" if changes else ""
    ignorable = " (ignorable)" if arc.ignorable else ""
    return f"{arc.source} -> {arc.target}{' ' + how if how else ''}{when}{told}{ignorable}"


class MachinePicture:
    """An automaton drawn; shows itself in a notebook."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @cached_property
    def dot(self) -> str:
        """Graphviz source, the same text on every run."""
        lines = ["digraph automaton {", "  rankdir=LR;", '  bgcolor="transparent";']
        for state in self._machine.states:
            rings = 2 if state in self._machine.finals else 1
            lines.append(f'  "{_plain(state)}" [shape=circle, peripheries={rings}];')
        for arc in self._machine.arcs:
            label = _plain(self._label(arc))
            lines.append(f'  "{_plain(arc.source)}" -> "{_plain(arc.target)}" [label="{label}"];')
        return "\n".join([*lines, "}"]) + "\n"

    @cached_property
    def svg(self) -> str:
        states = self._machine.states
        centre = {state: 60 + index * _GAP for index, state in enumerate(states)}
        groups: dict[tuple[str, str], list[str]] = {}
        for arc in self._machine.arcs:
            groups.setdefault((arc.source, arc.target), []).append(self._label(arc))
        reach = max([1, *(abs(states.index(a) - states.index(b)) for a, b in groups)])
        most = max((len(labels) for labels in groups.values()), default=1)
        middle = 70 + 36 * reach + _ROW * most
        body: list[str] = []
        for (source, target), labels in groups.items():
            body += _curve(centre[source], centre[target], middle, labels)
        for state in states:
            x = centre[state]
            rings = (_RADIUS, _RADIUS - 4) if state in self._machine.finals else (_RADIUS,)
            for ring in rings:
                body.append(
                    f'<circle cx="{x}" cy="{middle}" r="{ring}" fill="{_FILL}" stroke="{_LINE}"/>'
                )
            body.append(_text(x, middle + 5, state, 14, _INK))
        width, height = 120 + _GAP * (len(states) - 1), 2 * middle
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{_LINE}"/></marker>'
            f"</defs>{''.join(body)}</svg>"
        )

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Writes the picture; the suffix chooses .svg, .dot or .gv."""
        path = Path(path)
        if path.suffix.lower() not in (".svg", ".dot", ".gv"):
            raise errors.UnsupportedError(
                f"a picture of an automaton cannot be saved as {path.name!r}",
                remedy="give the file the suffix .svg, .dot or .gv",
            )
        path.write_text(self.svg if path.suffix.lower() == ".svg" else self.dot, encoding="utf-8")
        return path

    @staticmethod
    def _label(arc: Arc) -> str:
        text = text_of(arc).split(" ", 3)[3:]
        shown = text[0] if text else "always"
        return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _text(x: float, y: float, text: str, size: int, ink: str) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{ink}" text-anchor="middle" '
        f'font-family="Helvetica, Arial, sans-serif">{escape(text)}</text>'
    )


def _curve(begin: int, end: int, middle: int, labels: list[str]) -> list[str]:
    """An arc above the row, one back below it, a loop above its state."""
    style = f'fill="none" stroke="{_LINE}" marker-end="url(#tip)"'
    if begin == end:
        top = middle - _RADIUS - 34
        path = (
            f"M{begin - 12},{middle - 21} C{begin - 30},{top} {begin + 30},{top} "
            f"{begin + 12},{middle - 21}"
        )
        first = top + 4
    else:
        bend = (36 * abs(end - begin) // _GAP) * (-1 if end > begin else 1)
        edge = middle - 16 if end > begin else middle + 16
        half = (begin + end) // 2
        path = f"M{begin},{edge - 6 * (end > begin)} Q{half},{edge + 2 * bend} {end},{edge}"
        first = edge + bend + (-6 if end > begin else 14)
    found = [f'<path d="{path}" {style}/>']
    x = (begin + end) / 2
    rising = -1 if end >= begin else 1
    for row, label in enumerate(labels):
        found.append(_text(x, first + rising * row * _ROW, label, 10, _LINE))
    return found
