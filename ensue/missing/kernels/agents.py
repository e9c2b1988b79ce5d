"""Q-learning agents beside the collective decisions (§5, Algorithms 5 and 6).

An agent follows one trajectory: at every matching letter it advances to the L-state that the event
matches, skips to a following one for its cost, or stays put. Its state is (L-state, remaining
window, error, next letter), the next letter being the following L-state that the event matches, or
none. Illegal actions, which Algorithm 5 gives the value -∞, are left out when an action is chosen.
Moving earns R / 2^distance, the distance in letters to a final state, so that matches are worth
most. An action is tried five times before its value counts; of several such, advancing is tried
first and skipping last.

An event that moves a seed (one that has skipped letters for their cost, too) begins an agent, as
long as there is a place: a few agents, whose extensions are work like any other.

Where an agent goes is written to the second copy of the history at once. A match that it completes
is written to the copy that decides, so that the collective decisions take it up: the vectors on its
way with their visit, and its bundle in place of the oldest one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.calls import inner_allocating
from ensue.missing.constants import DISCOUNT, RATE, REWARD, TRIES
from ensue.missing.kernels.history import (
    DEPTH,
    PHASE,
    RUNNING,
    History,
    credit,
    oldest_bit,
    rescore,
    visit,
)
from ensue.missing.kernels.nodes import (
    AGENT_BIT,
    AGENT_SERIAL,
    ENDS,
    LEVELS,
    LINKS,
    MOST,
    NONE,
    SERIAL,
    UNITS,
    WINDOWS,
    Machine,
    Nodes,
    Scratch,
    extend,
    vector_of,
)

STAY = 0  # actions: stay, advance to following state j (1 + 2 j), skip to it (2 + 2 j)


class Learner(NamedTuple):
    """The Q-table, and what the automaton says of states; shared by all partitions."""

    values: NDArray[np.float32]  # Q[state, action]
    tries: NDArray[np.int32]  # n[state, action]
    posts: NDArray[np.int32]  # offsets by L-state
    following: NDArray[np.int32]  # L-states that may come next, back edges left out
    links: NDArray[np.int32]  # the automaton's link of each
    price: NDArray[np.int32]  # cost of skipping an L-state's letter, -1 where it is required
    distance: NDArray[np.int32]  # letters to a final state
    hit: NDArray[np.bool_]  # scratch: L-states that the event matches


class Agents(NamedTuple):
    """Agents of one partition; `node` NONE is a free place."""

    node: NDArray[np.int32]
    state: NDArray[np.int32]
    error: NDArray[np.int32]
    q_state: NDArray[np.int64]
    action: NDArray[np.int32]
    reward: NDArray[np.float64]


@njit(cache=True, nogil=True)
def learning_rate(tries: int) -> float:
    return RATE / (RATE - 1.0 + tries)


@inner_allocating
def _learn(learner: Learner, agents: Agents, agent: int, best: float) -> None:
    """Q[s', a'] += α(n) (r' + γ max Q[s, a] - Q[s', a'])."""
    state, action = agents.q_state[agent], agents.action[agent]
    if state < 0:
        return
    learner.tries[state, action] += 1
    known = learner.values[state, action]
    rate = learning_rate(learner.tries[state, action])
    learner.values[state, action] = known + rate * (agents.reward[agent] + DISCOUNT * best - known)


@inner_allocating
def _free(learner: Learner, agents: Agents, agent: int) -> None:
    """The agent has come to an end: nothing more is to be earned."""
    _learn(learner, agents, agent, 0.0)
    agents.node[agent] = NONE
    agents.q_state[agent] = -1


@inner_allocating
def q_state_of(
    machine: Machine, learner: Learner, state: int, error: int, remaining: int, letter: int
) -> int:
    width = (learner.values.shape[1] - 1) // 2 + 1
    bound = machine.bound
    level = min(error // bound[UNITS], bound[LEVELS] - 1)
    return ((state * bound[WINDOWS] + remaining) * bound[LEVELS] + level) * width + letter


@inner_allocating
def act(
    machine: Machine,
    nodes: Nodes,
    history: History,
    learner: Learner,
    agents: Agents,
    scratch: Scratch,
    kind: int,
    row: int,
    time: float,
    low: int,
    window: float,
) -> int:
    """Every agent's next action; how many extensions were made."""
    made = 0
    bound, windows = machine.bound[MOST], machine.bound[WINDOWS]
    first_hit, last_hit = machine.hits[kind], machine.hits[kind + 1]
    for index in range(first_hit, last_hit):
        learner.hit[machine.states[index]] = True
    for agent in range(agents.node.shape[0]):
        node = agents.node[agent]
        if node == NONE:
            continue
        state = agents.state[agent]
        begin, end = learner.posts[state], learner.posts[state + 1]
        if nodes.first[node] < low or begin == end:
            _free(learner, agents, agent)
            continue
        letter = (learner.values.shape[1] - 1) // 2
        for post in range(begin, end):
            if learner.hit[learner.following[post]]:
                letter = post - begin
                break
        gone = time - nodes.since[node]
        remaining = int((window - gone) / window * windows) if window > 0.0 else 0
        remaining = min(max(remaining, 0), windows - 1)
        here = q_state_of(machine, learner, state, agents.error[agent], remaining, letter)
        best, action = learner.values[here, STAY], STAY
        # Actions that were not tried often enough come first: to advance, to stay, to skip.
        curious = 2 if learner.tries[here, STAY] < TRIES else 0
        for post in range(begin, end):
            target = learner.following[post]
            if post - begin == letter:
                option, eager = 1 + 2 * letter, 3
            else:
                price = learner.price[target]
                if price < 0 or agents.error[agent] + price > bound:
                    continue
                option, eager = 2 + 2 * (post - begin), 1
            value = learner.values[here, option]
            best = max(best, value)
            if learner.tries[here, option] >= TRIES:
                eager = 0
            if eager > curious or (eager == curious == 0 and value > learner.values[here, action]):
                curious, action = eager, option
        _learn(learner, agents, agent, best)
        agents.q_state[agent], agents.action[agent], agents.reward[agent] = here, action, 0.0
        if action == STAY:
            continue
        post = begin + (action - 1) // 2
        target = learner.following[post]
        if action % 2 == 1:
            error = agents.error[agent]
            idle = time - nodes.time[node]
            vector = vector_of(machine, target, error, gone, idle, window)
            made += 1
            visit(history, 1, vector)
            longer = extend(
                machine, nodes, scratch, node, target, error, learner.links[post], vector, row,
                time, low,
            )  # fmt: skip
            if longer == NONE:
                _free(learner, agents, agent)
                continue
            nodes.agent[longer] = nodes.registers[LINKS] - 1
            agents.node[agent] = longer
        else:
            agents.error[agent] += learner.price[target]
        agents.state[agent] = target
        agents.reward[agent] = REWARD / 2.0 ** learner.distance[target]
    for index in range(first_hit, last_hit):
        learner.hit[machine.states[index]] = False
    return made


@inner_allocating
def begin(
    machine: Machine,
    nodes: Nodes,
    history: History,
    learner: Learner,
    agents: Agents,
    scratch: Scratch,
    kind: int,
    row: int,
    time: float,
    low: int,
    window: float,
) -> int:
    """A new agent for each seed that the event moves, while places last; extensions made."""
    made, place = 0, 0
    places = agents.node.shape[0]
    for index in range(machine.hits[kind], machine.hits[kind + 1]):
        target = machine.states[index]
        for link in range(machine.into[target], machine.into[target + 1]):
            error = machine.costs[link]
            if machine.sources[link] != 0 or error > machine.bound[MOST]:
                continue
            while place < places and agents.node[place] != NONE:
                if nodes.first[agents.node[place]] < low:
                    _free(learner, agents, place)
                else:
                    place += 1
            if place == places:
                return made
            vector = vector_of(machine, target, error, 0.0, 0.0, window)
            visit(history, 1, vector)
            made += 1
            node = extend(
                machine, nodes, scratch, NONE, target, error, link, vector, row, time, low
            )
            if node == NONE:
                continue
            nodes.agent[node] = nodes.registers[LINKS] - 1
            agents.node[place] = node
            agents.state[place] = target
            agents.error[place] = error
            agents.q_state[place] = -1
    return made


@inner_allocating
def _adopt(history: History, vector: int, bit: int) -> None:
    """A vector on the way to a bundle that an agent found: the deciding copy is told."""
    if history.registers[DEPTH] == 0 and history.slots[vector] >= 0:
        entry = history.slots[vector]
        if history.scores[entry] == 0.0:
            # Its old visits came to nothing and say nothing of the stream as it is now.
            history.counts[0, entry] = max(1, history.counts[1, entry])
        else:
            visit(history, 0, vector)
        credit(history, 0, vector, bit)
        rescore(history, entry)
    else:
        visit(history, 0, vector)
        credit(history, 0, vector, bit)


@inner_allocating
def credit_agents(nodes: Nodes, history: History, ends: NDArray[np.int64], first: int) -> None:
    """Matches that agents completed: their vectors lead to a new bundle of the deciding copy."""
    registers = nodes.registers
    if history.registers[PHASE] != RUNNING:
        return
    for end in range(first, registers[ENDS]):
        node = ends[end, 1]
        if nodes.agent[node] == NONE:
            continue
        if registers[AGENT_SERIAL] != registers[SERIAL]:
            registers[AGENT_SERIAL] = registers[SERIAL]
            registers[AGENT_BIT] = oldest_bit(history)
        while node != NONE and nodes.agent[node] != NONE:
            link = nodes.agent[node]
            _adopt(history, nodes.vector[link], registers[AGENT_BIT])
            node = nodes.before[link]
