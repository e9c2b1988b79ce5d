"""Events as a table of one schema, whatever they were given as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ensue import errors

Reader = Callable[[Any], pa.Table]


def as_table(events: Any, reader: Reader | None, known: pa.Schema | None) -> pa.Table:
    """Arrow, a list of dicts (a name that is not there is null), or what the reader knows."""
    if isinstance(events, pa.Table):
        return events
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    if isinstance(events, list):
        return _listed(events, known.names if known is not None else [])
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
