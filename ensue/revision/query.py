"""Event patterns as automata with registers, where their meaning allows it.

States are those of the subset construction (`subsets.py`): every match is one path, so partial
matches need not be told apart by more than their events. What an event is to each label arrives as
bits; arcs test disjoint combinations of them. Skipping an event in place is an ignorable self-loop,
a trailing "not" an arc at the end of the window. `LAST(A.x)` in a condition becomes a field of the
register that taking an A sets.

`supports` says why a query is left to other evaluators; behind the matcher those go through replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ensue.automaton.plan import Plan
from ensue.automaton.registers import FIELD, Arc, Expression, Field, Machine
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import NOWHERE, START, Subsets
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import SkipMode, WindowKind
from ensue.scalar import kinds as k

MAX_ATOMS = 10  # labels that one state may test
MAX_STATES = 500
DONE = "done"
_KEPT = ("int", "float", "boolean", "string", "timestamp", "date")


def supports(plan: Plan) -> str | None:
    """Why the query is no automaton with registers; None where it is."""
    query = plan.query
    if query.row_semantics:
        return "a pattern without arrows and select() has row semantics: preference and skip"
    if query.rows.all_rows:
        return "event patterns give one row per match"
    if query.missing is not None:
        return "patterns with events missing have an evaluator of their own"
    if query.skip.mode is not SkipMode.NONE:
        return "after_match makes matches depend on each other"
    if query.within is not None and query.within.kind is WindowKind.ROWS:
        return "a window in rows moves when an event comes late"
    if any(test.neighbour for test in plan.tests) or plan.lookback or plan.lookahead:
        return "PREV and NEXT read rows that change when an event comes late"
    if any(
        isinstance(node, nodes.Repetition)
        and node.most is None
        and node.gap.policy is nodes.Policy.ANY
        for node in nodes.walk(query.pattern)
    ):
        return "a loop that skips anything has a partial match for every subset of its events"
    for test in plan.tests:
        for part in test.correlated:
            for node in c.walk(part):
                reason = _unreadable(node)
                if reason:
                    return reason
    automaton = compile_sequence(query)
    if automaton.bounds:
        return "a bound on the gap between two events"
    return None


def _unreadable(node: c.Condition) -> str | None:
    if isinstance(node, (c.Aggregate, c.MatchNumber, c.Classifier)):
        return "a condition aggregates over the match or reads labels"
    if isinstance(node, c.Navigate):
        plain = node.anchor is c.Anchor.LAST and not node.offset and not node.shift
        if not plain or not isinstance(node.argument, c.Column) or node.variable is None:
            return "a condition reads an event other than the last of a label"
    return None


def machine_of(plan: Plan, kinds: Mapping[str, k.Kind]) -> Machine:
    """The automaton of a query that is supported; bit i of an event is label i's row part."""
    return _Builder(plan, kinds).machine()


