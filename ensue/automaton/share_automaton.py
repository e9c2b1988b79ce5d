"""Many event patterns as one automaton: what they share is matched once (SHARP §3.1, §4.1).

Each pattern keeps its own deterministic automaton (`subsets.py`). A *node* of the shared plan is a
set of (pattern, state) pairs: the states in which patterns wait with the same history. Prefixes and
loops are shared by construction; a history is followed once until the last pattern has left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ensue import errors
from ensue.automaton.share import Union, common_name, own_edges
from ensue.automaton.subsets import NOWHERE, START

Pairs = tuple[tuple[int, int], ...]  # (pattern, state), ascending


@dataclass(frozen=True)
class Taken:
    """An event joins under a common label; bitmaps of the patterns that continue and that match."""

    label: int
    target: int  # node, or NOWHERE
    going: int
    accepted: int


@dataclass(frozen=True)
class Outcome:
    """What an event does to the partial matches of a component."""

    taken: tuple[Taken, ...]
    stay: int  # patterns for which the partial match waits on, where it is
    moved: tuple[tuple[int, int], ...]  # (node, patterns): it waits on, elsewhere
    accepted: int  # patterns for which it is complete without the event


@dataclass(frozen=True)
class Component:
    """Patterns of a node that ask the same conditions of an event."""

    patterns: int
    guards: tuple[int, ...]  # common atoms that depend on the partial match
    outcomes: tuple[Outcome, ...]  # by the bits of the guards' answers


@dataclass
class SharedAutomaton:
    """Nodes and what events do to them, found on demand; `share` False keeps patterns apart."""

    union: Union
    share: bool = True
    nodes: list[Pairs] = field(default_factory=list)
    max_guards: int = 8

    def __post_init__(self) -> None:
        self._ids: dict[Pairs, int] = {}
        self._masks: dict[tuple[int, int], int] = {}
        self._memo: dict[tuple[int, int], tuple[Component, ...]] = {}
        self._relevant: dict[int, int] = {}
        self._steps: dict[int, dict[int, int]] = {}
        self._taken: dict[int, frozenset[str]] = {}
        self._ahead: dict[tuple[int, int], frozenset[int]] = {}
        tests = self.union.plan.tests
        self.correlated = sum(1 << i for i, test in enumerate(tests) if test.correlated)
        for offset in range(len(self.union.bounds)):
            self.correlated |= 1 << (len(tests) + offset)
        everyone = tuple((p, START) for p in range(len(self.union.members)))
        self.starts = tuple(
            self.node(pairs) for pairs in ([everyone] if self.share else [(e,) for e in everyone])
        )

    def node(self, pairs: Pairs) -> int:
        if pairs not in self._ids:
            self._ids[pairs] = len(self.nodes)
            self.nodes.append(pairs)
        return self._ids[pairs]

    def bitmap(self, node: int) -> int:
        """The pattern-sharing degree b(node)."""
        return sum(1 << pattern for pattern, _ in self.nodes[node])

    def pending(self, node: int) -> int:
        """Patterns for which a partial match here is complete once time proves an absence."""
        return sum(
            1 << p for p, state in self.nodes[node] if self.union.members[p].subsets.pending[state]
        )

    def relevant(self, node: int) -> int:
        """Common atoms on which the node's steps depend."""
        if node not in self._relevant:
            found = 0
            for pair in self.nodes[node]:
                found |= self._mask(*pair)
            self._relevant[node] = found
        return self._relevant[node]

    def _mask(self, pattern: int, state: int) -> int:
        key = (pattern, state)
        if key not in self._masks:
            member = self.union.members[pattern]
            own, found = member.subsets.masks[state], 0
            for index, atom in enumerate(member.atoms):
                if own >> index & 1:
                    found |= 1 << atom
            self._masks[key] = found
        return self._masks[key]

    def taken_at(self, node: int) -> frozenset[str]:
        """Names of the common labels that a partial match here has taken on the way first found."""
        return self._taken.get(node, frozenset())

    def reached(self, node: int, labels: Iterable[str]) -> None:
        """A node of stored state, and the labels taken on the way to it: not found by a step."""
        if node not in self.starts:
            self._taken.setdefault(node, frozenset(labels))

    def ahead(self, node: int) -> frozenset[int]:
        """Common atoms that some step from here on may ask."""
        found: frozenset[int] = frozenset()
        for pattern, state in self.nodes[node]:
            if (pattern, state) not in self._ahead:
                member = self.union.members[pattern]
                own = member.subsets.labels_ahead(state)
                self._ahead[pattern, state] = frozenset(member.atoms[atom] for atom in own)
            found |= self._ahead[pattern, state]
        return found

    def steps(self, node: int) -> int:
        """Events that the nearest match from here still needs."""
        return min(self._steps_of(pattern)[state] for pattern, state in self.nodes[node])

    def _steps_of(self, pattern: int) -> dict[int, int]:
        if pattern not in self._steps:
            member = self.union.members[pattern]
            edges = own_edges(member)
            known = {state: 1 for state in range(len(member.subsets.sets))}
            for _ in range(len(edges)):
                for state, found in edges.items():
                    assert isinstance(state, int)
                    if found:
                        known[state] = 1 + min(
                            0 if accept or not isinstance(target, int) else known[target]
                            for _, target, accept in found
                        )
            self._steps[pattern] = known
        known = self._steps[pattern]
        for state in range(len(known), len(self.union.members[pattern].subsets.sets)):
            known[state] = 1
        return known

    def components(self, node: int, bits: int) -> tuple[Component, ...]:
        """What an event does whose row parts are `bits`; nothing for patterns it leaves alone."""
        key = (node, bits & self.relevant(node))
        if key not in self._memo:
            self._memo[key] = self._components(node, bits)
        return self._memo[key]

    def _components(self, node: int, bits: int) -> tuple[Component, ...]:
        bounds = self.correlated & ~((1 << self.union.labels) - 1)
        groups: dict[object, tuple[int, list[tuple[int, int]]]] = {}
        for pattern, state in self.nodes[node]:
            asked = self._mask(pattern, state) & self.correlated & (bits | bounds)
            key = (asked, -1 if self.share else pattern)
            groups.setdefault(key, (asked, []))[1].append((pattern, state))
        start = node in self.starts
        found = []
        for asked, pairs in groups.values():
            guards = tuple(i for i in range(asked.bit_length()) if asked >> i & 1)
            if len(guards) > self.max_guards:
                raise errors.LimitError(
                    f"one event would have to be tested against {len(guards)} conditions over "
                    "other events at once",
                    remedy="write fewer conditions that read other events",
                )
            plain = bits & ~self.correlated
            outcomes = []
            for answers in range(1 << len(guards)):
                known = plain | sum(1 << g for i, g in enumerate(guards) if answers >> i & 1)
                outcomes.append(self._outcome(pairs, known))
            patterns = sum(1 << p for p, _ in pairs)
            idle = Outcome((), 0 if start else patterns, (), 0)
            if any(outcome != idle for outcome in outcomes):
                found.append(Component(patterns, guards, tuple(outcomes)))
        self._note_taken(node, found)
        return tuple(found)

    def _note_taken(self, node: int, found: list[Component]) -> None:
        before = self.taken_at(node)
        for component in found:
            for outcome in component.outcomes:
                for taken in outcome.taken:
                    self._taken.setdefault(taken.target, before | {common_name(taken.label)})
                for target, _ in outcome.moved:
                    self._taken.setdefault(target, before)

    def _outcome(self, pairs: Sequence[tuple[int, int]], bits: int) -> Outcome:
        taken: dict[tuple[int, int], tuple[list[tuple[int, int]], int]] = {}
        moved: dict[int, list[tuple[int, int]]] = {}
        stay = accepted = 0
        for pattern, state in pairs:
            member = self.union.members[pattern]
            own = sum(1 << i for i, atom in enumerate(member.atoms) if bits >> atom & 1)
            step = member.subsets.step(state, own)
            apart = -1 if self.share else pattern
            for take in step.takes:
                key = (member.common[take.label], apart)
                going, matched = taken.get(key, ([], 0))
                if take.target != NOWHERE:
                    going.append((pattern, take.target))
                taken[key] = (going, matched | (take.accept << pattern))
            accepted |= step.skip_accept << pattern
            if step.skip == state and state != START:
                stay |= 1 << pattern
            elif step.skip != NOWHERE:
                moved.setdefault(apart, []).append((pattern, step.skip))
        return Outcome(
            tuple(
                Taken(
                    label,
                    self.node(tuple(going)) if going else NOWHERE,
                    sum(1 << p for p, _ in going),
                    matched,
                )
                for (label, _), (going, matched) in taken.items()
            ),
            stay,
            tuple((self.node(tuple(p)), sum(1 << i for i, _ in p)) for p in moved.values()),
            accepted,
        )
