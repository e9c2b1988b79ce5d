"""The match graph of an event pattern whose conditions look at single rows, as flat arrays.

A node stands for a set of partial matches: an *event node* for "each of `left`, then this row under
this label" (`left` NOTHING: the row alone), a *union node* for those of `left` and of `right`.
Every state of the automaton has one current node. An event costs O(arcs of its class): one event
node per take, one union where two sets meet, however many partial matches they hold (the tECS of
CORE, Bucchi et al., VLDB 2022, is the same idea).

`newest` is the latest first row below a node. The larger of a union's sides is its left one. A
match that ends at row i must begin at `low` or later, so a node with newest < low holds nothing,
and any other holds a match on its left side: listing enters no dead end and costs O(size) per
match, plus one visit for every union passed, whose other side is listed too or cut off at once.
`oldest` is the earliest first row below a node: the rows from there on are what a partition that
goes on must hold.

Partitions lie one after the other and share the arrays; the current nodes are forgotten between
them.

Nodes only point to older ones. `compact` keeps what the current nodes reach inside the window, in
one pass down for marking and one up for moving; callers run it when the arrays have doubled, so
memory is that of the window's events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inlined, inner_inlined
from ensue.kernels.copies import copy_row
from ensue.kernels.stop import asked

NOTHING = -1
UNION = -1  # in place of a row


class Nodes(NamedTuple):
    """The graph: see the module."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int32]
    lefts: NDArray[np.int32]
    rights: NDArray[np.int32]
    newest: NDArray[np.int64]
    oldest: NDArray[np.int64]


class Walk(NamedTuple):
    """The partitions of a batch, and how far their rows are through."""

    place: NDArray[np.int64]  # partition, row
    begins: NDArray[np.int64]
    stops: NDArray[np.int64]
    fresh: NDArray[np.int64]  # matches that end before are left out
    edges: NDArray[np.int64]  # starts below are out of time once the rows are through
    lows: NDArray[np.int64]  # per row; empty: no window
    live: NDArray[np.int64]  # becomes the earliest row that a partial match still holds at the end


class Steps(NamedTuple):
    """Arcs by event class, with the label that is taken (-1: the event is skipped)."""

    idle: NDArray[np.bool_]  # per class: the event changes nothing
    offsets: NDArray[np.int32]
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]  # -1: the matches are complete, and cannot go on
    labels: NDArray[np.int32]
    accepts: NDArray[np.bool_]


@inlined
def join_nodes(nodes: Nodes, left: int, right: int, used: int) -> int:
    """Writes the union of two nodes at `used`."""
    newest, oldest = nodes.newest, nodes.oldest
    oldest[used] = min(oldest[left], oldest[right])
    if newest[left] < newest[right]:
        left, right = right, left
    nodes.rows[used] = UNION
    nodes.lefts[used] = left
    nodes.rights[used] = right
    newest[used] = newest[left]
    return used


@inlined
def event_node(nodes: Nodes, before: int, row: int, label: int, used: int) -> int:
    """Writes an event after those of `before` at `used`."""
    nodes.rows[used] = row
    nodes.labels[used] = label
    nodes.lefts[used] = before
    nodes.newest[used] = row if before == NOTHING else nodes.newest[before]
    nodes.oldest[used] = row if before == NOTHING else nodes.oldest[before]
    return used


@inner_inlined
def note_live(walk: Walk, nodes: Nodes, node: int) -> None:
    """What a partial match holds when the rows of its partition are through."""
    partition = walk.place[0]
    edge = walk.edges[partition]
    if nodes.newest[node] >= edge:
        held = max(edge, nodes.oldest[node])
        walk.live[partition] = min(walk.live[partition], held)


@inner_inlined
def next_partition(walk: Walk) -> None:
    walk.place[0] += 1
    if walk.place[0] < walk.begins.shape[0]:
        walk.place[1] = walk.begins[walk.place[0]]


