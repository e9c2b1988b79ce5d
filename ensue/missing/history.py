"""What was learnt: the history or its sketch, and the Q-table; shared by all partitions.

The sketch's size follows Theorem 4: with c cells and α match vectors on the way to a bundle, on
average, rows of α / ln 2 cells make a false bit least likely. α is not known beforehand, so the
first bundles are learnt in full and then hashed; counts add up and maps unite, so nothing is lost.
"""

from __future__ import annotations

import math

import numpy as np

from ensue import errors
from ensue.automaton.letters import START, LetterStates
from ensue.missing.kernels import history as kernels
from ensue.missing.kernels.agents import Learner
from ensue.missing.nodes import Buckets, links_into
from ensue.operator.state import Kind, pack, unpack
from ensue.query.missing import Effort
from ensue.query.stored import Fingerprint

KIND = Kind("acep history", version=2)
SKETCH_AFTER = 16  # bundles learnt in full before the sketch's size is chosen
MAX_VECTORS = 1 << 24
MAX_VALUES = 1 << 24  # of the Q-table


class Learned:
    """The history of one task, and its agents' Q-table."""

    def __init__(self, states: LetterStates, buckets: Buckets, effort: Effort) -> None:
        if buckets.vectors > MAX_VECTORS:
            raise errors.LimitError(
                f"the pattern has {buckets.vectors:,} match vectors; the limit is {MAX_VECTORS:,}",
                remedy="use smaller repetitions, or leave the budget out",
            )
        self._effort = effort
        self.buckets = buckets
        self.history = full_history(buckets.vectors, effort.history)
        self.learner = learner_of(states, buckets, effort.adapt == "agents")

    @property
    def learning(self) -> bool:
        return bool(self.history.registers[kernels.PHASE] == kernels.LEARNING)

    @property
    def size(self) -> int:
        """Bytes of the history; of a full one, the entries in use and their index."""
        history = self.history
        entry = 2 * (8 + 8 * history.maps.shape[2])
        if history.registers[kernels.DEPTH]:
            return int(history.counts.shape[1] * entry)
        used = int(history.registers[kernels.ENTRIES])
        return used * (entry + 8) + history.slots.nbytes

    def grow(self) -> None:
        """Room for twice as many match vectors."""
        history = self.history
        self.history = history._replace(
            counts=np.concatenate((history.counts, np.zeros_like(history.counts)), axis=1),
            maps=np.concatenate((history.maps, np.zeros_like(history.maps)), axis=1),
            scores=np.concatenate((history.scores, np.zeros_like(history.scores))),
        )

    def settle(self, rows: int) -> None:
        """Between events: a sketch takes the place of the full history; learning may be over."""
        registers = self.history.registers
        cells = self._effort.sketch
        enough = registers[kernels.BUNDLES] >= min(SKETCH_AFTER, self._effort.history)
        if self.learning and rows >= self._effort.learn:
            kernels.end_learning(self.history)
            enough = True
        if cells is not None and registers[kernels.DEPTH] == 0 and enough:
            self.history = sketched(self.history, cells)

    # -- state -----------------------------------------------------------------------------------

    def save(self, query: Fingerprint, numbers: dict[str, int]) -> bytes:
        history, learner = self.history, self.learner
        learned = {"values": learner.values, "tries": learner.tries}
        return pack(KIND, {**history._asdict(), **learned}, numbers, query)

    def load(self, blob: bytes, query: Fingerprint) -> dict[str, int]:
        parts = unpack(KIND, blob, query)
        words = self.history.maps.shape[2]
        self.history = kernels.History(
            parts.array("registers"),
            parts.array("slots"),
            parts.array("counts").reshape(2, -1),
            parts.array("maps").view(np.uint64).reshape(2, -1, words),
            parts.array("scores"),
            parts.array("factors").reshape(-1, 2),
        )
        shape = self.learner.values.shape
        values, tries = (parts.array(name).reshape(shape) for name in ("values", "tries"))
        self.learner = self.learner._replace(values=values, tries=tries)
        return parts.numbers


