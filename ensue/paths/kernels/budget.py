"""Best-effort search: the most promising partial path first, until a bound is reached.

A row is a partial path and a symbol over which it can go on. Rows that go from one state of the
shared automaton over one symbol serve the same queries and have crossed the same kinds of edges:
such a visit is a cluster of the pattern-sharing degree (SHARP §4.1), and its priority is the
contribution of what it leads to: to the best of the queries that share it, then to all of them
(§4.2). The best cluster is found among the few that are not empty: choosing costs no more than the
automaton is large. A partial path whose estimated overhead (its neighbours times the average number
of neighbours of each step still to come, §5) exceeds what is left of the bound waits behind the
others of its cluster. Children are made one at a time, so a bound of a few units still reaches an
end.

The bound on work is an average over questions: what one leaves unspent is saved, and the next may
use its own share and an eighth of the savings. A question that could not reach any end with that is
passed over, so that the next ones can. The sum never exceeds questions x bound.

A kernel has no clock. Under a bound on time the search is done in slices: it stops after so many
steps and hands out where it stands (`paused`), and goes on from there when called again. What the
time is expected to allow (`horizon`) is known a little better each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.hashing import longer
from ensue.paths.kernels.graph import first_entry, state_after
from ensue.paths.kernels.paths import NO_RETURN, TRAIL, WALK

CONTRIBUTION, RANDOM, SELECTIVITY = 0, 1, 2
ROW_BYTES = 36
ANSWER_BYTES = 16  # and 8 per step
QUESTION, ROWS, ACTIVES, LIVES, BYTES, WORK, ROOTS_DONE, OUTS, BEGUN = range(9)  # of a pause


@njit(cache=True, nogil=True)
def _random(state: np.uint64) -> np.uint64:
    """The next number of a xorshift generator."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@njit(cache=True, nogil=True)
def nothing_yet(visits: int, questions: int) -> tuple[Any, ...]:
    """Where a search stands that has not begun."""
    size = 256
    table = (
        np.empty(size, np.int32),  # parent
        np.empty(size, np.int32),  # node
        np.empty(size, np.int32),  # the symbol and the edge it came over
        np.empty(size, np.int32),
        np.empty(size, np.int32),  # state
        np.empty(size, np.int32),  # depth
        np.empty(size, np.int32),  # the symbol it goes on over, as an index of visit_symbol
        np.empty(size, np.int32),  # how many of its entries are done
        np.empty(size, np.int32),  # the row that follows in its cluster; or its place in `live`
        np.empty(size, np.int32),  # rows that have children left, for the random strategy
    )
    clusters = (
        np.full(visits, -1, np.int32),  # first row
        np.full(visits, -1, np.int32),  # first of those that wait behind the others
        np.zeros(visits, np.float64),  # priority
        np.empty(max(visits, 1), np.int32),
        np.zeros(visits, np.bool_),
    )
    paths = (
        np.empty(size, np.int32),  # question
        np.empty(size, np.int32),  # query
        np.empty(size, np.int32),  # end
        np.empty(size, np.float32),  # score
        np.zeros(size + 1, np.int64),  # offset of the labels
        np.empty(4 * size, np.int32),  # nodes
        np.empty(4 * size, np.int32),  # labels
    )
    told = (
        np.zeros(questions, np.int64),
        np.zeros(questions, np.int64),
        np.ones(questions, np.bool_),
    )
    return np.zeros(9, np.int64), np.zeros(1, np.uint64), table, clusters, paths, told


