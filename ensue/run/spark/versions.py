"""Where Spark 4.0 to 4.3 differ, and one answer for all of them.

- `to_arrow_schema` takes the session's zone (`timezone=`) since 4.2. Before, it says UTC of every
  timestamp, though workers receive them in the session's zone.
- `from_arrow_schema` reads timestamps without a zone as TIMESTAMP_NTZ since 4.2, and as TIMESTAMP
  before unless told otherwise.
- `addArtifacts` of several plain files at once fails before 4.3 where the session is not Connect's;
  one at a time works everywhere.

The first two are asked of the function's own parameters, not of a version number: vendors carry
changes back and forth between releases. Nothing else in Ensue asks which Spark it runs on.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

_TAKES_ZONE = "timezone" in signature(types.to_arrow_schema).parameters


def worker_schema(df: DataFrame) -> pa.Schema:
    """The Arrow schema in which workers receive the rows of `df`."""
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone")
    if _TAKES_ZONE:
        return types.to_arrow_schema(df.schema, timezone=zone)
    return pa.schema([_zoned_field(field, zone) for field in types.to_arrow_schema(df.schema)])


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of what workers return."""
    return types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def add_files(spark: SparkSession, paths: Iterable[str]) -> None:
    """Bring files to every worker, now and later."""
    for path in paths:
        spark.addArtifacts(path, file=True)


def _zoned_field(field: pa.Field, zone: str | None) -> pa.Field:
    return field.with_type(_zoned(field.type, zone))


def _zoned(kind: pa.DataType, zone: str | None) -> pa.DataType:
    """The type with the timestamps in it in another zone, at any depth."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone) if kind.tz else kind
    if pa.types.is_list(kind):
        return pa.list_(_zoned_field(kind.value_field, zone))
    if pa.types.is_map(kind):
        return pa.map_(_zoned_field(kind.key_field, zone), _zoned_field(kind.item_field, zone))
    if pa.types.is_struct(kind):
        return pa.struct([_zoned_field(field, zone) for field in kind])
    return kind