def full_history(vectors: int, bits: int, entries: int = 256) -> kernels.History:
    registers = np.zeros(kernels.REGISTERS, np.int64)
    registers[kernels.BITS] = bits
    words = -(-bits // 64)
    return kernels.History(
        registers,
        np.full(vectors, -1, np.int32),
        np.zeros((2, entries), np.int64),
        np.zeros((2, entries, words), np.uint64),
        np.zeros(entries, np.float64),
        np.zeros((0, 2), np.int64),
    )


def sketch_shape(cells: int, vectors_per_bundle: float) -> tuple[int, int]:
    """(depth d, length l) with d × l at most c and the least probability of a false bit."""
    length = max(1, min(cells, round(vectors_per_bundle / math.log(2))))
    return max(1, cells // length), length


def sketched(history: kernels.History, cells: int, seed: int = 20160410) -> kernels.History:
    """The same counts and match maps in a sketch with at most that many cells."""
    used = int(history.registers[kernels.ENTRIES])
    maps = np.unpackbits(history.maps[0, :used].view(np.uint8), axis=1)
    per_bundle = maps.sum(axis=0)
    known = per_bundle[per_bundle > 0]
    depth, length = sketch_shape(cells, float(known.mean()) if len(known) else 1.0)
    chance = np.random.default_rng(seed)
    registers = history.registers.copy()
    registers[kernels.DEPTH], registers[kernels.LENGTH] = depth, length
    factors = np.stack([chance.integers(least, kernels.PRIME, depth) for least in (1, 0)], axis=1)
    sketch = kernels.History(
        registers,
        np.zeros(0, np.int32),
        np.zeros((2, depth * length), np.int64),
        np.zeros((2, depth * length, history.maps.shape[2]), np.uint64),
        np.zeros(0, np.float64),
        factors.astype(np.int64),
    )
    for vector in np.flatnonzero(history.slots >= 0).tolist():
        entry = int(history.slots[vector])
        for row in range(depth):
            place = kernels.cell(sketch, row, vector)
            sketch.counts[:, place] += history.counts[:, entry]
            sketch.maps[:, place] |= history.maps[:, entry]
    return sketch


def learner_of(states: LetterStates, buckets: Buckets, used: bool) -> Learner:
    """Algorithm 5: following L-states, distances to a final state, and Q-values of 0."""
    posts: list[list[tuple[int, int]]] = [[] for _ in range(states.states)]
    for number, link in enumerate(links_into(states)):
        if not link.skipped and link.target > link.source:  # others are back edges
            posts[link.source].append((link.target, number))
    distance = distances(states)
    widest = max((len(here) for here in posts), default=0)
    shape = (states.states * buckets.windows * buckets.levels * (widest + 1), 2 * widest + 1)
    if not used:
        shape = (1, 1)
    if shape[0] * shape[1] > MAX_VALUES:
        raise errors.LimitError(
            f"the Q-table of this pattern would have {shape[0] * shape[1]:,} values; the limit is "
            f"{MAX_VALUES:,}",
            remedy='say allow_missing(..., adapt="secondary"), or use smaller repetitions',
        )
    offsets = np.cumsum([0, *map(len, posts)])
    price = [-1] + [
        -1 if states.costs[letter] is None else int(states.costs[letter] or 0)
        for letter in states.letter[1:]
    ]
    return Learner(
        np.zeros(shape, np.float32),
        np.zeros(shape, np.int32),
        offsets.astype(np.int32),
        np.array([target for here in posts for target, _ in here], np.int32),
        np.array([link for here in posts for _, link in here], np.int32),
        np.array(price, np.int32),
        np.array(distance, np.int32),
        np.zeros(states.states, np.bool_),
    )


def distances(states: LetterStates) -> list[int]:
    """Letters from each L-state to a final state, none being skipped."""
    far = states.states + 1
    found = [far] * states.states
    for state in range(states.states):
        if any(not link.skipped for link in states.finals[state]):
            found[state] = 0
    changed = True
    while changed:
        changed = False
        for state in range(states.states - 1, START - 1, -1):
            for link in states.links[state]:
                if not link.skipped and found[link.target] + 1 < found[state]:
                    found[state] = found[link.target] + 1
                    changed = True
    return found
