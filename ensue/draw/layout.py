"""Where the states and arcs of an automaton stand in its picture.

The method is Sugiyama's: columns, then an order within each column that crosses few arcs, then
heights that keep arcs straight. A state's column is its longest distance from the start along
forward arcs; the shortest distance would pile the parts of `A? B* C` up in one column, since any of
them may come first. A forward arc over several columns passes through a via point in each; arcs to
the same target share their via points, so that the many ways out of `A{1,20}` become one line. Back
arcs run below in lanes of their own, shortest innermost; an arc to the same state is a loop above.

Everything is computed from lists in a fixed order: one automaton always gives one picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ensue.automaton.view import ACCEPT, START, View
from ensue.draw.svg import Point, printable, text_width

RADIUS = 24.0  # of a state
LOOP = 32.0  # height of a loop above the edge of its state
_MARGIN = 16.0
_COLUMN_GAP = 72.0
_ROW_GAP = 18.0
_LANE_GAP = 22.0
_CORNER = 12.0
_VIA = 9.0  # half the height that a passing arc takes
_SWEEPS = 8
_LEVELLING = 40
MARK_SIZE = 10.0
_LONGEST_MARK = 34
_MARK_LINE = 13.0
_LONG = 20.0  # half the width of a mark that needs room between columns
STUB = 26.0  # of the arrow that points at a start state


@dataclass(frozen=True)
class Arc:
    """All arcs from one state to another; `marks` says what they are, line by line."""

    source: int
    target: int
    marks: tuple[str, ...] = ()
    faint: bool = False
    note: str = ""  # its conditions in full, for a tooltip

    @property
    def mark_size(self) -> Point:
        """Half the width and half the height of its mark."""
        if not self.marks:
            return 0.0, 0.0
        widest = max(text_width(line, MARK_SIZE) for line in self.marks)
        return max(7.5, widest / 2 + 4), 7.5 + _MARK_LINE * (len(self.marks) - 1) / 2


@dataclass(frozen=True)
class Curve:
    """A path of cubic Bézier pieces: a point, then two controls and a point for each piece."""

    arc: Arc
    points: tuple[Point, ...]
    mark_at: Point


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    centres: tuple[Point, ...]
    curves: tuple[Curve, ...]


def collect_arcs(view: View) -> list[Arc]:
    """The arcs to draw: those of a state to the same target as one, in order of preference."""
    leaving: list[dict[int, list[str]]] = [{} for _ in view.states]
    notes: dict[tuple[int, int], dict[str, None]] = {}
    several = [0] * len(view.states)
    solid = {(arc.source, arc.target) for arc in view.arcs if not arc.faint}
    for arc in view.arcs:
        several[arc.source] += 1
    seen = [0] * len(view.states)
    for arc in view.arcs:
        seen[arc.source] += 1
        number = str(seen[arc.source]) if view.ordered and several[arc.source] > 1 else ""
        text = printable(arc.text, _LONGEST_MARK)
        mark = " ".join(part for part in (number, text) if part)
        marks = leaving[arc.source].setdefault(arc.target, [])
        marks.extend([mark] if mark else [])
        if arc.condition:
            marks.append(printable(arc.condition, _LONGEST_MARK))
            told = notes.setdefault((arc.source, arc.target), {})
            told[f"{arc.label}: {arc.condition}"] = None
    arcs = []
    for source, targets in enumerate(leaving):
        for target, marks in targets.items():
            lines = (", ".join(marks),) if view.ordered and marks else tuple(marks)
            note = "\n".join(notes.get((source, target), ()))
            arcs.append(Arc(source, target, lines, (source, target) not in solid, note))
    return arcs


def arrange(view: View, half_widths: Sequence[float]) -> Layout:
    """Places for an automaton whose states are that wide."""
    return _Arrangement(view, half_widths).layout()


@dataclass
class _Item:
    """A state, or a via point (`state` None), in a column."""

    state: int | None
    column: int
    above: float
    below: float
    y: float = 0.0
    links: list[tuple[_Item, float]] = field(default_factory=list)
    place: int = 0


class _Arrangement:
    def __init__(self, view: View, half_widths: Sequence[float]) -> None:
        self.view = view
        self.count = len(view.states)
        self.half_widths = half_widths
        self.arcs = collect_arcs(view)
        self.leaving: list[list[Arc]] = [[] for _ in range(self.count)]
        for arc in self.arcs:
            self.leaving[arc.source].append(arc)
        self.back: set[Arc] = set()
        self.visited: dict[int, None] = {}
        self.left: list[int] = []
        for root in sorted(range(self.count), key=lambda s: START not in view.states[s].marks):
            if root not in self.visited:
                self._walk(root, set())
        self.column = self._columns()
        self.columns: list[list[_Item]] = [[] for _ in range(max(self.column) + 1)]
        self.items: dict[int, _Item] = {}
        self.vias: dict[tuple[int, int], _Item] = {}
        self.marks: list[tuple[Point, Point]] = []  # where one stands, and its size
        self._fill_columns()

    def _walk(self, state: int, above: set[int]) -> None:
        """Depth first in order of preference: finds the back arcs and the order of states."""
        self.visited[state] = None
        above.add(state)
        for arc in self.leaving[state]:
            if arc.target in above:
                self.back.add(arc)
            elif arc.target not in self.visited:
                self._walk(arc.target, above)
        above.discard(state)
        self.left.append(state)

    def _columns(self) -> list[int]:
        column = [0] * self.count
        for state in reversed(self.left):  # after all states that lead to it forward
            for arc in self.leaving[state]:
                if arc not in self.back:
                    column[arc.target] = max(column[arc.target], column[state] + 1)
        for state, shown in enumerate(self.view.states):
            if shown.key == ACCEPT:
                column[state] = 1 + max(c for other, c in enumerate(column) if other != state)
        return column

    def _fill_columns(self) -> None:
        for state in self.visited:
            loops = [arc for arc in self.leaving[state] if arc.target == state]
            above = max((LOOP + max(0.0, 2 * a.mark_size[1] - 15) for a in loops), default=0.0)
            item = _Item(state, self.column[state], RADIUS + above, RADIUS)
            self.items[state] = item
            self.columns[self.column[state]].append(item)
        for state in self.visited:
            for arc in self.leaving[state]:
                if arc not in self.back:
                    self._link(arc)
        self._order()
        self._level()

    def _link(self, arc: Arc) -> None:
        chain = [self.items[arc.source], *self._via_items(arc), self.items[arc.target]]
        for left, right in pairwise(chain):
            # States on a common line read better than arcs that run straight past them.
            weight = 100.0 if left.state is not None and right.state is not None else 1.0
            if all(other is not right for other, _ in left.links):
                left.links.append((right, weight))
                right.links.append((left, weight))

    def _via_items(self, arc: Arc) -> list[_Item]:
        found = []
        for column in range(self.column[arc.source] + 1, self.column[arc.target]):
            key = (arc.target, column)
            if key not in self.vias:
                self.vias[key] = _Item(None, column, _VIA, _VIA)
                self.columns[column].append(self.vias[key])
            via = self.vias[key]
            via.above = via.below = max(via.above, arc.mark_size[1] + 2 if arc.marks else 0.0)
            found.append(via)
        return found

    def _order(self) -> None:
        """Orders each column by its neighbours; keeps the best of several sweeps."""
        self._number()
        best, kept = self._crossings(), [list(column) for column in self.columns]
        for sweep in range(_SWEEPS):
            if not best:
                break
            forward = sweep % 2 == 0
            for column in self.columns if forward else reversed(self.columns):
                column.sort(key=lambda item: self._centre_of_links(item, forward))
                self._number()
            crossings = self._crossings()
            if crossings < best:
                best, kept = crossings, [list(column) for column in self.columns]
        self.columns = kept
        self._number()

    @staticmethod
    def _centre_of_links(item: _Item, forward: bool) -> float:
        wanted = item.column + (-1 if forward else 1)
        places = [other.place for other, _ in item.links if other.column == wanted]
        return sum(places) / len(places) if places else item.place

    def _number(self) -> None:
        for column in self.columns:
            for place, item in enumerate(column):
                item.place = place

    def _crossings(self) -> int:
        crossings = 0
        for left in self.columns:
            pairs = [
                (a.place, b.place) for a in left for b, _ in a.links if b.column == a.column + 1
            ]
            crossings += sum(
                (a[0] - b[0]) * (a[1] - b[1]) < 0 for i, a in enumerate(pairs) for b in pairs[:i]
            )
        return crossings

    def _level(self) -> None:
        """Heights: each item where its neighbours are, as far as the items beside it allow."""
        for column in self.columns:
            _settle(column, [0.0] * len(column), [1.0] * len(column))
        for sweep in range(_LEVELLING):
            for column in self.columns if sweep % 2 == 0 else reversed(self.columns):
                weights = [sum(weight for _, weight in item.links) or 1.0 for item in column]
                wanted = [
                    sum(other.y * weight for other, weight in item.links) / total
                    if item.links
                    else item.y
                    for item, total in zip(column, weights, strict=True)
                ]
                _settle(column, wanted, weights)

    def layout(self) -> Layout:
        edges, centres_x = self._column_edges()
        top = min(item.y - item.above for column in self.columns for item in column)
        for column in self.columns:
            for item in column:
                item.y += _MARGIN - top
        floor = [max(item.y + item.below for item in column) for column in self.columns]
        centres = tuple((centres_x[self.column[s]], self.items[s].y) for s in range(self.count))
        curves = self._route(centres, edges, floor)
        return Layout(edges[-1][1] + _MARGIN, max(floor) + _MARGIN, centres, tuple(curves))

    def _column_edges(self) -> tuple[list[Point], list[float]]:
        edges: list[Point] = []
        x = _MARGIN
        if any(s.label != START and START in s.marks for s in self.view.states):
            x += STUB
        for column in self.columns:
            states = [item.state for item in column if item.state is not None]
            half = max(self.half_widths[state] for state in states)
            ahead = 0.0
            for arc in (arc for state in states for arc in self.leaving[state]):
                if arc.source == arc.target:
                    half = max(half, arc.mark_size[0])
                elif arc not in self.back and arc.mark_size[0] > _LONG:
                    ahead = max(ahead, 2 * arc.mark_size[0] + 44)
            edges.append((x, x + 2 * half))
            links = sum(len(item.links) for item in column)
            x += 2 * half + max(ahead, _COLUMN_GAP + min(40.0, 2.0 * links))
        return edges, [(left + right) / 2 for left, right in edges]

    def _route(
        self, centres: tuple[Point, ...], edges: list[Point], floor: list[float]
    ) -> list[Curve]:
        lanes = self._lanes(floor)
        # Marks of loops have one place each; the others keep off them.
        loops = {a: self._loop(a, centres[a.source]) for a in self.arcs if a.source == a.target}
        self.marks += [(curve.mark_at, arc.mark_size) for arc, curve in loops.items() if arc.marks]
        curves = []
        for arc in self.arcs:
            if arc in loops:
                curves.append(loops[arc])
            elif arc in self.back:
                curves.append(self._return(arc, centres, edges, lanes[arc.target]))
            else:
                curves.append(self._forward(arc, centres, edges))
        return curves

    def _lanes(self, floor: list[float]) -> dict[int, float]:
        """Per target of back arcs, the height of its lane; raises `floor` under the columns."""
        farthest: dict[int, int] = {}
        room: dict[int, float] = {}
        for arc in self.arcs:
            if arc in self.back and arc.source != arc.target:
                reach = self.column[arc.source]
                farthest[arc.target] = max(farthest.get(arc.target, 0), reach)
                above = max(0.0, arc.mark_size[1] - 7.5)
                room[arc.target] = max(room.get(arc.target, 0.0), above)
        lanes = {}
        for target in sorted(farthest, key=lambda t: (farthest[t] - self.column[t], t)):
            span = range(self.column[target], farthest[target] + 1)
            lanes[target] = max(floor[column] for column in span) + _LANE_GAP + room[target]
            for column in span:
                floor[column] = lanes[target] + room[target]
        return lanes

    def _edge(self, state: int, centre: Point, angle: float) -> Point:
        """The point on a state's outline in that direction."""
        flat = self.half_widths[state] - RADIUS  # longer labels stand in a stretched circle
        x = centre[0] + math.copysign(flat, math.cos(angle)) + RADIUS * math.cos(angle)
        return (x, centre[1] + RADIUS * math.sin(angle))

    def _loop(self, arc: Arc, centre: Point) -> Curve:
        x, y = centre
        spread = math.radians(32)
        lift = RADIUS + LOOP * 1.2
        stretched = self.half_widths[arc.source] > RADIUS
        edge = y - RADIUS * (1.0 if stretched else math.cos(spread))
        start = (x - RADIUS * math.sin(spread), edge)
        end = (x + RADIUS * math.sin(spread), edge)
        points = (start, (x - 30, y - lift), (x + 30, y - lift), end)
        across, top = _along(points, 0.5)
        return Curve(arc, points, (across, top - max(0.0, arc.mark_size[1] - 7.5)))

    def _forward(self, arc: Arc, centres: tuple[Point, ...], edges: list[Point]) -> Curve:
        source, target = centres[arc.source], centres[arc.target]
        between = range(self.column[arc.source] + 1, self.column[arc.target])
        passed = [(column, self.vias[(arc.target, column)].y) for column in between]
        after = (edges[passed[0][0]][0], passed[0][1]) if passed else target
        before = (edges[passed[-1][0]][1], passed[-1][1]) if passed else source
        out, into = _leaving_angle(source, after), _leaving_angle(before, target)
        here = self._edge(arc.source, source, out)
        points = [here]
        angle = out
        for column, y in passed:
            left, right = edges[column]
            _bend(points, angle, (left, y), 0.0)
            _bend(points, 0.0, (right, y), 0.0)
            angle = 0.0
        _bend(points, angle, self._edge(arc.target, target, math.pi + into), into)
        return Curve(arc, tuple(points), self._free_place(arc, points[:4]))

    def _free_place(self, arc: Arc, piece: Sequence[Point]) -> Point:
        """A place for a mark, off the marks placed before: near the start of its curve.

        A long one is in the middle of the first piece, and beside it where there is no room.
        """
        size = arc.mark_size
        if not arc.marks:
            return piece[0]
        steps = list(range(8, 33)) if size[0] <= _LONG else [20, 18, 22, 16, 24]
        places = [_along(piece, step / 40) for step in steps]
        fits = [p for p in places if math.dist(p, piece[0]) >= 20] or places[-1:]
        for shift in (0.0, *(side * 8.0 * far for far in range(1, 6) for side in (-1, 1))):
            for x, y in fits:
                place = (x, y + shift)
                if not any(_overlap(place, size, *other) for other in self.marks):
                    self.marks.append((place, size))
                    return place
        self.marks.append((fits[0], size))
        return fits[0]

    def _return(
        self, arc: Arc, centres: tuple[Point, ...], edges: list[Point], lane: float
    ) -> Curve:
        points = self._down(arc.source, centres, edges, lane, 1)
        arriving = self._down(arc.target, centres, edges, lane, -1)[::-1]
        down, up = points[-1][0], arriving[0][0]
        points += [(down, lane), (down, lane), (down - _CORNER, lane)]
        _line(points, (down - _CORNER, lane), (up + _CORNER, lane))
        points += [(up, lane), (up, lane), *arriving]
        half = arc.mark_size[0]
        at = (down - _CORNER - max(8.0, half + 2), lane)
        while (
            any(_overlap(at, arc.mark_size, *other) for other in self.marks) and at[0] > up + half
        ):
            at = (at[0] - 8, lane)
        self.marks.append((at, arc.mark_size))
        return Curve(arc, tuple(points), at)

    def _down(
        self, state: int, centres: tuple[Point, ...], edges: list[Point], lane: float, side: int
    ) -> list[Point]:
        """From the edge of a state to a lane; side 1 goes down on the right of it, -1 left."""
        if self._is_lowest(state):
            x, y = self._edge(state, centres[state], math.radians(90 + 10 * side))
            down = x - 6 * side
            middle = (y + lane - _CORNER) / 2
            return [(x, y), (x, y + 4), (down, middle), (down, lane - _CORNER)]
        # Another state is below: down beside the column.
        x, y = self._edge(state, centres[state], math.radians(90 - 50 * side))
        down = edges[self.column[state]][side > 0] + 14 * side
        points = [(x, y), (down, y + 6), (down, y + 10), (down, y + 30)]
        _line(points, points[-1], (down, lane - _CORNER))
        return points

    def _is_lowest(self, state: int) -> bool:
        column = self.columns[self.column[state]]
        return column[-1] is self.items[state]


