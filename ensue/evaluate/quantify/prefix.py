"""One long sequence in parallel: chunks summarised apart, then put together in order.

At rank 0 with associative folds, what a chunk does is a table: for each pair of states, the fold
of the weights on the path between them (one at most, by unambiguity). Chunks are summarised in
threads (the compiled loop holds no lock), then the table of each is applied to the tokens so far.
Work is that of the sequential run times the number of states; the answer is the same, up to the
rounding of float sums.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.evaluate.quantify.folds import FOLDS
from ensue.evaluate.quantify.model import Automaton, Fold, State, folded
from ensue.evaluate.quantify.run import Machine, Outcome, as_array, whole
from ensue.evaluate.quantify.stages import AutomatonStage, Bound, Stage
from ensue.evaluate.quantify.tokens import Configuration, closure
from ensue.kernels import quantify_code as opcodes

Slots = tuple[Any, ...]
_MERGED = {"count": "sum", "rows": "sum"}  # the monoid of a fold whose weights are of another type


def refusal(stage: Stage) -> str:
    """Why a query cannot be cut into chunks; empty where it can."""
    if not isinstance(stage, AutomatonStage):
        return "windows, groups and pipelines are not folds of one sequence"
    automaton = stage.automaton
    if automaton.rank:
        return f"it invokes other automata (rank {automaton.rank})"
    for transition in automaton.transitions:
        if not hasattr(transition, "predicate"):
            return "it has silent transitions"
    try:
        monoids(automaton)
    except errors.UnsupportedError as problem:
        return problem.problem
    return ""


def monoids(automaton: Automaton) -> list[Fold]:
    """The fold that merges each slot."""
    merges: list[Fold | None] = [None] * automaton.width
    for transition in automaton.transitions:
        for action in transition.actions:
            name = _MERGED.get(action.fold.name, action.fold.name)
            merge = FOLDS.get(name, action.fold)
            known = merges[action.slot]
            if not merge.associative or merge.width > 1 or known not in (None, merge):
                raise errors.UnsupportedError(
                    f"the fold {action.fold} is not an associative fold of its own slot"
                )
            merges[action.slot] = merge
    return [merge or FOLDS["last"] for merge in merges]


def parallel(stage: Stage, bound: Bound, table: pa.Table, threads: int) -> Outcome:
    reason = refusal(stage)
    if reason:
        raise errors.UnsupportedError(
            f"the query cannot be evaluated in parallel: {reason}",
            remedy="leave threads out; only rank 0 with associative folds can be cut",
        )
    machine: Machine = bound.machine  # type: ignore[attr-defined]
    if not machine.report.tokens:
        raise errors.UnsupportedError(
            "an ambiguous query is evaluated in one thread", remedy="leave threads out"
        )
    automaton = machine.automaton
    size = max(1, -(-table.num_rows // threads))
    pieces = [table.slice(begin, size) for begin in range(0, table.num_rows, size)]
    with ThreadPoolExecutor(threads) as pool:
        summaries = list(pool.map(lambda piece: _summary(machine, piece), pieces))
    merges = monoids(automaton)
    tokens = closure(automaton)
    for summary in summaries:
        after: dict[State, Slots] = {}
        for source, slots in tokens.items():
            for target, gained in summary[source].items():
                after[target] = tuple(
                    merge.function(y, x) for merge, y, x in zip(merges, slots, gained, strict=True)
                )
        tokens = after
    for state, actions in automaton.final.items():
        if state in tokens:
            value = automaton.output(folded(tokens[state], actions, {}))
            return Outcome(as_array([value], machine.output_type), np.ones(1, np.bool_))
    return Outcome(as_array([None], machine.output_type), np.zeros(1, np.bool_))


def _summary(machine: Machine, piece: pa.Table) -> dict[State, dict[State, Slots]]:
    """From each state: the states reached, and what the slots gained on the way."""
    automaton = machine.automaton
    states = automaton.states
    kept = machine.kept()
    kept.grow(len(states))
    merges = monoids(automaton)
    identities = tuple(merge.identity for merge in merges)
    if machine.numeric is None:
        for place, state in enumerate(states):
            configuration = Configuration(automaton)
            configuration.tokens = {state: (identities,)}
            kept.configurations[place] = configuration
            _run_from(machine, piece, kept, place)
        return {
            state: {
                target: stack[-1] for target, stack in kept.configurations[place].tokens.items()
            }
            for place, state in enumerate(states)
        }
    program = machine.numeric.program
    for place in range(len(states)):
        kept.occupied[place] = False
        kept.occupied[place, place] = True
        _run_from(machine, piece, kept, place)
    found: dict[State, dict[State, Slots]] = {}
    kinds = machine.slot_kinds()
    for place, state in enumerate(states):
        found[state] = {}
        for number, target in enumerate(states):
            if kept.occupied[place, number]:
                own = int(program.own[number])
                bits = kept.bits[place, own : own + automaton.width]
                marks = kept.marks[place, own : own + automaton.width]
                found[state][target] = tuple(
                    _plain(bits[i : i + 1], int(marks[i]), kinds[i]) for i in range(automaton.width)
                )
    return found


def _run_from(machine: Machine, piece: pa.Table, kept: Any, place: int) -> None:
    machine.run(
        piece,
        whole(piece),
        kept=kept,
        places=np.array([place], np.int64),
        fresh=np.zeros(1, np.bool_),
    )


def _plain(bits: Any, mark: int, kind: str) -> Any:
    if mark != opcodes.VALUE:
        return None
    if kind == "float":
        return float(bits.view(np.float64)[0])
    return bool(bits[0]) if kind == "boolean" else int(bits[0])
