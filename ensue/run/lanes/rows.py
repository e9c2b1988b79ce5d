"""Sets of rows as lanes need them: distinguished, corrected, and by the name of a match."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.kernels.order import has_equal
from ensue.operator.arrange import flat, run_starts
from ensue.operator.buffer import CONTENT
from ensue.operator.intake import count_before
from ensue.operator.match_names import MATCH
from ensue.run.lanes.work import TEXT
from ensue.scalar.moments import values_of


def told_apart(rows: pa.Table) -> pa.Table:
    """Rows that are equal in everything get a content of their own, by their number among equals.

    All of them have one event time, so they are always released together.
    """
    content = flat(rows, CONTENT).to_numpy()
    if not has_equal(content):
        return rows
    number = count_before(content)
    with np.errstate(over="ignore"):
        apart = content + number * np.int64(0x5851F42D4C957F2D)
    position = rows.schema.get_field_index(CONTENT)
    return rows.set_column(position, CONTENT, pa.array(apart))


def newest(identity: NDArray[np.int64], sequence: pa.Array) -> NDArray[np.bool_]:
    """Per identity, the row with the greatest sequence."""
    ranks = pc.rank(sequence, sort_keys="ascending", tiebreaker="first").to_numpy()
    order = np.lexsort((ranks, identity))
    ordered = identity[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    keep = np.zeros(len(identity), np.bool_)
    keep[order[last]] = True
    return keep


def uncancelled(content: NDArray[np.int64], sign: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows left when each withdrawal has taken one row of its content with it."""
    keep = np.ones(len(content), np.bool_)
    if (sign > 0).all():
        return keep
    order = np.lexsort((sign, content))
    runs = run_starts(pa.table({"content": content[order]}), ["content"])
    minus = np.add.reduceat((sign[order] < 0).astype(np.int64), runs[:-1])
    plus = np.diff(runs) - minus
    pairs = np.minimum(plus, minus)
    position = np.arange(len(content)) - np.repeat(runs[:-1], np.diff(runs))
    of_minus, of_pairs = np.repeat(minus, np.diff(runs)), np.repeat(pairs, np.diff(runs))
    gone = (position < of_pairs) | ((position >= of_minus) & (position < of_minus + of_pairs))
    keep[order] = ~gone
    return keep


def newest_names(rows: pa.Table) -> pa.Table:
    """Of the rows of one name (MATCH) the last."""
    names = np.array(rows[MATCH].to_pylist(), str)[::-1]
    _, places = np.unique(names, return_index=True)
    if len(places) == len(names):
        return rows
    return rows.take(pa.array(np.sort(len(names) - 1 - places)))


def as_json(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Rows that could not be used: the key, and the row as text."""
    names = rows.column_names
    values = zip(*(values_of(rows.column(name)) for name in names), strict=True)
    shown = (dict(zip(names, row, strict=True)) for row in values)
    texts = [json.dumps(row, ensure_ascii=False, default=str) for row in shown]
    return rows.select(list(keys)).append_column(TEXT, pa.array(texts))
