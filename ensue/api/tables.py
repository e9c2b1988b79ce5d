"""Tables as users have them: read as Arrow, and given back in kind."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.api.files import read_table
from ensue.operator.intake import check_texts
from ensue.query.options import options_of, unknown_option
from ensue.scalar.kinds import MAX_PRECISION

# Those of `run/spark/stream.py`, which only Spark can load; a test compares the two.
STREAM_OPTIONS = (
    *("emit", "speculation", "late", "changes", "identity", "sequence", "lanes", "control"),
    *("edits", "secret", "name", "forget", "key_limit", "overflow", "nulls", "clock"),
)


class Joinable(Protocol):
    """What a table of pandas, Polars, pyarrow and Spark has, and a batch of rows has not."""

    @property
    def columns(self) -> Any: ...
    @property
    def join(self) -> Any: ...


Frame = TypeVar("Frame", bound=Joinable)  # a table in gives a table of its kind


def events_table(data: Any) -> pa.Table:
    """Events given as a table, or as a list of dictionaries."""
    return pa.Table.from_pylist(data) if isinstance(data, list) else to_arrow(data)


def is_spark(data: object) -> bool:
    kind = type(data)
    return kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"


def to_arrow(data: Any) -> pa.Table:
    """The rows of any kind of table, or of the file at a path."""
    if isinstance(data, pa.Table):
        return _plain(data)
    if isinstance(data, (str, Path)):
        return _plain(read_table(data))
    if isinstance(data, pa.RecordBatch):
        return _plain(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return _plain(data.read_all())
    library = type(data).__module__.split(".")[0]
    if library == "polars" and hasattr(data, "collect"):
        data = data.collect()
    if library == "pandas" and hasattr(data, "columns"):
        return _plain(
            _read(
                "pandas DataFrame",
                lambda: pa.Table.from_pandas(_dense(data), preserve_index=False),
            )
        )
    if library == "polars" and hasattr(data, "columns"):
        level = sys.modules["polars"].CompatLevel.oldest()
        return _plain(_read("Polars DataFrame", lambda: data.to_arrow(compat_level=level)))
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return _plain(pa.table(data))
        except pa.ArrowInvalid:
            pass  # one column
    raise errors.UnsupportedInputError(
        f"{type(data).__module__}.{type(data).__name__} is not a table that Ensue reads",
        remedy="give a Spark DataFrame, a pyarrow Table, a pandas or Polars DataFrame, a Polars "
        "LazyFrame, the path of a file, or anything with the Arrow PyCapsule interface; turn "
        "Python rows into "
        "a table with pyarrow.Table.from_pylist(rows)",
    )


def index_names(data: Any) -> tuple[Any, ...]:
    """The names of a pandas DataFrame's index, which is not a column."""
    return tuple(getattr(getattr(data, "index", None), "names", ()))


def _read(what: str, read: Callable[[], pa.Table]) -> pa.Table:
    try:
        return read()
    except (pa.ArrowException, ValueError, TypeError) as problem:
        raise errors.UnsupportedInputError(
            f"the {what} cannot be read as Arrow: {problem}",
            remedy="give every column a type that Arrow has and a name of its own",
        ) from None


def _dense(data: Any) -> Any:
    """The frame without sparse columns, which Arrow does not read."""
    sparse = {n: kind.subtype for n, kind in data.dtypes.items() if hasattr(kind, "fill_value")}
    return data.astype(sparse) if sparse else data


