"""Match nodes as flat arrays: candidates, extensions, trajectories (Algorithms 1 and 2).

A node is an event at an L-state: (state, row, error, first row). Nodes that agree in these are one,
with several links to the nodes before them: their matches to come are the same. A link also keeps
the match vector at which it was taken, for the history. The nodes of a state form a list, newest
first; a node whose row has left the window ends the walk, since its first row is no later.

All nodes of a trajectory share their first row, so once that has left the window the whole
trajectory is dead: `compact` drops such nodes and never has to follow a link.

With proxies (Theorem 2) a state keeps, per error level i, one node: the one with the latest first
row among those of error at most i. `best[s, i]` then ascends in i.

Work is counted in extensions: one link made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating
from ensue.kernels.hashing import slot_of
from ensue.kernels.stop import asked
from ensue.missing.kernels.history import EPOCH, LEARNING, PHASE, History, credit, new_bundle
from ensue.missing.kernels.select import Choice

NONE = -1
# registers of a partition
USED, LINKS, ENDS, BIT, BIT_EPOCH, SERIAL, AGENT_BIT, AGENT_SERIAL = range(8)
REGISTERS = 8
# counters of a run
WORK, SHED, CANDIDATES, BUNDLES, EVENTS, GENERATION = range(6)
COUNTERS = 6
# places of `Machine.bound`: most error; buckets of windows, errors and time; units of a level
MOST, WINDOWS, LEVELS, TIMES, UNITS = range(5)
# why a run stopped
DONE, NODES_FULL, ENDS_FULL, CANDIDATES_FULL, HISTORY_FULL, GUARD_FAILED = range(6)


class Machine(NamedTuple):
    """The automaton: links by target, L-states by class of event."""

    into: NDArray[np.int32]  # offsets by target
    sources: NDArray[np.int32]
    costs: NDArray[np.int32]
    hits: NDArray[np.int32]  # offsets by class of event
    states: NDArray[np.int32]  # L-states whose label the class has
    finals: NDArray[np.int32]  # least cost to finish, above the bound where there is none
    bound: NDArray[np.int64]  # by MOST, WINDOWS, LEVELS, TIMES, UNITS
    proxy: bool
    merge: bool  # nodes that agree are one; not where conditions read what is before them


class Nodes(NamedTuple):
    """The nodes of one partition; rows count from its beginning."""

    registers: NDArray[np.int64]
    state: NDArray[np.int32]
    row: NDArray[np.int64]
    error: NDArray[np.int32]
    first: NDArray[np.int64]  # row of the first event
    time: NDArray[np.float64]
    since: NDArray[np.float64]  # time of the first event: start_win
    below: NDArray[np.int32]  # next older node of the state
    head: NDArray[np.int32]  # newest link
    seen: NDArray[np.int64]  # last bundle that was traced through the node
    agent: NDArray[np.int32]  # link by which an agent made it, or NONE
    top: NDArray[np.int32]  # [state]: newest node
    best: NDArray[np.int32]  # [state, error level]: proxy
    before: NDArray[np.int32]  # [link]: node before, NONE for the first event
    more: NDArray[np.int32]  # [link]: next older link of the node
    vector: NDArray[np.int32]  # [link]
    via: NDArray[np.int32]  # [link]: the automaton's link
    last_match: NDArray[np.float64]  # time of the last match point


class Scratch(NamedTuple):
    """What one event needs, shared by all partitions."""

    keys: NDArray[np.int64]
    stamps: NDArray[np.int32]
    values: NDArray[np.int64]
    stack: NDArray[np.int32]
    counters: NDArray[np.int64]


@njit(cache=True, nogil=True)
def vector_of(
    machine: Machine, state: int, error: int, gone: float, idle: float, window: float
) -> int:
    """The match vector of entering `state`: time gone since the first and since the last event."""
    bound = machine.bound
    windows, levels, times = bound[WINDOWS], bound[LEVELS], bound[TIMES]
    remaining = int((window - gone) / window * windows) if window > 0.0 else 0
    remaining = min(max(remaining, 0), windows - 1)
    waited = int(idle / window * times) if window > 0.0 else 0
    waited = min(max(waited, 0), times - 1)
    level = min(error // bound[UNITS], levels - 1)
    return ((state * windows + remaining) * levels + level) * times + waited


@inner_allocating
def _note(
    machine: Machine, nodes: Nodes, choice: Choice, place: int, node: int, target: int, error: int,
    link: int, time: float, window: float,
) -> None:  # fmt: skip
    """A candidate: the node (NONE for a seed) would be extended by a link of the automaton."""
    gone, idle = 0.0, 0.0
    if node != NONE:
        gone, idle = time - nodes.since[node], time - nodes.time[node]
    choice.nodes[place] = node
    choice.targets[place] = target
    choice.errors[place] = error
    choice.links[place] = link
    choice.vectors[place] = vector_of(machine, target, error, gone, idle, window)


@njit(cache=True, nogil=True)
def collect(
    machine: Machine, nodes: Nodes, choice: Choice, kind: int, time: float, low: int, window: float
) -> int:
    """The candidates of an event of class `kind`; their number, -1 where there is no room."""
    count = 0
    bound = machine.bound[MOST]
    room = choice.nodes.shape[0]
    for hit in range(machine.hits[kind], machine.hits[kind + 1]):
        target = machine.states[hit]
        for link in range(machine.into[target], machine.into[target + 1]):
            source, cost = machine.sources[link], machine.costs[link]
            if source == 0:
                if cost <= bound:
                    if count >= room:
                        return -1
                    _note(machine, nodes, choice, count, NONE, target, cost, link, time, window)
                    count += 1
                continue
            if machine.proxy:
                known = NONE
                for level in range(nodes.best.shape[1]):
                    node = nodes.best[source, level]
                    if node in (NONE, known):
                        continue
                    known = node
                    error = nodes.error[node] + cost
                    if nodes.first[node] < low or error > bound:
                        continue
                    if count >= room:
                        return -1
                    _note(machine, nodes, choice, count, node, target, error, link, time, window)
                    count += 1
                continue
            node = nodes.top[source]
            while node != NONE and nodes.row[node] >= low:
                if asked():
                    return -1
                error = nodes.error[node] + cost
                if nodes.first[node] >= low and error <= bound:
                    if count >= room:
                        return -1
                    _note(machine, nodes, choice, count, node, target, error, link, time, window)
                    count += 1
                node = nodes.below[node]
    return count


@inner_allocating
def new_node(
    nodes: Nodes, before: int, target: int, error: int, first: int, row: int, time: float
) -> int:
    """A node without links, the newest of its state."""
    node = nodes.registers[USED]
    nodes.registers[USED] += 1
    nodes.state[node] = target
    nodes.row[node] = row
    nodes.error[node] = error
    nodes.first[node] = first
    nodes.time[node] = time
    nodes.since[node] = time if before == NONE else nodes.since[before]
    nodes.below[node] = nodes.top[target]
    nodes.top[target] = node
    nodes.head[node] = NONE
    nodes.seen[node] = 0
    nodes.agent[node] = NONE
    return int(node)


@inner_allocating
def add_link(nodes: Nodes, node: int, before: int, vector: int, via: int) -> None:
    link = nodes.registers[LINKS]
    nodes.registers[LINKS] += 1
    nodes.before[link] = before
    nodes.vector[link] = vector
    nodes.via[link] = via
    nodes.more[link] = nodes.head[node]
    nodes.head[node] = link


@njit(cache=True, nogil=True)
def extend(
    machine: Machine,
    nodes: Nodes,
    scratch: Scratch,
    before: int,
    target: int,
    error: int,
    via: int,
    vector: int,
    row: int,
    time: float,
    low: int,
) -> int:
    """Makes the link, and the node where there is none yet; its number, NONE for a poor proxy."""
    first = row if before == NONE else nodes.first[before]
    node = NONE
    slot, key = 0, np.int64(0)
    if machine.proxy:
        known = nodes.best[target, error]
        if known != NONE and nodes.first[known] >= first:
            return NONE
    elif machine.merge:
        span = row - low + 1
        key = (np.int64(target) * (machine.bound[MOST] + 1) + error) * span + (row - first)
        slot = slot_of(scratch.keys, scratch.stamps, scratch.counters[GENERATION], key)
        if scratch.stamps[slot] == scratch.counters[GENERATION]:
            node = scratch.values[slot]
    if node == NONE:
        node = new_node(nodes, before, target, error, first, row, time)
        if machine.proxy:
            for level in range(error, nodes.best.shape[1]):
                known = nodes.best[target, level]
                if known == NONE or nodes.first[known] < first:
                    nodes.best[target, level] = node
        elif machine.merge:
            scratch.keys[slot] = key
            scratch.stamps[slot] = scratch.counters[GENERATION]
            scratch.values[slot] = node
    add_link(nodes, node, before, vector, via)
    return node


@inner_allocating
def trace(
    nodes: Nodes, history: History, scratch: Scratch, node: int, copy: int, bit: int, serial: int
) -> None:
    """Sets the bundle's bit in the match maps of all vectors on the trajectories of a node."""
    if nodes.seen[node] == serial:
        return
    nodes.seen[node] = serial
    stack = scratch.stack
    stack[0] = node
    height = 1
    while height:
        height -= 1
        link = nodes.head[stack[height]]
        while link != NONE:
            credit(history, copy, nodes.vector[link], bit)
            before = nodes.before[link]
            if before != NONE and nodes.seen[before] != serial:
                nodes.seen[before] = serial
                stack[height] = before
                height += 1
            link = nodes.more[link]


