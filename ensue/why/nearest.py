"""The attempts that lack least: of each part of the data the first ones, and of these the first."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.query.query import Query


def check(n: int) -> int:
    """The number of attempts to list."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise errors.QueryError(
            f"nearest(n={n!r}): the number of attempts is a whole number, 1 or more",
            remedy="use nearest(data, 10)",
        )
    return n


def nearest(query: Query, parts: Iterable[pa.Table], n: int) -> pa.Table:
    """The first n of all: they lack least, then matched most, then stand first by key and row."""
    best: pa.Table | None = None
    for part in parts:
        both = part if best is None else pa.concat_tables([best, part])
        ranked = both.append_column("__ensue_most", pc.list_value_length(both.column("matched")))
        keys = [("lacks", "ascending"), ("__ensue_most", "descending")]
        keys += [(name, "ascending") for name in (*query.partition_by, "row")]
        best = both.take(pc.sort_indices(ranked, sort_keys=keys)[:n])
    assert best is not None
    return best
