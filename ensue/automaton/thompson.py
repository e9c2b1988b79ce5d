"""Thompson's automaton with L- and ε-states, and what propagation with errors makes of it (§3.1).

An *L-state* has one incoming letter edge: a match node is there after matching its letter, or after
skipping it for the letter's cost. All other states are ε-states. `x{2,}` is `x x+`: two copies,
with the back edge on the second, so Q1 of the paper has its 32 L-states.

`propagate` is the paper's procedure. What it derives depends on the state alone, so it is run once,
when the automaton is compiled: a *link* leads from an L-state (or the start, state 0) to the one
that is matched next, with the letters skipped on the way. Match nodes then exist at matched
L-states only; those that the paper keeps waiting at skipped and ε-states are the links.

Where no condition reads other events, only the cheapest link between two states matters: it gives
the same events with the least error. Otherwise every way to skip is kept, since what is missing
decides which conditions hold.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from ensue import errors
from ensue.query import nodes
from ensue.query.query import Query

MAX_STATES = 20_000
MAX_LINKS = 500_000
START = 0
EPSILON = -1  # in place of a label


@dataclass(frozen=True)
class Link:
    """From one matched L-state to the next; `skipped` are labels, in order."""

    source: int
    target: int  # an L-state; FINAL where nothing more is matched
    cost: int
    skipped: tuple[int, ...]


FINAL = -1


@dataclass
class Thompson:
    """States and edges; `letter[s]` is the label of an L-state, EPSILON of the others."""

    labels: tuple[str, ...]
    letter: list[int] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    start: int = 0
    final: int = 0

    def dump(self) -> str:
        """The automaton as text; states count from S1 as in the paper."""
        lines = []
        for state, targets in enumerate(self.edges):
            name = "ε" if self.letter[state] == EPSILON else self.labels[self.letter[state]]
            mark = " start" if state == self.start else " final" if state == self.final else ""
            onward = ", ".join(f"S{target + 1}" for target in targets)
            lines.append(f"S{state + 1} [{name}]{mark} -> {onward}")
        return "\n".join(lines) + "\n"


class _Builder:
    def __init__(self, query: Query) -> None:
        self._labels = query.labels
        self.machine = Thompson(self._labels)

    def build(self, pattern: nodes.Node) -> Thompson:
        machine = self.machine
        machine.start = self._state()
        last = self._part(pattern, machine.start)
        machine.final = self._state()
        self._edge(last, machine.final)
        return machine

    def _state(self, letter: int = EPSILON) -> int:
        machine = self.machine
        if len(machine.letter) >= MAX_STATES:
            raise errors.LimitError(
                f"the pattern needs more than {MAX_STATES:,} states",
                remedy="use a loop without an upper bound, or smaller repetitions",
            )
        machine.letter.append(letter)
        machine.edges.append([])
        return len(machine.letter) - 1

    def _edge(self, source: int, target: int) -> None:
        self.machine.edges[source].append(target)

    def _part(self, node: nodes.Node, before: int) -> int:
        """Builds the part behind a state; the state in which it ends."""
        match node:
            case nodes.Label(name=name):
                state = self._state(self._labels.index(name))
                self._edge(before, state)
                return state
            case nodes.Concatenation(parts=parts):
                for part in parts:
                    before = self._part(part, before)
                return before
            case nodes.Alternation(options=options):
                begin, end = self._state(), self._state()
                self._edge(before, begin)
                for option in options:
                    self._edge(self._part(option, begin), end)
                return end
            case nodes.Repetition():
                return self._repetition(node, before)
            case nodes.Permutation(parts=parts):
                return self._permutation(parts, before)
            case nodes.Exclusion(part=part):
                return self._part(part, before)
            case nodes.Empty():
                return before
            case _:
                raise errors.UnsupportedError(
                    f"{nodes.pattern_text(node)} cannot stand in a pattern with missing events",
                    remedy="leave it out, or leave allow_missing out",
                )

    def _repetition(self, node: nodes.Repetition, before: int) -> int:
        for _ in range(node.least - 1):
            before = self._part(node.part, before)
        if node.most is None:
            begin, end = self._state(), self._state()
            self._edge(before, begin)
            last = self._part(node.part, begin)
            self._edge(last, end)
            self._edge(last, begin)
            if node.least == 0:
                self._edge(begin, end)
            return end
        if node.least:
            before = self._part(node.part, before)
        ends = [before]
        for _ in range(node.most - node.least):
            ends.append(self._part(node.part, ends[-1]))
        if len(ends) == 1:
            return before
        end = self._state()
        for state in ends:
            self._edge(state, end)
        return end

    def _permutation(self, parts: tuple[nodes.Node, ...], before: int) -> int:
        """One ε-state per set of parts still to come."""
        everything = tuple(range(len(parts)))
        known = {everything: self._state()}
        self._edge(before, known[everything])
        frontier = [everything]
        while frontier:
            left = frontier.pop()
            for index in left:
                rest = tuple(other for other in left if other != index)
                if rest not in known:
                    known[rest] = self._state()
                    frontier.append(rest)
                self._edge(self._part(parts[index], known[left]), known[rest])
        return known[()]


def thompson(query: Query) -> Thompson:
    """The automaton of the query's pattern."""
    return _Builder(query).build(query.pattern)


# -- propagation ----------------------------------------------------------------------------------


