"""Query to Program: the positions of a row pattern, merged where they cannot be distinguished.

Two states with the same label, the same exclusion mark and the same arcs in the same order accept
the same continuations with the same preference, so one can stand for both: of `(A | B C) D | E D`
one state D is enough.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ensue import errors
from ensue.automaton.positions import Graph, graph_of
from ensue.automaton.program import ACCEPT, START, Program
from ensue.automaton.walks import reached
from ensue.query.query import Query

_PASSES = 16  # each pass is linear in the arcs; what is left after these is merely not minimal


def compile_query(query: Query) -> Program:
    """The program of a query in row semantics."""
    if not query.row_semantics:
        raise errors.UnsupportedError(
            "arrows (->, ->>), negation and select() are not compiled to a row program",
            remedy="write a row pattern: a blank between labels means the next row",
        )
    return program_of(query, graph_of(query.pattern, query.labels))


def program_of(query: Query, graph: Graph) -> Program:
    """The positions of a graph as a program: state i + 1 is the i-th by preference."""
    order = graph.by_preference()
    program = Program(
        query=query,
        labels=query.labels,
        definitions=tuple(query.definition(label) for label in query.labels),
        label=np.array([-1, *(graph.letter[state] for state in order)], dtype=np.int32),
        excluded=np.array([False, *(state in graph.excluded for state in order)], dtype=np.bool_),
        arc_offset=np.zeros(len(order) + 2, np.int32),
        arc_target=np.zeros(0, np.int32),
        arc_flags=np.zeros(0, np.uint8),
    )
    return with_arcs(program, graph.arcs(order))


def with_arcs(program: Program, arcs: list[list[tuple[int, int]]]) -> Program:
    """The program with other arcs: (target, flags) by state, in order of preference."""
    flat = [arc for of_state in arcs for arc in of_state]
    return replace(
        program,
        arc_offset=np.cumsum([0, *map(len, arcs)]).astype(np.int32),
        arc_target=np.array([target for target, _ in flat], np.int32),
        arc_flags=np.array([flags for _, flags in flat], np.uint8),
    )


def merge_states(program: Program) -> Program:
    """An equivalent program with duplicate states merged and unreachable ones dropped."""
    arcs = [program.arcs_of(state) for state in range(program.states)]
    representative = list(range(program.states))
    for _ in range(_PASSES):
        seen: dict[tuple[object, ...], int] = {}
        changed = False
        for state in range(1, program.states):
            if representative[state] != state:
                continue
            key = (program.label[state], program.excluded[state], tuple(arcs[state]))
            kept = seen.setdefault(key, state)
            if kept != state:
                representative[state] = kept
                changed = True
        if not changed:
            break
        arcs = [_redirect(of_state, representative) for of_state in arcs]
    return _renumber(program, arcs)


def _redirect(arcs: list[tuple[int, int]], representative: list[int]) -> list[tuple[int, int]]:
    redirected = ((representative[target], flags) for target, flags in arcs)
    return list(dict.fromkeys(redirected))


def _renumber(program: Program, arcs: list[list[tuple[int, int]]]) -> Program:
    order = sorted(reached([START], lambda s: [t for t, _ in arcs[s] if t != ACCEPT]))
    number = {state: index for index, state in enumerate(order)}
    kept = replace(program, label=program.label[order], excluded=program.excluded[order])
    return with_arcs(
        kept, [[(number[t] if t != ACCEPT else t, f) for t, f in arcs[s]] for s in order]
    )