@njit(cache=True, nogil=True)
def report(
    machine: Machine,
    nodes: Nodes,
    history: History,
    scratch: Scratch,
    ends: NDArray[np.int64],
    oldest: int,
    row: int,
    time: float,
    window: float,
    records: bool,
    adapts: bool,
) -> None:
    """Complete matches among the nodes from `oldest` on: match point, bundle, match maps.

    `records`: there is a history; `adapts`: its second copy is kept up.
    """
    registers = nodes.registers
    first = registers[ENDS]
    for node in range(oldest, registers[USED]):
        if nodes.error[node] + machine.finals[nodes.state[node]] <= machine.bound[MOST]:
            ends[registers[ENDS], 0] = row
            ends[registers[ENDS], 1] = node
            registers[ENDS] += 1
    if registers[ENDS] == first:
        return
    begins = registers[SERIAL] == 0 or time - nodes.last_match[0] > window
    nodes.last_match[0] = time
    if begins:
        scratch.counters[BUNDLES] += 1
    if begins or registers[BIT_EPOCH] != history.registers[EPOCH]:
        if records:
            registers[BIT] = new_bundle(history, adapts)
        registers[SERIAL] += 1
        registers[BIT_EPOCH] = history.registers[EPOCH]
    learns = history.registers[PHASE] == LEARNING
    if records and (learns or adapts):
        copy = 0 if learns else 1
        for end in range(first, registers[ENDS]):
            trace(nodes, history, scratch, ends[end, 1], copy, registers[BIT], registers[SERIAL])


