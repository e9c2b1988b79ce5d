"""Finding, for every output row of every match, the rows its measures read.

An *entry* is a match (first row, length, offset of its states in `positions`) or an unmatched row.
It has one output point in ONE ROW mode; in ALL ROWS mode one per matched row, and one for an empty
match or unmatched row. A running measure at point j sees rows 0..j of the match, a final one all.
Each kernel is one scan over the matched rows, whatever the offsets asked for.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

PARTITION, FIRST_ROW, LENGTH, NUMBER, OFFSET = 0, 1, 2, 3, 4  # columns of an entry


@njit(cache=True, nogil=True)
def points(
    match: NDArray[np.int64],
    per_row: bool,
    positions: NDArray[np.int32],
    hidden: NDArray[np.bool_],
    omit_empty: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Per point: its entry, its row, and whether it is shown."""
    total = 0
    for entry in range(match.shape[0]):
        total += max(1, match[entry, LENGTH]) if per_row else 1
    entries = np.empty(total, np.int64)
    rows = np.empty(total, np.int64)
    shown = np.empty(total, np.bool_)
    point = 0
    for entry in range(match.shape[0]):
        first, length = match[entry, FIRST_ROW], match[entry, LENGTH]
        offset = match[entry, OFFSET]
        if not per_row or length == 0:
            entries[point] = entry
            rows[point] = first
            shown[point] = not (omit_empty and length == 0)
            point += 1
            continue
        for index in range(length):
            entries[point] = entry
            rows[point] = first + index
            shown[point] = not hidden[positions[offset + index]]
            point += 1
    return entries, rows, shown


@njit(cache=True, nogil=True)
def locate(
    match: NDArray[np.int64],
    positions: NDArray[np.int32],
    members: NDArray[np.bool_],
    per_row: bool,
    total: int,
    from_last: bool,
    offset: int,
    final: bool,
) -> NDArray[np.int64]:
    """Per point: the row of FIRST or LAST of the member states at a logical offset, else -1."""
    found = np.full(total, -1, np.int64)
    longest = 0
    for entry in range(match.shape[0]):
        longest = max(longest, match[entry, LENGTH])
    seen = np.empty(longest, np.int64)
    point = 0
    for entry in range(match.shape[0]):
        length, start = match[entry, LENGTH], match[entry, OFFSET]
        first = match[entry, FIRST_ROW]
        begin, count = point, 0
        for index in range(length):
            if members[positions[start + index]]:
                seen[count] = first + index
                count += 1
            if per_row:
                wanted = count - 1 - offset if from_last else offset
                if 0 <= wanted < count:
                    found[point] = seen[wanted]
                point += 1
        if not per_row:
            wanted = count - 1 - offset if from_last else offset
            if 0 <= wanted < count:
                found[point] = seen[wanted]
        elif final:
            wanted = count - 1 - offset if from_last else offset
            row = seen[wanted] if 0 <= wanted < count else -1
            for index in range(begin, point):
                found[index] = row
        if not per_row or length == 0:
            point += 1
    return found


@njit(cache=True, nogil=True)
def member_rows(
    match: NDArray[np.int64],
    positions: NDArray[np.int32],
    members: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of member states, entry after entry, and the offsets of the entries."""
    offsets = np.zeros(match.shape[0] + 1, np.int64)
    for entry in range(match.shape[0]):
        count, start = 0, match[entry, OFFSET]
        for index in range(match[entry, LENGTH]):
            if members[positions[start + index]]:
                count += 1
        offsets[entry + 1] = offsets[entry] + count
    rows = np.empty(offsets[-1], np.int64)
    for entry in range(match.shape[0]):
        place, start = offsets[entry], match[entry, OFFSET]
        for index in range(match[entry, LENGTH]):
            if members[positions[start + index]]:
                rows[place] = match[entry, FIRST_ROW] + index
                place += 1
    return rows, offsets


@njit(cache=True, nogil=True)
def running_index(
    entries: NDArray[np.int64],
    rows: NDArray[np.int64],
    selected: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Per point: the index in `selected` of the last row up to the point, else -1."""
    index = np.full(entries.shape[0], -1, np.int64)
    place, current = 0, -1
    for point in range(entries.shape[0]):
        if entries[point] != current:
            current = entries[point]
            place = offsets[current]
        while place < offsets[current + 1] and selected[place] <= rows[point]:
            place += 1
        if place > offsets[current]:
            index[point] = place - 1
    return index


@njit(cache=True, nogil=True)
def label_at(
    match: NDArray[np.int64],
    positions: NDArray[np.int32],
    label: NDArray[np.int32],
    entries: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Per point: the label of a row inside the point's match, else -1."""
    found = np.full(rows.shape[0], -1, np.int32)
    for point in range(rows.shape[0]):
        entry = entries[point]
        index = rows[point] - match[entry, FIRST_ROW]
        if rows[point] >= 0 and 0 <= index < match[entry, LENGTH]:
            state = positions[match[entry, OFFSET] + index]
            found[point] = label[state]
    return found


@njit(cache=True, nogil=True)
def bounded_shift(
    rows: NDArray[np.int64],
    shift: int,
    entries: NDArray[np.int64],
    match: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Rows moved by `shift` inside their partition; -1 where there is none."""
    moved = np.full(rows.shape[0], -1, np.int64)
    for point in range(rows.shape[0]):
        partition = match[entries[point], PARTITION]
        target = rows[point] + shift
        if rows[point] >= 0 and starts[partition] <= target < starts[partition + 1]:
            moved[point] = target
    return moved
