"""One partition of a table, by its key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.operator.arrange import flat
from ensue.query.query import Query

EVERY = object()  # no key was given


def key_of(query: Query, key: Any, verb: str) -> dict[str, Any]:
    """The value of each partition column, from what the user wrote as the key."""
    names = query.partition_by
    if key is EVERY:
        values: tuple[Any, ...] = ()
    elif isinstance(key, Mapping):
        if set(key) != set(names):
            raise _misfit(names, key, verb)
        values = tuple(key[name] for name in names)
    else:
        values = tuple(key) if isinstance(key, (list, tuple)) else (key,)
    if len(values) != len(names):
        raise _misfit(names, key, verb)
    return dict(zip(names, values, strict=True))


def _misfit(names: tuple[str, ...], key: Any, verb: str) -> errors.QueryError:
    if not names:
        return errors.QueryError(
            f"{verb}(key={key!r}): the pattern has no partition columns",
            remedy="leave key out, or say partition_by(...)",
        )
    given = "no key was given" if key is EVERY else f"key={key!r} does not name one"
    shown = "key=..." if len(names) == 1 else f"key=({', '.join('...' for _ in names)})"
    return errors.QueryError(
        f"{verb}() is about one partition, of {', '.join(names)}, and {given}",
        remedy=f"say which one: {shown}, or key={{{', '.join(f'{n!r}: ...' for n in names)}}}",
    )


def rows_of(table: pa.Table, key: Mapping[str, Any]) -> pa.Table:
    """The rows of a partition; null is equal to null, and NaN to NaN."""
    keep = np.ones(table.num_rows, np.bool_)
    for name, value in key.items():
        column = flat(table, name)
        if value is None:
            found = pc.is_null(column)
        elif isinstance(value, float) and math.isnan(value):
            found = pc.is_nan(column)
        else:
            found = pc.equal(column, _scalar(value, column.type, name))
        keep &= pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return table.filter(pa.array(keep))


def _scalar(value: Any, kind: pa.DataType, name: str) -> pa.Scalar:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return value.cast(kind) if isinstance(value, pa.Scalar) else pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError):
        raise errors.ColumnTypeError(
            f"the key {value!r} is not a value of the partition column {name!r}, of type {kind}",
            remedy="give a value of that type",
        ) from None


def no_rows(key: Mapping[str, Any]) -> errors.DataError:
    told = " and ".join(f"{name} = {value!r}" for name, value in key.items())
    what = f"no row has {told}" if key else "there are no rows"
    return errors.DataError(
        f"{what}, so there is no such partition", remedy="use a key of the data"
    )
