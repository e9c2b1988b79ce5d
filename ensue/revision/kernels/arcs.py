"""Arcs as the AFA operator's kernels read them: what is in force when, and edits of that.

Each state has *epochs*, stretches of time in which the same arcs are in force. An edit that applies
from a time on adds one to the states it touches (AFA §5.2, default lifetimes), so that a batch of
events meets the arcs of its own times, however many edits fall into it: `enact` writes them all
before the first event is looked at, and no batch is cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.registers import INFINITY, MINUS_INFINITY
from ensue.kernels.calls import allocating, inner, inner_allocating, inner_inlined
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.layout import NONE, Numbers

ROOM = 4  # times what is wanted, so that making room is rare


class Arcs(NamedTuple):
    """The automaton as the kernels read it; `revision/code.py` writes it."""

    table: Numbers
    outputs: Numbers  # [arc, field]: the cell with the new value
    epochs_of: Numbers  # state -> begin and end of its epochs, each with the same arcs
    epoch_since: Numbers
    epoch_arcs: Numbers  # epoch -> begin and end in `listed`
    listed: Numbers
    silent_of: Numbers  # state -> its ε-arcs, places in `silent`
    silent: Numbers
    closing: Numbers  # arcs that fire at the end of the window
    initial: Numbers  # configurations before the first event
    code: Numbers
    cells: Numbers  # with constants in place
    nulls: NDArray[np.bool_]
    inputs: Numbers  # column of an event -> its cell
    quick: NDArray[np.bool_]  # per arc: its code needs only the instructions of `run_quick`


class Epochs(NamedTuple):
    """The arrays of `Arcs` that edits change."""

    of: Numbers
    since: Numbers
    arcs: Numbers
    listed: Numbers
    limits: Numbers  # per state: where the room of its epochs ends


class Book(NamedTuple):
    """Which arcs were in force when; `revision/arc_book.py` keeps it."""

    marks: Numbers  # per arc: TO_FINAL, FIXED
    named: Numbers  # name -> begin and end in `bearers`, one more than names
    bearers: Numbers  # arcs of each name
    open: Numbers  # per arc: its life that has not ended, or NONE
    lives: Numbers
    numbers: Numbers


@inner_inlined
def epoch_at(epochs_of: Numbers, epoch_since: Numbers, state: int, le: int) -> int:
    """The epoch of a state's arcs that holds a timestamp; nearly always that of the event before,
    or the next."""
    low, end = epochs_of[state, at.FIRST_EPOCH], epochs_of[state, at.END_EPOCH]
    if end - low == 1:
        return low
    low = epochs_of[state, at.HINT]
    if epoch_since[low] <= le:
        if low + 1 == end or epoch_since[low + 1] > le:
            return low
        high = end
        low += 1
        if low + 1 == end or epoch_since[low + 1] > le:
            high = low + 1
    else:
        low, high = epochs_of[state, at.FIRST_EPOCH], low
    while high - low > 1:
        middle = (low + high) >> 1
        if epoch_since[middle] <= le:
            low = middle
        else:
            high = middle
    epochs_of[state, at.HINT] = low
    return low


@inner_allocating
def _allowed(
    table: Numbers,
    epochs: Epochs,
    book: Book,
    begins: Numbers,
    gone: Numbers,
    came: Numbers,
    groups: Numbers,
    fresh: Numbers,
) -> int:
    """Whether all edits can be made, and the places in lists that they take; NONE: they cannot."""
    since = np.empty(book.open.shape[0], np.int64)  # of arcs in force
    for slot in range(since.shape[0]):
        life = book.open[slot]
        since[slot] = book.lives[life, at.LIFE_SINCE] if life >= 0 else INFINITY
    sizes = np.empty(epochs.of.shape[0], np.int64)
    ends = np.empty(epochs.of.shape[0], np.int64)
    for state in range(sizes.shape[0]):
        last = epochs.of[state, at.END_EPOCH] - 1
        sizes[state] = epochs.arcs[last, 1] - epochs.arcs[last, 0]
        ends[state] = epochs.since[last]
    lasting, places = book.numbers[at.LASTING], 0
    for row in range(begins.shape[0]):
        if gone[row] >= 0:
            found = False
            for place in range(book.named[gone[row]], book.named[gone[row] + 1]):
                slot = book.bearers[place]
                if since[slot] == INFINITY:
                    continue
                state = table[slot, at.SOURCE]
                if book.marks[slot] & at.FIXED or ends[state] > begins[row]:
                    return NONE
                if since[slot] >= begins[row]:
                    return NONE  # it never was in force
                found = True
                since[slot] = INFINITY
                lasting -= book.marks[slot] & at.TO_FINAL
                fresh[state] += 1
                places += sizes[state]
                sizes[state] -= 1
            if not found:
                return NONE
        if came[row] == at.UNFIT:
            return NONE
        if came[row] >= 0:
            slot = came[row]
            state = table[slot, at.SOURCE]
            if since[slot] != INFINITY or book.marks[slot] & at.FIXED or ends[state] > begins[row]:
                return NONE
            since[slot] = begins[row]
            lasting += book.marks[slot] & at.TO_FINAL
            fresh[state] += 1
            sizes[state] += 1
            places += sizes[state]
        last_of_group = row + 1 == begins.shape[0] or groups[row + 1] != groups[row]
        if last_of_group and lasting == 0:
            return NONE
    return places


@allocating
def more_epochs(epochs: Epochs, book: Book, settled: int, fresh: Numbers, places: int) -> Epochs:
    """Room for so many more epochs and places, and then some; epochs that are over go."""
    size, wanted = 0, places
    for state in range(fresh.shape[0]):
        low, high = epochs.of[state, at.FIRST_EPOCH], epochs.of[state, at.END_EPOCH]
        while low + 1 < high and epochs.since[low + 1] <= settled:
            low += 1
        epochs.of[state, at.FIRST_EPOCH] = low
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
        low, high = epochs.of[state, at.FIRST_EPOCH], epochs.of[state, at.END_EPOCH]
        first = end
        for epoch in range(low, high):
            found.since[end] = epochs.since[epoch]
            found.arcs[end, 0] = place
            for old in range(epochs.arcs[epoch, 0], epochs.arcs[epoch, 1]):
                found.listed[place] = epochs.listed[old]
                place += 1
            found.arcs[end, 1] = place
            end += 1
        found.of[state, at.FIRST_EPOCH] = first
        found.of[state, at.HINT] = first
        found.of[state, at.END_EPOCH] = end
        end = first + ROOM * (high - low + fresh[state] + 8)
        found.limits[state] = end
    book.numbers[at.PLACES] = place
    return found


@inner
def _turn(epochs: Epochs, book: Book, state: int, begin: int) -> int:
    """The epoch of a state that begins here, with its list at the end of `listed`."""
    last = epochs.of[state, at.END_EPOCH] - 1
    begins = epochs.since[last] == begin
    place = book.numbers[at.PLACES]
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
    epochs.of[state, at.END_EPOCH] = epoch + 1
    book.numbers[at.PLACES] = place
    return epoch


@inner
def _take_out(epochs: Epochs, book: Book, epoch: int, slot: int) -> None:
    """An arc that ends leaves the list at the end."""
    place, end = epochs.arcs[epoch, 0], epochs.arcs[epoch, 1]
    while epochs.listed[place] != slot:
        place += 1
    for later in range(place + 1, end):
        epochs.listed[later - 1] = epochs.listed[later]
    epochs.arcs[epoch, 1] = end - 1
    book.numbers[at.PLACES] = end - 1


@allocating
def begins_of(
    places: Numbers,  # per edit: how many events come before it
    now: int,
    operations: NDArray[np.int8],
    le: Numbers,
    re: Numbers,
) -> Numbers:
    """t_curr + 1 of each edit, which is where its lifetime begins; the events before it are seen.

    Whether a sequence number is refused is known too late to matter: an insert with a lifetime
    counts as an event.
    """
    found = np.empty(places.shape[0], np.int64)
    event = 0
    for edit in range(places.shape[0]):
        while event < places[edit]:
            if operations[event] == 1 and le[event] < re[event]:
                now = max(now, le[event])
            event += 1
        found[edit] = now if now in (MINUS_INFINITY, INFINITY) else now + 1
    return found


@allocating
def enact(
    table: Numbers,
    epochs: Epochs,
    book: Book,
    begins: Numbers,  # per edit: the time from which on it applies; never falls
    gone: Numbers,  # a name whose arcs end, or NONE
    came: Numbers,  # an arc that begins, or NONE
    groups: Numbers,  # edits of one group are checked as one
    fresh: Numbers,  # per state: epochs that are added at the most
) -> int:
    """All edits (0), or none of them: one cannot be made here (NONE), or so many places and more
    are wanted."""
    fresh[:] = 0
    places = _allowed(table, epochs, book, begins, gone, came, groups, fresh)
    if places < 0:
        return NONE
    lives, numbers = book.lives, book.numbers
    full = numbers[at.PLACES] + places > epochs.listed.shape[0]
    full |= numbers[at.LIVES] + begins.shape[0] > lives.shape[0]
    for state in range(fresh.shape[0]):
        full |= epochs.of[state, at.END_EPOCH] + fresh[state] > epochs.limits[state]
    if full:
        return places + 1
    for row in range(begins.shape[0]):
        begin = begins[row]
        if gone[row] >= 0:
            for place in range(book.named[gone[row]], book.named[gone[row] + 1]):
                slot = book.bearers[place]
                if book.open[slot] < 0:
                    continue
                lives[book.open[slot], at.LIFE_TILL] = begin
                book.open[slot] = NONE
                numbers[at.LASTING] -= book.marks[slot] & at.TO_FINAL
                epoch = _turn(epochs, book, table[slot, at.SOURCE], begin)
                _take_out(epochs, book, epoch, slot)
        if came[row] >= 0:
            slot = came[row]
            life = numbers[at.LIVES]
            lives[life, at.SLOT] = slot
            lives[life, at.LIFE_SINCE] = begin
            lives[life, at.LIFE_TILL] = INFINITY
            numbers[at.LIVES] += 1
            book.open[slot] = life
            numbers[at.LASTING] += book.marks[slot] & at.TO_FINAL
            epoch = _turn(epochs, book, table[slot, at.SOURCE], begin)
            epochs.listed[numbers[at.PLACES]] = slot
            numbers[at.PLACES] += 1
            epochs.arcs[epoch, 1] = numbers[at.PLACES]
    return 0
