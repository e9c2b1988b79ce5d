"""Attributes of partial matches for the sketch: what the conditions ahead read of the past.

`b.x + c.x < d.x` compares the event under test with `b.x + c.x`, which is known as soon as b and c
are taken: that sum, binned, tells how likely a d will fit. So of each side of a comparison the
largest part that reads only earlier events is a *feature*; while some of its events are missing,
the single values that it reads are. Features are code for the register machine, like guards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.plan import Plan, Test
from ensue.automaton.share_automaton import SharedAutomaton
from ensue.guards import machine as vm
from ensue.guards.compile import Guards, compile_guards
from ensue.guards.operators import TooHardError
from ensue.query import condition as c
from ensue.scalar import kinds
from ensue.shared.constants import MAX_KEYS, MOST_FEATURES
from ensue.shared.kernels.layout import Features
from ensue.shared.kernels.sketch import EDGES, NOTED, REMEMBERED, SAMPLE

_FLOATS = frozenset({vm.LOAD_FLOAT, vm.FLOAT_REGISTER, vm.FLOAT_CONSTANT, vm.TO_FLOAT,
                     vm.MOVE_FLOAT, vm.DIVIDE_FLOAT, vm.TO_SINGLE, vm.INT_TO_SINGLE})  # fmt: skip
_FIRST_SAMPLE = 64
_NO_KEY = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Feature:
    """An expression over earlier events, as the condition of `label` reads it."""

    label: int
    expression: c.Condition
    reads: frozenset[str]  # variables
    whole: bool  # the largest part of a comparison; else a single value of it


@dataclass(frozen=True)
class Compiled:
    """Guards of all labels, and the features behind them in the same code."""

    guards: Guards
    features: tuple[Feature, ...]
    cell: NDArray[np.int32]
    floating: NDArray[np.bool_]


def compile_features(plan: Plan, input_kind: Mapping[str, kinds.Kind]) -> Compiled:
    """Guards and features; raises `TooHardError` where a condition needs plain Python."""
    wanted = [
        feature for index, test in enumerate(plan.tests) for feature in _features(index, test)
    ]
    unique = list({(f.label, f.expression): f for f in wanted}.values())
    guards = compile_guards(_with(plan, unique), input_kind)
    for line in guards.code:
        if line[0] == vm.NUMBER or (line[0] in (vm.LAST_ROW, vm.FIRST_ROW) and line[2] > 0):
            raise TooHardError("it counts rows of the match, which has holes")
    cells, floating = [], []
    for index in range(len(unique)):
        end = int(guards.guard_offset[len(plan.tests) + index + 1])
        source = int(guards.code[end - 2, 2])  # of IS NULL, the last but one instruction
        written = [line for line in guards.code[:end] if line[1] == source][-1]
        operation = int(written[0])
        cells.append(source)
        floating.append(
            operation in _FLOATS or (30 <= operation < 42 and operation % 2 == 1) or operation >= 90
        )
    return Compiled(guards, tuple(unique), np.array(cells, np.int32), np.array(floating, np.bool_))


def _with(plan: Plan, features: list[Feature]) -> Plan:
    tests = [
        Test("", None, (), (c.binary("is", f.expression, c.Literal("null", None)),))
        for f in features
    ]
    return replace(plan, tests=plan.tests + tuple(tests))


def _features(index: int, test: Test) -> list[Feature]:
    found: list[Feature] = []
    for part in test.correlated:
        whole = _largest(part)
        for expression in whole:
            found.append(Feature(index, expression, _reads(expression), True))
        for atom in c.atoms(part):
            if atom not in whole:
                found.append(Feature(index, atom, _reads(atom), False))
    return found


def _largest(condition: c.Condition) -> list[c.Condition]:
    """The largest parts that read earlier events and not the event under test."""
    reads_row = any(
        isinstance(node, c.Column) for node in c.walk(c.transform(condition, without_past))
    )
    if not reads_row and not _is_logic(condition):
        return [condition] if c.atoms(condition) else []
    found: list[c.Condition] = []
    for child in c.children(condition):
        found.extend(_largest(child))
    return list(dict.fromkeys(found))


def without_past(node: c.Condition) -> c.Condition | None:
    """For `transform`: what a condition reads of earlier events gives way to null."""
    past = (c.Navigate, c.Aggregate, c.MatchNumber)
    return c.Literal("null", None) if isinstance(node, past) else None


def _is_logic(node: c.Condition) -> bool:
    logic = ("and", "or", "not", "eq", "neq", "lt", "lte", "gt", "gte", "is", "in", "between")
    return isinstance(node, c.Call) and node.function in logic


def _reads(expression: c.Condition) -> frozenset[str]:
    return frozenset(
        variable
        for node in c.walk(expression)
        if (variable := getattr(node, "variable", None)) is not None
    )


def _registers(code: NDArray[np.int64]) -> list[int] | None:
    """The integer registers that all these values depend on; None where on something else too."""
    found: set[int] = set()
    for operation, _, a, b in code.tolist():
        if operation in (vm.ROW, vm.LAST_ROW, vm.FIRST_ROW, vm.NUMBER, vm.FLOAT_REGISTER):
            return None
        if operation == vm.REGISTER_ROW:
            found.add(a)
        elif operation == vm.INT_REGISTER:
            found |= {a, b} - {-1}
    return sorted(found)


class Bins:
    """Which features tell the partial matches of a node apart, and the edges of their bins."""

    def __init__(self, compiled: Compiled, automaton: SharedAutomaton, active: bool) -> None:
        self._compiled = compiled
        self._automaton = automaton
        self._active = active  # else nothing is learned, and no node needs telling apart
        self._chosen: dict[tuple[int, frozenset[str]], list[int]] = {}
        count = max(1, len(compiled.features))
        self.edges = np.zeros((count, EDGES), np.float64)
        self.seen = np.zeros(count, np.int64)
        self.sample = np.zeros((count, SAMPLE), np.float64)
        self.latest = np.zeros((count, 2))  # value, and how many went into the sample
        self.settled = False  # edges stay as they are
        self._known = np.zeros(count, np.int64)  # values seen when the edges were learned
        self._keys = np.full(REMEMBERED, _NO_KEY, np.uint64)
        self._buckets = np.zeros(REMEMBERED, np.int32)

    def learn(self) -> None:
        """Edges at the quantiles of a sample; anew whenever four times as many values were seen."""
        if self.settled:
            return
        for index in np.flatnonzero(self.seen >= np.maximum(_FIRST_SAMPLE, 4 * self._known)):
            steps = np.arange(1, EDGES + 1) / (EDGES + 1)
            size = max(1, min(int(self.latest[index, NOTED]), SAMPLE))
            self.edges[index] = np.quantile(self.sample[index, :size], steps)
            self._known[index] = self.seen[index]
            self._keys[:] = _NO_KEY

    def restore(self, edges: NDArray[np.float64]) -> None:
        """Edges learned before."""
        self.edges[:] = edges
        self._known[:] = np.where(edges.any(axis=1), SAMPLE, 0)
        self.seen[:] = self._known

    def arrays(self, code: NDArray[np.int64], guard_offset: NDArray[np.int64]) -> Features:
        """For the kernels, over the rows of one batch."""
        self._keys[:] = _NO_KEY
        labels = self._automaton.union.labels
        offset, chosen, bins = [0], [], []
        memorable, read_offset, read = [], [0], []
        for node in range(len(self._automaton.nodes) if self._active else 0):
            found = self._of(node)
            registers = _registers(
                np.concatenate(
                    [code[guard_offset[labels + i] : guard_offset[labels + i + 1]] for i in found]
                )
                if found
                else code[:0]
            )
            memorable.append(registers is not None)
            read.extend(registers or [])
            read_offset.append(len(read))
            chosen.extend(found)
            offset.append(len(chosen))
            bins.append(self._bins(node))
        begin = guard_offset[labels:-1] if len(guard_offset) > labels + 1 else np.zeros(1, np.int64)
        end = guard_offset[labels + 1 :] if len(guard_offset) > labels + 1 else begin
        cell = self._compiled.cell if len(self._compiled.cell) else np.zeros(1, np.int32)
        floating = self._compiled.floating if len(self._compiled.cell) else np.zeros(1, np.bool_)
        return Features(
            offset=np.array(offset, np.int64),
            chosen=np.array(chosen or [0], np.int32),
            bins=np.array(bins, np.int64),
            code=code,
            begin=np.ascontiguousarray(begin),
            end=np.ascontiguousarray(end),
            cell=cell,
            floating=floating,
            edges=self.edges,
            seen=self.seen,
            sample=self.sample,
            memorable=np.array(memorable, np.bool_),
            read_offset=np.array(read_offset, np.int64),
            read=np.array(read or [0], np.int32),
            known=self._keys,
            remembered=self._buckets,
            latest=self.latest,
            base=np.array(self.bases(), np.int64),
        )

    def bases(self) -> list[int]:
        """The first bucket of every node, and where the last ones end."""
        found = [0]
        for node in range(len(self._automaton.nodes)):
            found.append(found[-1] + (self._bins(node) + 1) ** len(self._of(node)))
        return found

    def _bins(self, node: int) -> int:
        return min(EDGES + 1, max(2, int(MAX_KEYS ** (1 / max(1, len(self._of(node)))))))

    def _of(self, node: int) -> list[int]:
        """Features of conditions ahead whose events are taken: whole ones first."""
        taken = self._automaton.taken_at(node)
        if (node, taken) not in self._chosen:
            self._chosen[node, taken] = self._choose(node, taken)
        return self._chosen[node, taken]

    def _choose(self, node: int, taken: frozenset[str]) -> list[int]:
        ahead = self._automaton.ahead(node)
        members = self._automaton.union.plan.query.members
        ready = [
            index
            for index, f in enumerate(self._compiled.features)
            if f.label in ahead and all(taken & set(members(v)) for v in f.reads)
        ]
        whole = [i for i in ready if self._compiled.features[i].whole]
        covered = {atom for i in whole for atom in c.atoms(self._compiled.features[i].expression)}
        single = [
            i
            for i in ready
            if not self._compiled.features[i].whole
            and self._compiled.features[i].expression not in covered
        ]
        unique: dict[c.Condition, int] = {}
        for index in whole + single:
            unique.setdefault(self._compiled.features[index].expression, index)
        return list(unique.values())[:MOST_FEATURES]
