"""Aggregates over all matches as an evaluator: totals per group that grow as events come.

`pieces.py` gives what each piece of a partition adds; here the pieces of one group are added up.
`result` gives every group as it stands. A total over windows of time is final, and put out, when
the watermark has passed its window and the longest that a match may still take to be settled in it.
One without windows is final only when everything has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.operator import state as stored
from ensue.operator.batch import order_numbers
from ensue.operator.hold import HoldsRows, Tails
from ensue.operator.protocol import (
    Capabilities,
    Events,
    Exact,
    Key,
    Metrics,
    Output,
    Snapshot,
    Watermark,
    key_table,
    keys_in,
)
from ensue.query.query import WindowKind
from ensue.sequences.pieces import TotalsInPieces
from ensue.sequences.totals import Finish, Grouping, Groups

KIND = stored.Kind("totals of groups", version=2, oldest=2)
_GROUP_BYTES = 64  # about what a group takes


class TotalsEvaluator(Exact, HoldsRows):
    """See the module. `alone`: without groups there is one row, before the first match too."""

    name = "the evaluator of aggregates over all matches"
    capabilities = Capabilities(ordered_input=True, result_on_demand=True)
    no_budget = (
        "aggregates over all matches are exact and take no budget",
        "leave the budget out, or count what matches(..., budget=...) finds",
    )

    def __init__(self, grouping: Grouping, alone: bool = True) -> None:
        self._grouping, self._alone = grouping, alone and not grouping.by
        self.metrics = Metrics()

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        self._plan, self._schema = plan, schema.remove_metadata()
        self._finish = Finish(plan, self._grouping, self._schema)
        self._groups: Groups = {}
        self._window = plan.query.within
        keys = {} if state is None else state.keys
        if state is not None and state.shared:
            keys = {**keys, **self._restore(state.shared)}
        self._pieces = TotalsInPieces(plan, self._schema, self._grouping, Snapshot(keys))

    @property
    def named_by(self) -> tuple[str, ...]:
        """The columns that say which group a row of the result is."""
        return self._finish.keys

    # -- calls -----------------------------------------------------------------------------------

    def insert(self, events: Events) -> Output:
        self.metrics.rows += events.table.num_rows
        self._finish.add(self._groups, self._pieces.insert(events))
        return Output()

    def advance(self, mark: Watermark) -> Output:
        """What time settles; windows that are over."""
        self._finish.add(self._groups, self._pieces.advance(mark))
        every = self._grouping.every
        if every is None or not self._groups:
            return Output()
        edge = self._moment(mark) - self._slack - every
        over = {key: total for key, total in self._groups.items() if key[-1] < edge}
        if not over:
            return Output()
        self._groups = {key: total for key, total in self._groups.items() if key not in over}
        return Output([self._finish.shown(over, alone=False)])

    def end(self, keys: Iterable[Key] | None = None) -> Output:
        """What the end of these keys settles; the end of all makes every group final."""
        self._finish.add(self._groups, self._pieces.end(keys))
        if keys is not None:
            return Output()
        final, self._groups = self.result(), {}
        return Output([final] if final.num_rows else [])

    def result(self) -> pa.Table:
        """Every group that is not final, as it stands."""
        return self._finish.shown(self._groups, self._alone)

    def standing(self) -> Iterable[pa.Table]:
        return (self.result(),)

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        return self._finish.shown({}, alone=False)

    # -- what a lane asks ------------------------------------------------------------------------

    @property
    def tails(self) -> Tails:
        return self._pieces.tails

    @property
    def nbytes(self) -> int:
        atoms = 1 + len(self._plan.atoms)
        return self._pieces.nbytes + _GROUP_BYTES * atoms * len(self._groups)

    def next_time(self) -> int | None:
        settles, every = super().next_time(), self._grouping.every
        if every is None or not self._groups:
            return settles
        over = int(min(key[-1] for key in self._groups) + every + self._slack + 1)
        return over if settles is None else min(over, settles)

    def drop(self, keys: Collection[Key]) -> None:
        self._pieces.drop(keys)

    def copy(self) -> TotalsEvaluator:
        made = copy(self)
        made.metrics = copy(self.metrics)
        made._pieces = self._pieces.copy()
        made._groups = dict(self._groups)
        return made

    @property
    def _slack(self) -> float:
        """How long after its last event a match may be settled."""
        window = self._window
        return 0 if window is None or window.kind is WindowKind.ROWS else window.size

    def _moment(self, mark: Watermark) -> float:
        kind = self._schema.field(self._plan.query.order_by[0].column).type
        return self._number(pa.chunked_array([pa.array([mark.time], kind)]))

    def _number(self, moments: pa.ChunkedArray) -> float:
        """The first of these order values, in the unit of windows."""
        kind = moments.type
        temporal = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        unit = WindowKind.TIME if temporal else WindowKind.NUMBER
        name = self._plan.query.order_by[0].column
        number: float = order_numbers(moments.combine_chunks(), unit, name)[0].item()
        return number

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        """What is held of each key; the groups are shared."""
        return Snapshot(self._pieces.snapshot(touched).keys, self._bytes({}))

    def snapshot_together(self) -> Snapshot:
        """Keys and groups as one shared blob."""
        return Snapshot(shared=self._bytes(self._pieces.snapshot().keys))

    def _bytes(self, keys: Mapping[Key, bytes]) -> bytes:
        fields = [self._schema.field(name) for name in self._plan.query.partition_by]
        columns = key_table(keys, [f.with_name(f"key_{place}") for place, f in enumerate(fields)])
        columns = columns.append_column("state", pa.array(list(keys.values()), pa.binary()))
        groups = self._finish.partials(self._groups, self._pieces.schema())
        parts = {"keys": columns, "groups": groups}
        return stored.pack(KIND, parts, query=self._plan.fingerprint)

    def _restore(self, blob: bytes) -> dict[Key, bytes]:
        parts = stored.unpack(KIND, blob, self._plan.fingerprint)
        keys = parts.table("keys")
        self._finish.add(self._groups, parts.table("groups"))
        names = [name for name in keys.column_names if name != "state"]
        return dict(zip(keys_in(keys, names), keys["state"].to_pylist(), strict=True))
