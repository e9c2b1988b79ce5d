"""Best-effort search: the most promising partial path first, until a bound is reached.

Partial paths in one state of the shared automaton serve the same queries and have crossed the same
kinds of edges: a state is a cluster of the pattern-sharing degree (SHARP §4.1), and its priority is
the contribution of its members, summed over the queries they are shared by (§4.2). The best cluster
is found among the few that are not empty, so choosing costs no more than the automaton is large.
A partial path whose estimated overhead (its neighbours times the average number of neighbours of
each step still to come, §5) exceeds what is left of the bound waits behind the others of its
cluster. Children are made one at a time, so a bound of a few units still reaches an end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.graph import first_entry
from ensue.kernels.hashing import longer
from ensue.kernels.paths import NO_RETURN, TRAIL, WALK

CONTRIBUTION, RANDOM, SELECTIVITY = 0, 1, 2
ROW_BYTES = 36
ANSWER_BYTES = 16  # and 8 per step


@njit(cache=True, nogil=True)
def _random(state: np.uint64) -> np.uint64:
    """The next number of a xorshift generator."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@njit(cache=True, nogil=True)
def search_best(
    graph: Any,
    machine: Any,
    sharing: Any,  # (offset, query, similarity): queries a state is shared by, and how alike
    remaining: NDArray[np.int32],  # per state: least steps to acceptance
    average: float,  # neighbours per node
    selectivity: NDArray[np.float64],  # per state: rows it is expected to make
    root_offset: NDArray[np.int64],  # roots of question k: root_node[root_offset[k] ...]
    root_node: NDArray[np.int32],
    root_state: NDArray[np.int32],
    weight: NDArray[np.float32],  # per question and query
    work_bound: NDArray[np.int64],  # per question
    byte_bound: NDArray[np.int64],
    hops: int,
    mode: int,
    strategy: int,
    seed: int,
) -> tuple[Any, ...]:
    """(question, query, end, score, labels' offset, nodes, labels) of the paths found; and per
    question the work done, the most bytes held, and whether nothing was left out."""
    offset, neighbour, edge, entry_symbol, symbols = graph
    table, visit_offset, visit_symbol, symbol_class, entry_class, accept_offset, accept_query = (
        machine
    )
    sharing_offset, sharing_query, sharing_similarity = sharing
    states = table.shape[0]
    questions = weight.shape[0]
    parent = np.empty(256, np.int32)
    node = np.empty(256, np.int32)
    via_symbol = np.empty(256, np.int32)
    via_edge = np.empty(256, np.int32)
    state = np.empty(256, np.int32)
    depth = np.empty(256, np.int32)
    visit = np.empty(256, np.int32)  # where the next child is: a symbol of the state ...
    cursor = np.empty(256, np.int32)  # ... and how many of its entries are done
    following_row = np.empty(256, np.int32)  # in its cluster; or its place in `live`
    live = np.empty(256, np.int32)
    first = np.full(states, -1, np.int32)
    waiting = np.full(states, -1, np.int32)
    priority = np.zeros(states, np.float64)
    active = np.empty(max(states, 1), np.int32)
    is_active = np.zeros(states, np.bool_)
    out_question = np.empty(256, np.int32)
    out_query = np.empty(256, np.int32)
    out_end = np.empty(256, np.int32)
    out_score = np.empty(256, np.float32)
    out_offset = np.zeros(257, np.int64)
    out_nodes = np.empty(1024, np.int32)
    out_labels = np.empty(1024, np.int32)
    work_done = np.zeros(questions, np.int64)
    most_bytes = np.zeros(questions, np.int64)
    complete = np.ones(questions, np.bool_)
    outs = 0
    chance = np.uint64(seed * 2 + 1) * np.uint64(0x9E3779B97F4A7C15)
    for k in range(questions):
        rows = actives = lives = 0
        used_bytes = work = 0
        roots = root_offset[k + 1] - root_offset[k]
        pending_root = 0
        while True:
            # A root first: roots are rows without a parent, and cost no work.
            if pending_root < roots:
                at = -1
                there = root_node[root_offset[k] + pending_root]
                following = root_state[root_offset[k] + pending_root]
                symbol = via = -1
                pending_root += 1
                if following < 0:
                    continue
            else:
                # Choose a partial path.
                at = -1
                best = -1
                if strategy == RANDOM:
                    if lives:
                        chance = _random(chance)
                        at = live[np.int64(chance >> np.uint64(11)) % lives]
                else:
                    for a in range(actives):
                        s = active[a]
                        if (first[s] >= 0 or waiting[s] >= 0) and (
                            best < 0 or priority[s] > priority[best]
                        ):
                            best = s
                    if best >= 0:
                        at = first[best] if first[best] >= 0 else waiting[best]
                if at < 0:
                    break
                # Its next child.
                s, here = state[at], node[at]
                there = following = symbol = via = -1
                v, done = visit[at], cursor[at]
                while v < visit_offset[s + 1]:
                    candidate = visit_symbol[v]
                    low = first_entry(offset, entry_symbol, symbols, here, candidate)
                    high = first_entry(offset, entry_symbol, symbols, here, candidate + 1)
                    while low + done < high:
                        entry = low + done
                        done += 1
                        kind = symbol_class[candidate]
                        if kind < 0:
                            kind = entry_class[entry]
                        target = table[s, kind]
                        if target < 0:
                            continue
                        other = neighbour[entry]
                        if mode == NO_RETURN:
                            if depth[at] >= 1:
                                origin = at
                                while parent[origin] >= 0:
                                    origin = parent[origin]
                                if other == node[origin]:
                                    continue
                        elif mode != WALK:
                            back, again = at, False
                            while back >= 0 and not again:
                                again = (
                                    via_edge[back] == edge[entry]
                                    if mode == TRAIL
                                    else node[back] == other
                                )
                                back = parent[back]
                            if again:
                                continue
                        there, following, symbol, via = other, target, candidate, edge[entry]
                        break
                    if there >= 0:
                        break
                    v += 1
                    done = 0
                if there < 0:
                    # No child is left: the row leaves its cluster, and its memory if it is last.
                    if strategy == RANDOM:
                        place = following_row[at]
                        lives -= 1
                        live[place] = live[lives]
                        following_row[live[place]] = place
                    elif first[s] == at:
                        first[s] = following_row[at]
                    else:
                        waiting[s] = following_row[at]
                    if at == rows - 1:
                        rows -= 1
                        used_bytes -= ROW_BYTES
                    continue
                if work >= work_bound[k] or used_bytes >= byte_bound[k]:
                    complete[k] = False
                    break
                visit[at] = v
                cursor[at] = done
                work += 1

            length = 0 if at < 0 else depth[at] + 1
            if accept_offset[following] < accept_offset[following + 1]:
                for a in range(accept_offset[following], accept_offset[following + 1]):
                    query = accept_query[a]
                    if weight[k, query] <= 0.0:
                        continue
                    if outs == out_query.shape[0]:
                        out_question = longer(out_question)
                        out_query = longer(out_query)
                        out_end = longer(out_end)
                        out_score = np.concatenate((out_score, np.empty_like(out_score)))
                        out_offset = np.concatenate((out_offset, np.empty_like(out_offset)))
                    place = out_offset[outs]
                    while place + outs + length + 1 > out_nodes.shape[0]:
                        out_nodes = longer(out_nodes)
                    while place + length > out_labels.shape[0]:
                        out_labels = longer(out_labels)
                    out_offset[outs + 1] = place + length
                    out_nodes[place + outs + length] = there
                    if length:
                        out_labels[place + length - 1] = symbol
                    back, step = at, length - 1
                    while back >= 0:
                        out_nodes[place + outs + step] = node[back]
                        if step:
                            out_labels[place + step - 1] = via_symbol[back]
                        back = parent[back]
                        step -= 1
                    out_question[outs] = k
                    out_query[outs] = query
                    out_end[outs] = there
                    out_score[outs] = weight[k, query]
                    outs += 1
                    used_bytes += ANSWER_BYTES + 8 * length
            if visit_offset[following] == visit_offset[following + 1] or length == hops:
                most_bytes[k] = max(most_bytes[k], used_bytes)
                continue
            if rows == parent.shape[0]:
                parent = longer(parent)
                node = longer(node)
                via_symbol = longer(via_symbol)
                via_edge = longer(via_edge)
                state = longer(state)
                depth = longer(depth)
                visit = longer(visit)
                cursor = longer(cursor)
                following_row = longer(following_row)
                live = longer(live)
            parent[rows] = at
            node[rows] = there
            via_symbol[rows] = symbol
            via_edge[rows] = via
            state[rows] = following
            depth[rows] = length
            visit[rows] = visit_offset[following]
            cursor[rows] = 0
            used_bytes += ROW_BYTES
            most_bytes[k] = max(most_bytes[k], used_bytes)
            if strategy == RANDOM:
                live[lives] = rows
                following_row[rows] = lives
                lives += 1
                rows += 1
                continue
            s = following
            if not is_active[s]:
                is_active[s] = True
                active[actives] = s
                actives += 1
                if strategy == SELECTIVITY:
                    priority[s] = -selectivity[s]
                else:
                    total = 0.0
                    for p in range(sharing_offset[s], sharing_offset[s + 1]):
                        total += weight[k, sharing_query[p]] * sharing_similarity[p]
                    priority[s] = total
            neighbours = 0
            for v in range(visit_offset[s], visit_offset[s + 1]):
                low = first_entry(offset, entry_symbol, symbols, there, visit_symbol[v])
                neighbours += (
                    first_entry(offset, entry_symbol, symbols, there, visit_symbol[v] + 1) - low
                )
            overhead = neighbours * average ** max(remaining[s] - 1, 0)
            if overhead > work_bound[k] - work:
                following_row[rows] = waiting[s]
                waiting[s] = rows
            else:
                following_row[rows] = first[s]
                first[s] = rows
            rows += 1
        for a in range(actives):
            s = active[a]
            is_active[s] = False
            first[s] = -1
            waiting[s] = -1
        work_done[k] = work
    return (
        out_question[:outs], out_query[:outs], out_end[:outs], out_score[:outs],
        out_offset[: outs + 1], out_nodes[: out_offset[outs] + outs],
        out_labels[: out_offset[outs]], work_done, most_bytes, complete,
    )  # fmt: skip
