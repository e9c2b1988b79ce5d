"""Merge states that cannot be told apart.

Two states with the same label, the same exclusion mark and the same arcs in the same order accept
the same continuations with the same preference, so one can stand for both:
`B+` compiles to two states `B -> 3 4`, of which one is enough.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ensue.automaton.program import ACCEPT, START, Program

_PASSES = 16  # each pass is linear in the arcs; what is left after these is merely not minimal


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
    order, seen, stack = [], {START}, [START]
    while stack:
        state = stack.pop()
        order.append(state)
        for target, _ in reversed(arcs[state]):
            if target != ACCEPT and target not in seen:
                seen.add(target)
                stack.append(target)
    order = [START, *sorted(order[1:])]
    number = {state: index for index, state in enumerate(order)}
    counts = [len(arcs[state]) for state in order]
    flat = [arc for state in order for arc in arcs[state]]
    return replace(
        program,
        label=program.label[order],
        excluded=program.excluded[order],
        arc_offset=np.array([0, *np.cumsum(counts)], dtype=np.int32),
        arc_target=np.array([number[t] if t != ACCEPT else t for t, _ in flat], dtype=np.int32),
        arc_flags=np.array([f for _, f in flat], dtype=np.uint8),
    )
