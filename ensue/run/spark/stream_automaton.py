"""Automata by hand on a stream: the AFA operator of every key of a lane.

A lane hands over rows once the watermark has passed them, in order, so that matches are final;
`emit="changes"` tries the rows that still wait on a copy. Windows end with the watermark: arcs
`at_end_of_window` are taken then, and events out of their lifetime leave the state. Edits of arcs
come as orders of the control directory and apply to events from the watermark on (AFA §2.3 takes
the newest timestamp where that is later; all lanes agree on the watermark alone).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue import errors
from ensue.automaton.plan import PREFIX
from ensue.automaton.registers import INFINITY
from ensue.operator import state
from ensue.operator.arrange import arrange
from ensue.operator.buffer import CONTENT
from ensue.operator.protocol import Events, Key, keys_of
from ensue.query import rules
from ensue.query.query import OrderKey
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.state import fingerprint_of
from ensue.run.lanes.edits import JSON, PATTERN, VERSION, Edit, carried_out, counted, with_version
from ensue.run.lanes.rows import ID
from ensue.run.lanes.stages import refused
from ensue.run.lanes.work import TEXT, Stage, Work, pattern_name
from ensue.run.spark import stream
from ensue.run.spark.automaton import Asked
from ensue.run.spark.keyed import quoted
from ensue.scalar.moments import values_of

KIND = state.Kind("automaton lane", version=2, oldest=2)


@dataclass(frozen=True)
class AutomatonWork(Work):
    asked: Asked
    edited: bool = False  # arcs may change: rows say the version

    def stage(self, lane: int) -> Stage:
        return AutomatonStage(self)


class AutomatonStage:
    """See the module."""

    def __init__(self, work: AutomatonWork) -> None:
        self._work = work
        own = [field for field in work.schema if not field.name.startswith(PREFIX)]
        asked = work.asked
        self._evaluator = RevisionEvaluator(
            asked.machine, asked.timing, pa.schema(own), asked.partition_by, asked.settings
        )
        self._ends: NDArray[np.int64] = np.zeros(0, np.int64)  # of lifetimes not yet over
        self._last: dict[Key, int] = {}  # the newest event time of each key, where keys expire
        self._version = 0  # the number of the last edit

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        work = self._work
        order = (*work.asked.query().order_by, OrderKey(CONTENT))
        table, starts = arrange(rows, work.partition_by, order)
        own = table.select(self._evaluator.schema.names).combine_chunks()
        times = self._evaluator.times(own)
        self._ends = np.concatenate([self._ends, times.re[times.re < INFINITY]])
        if work.settings.forget is not None:
            events = Events(table, starts, np.zeros(len(starts) - 1, np.bool_))
            last = times.le[starts[1:] - 1].tolist()
            self._last.update(zip(keys_of(events, work.partition_by), last, strict=True))
        yield from self._found(self._evaluator.insert(own))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        self._ends = self._ends[self._ends > horizon]
        yield from self._found(self._evaluator.advance(self._moment(horizon)))

    def _moment(self, microseconds: int) -> pa.Scalar:
        time = pa.scalar(microseconds, pa.timestamp("us", "UTC"))
        return time.cast(self._evaluator.clock.kind)

    def end(self) -> Iterator[pa.Table]:
        self._ends = self._ends[:0]
        self._last.clear()
        yield from self._found(self._evaluator.end())
        self._evaluator.drop()

    def standing(self) -> Iterator[pa.Table]:
        return iter(())

    def _found(self, changes: pa.Table) -> Iterator[pa.Table]:
        """Rows came in order: what is found stays."""
        if changes.num_rows:
            assert pc.index(changes.column("op"), "-").as_py() < 0
            if self._work.edited:
                count, name = changes.num_rows, self._work.settings.name
                changes = changes.append_column(PATTERN, pa.array([name] * count, pa.string()))
                numbers = pa.array([self._version] * count, pa.int64())
                changes = changes.append_column(VERSION, numbers)
            shown = changes.select(self._work.found.names).cast(self._work.found)
            if self._work.settings.speculative:
                shown = shown.append_column(ID, changes.column("match_id"))
            yield shown

    def refused(self) -> pa.Table | None:
        """Rows that the automaton could not use since the last call, each as JSON."""
        rows = self._evaluator.take_rejected()
        if not rows.num_rows:
            return None
        names = rows.column_names
        values = zip(*(values_of(rows.column(name)) for name in names), strict=True)
        shown = (dict(zip(names, row, strict=True)) for row in values)
        texts = [json.dumps(row, ensure_ascii=False, default=str) for row in shown]
        return rows.select(list(self._work.partition_by)).append_column(TEXT, pa.array(texts))

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        """Arcs that change for events from the watermark on; what is held stays valid."""
        if not self._work.edited:
            return refused(orders)
        return carried_out(orders, lambda edit: self._edit(edit, since))

    def _edit(self, edit: Edit, since: int | None) -> None:
        name, read = self._work.settings.name, self._work.asked.read
        if edit.name != name or edit.kind != JSON or read is None:
            raise errors.UnsupportedError(
                f"{edit.name}.{edit.kind} is no edit of the arcs of {name}: a stream of an "
                "automaton by hand has this one pattern",
                remedy=f"write it with Control(...).arcs({name!r}, add={{...}}, remove=[...])",
            )
        if edit.number <= self._version:
            raise errors.QueryError(
                f"{name} is in version {self._version}, and the edit is number {edit.number}",
                remedy="edits are numbered upwards: use Control(...).arcs",
            )
        arcs, gone, finals = read(edit.text, self._work.asked.machine.fields)
        begin = None if since is None else self._moment(since)
        # No event that was taken in lies in the lifetime, so that nothing told before changes.
        self._evaluator.revise(arcs, gone, begin, None, finals)
        self._version = edit.number

    def by_pattern(self, found: pa.Table) -> Mapping[str, int]:
        if self._work.edited:
            return counted(found)
        return {pattern_name(self._work.settings.name, 0): found.num_rows}

    def copy(self) -> AutomatonStage:
        made = AutomatonStage(self._work)
        made.load(self.save())
        return made

    def save(self) -> bytes:
        last = np.array([self._last.get(key, 0) for key in self._evaluator.known()], np.int64)
        parts = {"state": self._evaluator.snapshot(), "ends": self._ends, "last": last}
        return state.pack(KIND, parts, {"version": self._version})

    def load(self, blob: bytes) -> None:
        parts = state.unpack(KIND, blob)
        self._version = parts.numbers["version"]
        self._evaluator.restore(parts.state("state"))
        self._ends = parts.array("ends")
        last = parts.array("last").tolist()
        self._last = dict(zip(self._evaluator.known(), last, strict=True))

    def next_time(self) -> int | None:
        return int(self._ends.min()) if len(self._ends) else None

    def drop(self, keys: set[Key]) -> None:
        self._evaluator.drop(keys)
        for key in keys:
            self._last.pop(key, None)

    def sizes(self) -> Mapping[Key, int]:
        return self._evaluator.sizes()

    def forget(self, before: int) -> Iterator[pa.Table]:
        silent = {key for key, time in self._last.items() if time < before}
        if silent:
            yield from self._found(self._evaluator.end(silent))
            self.drop(silent)

    @property
    def partials(self) -> int:
        return self._evaluator.partials

    @property
    def keys(self) -> int:
        return len(self._evaluator.known())


def run(asked: Asked, df: DataFrame, given: dict[str, Any]) -> DataFrame:
    """All matches over a streaming DataFrame; `given` are the options of streams."""
    options = stream.Options.of(given)
    stream.own_names(df, options)
    columns = [F.col(quoted(name)) for name in df.columns]
    prepared = stream.Prepared.of(asked.query(), df, options, columns)
    schema = prepared.schema
    own = pa.schema([field for field in schema if not field.name.startswith(PREFIX)])
    found = asked.matches(own.empty_table()).schema
    found = found.remove(found.get_field_index("match_number"))
    mark = fingerprint_of(asked.machine, asked.timing, whole=True).now[:12]
    arcs = len(asked.machine.arcs)
    description = prepared.description(
        automaton=f"an automaton of {arcs} arcs (fingerprint {mark})"
    )
    del description["pattern"]  # that of the query which stands for the automaton's columns
    settings = prepared.settings
    if options.edits:
        # All lanes agree on Spark's watermark alone.
        found, settings = with_version(found, asked.partition_by), options.settings()
        rules.duplicates((name.casefold() for name in found.names), "column of the output")
    arguments = (schema, found, asked.partition_by, prepared.time, settings, description)
    return prepared.run(AutomatonWork(*arguments, asked, options.edits))
