"""Start rows chosen in the order of time, over all partitions and patterns (SHARP §4.3 for rows).

Partition after partition, a bound per row would give quiet partitions as many start rows as busy
ones, whose rows match more often. So the rows of all partitions are taken in the order of time, as
they would come in a stream, and of each stretch the best pairs of pattern and start row are tried:
by weight and by how often such start rows led to a match. Without a history a first part of the
rows teaches that, within the bound as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.kernels.automaton import NEVER
from ensue.operator.batch import Batch
from ensue.quantities.measures import Matches
from ensue.query.query import Query
from ensue.rows.evaluator import RowsEvaluator
from ensue.shared.constants import TEACHING
from ensue.shared.row_sample import Drawn

ROW = "__ensue_row"


@dataclass
class KeptStarts(Batch):
    """A batch in which only some rows may start a match."""

    keep: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def window_limits(self) -> NDArray[np.int32]:
        """A start that was shed may reach nowhere."""
        limits = super().window_limits()
        if not len(limits):
            limits = np.full(self.length, NEVER, np.int32)
        return np.where(self.keep, limits, np.int32(-1))

    @classmethod
    def of(cls, batch: Batch, keep: NDArray[np.bool_]) -> KeptStarts:
        shared = {name.name: getattr(batch, name.name) for name in fields(Batch)}
        return cls(**shared, keep=keep)


class ChosenRows(RowsEvaluator):
    """The row evaluator where it is known beforehand which rows (column `ROW`) are tried."""

    def __init__(
        self, keep: NDArray[np.bool_], part: NDArray[np.int64], before: NDArray[np.int64]
    ) -> None:
        """`part` is the partition of each row, `before` how many matches each had already."""
        super().__init__()
        self._keep, self._part, self._before = keep, part, before
        self._begun = np.zeros(len(before), np.bool_)
        self._rows = np.zeros(0, np.int64)
        self.matched = np.zeros(len(keep), np.bool_)

    def _match(self, batch: Batch) -> Iterator[pa.Table]:
        self._rows = batch.columns[ROW].to_numpy()
        some = np.flatnonzero(np.diff(batch.starts))  # of others no row says which they are
        here = self._part[self._rows[batch.starts[some]]]
        batch.cursor[some, 1] += np.where(self._begun[here], 0, self._before[here])
        self._begun[here] = True
        yield from super()._match(KeptStarts.of(batch, self._keep[self._rows]))

    def _output(self, batch: Batch, matches: Matches) -> pa.Table:
        self.matched[self._rows[matches.match[:, 1]]] = True
        return super()._output(batch, matches)


def numbered(table: pa.Table) -> pa.Table:
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))


def whole_batch(planned: Plan, columns: Mapping[str, pa.Array], starts: NDArray[np.int64]) -> Batch:
    """All rows at once, to know where matches may start."""
    partitions = len(starts) - 1
    return Batch(
        planned, columns, starts, np.zeros(partitions, np.bool_), np.ones(partitions, np.bool_),
        np.zeros(partitions, np.int64), np.zeros((partitions, 3), np.int64),
    )  # fmt: skip


def turns(table: pa.Table, query: Query) -> NDArray[np.int64]:
    """Rows in the order of time; as they came, where there is none."""
    if not query.order_by:
        return np.arange(table.num_rows)
    keys = [(key.column, "descending" if key.descending else "ascending") for key in query.order_by]
    found: NDArray[np.int64] = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return found


def stages(rows: int, taught: bool) -> list[tuple[int, int]]:
    """Parts of the rows after which what was learned counts."""
    first = 0 if taught else int(rows * TEACHING)
    return [(begin, end) for begin, end in ((0, first), (first, rows)) if end > begin]


@dataclass
class Candidates:
    """Rows where a pattern may start, and what is known of them."""

    starts: NDArray[np.bool_]
    possible: NDArray[np.bool_]  # by what rows say alone
    keys: NDArray[np.int64]
    keep: NDArray[np.bool_]
    drawn: list[Drawn]  # of those that were to be shed


def best(values: list[NDArray[np.float64]], room: int) -> list[NDArray[np.bool_]]:
    """Of the values of several patterns the largest, `room` of them; those that came first win."""
    joined = np.concatenate(values) if values else np.zeros(0)
    taken = np.zeros(len(joined), np.bool_)
    taken[np.argsort(-joined, kind="stable")[:room]] = True
    ends = np.cumsum([len(v) for v in values])
    return np.split(taken, ends[:-1]) if values else []
