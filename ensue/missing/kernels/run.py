"""Events through the match nodes, one after the other (Algorithms 1 and 2).

Without a history every candidate is extended; with one, at most the budget's number of them once
it is learnt. Conditions on other events are asked of all candidates before one is extended, so that
a number that does not fit changes nothing.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.guards.machine import TRUE
from ensue.kernels.calls import inner_allocating
from ensue.missing.kernels.agents import Agents, Learner, act, begin, credit_agents
from ensue.missing.kernels.guards import Guards, Registers, asked, extend_guarded, join
from ensue.missing.kernels.history import DEPTH, ENTRIES, LEARNING, PHASE, History, visit
from ensue.missing.kernels.nodes import (
    CANDIDATES,
    CANDIDATES_FULL,
    DONE,
    ENDS,
    ENDS_FULL,
    EVENTS,
    GENERATION,
    GUARD_FAILED,
    HISTORY_FULL,
    LINKS,
    NODES_FULL,
    SHED,
    USED,
    WORK,
    Machine,
    Nodes,
    Scratch,
    collect,
    extend,
    report,
)
from ensue.missing.kernels.select import Choice, choose


@njit(cache=True, nogil=True)
def prepare(
    machine: Machine,
    nodes: Nodes,
    history: History,
    choice: Choice,
    agents: Agents,
    ends: NDArray[np.int64],
    kind: int,
    time: float,
    low: int,
    window: float,
    records: bool,
    budget: int,
) -> tuple[int, int, bool]:
    """Candidates of an event: (their number, why there is no room, whether they are too many)."""
    registers = nodes.registers
    count = collect(machine, nodes, choice, kind, time, low, window)
    if count < 0:
        return 0, CANDIDATES_FULL, False
    limited = records and history.registers[PHASE] != LEARNING and count > budget
    most = (min(count, budget) if limited else count) + 2 * agents.node.shape[0] + 1
    if (
        registers[USED] + most > nodes.state.shape[0]
        or registers[LINKS] + most > nodes.before.shape[0]
    ):
        return count, NODES_FULL, limited
    if registers[ENDS] + most > ends.shape[0]:
        return count, ENDS_FULL, limited
    full = records and history.registers[DEPTH] == 0
    if full and history.registers[ENTRIES] + most > history.counts.shape[1]:
        return count, HISTORY_FULL, limited
    return count, DONE, limited


@inner_allocating
def without_made(choice: Choice, nodes: Nodes, fresh: int, count: int) -> int:
    """Leaves out the candidates that agents have extended by links from `fresh` on; how many stay.

    Of one node, the match vector tells the state and the error.
    """
    kept = 0
    for candidate in range(count):
        done = False
        for link in range(fresh, nodes.registers[LINKS]):
            done = done or (
                nodes.before[link] == choice.nodes[candidate]
                and nodes.vector[link] == choice.vectors[candidate]
            )
        if not done:
            for array in (
                choice.nodes, choice.targets, choice.errors, choice.links, choice.vectors,
            ):  # fmt: skip
                array[kept] = array[candidate]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def run(
    machine: Machine,
    nodes: Nodes,
    history: History,
    choice: Choice,
    learner: Learner,
    agents: Agents,
    guards: Guards,
    registers: Registers,
    scratch: Scratch,
    classes: NDArray[np.int32],
    times: NDArray[np.float64],
    lows: NDArray[np.int64],
    place: NDArray[np.int64],
    stop: int,
    shift: int,
    window: float,
    records: bool,
    budget: int,
    adapts: bool,
    ends: NDArray[np.int64],
) -> int:
    """Rows place[0]..stop of a batch; DONE, or why it stopped before row place[0].

    Rows of the partition are those of the batch less `shift`. `records`: there is a history, which
    chooses where the budget is less than the candidates; `adapts`: its second copy is kept up.
    """
    counters = scratch.counters
    for here in range(place[0], stop):
        kind = classes[here]
        if machine.hits[kind] == machine.hits[kind + 1]:
            place[0] = here + 1
            continue
        row, time, low = here - shift, times[here], lows[here] - shift
        count, problem, limited = prepare(
            machine, nodes, history, choice, agents, ends, kind, time, low, window, records, budget
        )
        if problem != DONE:
            return problem
        chosen = count
        if guards.active:
            if limited:
                counters[EVENTS] += 1
                chosen = choose(choice, history, count, counters[EVENTS], min(count, budget))
            for index in range(chosen):
                candidate = choice.order[index] if limited else index
                before, via = choice.nodes[candidate], choice.links[candidate]
                target = choice.targets[candidate]
                verdict = asked(guards, registers, nodes.registers[USED], before, via, target, here)
                if verdict < 0:
                    return GUARD_FAILED
                choice.holds[candidate] = verdict == TRUE
        counters[GENERATION] += 1
        oldest, first = nodes.registers[USED], nodes.registers[ENDS]
        learns = history.registers[PHASE] == LEARNING
        made, fresh = 0, nodes.registers[LINKS]
        exploring = records and adapts and not learns and agents.node.shape[0] > 0
        if exploring:
            made = act(
                machine, nodes, history, learner, agents, scratch, kind, row, time, low, window
            )
            made += begin(
                machine, nodes, history, learner, agents, scratch, kind, row, time, low, window
            )
        left = count
        if made:
            left = without_made(choice, nodes, fresh, count)
        if not guards.active:
            chosen = left
            if limited:
                chosen = max(min(left, budget - made), 0)
                if chosen:
                    counters[EVENTS] += 1
                    chosen = choose(choice, history, left, counters[EVENTS], chosen)
        copy = 0 if learns else 1
        for index in range(chosen):
            candidate = choice.order[index] if limited else index
            before, via = choice.nodes[candidate], choice.links[candidate]
            target, error = choice.targets[candidate], choice.errors[candidate]
            vector = choice.vectors[candidate]
            if records and (learns or adapts):
                visit(history, copy, vector)
            if not guards.active:
                extend(machine, nodes, scratch, before, target, error, via, vector, row, time, low)
            elif choice.holds[candidate]:
                join(guards, registers, nodes.registers[USED], before, via, target, here)
                extend_guarded(
                    machine, nodes, guards, registers, scratch, before, target, error, via, vector,
                    row, time,
                )  # fmt: skip
        counters[WORK] += chosen + made
        counters[CANDIDATES] += count
        counters[SHED] += left - chosen
        report(machine, nodes, history, scratch, ends, oldest, row, time, window, records, adapts)
        if exploring:
            credit_agents(nodes, history, ends, first)
        place[0] = here + 1
    return DONE
