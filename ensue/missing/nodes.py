"""Match nodes in arrays that grow: those of a partition, and what all partitions share.

A *track* is one partition: the rows that partial matches, and the conditions ahead, may still read,
how far matching has come, and its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.letters import LetterStates, Link
from ensue.missing.constants import LEVELS, TIMES, WINDOWS
from ensue.missing.kernels import nodes as kernels
from ensue.missing.kernels.agents import Agents
from ensue.missing.kernels.guards import Guards, Registers
from ensue.missing.kernels.select import Choice
from ensue.sequences.batch import EventBatch
from ensue.stopping import look

NODE_FIELDS: dict[str, type] = {
    "state": np.int32, "row": np.int64, "error": np.int32, "first": np.int64, "time": np.float64,
    "since": np.float64, "below": np.int32, "head": np.int32, "seen": np.int64, "agent": np.int32,
}  # fmt: skip
LINK_FIELDS = ("before", "more", "vector", "via")
AGENT_FIELDS: dict[str, type] = {
    "node": np.int32, "state": np.int32, "error": np.int32, "q_state": np.int64,
    "action": np.int32, "reward": np.float64,
}  # fmt: skip
NONE = kernels.NONE


@dataclass(frozen=True)
class Buckets:
    """How a match vector is discretised, and how many vectors there are."""

    states: int
    bound: int
    levels: int
    windows: int = WINDOWS
    times: int = TIMES

    @staticmethod
    def of(states: LetterStates) -> Buckets:
        return Buckets(states.states, states.bound, min(states.bound + 1, LEVELS))

    @property
    def vectors(self) -> int:
        return self.states * self.windows * self.levels * self.times

    def array(self) -> NDArray[np.int64]:
        level = -(-(self.bound + 1) // self.levels)
        return np.array([self.bound, self.windows, self.levels, self.times, level], np.int64)


def links_into(states: LetterStates) -> list[Link]:
    """All links by target; the kernels number them so."""
    return sorted((k for links in states.links for k in links), key=lambda link: link.target)


def machine_of(
    states: LetterStates, buckets: Buckets, bits: list[int], proxy: bool, merge: bool
) -> kernels.Machine:
    """The automaton for the classes of events of one batch."""
    links = links_into(states)
    offsets = np.searchsorted([link.target for link in links], range(states.states + 1))
    hits, hit_states = [0], []
    for value in bits:
        hit_states += [s for s in range(1, states.states) if value >> states.letter[s] & 1]
        hits.append(len(hit_states))
    nowhere = states.bound + 1
    costs = [states.final_cost(state) for state in range(states.states)]
    return kernels.Machine(
        offsets.astype(np.int32),
        np.array([link.source for link in links], np.int32),
        np.array([link.cost for link in links], np.int32),
        np.array(hits, np.int32),
        np.array(hit_states, np.int32),
        np.array([nowhere if cost is None else cost for cost in costs], np.int32),
        buckets.array(),
        proxy,
        merge,
    )


@dataclass(frozen=True)
class Rows:
    """A batch of rows as the kernels read it."""

    batch: EventBatch
    machine: kernels.Machine
    classes: NDArray[np.int32]
    times: NDArray[np.float64]
    lows: NDArray[np.int64]

    @staticmethod
    def of(batch: EventBatch, states: LetterStates, proxy: bool, merge: bool) -> Rows:
        classes, bits = batch.classes
        order, size = batch.order, batch.table.num_rows
        return Rows(
            batch,
            machine_of(states, Buckets.of(states), bits, proxy, merge),
            classes,
            np.arange(size, dtype=np.float64) if order is None else order.astype(np.float64),
            np.zeros(size, np.int64) if batch.low is None else batch.low,
        )


@dataclass
class Track:
    """One partition; local rows count from `base`, the first row held."""

    base: int = 0
    done: int = 0  # rows through the engine, of the whole partition
    number: int = 0  # matches reported
    rows: pa.Table | None = None
    kept: NodeStore | None = None
    last: float | None = None  # order value of the last row, where time matters

    @property
    def length(self) -> int:
        return 0 if self.rows is None else int(self.rows.num_rows)

    @property
    def waiting(self) -> bool:
        return self.kept is not None


class NodeStore:
    """One partition's nodes and agents."""

    def __init__(self, states: int, levels: int, places: int, capacity: int = 256) -> None:
        arrays: dict[str, Any] = {
            name: np.zeros(capacity, kind) for name, kind in NODE_FIELDS.items()
        }
        arrays |= {name: np.zeros(2 * capacity, np.int32) for name in LINK_FIELDS}
        self.nodes = kernels.Nodes(
            registers=np.zeros(kernels.REGISTERS, np.int64),
            top=np.full(states, NONE, np.int32),
            best=np.full((states, levels), NONE, np.int32),
            last_match=np.zeros(1, np.float64),
            **arrays,
        )
        self.ends = np.zeros((capacity, 2), np.int64)
        self.agents = empty_agents(places)
        self.registers = no_registers()

    @property
    def capacity(self) -> int:
        return len(self.nodes.state)

    @property
    def size(self) -> int:
        """What the nodes in use take."""
        used, links = self.nodes.registers[kernels.USED], self.nodes.registers[kernels.LINKS]
        node = sum(np.dtype(kind).itemsize for kind in NODE_FIELDS.values())
        return int(used * node + links * 4 * len(LINK_FIELDS))

    def make_room(self, low: int) -> None:
        """Forgets what the window has left, and grows where that is not enough."""
        registers = self.nodes.registers
        before = int(registers[kernels.USED])
        self.compact(low)
        used, links = int(registers[kernels.USED]), int(registers[kernels.LINKS])
        if 2 * used > self.capacity or 2 * links > len(self.nodes.before) or used == before:
            self.grow()

    def compact(self, low: int) -> None:
        """Forgets what the window has left."""
        moved = kernels.compact(self.nodes, low)
        agents = self.agents.node
        live = agents != NONE
        agents[live] = moved[agents[live]]
        kept = np.flatnonzero(moved != NONE)
        if len(self.registers.gone):
            for array in self.registers:
                array[: len(kept)] = array[kept]

    def grow(self) -> None:
        wider = {name: _twice(getattr(self.nodes, name)) for name in (*NODE_FIELDS, *LINK_FIELDS)}
        self.nodes = self.nodes._replace(**wider)
        if len(self.registers.gone):
            self.registers = Registers(*map(_twice, self.registers))

    def keep_registers(self, guards: Guards) -> None:
        """Room for the registers of conditions on other events."""
        if len(self.registers.gone) < self.capacity:
            machine = guards.machine
            self.registers = registers_of(
                self.capacity, len(machine.initial_ints), len(machine.initial_floats)
            )

    def listed(
        self, letters: NDArray[np.int32]
    ) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]]:
        """(row, labels, rows, links) of each trajectory of the ends since the last call."""
        registers = self.nodes.registers
        ends = self.ends[: int(registers[kernels.ENDS])]
        deep = int(registers[kernels.USED]) + 1
        path = np.zeros(deep, np.int32), np.zeros(deep, np.int32)
        labels, rows = np.zeros(1 << 12, np.int32), np.zeros(1 << 12, np.int64)
        links = np.zeros(1 << 12, np.int32)
        lengths = np.zeros(256, np.int64)
        place = np.zeros(2, np.int64)
        for row, end in ends.tolist():
            while True:
                look()
                found = kernels.trajectories(
                    self.nodes, letters, end, place, *path, labels, rows, links, lengths
                )
                begin = 0
                for length in lengths[:found].tolist():
                    part = slice(begin, begin + length)
                    yield row, labels[part], rows[part], links[part]
                    begin += length
                if place[0] == 0:
                    break
                if found == 0:
                    labels, rows, links = _twice(labels), _twice(rows), _twice(links)
        registers[kernels.ENDS] = 0

    # -- state -----------------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        nodes, registers = self.nodes, self.nodes.registers
        used, links = int(registers[kernels.USED]), int(registers[kernels.LINKS])
        agents = self.agents._asdict()
        return {
            "nodes": pa.table({name: getattr(nodes, name)[:used] for name in NODE_FIELDS}),
            "links": pa.table({name: getattr(nodes, name)[:links] for name in LINK_FIELDS}),
            "registers": pa.table({"value": registers}),
            "top": pa.table({"value": nodes.top}),
            "best": pa.table({"value": nodes.best.ravel()}),
            "last": pa.table({"value": nodes.last_match}),
            "agents": pa.table({name: agents[name] for name in AGENT_FIELDS}),
        }

    def restore(self, tables: dict[str, pa.Table]) -> None:
        used, links = tables["nodes"].num_rows, tables["links"].num_rows
        while self.capacity < used or len(self.nodes.before) < links:
            self.grow()
        for group, names, size in (("nodes", NODE_FIELDS, used), ("links", LINK_FIELDS, links)):
            for name in names:
                getattr(self.nodes, name)[:size] = tables[group].column(name).to_numpy()
        for name, array in (("registers", self.nodes.registers), ("top", self.nodes.top),
                            ("last", self.nodes.last_match)):  # fmt: skip
            array[:] = tables[name].column("value").to_numpy()
        best = tables["best"].column("value").to_numpy()
        self.nodes.best[:] = best.reshape(self.nodes.best.shape)
        agents = tables["agents"]
        self.agents = Agents(*(agents.column(name).to_numpy().copy() for name in AGENT_FIELDS))
        self._check(used, links)

    def _check(self, used: int, links: int) -> None:
        """Numbers that kernels follow lead somewhere; else the state is damaged."""
        nodes, registers = self.nodes, self.nodes.registers
        states, _ = nodes.best.shape
        node, link = np.arange(used), np.arange(links)
        held = [registers[kernels.USED] == used, registers[kernels.LINKS] == links]
        held += [0 <= registers[kernels.ENDS] <= len(self.ends)]
        held += [within(nodes.state[:used], 0, states), within(nodes.head[:used], 0, links)]
        held += [within(nodes.below[:used], NONE, node), within(nodes.agent[:used], NONE, links)]
        held += [within(nodes.before[:links], NONE, used), within(nodes.more[:links], NONE, link)]
        held += [within(nodes.top, NONE, used), within(nodes.best, NONE, used)]
        held += [within(self.agents.node, NONE, used), within(nodes.error[:used], 0, 1 << 30)]
        if not all(held):
            raise ValueError("a stored number leads nowhere")


