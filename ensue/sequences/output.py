"""Listed matches to Arrow tables: the plain listing, or measures over each match.

The events of a match do not lie side by side, so they are gathered first: match after match, each
contiguous. On the gathered rows the measures of row patterns work unchanged, running ones of ALL
ROWS PER MATCH too. PREV and NEXT, which move on the partition's rows, are answered before
gathering, as columns of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton import conditions
from ensue.automaton.plan import PREFIX, Plan, atom_name
from ensue.operator.buffer import EVENT
from ensue.operator.match_names import EVENTS, listed_events, match_names
from ensue.operator.prepare import output_columns
from ensue.operator.status import MATCHED, STATUS, check_free
from ensue.quantities.measures import LISTING_EVENTS, Matches, Measured
from ensue.query import condition as c
from ensue.sequences.batch import EventBatch


@dataclass
class Found:
    """Matches of one batch, in the order in which they are reported."""

    partition: Any = field(default_factory=list)  # lists, or arrays where a kernel wrote them
    number: Any = field(default_factory=list)
    status: Any = field(default_factory=list)  # None: all are matches
    length: Any = field(default_factory=list)
    labels: Any = field(default_factory=list)
    rows: Any = field(default_factory=list)

    def add(
        self, partition: int, number: int, pairs: Sequence[tuple[int, int]], status: str = MATCHED
    ) -> None:
        self.partition.append(partition)
        self.number.append(number)
        self.status.append(status)
        self.length.append(len(pairs))
        for label, row in pairs:
            self.labels.append(label)
            self.rows.append(row)

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True)
class Output:
    """Columns of the result for one query."""

    plan: Plan
    timeouts: bool
    # Further columns that are one value per partition.
    carried: tuple[str, ...] = field(default=(), kw_only=True)

    def table(self, batch: EventBatch, found: Found) -> pa.Table:
        query = self.plan.query
        rows = np.array(found.rows, np.int64)
        lengths = np.array(found.length, np.int64)
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        partition = np.array(found.partition, np.int64)
        first_rows = batch.starts[partition] if len(found) else np.zeros(0, np.int64)
        names, arrays = [], []
        owners, shown = np.arange(len(found)), first_rows  # per row of the output
        if query.rows.all_rows:
            owners, shown = np.repeat(owners, lengths), rows
        for name in (*output_columns(self.plan, batch.table.schema), *self.carried):
            names.append(name)
            arrays.append(batch.columns[name].take(pa.array(shown)))
        if query.measures is None and not query.rows.all_rows:
            for name, array in self._listing(batch, found, rows, offsets, first_rows).items():
                names.append(name)
                arrays.append(array)
        else:
            atoms, shifted = _unshifted(self.plan.atoms, batch)
            wanted = {
                column.name
                for atom in atoms
                for column in c.walk(atom)
                if isinstance(column, c.Column)
            }
            source = {**batch.columns, **shifted}
            indices = pa.array(rows)
            columns = {name: source[name].take(indices) for name in wanted}
            entries = np.stack(
                [
                    np.zeros(len(found), np.int64),
                    offsets[:-1],
                    lengths,
                    np.array(found.number, np.int64),
                    offsets[:-1],
                ],
                axis=1,
            )
            positions = np.array(found.labels, np.int32) + np.int32(1)
            measured = Measured(
                self.plan,
                columns,
                np.array([0, len(rows)], np.int64),
                np.zeros(1, np.int64),
                Matches(np.ascontiguousarray(entries), positions.astype(np.int32)),
            )
            for index, atom in enumerate(atoms):
                names.append(atom_name(index))
                arrays.append(measured.atom(atom))
        if self.timeouts:
            check_free((*names, *(measure.name for measure in query.measures or ())))
            names.append(STATUS)
            status = found.status if found.status is not None else [MATCHED] * len(found)
            arrays.append(pa.array(status, pa.string()).take(pa.array(owners)))
        if EVENT in batch.columns:
            labels = np.array(found.labels, np.int64)
            firsts = rows[offsets[:-1]]
            hidden = match_names(batch.columns, firsts, rows, labels, offsets)
            if query.measures is None and not query.rows.all_rows:
                order = batch.columns[query.order_by[0].column]
                hidden[EVENTS] = listed_events(
                    batch.columns, order, rows, labels, offsets, self.plan.marks.labels
                )
            names.extend(hidden)
            arrays.extend(array.take(pa.array(owners)) for array in hidden.values())
        if not names:
            raise errors.QueryError(
                "the output would have no column: no PARTITION BY and no MEASURES",
                remedy="add a measure or a partition column",
            )
        return pa.table(arrays, names=names)

    def _listing(
        self,
        batch: EventBatch,
        found: Found,
        rows: np.ndarray,
        offsets: np.ndarray,
        first_rows: np.ndarray,
    ) -> dict[str, pa.Array]:
        query = self.plan.query
        order = query.order_by[0].column if query.order_by else None
        column = batch.columns[order] if order else pa.nulls(batch.table.num_rows)
        labels = pa.array(self.plan.marks.labels, pa.string())
        origins = first_rows - batch.reach.base[found.partition] if len(found) else first_rows
        owners = np.repeat(origins, np.diff(offsets))
        events = pa.StructArray.from_arrays(
            [labels.take(pa.array(np.array(found.labels, np.int64))), pa.array(rows - owners)],
            ["label", "row"],
        )
        return {
            "match_number": pa.array(np.array(found.number, np.int64)),
            "first": column.take(pa.array(rows[offsets[:-1]])),
            "last": column.take(pa.array(rows[offsets[1:] - 1])),
            "events": pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), events).cast(
                LISTING_EVENTS
            ),
        }


def _unshifted(
    atoms: Sequence[c.Condition], batch: EventBatch
) -> tuple[list[c.Condition], dict[str, pa.Array]]:
    """Atoms without PREV and NEXT, and the columns that answer for these."""
    changed: list[c.Condition] = []
    columns: dict[str, pa.Array] = {}
    for index, atom in enumerate(atoms):
        if not isinstance(atom, c.Navigate) or not atom.shift:
            changed.append(atom)
            continue
        if conditions.reads_label(atom.argument) or not isinstance(atom.argument, c.Column):
            raise errors.UnsupportedError(
                "PREV and NEXT of an event pattern move on rows, which have no label there",
                remedy="read a column, or use FIRST and LAST",
            )
        name = f"{PREFIX}shifted_{index}"
        columns[name] = shifted(batch, batch.columns[atom.argument.name], atom.shift)
        changed.append(replace(atom, argument=c.Column(name), shift=0))
    return changed, columns


def shifted(batch: EventBatch, column: pa.Array, shift: int) -> pa.Array:
    """The column's value `shift` rows on, null beyond the partition."""
    rows = np.arange(int(batch.starts[-1]), dtype=np.int64) + shift
    begins = np.repeat(batch.starts[:-1], np.diff(batch.starts))
    ends = np.repeat(batch.starts[1:], np.diff(batch.starts))
    outside = (rows < begins) | (rows >= ends)
    return column.take(pa.array(np.where(outside, 0, rows), mask=outside))
