"""Counting matches of row-local event patterns: tables for the kernels, Python integers beyond.

One long partition is cut into pieces that are counted on all cores: with a window, a piece also
reads the rows of the window before it and counts the matches that end in it; without one, pieces
give matrices whose product, an associative one, is taken in a tree. The answer is that of one core.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.automaton.subsets import START, Subsets
from ensue.query.query import SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.kernels import counts as kernels
from ensue.sequences.kernels.counts import Counting
from ensue.sequences.match_graph import MAX_TABLE, build_steps
from ensue.stopping import in_threads, look

MIN_PIECE = 1 << 17  # rows; below that one core is as fast
THREADS = os.cpu_count() or 1
Matrix = list[list[int]]


def countable(plan: Plan, subsets: Subsets) -> bool:
    """Whether the matches can be counted without following classes of partial matches."""
    return (
        not plan.correlated
        and not subsets.automaton.bounds
        and plan.query.skip.mode is SkipMode.NONE
    )


@dataclass(frozen=True)
class Table:
    """The steps of a batch's event classes, as the kernels and Python integers count them."""

    order: list[int]  # states
    steps: Counting

    @property
    def states(self) -> int:
        return len(self.order)

    @cached_property
    def arcs(self) -> list[list[tuple[int, int]]]:
        """By class: source and target."""
        offsets, sources, targets = (array.tolist() for array in self.steps[1:4])
        return [
            list(zip(sources[begin:end], targets[begin:end], strict=True))
            for begin, end in pairwise(offsets)
        ]

    @cached_property
    def ends(self) -> list[list[tuple[int, int]]]:
        """By class: states, and how many matches the event completes from each."""
        return [[(s, n) for s, n in enumerate(row) if n] for row in self.steps.ends.tolist()]


def build_table(
    subsets: Subsets, bits: list[int], states: Sequence[int] = (START,)
) -> Table | None:
    """The table over `states` and all that these classes reach; None where it is too large."""
    built = build_steps(subsets, bits, states)
    if built is None:
        return None
    order, steps = built
    kinds = np.repeat(np.arange(len(bits)), np.diff(steps.offsets))
    ends = np.zeros((len(bits), len(order)), np.int64)
    np.add.at(ends, (kinds[steps.accepts], steps.sources[steps.accepts]), 1)
    onward = steps.targets >= 0
    offsets = np.cumsum([0, *np.bincount(kinds[onward], minlength=len(bits))])
    pending = np.array([subsets.pending[state] for state in order], np.bool_)
    counting = Counting(
        steps.idle,
        offsets.astype(np.int32),
        steps.sources[onward],
        steps.targets[onward],
        ends,
        pending,
    )
    return Table(order, counting)


def count_partitions(batch: EventBatch, subsets: Subsets) -> Iterator[int] | None:
    """The number of matches of each partition; None where the table of steps is too large."""
    classes, bits = batch.classes
    table = build_table(subsets, bits)
    return None if table is None else _counted(batch, classes, table)


def _counted(batch: EventBatch, classes: NDArray[np.int32], table: Table) -> Iterator[int]:
    lows, reach = batch.low, batch.reach
    for index in range(len(reach.begins)):
        begin, end = int(reach.begins[index]), int(reach.stops[index])
        if lows is None:
            yield _count_all(classes, table, begin, end)
        else:
            span = (begin, int(reach.fresh[index]), end)
            floor = begin if reach.is_open[index] else int(reach.floors[index])
            yield _count_windows(classes, table, *span, lows, floor)


# -- with a window --------------------------------------------------------------------------------


def _count_windows(
    classes: NDArray[np.int32],
    table: Table,
    begin: int,
    fresh: int,
    end: int,
    lows: NDArray[np.int64],
    floor: int,
) -> int:
    """Matches settled in rows fresh..end; those before only fill the window.

    `floor`: starts below are out of the window once all rows are through.
    """
    cuts = _cuts(fresh, end)

    def piece(index: int) -> int:
        first, last = cuts[index], cuts[index + 1]
        start = max(begin, int(lows[first])) if begin < first < end else begin
        if begin < first < end and table.steps.pending.any():
            start = max(
                begin, int(lows[first - 1])
            )  # what leaves the window at the cut is this piece's
        until = floor if last == end else start
        high, low, exact = kernels.count_window(
            classes, start, first, last, lows, table.steps, until
        )
        look()
        if exact:
            return (int(high) << 62) + int(low)
        return _count_windows_exactly(classes, table, start, first, last, lows, until)

    return sum(_in_parallel(piece, len(cuts) - 1))


