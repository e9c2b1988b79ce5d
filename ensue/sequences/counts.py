"""Counting matches of row-local event patterns: tables for the kernels, Python integers beyond.

One long partition is cut into pieces that are counted on all cores: with a window, a piece also
reads the rows of the window before it and counts the matches that end in it; without one, pieces
give matrices whose product, an associative one, is taken in a tree. The answer is that of one core.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.automaton.subsets import START, Subsets
from ensue.query.query import SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.kernels import counts as kernels

MAX_TABLE = 1 << 16  # states times event classes
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
    """Steps by event class: arcs source -> target, and matches completed per state."""

    idle: NDArray[np.bool_]  # per class: the event changes nothing
    offsets: NDArray[np.int32]
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    ends: NDArray[np.int64]  # [class, state]
    pending: NDArray[np.bool_]  # per state

    @property
    def states(self) -> int:
        return int(self.ends.shape[1])

    def arcs(self, kind: int) -> Iterator[tuple[int, int]]:
        for arc in range(int(self.offsets[kind]), int(self.offsets[kind + 1])):
            yield int(self.sources[arc]), int(self.targets[arc])


def event_classes(batch: EventBatch) -> tuple[NDArray[np.int32], list[int]]:
    """Per row: the number of its class, and the bits of each class."""
    words = batch.words
    if words.shape[1] == 1:
        column = words[:, 0]
        if len(column) and int(column.max()) < 1 << 16:
            # few labels: a table is faster than sorting
            present = np.flatnonzero(np.bincount(column.astype(np.int64)))
            numbers = np.zeros(int(present[-1]) + 1, np.int32)
            numbers[present] = np.arange(len(present), dtype=np.int32)
            return numbers[column.astype(np.int64)], [int(value) for value in present]
        found, classes = np.unique(column, return_inverse=True)
        return classes.astype(np.int32).ravel(), [int(value) for value in found]
    found, classes = np.unique(words, axis=0, return_inverse=True)
    bits = [sum(int(word) << (64 * i) for i, word in enumerate(row)) for row in found]
    return classes.astype(np.int32).ravel(), bits


def build_table(
    subsets: Subsets, bits: list[int], states: Sequence[int] = (START,)
) -> Table | None:
    """The table over `states` and all that these classes reach; None where it is too large."""
    reached = subsets.reached(lambda _: bits, states, MAX_TABLE // max(1, len(bits)))
    if reached is None:
        return None
    numbers = {state: number for number, state in enumerate(sorted(reached))}
    offsets, sources, targets = [0], [], []
    idle = np.ones(len(bits), np.bool_)
    finished = np.zeros((len(bits), len(numbers)), np.int64)
    for kind, value in enumerate(bits):
        for state, number in numbers.items():
            step = subsets.step(state, value)
            onward = list(step.targets)
            ends = sum(take.accept for take in step.takes) + int(step.skip_accept)
            finished[kind, number] = ends
            idle[kind] &= onward == ([] if state == START else [state]) and not ends
            sources += [number] * len(onward)
            targets += [numbers[target] for target in onward]
        offsets.append(len(sources))
    return Table(
        idle,
        np.array(offsets, np.int32),
        np.array(sources, np.int32),
        np.array(targets, np.int32),
        finished,
        np.array([subsets.pending[state] for state in numbers], np.bool_),
    )


def count_partitions(batch: EventBatch, subsets: Subsets) -> Iterator[int]:
    """The number of matches of each partition."""
    classes, bits = event_classes(batch)
    table = build_table(subsets, bits)
    if table is None:
        from ensue.sequences.fallback import count_by_classes

        yield from count_by_classes(batch, subsets)
        return
    lows, reach = batch.low, batch.reach
    for index in range(len(reach.begins)):
        begin, end = int(reach.begins[index]), int(reach.stops[index])
        if lows is None:
            yield _count_all(classes, table, begin, end)
        else:
            span = (begin, int(reach.fresh[index]), end)
            yield _count_windows(classes, table, *span, lows, not reach.is_open[index])


# -- with a window --------------------------------------------------------------------------------


def _count_windows(
    classes: NDArray[np.int32],
    table: Table,
    begin: int,
    fresh: int,
    end: int,
    lows: NDArray[np.int64],
    complete: bool,
) -> int:
    """Matches settled in rows fresh..end; those before only fill the window."""
    cuts = _cuts(fresh, end)

    def piece(index: int) -> int:
        first, last = cuts[index], cuts[index + 1]
        start = max(begin, int(lows[first])) if begin < first < end else begin
        if begin < first < end and table.pending.any():
            start = max(
                begin, int(lows[first - 1])
            )  # what leaves the window at the cut is this piece's
        high, low, exact = kernels.count_window(
            classes,
            start,
            first,
            last,
            lows,
            table.idle,
            table.offsets,
            table.sources,
            table.targets,
            table.ends,
            table.pending,
            complete and last == end,
        )
        if exact:
            return (int(high) << 62) + int(low)
        ending = complete and last == end
        return _count_windows_exactly(classes, table, start, first, last, lows, ending)

    return sum(_in_parallel(piece, len(cuts) - 1))


def _count_windows_exactly(
    classes: NDArray[np.int32],
    table: Table,
    begin: int,
    first: int,
    end: int,
    lows: NDArray[np.int64],
    last_piece: bool,
) -> int:
    """The kernel's two stacks with Python integers."""
    size = table.states
    arcs = [list(table.arcs(kind)) for kind in range(len(table.idle))]
    ends = [[int(v) for v in row] for row in table.ends]
    pending = [i for i in range(size) if table.pending[i]]
    start = [1] + [0] * (size - 1)
    matrix = _identity(size)
    front: list[list[int]] = []
    middle = oldest = base = begin
    total = 0

    def waiting() -> list[int]:
        current = front[oldest - base] if oldest < middle else start
        return [sum(c * matrix[s][t] for s, c in enumerate(current) if c) for t in range(size)]

    for row in range(begin, end):
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
                    matrix = _product_left(arcs[int(classes[back])], matrix)
                    front[back - base] = matrix[0]
                matrix = _identity(size)
            if before:
                now = waiting()
                total += sum(before[s] - now[s] for s in pending)
        if table.idle[kind]:
            continue
        if row >= first and any(ends[kind]):
            now = waiting()
            total += sum(now[s] * ends[kind][s] for s in range(size))
        matrix = _product_right(matrix, arcs[kind])
    if last_piece and pending:
        now = waiting()
        total += sum(now[s] for s in pending)
    return total


