"""Patterns with events missing: positions, and what propagation with errors makes of them (§3.1).

An *L-state* has one incoming letter edge: a match node is there after matching its letter, or after
skipping it for the letter's cost. All other states of the pattern's graph (`positions.py`) are
ε-states.

The paper propagates match nodes through skipped and ε-states. What that derives depends on the
state alone, so it is done once, when the automaton is compiled: a *link* leads from an L-state (or
the start, state 0) to the one that is matched next, with the letters skipped on the way. Match
nodes then exist at matched L-states only; those that the paper keeps waiting at skipped and
ε-states are the links.

Where no condition reads other events, only the cheapest link between two states matters: it gives
the same events with the least error. Otherwise every way to skip is kept, since what is missing
decides which conditions hold.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ensue import errors
from ensue.automaton import view
from ensue.automaton.positions import EPSILON, Graph, graph_of
from ensue.automaton.subsets import Move, Subsets
from ensue.query import nodes
from ensue.query.query import Query

MAX_LINKS = 500_000
START = 0
Costs = tuple[tuple[int, int], ...]  # (L-state, least error), sorted


@dataclass(frozen=True)
class Link:
    """From one matched L-state to the next; `skipped` are labels, in order."""

    source: int
    target: int  # an L-state; FINAL where nothing more is matched
    cost: int
    skipped: tuple[int, ...]


FINAL = -1


@dataclass(frozen=True)
class LetterStates(view.Shown):
    """The automaton between matched letters: L-states 1, 2, ... (0 is the start) and links.

    States are numbered in the order of the pattern's text. Determinised by `subsets.Subsets`, a
    state maps L-states to the least error with which partial matches of one history can be there:
    each set of (label, event) pairs is one path, with its least error at the end.
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

    # Nothing is bounded, forbidden or waited for.
    without = 0
    bounds: tuple[()] = ()
    absences = False

    def first(self) -> Costs:
        return ((START, 0),)

    def numbers(self, members: Costs) -> tuple[int, ...]:
        return tuple(number for pair in members for number in pair)

    def members(self, numbers: Sequence[int]) -> Costs:
        return tuple(zip(numbers[::2], numbers[1::2], strict=True))

    def waits(self, members: Costs) -> bool:
        return False

    def ahead(self, members: Costs) -> frozenset[int]:
        return frozenset()

    def tested(self, members: Costs) -> tuple[int, int]:
        mask = 0
        for state, cost in members:
            for _, more, letter in self._onward[state]:
                if cost + more <= self.bound:
                    mask |= 1 << letter
        return mask, 0

    def move(self, members: Costs, bits: int) -> Move:
        """What an event does that fits these labels; what does not take it stays."""
        bound = self.bound
        taken: dict[int, dict[int, int]] = {}
        for source, cost in members:
            for target, more, letter in self._onward[source]:
                if bits >> letter & 1 and cost + more <= bound:
                    targets = taken.setdefault(letter, {})
                    targets[target] = min(cost + more, targets.get(target, bound))
        takes = []
        for letter, targets in sorted(taken.items()):
            accept = any(
                cost + link.cost <= bound
                for target, cost in targets.items()
                for link in self.finals[target]
            )
            onward = tuple(
                (target, cost)
                for target, cost in sorted(targets.items())
                if any(cost + more <= bound for _, more, _ in self._onward[target])
            )
            if accept or onward:
                takes.append((letter, onward or None, accept))
        return Move(tuple(takes), members)

    @cached_property
    def _onward(self) -> list[list[tuple[int, int, int]]]:
        """Per state: (target, cost, letter) of its links."""
        return [
            [(link.target, link.cost, self.letter[link.target]) for link in links]
            for links in self.links
        ]

    def view(self) -> view.View:
        states = [view.State("0", view.START, (view.START,), view.START)]
        for state, letter in enumerate(self.letter[1:], 1):
            states.append(view.State(str(state), self.labels[letter]))
        states.append(view.State(view.ACCEPT, view.ACCEPT, (view.ACCEPT,), view.ACCEPT))
        arcs = []
        for links in zip(self.links, self.finals, strict=True):
            for link in (*links[0], *links[1]):
                target = self.states if link.target == FINAL else link.target
                skipped = " ".join(self.labels[label] for label in link.skipped)
                text = f"without {skipped}" if skipped else ""
                arcs.append(view.Arc(link.source, target, text, bool(skipped)))
        return view.View(tuple(states), tuple(arcs))


def letter_graph(query: Query) -> Graph:
    """The graph of the query's pattern."""
    for node in nodes.walk(query.pattern):
        if isinstance(node, (nodes.AnchorStart, nodes.AnchorEnd, nodes.Negation)):
            text = nodes.pattern_text(node, folds=False)
            raise errors.UnsupportedError(
                f"{text} cannot be used in a pattern with missing events",
                remedy="leave it out, or leave allow_missing out",
            )
    return graph_of(query.pattern, query.labels)


def letter_states(query: Query, every_way: bool) -> LetterStates:
    """The links of a query with `missing`; `every_way`: not only the cheapest."""
    assert query.missing is not None
    machine = letter_graph(query)
    costs = [query.missing.cost(label) for label in query.labels]
    bound = query.missing.units
    order = machine.positions
    number = {state: index + 1 for index, state in enumerate(order)}
    find = _every_way if every_way else _cheapest
    links: list[tuple[Link, ...]] = []
    finals: list[tuple[Link, ...]] = []
    total = 0
    for index, state in enumerate([machine.start, *order]):
        found = find(machine, costs, bound, state)
        total += len(found)
        _check_number(total)
        here = [Link(index, number.get(t, FINAL), cost, skipped) for t, cost, skipped in found]
        links.append(tuple(link for link in here if link.target != FINAL))
        finals.append(tuple(link for link in here if link.target == FINAL))
    letters = (EPSILON, *(machine.letter[state] for state in order))
    return LetterStates(machine.labels, letters, tuple(links), tuple(finals), bound, tuple(costs))


def missing_subsets(query: Query, correlated: bool) -> Subsets:
    """What counting, listing and aggregating read in place of the exact pattern's subsets."""
    if correlated:
        raise errors.UnsupportedError(
            "count and aggregate with allow_missing need conditions on single rows: which events "
            "are missing decides whether the others hold",
            remedy="list the matches with matches(...), or leave allow_missing out",
        )
    return Subsets(letter_states(query, every_way=False))


def _check_number(ways: int) -> None:
    if ways > MAX_LINKS:
        raise errors.LimitError(
            f"there are more than {MAX_LINKS:,} ways to skip missing events",
            remedy="allow fewer missing events, or name required ones with required=[...]",
        )


Way = tuple[int, int, tuple[int, ...]]  # state of the graph, cost, labels skipped


def _cheapest(machine: Graph, costs: list[int | None], bound: int, source: int) -> list[Way]:
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


def _every_way(machine: Graph, costs: list[int | None], bound: int, source: int) -> list[Way]:
    """Every way, each list of skipped letters once; no letter twice for nothing."""
    seen: set[tuple[int, tuple[int, ...]]] = set()
    found: dict[Way, None] = {}
    stack: list[tuple[int, int, tuple[int, ...], frozenset[int]]] = [(source, 0, (), frozenset())]
    while stack:
        here, cost, skipped, free = stack.pop()
        if (here, skipped) in seen:
            continue
        seen.add((here, skipped))
        _check_number(len(seen))
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