@njit(cache=True, nogil=True)
def compact(nodes: Nodes, low: int) -> NDArray[np.int32]:
    """Drops nodes whose first row has left the window, in place; where each node went."""
    registers = nodes.registers
    used, links = registers[USED], registers[LINKS]
    moved = np.full(used, NONE, np.int32)
    moved_links = np.full(links, NONE, np.int32)
    kept, kept_links = 0, 0
    for node in range(used):
        if nodes.first[node] >= low:
            moved[node] = kept
            kept += 1
    for node in range(used):
        if moved[node] == NONE:
            continue
        link = nodes.head[node]
        while link != NONE:
            moved_links[link] = 0
            link = nodes.more[link]
    for link in range(links):
        if moved_links[link] != NONE:
            moved_links[link] = kept_links
            before = nodes.before[link]
            nodes.before[kept_links] = NONE if before == NONE else moved[before]
            nodes.vector[kept_links] = nodes.vector[link]
            nodes.via[kept_links] = nodes.via[link]
            more = nodes.more[link]
            nodes.more[kept_links] = NONE if more == NONE else moved_links[more]
            kept_links += 1
    for state in range(nodes.top.shape[0]):
        nodes.top[state] = NONE
    for node in range(used):
        place = moved[node]
        if place == NONE:
            continue
        nodes.state[place] = nodes.state[node]
        nodes.row[place] = nodes.row[node]
        nodes.error[place] = nodes.error[node]
        nodes.first[place] = nodes.first[node]
        nodes.time[place] = nodes.time[node]
        nodes.since[place] = nodes.since[node]
        nodes.seen[place] = nodes.seen[node]
        agent = nodes.agent[node]
        nodes.agent[place] = NONE if agent == NONE else moved_links[agent]
        nodes.head[place] = moved_links[nodes.head[node]]
        nodes.below[place] = nodes.top[nodes.state[place]]
        nodes.top[nodes.state[place]] = place
    for state in range(nodes.best.shape[0]):
        for level in range(nodes.best.shape[1]):
            node = nodes.best[state, level]
            if node != NONE:
                nodes.best[state, level] = moved[node]
    registers[USED], registers[LINKS] = kept, kept_links
    return moved


@njit(cache=True, nogil=True)
def trajectories(
    nodes: Nodes,
    letters: NDArray[np.int32],
    end: int,
    place: NDArray[np.int64],
    path_nodes: NDArray[np.int32],
    path_links: NDArray[np.int32],
    out_labels: NDArray[np.int32],
    out_rows: NDArray[np.int64],
    out_links: NDArray[np.int32],
    lengths: NDArray[np.int64],
) -> int:
    """Writes trajectories of a node, first event first, until an array is full; their number.

    `place` is (depth, events written); depth 0 begins, and is 0 again when all are written.
    """
    found, events = 0, 0
    depth = place[0]
    if depth == 0:
        path_nodes[0] = end
        path_links[0] = nodes.head[end]
        depth = 1
    while depth:
        link = path_links[depth - 1]
        if link == NONE:
            depth -= 1
            if depth:
                path_links[depth - 1] = nodes.more[path_links[depth - 1]]
            continue
        before = nodes.before[link]
        if before != NONE:
            path_nodes[depth] = before
            path_links[depth] = nodes.head[before]
            depth += 1
            continue
        if found >= lengths.shape[0] or events + depth > out_rows.shape[0]:
            place[0], place[1] = depth, events
            return found
        for step in range(depth):
            node = path_nodes[depth - 1 - step]
            out_labels[events + step] = letters[nodes.state[node]]
            out_rows[events + step] = nodes.row[node]
            out_links[events + step] = nodes.via[path_links[depth - 1 - step]]
        lengths[found] = depth
        events += depth
        found += 1
        path_links[depth - 1] = nodes.more[link]
    place[0], place[1] = 0, events
    return found
