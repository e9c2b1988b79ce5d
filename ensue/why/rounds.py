"""The program of a row pattern that knows which rounds of a loop are required.

States are not merged: each is one position, so that a state can say "round 3 of at least 4".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.compile import program_of
from ensue.automaton.positions import EPSILON, Builder
from ensue.automaton.program import ACCEPT, Program
from ensue.automaton.walks import distances, reached, reversed_edges
from ensue.query import nodes
from ensue.query.query import Query


class _Rounds(Builder):
    """Notes the positions that begin a round which the minimum asks for, but the first."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        super().__init__(labels)
        self.begun: dict[int, tuple[int, int]] = {}

    def _round(self, node: nodes.Repetition, done: int, before: int) -> int:
        made = len(self._graph.letter)
        after = super()._round(node, done, before)
        if done:
            letter, edges = self._graph.letter, self._graph.edges
            for state in reached(
                [s for s in edges[before] if s >= made],
                lambda s: edges[s] if letter[s] == EPSILON else (),
            ):
                if letter[state] != EPSILON:
                    self.begun.setdefault(state, (done, node.least))
        return after


def compile_rounds(query: Query) -> tuple[Program, dict[int, tuple[int, int]]]:
    """The program, and per state that begins such a round: rounds before it, and the minimum."""
    builder = _Rounds(query.labels)
    graph = builder.build(query.pattern)
    order = graph.by_preference()
    number = {state: index for index, state in enumerate(order, 1)}
    begun = {number[s]: told for s, told in builder.begun.items() if s in number}
    return program_of(query, graph), begun


def remaining(program: Program) -> NDArray[np.int64]:
    """Per state: the fewest rows, its own included, to the end of a match; 0: there is none."""
    arcs = [[target for target, _ in program.arcs_of(s)] for s in range(program.states)]
    found = np.zeros(program.states, np.int64)
    sources = reversed_edges(arcs, program.states)
    ends = [state for state, targets in enumerate(arcs) if ACCEPT in targets]
    for state, distance in distances(ends, lambda s: sources[s] if s else ()).items():
        found[state] = distance + 1
    return found


def completions(program: Program, remaining: NDArray[np.int64]) -> list[tuple[str, ...]]:
    """Per state: the labels of these rows; of several ways, the one that is preferred."""
    found: list[tuple[str, ...]] = [()] * program.states
    for state in np.argsort(remaining, kind="stable").tolist():
        if not state or not remaining[state]:
            continue
        left, label = remaining[state] - 1, program.labels[program.label[state]]
        onward = (t for t, _ in program.arcs_of(state) if t != ACCEPT and remaining[t] == left)
        found[state] = (label, *found[next(onward)]) if left else (label,)
    return found
