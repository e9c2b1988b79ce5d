"""Batches in any order to events in order, in bounded memory.

What fits `memory` is arranged at once (`arrange.py`). Beyond that, sorted runs go to temporary
Arrow files and are merged block by block: concatenate one block of every run, sort, and emit up to
the first row that is the last of a block whose run has more; nothing still on disk can come before
it. Memory is then one block per run, whatever the input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.operator.arrange import (
    arrange,
    flat,
    has_value_codes,
    order_codes,
    run_starts,
    sort_index,
)
from ensue.operator.protocol import Events
from ensue.operator.ties import watched
from ensue.query.query import OrderKey, Query

MEMORY = 64 << 20
_BLOCK_ROWS = 1 << 16
_SORT = "__ensue_sort_"
_LAST = "__ensue_last_of_block"


def sorted_events(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, query: Query, memory: int | None = None
) -> Iterator[Events]:
    """Events partition after partition, each in order; every partition is completed.

    Rows whose order is left open are reported, as the query asks.
    """
    return watched(query, _sorted(batches, schema, query, memory))


def _sorted(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, query: Query, memory: int | None
) -> Iterator[Events]:
    memory = MEMORY if memory is None else memory
    held: list[pa.RecordBatch] = []
    size = 0
    remaining = iter(batches)
    for batch in remaining:
        held.append(batch)
        size += batch.nbytes
        if size > memory:
            yield from _spilled(held, remaining, schema, query, memory)
            return
    table = pa.Table.from_batches(held, schema)
    held = []
    table, starts = arrange(table, query.partition_by, query.order_by)
    yield Events(table, starts, np.ones(len(starts) - 1, np.bool_))


def _spilled(
    held: list[pa.RecordBatch],
    remaining: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    query: Query,
    memory: int,
) -> Iterator[Events]:
    """The rows held and all that remain, through sorted runs on disk."""
    runs: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="ensue-") as folder:
        while held:
            runs.append(_write_run(held, schema, query, Path(folder) / f"{len(runs)}.arrow"))
            size = 0
            for batch in remaining:
                held.append(batch)
                size += batch.nbytes
                if size > memory:
                    break
        yield from _completed(_merge(runs, query), query)


def _sort_columns(table: pa.Table, query: Query) -> tuple[pa.Table, list[tuple[str, str, str]]]:
    """The table with sort columns whose order is the same in every run."""
    keys: list[tuple[str, str, str]] = []
    wanted = [OrderKey.of(name) for name in query.partition_by] + list(query.order_by)
    for index, key in enumerate(wanted):
        column, name = flat(table, key.column), f"{_SORT}{index}"
        kind = column.type
        if pa.types.is_nested(kind):
            raise errors.LimitError(
                f"the column {key.column!r} of type {kind} cannot be sorted beyond "
                f"{MEMORY >> 20} MB per task",
                remedy="partition and order by plain columns, or use more partitions",
            )
        if not has_value_codes(kind):
            place = "at_start" if key.nulls_first else "at_end"
            keys.append((name, "descending" if key.descending else "ascending", place))
            table = table.append_column(name, column)
            continue
        codes = order_codes(column, key)
        if len(codes) == 1:
            codes.insert(0, np.full(len(column), int(key.nulls_first), np.int64))
        for part, code in enumerate(codes):
            keys.append((f"{name}_{part}", "ascending", "at_start"))
            table = table.append_column(f"{name}_{part}", pa.array(code))
    return table, keys


def _write_run(held: list[pa.RecordBatch], schema: pa.Schema, query: Query, path: Path) -> Path:
    """Sort the rows held, write them, and let go of them."""
    table = pa.Table.from_batches(held, schema).combine_chunks()
    held.clear()
    table, keys = _sort_columns(table, query)
    index = _order(table, keys) if keys else None
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for begin in range(0, table.num_rows, _BLOCK_ROWS):
            block = table.slice(begin, _BLOCK_ROWS)
            if index is not None:
                block = table.take(index.slice(begin, _BLOCK_ROWS))
            writer.write_table(block.combine_chunks())
    return path


def _order(table: pa.Table, keys: list[tuple[str, str, str]]) -> pa.Array:
    """The index that sorts the table; by numpy where all keys are codes, as is usual."""
    columns = [flat(table, name) for name, _, _ in keys]
    if any(not pa.types.is_int64(column.type) for column in columns):
        return pc.sort_indices(table, sort_keys=keys)
    codes = [column.to_numpy() for column in columns]
    varying = [code for code in codes if code.min() != code.max()] or codes[:1]
    first, *rest = varying
    if len(rest) == 1:
        return pa.array(sort_index(first - first.min(), rest))
    return pa.array(np.lexsort(tuple(reversed(varying))))


def _merge(runs: list[Path], query: Query) -> Iterator[pa.Table]:
    readers = [pa.ipc.open_file(pa.OSFile(str(path))) for path in runs]
    following = [0] * len(readers)
    rest: pa.Table | None = None
    waiting = set(range(len(readers)))  # runs whose next block is needed
    while waiting or rest is not None:
        parts = [] if rest is None else [rest]
        for run in sorted(waiting):
            if following[run] < readers[run].num_record_batches:
                parts.append(_block(readers[run], following[run], run))
                following[run] += 1
        waiting = set()
        if not parts:
            return
        table = pa.concat_tables(parts).combine_chunks()
        names = [n for n in table.column_names if n.startswith(_SORT)]
        keys = _keys_of(names, query)
        if keys:
            table = table.take(_order(table, keys))
        lasts = flat(table, _LAST).to_numpy()
        open_ends = [
            int(at)
            for at in np.flatnonzero(lasts >= 0)
            if following[lasts[at]] < readers[lasts[at]].num_record_batches
        ]
        cut = open_ends[0] + 1 if open_ends else table.num_rows
        if open_ends:
            waiting.add(int(lasts[open_ends[0]]))
        yield table.slice(0, cut).drop_columns([*names, _LAST])
        rest = table.slice(cut) if cut < table.num_rows else None
        if rest is not None:
            rest = rest.take(np.arange(rest.num_rows))


def _keys_of(names: list[str], query: Query) -> list[tuple[str, str, str]]:
    wanted = [OrderKey.of(name) for name in query.partition_by] + list(query.order_by)
    keys = []
    for name in names:
        parts = name.removeprefix(_SORT).split("_")
        key = wanted[int(parts[0])]
        if len(parts) == 2:
            keys.append((name, "ascending", "at_start"))
        else:
            place = "at_start" if key.nulls_first else "at_end"
            keys.append((name, "descending" if key.descending else "ascending", place))
    return keys


def _block(reader: pa.ipc.RecordBatchFileReader, index: int, run: int) -> pa.Table:
    table = pa.Table.from_batches([reader.get_batch(index)])
    last = np.full(table.num_rows, -1, np.int64)
    last[-1] = run
    return table.append_column(_LAST, pa.array(last))


def _completed(chunks: Iterator[pa.Table], query: Query) -> Iterator[Events]:
    """Chunks of one ordered sequence; the last partition of a chunk may continue in the next."""
    tail: pa.Table | None = None
    opened = False  # rows of the tail's partition were sent already
    for chunk in chunks:
        table = chunk if tail is None else pa.concat_tables([tail, chunk]).combine_chunks()
        firsts = run_starts(table, query.partition_by)[:-1]
        if len(firsts) > 1:
            if opened:
                yield _events(table.slice(0, int(firsts[1])), True)
                begin = 1
            else:
                begin = 0
            first = int(firsts[begin])
            if begin < len(firsts) - 1:
                starts = firsts[begin:] - first
                done = table.slice(first, int(firsts[-1]) - first)
                yield Events(done, starts, np.ones(len(starts) - 1, np.bool_))
            opened = False
            tail = table.slice(int(firsts[-1]))
            continue
        tail = table
        if table.num_rows >= 4 * _BLOCK_ROWS:
            yield _events(table, False)
            tail, opened = table.slice(0, 0), True
    if tail is not None and (tail.num_rows or opened):
        yield _events(tail, True)


def _events(table: pa.Table, complete: bool) -> Events:
    return Events(table, np.array([0, table.num_rows], np.int64), np.array([complete]))