def _count_windows_exactly(
    classes: NDArray[np.int32],
    table: Table,
    begin: int,
    first: int,
    end: int,
    lows: NDArray[np.int64],
    floor: int,
) -> int:
    """The kernel's two stacks with Python integers."""
    size = table.states
    arcs, ends = table.arcs, table.ends
    backwards = [[(target, source) for source, target in each] for each in arcs]
    pending = np.flatnonzero(table.steps.pending).tolist()
    start = [1] + [0] * (size - 1)
    matrix = _identity(size)
    front: list[list[int]] = []
    middle = oldest = base = begin
    total = 0

    def waiting() -> list[int]:
        current = front[oldest - base] if oldest < middle else start
        return [sum(c * n for c, n in zip(current, row, strict=True) if c) for row in matrix]

    for row in range(begin, end):
        look()
        kind = int(classes[row])
        low = int(lows[row])
        if low > oldest:
            before = waiting() if pending and row >= first else []
            oldest = low
            if oldest >= middle:
                base, middle = oldest, row
                matrix = _identity(size)
                front = [[] for _ in range(row - oldest)]
                for back in range(row - 1, oldest - 1, -1):
                    matrix = _multiply(matrix, backwards[int(classes[back])])
                    front[back - base] = matrix[0]
                matrix = _identity(size)
            if before:
                now = waiting()
                total += sum(before[s] - now[s] for s in pending)
        if table.steps.idle[kind]:
            continue
        if row >= first and ends[kind]:
            now = waiting()
            total += sum(now[s] * n for s, n in ends[kind])
        matrix = _multiply(matrix, arcs[kind])
    if floor > oldest and pending:
        before, later = waiting(), start
        for kind in classes[floor:end].tolist():
            later = [row[0] for row in _multiply([[n] for n in later], arcs[kind])]
        total += sum(before[s] - later[s] for s in pending)
    return total


def _identity(size: int) -> Matrix:
    return [[int(i == j) for j in range(size)] for i in range(size)]


def _multiply(matrix: Matrix, arcs: list[tuple[int, int]]) -> Matrix:
    """The kernel's, with Python integers."""
    after = [[0] * len(row) for row in matrix]
    after[0] = list(matrix[0])
    for source, target in arcs:
        after[target] = [a + b for a, b in zip(after[target], matrix[source], strict=True)]
    return after


# -- without a window -----------------------------------------------------------------------------


def _count_all(classes: NDArray[np.int32], table: Table, begin: int, end: int) -> int:
    cuts = _cuts(begin, end)
    if len(cuts) > 2:
        pieces = _in_parallel(
            lambda index: _piece_matrix(classes, table, cuts[index], cuts[index + 1]),
            len(cuts) - 1,
        )
        return _tree(pieces)[0][table.states]
    total, _ = _from_state(classes, table, begin, end, 0)
    return total


def _from_state(
    classes: NDArray[np.int32], table: Table, begin: int, end: int, state: int
) -> tuple[int, list[int]]:
    """Matches completed in the rows, and partial matches after them, from one partial match in
    `state` (state 0: from nothing, beginning anywhere)."""
    vector = np.zeros(table.states, np.int64)
    vector[state] = 1
    high, low, reached = kernels.count_vector(classes, begin, end, table.steps, vector)
    look()
    total = (int(high) << 62) + int(low)
    exact = [int(value) for value in vector]
    if reached < end:
        for kind in classes[reached:end].tolist():
            look()
            if not table.steps.idle[kind]:
                total += sum(exact[s] * n for s, n in table.ends[kind])
                exact = [row[0] for row in _multiply([[n] for n in exact], table.arcs[kind])]
    return total, exact


def _piece_matrix(classes: NDArray[np.int32], table: Table, begin: int, end: int) -> Matrix:
    """Rows: from each state; columns: to each state, and the matches completed on the way."""
    rows = []
    for state in range(table.states):
        total, vector = _from_state(classes, table, begin, end, state)
        rows.append([*vector, total])
    rows.append([0] * table.states + [1])
    return rows


def _tree(pieces: list[Matrix]) -> Matrix:
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        joined = [_product(left, right) for left, right in pairs]
        if len(pieces) % 2:
            joined.append(pieces[-1])
        pieces = joined
    return pieces[0]


def _product(left: Matrix, right: Matrix) -> Matrix:
    columns = list(zip(*right, strict=True))
    return [
        [sum(a * b for a, b in zip(row, column, strict=True) if a and b) for column in columns]
        for row in left
    ]


# -- pieces of one sequence in different tasks ----------------------------------------------------


def all_states(subsets: Subsets, most: int = 4096) -> list[int] | None:
    """Every state that some stream reaches, in an order that all tasks agree on; None: too many."""
    states = subsets.reached(subsets.combinations, most=most, most_steps=MAX_TABLE)
    return None if states is None else sorted(states, key=subsets.canonical)


def piece_matrix(batch: EventBatch, subsets: Subsets, states: list[int]) -> Matrix | None:
    """Of one contiguous piece: ways from each of `states` to each, and matches completed."""
    classes, bits = batch.classes
    table = build_table(subsets, bits, states)
    return None if table is None else _piece_matrix(classes, table, 0, len(classes))


def product_of(pieces: list[Matrix]) -> int:
    """The number of matches of pieces in order, by an associative product in a tree."""
    return _tree(pieces)[0][-1] if pieces else 0


# -- cores ----------------------------------------------------------------------------------------


def _cuts(begin: int, end: int) -> list[int]:
    pieces = max(1, min(THREADS, (end - begin) // MIN_PIECE))
    return [begin + (end - begin) * i // pieces for i in range(pieces)] + [end]


def _in_parallel(work, count: int) -> list:  # type: ignore[no-untyped-def, type-arg]
    if count == 1:
        return [work(0)]
    return in_threads(work, range(count), min(THREADS, count))
