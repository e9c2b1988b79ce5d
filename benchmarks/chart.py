"""Line charts as SVG, in plain text: the same figures give the same file, to the byte."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

Points = Sequence[tuple[Any, float]]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a6d00")
LEFT, TOP, WIDTH, HEIGHT, LINE = 62, 30, 330, 210, 15


@dataclass(frozen=True)
class Chart:
    """Curves by name; `paper` are values that the paper states, drawn as diamonds."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Points]
    paper: Mapping[str, Points] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False

    def svg(self) -> str:
        drawn = (*self.curves.values(), *self.paper.values())
        every = [point for points in drawn for point in points]
        xs = _Axis.of([x for x, _ in every], self.log_x, LEFT, LEFT + WIDTH, from_zero=False)
        ys = _Axis.of([y for _, y in every], self.log_y, TOP + HEIGHT, TOP, from_zero=True)
        parts = [_text(LEFT, TOP - 14, self.title, "title")]
        for value, label in ys.ticks():
            at = ys.place(value)
            parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}h{WIDTH}"/>')
            parts.append(_text(LEFT - 6, at + 4, label, "end"))
        for value, label in xs.ticks():
            parts.append(_text(xs.place(value), TOP + HEIGHT + 16, label, "middle"))
        parts.append(f'<path class="axis" d="M{LEFT} {TOP}v{HEIGHT}h{WIDTH}"/>')
        parts.append(_text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, self.x, "middle"))
        middle = TOP + HEIGHT / 2
        parts.append(
            f'<text class="middle" transform="translate(14 {middle}) rotate(-90)">'
            f"{escape(self.y)}</text>"
        )
        names = list(dict.fromkeys([*self.curves, *self.paper]))
        for number, name in enumerate(names):
            colour = COLOURS[number % len(COLOURS)]
            dash = "" if number < len(COLOURS) else ' stroke-dasharray="5 3"'
            places = [(xs.place(x), ys.place(y)) for x, y in self.curves.get(name, ())]
            if places:
                line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
                parts.append(f'<path class="line" stroke="{colour}"{dash} d="M{line}"/>')
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places
            ]
            for x, y in ((xs.place(x), ys.place(y)) for x, y in self.paper.get(name, ())):
                parts.append(_diamond(x, y, colour))
            at = TOP + 8 + number * LINE
            parts.append(f'<circle cx="{LEFT + WIDTH + 16}" cy="{at}" r="4" fill="{colour}"/>')
            parts.append(_text(LEFT + WIDTH + 26, at + 4, name))
        if self.paper:
            at = TOP + 8 + len(names) * LINE
            parts.append(_diamond(LEFT + WIDTH + 16, at, "#555"))
            parts.append(_text(LEFT + WIDTH + 26, at + 4, "stated in the paper"))
        longest = max(map(len, (*names, "stated in the paper")))
        width = LEFT + WIDTH + 36 + round(6.4 * longest)
        height = max(TOP + HEIGHT + 44, TOP + 24 + LINE * (len(names) + 1))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}"><style>{_STYLE}</style>'
            f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
            + "\n".join(parts)
            + "\n</svg>\n"
        )


_STYLE = (
    "text{font:11px sans-serif;fill:#222}.title{font-weight:bold;font-size:12px}"
    ".end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#ddd;fill:none}"
    ".axis{stroke:#555;fill:none}.line{fill:none;stroke-width:1.6}"
)


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool
    begin: float
    end: float
    names: tuple[str, ...] = ()  # of categories, which lie at 0, 1, ...

    @staticmethod
    def of(values: Sequence[Any], log: bool, begin: float, end: float, from_zero: bool) -> _Axis:
        if any(isinstance(value, str) for value in values):
            names = tuple(dict.fromkeys(str(value) for value in values))
            return _Axis(-0.5, len(names) - 0.5, False, begin, end, names)
        if log:
            logs = [math.log10(value) for value in values if value > 0] or [0.0]
            low, high = math.floor(min(logs)), math.ceil(max(logs))
            return _Axis(low, max(high, low + 1), True, begin, end)
        low, high = min(values, default=0.0), max(values, default=1.0)
        low = min(low, 0.0) if from_zero else low
        return _Axis(low, high if high > low else low + 1.0, False, begin, end)

    def place(self, value: Any) -> float:
        if self.names:
            value = self.names.index(str(value))
        elif self.log:
            value = math.log10(value) if value > 0 else self.low
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self) -> list[tuple[Any, str]]:
        if self.names:
            return [(name, name) for name in self.names]
        if self.log:
            step = max(1, math.ceil((self.high - self.low) / 6))
            powers = range(int(self.low), int(self.high) + 1, step)
            return [(10.0**power, short(10.0**power)) for power in powers]
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * many for many in (1, 2, 5, 10) if unit * many >= rough)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(place * step, short(place * step)) for place in range(first, last + 1)]


def short(value: float) -> str:
    """A number as one writes it on an axis: 20 k, 1.5 M, 10^12."""
    size = abs(value)
    if size >= 1e9 or (size and size < 1e-3):
        power = math.floor(math.log10(size) + 1e-9)
        digits = value / 10.0**power
        return f"10^{power}" if abs(digits - 1) < 1e-6 else f"{digits:.1f}·10^{power}"
    for unit, letter in ((1e6, " M"), (1e3, " k")):
        if size >= unit:
            return f"{value / unit:.4g}{letter}"
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _diamond(x: float, y: float, colour: str) -> str:
    return (
        f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6-6z" fill="#fff" stroke="{colour}" '
        f'stroke-width="1.8"/>'
    )
