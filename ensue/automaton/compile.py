"""Query to Program.

The pattern becomes a graph of consuming, splitting and asserting nodes (Thompson's construction,
built from the end so that each node knows its successor); then the ordered ε-closure of every
consuming node becomes its arc list. The closure is a depth-first walk in order of preference, so
the first way to reach a target is the preferred one and later ways to the same target are dropped:
they have the same future and the same labels.

Empty iterations: an iteration beyond the minimum must consume a row. `LEAVE` nodes mark the end
of such an iteration; a walk that arrives there without having consumed since it entered is dead.
PERMUTE is a lattice over the subsets of its parts instead of n! sequences: what remains depends
only on which parts are done, and lexicographic preference is kept because the arcs out of every
subset stand in listed order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ensue import errors
from ensue.automaton.program import ACCEPT, AT_END, AT_START, Program
from ensue.query import nodes
from ensue.query.query import Query

MAX_STATES = 20_000
MAX_ARCS = 1_000_000


class _Kind(Enum):
    CONSUME = "consume"
    SPLIT = "split"
    ENTER = "enter"  # an optional iteration begins
    LEAVE = "leave"  # ... and ends
    ASSERT = "assert"
    ACCEPT = "accept"


@dataclass
class _Node:
    kind: _Kind
    targets: list[int] = field(default_factory=list)
    value: int = 0  # label, iteration or anchor
    excluded: bool = False
    state: int = 0


def label_program(query: Query) -> Program:
    """The labels of an event pattern with their definitions: state i + 1 is label i.

    How such a pattern is recognised is in `automaton/sequence.py`; conditions and measures need
    only its labels, and take them from a program without arcs.
    """
    labels = query.labels
    return Program(
        query=query,
        labels=labels,
        definitions=tuple(query.definition(label) for label in labels),
        label=np.arange(-1, len(labels), dtype=np.int32),
        excluded=np.zeros(len(labels) + 1, np.bool_),
        arc_offset=np.zeros(len(labels) + 2, np.int32),
        arc_target=np.zeros(0, np.int32),
        arc_flags=np.zeros(0, np.uint8),
    )


def compile_query(query: Query) -> Program:
    """The program of a query in row semantics."""
    if not query.row_semantics:
        raise errors.UnsupportedError(
            "arrows (->, ->>), negation and select() are not compiled to a row program",
            remedy="write a row pattern: a blank between labels means the next row",
        )
    graph = _Graph(query.labels)
    accept = graph.add(_Node(_Kind.ACCEPT))
    entry = graph.build(query.pattern, accept, excluded=False)
    consuming = graph.number_states(entry)
    labels = [-1] + [node.value for node in consuming]
    excluded = [False] + [node.excluded for node in consuming]
    offsets, targets, flags = [0], [], []
    for state, first in enumerate([entry, *(node.targets[0] for node in consuming)]):
        for target, flag in graph.closure(first, from_start=state == 0):
            targets.append(target)
            flags.append(flag)
        if len(targets) > MAX_ARCS:
            raise _too_large(f"more than {MAX_ARCS:,} arcs", "MAX_ARCS")
        offsets.append(len(targets))
    return Program(
        query=query,
        labels=query.labels,
        definitions=tuple(query.definition(label) for label in query.labels),
        label=np.array(labels, dtype=np.int32),
        excluded=np.array(excluded, dtype=np.bool_),
        arc_offset=np.array(offsets, dtype=np.int32),
        arc_target=np.array(targets, dtype=np.int32),
        arc_flags=np.array(flags, dtype=np.uint8),
    )


def _too_large(what: str, setting: str) -> errors.LimitError:
    return errors.LimitError(
        f"the pattern expands to {what}",
        remedy="shorten the repetitions or PERMUTE lists, or raise "
        f"ensue.automaton.compile.{setting}",
    )


class _Graph:
    def __init__(self, labels: tuple[str, ...]) -> None:
        self._nodes: list[_Node] = []
        self._labels = {name: index for index, name in enumerate(labels)}
        self._iterations = 0
        self._consuming = 0

    def add(self, node: _Node) -> int:
        if node.kind is _Kind.CONSUME:
            self._consuming += 1
            if self._consuming > MAX_STATES:
                raise _too_large(f"more than {MAX_STATES:,} states", "MAX_STATES")
        self._nodes.append(node)
        return len(self._nodes) - 1

    def build(self, node: nodes.Node, following: int, excluded: bool) -> int:
        """The entry of the graph of `node` that continues at `following`."""
        match node:
            case nodes.Empty():
                return following
            case nodes.Label(name=name):
                label = self._labels[name]
                return self.add(_Node(_Kind.CONSUME, [following], label, excluded))
            case nodes.AnchorStart():
                return self.add(_Node(_Kind.ASSERT, [following], AT_START))
            case nodes.AnchorEnd():
                return self.add(_Node(_Kind.ASSERT, [following], AT_END))
            case nodes.Concatenation(parts=parts):
                for part in reversed(parts):
                    following = self.build(part, following, excluded)
                return following
            case nodes.Alternation(options=options):
                entries = [self.build(option, following, excluded) for option in options]
                return self.add(_Node(_Kind.SPLIT, entries))
            case nodes.Repetition():
                return self._repetition(node, following, excluded)
            case nodes.Permutation(parts=parts):
                return self._permutation(parts, following, excluded)
            case nodes.Exclusion(part=part):
                return self.build(part, following, True)
            case nodes.Negation():
                raise AssertionError("refused before")

    def _repetition(self, node: nodes.Repetition, following: int, excluded: bool) -> int:
        if node.most is None:
            entry = self.add(_Node(_Kind.SPLIT))
            again = self._optional(node, entry, following, excluded)
            self._nodes[entry].targets = self._nodes[again].targets
        else:
            entry = following
            for _ in range(node.most - node.least):
                entry = self._optional(node, entry, following, excluded)
        for _ in range(node.least):
            entry = self.build(node.part, entry, excluded)
        return entry

    def _optional(
        self, node: nodes.Repetition, following: int, otherwise: int, excluded: bool
    ) -> int:
        """One more iteration, or on to `otherwise`; more first where greedy."""
        self._iterations += 1
        leave = self.add(_Node(_Kind.LEAVE, [following], self._iterations))
        body = self.build(node.part, leave, excluded)
        enter = self.add(_Node(_Kind.ENTER, [body], leave))
        choices = [enter, otherwise] if node.greedy else [otherwise, enter]
        return self.add(_Node(_Kind.SPLIT, choices))

    def _permutation(self, parts: tuple[nodes.Node, ...], following: int, excluded: bool) -> int:
        everything = (1 << len(parts)) - 1
        if len(parts) << (len(parts) - 1) > MAX_STATES:
            raise _too_large(f"PERMUTE of {len(parts)} parts", "MAX_STATES")
        entry = {everything: following}
        for done in range(everything - 1, -1, -1):
            choices = [
                self.build(part, entry[done | 1 << index], excluded)
                for index, part in enumerate(parts)
                if not done >> index & 1
            ]
            entry[done] = self.add(_Node(_Kind.SPLIT, choices))
        return entry[0]

    def number_states(self, entry: int) -> list[_Node]:
        """Consuming nodes in order of the text (a depth-first walk from the entry)."""
        found: list[_Node] = []
        seen: set[int] = set()
        stack = [entry]
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            node = self._nodes[index]
            if node.kind is _Kind.CONSUME:
                found.append(node)
                node.state = len(found)
            stack.extend(reversed(node.targets))
        return found

    def closure(self, first: int, *, from_start: bool) -> list[tuple[int, int]]:
        """(target, flags) reachable without consuming a row, in order of preference."""
        arcs: dict[tuple[int, int], None] = {}
        seen: set[tuple[int, frozenset[int], int]] = set()
        stack: list[tuple[int, frozenset[int], int]] = [(first, frozenset(), 0)]
        while stack:
            key = stack.pop()
            if key in seen:
                continue
            seen.add(key)
            index, entered, flags = key
            node = self._nodes[index]
            match node.kind:
                case _Kind.ACCEPT:
                    arcs.setdefault((ACCEPT, flags))
                case _Kind.CONSUME:
                    if not flags & AT_END:
                        arcs.setdefault((node.state, flags))
                case _Kind.ASSERT:
                    # A match starts at a row, so `$` cannot hold before it, nor `^` after it.
                    if (node.value == AT_START) == from_start:
                        stack.append((node.targets[0], entered, flags | node.value))
                case _Kind.ENTER:
                    stack.append((node.targets[0], entered | {node.value}, flags))
                case _Kind.LEAVE:
                    if index not in entered:
                        stack.append((node.targets[0], entered, flags))
                case _Kind.SPLIT:
                    stack.extend((target, entered, flags) for target in reversed(node.targets))
        return list(arcs)