def _plain(table: pa.Table) -> pa.Table:
    """Columns in the form that Ensue computes with: the values of encoded ones, plain strings.

    Categories (dictionaries), runs, views and large strings hold the same values in another form;
    an extension type, such as a Period of pandas, says what its storage means, and is read as that.
    """
    repeated = [name for name, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise errors.DuplicateNameError(
            f"the table has several columns called {repeated[0]!r}",
            remedy="give every column a name of its own",
        )
    for index, field in enumerate(table.schema):
        if pa.types.is_union(field.type):
            raise errors.UnsupportedInputError(
                f"the column {field.name!r} is of type {field.type}, whose rows Arrow cannot "
                "reorder",
                remedy="give its values one type, or leave the column out",
            )
        kind = _plain_kind(field.type)
        if kind != field.type:
            try:
                column = _decoded(table.column(index), kind)
            except (pa.ArrowException, TypeError) as problem:
                if pa.types.is_nested(field.type):
                    continue  # it is of use as a value; what reads into it is refused
                raise errors.UnsupportedInputError(
                    f"the column {field.name!r} of type {field.type} cannot be read as {kind}: "
                    f"{problem}",
                    remedy="cast it, or leave the column out",
                ) from None
            table = table.set_column(index, field.with_type(kind), column)
    check_texts(table)
    return table


def _plain_kind(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_kind(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _plain_kind(kind.value_type)
    if kind == pa.string_view() or pa.types.is_large_string(kind):
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_decimal(kind):
        return _plain_decimal(kind)
    return _plain_nested(kind) if pa.types.is_nested(kind) else kind


def _plain_decimal(kind: pa.DataType) -> pa.DataType:
    """As one of 128 bits where it fits, with digits behind the point or none."""
    digits, scale = kind.precision - min(kind.scale, 0), max(kind.scale, 0)
    if digits <= MAX_PRECISION:
        return pa.decimal128(digits, scale)
    return pa.decimal256(digits, scale) if digits <= 2 * MAX_PRECISION else kind


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([field.with_type(_plain_kind(field.type)) for field in fields])
    if pa.types.is_map(kind):
        return pa.map_(_plain_kind(kind.key_type), _plain_kind(kind.item_type))
    if not hasattr(kind, "value_type"):
        return kind
    value = kind.value_field.with_type(_plain_kind(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(value, kind.list_size)
    large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    return pa.large_list(value) if large else pa.list_(value)


def _decoded(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    given = column.type
    if given == kind:
        return column
    if isinstance(given, pa.BaseExtensionType):
        pieces = [chunk.storage for chunk in column.chunks]
        return _decoded(pa.chunked_array(pieces, given.storage_type), kind)
    if pa.types.is_dictionary(given):
        return _decoded(column.cast(given.value_type), kind)
    if pa.types.is_run_end_encoded(given):
        return _decoded(pc.run_end_decode(column), kind)
    if pa.types.is_list_view(given) or pa.types.is_large_list_view(given):
        lists = [_as_lists(chunk) for chunk in column.chunks]
        column = pa.chunked_array(lists, None if lists else kind)
    return column.cast(kind)


def _as_lists(views: pa.Array) -> pa.Array:
    """Arrow's own cast leaves out the last offset."""
    lengths = pc.fill_null(pc.list_value_length(views), 0)
    offsets = np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False))))
    return pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), views.flatten(), mask=views.is_null()
    )


def schema_of(given: Any) -> pa.Schema:
    """The columns of a table as they are read, or of a schema."""
    return plain_schema(given) if isinstance(given, pa.Schema) else to_arrow(given).schema


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Columns as `to_arrow` gives them."""
    return pa.schema([field.with_type(_plain_kind(field.type)) for field in schema])


def in_kind(found: pa.Table, data: Any) -> Any:
    module = type(data).__module__.split(".")[0]
    if module == "pandas":
        return found.to_pandas()
    if module == "polars":
        frame = sys.modules["polars"].from_arrow(found)
        return frame.lazy() if hasattr(data, "collect") else frame
    return found


def no_stream_options(stream: Mapping[str, Any], verb: Callable[..., Any]) -> None:
    """Refuse options of streams where no stream is given, and unknown options of `verb`."""
    for name in stream:
        if name not in STREAM_OPTIONS:
            raise unknown_option(name, options_of(verb), STREAM_OPTIONS)
        raise errors.QueryError(
            f"{name}= is an option of streams, and the data given is not a streaming DataFrame",
            remedy="leave it out, or read the data with spark.readStream",
        )