def _overlap(one: Point, size: Point, other: Point, other_size: Point) -> bool:
    return (
        abs(one[0] - other[0]) < size[0] + other_size[0] + 4
        and abs(one[1] - other[1]) < size[1] + other_size[1] + 1
    )


def _settle(column: list[_Item], wanted: list[float], weights: list[float]) -> None:
    """Heights nearest to the wanted ones in which items keep their order and their distance.

    Taking the distances off leaves "not decreasing" as the only condition: isotonic regression,
    solved by pooling neighbours that are out of order.
    """
    offsets = [0.0]
    for upper, lower in pairwise(column):
        offsets.append(offsets[-1] + upper.below + _ROW_GAP + lower.above)
    pools: list[tuple[float, float, int]] = []
    for value, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = value - offset, weight, 1
        while pools and pools[-1][0] > mean:
            earlier, mass, members = pools.pop()
            mean = (earlier * mass + mean * total) / (mass + total)
            total, count = total + mass, count + members
        pools.append((mean, total, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    for item, mean, offset in zip(column, means, offsets, strict=True):
        item.y = mean + offset


def _leaving_angle(start: Point, end: Point) -> float:
    steepest = math.radians(50)
    angle = math.atan2(end[1] - start[1], max(1.0, end[0] - start[0]))
    return max(-steepest, min(steepest, angle * 0.85))


def _bend(points: list[Point], angle: float, to: Point, arriving: float) -> None:
    x, y = points[-1]
    reach = 0.42 * math.hypot(to[0] - x, to[1] - y)
    points.append((x + reach * math.cos(angle), y + reach * math.sin(angle)))
    points.append((to[0] - reach * math.cos(arriving), to[1] - reach * math.sin(arriving)))
    points.append(to)


def _line(points: list[Point], bend: Point, to: Point) -> None:
    points += [bend, bend, to]


def _along(points: Sequence[Point], t: float) -> Point:
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    x = sum(w * p[0] for w, p in zip(weights, points, strict=True))
    y = sum(w * p[1] for w, p in zip(weights, points, strict=True))
    return (x, y)
