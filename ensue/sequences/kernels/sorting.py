"""Classes sorted by what a comparison with the event asks for, and classes that wait in vain.

Where `price > a.price` or `a.x + b.x < x` decides whether an event joins, the classes that wait for
it are sorted by the side that they remember; an event reads its own side once and finds the range
that the comparison allows. A class whose side no later event of the partition can satisfy, and
that nothing else can change, will never be part of a match: it is not kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.guards.registers import GuardMachine, ask_guard
from ensue.kernels.calls import borrowing, inner

NO_INDEX, EQUAL, ABOVE, FROM, BELOW, UPTO = 0, 1, 2, 3, 4, 5  # the event's value against the past's
NULL = np.iinfo(np.int64).max  # the key of no value: no comparison with it is true
NAN = NULL - 1
LEAST = np.iinfo(np.int64).min
PAST, EVENT = 0, 1


class Sorting(NamedTuple):
    """Per state, the comparison that its classes are sorted for."""

    comparison: NDArray[np.int64]
    label: NDArray[np.int64]
    guard: NDArray[np.int64]  # [state, side]: code that gives the value
    cell: NDArray[np.int64]  # [state, side]: where it leaves it
    floating: NDArray[np.bool_]
    # Which row of `best` says what later events have to offer; -1: the class may not be dropped.
    offered: NDArray[np.int64]
    best: NDArray[np.int64]  # [label, row]: the greatest (or least) key of the events after the row


@inner
def side_key(
    machine: GuardMachine,
    sorting: Sorting,
    state: int,
    side: int,
    row: int,
    first: int,
    last: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> tuple[int, bool]:
    """A side of the comparison as an integer that sorts alike; False: a number left 64 bits."""
    verdict = ask_guard(machine, sorting.guard[state, side], row, row, first, last, 0, ints, floats)
    if verdict < 0:
        return 0, False
    cell = sorting.cell[state, side]
    if machine.cell_nulls[cell]:
        return NULL, True
    if not sorting.floating[state]:
        return machine.cell_ints[cell], True
    number = machine.cell_floats[cell]
    if np.isnan(number):
        return NAN, True
    raw = int(np.float64(number + 0.0).view(np.int64))
    return (raw if raw >= 0 else LEAST - raw), True


@inner
def in_vain(sorting: Sorting, state: int, key: int, row: int) -> bool:
    """Whether no event after the row satisfies the comparison with this key."""
    place = sorting.offered[state]
    if place < 0:
        return False
    comparison, best = sorting.comparison[state], sorting.best[place, row]
    if comparison == ABOVE:
        return best <= key
    if comparison == FROM:
        return best < key
    if comparison == BELOW:
        return best >= key
    return best > key


@borrowing
def offers(
    machine: GuardMachine,
    sorting: Sorting,
    state: int,
    bits: NDArray[np.int64],
    starts: NDArray[np.int64],
    best: NDArray[np.int64],
) -> None:
    """The best key that events of the state's label have after each row of their partition."""
    label = sorting.label[state]
    highest = sorting.comparison[state] in (ABOVE, FROM)
    for partition in range(starts.shape[0] - 1):
        first, last = starts[partition], starts[partition + 1]
        known = LEAST if highest else NULL
        for row in range(last - 1, first - 1, -1):
            best[row] = known
            if not (bits[row] >> label) & 1:
                continue
            key, fits = side_key(
                machine,
                sorting,
                state,
                EVENT,
                row,
                first,
                last,
                machine.initial_ints,
                machine.initial_floats,
            )
            if not fits:  # the row itself says so where it is asked
                key = NULL if highest else LEAST
            elif key == NULL:
                continue
            if highest:
                known = max(known, key)
            else:
                known = min(known, key)