class _Builder:
    def __init__(self, plan: Plan, kinds: Mapping[str, k.Kind]) -> None:
        self._plan = plan
        self._kinds = kinds
        self._subsets = Subsets(compile_sequence(plan.query))
        self._fields: dict[tuple[str, str], Field] = {}
        self._guards = {
            index: self._guard(c.conjunction(list(test.correlated)))
            for index, test in enumerate(plan.tests)
            if test.correlated
        }

    def _guard(self, condition: c.Condition) -> c.Condition:
        """The condition over columns and fields of the register."""

        def change(node: c.Condition) -> c.Condition | None:
            if not isinstance(node, c.Navigate):
                return None
            assert isinstance(node.argument, c.Column) and node.variable is not None
            key = (node.variable, node.argument.name)
            kind = self._kinds[node.argument.name]
            if key not in self._fields:
                self._fields[key] = Field(f"r{len(self._fields)}", kind)
            return c.Column(FIELD + self._fields[key].name)

        return c.transform(condition, change)

    def machine(self) -> Machine:
        arcs: list[Arc] = []
        state = 0
        while state < len(self._subsets.sets):
            arcs += self._arcs_of(state)
            if self._subsets.pending[state] and state != START:
                arcs.append(Arc(f"s{state}", DONE, closing=True, accepts=True))
            state += 1
            if state > MAX_STATES:
                raise OverflowError
        return Machine(
            tuple(self._fields.values()),
            tuple(arcs),
            (f"s{START}",),
            frozenset((DONE,)),
            traced=True,
        )

    def _arcs_of(self, state: int) -> Iterator[Arc]:
        mask = self._subsets.masks[state]
        atoms = [i for i in range(mask.bit_length()) if mask >> i & 1]
        if len(atoms) > MAX_ATOMS:
            raise OverflowError
        actions: dict[tuple[int, int, bool], set[int]] = {}
        for values in product((0, 1), repeat=len(atoms)):
            bits = sum(value << atom for atom, value in zip(atoms, values, strict=True))
            step = self._subsets.step(state, bits)
            for take in step.takes:
                actions.setdefault((take.label, take.target, take.accept), set()).add(bits)
            if state != START and step.skip_accept:
                actions.setdefault((-1, NOWHERE, True), set()).add(bits)
            if state != START and step.skip != NOWHERE:
                actions.setdefault((-1, step.skip, False), set()).add(bits)
        for (label, target, accept), wanted in actions.items():
            for known, value in _cubes(atoms, wanted):
                yield from self._split(state, label, target, accept, known, value)

    def _split(
        self, state: int, label: int, target: int, accept: bool, known: Sequence[int], value: int
    ) -> Iterator[Arc]:
        """Arcs for a combination of atoms; a correlated one fails by its row or by its guard."""
        hard = [atom for atom in known if atom in self._guards]
        for by_guard in product((False, True), repeat=len(hard)):
            tested = dict(zip(hard, by_guard, strict=True))
            mask, bits, parts = 0, 0, []
            consistent = True
            for atom in known:
                wanted = bool(value >> atom & 1)
                if atom not in tested:
                    mask, bits = mask | 1 << atom, bits | wanted << atom
                elif wanted:
                    consistent &= tested[atom]  # true only one way: row and guard
                    mask, bits = mask | 1 << atom, bits | 1 << atom
                    parts.append(_is_true(self._guards[atom]))
                else:
                    mask, bits = mask | 1 << atom, bits | tested[atom] << atom
                    if tested[atom]:
                        parts.append(c.call("not", this=_is_true(self._guards[atom])))
            if consistent:
                yield self._arc(state, label, target, accept, (mask, bits), parts)

    def _arc(
        self,
        state: int,
        label: int,
        target: int,
        accept: bool,
        bits: tuple[int, int],
        parts: list[c.Condition],
    ) -> Arc:
        changes: list[tuple[str, Expression]] = []
        if label >= 0:
            name = self._plan.marks.labels[label]
            for (variable, column), item in self._fields.items():
                if name in self._plan.query.members(variable):
                    changes.append((item.name, c.Column(column)))
        return Arc(
            f"s{state}",
            DONE if target == NOWHERE else f"s{target}",
            c.conjunction(parts) if parts else None,
            tuple(changes),
            accepts=accept,
            label=label,
            bits=bits,
        )


def _is_true(condition: c.Condition) -> c.Condition:
    return c.binary("is", condition, c.TRUE)


def _cubes(atoms: Sequence[int], wanted: set[int]) -> Iterator[tuple[list[int], int]]:
    """Disjoint combinations (atoms that matter, their values) that cover exactly `wanted`."""
    if not wanted:
        return
    if len(wanted) == 1 << len(atoms):
        yield [], 0
        return
    first, rest = atoms[0], atoms[1:]
    low = {bits for bits in wanted if not bits >> first & 1}
    high = {bits & ~(1 << first) for bits in wanted if bits >> first & 1}
    if low == high:
        yield from _cubes(rest, low)
        return
    for known, value in _cubes(rest, low):
        yield [first, *known], value
    for known, value in _cubes(rest, high):
        yield [first, *known], value | 1 << first
