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

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating
from ensue.kernels.stop import asked
from ensue.paths.kernels.graph import Adjacency, Moves, doubled, first_entry, next_entry
from ensue.paths.kernels.paths import EDGE, NO_RETURN, NODE, PARENT, STATE, SYMBOL, repeats

CONTRIBUTION, RANDOM, SELECTIVITY = 0, 1, 2
ROW_BYTES = 36
ANSWER_BYTES = 16  # and 8 per step
# Columns of a partial path's row behind those that all searches have: its length; the symbol it
# goes on over, as an index of visit_symbol; how many of its entries are done; the row that follows
# in its cluster, or its place in `live`.
DEPTH, VISIT, DONE, BEHIND, COLUMNS = range(5, 10)
QUESTION, ROWS, ACTIVES, LIVES, BYTES, WORK, ROOTS_DONE, OUTS, BEGUN = range(9)  # of a pause


class Piece(NamedTuple):
    """What was found for some questions."""

    found: NDArray[np.int32]  # one row per path: question, query, end
    score: NDArray[np.float32]
    offset: NDArray[np.int64]  # of each path's labels
    nodes: NDArray[np.int32]
    labels: NDArray[np.int32]
    work: NDArray[np.int64]  # per question
    bytes: NDArray[np.int64]  # per question: the most that were held
    complete: NDArray[np.bool_]  # per question: nothing was left out
    savings: float
    done: int  # questions
    paused: Any  # where it stands


@inner_allocating
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
    partials = np.empty((size, COLUMNS), np.int32)
    live = np.empty(size, np.int32)  # rows that have children left, for the random strategy
    clusters = (
        np.full(visits, -1, np.int32),  # first row
        np.full(visits, -1, np.int32),  # first of those that wait behind the others
        np.zeros(visits, np.float64),  # priority
        np.empty(max(visits, 1), np.int32),
        np.zeros(visits, np.bool_),
    )
    paths = (
        np.empty((size, 3), np.int32),  # question, query, end
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
    return np.zeros(9, np.int64), np.zeros(1, np.uint64), partials, live, clusters, paths, told


@njit(cache=True, nogil=True)
def search_best(
    graph: Adjacency,
    automaton: Moves,
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
) -> Piece:
    """The questions' paths; after a pause, only those so far."""
    visit_offset, visit_symbol = automaton.visit_offset, automaton.visit_symbol
    accept_offset, accept_query = automaton.accept_offset, automaton.accept_query
    sharing_offset, sharing_query, sharing_similarity = sharing
    target_offset, target_state = targets
    questions = weight.shape[0]
    stand, seeded, partials, live, clusters, paths, told = paused
    first, waiting, priority, active, is_active = clusters
    found, out_score, out_offset, out_nodes, out_labels = paths
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
                if steps <= 0 or asked():
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
                s, here, v = partials[at, STATE], partials[at, NODE], partials[at, VISIT]
                there = symbol = via = -1
                start = at
                while mode == NO_RETURN and partials[start, PARENT] >= 0:
                    start = partials[start, PARENT]
                low = first_entry(graph, here, visit_symbol[v])
                high = first_entry(graph, here, visit_symbol[v] + 1)
                entry, following = next_entry(automaton, s, v, low + partials[at, DONE] - 1, high)
                while following >= 0:
                    other, via = graph.neighbour[entry], graph.edge[entry]
                    if not repeats(mode, partials, at, other, via, partials[start, NODE]):
                        there, symbol = other, visit_symbol[v]
                        break
                    entry, following = next_entry(automaton, s, v, entry, high)
                if there < 0:
                    # No child is left: the row leaves its cluster, and its memory if it is last.
                    if strategy == RANDOM:
                        place = partials[at, BEHIND]
                        lives -= 1
                        live[place] = live[lives]
                        partials[live[place], BEHIND] = place
                    elif first[v] == at:
                        first[v] = partials[at, BEHIND]
                    else:
                        waiting[v] = partials[at, BEHIND]
                    if at == rows - 1:
                        rows -= 1
                        used_bytes -= ROW_BYTES
                    continue
                if work >= allowed or used_bytes >= byte_bound:
                    complete[k] = False
                    break
                partials[at, DONE] = entry + 1 - low
                work += 1

            length = 0 if at < 0 else partials[at, DEPTH] + 1
            if accept_offset[following] < accept_offset[following + 1]:
                for a in range(accept_offset[following], accept_offset[following + 1]):
                    query = accept_query[a]
                    if weight[k, query] <= 0.0:
                        continue
                    if outs == found.shape[0]:
                        found, out_score = doubled(found), doubled(out_score)
                        out_offset = doubled(out_offset)
                    place = out_offset[outs]
                    while place + outs + length + 1 > out_nodes.shape[0]:
                        out_nodes = doubled(out_nodes)
                    while place + length > out_labels.shape[0]:
                        out_labels = doubled(out_labels)
                    out_offset[outs + 1] = place + length
                    out_nodes[place + outs + length] = there
                    if length:
                        out_labels[place + length - 1] = symbol
                    back, step = at, length - 1
                    while back >= 0:
                        out_nodes[place + outs + step] = partials[back, NODE]
                        if step:
                            out_labels[place + step - 1] = partials[back, SYMBOL]
                        back = partials[back, PARENT]
                        step -= 1
                    found[outs, 0], found[outs, 1], found[outs, 2] = k, query, there
                    out_score[outs] = weight[k, query]
                    outs += 1
                    used_bytes += ANSWER_BYTES + 8 * length
            most_bytes[k] = max(most_bytes[k], used_bytes)
            if length == hops:
                continue
            for v in range(visit_offset[following], visit_offset[following + 1]):
                low = first_entry(graph, there, visit_symbol[v])
                neighbours = first_entry(graph, there, visit_symbol[v] + 1) - low
                if neighbours == 0:
                    continue
                if rows == partials.shape[0]:
                    partials, live = doubled(partials), doubled(live)
                partials[rows, PARENT], partials[rows, NODE] = at, there
                partials[rows, SYMBOL], partials[rows, EDGE] = symbol, via
                partials[rows, STATE], partials[rows, DEPTH] = following, length
                partials[rows, VISIT], partials[rows, DONE] = v, 0
                used_bytes += ROW_BYTES
                most_bytes[k] = max(most_bytes[k], used_bytes)
                if strategy == RANDOM:
                    live[lives] = rows
                    partials[rows, BEHIND] = lives
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
                    partials[rows, BEHIND] = waiting[v]
                    waiting[v] = rows
                else:
                    partials[rows, BEHIND] = first[v]
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
    paths = (found, out_score, out_offset, out_nodes, out_labels)
    stands = (stand, seeded, partials, live, clusters, paths, told)
    return Piece(
        found[:outs], out_score[:outs], out_offset[: outs + 1],
        out_nodes[: out_offset[outs] + outs], out_labels[: out_offset[outs]], work_done,
        most_bytes, complete, savings, done_questions, stands,
    )  # fmt: skip