@njit(cache=True, nogil=True)
def search_best(
    graph: Any,
    machine: Any,
    sharing: Any,  # (offset, query, similarity): queries a state is shared by, and how alike
    targets: Any,  # (offset, state): the states that visit v can lead to
    remaining: NDArray[np.int32],  # per state: least steps to acceptance
    average: float,  # neighbours per node
    selectivity: NDArray[np.float64],  # per visit: entries of its symbol per node
    root_offset: NDArray[np.int64],  # roots of question k: root_node[root_offset[k] ...]
    root_node: NDArray[np.int32],
    root_state: NDArray[np.int32],
    weight: NDArray[np.float32],  # per question and query
    work_bound: float,  # per question, on average
    byte_bound: int,  # per question
    savings: float,  # of the questions before
    hops: int,
    mode: int,
    strategy: int,
    seed: int,
    steps: int,  # until the next pause
    horizon: float,  # work that a question is expected to have time for
    paused: Any,  # `nothing_yet`, or what the call before returned
) -> tuple[Any, ...]:
    """(question, query, end, score, labels' offset, nodes, labels) of the paths found; per question
    the work done, the most bytes held, and whether nothing was left out; then the savings, how many
    questions are done, and where it stands. After a pause, the paths are only those so far."""
    offset, neighbour, edge, entry_symbol, symbols = graph
    (
        transitions, visit_offset, visit_symbol, symbol_class, entry_class, accept_offset,
        accept_query,
    ) = machine  # fmt: skip
    sharing_offset, sharing_query, sharing_similarity = sharing
    target_offset, target_state = targets
    questions = weight.shape[0]
    stand, seeded, table, clusters, paths, told = paused
    parent, node, via_symbol, via_edge, state, depth, visit, cursor, following_row, live = table
    first, waiting, priority, active, is_active = clusters
    out_question, out_query, out_end, out_score, out_offset, out_nodes, out_labels = paths
    work_done, most_bytes, complete = told
    outs = stand[OUTS]
    chance = np.uint64(seed * 2 + 1) * np.uint64(0x9E3779B97F4A7C15)
    if stand[BEGUN]:
        chance = seeded[0]
    done_questions = stand[QUESTION]
    pause = False
    for k in range(stand[QUESTION], questions):
        resumed = stand[BEGUN] > 0
        rows, actives, lives = stand[ROWS], stand[ACTIVES], stand[LIVES]
        used_bytes, work, pending_root = stand[BYTES], stand[WORK], stand[ROOTS_DONE]
        stand[:] = 0
        roots = root_offset[k + 1] - root_offset[k]
        allowed = np.int64(min(work_bound + savings / 8, 2.0**62))
        least = np.int32(2**30)
        for r in range(root_offset[k], root_offset[k + 1]):
            if root_state[r] >= 0:
                least = min(least, remaining[root_state[r]])
        if not resumed and least <= hops and least > allowed:
            savings += work_bound
            complete[k] = False
            done_questions = k + 1
            continue
        while True:
            if pending_root >= roots:
                if steps <= 0:
                    pause = True
                    break
                steps -= 1
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
                        v = active[a]
                        if (first[v] >= 0 or waiting[v] >= 0) and (
                            best < 0 or priority[v] > priority[best]
                        ):
                            best = v
                    if best >= 0:
                        at = first[best] if first[best] >= 0 else waiting[best]
                if at < 0:
                    break
                # Its next child.
                s, here = state[at], node[at]
                there = following = symbol = via = -1
                v, done = visit[at], cursor[at]
                candidate = visit_symbol[v]
                low = first_entry(offset, entry_symbol, symbols, here, candidate)
                high = first_entry(offset, entry_symbol, symbols, here, candidate + 1)
                while low + done < high:
                    entry = low + done
                    done += 1
                    target = state_after(
                        transitions, symbol_class, entry_class, s, candidate, entry
                    )
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
                if there < 0:
                    # No child is left: the row leaves its cluster, and its memory if it is last.
                    if strategy == RANDOM:
                        place = following_row[at]
                        lives -= 1
                        live[place] = live[lives]
                        following_row[live[place]] = place
                    elif first[v] == at:
                        first[v] = following_row[at]
                    else:
                        waiting[v] = following_row[at]
                    if at == rows - 1:
                        rows -= 1
                        used_bytes -= ROW_BYTES
                    continue
                if work >= allowed or used_bytes >= byte_bound:
                    complete[k] = False
                    break
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
            most_bytes[k] = max(most_bytes[k], used_bytes)
            if length == hops:
                continue
            for v in range(visit_offset[following], visit_offset[following + 1]):
                low = first_entry(offset, entry_symbol, symbols, there, visit_symbol[v])
                neighbours = (
                    first_entry(offset, entry_symbol, symbols, there, visit_symbol[v] + 1) - low
                )
                if neighbours == 0:
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
                visit[rows] = v
                cursor[rows] = 0
                used_bytes += ROW_BYTES
                most_bytes[k] = max(most_bytes[k], used_bytes)
                if strategy == RANDOM:
                    live[lives] = rows
                    following_row[rows] = lives
                    lives += 1
                    rows += 1
                    continue
                least = np.int32(2**30)
                for t in range(target_offset[v], target_offset[v + 1]):
                    least = min(least, remaining[target_state[t]])
                if not is_active[v]:
                    is_active[v] = True
                    active[actives] = v
                    actives += 1
                    if strategy == SELECTIVITY:
                        priority[v] = -selectivity[v]
                    else:
                        best_share = likeness = total = 0.0
                        for t in range(target_offset[v], target_offset[v + 1]):
                            s = target_state[t]
                            for p in range(sharing_offset[s], sharing_offset[s + 1]):
                                share = np.float64(weight[k, sharing_query[p]])
                                if share <= 0.0:
                                    continue
                                total += share * sharing_similarity[p]
                                if share > best_share:
                                    best_share, likeness = share, sharing_similarity[p]
                                elif share == best_share:
                                    likeness = max(likeness, sharing_similarity[p])
                        priority[v] = best_share + 1e-3 * likeness + 1e-6 * total
                if neighbours * average**least > min(np.float64(allowed), horizon) - work:
                    following_row[rows] = waiting[v]
                    waiting[v] = rows
                else:
                    following_row[rows] = first[v]
                    first[v] = rows
                rows += 1
        if pause:
            stand[QUESTION], stand[BEGUN], seeded[0] = k, 1, chance
            stand[ROWS], stand[ACTIVES], stand[LIVES] = rows, actives, lives
            stand[BYTES], stand[WORK], stand[ROOTS_DONE] = used_bytes, work, pending_root
            work_done[k] = work
            break
        for a in range(actives):
            v = active[a]
            is_active[v] = False
            first[v] = -1
            waiting[v] = -1
        work_done[k] = work
        savings = max(savings + work_bound - work, 0.0)
        done_questions = k + 1
    stand[OUTS] = outs
    table = (
        parent, node, via_symbol, via_edge, state, depth, visit, cursor, following_row, live,
    )  # fmt: skip
    paths = (out_question, out_query, out_end, out_score, out_offset, out_nodes, out_labels)
    stands = (stand, seeded, table, clusters, paths, told)
    return (
        out_question[:outs], out_query[:outs], out_end[:outs], out_score[:outs],
        out_offset[: outs + 1], out_nodes[: out_offset[outs] + outs],
        out_labels[: out_offset[outs]], work_done, most_bytes, complete, savings, done_questions,
        stands,
    )  # fmt: skip
