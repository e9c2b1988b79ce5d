"""Arcs as the AFA operator's kernels read them: what is in force when, and edits of that.

Each state has *epochs*, stretches of time in which the same arcs are in force. An edit that applies
from a time on adds one to the states it touches (AFA §5.2, default lifetimes), so that a batch of
events meets the arcs of its own times, however many edits fall into it: `enact` writes them all
before the first event is looked at, and no batch is cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.automaton.registers import INFINITY, MINUS_INFINITY
from ensue.kernels.calls import inlined
from ensue.revision.kernels.store import NONE

# Columns of `Arcs.table`.
SOURCE, TARGET, MASK, VALUE, BEGIN, FINISH, IGNORABLE, ACCEPTS, SINCE, TILL = range(10)
ARC_COLUMNS = 10
# Columns of `Arcs.epochs_of`: its epochs, and the one that was asked for last.
FIRST_EPOCH, END_EPOCH, HINT = range(3)
# Columns of `Arcs.initial`, before the register.
INITIAL_STATE, INITIAL_SINCE, INITIAL_TILL, INITIAL_NULLS, INITIAL_REGISTER = range(5)
# Places in `Arcs.sizes`.
MOST_ARCS, SILENT_FACTOR, REGISTER_FIELDS = range(3)

# Columns of `Book.lives`.
SLOT, LIFE_SINCE, LIFE_TILL = range(3)
# Places in `Book.numbers`.
LIVES, PLACES, LASTING = range(3)
# Bits of `Book.marks`.
TO_FINAL, FIXED = 1, 2
UNFIT = -2  # of an arc that begins: it cannot be written here
ROOM = 4  # times what is wanted, so that making room is rare


class Arcs(NamedTuple):
    """The automaton as the kernels read it; `revision/code.py` writes it."""

    table: NDArray[np.int64]
    outputs: NDArray[np.int64]  # [arc, field]: the cell with the new value
    epochs_of: NDArray[np.int64]  # state -> begin and end of its epochs, each with the same arcs
    epoch_since: NDArray[np.int64]
    epoch_arcs: NDArray[np.int64]  # epoch -> begin and end in `listed`
    listed: NDArray[np.int64]
    silent_of: NDArray[np.int64]  # state -> its ε-arcs, places in `silent`
    silent: NDArray[np.int64]
    closing: NDArray[np.int64]  # arcs that fire at the end of the window
    initial: NDArray[np.int64]  # configurations before the first event
    code: NDArray[np.int64]
    cells: NDArray[np.int64]  # with constants in place
    nulls: NDArray[np.bool_]
    inputs: NDArray[np.int64]  # column of an event -> its cell
    quick: NDArray[np.bool_]  # per arc: its code needs only the instructions of `run_quick`
    sizes: NDArray[np.int64]


class Epochs(NamedTuple):
    """The arrays of `Arcs` that edits change."""

    of: NDArray[np.int64]
    since: NDArray[np.int64]
    arcs: NDArray[np.int64]
    listed: NDArray[np.int64]
    limits: NDArray[np.int64]  # per state: where the room of its epochs ends


class Book(NamedTuple):
    """Which arcs were in force when; `revision/arc_book.py` keeps it."""

    marks: NDArray[np.int64]  # per arc: TO_FINAL, FIXED
    named: NDArray[np.int64]  # name -> begin and end in `bearers`, one more than names
    bearers: NDArray[np.int64]  # arcs of each name
    open: NDArray[np.int64]  # per arc: its life that has not ended, or NONE
    lives: NDArray[np.int64]
    numbers: NDArray[np.int64]


@inlined
def epoch_at(
    epochs_of: NDArray[np.int64], epoch_since: NDArray[np.int64], state: int, le: int
) -> int:
    """The epoch of a state's arcs that holds a timestamp; nearly always that of the event before,
    or the next."""
    low, end = epochs_of[state, FIRST_EPOCH], epochs_of[state, END_EPOCH]
    if end - low == 1:
        return low
    low = epochs_of[state, HINT]
    if epoch_since[low] <= le:
        if low + 1 == end or epoch_since[low + 1] > le:
            return low
        high = end
        low += 1
        if low + 1 == end or epoch_since[low + 1] > le:
            high = low + 1
    else:
        low, high = epochs_of[state, FIRST_EPOCH], low
    while high - low > 1:
        middle = (low + high) >> 1
        if epoch_since[middle] <= le:
            low = middle
        else:
            high = middle
    epochs_of[state, HINT] = low
    return low


@njit(cache=True, nogil=True)
def _allowed(
    table: NDArray[np.int64],
    epochs: Epochs,
    book: Book,
    begins: NDArray[np.int64],
    gone: NDArray[np.int64],
    came: NDArray[np.int64],
    groups: NDArray[np.int64],
    fresh: NDArray[np.int64],
) -> int:
    """Whether all edits can be made, and the places in lists that they take; NONE: they cannot."""
    since = np.empty(book.open.shape[0], np.int64)  # of arcs in force
    for slot in range(since.shape[0]):
        life = book.open[slot]
        since[slot] = book.lives[life, LIFE_SINCE] if life >= 0 else INFINITY
    sizes = np.empty(epochs.of.shape[0], np.int64)
    ends = np.empty(epochs.of.shape[0], np.int64)
    for state in range(sizes.shape[0]):
        last = epochs.of[state, END_EPOCH] - 1
        sizes[state] = epochs.arcs[last, 1] - epochs.arcs[last, 0]
        ends[state] = epochs.since[last]
    lasting, places = book.numbers[LASTING], 0
    for row in range(begins.shape[0]):
        if gone[row] >= 0:
            found = False
            for place in range(book.named[gone[row]], book.named[gone[row] + 1]):
                slot = book.bearers[place]
                if since[slot] == INFINITY:
                    continue
                state = table[slot, SOURCE]
                if book.marks[slot] & FIXED or ends[state] > begins[row]:
                    return NONE
                if since[slot] >= begins[row]:
                    return NONE  # it never was in force
                found = True
                since[slot] = INFINITY
                lasting -= book.marks[slot] & TO_FINAL
                fresh[state] += 1
                places += sizes[state]
                sizes[state] -= 1
            if not found:
                return NONE
        if came[row] == UNFIT:
            return NONE
        if came[row] >= 0:
            slot = came[row]
            state = table[slot, SOURCE]
            if since[slot] != INFINITY or book.marks[slot] & FIXED or ends[state] > begins[row]:
                return NONE
            since[slot] = begins[row]
            lasting += book.marks[slot] & TO_FINAL
            fresh[state] += 1
            sizes[state] += 1
            places += sizes[state]
        last_of_group = row + 1 == begins.shape[0] or groups[row + 1] != groups[row]
        if last_of_group and lasting == 0:
            return NONE
    return places


@njit(cache=True, nogil=True)
def more_epochs(
    epochs: Epochs, book: Book, settled: int, fresh: NDArray[np.int64], places: int
) -> Epochs:
    """Room for so many more epochs and places, and then some; epochs that are over go."""
    size, wanted = 0, places
    for state in range(fresh.shape[0]):
        low, high = epochs.of[state, FIRST_EPOCH], epochs.of[state, END_EPOCH]
        while low + 1 < high and epochs.since[low + 1] <= settled:
            low += 1
        epochs.of[state, FIRST_EPOCH] = low
        size += ROOM * (high - low + fresh[state] + 8)
        for epoch in range(low, high):
            wanted += epochs.arcs[epoch, 1] - epochs.arcs[epoch, 0]
    found = Epochs(
        epochs.of,
        np.zeros(size, np.int64),
        np.zeros((size, 2), np.int64),
        np.zeros(ROOM * (wanted + 8), np.int64),
        epochs.limits,
    )
    end, place = 0, 0
    for state in range(fresh.shape[0]):
        low, high = epochs.of[state, FIRST_EPOCH], epochs.of[state, END_EPOCH]
        first = end
        for epoch in range(low, high):
            found.since[end] = epochs.since[epoch]
            found.arcs[end, 0] = place
            for old in range(epochs.arcs[epoch, 0], epochs.arcs[epoch, 1]):
                found.listed[place] = epochs.listed[old]
                place += 1
            found.arcs[end, 1] = place
            end += 1
        found.of[state, FIRST_EPOCH] = first
        found.of[state, HINT] = first
        found.of[state, END_EPOCH] = end
        end = first + ROOM * (high - low + fresh[state] + 8)
        found.limits[state] = end
    book.numbers[PLACES] = place
    return found


@njit(cache=True, nogil=True)
def _turn(epochs: Epochs, book: Book, state: int, begin: int) -> int:
    """The epoch of a state that begins here, with its list at the end of `listed`."""
    last = epochs.of[state, END_EPOCH] - 1
    begins = epochs.since[last] == begin
    place = book.numbers[PLACES]
    if begins and epochs.arcs[last, 1] == place:
        return last
    epoch = last if begins else last + 1
    old, end = epochs.arcs[last, 0], epochs.arcs[last, 1]
    epochs.since[epoch] = begin
    epochs.arcs[epoch, 0] = place
    for source in range(old, end):
        epochs.listed[place] = epochs.listed[source]
        place += 1
    epochs.arcs[epoch, 1] = place
    epochs.of[state, END_EPOCH] = epoch + 1
    book.numbers[PLACES] = place
    return epoch


@njit(cache=True, nogil=True)
def _take_out(epochs: Epochs, book: Book, epoch: int, slot: int) -> None:
    """An arc that ends leaves the list at the end."""
    place, end = epochs.arcs[epoch, 0], epochs.arcs[epoch, 1]
    while epochs.listed[place] != slot:
        place += 1
    for later in range(place + 1, end):
        epochs.listed[later - 1] = epochs.listed[later]
    epochs.arcs[epoch, 1] = end - 1
    book.numbers[PLACES] = end - 1


@njit(cache=True, nogil=True)
def begins_of(
    at: NDArray[np.int64],
    now: int,
    operations: NDArray[np.int8],
    le: NDArray[np.int64],
    re: NDArray[np.int64],
) -> NDArray[np.int64]:
    """t_curr + 1 of each edit, which is where its lifetime begins; the events before it are seen.

    Whether a sequence number is refused is known too late to matter: an insert with a lifetime
    counts as an event.
    """
    found = np.empty(at.shape[0], np.int64)
    event = 0
    for edit in range(at.shape[0]):
        while event < at[edit]:
            if operations[event] == 1 and le[event] < re[event]:
                now = max(now, le[event])
            event += 1
        found[edit] = now if now in (MINUS_INFINITY, INFINITY) else now + 1
    return found


@njit(cache=True, nogil=True)
def enact(
    table: NDArray[np.int64],
    sizes: NDArray[np.int64],
    epochs: Epochs,
    book: Book,
    begins: NDArray[np.int64],  # per edit: the time from which on it applies; never falls
    gone: NDArray[np.int64],  # a name whose arcs end, or NONE
    came: NDArray[np.int64],  # an arc that begins, or NONE
    groups: NDArray[np.int64],  # edits of one group are checked as one
    fresh: NDArray[np.int64],  # per state: epochs that are added at the most
) -> int:
    """All edits (0), or none of them: one cannot be made here (NONE), or so many places and more
    are wanted."""
    fresh[:] = 0
    places = _allowed(table, epochs, book, begins, gone, came, groups, fresh)
    if places < 0:
        return NONE
    lives, numbers = book.lives, book.numbers
    full = numbers[PLACES] + places > epochs.listed.shape[0]
    full |= numbers[LIVES] + begins.shape[0] > lives.shape[0]
    for state in range(fresh.shape[0]):
        full |= epochs.of[state, END_EPOCH] + fresh[state] > epochs.limits[state]
    if full:
        return places + 1
    for row in range(begins.shape[0]):
        begin = begins[row]
        if gone[row] >= 0:
            for place in range(book.named[gone[row]], book.named[gone[row] + 1]):
                slot = book.bearers[place]
                if book.open[slot] < 0:
                    continue
                lives[book.open[slot], LIFE_TILL] = begin
                book.open[slot] = NONE
                numbers[LASTING] -= book.marks[slot] & TO_FINAL
                epoch = _turn(epochs, book, table[slot, SOURCE], begin)
                _take_out(epochs, book, epoch, slot)
        if came[row] >= 0:
            slot = came[row]
            life = numbers[LIVES]
            lives[life, SLOT] = slot
            lives[life, LIFE_SINCE] = begin
            lives[life, LIFE_TILL] = INFINITY
            numbers[LIVES] += 1
            book.open[slot] = life
            numbers[LASTING] += book.marks[slot] & TO_FINAL
            epoch = _turn(epochs, book, table[slot, SOURCE], begin)
            epochs.listed[numbers[PLACES]] = slot
            numbers[PLACES] += 1
            epochs.arcs[epoch, 1] = numbers[PLACES]
            held = epochs.arcs[epoch, 1] - epochs.arcs[epoch, 0]
            sizes[MOST_ARCS] = max(sizes[MOST_ARCS], held)
    return 0
