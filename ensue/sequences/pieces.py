"""Aggregates over all matches of partitions that come in pieces: what a streaming runner calls.

    totals = TotalsInPieces(plan, schema, grouping, state=None)
    totals.insert(events)         # a table of partials: what the new rows settle
    totals.advance(mark)          # what only time settles (a trailing "not")
    totals.end(keys)              # what the end of these partitions settles
    totals.snapshot(touched)      # state per key, as every evaluator's

Partials have the columns of `sequence_totals.Totals.schema`; `sequence_totals.Finish` adds up those
of all pieces and tasks in any order. Where conditions look at single rows and there is no window,
state is a number per state of the automaton (with each aggregate's sum so far) and no row is kept;
elsewhere it is the rows that partial matches still need (`operator/hold.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import Plan, atom_name
from ensue.operator.hold import Piece, Tails
from ensue.operator.protocol import Capabilities, Events, Key, Refusing, Snapshot, Watermark
from ensue.operator.state import Kind, pack, unpack
from ensue.operator.window_clock import Clock
from ensue.query.query import SkipMode
from ensue.scalar.moments import in_numbers
from ensue.sequences.aggregates import Aggregates, Total
from ensue.sequences.batch import EventBatch
from ensue.sequences.counts import countable
from ensue.sequences.runs import ANYWHERE
from ensue.sequences.runs import Key as RunKey
from ensue.sequences.totals import TOTAL, Grouping, Left, Totals

KIND = Kind("sequence totals", version=2, oldest=2)
_PLACES = "places"


class TotalsInPieces(Refusing):
    """See the module; one instance per task."""

    name = "the evaluator of aggregates over all matches"
    capabilities = Capabilities(ordered_input=True)

    def __init__(
        self, plan: Plan, schema: pa.Schema, grouping: Grouping, state: Snapshot | None = None
    ) -> None:
        self._plan, self._schema = plan, schema
        self._totals = Totals(plan, grouping)
        self._clock = Clock(plan.query)
        self._tails = Tails(plan, schema, self._clock.numbers)
        # Partial matches are numbers per state: no row has to be looked at again.
        self._by_state = plan.query.within is None and countable(plan, self._totals.subsets)
        self._classes: dict[Key, dict[RunKey, Total]] = {}
        if state is not None:
            self._restore(state)

    @property
    def tails(self) -> Tails:
        """What is held of open partitions."""
        return self._tails

    @property
    def nbytes(self) -> int:
        """Rows held, or the numbers of each state."""
        slots = 2 + len(self._plan.atoms)
        return self._tails.nbytes + 8 * slots * sum(map(len, self._classes.values()))

    def schema(self) -> pa.Schema:
        """Of the partials."""
        return self._totals.schema(self._schema)

    def insert(self, events: Events) -> pa.Table:
        if not len(events.complete):
            return self.schema().empty_table()
        return self._run(self._tails.join(events))

    def advance(self, mark: Watermark) -> pa.Table:
        time = self._clock.time(mark, self._tails)
        if time is None:
            return self.schema().empty_table()
        piece = self._tails.take(self._tails.expired(time - self._clock.size), complete=False)
        return self.schema().empty_table() if piece is None else self._run(piece, time)

    def end(self, keys: Iterable[Key] | None = None) -> pa.Table:
        ended = list(self._tails.held if keys is None else keys)
        piece = self._tails.take(ended, complete=True)
        found = self.schema().empty_table() if piece is None else self._run(piece)
        for key in ended:
            self._classes.pop(key, None)
        return found

    def _run(self, piece: Piece, time: float | None = None) -> pa.Table:
        lookahead = self._plan.lookahead
        floors = None if time is None else self._clock.floors(piece, time, lookahead)
        reach = piece.reach(lookahead, floors)
        batch = EventBatch(self._plan, self._totals.subsets, piece.table, piece.starts, reach)
        carried = None
        if self._plan.query.skip.mode is not SkipMode.NONE:
            carried = [piece.carried(index) for index in range(len(piece.complete))]
        left: list[Left] = []
        if self._by_state:
            keys: list[Key | None] = [*piece.keys] or [None] * len(piece.complete)
            left = [Left(0, {} if key is None else self._classes.get(key, {})) for key in keys]
        found = self._totals.of(batch, carried, left)
        if self._by_state:
            live = reach.stops
            for key, complete, now in zip(piece.keys, piece.complete, left, strict=False):
                if complete:
                    self._classes.pop(key, None)
                else:
                    self._classes[key] = now.classes
        else:
            live = np.array([now.begin for now in left], np.int64)
        self._tails.keep(piece, reach, live, piece.matches, carried)
        return found

    # -- state -----------------------------------------------------------------------------------

    def copy(self) -> TotalsInPieces:
        """Another that goes on from here by itself."""
        made = copy(self)
        made._tails = copy(self._tails)
        made._tails.held = dict(self._tails.held)
        made._classes = {key: dict(classes) for key, classes in self._classes.items()}
        return made

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget these keys, and what the end of them would settle."""
        for key in keys:
            self._tails.held.pop(key, None)
            self._classes.pop(key, None)

    def snapshot(self, touched: Iterable[Key] | None = None) -> Snapshot:
        rows = self._tails.snapshot(touched)
        if not self._by_state:
            return Snapshot(rows)
        empty = EventBatch(
            self._plan, self._totals.subsets, self._schema.empty_table(), np.zeros(1, np.int64)
        )
        aggregates = Aggregates(self._plan, empty)
        return Snapshot(
            {
                key: self._packed(blob, aggregates, self._classes.get(key, {}))
                for key, blob in rows.items()
            }
        )

    def _packed(self, rows: bytes, aggregates: Aggregates, classes: dict[RunKey, Total]) -> bytes:
        subsets = self._totals.subsets
        columns = {
            _PLACES: pa.array(
                [list(subsets.canonical(state)) for state, _, _ in classes], pa.list_(pa.int32())
            ),
            TOTAL: pa.array([aggregates.pack(total) for total in classes.values()], pa.string()),
        }
        kinds = aggregates.kinds(self._schema)
        for index, slot in enumerate(aggregates.slots):
            if slot.function in ("min", "max"):
                extremes = [total[1][index][1] for total in classes.values()]
                columns[atom_name(index)] = pa.array(extremes, kinds[index])
        parts = {"rows": rows, "totals": pa.table(columns)}
        return pack(KIND, parts, query=self._plan.fingerprint)

    def _restore(self, state: Snapshot) -> None:
        if not self._by_state:
            self._tails.restore(state.keys)
            return
        rows: dict[Key, bytes] = {}
        aggregates = Aggregates(self._plan, None)
        for key, blob in state.keys.items():
            parts = unpack(KIND, blob, self._plan.fingerprint)
            rows[key] = parts.state("rows")
            found: dict[RunKey, Total] = {}
            for row in in_numbers(parts.table("totals")).to_pylist():
                extremes = [row.get(atom_name(i)) for i in range(len(aggregates.slots))]
                where = (self._totals.subsets.find(row[_PLACES]), ANYWHERE, ())
                found[where] = aggregates.unpack(row[TOTAL], extremes)
            self._classes[key] = found
        self._tails.restore(rows)
