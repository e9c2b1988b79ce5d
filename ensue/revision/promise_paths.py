"""Predicated punctuations: what a promise about some events says about states (Appendix F.2).

A promise (t, C) says that no event for which C holds will come with a timestamp before t. An arc
whose row-local fence implies C then has the *arc punctuation* t. Algorithm 2 pushes it along the
paths to a final state: the *path punctuation* of a state is the time before which no event still to
come can lead a partial match from there to the end. Each step of Algorithm 2 is monotone and never
goes back, so the least value over all paths is found as a shortest path, without listing them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from ensue.automaton.registers import FIELD, INFINITY, MINUS_INFINITY, Arc
from ensue.query import condition as c

_FLIPPED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte", "eq": "eq"}
Bound = tuple[str, str, Decimal]


def row_parts(arc: Arc) -> list[c.Condition]:
    """The parts of an arc's fence that read only the event."""
    if not isinstance(arc.when, c.CONDITIONS):
        return []
    return [
        part
        for part in c.conjuncts(arc.when)
        if not any(isinstance(n, c.Column) and n.name.startswith(FIELD) for n in c.walk(part))
    ]


def _bound(part: c.Condition) -> Bound | None:
    """`column <op> number`, whichever side the column stands on."""
    if not isinstance(part, c.Call) or part.function not in _FLIPPED:
        return None
    left, right = part["this"], part["expression"]
    operation = part.function
    if isinstance(left, c.Literal):
        left, right, operation = right, left, _FLIPPED[operation]
    if not isinstance(left, c.Column) or not isinstance(right, c.Literal):
        return None
    if right.kind not in ("int", "decimal", "double"):
        return None
    return c.dump(left), operation, Decimal(str(right.value))


def _inside(given: Bound, wanted: Bound) -> bool:
    """Whether every number that satisfies the first satisfies the second."""
    if given[0] != wanted[0]:
        return False
    (_, a, x), (_, b, y) = given, wanted
    match b:
        case "eq":
            return a == "eq" and x == y
        case "lt":
            return (a in ("lt",) and x <= y) or (a in ("lte", "eq") and x < y)
        case "lte":
            return a in ("lt", "lte", "eq") and x <= y
        case "gt":
            return (a in ("gt",) and x >= y) or (a in ("gte", "eq") and x > y)
        case _:
            return a in ("gt", "gte", "eq") and x >= y


def implies(parts: Sequence[c.Condition], promised: c.Condition) -> bool:
    """Whether the parts together imply the condition, as far as their form tells."""
    for wanted in c.conjuncts(promised):
        bound = _bound(wanted)
        found = any(
            part == wanted
            or (bound is not None and (given := _bound(part)) is not None and _inside(given, bound))
            for part in parts
        )
        if not found:
            return False
    return True


def arc_punctuation(arc: Arc, watermark: int, promises: Mapping[c.Condition, int]) -> int:
    """π_i: no event still to come before it can trigger the arc."""
    parts = row_parts(arc)
    known = [time for promised, time in promises.items() if parts and implies(parts, promised)]
    return max([watermark, *known])


def path_punctuations(
    arcs: Sequence[Arc],
    finals: frozenset[str],
    punctuation: Callable[[int], int],  # arc -> π
    earliest: Callable[[int, int], int],  # arc, time -> LE of the first event from then on, or ∞
    arc_watermark: int,
) -> dict[str, int]:
    """Per state that is not final: the least path punctuation of its ways to a final state."""
    found: dict[str, int] = {}
    for state in {arc.source for arc in arcs} - finals:
        found[state] = min(_shortest(state, arcs, finals, punctuation, earliest), arc_watermark)
    return found


def _shortest(
    state: str,
    arcs: Sequence[Arc],
    finals: frozenset[str],
    punctuation: Callable[[int], int],
    earliest: Callable[[int, int], int],
) -> int:
    best: dict[str, int] = {}
    queue: list[tuple[int, str]] = []

    def follow(index: int, time: int) -> None:
        step = min(earliest(index, time), punctuation(index))
        heapq.heappush(queue, (max(time, step), arcs[index].target))

    for index, arc in enumerate(arcs):
        if arc.source == state:
            follow(index, MINUS_INFINITY if arc.epsilon else punctuation(index))
    while queue:
        time, reached = heapq.heappop(queue)
        if reached in finals:
            return time
        if best.get(reached, INFINITY) <= time and reached in best:
            continue
        best[reached] = time
        for index, arc in enumerate(arcs):
            if arc.source == reached:
                follow(index, time)
    return INFINITY