def _identity(size: int) -> Matrix:
    return [[int(i == j) for j in range(size)] for i in range(size)]


def _product_left(arcs: list[tuple[int, int]], matrix: Matrix) -> Matrix:
    size = len(matrix)
    after = [[0] * size for _ in range(size)]
    after[0] = list(matrix[0])
    for source, target in arcs:
        after[source] = [a + b for a, b in zip(after[source], matrix[target], strict=True)]
    return after


def _product_right(matrix: Matrix, arcs: list[tuple[int, int]]) -> Matrix:
    size = len(matrix)
    after = [[row[0]] + [0] * (size - 1) for row in matrix]
    for source, target in arcs:
        for row in range(size):
            after[row][target] += matrix[row][source]
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
    high, low, reached = kernels.count_vector(
        classes,
        begin,
        end,
        table.idle,
        table.offsets,
        table.sources,
        table.targets,
        table.ends,
        vector,
    )
    total = (int(high) << 62) + int(low)
    exact = [int(value) for value in vector]
    if reached < end:
        arcs = [list(table.arcs(kind)) for kind in range(len(table.idle))]
        ends = [[(s, int(n)) for s, n in enumerate(row) if n] for row in table.ends]
        for kind in classes[reached:end].tolist():
            if table.idle[kind]:
                continue
            total += sum(exact[s] * n for s, n in ends[kind])
            after = [0] * len(exact)
            after[0] = exact[0]
            for source, target in arcs[kind]:
                after[target] += exact[source]
            exact = after
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
    classes, bits = event_classes(batch)
    table = build_table(subsets, bits, states)
    if table is None:
        return None
    found = _piece_matrix(classes, table, 0, len(classes))
    own = sorted(states)  # the table numbers states as they were found
    place = [own.index(state) for state in states] + [len(own)]
    return [[found[row][column] for column in place] for row in place]


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
    with ThreadPoolExecutor(min(THREADS, count)) as pool:
        return list(pool.map(work, range(count)))
