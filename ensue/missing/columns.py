"""The output of matches with events missing: the usual columns, and what was missing.

`errors` is the total cost (how many events are missing; a double where weights are given),
`missing` their labels in order, and `missing_at` says for each how many events of the match come
before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.missing.words import Answer, Words
from ensue.query.missing import COLUMNS
from ensue.sequences.batch import EventBatch
from ensue.sequences.output import Found, Output

LABELS = pa.list_(pa.string())
PLACES = pa.list_(pa.int32())
# Odd multipliers of a polynomial hash of label lists.
_BASE = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class FoundMissing(Found):
    """Matches whose missing events the engine knows already."""

    answers: list[Answer] = field(default_factory=list)

    def add_answer(
        self, partition: int, number: int, pairs: Sequence[tuple[int, int]], answer: Answer
    ) -> None:
        self.add(partition, number, pairs)
        self.answers.append(answer)


@dataclass(frozen=True)
class MissingOutput(Output):
    """Columns of the result for one query."""

    words: Words = field(kw_only=True)

    def table(self, batch: EventBatch, found: Found) -> pa.Table:
        table = super().table(batch, found)
        for name, column in zip(COLUMNS, self._missing(found), strict=True):
            table = table.append_column(name, column)
        return table

    def _missing(self, found: Found) -> tuple[pa.Array, pa.Array, pa.Array]:
        if isinstance(found, FoundMissing):
            return told(self.plan, found.answers)
        missing = self.plan.query.missing
        assert missing is not None
        size = len(found)
        if missing.units == 0 and all(missing.cost(label) for label in self.plan.query.labels):
            nothing = np.zeros(size, np.int64)
            return tuple(column.take(pa.array(nothing)) for column in told(self.plan, [(0, 0, ())]))
        lengths = np.array(found.length, np.int64)
        labels = np.array(found.labels, np.int64)
        chosen, inverse = distinct(labels, lengths)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        answers = []
        for match in chosen.tolist():
            word = tuple(labels[offsets[match] : offsets[match + 1]].tolist())
            answer = self.words.missing(word)
            assert answer is not None, word
            answers.append(answer)
        known = told(self.plan, answers)
        return tuple(column.take(pa.array(inverse)) for column in known)


def told(plan: Plan, answers: Sequence[Answer]) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The three columns of these answers."""
    query = plan.query
    assert query.missing is not None
    names = query.labels
    if query.missing.weights:
        scale = query.missing.scale
        costs = pa.array([cost / scale for cost, _, _ in answers], pa.float64())
    else:
        scale = query.missing.scale
        costs = pa.array([cost // scale for cost, _, _ in answers], pa.int64())
    labels = pa.array([[names[label] for _, label in gone] for _, _, gone in answers], LABELS)
    places = pa.array([[-place for place, _ in gone] for _, _, gone in answers], PLACES)
    return costs, labels, places


def distinct(
    labels: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One match of each distinct list of labels, and for each match the number of its list."""
    if not len(lengths):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    begins = ends - lengths
    within = np.arange(len(labels), dtype=np.int64) - np.repeat(begins, lengths)
    with np.errstate(over="ignore"):
        mixed = (labels.astype(np.uint64) + np.uint64(1)) * _power(within)
        mixed ^= mixed >> np.uint64(29)
        sums = np.add.reduceat(mixed * _BASE, begins) + lengths.astype(np.uint64)
    _, chosen, inverse = np.unique(sums, return_index=True, return_inverse=True)
    inverse = inverse.ravel()
    # Two lists of one hash are distinguished by comparing every list with the one chosen for it.
    same = lengths == lengths[chosen[inverse]]
    if same.all():
        other = np.repeat(begins[chosen[inverse]], lengths) + within
        same = np.logical_and.reduceat(labels == labels[other], begins)
    if same.all():
        return chosen.astype(np.int64), inverse.astype(np.int64)
    known: dict[Any, int] = {}
    firsts: list[int] = []
    numbers = np.empty(len(lengths), np.int64)
    for match in range(len(lengths)):
        word = labels[begins[match] : ends[match]].tobytes()
        if word not in known:
            known[word] = len(firsts)
            firsts.append(match)
        numbers[match] = known[word]
    return np.array(firsts, np.int64), numbers


def _power(exponents: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A pseudo-random odd factor per place."""
    mixed = exponents.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9) + _BASE
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed | np.uint64(1)
