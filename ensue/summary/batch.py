"""Summaries of many keys in one pass: one row per key, for a runner that has rows in key order.

Keys whose events all fit are counted together by one kernel and their rows pass through as they
are (`together.py`); only keys that overflow, and those whose policy or values the kernel does not
know, have a `Summary` each. A key that comes in pieces is held open until it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.operator.arrange import flat
from ensue.operator.protocol import Events
from ensue.query.query import Query
from ensue.summary import reading
from ensue.summary.evaluator import Summary
from ensue.summary.groups import group_labels
from ensue.summary.intake import VALUE
from ensue.summary.kernels import select as kernel
from ensue.summary.limbs import limbs_of
from ensue.summary.options import SummaryOptions, asked_total, check_options, selection_of
from ensue.summary.recall import WHOLE, recall_of
from ensue.summary.store import Store
from ensue.summary.table import answer_schema, answer_table
from ensue.summary.together import answers_together, plain_readings, quick, value_readings

BITS = "__ensue_bits"
MOST_VALUES = 64  # of an attribute in `equal`; a key with more is counted by itself
COUNTS = ("rows", "kept", "removed", "discarded", "irrelevant")
METRICS = pa.struct(
    [(name, pa.int64()) for name in COUNTS]
    + [(name, pa.float64()) for name in ("recall", "low", "high")]
)
Numbers = NDArray[np.int64]


class BatchSummaries:
    """`query` is bound to the input; `columns` are those of the retained events."""

    def __init__(self, query: Query, options: SummaryOptions, columns: Sequence[str]) -> None:
        check_options(query, options)
        self._query, self._options, self._columns = query, options, list(columns)
        self._total = asked_total(query, options, columns)
        self._selection = selection_of(query, options, self._total)
        self._groups = group_labels(query, options.equal)
        self._open: list[pa.Table] = []

    def schema(self, given: pa.Schema) -> pa.Schema:
        shown = answer_schema(self._query, self._options, self._columns, given)
        return shown.append(pa.field("metrics", METRICS))

    @property
    def pending(self) -> bool:
        """Whether a key is held open."""
        return bool(self._open)

    def process(self, events: Events) -> Iterator[pa.Table]:
        """Rows of the keys that are complete."""
        table, starts = events.table.combine_chunks(), events.starts
        if self._open:
            # A key that came in pieces: its rows so far go before the first of these.
            held = pa.concat_tables([*self._open, table]).combine_chunks()
            starts = np.append([0], starts[1:] + (held.num_rows - table.num_rows))
            table, self._open = held, []
        if len(events.complete) and not events.complete[-1]:
            last = int(starts[-2])
            self._open = [table.slice(last)]
            table, starts = table.slice(0, last), starts[:-1]
        if len(starts) > 1:
            yield self._answered(table.combine_chunks(), np.asarray(starts, np.int64))

    def _answered(self, table: pa.Table, starts: Numbers) -> pa.Table:
        codes = masks = flat(table, BITS).to_numpy()
        if self._groups is not None:
            # An event without the attribute has none of the labels that it binds.
            codes = self._groups.codes(table)
            masks = np.where(codes < 0, masks & ~self._groups.keyed, masks)
        machine = self._selection.machine
        classes = machine.classes_of(masks)
        times = self._times(table, starts)
        chosen = classes >= 0
        relevant = np.add.reduceat(chosen.astype(np.int64), starts[:-1])
        fits = quick(starts, times, self._selection.window)
        fits &= (relevant <= self._selection.size) & machine.fork
        if self._groups is not None:
            fits &= _values(codes, starts) <= MOST_VALUES
        answers: list[dict[str, Any]] = [{}] * len(relevant)
        found = self._together(table, starts, masks, classes, codes, times, fits)
        for key, answer in found.items():
            answers[key] = answer
        metrics = np.zeros((len(COUNTS), len(relevant)), np.int64)
        recalls = [WHOLE] * len(relevant)
        for key in np.flatnonzero(~fits).tolist() if found else range(len(relevant)):
            begin, end = starts[key : key + 2].tolist()
            answers[key], store = self._alone(table.slice(begin, end - begin), masks[begin:end])
            chosen[begin:end] = False
            chosen[begin + store.ids] = True
            recalls[key] = recall_of([(store, answers[key]["count"])])
            metrics[2:4, key] = store.numbers[[kernel.REMOVED, kernel.DISCARDED]]
        kept = np.add.reduceat(chosen.astype(np.int64), starts[:-1])
        metrics[0], metrics[1], metrics[4] = np.diff(starts), kept, np.diff(starts) - relevant
        rows = table.select(self._columns)
        rows = rows if chosen.all() else rows.filter(pa.array(chosen)).combine_chunks()
        firsts = pa.array(starts[:-1])
        keys = [flat(table, name).take(firsts) for name in self._query.partition_by]
        shares = [pa.array(part, pa.float64()) for part in zip(*recalls, strict=True)]
        counts = [pa.array(row) for row in metrics]
        told = pa.StructArray.from_arrays([*counts, *shares], fields=list(METRICS))
        ends = [0, *np.cumsum(kept).tolist()]
        return answer_table(self.schema(table.schema), keys, answers, rows, ends, told)

    def _times(self, table: pa.Table, starts: Numbers) -> NDArray[Any]:
        if self._selection.counted:
            return np.arange(table.num_rows) - np.repeat(starts[:-1], np.diff(starts))
        found = reading.times_of(self._query, table)
        assert found is not None
        return found

    def _together(
        self,
        table: pa.Table,
        starts: Numbers,
        masks: Numbers,
        classes: Numbers,
        codes: Numbers,
        times: NDArray[Any],
        fits: NDArray[np.bool_],
    ) -> dict[int, dict[str, Any]]:
        """Keys that fit, in one call; none where the kernel cannot hold their values."""
        if not fits.any():
            return {}
        values, machine = None, self._selection.machine
        if self._total is not None:
            column = flat(table, VALUE)
            needed = np.repeat(fits, np.diff(starts)) & self._total.needs(masks)
            parts = limbs_of(reading.checked_values(self._total, column, needed))
            if parts is None:
                return {}
            values = column, parts
        readings = plain_readings(starts, classes)
        if self._groups is not None:
            readings = value_readings(machine, starts, fits, masks, codes, self._groups.keyed)
        window = self._selection.window
        found = answers_together(machine, readings, starts, fits, times, window, values)
        return {key: answer.as_dict(values is not None) for key, answer in found.items()}

    def _alone(self, rows: pa.Table, masks: Numbers) -> tuple[dict[str, Any], Store]:
        """The answer of one key, and its store."""
        summary = Summary(replace(self._query, partition_by=()), self._options)
        values = None if self._total is None else flat(rows, VALUE)
        summary.insert_read(rows.select(self._columns), reading.Read(masks, values))
        ((_, answer, store),) = summary.answered()
        assert store is not None
        return answer, store


def _values(codes: Numbers, starts: Numbers) -> Numbers:
    """Values of the attribute by key, which is how often the key would be read."""
    keys = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    width = int(codes.max(initial=-1)) + 2
    held = np.unique(keys * width + codes + 1)
    return np.bincount(held // width, minlength=len(starts) - 1)
