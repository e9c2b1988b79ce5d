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

from dataclasses import dataclass

from ensue import errors
from ensue.automaton.positions import ACCEPT, graph_of
from ensue.automaton.subsets import States, determinise
from ensue.automaton.view import ACCEPT as END
from ensue.automaton.view import START, Arc, Shown, State, View
from ensue.automaton.walks import distances, merged, reached, reversed_edges
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
    machine = _Positions(
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
    return _numbered(labels, successors, final)


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
class _Positions:
    """Positions from 1; 0 is before the first."""

    label: list[int]
    follow: list[list[int]]
    last: frozenset[int]


_Table = tuple[list[dict[int, list[int]]], list[bool]]  # per state: label to targets; final


def _determinise(machine: _Positions, labels: int) -> _Table | None:
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


def _unambiguous(machine: _Positions) -> bool:
    """No word has two accepting paths: search the product for a useful pair p ≠ q."""
    if len(machine.follow) > 401:
        return False
    label, follow, last = machine.label, machine.follow, machine.last
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    before: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def onward(pair: tuple[int, int]) -> list[tuple[int, int]]:
        left, right = follow[pair[0]], follow[pair[1]]
        steps[pair] = targets = [(p, q) for p in left for q in right if label[p] == label[q]]
        return targets

    pairs = list(reached([(0, 0)], onward))
    for pair, targets in steps.items():
        for target in targets:
            before.setdefault(target, []).append(pair)
    ends = [(p, q) for p, q in pairs if p in last and q in last]
    return all(p == q for p, q in reached(ends, lambda pair: before.get(pair, ())))


def _as_it_is(machine: _Positions) -> _Table:
    successors: list[dict[int, list[int]]] = []
    for leaving in machine.follow:
        targets: dict[int, list[int]] = {}
        for position in leaving:
            targets.setdefault(machine.label[position], []).append(position)
        successors.append(targets)
    return successors, [p > 0 and p in machine.last for p in range(len(machine.follow))]


def _minimise(successors: list[dict[int, list[int]]], final: list[bool]) -> _Table:
    """States with the same future merged; the start stays alone."""
    block = merged(
        {state: (end, state == 0) for state, end in enumerate(final)},
        lambda state, block: tuple((c, block[t[0]]) for c, t in sorted(successors[state].items())),
    )
    kept = sorted(set(block.values()))
    place = {state: number for number, state in enumerate(kept)}
    return (
        [{c: [place[block[t[0]]]] for c, t in successors[s].items()} for s in kept],
        [final[state] for state in kept],
    )


def _numbered(
    labels: tuple[str, ...],
    successors: list[dict[int, list[int]]],
    final: list[bool],
) -> CountingAutomaton:
    """Useful states only, breadth first by label, with the length of the shortest match."""
    targets = [[t for label in sorted(ways) for t in ways[label]] for ways in successors]
    ends = [state for state, end in enumerate(final) if end]
    useful = set(reached(ends, reversed_edges(targets, len(targets)).__getitem__))
    depth = distances([0], lambda state: [t for t in targets[state] if t in useful])
    number = {state: place for place, state in enumerate(depth)}
    arcs = sorted(
        (label, number[state], number[target])
        for state in number
        for label, ways in successors[state].items()
        for target in ways
        if target in useful
    )
    shortest = next((steps for state, steps in depth.items() if final[state]), 0)
    if not shortest:
        raise errors.QueryError(
            "the pattern has no match with at least one event", remedy="name at least one label"
        )
    accepting = tuple(final[state] for state in number)
    return CountingAutomaton(labels, len(number), accepting, tuple(arcs), shortest)
