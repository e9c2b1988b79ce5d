"""One long sequence in parallel: chunks summarised apart, then put together in order.

Compiled queries are cut by `chunks.py`. What it does not know (values that are no numbers, monoids
of the user's) is cut here at rank 0 with associative folds, where what a chunk does is a table: for
each pair of states, the fold of the weights on the path between them (one at most, by unambiguity).
Work is that of the sequential run times the number of states; the answer is the same, up to the
rounding of float sums. A chunk starts from the identity of each fold: null for those of SQL, which
skip it, and what `monoid` was given for others. Where a chunk alone fails (its own sum leaves 64
bits, say), the whole is run in one thread, which answers or says which row is to blame.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.guards.operators import TooHardError
from ensue.quantities import chunks
from ensue.quantities.assemble import bits_of
from ensue.quantities.bound import Batch, Bound, Outcome
from ensue.quantities.folds import FOLDS, MERGED
from ensue.quantities.kernels.loop import UNDEFINED
from ensue.quantities.memory import Indices, Kept, Memory
from ensue.quantities.model import Automaton, Fold, State, Step, guarded
from ensue.quantities.numbers import Numbers
from ensue.quantities.run import BoundAutomaton, as_array, from_bits, plain_value
from ensue.quantities.stages import AutomatonQuestion, Question
from ensue.quantities.tokens import Configuration, closure
from ensue.scalar.kinds import Kind
from ensue.stopping import in_threads

Slots = tuple[Any, ...]


def refusal(stage: Question) -> str:
    """Why a query cannot be cut into chunks; empty where it can."""
    if not isinstance(stage, AutomatonQuestion):
        return "windows, groups and pipelines are not folds of one sequence"
    automaton = stage.automaton
    if automaton.rank:
        return f"it invokes other automata (rank {automaton.rank})"
    if not all(isinstance(transition, Step) for transition in automaton.transitions):
        return "it has silent transitions"
    return _unmerged(automaton)


def _unmerged(automaton: Automaton) -> str:
    """Which fold cannot be merged; empty where all can."""
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
            name = MERGED.get(action.fold.name, action.fold.name)
            merge = FOLDS.get(name, action.fold)
            known = merges[action.slot]
            if not merge.associative or merge.width > 1 or known not in (None, merge):
                raise errors.UnsupportedError(
                    f"the fold {action.fold} is not an associative fold of its own slot"
                )
            merges[action.slot] = merge
    return [merge or FOLDS["last"] for merge in merges]


def parallel(stage: Question, bound: Bound, table: pa.Table, threads: int) -> Outcome:
    reason = refusal(stage)
    if isinstance(bound, BoundAutomaton):
        numbers = bound.numbers
        cut = bound.automaton.rank or (not _unmerged(bound.automaton) and not _has_sql_folds(bound))
        if cut and numbers is not None and not numbers.refusal:
            return _in_chunks(bound, numbers, table, threads)
    if reason:
        raise errors.UnsupportedError(
            f"the query cannot be evaluated in parallel: {reason}",
            remedy="leave threads out; compiled automata can be cut, and others of rank 0 with "
            "associative folds",
        )
    assert isinstance(bound, BoundAutomaton)
    if not bound.report.tokens:
        raise errors.UnsupportedError(
            "an ambiguous query is evaluated in one thread", remedy="leave threads out"
        )
    size = max(1, -(-table.num_rows // threads))
    pieces = [table.slice(begin, size) for begin in range(0, table.num_rows, size)]
    try:
        summaries = in_threads(lambda piece: _summary(bound, piece), pieces, threads)
        return _together(bound, summaries)
    except errors.DataError:
        return bound.run(Batch.whole(table, _one(table)), bound.memory(), False)


def _has_sql_folds(bound: BoundAutomaton) -> bool:
    return any(action.fold.operation for action in bound.automaton.actions())


def _in_chunks(bound: BoundAutomaton, numbers: Numbers, table: pa.Table, threads: int) -> Outcome:
    try:
        ranked, values = numbers.intake.ranked(table)
        bits, mark = chunks.value(numbers, ranked, threads)
    except (TooHardError, errors.DataError):
        return bound.run(Batch.whole(table, _one(table)), bound.memory(), False)
    cells = np.array([bits]), np.array([mark], np.uint8)
    found = from_bits(*cells, numbers.numeric.output, values)
    return Outcome(found, np.array([mark != UNDEFINED]))


def _together(bound: BoundAutomaton, summaries: list[dict[State, dict[State, Slots]]]) -> Outcome:
    automaton = bound.automaton
    merges = monoids(automaton)
    tokens = {state: _typed(bound, slots) for state, slots in closure(automaton).items()}
    for summary in summaries:
        after: dict[State, Slots] = {}
        for source, slots in tokens.items():
            for target, gained in summary[source].items():
                after[target] = tuple(
                    guarded(merge.function, merge.name, (y, x))
                    for merge, y, x in zip(merges, slots, gained, strict=True)
                )
        tokens = after
    for state in automaton.final:
        if state in tokens:
            value = automaton.ending(state, tokens[state])
            return Outcome(as_array([value], bound.output_type), np.ones(1, np.bool_))
    return Outcome(as_array([None], bound.output_type), np.zeros(1, np.bool_))


def _summary(bound: BoundAutomaton, piece: pa.Table) -> dict[State, dict[State, Slots]]:
    """From each state: the states reached, and what the slots gained on the way."""
    automaton = bound.automaton
    states = automaton.states
    kept = bound.kept(len(states))
    merges = monoids(automaton)
    identities = tuple(merge.identity for merge in merges)
    if bound.numbers is None:
        for place, state in enumerate(states):
            configuration = Configuration(automaton)
            configuration.tokens = {state: (identities,)}
            kept.configurations[place] = configuration
            _run_from(bound, piece, kept, place)
        return {
            state: {
                target: stack[-1] for target, stack in kept.configurations[place].tokens.items()
            }
            for place, state in enumerate(states)
        }
    program, kinds, width = bound.numbers.numeric.program, bound.slot_kinds(), automaton.width
    start = [_bits(identity, kind) for identity, kind in zip(identities, kinds, strict=True)]
    for place in range(len(states)):
        own = int(program.own[place])
        kept.occupied[place] = False
        kept.occupied[place, place] = True
        kept.bits[place, own : own + width] = [bits for bits, _ in start]
        kept.marks[place, own : own + width] = [mark for _, mark in start]
        _run_from(bound, piece, kept, place)
    found: dict[State, dict[State, Slots]] = {}
    for place, state in enumerate(states):
        found[state] = {}
        for number, target in enumerate(states):
            if kept.occupied[place, number]:
                own = int(program.own[number])
                bits = kept.bits[place, own : own + width]
                marks = kept.marks[place, own : own + width]
                found[state][target] = tuple(
                    plain_value(int(bits[i]), int(marks[i]), kinds[i]) for i in range(width)
                )
    return found


def _run_from(bound: BoundAutomaton, piece: pa.Table, kept: Kept, place: int) -> None:
    going_on = np.zeros(1, np.bool_)
    batch = Batch(piece, _one(piece), np.array([place]), going_on, going_on)
    bound.run(batch, Memory(kept), False)


def _one(table: pa.Table) -> Indices:
    """The table as one partition."""
    return np.array([0, table.num_rows], np.int64)


def _typed(bound: BoundAutomaton, slots: Slots) -> Slots:
    """Slots at the start, as a chunk of the compiled loop gives those it has gained."""
    if bound.numbers is None:
        return slots
    kinds = bound.slot_kinds()
    return tuple(
        plain_value(*bits_of(value, kind), kind) for value, kind in zip(slots, kinds, strict=True)
    )


def _bits(identity: Any, kind: Kind) -> tuple[int, int]:
    if isinstance(identity, float) and identity.is_integer() and kind.name == "int":
        identity = int(identity)  # 0.0 begins whole numbers as well
    try:
        return bits_of(identity, kind)
    except TooHardError:
        raise errors.OperationTypeError(
            f"the identity {identity!r} begins a fold of type {kind}, which it is not",
            remedy="give monoid an identity of the type that is folded",
        ) from None