def within(values: NDArray[Any], low: int, high: int | NDArray[np.int64]) -> bool:
    return bool(np.all((values >= low) & (values < high)))


def registers_of(nodes: int, ints: int, floats: int) -> Registers:
    return Registers(
        np.zeros((nodes, ints), np.int64), np.zeros((nodes, floats)), np.zeros(nodes, np.int64)
    )


def no_registers() -> Registers:
    return registers_of(0, 1, 1)


def empty_agents(places: int) -> Agents:
    arrays: dict[str, Any] = {n: np.zeros(places, kind) for n, kind in AGENT_FIELDS.items()}
    agents = Agents(**arrays)
    agents.node[:] = NONE
    agents.q_state[:] = -1
    return agents


def _twice(array: np.ndarray) -> np.ndarray:
    return np.concatenate((array, np.zeros_like(array)))


class Desk:
    """Arrays for the candidates of one event, shared by all partitions."""

    def __init__(self, vectors: int, bits: int) -> None:
        self._candidates, self._vectors, self._bits = 256, vectors, bits
        self.counters = np.zeros(kernels.COUNTERS, np.int64)
        self.choice = choice_of(self._candidates, vectors, bits)
        self._scratch = scratch_of(self._candidates, 256, self.counters)

    def scratch(self, store: NodeStore) -> kernels.Scratch:
        """With room to trace all nodes of a partition."""
        if len(self._scratch.stack) < store.capacity:
            self._scratch = scratch_of(self._candidates, store.capacity, self.counters)
        return self._scratch

    def make_room(self, problem: int, store: NodeStore, low: int) -> None:
        """For what the kernels stopped at; matches found so far are listed."""
        if problem == kernels.NODES_FULL:
            store.make_room(low)
        elif problem == kernels.ENDS_FULL and len(store.ends) < 2 * self._candidates:
            store.ends = np.zeros((2 * len(store.ends), 2), np.int64)
        elif problem == kernels.CANDIDATES_FULL:
            before = self.choice
            self._candidates *= 2
            self.choice = choice_of(self._candidates, self._vectors, self._bits)
            self.choice.promise[:], self.choice.stamps[:] = before.promise, before.stamps
            stack = len(self._scratch.stack)
            self._scratch = scratch_of(self._candidates, stack, self.counters)


