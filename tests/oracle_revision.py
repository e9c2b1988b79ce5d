"""The AFA operator's answer by its definition (§2.2, 2.3): every run of the ordered events.

Obvious and slow. An event is a dict with `le`, `re` and its columns; events that are equal in time
stand in the order they are given. A match is (first, last, state, register, lifetime).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

INFINITY = float("inf")
Register = tuple[Any, ...]


@dataclass(frozen=True)
class OracleArc:
    source: str
    target: str
    when: Callable[[dict[str, Any] | None, Register], bool] = lambda e, r: True
    set: Callable[[dict[str, Any] | None, Register], Register] = lambda e, r: r
    epsilon: bool = False
    closing: bool = False
    since: float = -INFINITY
    till: float = INFINITY

    def lives(self, time: float) -> bool:
        return self.since <= time < self.till


def silent(
    found: set[tuple[str, Register]], arcs: Sequence[OracleArc], time: float
) -> set[tuple[str, Register]]:
    """With everything that ε-arcs lead to."""
    stack, seen = list(found), set(found)
    while stack:
        state, register = stack.pop()
        for arc in arcs:
            if arc.epsilon and arc.source == state and arc.lives(time) and arc.when(None, register):
                after = (arc.target, arc.set(None, register))
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
    return seen


def matches(
    events: Sequence[dict[str, Any]],
    arcs: Sequence[OracleArc],
    starts: Sequence[str],
    finals: set[str],
    initial: Register,
    *,
    sequenced: bool = False,
    proven: float = INFINITY,  # closing arcs fire for windows that end by then
) -> set[tuple[Any, ...]]:
    """All matches over events in order."""
    found: set[tuple[Any, ...]] = set()
    for first in range(len(events)):
        now = {(state, initial) for state in starts}
        least = INFINITY
        for last in range(first, len(events)):
            event = events[last]
            if last > first and (
                event["le"] >= least or (sequenced and event["seq"] != events[last - 1]["seq"] + 1)
            ):
                break
            least = min(least, event["re"])
            if last == first:
                now = silent(now, arcs, event["le"])
            after = set()
            for state, register in now:
                for arc in arcs:
                    if (
                        arc.source == state
                        and not arc.epsilon
                        and not arc.closing
                        and arc.lives(event["le"])
                        and arc.when(event, register)
                    ):
                        after.add((arc.target, arc.set(event, register)))
            now = silent(after, arcs, event["le"])
            if not now:
                break
            for state, register in now:
                if state in finals:
                    found.add((first, last, state, register, event["le"], least))
            following = events[last + 1]["le"] if last + 1 < len(events) else INFINITY
            if following >= least and least <= proven:
                for state, register in now:
                    for arc in arcs:
                        if (
                            arc.closing
                            and arc.source == state
                            and arc.lives(event["le"])
                            and arc.when(None, register)
                            and arc.target in finals
                        ):
                            after_register = arc.set(None, register)
                            found.add((first, last, arc.target, after_register, least, least + 1))
    return found
