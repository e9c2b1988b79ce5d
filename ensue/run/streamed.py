"""One long sequence in a Parquet file, matched as it is read: memory is that of a few batches.

Where rows are one partition and the file holds them in order, nothing has to be sorted, so nothing
has to be read in full. The next batches are read and prepared (conditions on Arrow columns) while
one is matched, so that two cores are busy. Rows of equal order are never cut apart: ties are told
as over the whole table.

A file that turns out not to be in order, or that is small, is read whole, as it always was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan, plan
from ensue.operator import ties
from ensue.operator.arrange import flat, has_value_codes, order_codes
from ensue.operator.notices import Notices
from ensue.operator.prepare import finish, prepare
from ensue.operator.protocol import Events
from ensue.query import condition as c
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run import choose
from ensue.stopping import look

LARGE = 4_000_000  # rows from which on a file is read in batches
BATCH = 1 << 18
_AHEAD = 2  # batches that are prepared while one is matched


class _UnorderedError(Exception):
    """The rows are not in order, or not of one form that batches can be compared by."""


class _Prepared(NamedTuple):
    table: pa.Table
    codes: NDArray[np.int64]


def run(
    query: Query, path: Path, notices: Notices, plain: Callable[[pa.RecordBatch], pa.Table]
) -> pa.Table | None:
    """All matches of a row pattern in large Parquet data; None where it has to be read whole.

    `plain` gives the rows of a batch in the types that Ensue computes with.
    """
    from pyarrow import dataset

    if not query.row_semantics or query.partition_by or len(query.order_by) != 1:
        return None
    source = dataset.dataset(path, format="parquet", partitioning="hive")
    if source.count_rows() < LARGE:
        return None
    names = source.schema.names
    rules.duplicates(names, "column of the input")
    bound = rules.check(bind(query, names))
    planned = plan(bound)
    batches = _batches(source.files, source.schema, _read(planned, names))
    try:
        return _matches(planned, map(plain, batches), notices)
    except _UnorderedError:
        return None


def _batches(files: list[str], schema: pa.Schema, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Batch by batch: a scanner, or a file with a buffer, would read a gigabyte ahead."""
    from pyarrow import parquet

    for file in files:
        with parquet.ParquetFile(file, pre_buffer=False) as opened:
            if not opened.schema_arrow.equals(schema):
                raise _UnorderedError
            yield from opened.iter_batches(BATCH, columns=columns)


def _matches(planned: Plan, batches: Iterator[pa.Table], notices: Notices) -> pa.Table:
    evaluator = choose.for_matches(planned.query).evaluator
    pieces: list[pa.Table] = []
    waiting: pa.Table | None = None  # rows of the last order seen: more of it may come
    last, tied, schema = np.iinfo(np.int64).min, 0, None

    def insert(table: pa.Table) -> int:
        starts = np.array([0, table.num_rows], np.int64)
        pieces.extend(evaluator.insert(Events(table, starts, np.array([False]))).tables())
        return ties.tied_rows(planned, table)

    for table, codes in _ahead(planned, batches):
        look()
        if schema is None:
            schema = table.schema
            evaluator.open(planned, schema)
        if not len(codes):
            continue
        if codes[0] < last or (codes[1:] < codes[:-1]).any():
            raise _UnorderedError
        before, last = last, int(codes[-1])
        cut = int(np.searchsorted(codes, last))
        if waiting is not None and before < last:
            cut += waiting.num_rows
        known = pa.concat_tables([table] if waiting is None else [waiting, table])
        ready, waiting = known.slice(0, cut).combine_chunks(), known.slice(cut)
        if ready.num_rows:
            tied += insert(ready)
    assert schema is not None
    if waiting is not None:
        tied += insert(waiting.combine_chunks())
    pieces.extend(evaluator.end().tables())
    ties.tell(planned.query, tied, notices)
    return finish(planned, pa.concat_tables(pieces or [evaluator.no_matches(schema)]))


def _ahead(planned: Plan, batches: Iterator[pa.Table]) -> Iterator[_Prepared]:
    """The batches in turn, each prepared while the one before is matched."""

    def prepared(batch: pa.Table) -> _Prepared:
        table = prepare(planned, batch.combine_chunks())
        key = planned.query.order_by[0]
        column = flat(table, key.column)
        if column.null_count or not has_value_codes(column.type):
            raise _UnorderedError
        (codes,) = order_codes(column, key)
        return _Prepared(table, codes)

    with ThreadPoolExecutor(1) as pool:
        coming: deque[Future[_Prepared]] = deque()
        try:
            for batch in batches:
                coming.append(pool.submit(prepared, batch))
                if len(coming) > _AHEAD:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for future in coming:
                future.cancel()


def _read(planned: Plan, names: list[str]) -> list[str]:
    """Columns of the file that the plan needs."""
    wanted = {name.casefold() for name in planned.carried(names)}
    for expression in (*planned.inputs, *planned.flags):
        wanted |= {name.casefold() for name in c.columns(expression)}
    return [name for name in names if name.casefold() in wanted] or names[:1]
