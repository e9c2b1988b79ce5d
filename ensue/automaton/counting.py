"""The unambiguous automaton of a pattern: one mapping, one path, so that paths can be counted.

A match is a word of labels laid on events. Counting paths counts matches only if every word has
one path; `a* a*` or `(a | a)` have several in the automaton that follows the text. The pattern
becomes a position automaton (Glushkov: no ε, a state per occurrence of a label), that one is made
deterministic over labels by the subset construction, and states with the same future are merged
(Moore). Where determinism is too large and the position automaton happens to be unambiguous (its
product with itself has no useful state off the diagonal), that one is used as it is.

States are numbered breadth first in the order of the labels, 0 is the start and has no arc into
it; dead states are gone. Cost: O(states · labels) where the pattern is deterministic, as most are.
(SuSe §5.1; the paper takes Thompson's automaton, which counts ambiguous matches twice.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations

from ensue import errors
from ensue.query import nodes

MAX_STATES = 4_096
MAX_POSITIONS = 20_000


@dataclass(frozen=True)
class CountingAutomaton:
    """Arcs (label, source, target) sorted; at most one path spells a word."""

    labels: tuple[str, ...]
    states: int
    final: tuple[bool, ...]
    arcs: tuple[tuple[int, int, int], ...]
    shortest: int  # events in the shortest match that has any
    accepts_empty: bool

    def dump(self) -> str:
        lines = [f"states {self.states}, shortest match {self.shortest}"]
        for label, source, target in self.arcs:
            end = " (final)" if self.final[target] else ""
            lines.append(f"  {source} --{self.labels[label]}--> {target}{end}")
        return "\n".join(lines)


def counting_automaton(pattern: nodes.Node, labels: tuple[str, ...]) -> CountingAutomaton:
    """The automaton of a pattern of labels, alternation, repetition and permutation."""
    positions = _Positions({name: index for index, name in enumerate(labels)})
    whole = positions.build(pattern)
    follow = [sorted(f) for f in positions.follow]
    machine = _Machine(
        [positions.label[p] for p in range(len(follow))],
        sorted(whole.first),
        follow,
        frozenset(whole.last),
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
    return _numbered(labels, successors, final, whole.empty)


@dataclass
class _Part:
    """What a part of the pattern can start and end with, as positions."""

    first: set[int] = field(default_factory=set)
    last: set[int] = field(default_factory=set)
    empty: bool = True


class _Positions:
    def __init__(self, labels: dict[str, int]) -> None:
        self._labels = labels
        self.label: list[int] = []
        self.follow: list[set[int]] = []

    def build(self, node: nodes.Node) -> _Part:
        match node:
            case nodes.Empty():
                return _Part()
            case nodes.Label(name=name):
                return self._position(self._labels[name])
            case nodes.Concatenation(parts=parts):
                return self._sequence(parts)
            case nodes.Alternation(options=options):
                return self._union([self.build(option) for option in options])
            case nodes.Exclusion(part=part):
                return self.build(part)
            case nodes.Permutation(parts=parts):
                return self._union([self._sequence(order) for order in permutations(parts)])
            case nodes.Repetition():
                return self._repetition(node)
            case _:
                raise _refused(node)

    def _position(self, label: int) -> _Part:
        if len(self.label) >= MAX_POSITIONS:
            raise errors.LimitError(
                f"the pattern expands to more than {MAX_POSITIONS:,} labels",
                remedy="shorten its repetitions, or raise ensue.automaton.counting.MAX_POSITIONS",
            )
        self.label.append(label)
        self.follow.append(set())
        place = {len(self.label) - 1}
        return _Part(place, set(place), False)

    def _sequence(self, parts: Iterable[nodes.Node]) -> _Part:
        whole = _Part()
        for part in parts:
            whole = self._join(whole, self.build(part))
        return whole

    def _join(self, left: _Part, right: _Part) -> _Part:
        for position in left.last:
            self.follow[position] |= right.first
        return _Part(
            left.first | right.first if left.empty else left.first,
            left.last | right.last if right.empty else right.last,
            left.empty and right.empty,
        )

    def _union(self, parts: list[_Part]) -> _Part:
        return _Part(
            set().union(*(part.first for part in parts)),
            set().union(*(part.last for part in parts)),
            any(part.empty for part in parts),
        )

    def _repetition(self, node: nodes.Repetition) -> _Part:
        if node.exhaust or node.until is not None:
            raise _refused(node)
        whole = _Part()
        for _ in range(node.least):
            whole = self._join(whole, self.build(node.part))
        if node.most is None:
            loop = self.build(node.part)
            for position in loop.last:
                self.follow[position] |= loop.first
            loop.empty = True
            return self._join(whole, loop)
        optional = _Part()
        for _ in range(node.most - node.least):
            optional = self._join(self.build(node.part), optional)
            optional.empty = True
        return self._join(whole, optional)


def _refused(node: nodes.Node) -> errors.UnsupportedError:
    what = {
        "AnchorStart": "the anchor ^",
        "AnchorEnd": "the anchor $",
        "Negation": "negation",
        "Repetition": "greedy or until loops",
    }.get(type(node).__name__, type(node).__name__)
    return errors.UnsupportedError(
        f"summaries do not support {what}: they count words of a regular expression",
        remedy="use labels, |, *, +, ?, {n,m} and PERMUTE",
    )


@dataclass(frozen=True)
class _Machine:
    label: list[int]
    first: list[int]
    follow: list[list[int]]
    last: frozenset[int]


_Table = tuple[list[dict[int, list[int]]], list[bool]]  # per state: label to targets; final


def _determinise(machine: _Machine, labels: int) -> _Table | None:
    """The subset construction; None where it grows beyond the limit."""

    def by_label(positions: Iterable[int]) -> dict[int, frozenset[int]]:
        found: dict[int, set[int]] = {}
        for position in positions:
            found.setdefault(machine.label[position], set()).add(position)
        return {label: frozenset(found[label]) for label in range(labels) if label in found}

    limit = MAX_STATES if len(machine.label) > 60 else max(256, 8 * len(machine.label))
    if not _unambiguous(machine):
        limit = MAX_STATES
    numbers: dict[frozenset[int], int] = {}
    successors: list[dict[int, list[int]]] = [{}]
    final = [False]
    queue: deque[tuple[int, dict[int, frozenset[int]]]] = deque([(0, by_label(machine.first))])
    while queue:
        state, leaving = queue.popleft()
        for label, target in leaving.items():
            if target not in numbers:
                if len(final) >= limit:
                    return None
                numbers[target] = len(final)
                successors.append({})
                final.append(not machine.last.isdisjoint(target))
                following = {q for p in target for q in machine.follow[p]}
                queue.append((numbers[target], by_label(following)))
            successors[state][label] = [numbers[target]]
    return successors, final


def _unambiguous(machine: _Machine) -> bool:
    """No word has two accepting paths: search the product for a useful pair p ≠ q."""
    if len(machine.label) > 400:
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

    visit(same_label(machine.first, machine.first), None)
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
    for leaving in [machine.first, *machine.follow]:
        found: dict[int, list[int]] = {}
        for position in leaving:
            found.setdefault(machine.label[position], []).append(position + 1)
        successors.append(found)
    return successors, [False] + [p in machine.last for p in range(len(machine.label))]


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
