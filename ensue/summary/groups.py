"""Equality of an attribute over some labels: `equal={"user": ["b", "c"]}` (SuSe §5.3).

Events of the named labels take part only in matches whose other such events have the same value;
events of the other labels are free. The retained events are read once per value: the keyed events
of that value and all free ones (the paper replicates those). A match without a keyed event would
be seen with every value, so it is counted apart, once.

Scoring reads the summary once per value that is retained; that is the price of the predicate. Where
every label is named, `partition_by` says the same and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.arrange import flat
from ensue.operator.protocol import key_value
from ensue.query.query import Query
from ensue.scalar.moments import values_of
from ensue.summary.kernels import expect
from ensue.summary.kernels import select as kernel
from ensue.summary.kernels.arrays import Tables
from ensue.summary.recall import Matches
from ensue.summary.store import LEARN_EVERY, Selection, Store, refreshed, subset_scores, with_shares


@dataclass
class Groups:
    """The attribute, the labels that it binds, and the values seen so far in order."""

    column: str
    keyed: int  # bits of the labels
    known: list[Any] = field(default_factory=list)
    _place: dict[Any, int] = field(default_factory=dict)

    def codes(self, table: pa.Table) -> NDArray[np.int64]:
        """A number for the value in each row; −1 for null, which equals nothing."""
        names = {name.casefold(): name for name in table.column_names}
        if self.column.casefold() not in names:
            raise errors.UnknownColumnError(
                f"equal: the input has no column {self.column!r}",
                remedy=f"columns are: {', '.join(table.column_names)}",
            )
        encoded = flat(table, names[self.column.casefold()]).dictionary_encode()
        values = values_of(encoded.dictionary)
        places = np.array([self._number(value) for value in values] or [-1], np.int64)
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(indices < 0, -1, places[indices])

    def _number(self, value: Any) -> int:
        stored = key_value(value)
        if not isinstance(stored, (str, int, float, bool)):
            stored = str(stored)
        if stored not in self._place:
            self._place[stored] = len(self.known)
            self.known.append(stored)
        return self._place[stored]

    def remember(self, known: Sequence[Any]) -> None:
        self.known = list(known)
        self._place = {value: index for index, value in enumerate(known)}


def group_labels(query: Query, equal: Mapping[str, Sequence[str]] | None) -> Groups | None:
    """The groups of a query; refuses what one attribute cannot say."""
    if not equal:
        return None
    if len(equal) > 1:
        raise errors.UnsupportedError(
            f"equal names {len(equal)} attributes; a summary compares one",
            remedy="join them into one column, or use partition_by for those all labels share",
        )
    column, labels = next(iter(equal.items()))
    if isinstance(labels, str) or not labels:
        raise errors.QueryError(
            f"equal={{{column!r}: {labels!r}}} does not list labels",
            remedy=f"write equal={{{column!r}: ['a', 'b']}} with labels of the pattern",
        )
    for label in labels:
        if label not in query.labels:
            raise errors.UnknownVariableError(
                f"equal names the label {label!r}, which the pattern does not have",
                remedy=f"use some of: {', '.join(query.labels)}",
            )
    return Groups(column, sum(1 << query.labels.index(label) for label in set(labels)))


MOST_FOLLOWED = 64  # values; with more, nothing is known of what was dropped


class GroupedStore(Store):
    """A store whose events carry the number of their group; −1 where they have no keyed label."""

    def __init__(self, selection: Selection, kind: type[np.generic], groups: Groups) -> None:
        super().__init__(selection, kind)
        self._groups = groups
        self._machine = selection.machine
        self.group: list[int] = []
        self.mask: list[int] = []

    def insert_grouped(
        self,
        times: NDArray[Any],
        masks: NDArray[np.int64],
        weights: NDArray[np.float64],
        ids: NDArray[np.int64],
        groups: NDArray[np.int64],
    ) -> None:
        keyed = self._groups.keyed
        self._follow_groups(times, masks, groups)
        for time, labels, weight, number, group in zip(
            times, masks.tolist(), weights, ids, groups.tolist(), strict=True
        ):
            mask = labels if group >= 0 else labels & ~keyed
            event_class = self._machine.class_of(mask)
            self._learn(time, event_class)
            if event_class < 0:
                self.numbers[kernel.IRRELEVANT] += 1
                continue
            self._append(time, event_class, weight, number)
            self.group.append(group if mask & keyed else -1)
            self.mask.append(mask)
            if self.count > self._selection.size:
                self._decide()

    def _learn(self, time: Any, event_class: int) -> None:
        chosen = self._selection
        self.numbers[kernel.ROWS] += 1
        if self.numbers[kernel.ROWS] > 1:
            gap = time - self.levels[kernel.LATEST]
            self.levels[expect.GAPS] = self.levels[expect.GAPS] / chosen.decay + gap
            self.levels[expect.GAP_WEIGHT] = self.levels[expect.GAP_WEIGHT] / chosen.decay + 1.0
        self.levels[kernel.LATEST] = time
        tables = chosen.tables()
        tables.learning[kernel.AGE] += 1.0
        if chosen.learn:
            kernel.learn_class(event_class, chosen.decay, tables)

    def _append(self, time: Any, event_class: int, weight: float, number: int) -> None:
        at = self.count
        self._reserve(at + 1)
        events = self._events
        events.times[at], events.classes[at] = time, event_class
        events.weights[at], events.ids[at] = weight, number
        self.numbers[kernel.COUNT] += 1
        self.numbers[kernel.KEPT] += 1

    def _decide(self) -> None:
        newest = self.count - 1
        mode = self._selection.mode
        if mode == kernel.FIFO:
            least = 0
        elif mode == kernel.RANDOM:
            least = int(kernel.next_random(self.numbers, newest))
        else:
            scores, _ = self.ranked()
            least = int(np.argmin(scores[:newest]))
            if scores[newest] <= scores[least]:
                self.remove(newest)
                self.numbers[kernel.REMOVED] -= 1
                self.numbers[kernel.DISCARDED] += 1
                return
        self.remove(least)

    def ranked(self) -> tuple[NDArray[np.float64], bool]:
        """Over the values: matches with each, less those without a keyed event, and these once."""
        values = self._values()
        readings = [self.reading(value) for value in values]  # may see new classes
        if len(values) > 1:
            readings.append(self.reading(-1))
        tables = self._tables(max(len(values), 1))
        parts = [
            subset_scores(
                self._selection,
                np.ascontiguousarray(self.times[places]),
                classes,
                np.ascontiguousarray(self.weights[places]),
                self.numbers,
                self.levels,
                tables,
            )
            for places, classes in readings
        ]
        logged = any(log for _, log in parts)
        total = np.full(self.count, -np.inf if logged else 0.0)
        for number, ((places, _), (scores, log)) in enumerate(zip(readings, parts, strict=True)):
            again = number == len(values) and len(values) > 1
            if logged:
                logs = scores if log else _log2(scores)
                total[places] = (
                    _less(total[places], logs, len(values) - 1)
                    if again
                    else np.logaddexp2(total[places], logs)
                )
            else:
                total[places] += (1 - len(values)) * scores if again else scores
        return (total if logged else np.maximum(total, 0.0)), logged

    def _tables(self, values: int) -> Tables:
        """The shared tables for one value, which has its share of the keyed classes."""
        shared = self._selection.tables()
        if shared.learning[kernel.AGE] >= LEARN_EVERY:
            refreshed(self._selection, self.times.dtype.type, self.levels)
        return with_shares(self._selection, self._shares_of(values))

    def _shares_of(self, values: int) -> NDArray[np.float64]:
        keyed = np.array(self._machine.masks, np.int64) & self._groups.keyed != 0
        return np.where(keyed, 1.0 / values, 1.0)

    def _follow_groups(
        self, times: NDArray[Any], masks: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> None:
        """As `_follow`, by value: its events with the free ones; -1: the free ones alone."""
        if self.knows_all:
            if self.count + len(times) <= self._selection.size:
                return
            self._begin_to_follow()
        for value in np.unique(groups[groups >= 0]).tolist():
            if value not in self.followers and len(self.followers) <= MOST_FOLLOWED:
                self.followers[value] = self.followers[-1].copy()
        free = masks & ~self._groups.keyed
        for value, follower in self.followers.items():
            mine = np.where(groups == value, masks, free) if value >= 0 else free
            self._feed(follower, times, self._machine.classes_of(mine))

    def _begin_to_follow(self) -> None:
        for value in (-1, *(value for value in self._values() if value >= 0)):
            places, classes = self.reading(value)
            if len(self.followers) <= MOST_FOLLOWED:
                self.followers[value] = self._new_follower()
                self._feed(self.followers[value], self.times[places], classes)

    def matches(self) -> Matches | None:
        """Over the values: the matches with each, less those with none, and these once."""
        if not self.followers or len(self.followers) > MOST_FOLLOWED:
            return None
        arcs = self._machine.arrays()
        told = {value: follower.told(arcs) for value, follower in self.followers.items()}
        free = told.pop(-1)
        whole = Matches() if told else free
        for one in told.values():
            whole = whole.and_those(one)
        left = _less(np.array([whole.total]), np.array([free.total]), max(len(told) - 1, 0))
        return whole._replace(total=float(left[0]))

    def _values(self) -> list[int]:
        return sorted({group for group in self.group if group >= 0}) or [-1]

    def reading(self, value: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The events of one value with the free ones; −1: the free ones alone."""
        free = ~self._groups.keyed
        places, classes = [], []
        for place, (mask, group) in enumerate(zip(self.mask, self.group, strict=True)):
            kept = mask if value >= 0 and group == value else mask & free
            event_class = self._machine.class_of(kept) if kept else -1
            if event_class >= 0:
                places.append(place)
                classes.append(event_class)
        return np.array(places, np.int64), np.array(classes, np.int64)

    def remove(self, index: int) -> None:
        super().remove(index)
        del self.group[index]
        del self.mask[index]

    def columns(self) -> dict[str, NDArray[Any]]:
        return super().columns() | {"group": np.array(self.group, np.int64)}

    def fill(self, columns: dict[str, NDArray[Any]], numbers: Any, levels: Any) -> None:
        super().fill(columns, numbers, levels)
        self.group = [int(group) for group in columns["group"]]
        self.mask = [int(mask) for mask in columns["mask"]]


def _log2(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(scores))


def _less(whole: NDArray[np.float64], part: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """log2(2^whole − times · 2^part); −∞ where nothing is left."""
    if times == 0:
        return whole
    with np.errstate(invalid="ignore", divide="ignore"):
        left = 1.0 - times * np.exp2(part - whole)
        found = whole + np.log2(np.maximum(left, 0.0))
    return np.where(np.isneginf(part), whole, found)
