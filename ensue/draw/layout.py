"""Where the states and arcs of a program stand in its picture.

The method is Sugiyama's: columns, then an order within each column that crosses few arcs, then
heights that keep arcs straight. A state's column is its longest distance from the start along
forward arcs; the shortest distance would pile the parts of `A? B* C` up in one column, since any of
them may come first. A forward arc over several columns passes through a via point in each; arcs to
the same target share their via points, so that the many ways out of `A{1,20}` become one line. Back
arcs run below in lanes of their own, shortest innermost; an arc to the same state is a loop above.

Everything is computed from lists in a fixed order: one program always gives one picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ensue.automaton.program import ACCEPT, AT_END, AT_START, START, Program

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

Point = tuple[float, float]


@dataclass(frozen=True)
class Arc:
    """All arcs from one state to another; `marks` says their preferences and anchors."""

    source: int
    target: int  # `program.states` is the accepting end
    marks: str


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
    centres: tuple[Point, ...]  # of the states, then of the accepting end
    curves: tuple[Curve, ...]


def collect_arcs(program: Program) -> list[Arc]:
    """The arcs to draw: those of a state to the same target as one, in order of preference."""
    arcs = []
    for source in range(program.states):
        ways = program.arcs_of(source)
        marks: dict[int, list[str]] = {}
        for preference, (target, flags) in enumerate(ways, 1):
            sign = ("^" if flags & AT_START else "") + ("$" if flags & AT_END else "")
            number = str(preference) if len(ways) > 1 else ""
            end = program.states if target == ACCEPT else target
            marks.setdefault(end, []).append(" ".join(part for part in (number, sign) if part))
        arcs += [Arc(source, target, ", ".join(filter(None, m))) for target, m in marks.items()]
    return arcs


def arrange(program: Program, half_widths: Sequence[float]) -> Layout:
    """Places for a program whose states (then the accepting end) are that wide."""
    return _Arrangement(program, half_widths).layout()


@dataclass
class _Item:
    """A state, or a via point (`state` None), in a column."""

    state: int | None
    above: float
    below: float
    y: float = 0.0
    links: list[tuple[_Item, float]] = field(default_factory=list)
    place: int = 0


class _Arrangement:
    def __init__(self, program: Program, half_widths: Sequence[float]) -> None:
        self.end = program.states
        self.half_widths = half_widths
        self.arcs = collect_arcs(program)
        self.leaving: list[list[Arc]] = [[] for _ in range(self.end + 1)]
        for arc in self.arcs:
            self.leaving[arc.source].append(arc)
        self.back: set[Arc] = set()
        self.visited: list[int] = []
        self._walk()
        self.column = self._columns()
        self.columns: list[list[_Item]] = [[] for _ in range(self.column[self.end] + 1)]
        self.items: dict[int, _Item] = {}
        self.vias: dict[tuple[int, int], _Item] = {}
        self.marks: list[Point] = []
        self._fill_columns()

    def _walk(self) -> None:
        """Depth first in order of preference: finds the back arcs and the order of states."""
        open_now: set[int] = set()
        seen: set[int] = set()
        for root in range(START, self.end + 1):
            if root in seen:
                continue
            stack: list[tuple[int, Iterator[Arc]]] = [(root, iter(self.leaving[root]))]
            seen.add(root)
            open_now.add(root)
            self.visited.append(root)
            while stack:
                state, ways = stack[-1]
                arc = next(ways, None)
                if arc is None:
                    open_now.discard(state)
                    stack.pop()
                elif arc.target in open_now:
                    self.back.add(arc)
                elif arc.target not in seen:
                    seen.add(arc.target)
                    open_now.add(arc.target)
                    self.visited.append(arc.target)
                    stack.append((arc.target, iter(self.leaving[arc.target])))

    def _columns(self) -> list[int]:
        column = [0] * (self.end + 1)
        waiting = [0] * (self.end + 1)
        for arc in self.arcs:
            waiting[arc.target] += arc not in self.back
        ready = [state for state in self.visited if not waiting[state]]
        for state in ready:
            for arc in self.leaving[state]:
                if arc not in self.back:
                    column[arc.target] = max(column[arc.target], column[state] + 1)
                    waiting[arc.target] -= 1
                    if not waiting[arc.target]:
                        ready.append(arc.target)
        column[self.end] = max(1, *(c + 1 for c in column[: self.end]))
        return column

    def _fill_columns(self) -> None:
        for state in self.visited:
            loop = any(arc.target == state for arc in self.leaving[state])
            item = _Item(state, RADIUS + LOOP * loop, RADIUS)
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
                self.vias[key] = _Item(None, _VIA, _VIA)
                self.columns[column].append(self.vias[key])
            found.append(self.vias[key])
        return found

    def _order(self) -> None:
        """Orders each column by its neighbours; keeps the best of several sweeps."""
        self._number()
        best, kept = self._crossings(), [list(column) for column in self.columns]
        for sweep in range(_SWEEPS):
            if not best:
                break
            forward = sweep % 2 == 0
            side = {id(i): n for n, column in enumerate(self.columns) for i in column}
            for column in self.columns if forward else reversed(self.columns):
                column.sort(key=lambda item: self._centre_of_links(item, side, forward))
                self._number()
            crossings = self._crossings()
            if crossings < best:
                best, kept = crossings, [list(column) for column in self.columns]
        self.columns = kept
        self._number()

    @staticmethod
    def _centre_of_links(item: _Item, side: dict[int, int], forward: bool) -> float:
        wanted = side[id(item)] + (-1 if forward else 1)
        places = [other.place for other, _ in item.links if side[id(other)] == wanted]
        return sum(places) / len(places) if places else item.place

    def _number(self) -> None:
        for column in self.columns:
            for place, item in enumerate(column):
                item.place = place

    def _crossings(self) -> int:
        crossings = 0
        for left, right in pairwise(self.columns):
            there = {id(item) for item in right}
            pairs = [(a.place, b.place) for a in left for b, _ in a.links if id(b) in there]
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
        centres = tuple((centres_x[self.column[s]], self.items[s].y) for s in range(self.end + 1))
        curves = self._route(centres, edges, floor)
        return Layout(edges[-1][1] + _MARGIN, max(floor) + _MARGIN, centres, tuple(curves))

    def _column_edges(self) -> tuple[list[Point], list[float]]:
        edges: list[Point] = []
        x = _MARGIN
        for column in self.columns:
            half = max(self.half_widths[i.state] for i in column if i.state is not None)
            edges.append((x, x + 2 * half))
            links = sum(len(item.links) for item in column)
            x += 2 * half + _COLUMN_GAP + min(40.0, 2.0 * links)
        return edges, [(left + right) / 2 for left, right in edges]

    def _route(
        self, centres: tuple[Point, ...], edges: list[Point], floor: list[float]
    ) -> list[Curve]:
        lanes = self._lanes(floor)
        curves = []
        for arc in self.arcs:
            if arc.source == arc.target:
                curves.append(self._loop(arc, centres[arc.source]))
            elif arc in self.back:
                curves.append(self._return(arc, centres, edges, lanes[arc.target]))
            else:
                curves.append(self._forward(arc, centres, edges))
        return curves

    def _lanes(self, floor: list[float]) -> dict[int, float]:
        """Per target of back arcs, the height of its lane; raises `floor` under the columns."""
        farthest: dict[int, int] = {}
        for arc in self.arcs:
            if arc in self.back and arc.source != arc.target:
                reach = self.column[arc.source]
                farthest[arc.target] = max(farthest.get(arc.target, 0), reach)
        lanes = {}
        for target in sorted(farthest, key=lambda t: (farthest[t] - self.column[t], t)):
            span = range(self.column[target], farthest[target] + 1)
            lanes[target] = max(floor[column] for column in span) + _LANE_GAP
            for column in span:
                floor[column] = lanes[target]
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
        return Curve(arc, points, _along(points, 0.5))

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
        return Curve(arc, tuple(points), self._free_place(points[:4]))

    def _free_place(self, piece: Sequence[Point]) -> Point:
        """A place for a mark near the start of a curve, off the marks placed before."""
        place = piece[0]
        for step in range(8, 33):
            place = _along(piece, step / 40)
            near = any(abs(place[0] - x) < 20 and abs(place[1] - y) < 16 for x, y in self.marks)
            if math.dist(place, piece[0]) >= 20 and not near:
                break
        self.marks.append(place)
        return place

    def _return(
        self, arc: Arc, centres: tuple[Point, ...], edges: list[Point], lane: float
    ) -> Curve:
        (x, y), (to_x, to_y) = centres[arc.source], centres[arc.target]
        points: list[Point] = []
        if self._is_lowest(arc.source):
            start = self._edge(arc.source, (x, y), math.radians(100))
            down = start[0] - 6
            points = [start]
            _line(points, (down, (start[1] + lane - _CORNER) / 2), (down, lane - _CORNER))
        else:  # another state is below: down beside the column
            start = self._edge(arc.source, (x, y), math.radians(40))
            down = edges[self.column[arc.source]][1] + 14
            points = [start, (down, start[1] + 6), (down, start[1] + 10), (down, start[1] + 30)]
            _line(points, points[-1], (down, lane - _CORNER))
        if self._is_lowest(arc.target):
            stop = self._edge(arc.target, (to_x, to_y), math.radians(80))
            up = stop[0] + 6
            approach = (up, (stop[1] + lane - _CORNER) / 2)
        else:
            stop = self._edge(arc.target, (to_x, to_y), math.radians(140))
            up = edges[self.column[arc.target]][0] - 14
            approach = (up, stop[1] + 30)
        points += [(down, lane), (down, lane), (down - _CORNER, lane)]
        _line(points, (down - _CORNER, lane), (up + _CORNER, lane))
        points += [(up, lane), (up, lane), (up, lane - _CORNER)]
        if self._is_lowest(arc.target):
            points += [approach, (stop[0], stop[1] + 4), stop]
        else:
            _line(points, points[-1], approach)
            points += [(up, stop[1] + 10), (up, stop[1] + 6), stop]
        return Curve(arc, tuple(points), (down - _CORNER - 8, lane))

    def _is_lowest(self, state: int) -> bool:
        column = self.columns[self.column[state]]
        return column[-1] is self.items[state]


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
