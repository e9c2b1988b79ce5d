"""The AFA operator over a batch of changes: inserts and retractions in the order of arrival.

Algorithm 1 of the paper and its deletion (Appendix C), with the intervals of ignorable arcs
(Appendix D) and sequence numbers (AFA+O, §5.3). An insert in order costs the partial matches that
end at the newest event. One into the past first withdraws what spans it
(RemoveInvalidatedSequences), then goes on from what it made (PropagateInsert); both stop where
nothing is affected any more, so that the cost is O(lg r + min(w, d) · m) and not that of history.

With ignorable arcs as intervals, a node that ignores an event stays as it is, up to `until`. What
an insert invalidates is then not all that spans it, so derivations are kept as edges and a
node goes when the last of its derivations does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.calls import allocating, inner, inner_allocating, inner_inlined
from ensue.kernels.stop import asked
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.arcs import Arcs
from ensue.revision.kernels.intervals import (
    alive_at,
    alive_at_last,
    keep_apart,
    keep_on,
    keep_open,
    listed_at,
)
from ensue.revision.kernels.layout import NONE, Numbers
from ensue.revision.kernels.output import tell
from ensue.revision.kernels.retract import event_to_retract, remove_spanning, retract
from ensue.revision.kernels.steps import (
    Cells,
    cells_of,
    extend,
    load_event,
    new_event,
)
from ensue.revision.kernels.store import (
    Store,
    compare,
    event_of,
    is_index_full,
    longer,
    place_of,
    put_in_index,
    set_event,
    taller,
    with_index_room,
    with_room,
)


@inner_inlined
def _place_for(
    store: Store, keys: Numbers, change: int, sequenced: bool, unique: bool
) -> tuple[int, int, int, int, int]:
    """What is wrong with an event or DONE, its neighbours, and its place in the index."""
    events, last = store.events, store.control[at.LAST]
    le, tie, content = keys[change, at.LE], keys[change, at.TIE], keys[change, at.CONTENT]
    if sequenced:
        number = keys[change, at.SEQUENCE]
        if event_of(store, number) >= 0:
            return at.TAKEN_NUMBER, NONE, NONE, NONE, 0
        previous, following = last, event_of(store, number + 1)
        if last < 0 or events[last, at.SEQUENCE] != number - 1:
            previous = event_of(store, number - 1)
        against = (previous >= 0 and events[previous, at.LE] > le) or (
            following >= 0 and events[following, at.LE] < le
        )
        return at.AGAINST_TIME if against else at.DONE, previous, following, NONE, 0
    if last < 0 or compare(events, last, le, tie, content) <= 0:
        where, taken = store.control[at.BLOCKS] - 1, last >= 0 and events[last, at.LE] == le
        position = store.fill[store.order[where]] if where >= 0 else 0
        return at.EQUAL_TIME if unique and taken else at.DONE, last, NONE, where, position
    where, position = place_of(store, le, tie, content)
    previous, following = NONE, store.control[at.FIRST]
    if where >= 0:
        previous = store.blocks[store.order[where], position - 1]
        following = events[previous, at.NEXT]
    taken = events[following, at.LE] == le or (previous >= 0 and events[previous, at.LE] == le)
    return at.EQUAL_TIME if unique and taken else at.DONE, previous, following, where, position


@inner_inlined
def _insert(
    store: Store,
    keys: Numbers,
    values: Numbers,
    change: int,
    previous: int,
    following: int,
    where: int,
    position: int,
    sequenced: bool,
) -> int:
    """The event of a change, in its place."""
    event = new_event(store, keys, values, change, previous, following)
    if sequenced:
        set_event(store, keys[change, at.SEQUENCE], event)
    else:
        put_in_index(store, event, where, position)
        if previous < 0:
            store.control[at.FIRST] = event
    if sequenced or following < 0:
        store.control[at.LAST] = event
    return event


@inner
def _walk(
    store: Store,
    arcs: Arcs,
    cells: Cells,
    operations: NDArray[np.int8],
    keys: Numbers,
    values: Numbers,
    ignoring: bool,
    sequenced: bool,
    unique: bool,
    walk: Numbers,
    source: Numbers,
    frontier: Numbers,
    stays: NDArray[np.bool_],
    faults: Numbers,
    counts: Numbers,
    rows: Numbers,
) -> int:
    """Goes on with events in order, and with events that are met again behind a change, for as long
    as there is room; says why it stopped. It makes no arrays, and so counts no references."""
    events, nodes, control = store.events, store.nodes, store.control
    change, cause, step = walk[at.CHANGE], walk[at.CHANGED], walk[at.STEP]
    event, count, index = walk[at.MET], walk[at.METS], walk[at.INDEX]
    inserted, late = walk[at.INSERTED] > 0, walk[at.LATE] > 0
    onward, remaking = walk[at.ONWARD] > 0, walk[at.REMAKING] > 0
    # Nodes are also made again because more is to be kept of them from there on.
    keeping = ignoring or remaking or arcs.closing.shape[0] > 0
    stop = NONE
    while stop < 0:
        if asked():
            stop = at.ASKED
            break
        if step == at.NEXT_EVENT and source.shape[0] < control[at.NODES]:
            counts[at.CREATED] = counts[at.WANTED] = 0
            stop = at.ROOM
        elif step == at.NEXT_EVENT and onward:
            # PropagateInsert, or all again: as if the event had arrived once more.
            event = control[at.FIRST] if event < 0 else events[event, at.NEXT]
            if event < 0 or (count == 0 and not remaking):
                onward = remaking = False
                continue
            previous = events[event, at.PREVIOUS]
            if remaking and previous < 0:
                count = 0
            elif remaking and ignoring:
                count = alive_at(store, previous, source)
            elif remaking:
                count = listed_at(store, previous, source, 0)
            inserted = late = False
            step = at.MEET
        elif step == at.NEXT_EVENT:
            if change + 1 == operations.shape[0]:
                stop = at.ENDED
                continue
            stop = at.OTHER_CHANGE
            if operations[change + 1] != at.INSERT or is_index_full(store, sequenced):
                continue
            wrong, previous, following, where, position = _place_for(
                store, keys, change + 1, sequenced, unique
            )
            if wrong != at.DONE or following >= 0:
                continue
            stop, step = NONE, at.MEET
            change += 1
            cause, count = keys[change, at.IDENTITY], 0
            if previous >= 0 and ignoring:
                count = alive_at_last(store, previous, source)
            elif previous >= 0:
                count = listed_at(store, previous, source, 0)
            event = _insert(
                store, keys, values, change, previous, following, where, position, sequenced
            )
            inserted, late = True, False
        elif step == at.MEET:
            if index == 0:
                counts[at.CREATED] = 0
            if ignoring and index == 0:
                if min(stays.shape[0], store.opened.shape[0]) < count:
                    counts[at.WANTED], stop = 0, at.ROOM
                    continue
                stays[:count] = False
            load_event(store, event, arcs, cells)
            most = min(
                min(nodes.shape[0], counts[at.MOST_NODES]) - control[at.NODES] + counts[at.CREATED],
                rows.shape[0] - counts[at.ROWS],
                min(source.shape[0], frontier.shape[0]) - count,
                counts[at.CREATED] + max(counts[at.WANTED], at.MADE),
            )
            index = extend(
                store, arcs, cells, source, count, index, event, inserted or remaking, ignoring,
                keeping, stays, frontier, most, faults, counts,
            )  # fmt: skip
            if index >= 0:
                stop = at.ROOM
                continue
            index, step = 0, at.TELL
            if ignoring and inserted and late:
                stop = at.CUT
            elif ignoring and inserted:
                keep_open(store, source, count, stays, event)
        else:
            created = counts[at.CREATED]
            for place in range(created):
                node = frontier[place]
                if nodes[node, at.MATCH] == at.ACCEPTED:
                    nodes[node, at.MATCH] = control[at.NEXT_MATCH]
                    control[at.NEXT_MATCH] += 1
                    tell(store, node, 1, cause, ignoring, rows, counts)
            if ignoring and not inserted:
                created = keep_on(store, source, count, stays, event, frontier, created)
            onward = onward or late
            if onward:
                for place in range(created):
                    source[place] = frontier[place]
                count = created
            step = at.NEXT_EVENT
    walk[at.CHANGE], walk[at.CHANGED], walk[at.STEP] = change, cause, step
    walk[at.MET], walk[at.METS], walk[at.INDEX] = event, count, index
    walk[at.INSERTED], walk[at.LATE] = inserted, late
    walk[at.ONWARD], walk[at.REMAKING] = onward, remaking
    return stop


@inner_allocating
def _walk_with_room(
    store: Store,
    arcs: Arcs,
    cells: Cells,
    operations: NDArray[np.int8],
    keys: Numbers,
    values: Numbers,
    ignoring: bool,
    sequenced: bool,
    unique: bool,
    walk: Numbers,
    source: Numbers,
    frontier: Numbers,
    stays: NDArray[np.bool_],
    faults: Numbers,
    counts: Numbers,
    rows: Numbers,
) -> tuple[int, Store, Numbers, Numbers, NDArray[np.bool_], Numbers]:
    """`_walk`, with more room where it asks for it; ENDED too where there is more of something than
    `counts` allows."""
    while True:
        stop = _walk(
            store, arcs, cells, operations, keys, values, ignoring, sequenced, unique, walk, source,
            frontier, stays, faults, counts, rows,
        )  # fmt: skip
        control, count = store.control, walk[at.METS]
        wanted = counts[at.WANTED] if stop == at.ROOM else 0
        if counts[at.ROWS] > counts[at.MOST_ROWS]:
            counts[at.EXCEEDED] = at.MOST_ROWS
        elif control[at.NODES] + wanted > counts[at.MOST_NODES]:
            counts[at.EXCEEDED] = at.MOST_NODES
        elif ignoring and control[at.EDGES] + wanted > counts[at.MOST_EDGES]:
            counts[at.EXCEEDED] = at.MOST_EDGES
        if counts[at.EXCEEDED] > 0:
            stop = at.ENDED
        if stop == at.OTHER_CHANGE and is_index_full(store, sequenced):
            store = with_index_room(store, sequenced)
        elif stop != at.ROOM:
            return stop, store, source, frontier, stays, rows
        else:
            most = count + counts[at.CREATED] + wanted
            store = with_room(store, 0, wanted, wanted if ignoring else 0, count if ignoring else 0)
            if source.shape[0] < max(control[at.NODES], most):
                source = longer(source, max(control[at.NODES], most))
            if frontier.shape[0] < most:
                frontier = longer(frontier, most)
            if stays.shape[0] < count:
                stays = np.zeros(2 * count, np.bool_)
            if rows.shape[0] < counts[at.ROWS] + most - count:
                rows = taller(rows, counts[at.ROWS] + most - count)


@allocating
def process_in_order(
    store: Store,
    arcs: Arcs,
    operations: NDArray[np.int8],
    keys: Numbers,
    values: Numbers,
    ignoring: bool,
    sequenced: bool,
    unique: bool,
    walk: Numbers,
    faults: Numbers,
    counts: Numbers,
    rows: Numbers,
) -> tuple[bool, Store, Numbers]:
    """As `process`, up to a change that is not an event in order; whether there was none.

    Most inputs have no other, and this is compiled in half the time.
    """
    cells, store = cells_of(arcs), with_room(store, operations.shape[0], 0, 0, 0)
    source, frontier = np.zeros(64, np.int64), np.zeros(64, np.int64)
    stop, store, _, _, _, rows = _walk_with_room(
        store, arcs, cells, operations, keys, values, ignoring, sequenced, unique, walk, source,
        frontier, np.zeros(64, np.bool_), faults, counts, rows,
    )  # fmt: skip
    return stop != at.OTHER_CHANGE, store, rows


@allocating
def process(
    store: Store,
    arcs: Arcs,
    operations: NDArray[np.int8],
    keys: Numbers,  # [change, column of `events`]
    values: Numbers,  # [change, column]
    ignoring: bool,
    sequenced: bool,
    unique: bool,  # equal timestamps are refused
    walk: Numbers,  # where the changes stand (`walk_from`)
    status: NDArray[np.int8],
    faults: Numbers,
    counts: Numbers,
    rows: Numbers,
) -> tuple[Store, Numbers]:
    """All changes in turn; output rows in the order in which they become known.

    It leaves off where there is more of something than `counts` allows, and says so there.
    """
    cells = cells_of(arcs)
    source, frontier = np.zeros(64, np.int64), np.zeros(64, np.int64)
    stack, stays = np.zeros(64, np.int64), np.zeros(64, np.bool_)
    store = with_room(store, operations.shape[0] - walk[at.CHANGE] - 1, 0, 0, 0)
    while True:
        stop, store, source, frontier, stays, rows = _walk_with_room(
            store, arcs, cells, operations, keys, values, ignoring, sequenced, unique, walk, source,
            frontier, stays, faults, counts, rows,
        )  # fmt: skip
        if stop in (at.ENDED, at.ASKED):
            return store, rows
        event, count = walk[at.MET], walk[at.METS]
        if stop == at.CUT:
            stack, rows = keep_apart(store, source, count, stays, event, stack, rows, counts)
            if rows.shape[0] < counts[at.ROWS] + counts[at.CREATED]:
                rows = taller(rows, counts[at.ROWS] + counts[at.CREATED])
            continue
        # A retraction, an event into the past, or one that cannot be.
        walk[at.CHANGE] += 1
        change = walk[at.CHANGE]
        cause = keys[change, at.IDENTITY]
        walk[at.CHANGED] = cause
        if operations[change] != at.INSERT:
            gone = event_to_retract(store, keys, change, sequenced)
            if gone < 0:
                status[change] = at.UNKNOWN
                continue
            previous, following = store.events[gone, at.PREVIOUS], store.events[gone, at.NEXT]
            count, stack, rows = retract(
                store, gone, cause, ignoring, sequenced, source, stack, rows, counts
            )
            walk[at.MET], walk[at.METS] = previous, count
            walk[at.ONWARD] = previous >= 0 and following >= 0 and not sequenced
            continue
        wrong, previous, following, where, position = _place_for(
            store, keys, change, sequenced, unique
        )
        if wrong != at.DONE:
            status[change] = wrong
            continue
        count = 0
        if previous >= 0 and not ignoring:
            count = listed_at(store, previous, source, 0)
        elif previous >= 0 and following < 0:
            count = alive_at_last(store, previous, source)
        elif previous >= 0:
            count = alive_at(store, previous, source)
        event = _insert(
            store, keys, values, change, previous, following, where, position, sequenced
        )
        if following >= 0 and not (ignoring or sequenced):
            rows = remove_spanning(store, following, event, cause, rows, counts)
        walk[at.MET], walk[at.METS], walk[at.STEP] = event, count, at.MEET
        walk[at.INSERTED], walk[at.LATE] = True, following >= 0
