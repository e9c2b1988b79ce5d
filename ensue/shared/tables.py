"""The shared automaton as flat arrays for the events of one batch.

A *kind* of event is the set of common labels whose row parts it satisfies; a batch has few. For
every node that can be reached and every kind, the components of `automaton/share.py` are laid out
so that the kernel finds the nodes a kind concerns, their components, the guards these ask and the
outcome of the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.share_automaton import Component, Outcome, SharedAutomaton
from ensue.shared.kernels.layout import Steps

MAX_NODES = 50_000
_ALL = (1 << 64) - 1
_NONE = -1  # in place of a node, a label, a target


def words_of(bitmaps: Sequence[int], words: int) -> NDArray[np.uint64]:
    """Bitmaps of any length as rows of 64-bit words."""
    found = np.zeros((max(1, len(bitmaps)), words), np.uint64)
    for index, bitmap in enumerate(bitmaps):
        for word in range(words):
            found[index, word] = bitmap >> (64 * word) & _ALL
    return found


@dataclass(frozen=True)
class Tables:
    steps: Steps  # as the kernels read them
    concerns: NDArray[np.bool_]  # [node, kind]
    nodes: int
    most: int  # partial matches that one visit may create


class _Writer:
    def __init__(self, words: int) -> None:
        self.words = words
        self.mask: list[int] = []
        self.guard_offset: list[int] = [0]
        self.guard: list[int] = []
        self.base: list[int] = []
        self.change_offset: list[int] = [0]
        self.stay: list[int] = []
        self.changes: list[tuple[int, int]] = []  # label and target, either may be none
        self.going: list[int] = []
        self.matched: list[int] = []
        self.most = 1
        self.patient: dict[
            int, bool
        ] = {}  # by first component: a visit changes nothing but by taking
        self._ranges: dict[tuple[Component, ...], tuple[int, int]] = {}

    def components(self, found: tuple[Component, ...]) -> tuple[int, int]:
        """Where the components lie; equal ones are written once."""
        if found not in self._ranges:
            begin = len(self.mask)
            children = 0
            for component in found:
                self.mask.append(component.patterns)
                self.guard.extend(component.guards)
                self.guard_offset.append(len(self.guard))
                self.base.append(len(self.stay))
                for outcome in component.outcomes:
                    self._outcome(outcome)
                children += max(len(o.taken) + len(o.moved) for o in component.outcomes)
            self.most = max(self.most, children)
            self._ranges[found] = (begin, len(self.mask))
            self.patient[begin] = not any(
                outcome.moved or outcome.accepted or component.patterns & ~outcome.stay
                for component in found
                for outcome in component.outcomes
            )
        return self._ranges[found]

    def _outcome(self, outcome: Outcome) -> None:
        for taken in outcome.taken:
            self._change(taken.label, taken.target, taken.going, taken.accepted)
        for node, patterns in outcome.moved:
            self._change(_NONE, node, patterns, 0)
        if outcome.accepted:
            self._change(_NONE, _NONE, 0, outcome.accepted)
        self.change_offset.append(len(self.changes))
        self.stay.append(outcome.stay)

    def _change(self, label: int, target: int, going: int, accepted: int) -> None:
        self.changes.append((label, target))
        self.going.append(going)
        self.matched.append(accepted)


def build(automaton: SharedAutomaton, kinds: Sequence[int], used: Sequence[int]) -> Tables:
    """Tables for the kinds of a batch; `used` are nodes that hold partial matches already."""
    patterns = len(automaton.union.members)
    writer = _Writer((patterns + 63) // 64)
    react: list[list[tuple[int, int, int]]] = [[] for _ in kinds]
    starts: list[list[tuple[int, int, int]]] = [[] for _ in kinds]
    seen: set[int] = set()
    stack = [*automaton.starts, *used]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > MAX_NODES:
            raise errors.LimitError(
                f"the workload needs more than {MAX_NODES:,} shared states",
                remedy="run fewer patterns together, or raise ensue.shared.tables.MAX_NODES",
            )
        relevant = automaton.relevant(node)
        groups: dict[int, list[int]] = {}
        for kind, bits in enumerate(kinds):
            groups.setdefault(bits & relevant, []).append(kind)
        for bits, members in groups.items():
            found = automaton.components(node, bits)
            if not found:
                continue
            begin, end = writer.components(found)
            for kind in members:
                if node in automaton.starts:
                    starts[kind].append((_NONE, begin, end))
                else:
                    react[kind].append((node, begin, end))
            for component in found:
                for outcome in component.outcomes:
                    stack.extend(taken.target for taken in outcome.taken if taken.target >= 0)
                    stack.extend(target for target, _ in outcome.moved)
    return _laid_out(automaton, writer, [a + b for a, b in zip(starts, react, strict=True)])


def _laid_out(
    automaton: SharedAutomaton, writer: _Writer, react: list[list[tuple[int, int, int]]]
) -> Tables:
    nodes = len(automaton.nodes)
    concerns = np.zeros((nodes, len(react)), np.bool_)
    for kind, found in enumerate(react):
        for node, _, _ in found:
            if node != _NONE:
                concerns[node, kind] = True
    react_node, begin, end = _columns([entry for found in react for entry in found], 3)
    change_label, change_target = _columns(writer.changes, 2)
    words = writer.words

    def masks(bitmaps: Sequence[int]) -> NDArray[np.uint64]:
        return words_of(bitmaps, words)

    steps = Steps(
        react_offset=np.cumsum([0, *map(len, react)]).astype(np.int64),
        react_node=react_node,
        react_begin=begin,
        react_end=end,
        component_mask=masks(writer.mask),
        guard_offset=np.array(writer.guard_offset, np.int32),
        guard=np.array(writer.guard or [0], np.int32),
        outcome=np.array(writer.base or [0], np.int32),
        change_offset=np.array(writer.change_offset, np.int32),
        stay=masks(writer.stay),
        change_label=change_label.astype(np.int64),
        change_target=change_target,
        change_going=masks(writer.going),
        change_accept=masks(writer.matched),
        pending=masks([automaton.pending(node) for node in range(nodes)]),
        labels=automaton.union.labels,
        node_bits=masks([automaton.bitmap(node) for node in range(nodes)]),
        patient=np.array([writer.patient[first] for first in begin.tolist()], np.bool_),
    )
    return Tables(steps, concerns, nodes, writer.most)


def _columns(entries: Sequence[tuple[int, ...]], count: int) -> list[NDArray[np.int32]]:
    flat = np.array(entries, np.int32).reshape(-1, count)
    return [np.ascontiguousarray(flat[:, column]) for column in range(count)]