@njit(cache=True, nogil=True)
def advance(
    steps: Steps,
    classes: NDArray[np.int32],  # per row
    walk: Walk,
    current: NDArray[np.int32],
    nodes: Nodes,
    used: int,
    roots: NDArray[np.int64],
) -> tuple[int, int]:
    """Rows from `walk.place` on, until all are through or an array is full.

    (nodes used, roots found). A root is (row, node, low): the matches completed at the row.
    """
    states = current.shape[0]
    after = np.empty(states, np.int32)
    newest, place = nodes.newest, walk.place
    found = 0
    while place[0] < walk.begins.shape[0]:
        partition, row = place[0], place[1]
        if row >= walk.stops[partition]:
            walk.live[partition] = walk.stops[partition]
            for state in range(states):
                if current[state] != NOTHING:
                    note_live(walk, nodes, current[state])
            current[:] = NOTHING
            next_partition(walk)
            continue
        if asked():
            break
        kind = classes[row]
        if steps.idle[kind]:
            place[1] += 1
            continue
        begin, end = steps.offsets[kind], steps.offsets[kind + 1]
        if used + 2 * (end - begin) > nodes.rows.shape[0] or found + end - begin > roots.shape[0]:
            break
        low = walk.lows[row] if walk.lows.shape[0] else 0
        reported = row >= walk.fresh[partition]
        after[:] = NOTHING
        for arc in range(begin, end):
            source, target = steps.sources[arc], steps.targets[arc]
            accepted = reported and steps.accepts[arc]
            if target < 0 and not accepted:
                continue
            node = NOTHING
            if source != 0:
                node = current[source]
                if node == NOTHING or newest[node] < low:
                    continue
            if steps.labels[arc] >= 0:
                node = event_node(nodes, node, row, steps.labels[arc], used)
                used += 1
            if accepted:
                roots[found, 0], roots[found, 1], roots[found, 2] = row, node, low
                found += 1
            if target < 0:
                continue
            if after[target] == NOTHING:
                after[target] = node
            else:
                after[target] = join_nodes(nodes, after[target], node, used)
                used += 1
        copy_row(after, current)
        place[1] += 1
    return used, found


@njit(cache=True, nogil=True)
def compact(nodes: Nodes, current: NDArray[np.int32], used: int, low: int) -> int:
    """Keeps the nodes that matches to come may use, in place; returns how many."""
    rows, labels, lefts, rights, newest, oldest = nodes
    marked = np.zeros(used, np.bool_)
    moved = np.empty(used, np.int32)
    for state in range(current.shape[0]):
        node = current[state]
        if node != NOTHING and newest[node] < low:
            current[state] = NOTHING
        elif node != NOTHING:
            marked[node] = True
    for node in range(used - 1, -1, -1):
        if not marked[node]:
            continue
        if lefts[node] != NOTHING:
            marked[lefts[node]] = True
        if rows[node] == UNION and newest[rights[node]] >= low:
            marked[rights[node]] = True
    kept = 0
    for node in range(used):
        if not marked[node]:
            continue
        # By the marks, since what lies at the place of the right side may have been moved there.
        if rows[node] == UNION and not marked[rights[node]]:
            moved[node] = moved[lefts[node]]
            continue
        moved[node] = kept
        rows[kept] = rows[node]
        labels[kept] = labels[node]
        lefts[kept] = NOTHING if lefts[node] == NOTHING else moved[lefts[node]]
        if rows[node] == UNION:
            rights[kept] = moved[rights[node]]
        newest[kept] = newest[node]
        oldest[kept] = oldest[node]
        kept += 1
    for state in range(current.shape[0]):
        if current[state] != NOTHING:
            current[state] = moved[current[state]]
    return kept


