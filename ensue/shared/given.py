"""What users give to a workload, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.operator.protocol import Snapshot
from ensue.query import condition as c
from ensue.query import rules
from ensue.query.query import Query

SEEDS = 1 << 62


def name_and_pattern(given: Any) -> tuple[str, Any]:
    """One of the pairs that a workload may be made of."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise errors.QueryError(
            f"{given!r} stands where a name and its pattern are expected",
            remedy="give a mapping, pairs of name and pattern, or keywords: workload(a=q1, b=q2)",
        )
    name, pattern = given
    if not isinstance(name, str):
        raise errors.QueryError(
            f"the name {name!r} of a pattern is not text", remedy=f"write {str(name)!r}"
        )
    return name, pattern


def check_weights(weights: object, names: Collection[str]) -> None:
    if not isinstance(weights, Mapping):
        raise errors.QueryError(
            f"weights={weights!r} does not say which pattern has which weight",
            remedy='write weights={"name": 2}',
        )
    for name, weight in weights.items():
        if name not in names:
            raise errors.QueryError(
                f"weights names the pattern {name!r}, which the workload does not have",
                remedy=f"use one of: {', '.join(names)}",
            )
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not number or not weight > 0 or not math.isfinite(weight):
            raise errors.QueryError(
                f"the weight of {name!r} is {weight!r}; a weight must be a finite number above "
                "zero",
                remedy="leave the pattern out if its matches are worth nothing",
            )


def check_seed(seed: object) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < SEEDS:
        raise errors.QueryError(
            f"seed={seed!r} is not a whole number from 0 to 2**62 - 1", remedy="write seed=1"
        )


def check_state(state: object) -> None:
    if state is not None and not isinstance(state, Snapshot):
        raise errors.StateError(
            f"state is of the type {type(state).__name__}, not a snapshot",
            remedy="give what snapshot() of a live workload returned",
        )


def check_history(queries: Iterable[Query], rows: pa.Schema, history: pa.Schema) -> None:
    """Raises where a column that a pattern reads is of another kind in the history."""
    rules.duplicates(history.names, "column of the history")
    for name in dict.fromkeys(name for query in queries for name in _read(query)):
        if name not in rows.names or name not in history.names:
            continue  # a missing one is found, and told, where it is read
        now, before = rows.field(name).type, history.field(name).type
        if not _alike(now, before):
            raise errors.ColumnTypeError(
                f"the column {name!r} of the history is {before}, and of the rows {now}",
                remedy="cast it: values of another type teach nothing about these",
            )


def rows_of(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns that a live workload was started with."""
    rules.duplicates(table.column_names, "column of the input")
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            raise errors.UnknownColumnError(
                f"the rows have no column {field.name!r}, which the live workload began with",
                remedy=f"columns of the rows are: {', '.join(table.column_names)}",
            )
        column = table.column(field.name)
        try:
            if not _alike(column.type, field.type):
                raise pa.ArrowInvalid("it is of another kind")
            columns.append(column.cast(field.type))
        except pa.ArrowException as problem:
            raise errors.ColumnTypeError(
                f"the column {field.name!r} of the rows is {column.type}, and in the schema of the "
                f"live workload {field.type}: {problem}",
                remedy="cast it, or start a live workload with the schema of the rows",
            ) from None
    return pa.table(columns, names=schema.names)


def _read(query: Query) -> Iterable[str]:
    yield from query.partition_by
    yield from (key.column for key in query.order_by)
    for condition in query.conditions():
        yield from (node.name for node in c.walk(condition) if isinstance(node, c.Column))


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of both types are of one kind, so that the one may stand for the other."""
    one, other = (k.value_type if pa.types.is_dictionary(k) else k for k in (one, other))
    if one == other or pa.types.is_null(one) or pa.types.is_null(other):
        return True
    kinds = (_number, _text, pa.types.is_timestamp, pa.types.is_date, pa.types.is_nested)
    return any(of(one) and of(other) for of in kinds)


def _number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    )