def propagate(
    machine: Thompson, costs: list[int | None], bound: int, state: int, error: int
) -> Iterator[tuple[int, int]]:
    """Match nodes derived from one at `state` with `error`, as (state, error): the paper's own."""
    seen = set()
    stack = [(state, error)]
    while stack:
        here, spent = stack.pop()
        for target in machine.edges[here]:
            letter = machine.letter[target]
            cost = 0 if letter == EPSILON else costs[letter]
            if cost is None or spent + cost > bound or (target, spent + cost) in seen:
                continue
            seen.add((target, spent + cost))
            yield target, spent + cost
            stack.append((target, spent + cost))


@dataclass(frozen=True)
class LetterStates:
    """The automaton between matched letters: L-states 1, 2, ... (0 is the start) and links.

    States are numbered in the order of the pattern's text.
    """

    labels: tuple[str, ...]
    letter: tuple[int, ...]  # label per state; EPSILON for the start
    links: tuple[tuple[Link, ...], ...]  # by source, to L-states
    finals: tuple[tuple[Link, ...], ...]  # by source, to FINAL
    bound: int
    costs: tuple[int | None, ...]  # per label; None: must not be missing

    @property
    def states(self) -> int:
        return len(self.letter)

    def final_cost(self, state: int) -> int | None:
        """What is left to be skipped once nothing more is matched, at the least."""
        return min((link.cost for link in self.finals[state]), default=None)


def letter_states(query: Query, every_way: bool) -> LetterStates:
    """The links of a query with `missing`; `every_way`: not only the cheapest."""
    assert query.missing is not None
    machine = thompson(query)
    costs = [query.missing.cost(label) for label in query.labels]
    bound = query.missing.units
    order = [s for s, letter in enumerate(machine.letter) if letter != EPSILON]
    number = {state: index + 1 for index, state in enumerate(order)}
    find = _every_way if every_way else _cheapest
    links: list[tuple[Link, ...]] = []
    finals: list[tuple[Link, ...]] = []
    total = 0
    for index, state in enumerate([machine.start, *order]):
        found = find(machine, costs, bound, state)
        total += len(found)
        if total > MAX_LINKS:
            raise errors.LimitError(
                f"there are more than {MAX_LINKS:,} ways to skip missing events",
                remedy="allow fewer missing events, or name required ones with required=[...]",
            )
        here = [Link(index, number.get(t, FINAL), cost, skipped) for t, cost, skipped in found]
        links.append(tuple(link for link in here if link.target != FINAL))
        finals.append(tuple(link for link in here if link.target == FINAL))
    letters = (EPSILON, *(machine.letter[state] for state in order))
    return LetterStates(machine.labels, letters, tuple(links), tuple(finals), bound, tuple(costs))


Way = tuple[int, int, tuple[int, ...]]  # Thompson state, cost, labels skipped


def _cheapest(machine: Thompson, costs: list[int | None], bound: int, source: int) -> list[Way]:
    """The cheapest way to each L-state that can be matched next, and to the final state.

    Of equal cost: the fewest letters, then the first in the order of the labels.
    """
    best: dict[int, tuple[int, int, tuple[int, ...]]] = {}  # to be at a state, its letter skipped
    found: dict[int, tuple[int, int, tuple[int, ...]]] = {}  # to match it next
    heap: list[tuple[int, int, tuple[int, ...], int]] = [(0, 0, (), source)]
    while heap:
        cost, length, skipped, here = heapq.heappop(heap)
        if here in best:
            continue
        best[here] = (cost, length, skipped)
        for target in machine.edges[here]:
            letter = machine.letter[target]
            if letter == EPSILON:
                heapq.heappush(heap, (cost, length, skipped, target))
                continue
            known = found.get(target)
            if known is None or (cost, length, skipped) < known:
                found[target] = (cost, length, skipped)
            price = costs[letter]
            if price is not None and cost + price <= bound:
                heapq.heappush(heap, (cost + price, length + 1, (*skipped, letter), target))
    ways = [(target, cost, skipped) for target, (cost, _, skipped) in sorted(found.items())]
    if machine.final in best:
        cost, _, skipped = best[machine.final]
        ways.append((machine.final, cost, skipped))
    return ways


def _every_way(machine: Thompson, costs: list[int | None], bound: int, source: int) -> list[Way]:
    """Every way, each list of skipped letters once; no letter twice for nothing."""
    seen: set[tuple[int, tuple[int, ...]]] = set()
    found: dict[Way, None] = {}
    stack: list[tuple[int, int, tuple[int, ...], frozenset[int]]] = [(source, 0, (), frozenset())]
    while stack:
        here, cost, skipped, free = stack.pop()
        if (here, skipped) in seen:
            continue
        seen.add((here, skipped))
        if len(seen) > MAX_LINKS:
            raise errors.LimitError(
                f"there are more than {MAX_LINKS:,} ways to skip missing events",
                remedy="allow fewer missing events, or name required ones with required=[...]",
            )
        if here == machine.final:
            found[here, cost, skipped] = None
        for target in machine.edges[here]:
            letter = machine.letter[target]
            if letter == EPSILON:
                stack.append((target, cost, skipped, free))
                continue
            found[target, cost, skipped] = None
            price = costs[letter]
            if price is None or cost + price > bound or target in free:
                continue
            passed = frozenset() if price else free | {target}
            stack.append((target, cost + price, (*skipped, letter), passed))
    return sorted(found)
