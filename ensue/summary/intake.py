"""Events as a table of one schema, whatever they were given as, and its rows by key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.kernels.order import first_rows
from ensue.operator.arrange import group_codes
from ensue.operator.protocol import Key
from ensue.scalar.moments import values_of

Reader = Callable[[Any], pa.Table]
VALUE = "__ensue_value"  # of the total, beside the columns of an event


def as_table(events: Any, reader: Reader | None, known: pa.Schema | None) -> pa.Table:
    """Arrow, a list of dicts (a name that is not there is null), or what the reader knows."""
    if isinstance(events, list):
        return _listed(events, known.names if known is not None else [])
    if reader is None and isinstance(events, pa.Table):
        return events
    if reader is None and isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    if reader is None:
        raise errors.UnsupportedInputError(
            f"{type(events).__name__} is not a table of events",
            remedy="give a pyarrow Table or RecordBatch, or a list of dicts",
        )
    return reader(events)


def _listed(rows: list[Any], known: list[str]) -> pa.Table:
    for row in rows:
        if not isinstance(row, dict):
            raise errors.UnsupportedInputError(
                f"a list of {type(row).__name__} is not a table of events",
                remedy="give a list of dicts, one per event",
            )
    names = dict.fromkeys([*known, *(name for row in rows for name in row)])
    try:
        return pa.table({name: [row.get(name) for row in rows] for name in names})
    except (pa.ArrowException, OverflowError) as problem:
        raise errors.UnsupportedInputError(
            f"the events cannot be read as a table: {problem}", remedy="give each name one type"
        ) from None


def widened(known: pa.Schema, given: pa.Schema) -> pa.Schema:
    """The schema before, where columns that were null so far have the type they come with now."""
    fields = []
    for field in known:
        place = given.get_field_index(field.name)
        late = pa.types.is_null(field.type) and place >= 0
        fields.append(field.with_type(given.field(place).type) if late else field)
    return pa.schema(fields)


def aligned(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns and types of those before."""
    if set(table.column_names) != set(schema.names):
        raise errors.UnsupportedInputError(
            f"events have the columns {', '.join(table.column_names)}; those before had "
            f"{', '.join(schema.names)}",
            remedy="insert tables of one schema",
        )
    table = table.select(schema.names)
    columns = []
    for field in schema:
        try:
            columns.append(table.column(field.name).cast(field.type))
        except pa.ArrowException as problem:
            raise errors.ColumnTypeError(
                f"{field.name!r} comes as {table.schema.field(field.name).type}, those before had "
                f"{field.type}: {problem}",
                remedy="insert tables of one schema",
            ) from None
    return pa.table(columns, schema=schema)


def recast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows held, in the types of a schema that was widened."""
    if VALUE in table.column_names:
        schema = schema.append(table.schema.field(VALUE))
    return table.cast(schema)


def by_key(
    table: pa.Table, names: Sequence[str]
) -> Iterable[tuple[Key, slice | NDArray[np.int64]]]:
    if table.num_rows == 0:
        return
    if not names:
        yield (), slice(None)
        return
    for name in names:
        if pa.types.is_nested(table.schema.field(name).type):
            raise errors.ColumnTypeError(
                f"partition_by {name!r} is of type {table.schema.field(name).type}",
                remedy="partition by a plain column, or by a field of it as a column of its own",
            )
    codes, _ = group_codes(table, names)
    order = np.argsort(codes, kind="stable")
    bounds = np.append(first_rows(codes[order]), len(order))
    firsts = table.select(list(names)).take(pa.array(order[bounds[:-1]]))
    keys = zip(*map(values_of, firsts.columns), strict=True)
    for key, (low, high) in zip(keys, pairwise(bounds), strict=True):
        yield key_of(key), order[low:high]


def key_of(values: Iterable[Any]) -> Key:
    """A key such that equal keys are equal in Python: NaN is the one of `math`, −0.0 is 0.0."""
    return tuple(
        (math.nan if math.isnan(v) else v + 0.0) if isinstance(v, float) else v for v in values
    )
