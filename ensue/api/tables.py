"""Tables as users have them: read as Arrow, and given back in kind."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from ensue import errors
from ensue.api.files import read_table

# Those of `run/spark/stream.py`, which only Spark can load; a test compares the two.
STREAM_OPTIONS = (
    *("emit", "speculation", "late", "changes", "identity", "sequence", "lanes", "control"),
    *("edits", "name", "forget", "key_limit", "overflow", "nulls", "clock"),
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
        return _plain(data) if any(map(_is_packed, data.schema.types)) else data
    if isinstance(data, (str, Path)):
        return read_table(data)
    if isinstance(data, pa.RecordBatch):
        return to_arrow(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return to_arrow(data.read_all())
    library = type(data).__module__.split(".")[0]
    if library == "polars" and hasattr(data, "collect"):
        data = data.collect()
    if library == "pandas" and hasattr(data, "columns"):
        try:
            return to_arrow(pa.Table.from_pandas(data, preserve_index=False))
        except (pa.ArrowException, ValueError) as problem:
            raise errors.UnsupportedInputError(
                f"the pandas DataFrame cannot be read as Arrow: {problem}",
                remedy="give every column one type and a name of its own",
            ) from None
    if library == "polars" and hasattr(data, "columns"):
        return _plain(data.to_arrow(compat_level=sys.modules["polars"].CompatLevel.oldest()))
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return _plain(pa.table(data))
        except pa.ArrowInvalid:
            pass  # one column
    raise errors.UnsupportedInputError(
        f"{type(data).__module__}.{type(data).__name__} is not a table that Ensue reads",
        remedy="give a Spark DataFrame, a pyarrow Table, a pandas or Polars DataFrame, a Polars "
        "LazyFrame, the path of a file, or anything with the Arrow PyCapsule interface; rows in "
        "Python become a table by pyarrow.Table.from_pylist(rows)",
    )


def _is_packed(kind: pa.DataType) -> bool:
    return kind == pa.string_view() or pa.types.is_dictionary(kind)


def _plain(table: pa.Table) -> pa.Table:
    return table.cast(plain_schema(table.schema))


def schema_of(given: Any) -> pa.Schema:
    """The columns of a table as they are read, or of a schema."""
    return plain_schema(given) if isinstance(given, pa.Schema) else to_arrow(given).schema


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """String views (Polars, Delta) and dictionaries (categories) as plain columns."""
    fields = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if kind == pa.string_view() or pa.types.is_large_string(kind):
            kind = pa.string()
        fields.append(field.with_type(kind))
    return pa.schema(fields)


def in_kind(found: pa.Table, data: Any) -> Any:
    module = type(data).__module__.split(".")[0]
    if module == "pandas":
        return found.to_pandas()
    if module == "polars":
        frame = sys.modules["polars"].from_arrow(found)
        return frame.lazy() if hasattr(data, "collect") else frame
    return found


def no_stream_options(stream: Mapping[str, Any], verb: Callable[..., Any]) -> None:
    """Options of streams are refused where no stream is given, and what is no option of `verb`."""
    for name in stream:
        if name not in STREAM_OPTIONS:
            given = inspect.signature(verb).parameters.values()
            own = [p.name for p in given if p.kind is not p.VAR_KEYWORD and p.name != "data"]
            close = difflib.get_close_matches(name, [*own, *STREAM_OPTIONS], n=1)
            hint = f"; did you mean {close[0]}=?" if close else ""
            raise errors.QueryError(
                f"{name}= is not an option{hint}",
                remedy=f"options are: {', '.join(own)}; of streams: {', '.join(STREAM_OPTIONS)}",
            )
        raise errors.QueryError(
            f"{name}= is an option of streams, and the data given is no streaming DataFrame",
            remedy="leave it out, or read the data with spark.readStream",
        )
