"""Answers about paths as tables: node and query numbers become names."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.digits import digits
from ensue.paths.graph_store import GraphStore
from ensue.paths.search import Found, Request

_DIGITS = 38


def path_table(store: GraphStore, found: Found, names: Sequence[str] | None) -> pa.Table:
    """start, end, nodes, labels, length, weight if asked; `query` first where there are several."""
    columns = _ends_columns(store, found, names)
    node_offset = found.offset + np.arange(len(found.offset))
    nodes = store.names.take(pa.array(found.nodes))
    labels = store.symbol_names.take(pa.array(found.labels))
    columns["nodes"] = _lists(node_offset, nodes)
    columns["labels"] = _lists(found.offset, labels)
    columns["length"] = pa.array(np.diff(found.offset).astype(np.int32))
    if found.weight is not None:
        columns["weight"] = pa.array(found.weight)
    return pa.table(columns)


def ends_table(store: GraphStore, found: Found, names: Sequence[str] | None) -> pa.Table:
    return pa.table(_ends_columns(store, found, names))


def count_table(
    store: GraphStore,
    request: Request | None,
    rows: list[list[int]],
    names: Sequence[str] | None,
    every: bool,
    as_text: bool,
) -> pa.Table:
    """Numbers by start, of `rows` by origin and query; a 0 only where not `every` node is asked."""
    kept = [
        (query, request.origins.node[origin], count)
        for origin, row in enumerate(rows)
        for query, count in enumerate(row)
        if request is not None
        and query in request.origins.sets[request.origins.asked[origin]]
        and (count or not every)
    ]
    columns: dict[str, pa.Array] = {}
    if names is not None:
        columns["query"] = pa.array([names[query] for query, _, _ in kept], pa.string())
    columns["start"] = store.names.take(pa.array([node for _, node, _ in kept], pa.int32()))
    columns["count"] = _numbers([count for _, _, count in kept], as_text)
    return pa.table(columns)


def _ends_columns(
    store: GraphStore, found: Found, names: Sequence[str] | None
) -> dict[str, pa.Array]:
    columns = {}
    if names is not None:
        columns["query"] = pa.array(names, pa.string()).take(pa.array(found.query))
    columns["start"] = store.names.take(pa.array(found.start))
    columns["end"] = store.names.take(pa.array(found.end))
    return columns


def _lists(offset: NDArray[np.int64], values: pa.Array) -> pa.Array:
    if int(offset[-1]) < 2**31:
        return pa.ListArray.from_arrays(pa.array(offset.astype(np.int32)), values)
    return pa.LargeListArray.from_arrays(pa.array(offset), values)


def _numbers(counts: list[int], as_text: bool) -> pa.Array:
    if as_text:
        return pa.array(list(map(digits, counts)), pa.string())
    if any(count >= 10**_DIGITS for count in counts):
        largest = max(counts)
        raise errors.OverflowDataError(
            f"a count has {len(digits(largest))} digits; decimal({_DIGITS},0) holds {_DIGITS}",
            remedy="set as_text=True, or use count(), which gives a Python integer",
        )
    return pa.array([Decimal(count) for count in counts], pa.decimal128(_DIGITS, 0))