def scratch_of(candidates: int, stack: int, counters: NDArray[np.int64]) -> kernels.Scratch:
    slots = 1 << max(6, (4 * candidates).bit_length())
    return kernels.Scratch(
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int32),
        np.zeros(slots, np.int64),
        np.zeros(stack, np.int32),
        counters,
    )


def choice_of(candidates: int, vectors: int, bits: int) -> Choice:
    groups = min(candidates, vectors)
    words = -(-bits // 64)

    def of(size: int, kind: type) -> np.ndarray:
        return np.zeros(size, kind)

    return Choice(
        nodes=of(candidates, np.int32),
        targets=of(candidates, np.int32),
        errors=of(candidates, np.int32),
        links=of(candidates, np.int32),
        vectors=of(candidates, np.int32),
        holds=of(candidates, np.bool_),
        onward=of(candidates, np.int32),
        group_of=of(vectors, np.int32),
        stamps=of(vectors, np.int64),
        group_vector=of(groups, np.int32),
        group_head=of(groups, np.int32),
        weight=of(groups, np.float64),
        maps=np.zeros((groups, words), np.uint64),
        score=of(groups, np.float64),
        initial=of(groups, np.float64),
        version=of(groups, np.int64),
        heap=of(2 * groups, np.int32),
        covered=of(64 * words, np.float64),
        table=np.zeros((groups + 2, words), np.uint64),
        order=of(candidates, np.int32),
        promise=of(2, np.float64),
    )