@njit(cache=True, nogil=True)
def list_matches(
    roots: NDArray[np.int64],
    found: int,
    place: NDArray[np.int64],
    stack: NDArray[np.int64],
    path_rows: NDArray[np.int64],
    path_labels: NDArray[np.int32],
    nodes: Nodes,
    out_rows: NDArray[np.int64],
    out_labels: NDArray[np.int32],
    out_lengths: NDArray[np.int64],
    out_owners: NDArray[np.int64],  # per match, the number of its root
    most: int,
) -> tuple[int, int, bool]:
    """Writes matches until an array is full: (matches, events, whether all roots are done).

    `place` is (next root, height of the stack) and goes from call to call, as do the stack and the
    path. False with nothing written: the stack or the path has to grow.
    """
    rows, labels, lefts, rights, newest, _ = nodes
    matches, events = 0, 0
    while True:
        if place[1] == 0:
            if place[0] >= found:
                return matches, events, True
            stack[0, 0] = roots[place[0], 1]
            stack[0, 1] = 0
            place[1] = 1
        if matches >= most or matches >= out_lengths.shape[0]:
            return matches, events, False
        low = roots[place[0], 2]
        node, depth = stack[place[1] - 1, 0], stack[place[1] - 1, 1]
        height = place[1] - 1
        # what this step may need, so that it can be left and taken up again as a whole
        if (
            height + 2 >= stack.shape[0]
            or depth + 1 >= path_rows.shape[0]
            or events + depth + 1 > out_rows.shape[0]
        ):
            return matches, events, False
        if rows[node] == UNION:
            if newest[rights[node]] >= low:
                stack[height, 0] = rights[node]
                stack[height, 1] = depth
                height += 1
            stack[height, 0] = lefts[node]
            stack[height, 1] = depth
            place[1] = height + 1
            continue
        path_rows[depth] = rows[node]
        path_labels[depth] = labels[node]
        depth += 1
        if lefts[node] != NOTHING:
            stack[height, 0] = lefts[node]
            stack[height, 1] = depth
            place[1] = height + 1
            continue
        for index in range(depth):
            out_rows[events + index] = path_rows[depth - 1 - index]
            out_labels[events + index] = path_labels[depth - 1 - index]
        out_lengths[matches], out_owners[matches] = depth, place[0]
        events += depth
        matches += 1
        place[1] = height
        if height == 0:
            place[0] += 1


@njit(cache=True, nogil=True)
def most_matches(
    nodes: Nodes, roots: NDArray[np.int64], found: int, counts: NDArray[np.float64]
) -> float:
    """Matches of the roots, those that have left a window counted too: at least as many as are.

    `counts` has room for the newest root and all nodes before it.
    """
    for node in range(counts.shape[0]):
        left = nodes.lefts[node]
        counts[node] = 1.0 if left == NOTHING else counts[left]
        if nodes.rows[node] == UNION:
            counts[node] += counts[nodes.rights[node]]
    total = 0.0
    for root in range(found):
        total += counts[roots[root, 1]]
    return total


@njit(cache=True, nogil=True)
def subgraph(
    roots: NDArray[np.int64],
    begin: int,
    end: int,
    nodes: Nodes,
    seen: NDArray[np.int64],
    numbers: NDArray[np.int32],
    out: Nodes,
) -> int:
    """Copies what the roots begin..end, all of one row, reach; older nodes first.

    The last node copied is the union of the roots. Sides that have left the window are cut off.
    -1: the output is too small. `seen` marks nodes by the first root, so it needs no clearing.
    """
    rows, labels, lefts, rights, newest, _ = nodes
    out_rows, out_labels, out_lefts, out_rights, _, _ = out
    found = np.empty(out_rows.shape[0], np.int64)
    count = 0
    for root in range(begin, end):
        node = roots[root, 1]
        if seen[node] != begin:
            if count >= found.shape[0]:
                return -1
            seen[node] = begin
            found[count] = node
            count += 1
    low = roots[begin, 2]
    done = 0
    while done < count:
        node = found[done]
        done += 1
        for side in range(2):
            below = lefts[node] if side == 0 else NOTHING
            if side == 1 and rows[node] == UNION and newest[rights[node]] >= low:
                below = rights[node]
            if below == NOTHING or seen[below] == begin:
                continue
            if count >= found.shape[0]:
                return -1
            seen[below] = begin
            found[count] = below
            count += 1
    if count + end - begin + 1 > out_rows.shape[0]:
        return -1
    ordered = np.sort(found[:count])
    for number in range(count):
        node = ordered[number]
        numbers[node] = number
        union = rows[node] == UNION
        out_labels[number] = -1 if union else labels[node]
        out_rows[number] = 0 if union else rows[node]
        out_lefts[number] = NOTHING if lefts[node] == NOTHING else numbers[lefts[node]]
        out_rights[number] = NOTHING
        if union and newest[rights[node]] >= low:
            out_rights[number] = numbers[rights[node]]
    top = numbers[roots[begin, 1]]
    for root in range(begin + 1, end):
        out_labels[count] = -1
        out_rows[count] = 0
        out_lefts[count] = top
        out_rights[count] = numbers[roots[root, 1]]
        top = count
        count += 1
    if top != count - 1:  # the only root is not the newest node: a union of one side points to it
        out_labels[count] = -1
        out_rows[count] = 0
        out_lefts[count] = top
        out_rights[count] = NOTHING
        count += 1
    return count
