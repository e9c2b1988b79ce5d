"""The unambiguous automaton of a pattern: one mapping, one path, so that paths can be counted.

A match is a word of labels laid on events. Counting paths counts matches only if every word has
one path; `a* a*` or `(a | a)` have several in the automaton that follows the text. The pattern's
position automaton (`positions.py`) is made deterministic over labels by the subset construction
(`subsets.py`), and states with the same future are merged (Moore). Where determinism is too large
and the position automaton happens to be unambiguous (its product with itself has no useful state
off the diagonal), that one is used as it is.

States are numbered breadth first in the order of the labels, 0 is the start and has no arc into
it; dead states are gone. Cost: O(states · labels) where the pattern is deterministic, as most are.
(SuSe §5.1; the paper takes Thompson's automaton, which counts ambiguous matches twice.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from ensue import errors
from ensue.automaton.positions import ACCEPT, graph_of
from ensue.automaton.subsets import States, determinise
from ensue.automaton.view import ACCEPT as END
from ensue.automaton.view import START, Arc, Shown, State, View
from ensue.query import nodes

MAX_STATES = 4_096


@dataclass(frozen=True)
class CountingAutomaton(Shown):
    """Arcs (label, source, target) sorted; at most one path spells a word."""

    labels: tuple[str, ...]
    states: int
    final: tuple[bool, ...]
    arcs: tuple[tuple[int, int, int], ...]
    shortest: int  # events in the shortest match that has any
    accepts_empty: bool

    def view(self) -> View:
        states = [
            State(str(number), marks=(START,) * (number == 0) + (END,) * end)
            for number, end in enumerate(self.final)
        ]
        arcs = [Arc(source, target, self.labels[label]) for label, source, target in self.arcs]
        return View(tuple(states), tuple(arcs), (f"shortest match {self.shortest}",))


def counting_automaton(pattern: nodes.Node, labels: tuple[str, ...]) -> CountingAutomaton:
    """The automaton of a pattern of labels, alternation, repetition and permutation."""
    _check(pattern)
    graph = graph_of(pattern, labels)
    order = graph.positions
    arcs = graph.arcs(order)
    machine = _Machine(
        [-1, *(graph.letter[state] for state in order)],
        [sorted(target for target, _ in ways if target != ACCEPT) for ways in arcs],
        frozenset(p for p, ways in enumerate(arcs) if any(t == ACCEPT for t, _ in ways)),
    )
    table = _determinise(machine, len(labels))
    if table is not None:
        successors, final = _minimise(*table)
    elif _unambiguous(machine):
        successors, final = _as_it_is(machine)
    else:
        raise errors.LimitError(
            f"the pattern is ambiguous, and needs more than {MAX_STATES:,} states to count each "
            "match once",
            remedy="write it without overlapping alternatives, or raise "
            "ensue.automaton.counting.MAX_STATES",
        )
    return _numbered(labels, successors, final, 0 in machine.last)


def _check(pattern: nodes.Node) -> None:
    refused = {
        nodes.AnchorStart: "the anchor ^",
        nodes.AnchorEnd: "the anchor $",
        nodes.Negation: "negation",
        nodes.Repetition: "greedy or until loops",
    }
    for node in nodes.walk(pattern):
        if isinstance(node, nodes.Repetition) and not node.exhaust and node.until is None:
            continue
        if type(node) in refused:
            raise errors.UnsupportedError(
                f"summaries do not support {refused[type(node)]}: they count words of a regular "
                "expression",
                remedy="use labels, |, *, +, ?, {n,m} and PERMUTE",
            )


@dataclass(frozen=True)
class _Machine:
    """Positions from 1; 0 is before the first."""

    label: list[int]
    follow: list[list[int]]
    last: frozenset[int]


_Table = tuple[list[dict[int, list[int]]], list[bool]]  # per state: label to targets; final


def _determinise(machine: _Machine, labels: int) -> _Table | None:
    """The subset construction; None where it grows beyond the limit."""
    size = len(machine.follow) - 1
    limit = MAX_STATES if size > 60 or not _unambiguous(machine) else max(256, 8 * size)

    def by_label(positions: frozenset[int]) -> dict[int, frozenset[int]]:
        targets: dict[int, set[int]] = {}
        for position in positions:
            for target in machine.follow[position]:
                targets.setdefault(machine.label[target], set()).add(target)
        return {label: frozenset(targets[label]) for label in sorted(targets)}

    states: States[frozenset[int]] = States(limit, "")
    try:
        rows = determinise(states, [frozenset((0,))], by_label)
    except errors.LimitError:
        return None
    final = [not machine.last.isdisjoint(positions) for positions in states.keys]
    final[0] = False
    return [{label: [target] for label, target in row.items()} for row in rows], final


def _unambiguous(machine: _Machine) -> bool:
    """No word has two accepting paths: search the product for a useful pair p ≠ q."""
    if len(machine.follow) > 401:
        return False
    before: dict[tuple[int, int], list[tuple[int, int]]] = {}
    reached: set[tuple[int, int]] = set()
    stack: list[tuple[int, int]] = []

    def visit(pairs: Iterable[tuple[int, int]], source: tuple[int, int] | None) -> None:
        for pair in pairs:
            if source is not None:
                before.setdefault(pair, []).append(source)
            if pair not in reached:
                reached.add(pair)
                stack.append(pair)

    def same_label(left: list[int], right: list[int]) -> Iterable[tuple[int, int]]:
        return ((p, q) for p in left for q in right if machine.label[p] == machine.label[q])

    visit(same_label(machine.follow[0], machine.follow[0]), None)
    while stack:
        pair = stack.pop()
        visit(same_label(machine.follow[pair[0]], machine.follow[pair[1]]), pair)
    useful = [pair for pair in reached if pair[0] in machine.last and pair[1] in machine.last]
    seen = set(useful)
    while useful:
        pair = useful.pop()
        if pair[0] != pair[1]:
            return False
        for source in before.get(pair, ()):
            if source not in seen:
                seen.add(source)
                useful.append(source)
    return True


def _as_it_is(machine: _Machine) -> _Table:
    successors: list[dict[int, list[int]]] = []
    for leaving in machine.follow:
        targets: dict[int, list[int]] = {}
        for position in leaving:
            targets.setdefault(machine.label[position], []).append(position)
        successors.append(targets)
    return successors, [p > 0 and p in machine.last for p in range(len(machine.follow))]


def _minimise(successors: list[dict[int, list[int]]], final: list[bool]) -> _Table:
    """States with the same future merged (Moore's partition refinement); the start stays alone."""
    block = [int(f) for f in final]
    block[0] = 2
    count = len(set(block))
    while True:
        keys: dict[tuple[object, ...], int] = {}
        refined = []
        for state, leaving in enumerate(successors):
            key = (block[state], tuple((c, block[t[0]]) for c, t in sorted(leaving.items())))
            refined.append(keys.setdefault(key, len(keys)))
        block = refined
        if len(keys) == count:
            break
        count = len(keys)
    merged: list[dict[int, list[int]]] = [{} for _ in range(count)]
    ends = [False] * count
    for state, leaving in enumerate(successors):
        merged[block[state]] = {label: [block[t[0]]] for label, t in leaving.items()}
        ends[block[state]] = final[state]
    start = block[0]
    order = [start] + [b for b in range(count) if b != start]
    place = {b: i for i, b in enumerate(order)}
    return (
        [{c: [place[t[0]]] for c, t in merged[b].items()} for b in order],
        [ends[b] for b in order],
    )


def _numbered(
    labels: tuple[str, ...],
    successors: list[dict[int, list[int]]],
    final: list[bool],
    accepts_empty: bool,
) -> CountingAutomaton:
    """Useful states only, breadth first by label, with the length of the shortest match."""
    useful = {state for state, end in enumerate(final) if end}
    grown = True
    while grown:
        grown = False
        for state, leaving in enumerate(successors):
            if state not in useful and any(t in useful for ts in leaving.values() for t in ts):
                useful.add(state)
                grown = True
    number, depth = {0: 0}, {0: 0}
    queue, shortest = deque([0]), 0
    arcs = []
    while queue:
        state = queue.popleft()
        if final[state] and not shortest:
            shortest = depth[state]
        for label in sorted(successors[state]):
            for target in successors[state][label]:
                if target not in useful:
                    continue
                if target not in number:
                    number[target] = len(number)
                    depth[target] = depth[state] + 1
                    queue.append(target)
                arcs.append((label, number[state], number[target]))
    if not shortest:
        raise errors.QueryError(
            "the pattern has no match with at least one event", remedy="name at least one label"
        )
    ends = [False] * len(number)
    for state, new in number.items():
        ends[new] = final[state]
    return CountingAutomaton(
        labels, len(number), tuple(ends), tuple(sorted(arcs)), shortest, accepts_empty
    )
