"""Summaries on a stream: one `Summary` per lane, one row per key.

A summary answers at any time and is final only when the stream is closed: `emit="final"` tells each
key's answer then, `emit="changes"` tells it again whenever it has changed. Labels are evaluated on
Arrow columns (docs/functions.md), since the retained events keep all their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX
from ensue.operator.arrange import arrange, flat
from ensue.operator.buffer import CONTENT
from ensue.operator.protocol import Key, key_at, key_value
from ensue.query.query import OrderKey, Query
from ensue.run.lanes.rows import ID
from ensue.run.lanes.stages import refused
from ensue.run.lanes.work import Settings, Stage, Work
from ensue.summary import reading
from ensue.summary.batch import VALUE, BatchSummaries
from ensue.summary.evaluator import Summary
from ensue.summary.options import SummaryOptions, bound_total, check_options, selection_of


@dataclass(frozen=True)
class SummaryWork(Work):
    query: Query
    options: SummaryOptions

    def stage(self, lane: int) -> Stage:
        return SummaryStage(self)


def summary_work(
    query: Query,
    options: SummaryOptions,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> SummaryWork:
    if options.budget is not None:
        raise errors.UnsupportedError(
            "a budget over all keys needs all keys in one place, and Spark spreads them",
            remedy="give size=, the events per key",
        )
    if not query.partition_by:
        raise errors.UnsupportedError(
            "a stream is summarized by key, and the pattern has no partition_by(...)",
            remedy="add partition_by(...), with a constant column for one summary of everything",
        )
    check_options(query, options)
    found = _found(query, options, schema)
    return SummaryWork(
        schema, found, query.partition_by, time, settings, description, query, options
    )


def _found(query: Query, options: SummaryOptions, schema: pa.Schema) -> pa.Schema:
    """As a batch's, without its metrics: keys, count, what was asked, retained events."""
    own = [field for field in schema if not field.name.startswith(PREFIX)]
    total = None
    given = pa.schema(own)
    if options.total is not None:
        asked = reading.total_of(options.total, query, options.total_text or "")
        total = bound_total(asked, given.names)
        if total is not None and total.value is not None:
            values = reading.values(total, given.empty_table(), np.zeros(0, np.bool_))
            assert values is not None
            given = given.append(pa.field(VALUE, values.type))
    summaries = BatchSummaries(
        query=query,
        selection=selection_of(query, options, total),
        total=total,
        groups=None,
        columns=[field.name for field in own],
        text=options.counts == "text",
    )
    shown = summaries.schema(given)
    return shown.remove(shown.get_field_index("metrics"))


class SummaryStage:
    """See the module."""

    def __init__(self, work: SummaryWork) -> None:
        self._work = work
        self._summary = Summary(work.query, work.options)
        self._closed = False

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        query = self._work.query
        table, _ = arrange(rows, (), (*query.order_by, OrderKey(CONTENT)))
        own = [name for name in table.column_names if not name.startswith(PREFIX)]
        self._summary.insert(table.select(own))
        return iter(())

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return iter(())

    def end(self) -> Iterator[pa.Table]:
        found = self._answers()
        self._closed = True
        self._summary = Summary(self._work.query, self._work.options)
        if found.num_rows:
            yield found

    def standing(self) -> Iterator[pa.Table]:
        if not self._closed:
            yield self._answers()

    def _answers(self) -> pa.Table:
        found = self._work.found
        names = self._work.partition_by
        result = self._summary.result()
        events = self._summary.events()
        places: dict[Key, list[int]] = {}
        for place in range(events.num_rows):
            places.setdefault(key_at(events, place, names), []).append(place)
        retained: list[int] = []
        ends = [0]
        columns: dict[str, list[Any]] = {name: [] for name in found.names[:-1]}
        for key, answer in result.items():
            values = key if isinstance(key, tuple) else (key,)
            for name, value in zip(names, values, strict=True):
                columns[name].append(value)
            retained += places.get(tuple(map(key_value, values)), [])
            ends.append(len(retained))
            for name in found.names[len(names) : -1]:
                columns[name].append(_number(answer.get(name), found.field(name).type))
        arrays = [pa.array(columns[name], found.field(name).type) for name in columns]
        listed = found.field("events").type
        fields = list(listed.value_type)
        # Before the first event nobody knows its columns.
        rows = events.take(retained) if retained else pa.schema(fields).empty_table()
        rows = pa.StructArray.from_arrays([flat(rows, f.name) for f in fields], fields=fields)
        arrays.append(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows, listed))
        table = pa.table(arrays, schema=found)
        if self._work.settings.speculative:
            ids = [repr(key) for key in result]
            table = table.append_column(ID, pa.array(ids, pa.string()))
        return table

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return refused(orders)

    def copy(self) -> SummaryStage:
        made = SummaryStage(self._work)
        made.load(self.save())
        return made

    def save(self) -> bytes:
        return self._summary.snapshot()

    def load(self, blob: bytes) -> None:
        self._summary = Summary(self._work.query, self._work.options).restore(blob)

    def next_time(self) -> int | None:
        return None

    def drop(self, keys: set[Key]) -> None:
        raise errors.UnsupportedError(
            "a summary is bounded by its size and sheds no keys", remedy="say overflow='fail'"
        )

    def sizes(self) -> Mapping[Key, int]:
        return {}

    def forget(self, before: int) -> Iterator[pa.Table]:
        return iter(())

    @property
    def partials(self) -> int:
        return 0

    @property
    def keys(self) -> int:
        return len(self._summary.keys)


def _number(value: Any, kind: pa.DataType) -> Any:
    if value is None or not (pa.types.is_decimal(kind) or pa.types.is_string(kind)):
        return value
    return str(value) if pa.types.is_string(kind) else Decimal(value)
