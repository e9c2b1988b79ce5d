"""Automata by hand over ordered rows, behind the operator protocol: what a lane drives.

Rows come in order, so that what is found stays and no change takes anything back. Windows end with
the watermark: arcs `at_end_of_window` are taken then, and events out of their lifetime leave the
state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.automaton.plan import PREFIX, Plan
from ensue.automaton.registers import INFINITY, Arc, RegisterAutomaton
from ensue.operator.match_names import with_names
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Exact,
    Key,
    LaneDefaults,
    Metrics,
    Output,
    Snapshot,
    Watermark,
)
from ensue.operator.state import Kind, pack, unpack
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.parts import DEFAULT, Settings
from ensue.revision.timing import Timing

KIND = Kind("automaton lane", version=2, oldest=2)


class OrderedRevisions(Exact, LaneDefaults):
    """See the module."""

    name = "the revision evaluator (AFA) over ordered rows"
    capabilities = Capabilities(ordered_input=True, revision=True)
    no_budget = ("an automaton by hand keeps all its partial matches", "leave the budget out")

    def __init__(
        self,
        machine: RegisterAutomaton,
        timing: Timing,
        partition_by: tuple[str, ...] = (),
        settings: Settings = DEFAULT,
    ) -> None:
        self.metrics = Metrics()
        self._machine, self._timing = machine, timing
        self._partition_by, self._settings = partition_by, settings
        self._ends: NDArray[np.int64] = np.zeros(0, np.int64)  # of lifetimes not yet over
        self.version = 0  # the number of the last edit of arcs

    def _begin(self, plan: Plan | None, schema: pa.Schema, state: Snapshot | None) -> None:
        self._schema = schema
        own = pa.schema([field for field in schema if not field.name.startswith(PREFIX)])
        self._inner = RevisionEvaluator(
            self._machine, self._timing, own, self._partition_by, self._settings
        )
        self.metrics = self._inner.metrics
        if state is not None:
            self._restore(state.shared)

    @property
    def nbytes(self) -> int:
        return self._inner.nbytes

    # -- protocol --------------------------------------------------------------------------------

    def insert(self, events: Events) -> Output:
        own = events.table.select(self._inner.schema.names).combine_chunks()
        ends = self._inner.times(own).re
        self._ends = np.concatenate([self._ends, ends[ends < INFINITY]])
        return self._output(self._inner.insert(own))

    def advance(self, mark: Watermark) -> Output:
        """`mark.time` in microseconds."""
        assert isinstance(mark.time, int)
        self._ends = self._ends[self._ends > mark.time]
        return self._output(self._inner.advance(self._moment(mark.time)))

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        if keys is None:
            self._ends = self._ends[:0]
        return self._output(self._inner.end(None if keys is None else set(keys)))

    def change_arcs(
        self,
        number: int,
        add: Iterable[Arc],
        remove: Iterable[str],
        finals: Iterable[str],
        since: int | None,
    ) -> None:
        """Arcs that change for events from the watermark `since` on; what is held stays valid.

        No event that was taken in lies in the lifetime, so that nothing told before changes.
        """
        begin = None if since is None else self._moment(since)
        self._inner.revise(add, remove, begin, None, finals)
        self.version = number

    def _moment(self, microseconds: int) -> Any:
        time = pa.scalar(microseconds, pa.timestamp("us", "UTC"))
        return time.cast(self._inner.clock.kind)

    def _output(self, changes: pa.Table) -> Output:
        """Rows came in order: what is found stays."""
        assert pc.index(changes.column("op"), "-").as_py() < 0
        rejected = self._inner.take_rejected()
        return Output(
            [changes] if changes.num_rows else [],
            rejected=rejected if rejected.num_rows else None,
        )

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        return self._inner.nothing.drop_columns(["op", "match_id"])

    def identified(self, table: pa.Table) -> pa.Table:
        known = "match_id" in table.column_names
        return with_names(table, table.column("match_id").to_pylist() if known else [])

    # -- what is held ----------------------------------------------------------------------------

    def next_time(self) -> int | None:
        return int(self._ends.min()) if len(self._ends) else None

    def sizes(self) -> Mapping[Key, int]:
        return self._inner.sizes()

    def drop(self, keys: Collection[Key]) -> None:
        self._inner.drop(keys)

    def known(self) -> list[Key]:
        return self._inner.known()

    @property
    def open_keys(self) -> int:
        return len(self._inner.known())

    @property
    def partials(self) -> int:
        return self._inner.partials

    def copy(self) -> Self:
        made = type(self)(self._machine, self._timing, self._partition_by, self._settings)
        made.open(None, self._schema, None, self.snapshot_together())
        return made

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        return self.snapshot_together()

    def snapshot_together(self) -> Snapshot:
        parts = {"state": self._inner.snapshot(), "ends": self._ends}
        return Snapshot(shared=pack(KIND, parts, {"version": self.version}))

    def _restore(self, blob: bytes) -> None:
        parts = unpack(KIND, blob)
        self.version = parts.numbers["version"]
        self._inner.restore(parts.state("state"))
        self._ends = parts.array("ends")
