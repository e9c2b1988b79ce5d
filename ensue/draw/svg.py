"""A drawing as shapes, and the shapes as SVG or, through matplotlib, as PNG and PDF.

Everything is written from lists in a fixed order: one drawing always gives the same bytes. The
colours are readable on white and on black, since a notebook does not say which it has.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ensue.extras import needed

LINE = "#76808f"
FILL = "#eef1f6"
INK = "#1f2733"
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"

Point = tuple[float, float]


@dataclass(frozen=True)
class Stroke:
    """Cubic Bézier pieces: a point, then two controls and a point for each piece."""

    points: tuple[Point, ...]
    dashed: bool = False


@dataclass(frozen=True)
class Head:
    """The head of an arrow."""

    points: tuple[Point, ...]


@dataclass(frozen=True)
class Pill:
    """A box with round ends: a state, or the background of a mark."""

    centre: Point
    half: float
    radius: float
    width: float = 1.6
    dashed: bool = False
    corner: float | None = None  # None: round ends
    filled: bool = True


@dataclass(frozen=True)
class Text:
    at: Point
    text: str
    size: float
    ink: str = INK
    anchor: str = "middle"


@dataclass(frozen=True)
class Group:
    """Shapes with a tooltip."""

    shapes: tuple[Pill | Text, ...]
    note: str


Shape = Stroke | Head | Pill | Text | Group


@dataclass
class Drawing:
    width: float
    height: float
    shapes: list[Shape] = field(default_factory=list)

    def add(self, other: Drawing, x: float, y: float) -> None:
        """Another drawing with its corner at a place of this one."""
        self.shapes += [_moved(shape, x, y) for shape in other.shapes]

    def svg(self) -> str:
        width, height = _number(self.width), _number(self.height)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family={quoteattr(FONT)}>'
        )
        return "\n".join([head, *(part for s in self.shapes for part in _svg(s)), "</svg>\n"])

    def image(self, kind: str) -> bytes:
        """The drawing by matplotlib, as "png" or "pdf"."""
        needed("matplotlib", f"drawing as {kind.upper()}")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=72)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        for order, shape in enumerate(self.shapes, 1):
            _paint(axes, shape, order)
        sink = io.BytesIO()
        # A date would make two runs differ.
        metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
        # Agg cannot hold more than 2^16 pixels a side.
        dpi = min(144.0, 60_000 * 72 / max(self.width, self.height))
        figure.savefig(sink, format=kind, dpi=dpi, facecolor="white", metadata=metadata)
        return sink.getvalue()


def printable(text: str, most: int) -> str:
    """Quoted names may hold any character; XML may not. Cut to `most`."""
    kept = (" " if char in "\t\n\r" else char for char in text)
    unfit = ("Cc", "Cs", "Cn", "Co")
    clean = "".join("�" if unicodedata.category(char) in unfit else char for char in kept)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def text_width(text: str, size: float) -> float:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return size * (0.58 * (len(text) - wide) + wide)


def _moved(shape: Shape, x: float, y: float) -> Shape:
    match shape:
        case Stroke(points=points) | Head(points=points):
            return replace(shape, points=tuple((px + x, py + y) for px, py in points))
        case Pill(centre=(px, py)):
            return replace(shape, centre=(px + x, py + y))
        case Text(at=(px, py)):
            return replace(shape, at=(px + x, py + y))
        case Group(shapes=shapes):
            moved = tuple(_moved(inner, x, y) for inner in shapes)
            return replace(shape, shapes=moved)  # type: ignore[arg-type]


# -- SVG ------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _pairs(points: Sequence[Point]) -> list[str]:
    return [f"{_number(x)},{_number(y)}" for x, y in points]


def _svg(shape: Shape) -> Iterator[str]:
    match shape:
        case Stroke(points=points, dashed=dashed):
            pairs = _pairs(points)
            pieces = " ".join(" ".join(pairs[i : i + 3]) for i in range(1, len(pairs), 3))
            style = ' stroke-dasharray="3 3"' if dashed else ""
            yield (
                f'<path d="M{pairs[0]} C{pieces}" fill="none" stroke="{LINE}" '
                f'stroke-width="1.4"{style}/>'
            )
        case Head(points=points):
            yield f'<polygon points="{" ".join(_pairs(points))}" fill="{LINE}"/>'
        case Pill(centre=(x, y), half=half, radius=radius):
            corner = radius if shape.corner is None else shape.corner
            style = ' stroke-dasharray="5 3"' if shape.dashed else ""
            yield (
                f'<rect x="{_number(x - half)}" y="{_number(y - radius)}" '
                f'width="{_number(2 * half)}" height="{_number(2 * radius)}" '
                f'rx="{_number(corner)}" fill="{FILL if shape.filled else "none"}" '
                f'stroke="{LINE}" stroke-width="{_number(shape.width)}"{style}/>'
            )
        case Text(at=(x, y), text=text, size=size):
            # A baseline shifted by hand: renderers differ on dominant-baseline.
            yield (
                f'<text x="{_number(x)}" y="{_number(y + size * 0.35)}" '
                f'font-size="{_number(size)}" text-anchor="{shape.anchor}" '
                f'fill="{shape.ink}">{escape(text)}</text>'
            )
        case Group(shapes=shapes, note=note):
            yield f"<g><title>{escape(note)}</title>"
            for inner in shapes:
                yield from _svg(inner)
            yield "</g>"


# -- matplotlib -----------------------------------------------------------------------------------


def _paint(axes: Any, shape: Shape, order: float) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Outline

    match shape:
        case Stroke(points=points, dashed=dashed):
            codes = [Outline.MOVETO, *[Outline.CURVE4] * (len(points) - 1)]
            style = {"linewidth": 1.4, "linestyle": (0, (2, 2)) if dashed else "solid"}
            line = Outline(points, codes)
            axes.add_patch(PathPatch(line, fill=False, edgecolor=LINE, zorder=order, **style))
        case Head(points=points):
            axes.add_patch(Polygon(points, facecolor=LINE, zorder=order))
        case Pill(centre=(x, y), half=half, radius=radius):
            # matplotlib's own rounded box has corners that are not circular.
            corner = radius if shape.corner is None else shape.corner
            turns = []
            for angle, right, low in ((180, -1, -1), (270, 1, -1), (0, 1, 1), (90, -1, 1)):
                bend = np.asarray(Outline.arc(angle, angle + 90).vertices) * corner
                bend += (x + right * (half - corner), y + low * (radius - corner))
                turns.append(bend)
            turn = [Outline.LINETO, *[Outline.CURVE4] * (len(turns[0]) - 1)]
            codes = [Outline.MOVETO, *turn[1:], *turn * 3, Outline.CLOSEPOLY]
            outline = Outline([*np.concatenate(turns), turns[0][0]], codes)
            axes.add_patch(
                PathPatch(
                    outline,
                    facecolor=FILL,
                    fill=shape.filled,
                    edgecolor=LINE,
                    linewidth=shape.width,
                    linestyle=(0, (3, 2)) if shape.dashed else "solid",
                    zorder=order,
                )
            )
        case Text(at=at, text=text):
            # parse_math off: a label `$` is not the start of a formula.
            style = {"size": shape.size, "color": shape.ink, "parse_math": False}
            side = "left" if shape.anchor == "start" else "center"
            axes.text(*at, text, ha=side, va="center_baseline", zorder=order, **style)
        case Group(shapes=shapes):
            for index, inner in enumerate(shapes):
                _paint(axes, inner, order + index / 10)
