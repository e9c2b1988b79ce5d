"""What a query finds in a table in process, kept as flat arrays that views are cut from.

The plain listing of the matches is flattened once: per match its key, number and rows, per row the
variable of the first match that has it. Measures are of a second run, joined by number. More
matches than are kept are counted, never listed.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.api.pattern import Pattern
from ensue.automaton.plan import Plan, plan
from ensue.operator.arrange import arrange, arrays_of
from ensue.operator.batch import Batch
from ensue.operator.prepare import prepare
from ensue.query.binding import bind
from ensue.query.query import Query, Rows
from ensue.studio.arranged import Arranged
from ensue.studio.reading import settled

MAX_LISTED = 100_000  # matches that are kept


@dataclass(frozen=True)
class Listing:
    """The matches that are kept, key after key; events of match i: offsets[i] to offsets[i + 1]."""

    key: NDArray[np.int64]
    number: NDArray[np.int64]
    offsets: NDArray[np.int64]
    label: NDArray[np.int16]  # of an event: which of the variables
    row: NDArray[np.int64]  # of an event, in its partition
    lacks: tuple[tuple[int, list[str]], ...] | None  # allow_missing: errors, and which are missing
    cut: bool  # there are more

    def __len__(self) -> int:
        return len(self.key)

    def events(self, match: int) -> slice:
        return slice(int(self.offsets[match]), int(self.offsets[match + 1]))

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """The first row of each match, and below the last; -1 of an empty match."""
        return self._ends(np.minimum)

    @cached_property
    def last(self) -> NDArray[np.int64]:
        return self._ends(np.maximum)

    def _ends(self, which: Any) -> NDArray[np.int64]:
        found = np.full(len(self), -1, np.int64)
        filled = np.flatnonzero(np.diff(self.offsets))
        if len(filled):
            found[filled] = which.reduceat(self.row, self.offsets[:-1][filled])
        return found

    def of_key(self, key: int) -> slice:
        """Matches of one key."""
        begin, end = np.searchsorted(self.key, [key, key + 1])
        return slice(int(begin), int(end))


class Answer:
    """A query over a table; parts are computed when they are asked for."""

    def __init__(self, pattern: Pattern, table: pa.Table, rows: Arranged) -> None:
        self.query = bind(pattern.query, table.column_names)
        self.pattern = settled(self.query)
        self.table = table
        self.data: Any = table  # all rows, where the table is a sample of them
        self.rows = rows
        self.variables = tuple(name for name in self.query.labels)
        self.seconds = 0.0
        self.warnings: list[str] = []
        self._places = {name: place for place, name in enumerate(self.variables)}

    @cached_property
    def plain(self) -> Query:
        """The query whose matches are listed with their rows."""
        return replace(self.query, measures=None, rows=Rows.ONE)

    @cached_property
    def listing(self) -> Listing:
        listed = settled(self.plain)
        options = self._limit(MAX_LISTED + 1)
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found: pa.Table = listed.matches(self.table, **options)
        self.seconds = time.perf_counter() - begin
        self.warnings = [str(warning.message) for warning in told]
        cut = found.num_rows > MAX_LISTED
        return self._flat(found.slice(0, MAX_LISTED), cut)

    def _flat(self, found: pa.Table, cut: bool) -> Listing:
        key = self.rows.keys_of(found)
        order = np.argsort(key, kind="stable")
        found = found.take(pa.array(order)).combine_chunks()
        events = found.column("events").combine_chunks()
        lengths = pc.fill_null(pc.list_value_length(events), 0).to_numpy(zero_copy_only=False)
        flat = pc.list_flatten(events)
        names = pc.struct_field(flat, "label").dictionary_encode()
        if isinstance(names, pa.ChunkedArray):
            names = names.combine_chunks()
        known = np.array([self._places[n] for n in names.dictionary.to_pylist()] or [0], np.int16)
        rows = pc.struct_field(flat, "row").to_numpy(zero_copy_only=False).astype(np.int64)
        lacks = None
        if "missing" in found.column_names:
            counts, labels = (found.column(n).to_pylist() for n in ("errors", "missing"))
            lacks = tuple(zip(counts, labels, strict=True))
        return Listing(
            key[order],
            found.column("match_number").to_numpy(zero_copy_only=False).astype(np.int64),
            np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            known[names.indices.to_numpy(zero_copy_only=False)],
            rows,
            lacks,
            cut,
        )

    @cached_property
    def total(self) -> int:
        """All matches, listed or not."""
        return self.pattern.count(self.table) if self.listing.cut else len(self.listing)

    @cached_property
    def per_key(self) -> NDArray[np.int64]:
        """Matches of each key, of those that are kept."""
        return np.bincount(self.listing.key, minlength=self.rows.keys)

    @cached_property
    def label_at(self) -> NDArray[np.int16]:
        """By position: the variable of the first match that has the row; -1 where none has."""
        found = np.full(len(self.rows.index), -1, np.int16)
        listing = self.listing
        keys = np.repeat(listing.key, np.diff(listing.offsets))
        places = self.rows.starts[keys] + listing.row
        found[places[::-1]] = listing.label[::-1]
        return found

    @cached_property
    def result(self) -> pa.Table:
        """What `matches(data)` gives, as far as it is kept."""
        if self.query.measures is None and self.query.rows is Rows.ONE:
            return self._listed_table
        return self.pattern.matches(self.table, **self._limit(MAX_LISTED))

    def _limit(self, most: int) -> dict[str, Any]:
        """Row patterns have at most one match per row; the others can have any number."""
        bounded = not self.query.row_semantics and self.query.missing is None
        return {"limit": most} if bounded else {}

    @cached_property
    def _listed_table(self) -> pa.Table:
        """The listing for a reader: labels with their rows as one text."""
        listing, names = self.listing, self.variables
        heads = self.rows.heads.take(pa.array(listing.key)) if self.rows.partition_by else None
        columns = {} if heads is None else {n: heads.column(n) for n in heads.column_names}
        texts = [
            " ".join(
                f"{names[label]}@{row}"
                for label, row in zip(listing.label[s], listing.row[s], strict=True)
            )
            for s in map(listing.events, range(len(listing)))
        ]
        if self.rows.order is not None:
            order = self.table.column(self.rows.order)
            for name, ends in (("first", listing.first), ("last", listing.last)):
                places = self.rows.starts[listing.key] + np.maximum(ends, 0)
                index = pa.array(self.rows.index[places], mask=ends < 0)
                columns[name] = order.take(index)
        if listing.lacks is not None:
            columns["missing"] = pa.array([", ".join(m) for _, m in listing.lacks], pa.string())
        return pa.table(columns | {"events": pa.array(texts, pa.string())})

    @cached_property
    def numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """The key of each row of the result, and its number where a row is a match."""
        result, listing = self.result, self.listing
        if result is self.__dict__.get("_listed_table"):
            return listing.key, listing.number
        keys = self.rows.keys_of(result)
        # Of a key, matches and rows of the result stand in the same order.
        order = np.argsort(keys, kind="stable")
        if self.query.rows is Rows.ONE and np.array_equal(keys[order], listing.key):
            numbers = np.empty_like(listing.number)
            numbers[order] = listing.number
            return keys, numbers
        return keys, None

    @cached_property
    def measured(self) -> pa.Table | None:
        """The result with a row per kept match, in their order."""
        keys, numbers = self.numbers
        return None if numbers is None else self.result.take(np.argsort(keys, kind="stable"))

    @cached_property
    def plan(self) -> Plan:
        return plan(self.query)

    @cached_property
    def fits(self) -> NDArray[np.uint64]:
        """By position: a bit per variable whose conditions on the row and its neighbours hold."""
        planned = plan(self.plain)
        prepared = prepare(planned, self.table.combine_chunks())
        table, starts = arrange(prepared, self.query.partition_by, self.query.order_by)
        count = len(starts) - 1
        batch = Batch(
            planned, arrays_of(table), starts, np.zeros(count, np.bool_), np.ones(count, np.bool_),
            np.zeros(count, np.int64), np.zeros((count, 3), np.int64),
        )  # fmt: skip
        words = batch.label_bits()[:, 0]
        found = np.zeros(len(words), np.uint64)
        for place, name in enumerate(planned.marks.labels[:64]):
            if name in self._places:
                bit = np.uint64(self._places[name])
                found |= (words >> np.uint64(place) & np.uint64(1)) << bit
        return found[self.rows.moved]

    @cached_property
    def telling(self) -> list[int]:
        """Variables with a condition on the row or its neighbours: to fit these says something."""
        planned = plan(self.plain)
        tests = zip(planned.marks.labels, planned.tests, strict=True)
        asked = [name for name, test in tests if test.flag is not None or test.neighbour]
        return sorted(self._places[name] for name in asked if name in self._places)

    @cached_property
    def why(self) -> pa.Table:
        """The best failed attempt of every key, key after key."""
        found = self.pattern.why(self.table)
        return found.take(pa.array(np.argsort(self.rows.keys_of(found), kind="stable")))

    @cached_property
    def reasons(self) -> list[tuple[str, int]]:
        """How often each reason is that of a best failed attempt."""
        return reasons_in(self.why)

    @property
    def sampled(self) -> str | None:
        """What a reader should know where not all keys are shown."""
        return None

    def collected(self, found: Any) -> pa.Table:
        """What the library gave for `data`."""
        return found

    def match_of(self, key: int, number: int) -> int:
        """Which of the kept matches has that number."""
        some = self.listing.of_key(key)
        place = np.flatnonzero(self.listing.number[some] == number)
        if not len(place):
            raise errors.QueryError(
                f"key {key} has no match {number} among those that are kept",
                remedy="run the query again",
            )
        return some.start + int(place[0])


def reasons_in(table: pa.Table) -> list[tuple[str, int]]:
    """The reasons of attempts, the most frequent first."""
    told = (reason for reason in table.column("reason").to_pylist() if reason is not None)
    return Counter(told).most_common()
