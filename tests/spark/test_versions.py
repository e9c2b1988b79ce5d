"""What `versions.py` says of a schema is what workers of this Spark see and return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ensue.run.spark.versions import spark_schema, worker_schema

COLUMNS = """
    timestamp '2026-01-02 03:04:05' AS instant,
    timestamp_ntz '2026-01-02 03:04:05' AS wall,
    array(timestamp '2026-01-02 03:04:05') AS list,
    map('a', timestamp '2026-01-02 03:04:05') AS map,
    named_struct('at', timestamp '2026-01-02 03:04:05', 'n', 1) AS struct,
    array(named_struct('at', map(1, timestamp '2026-01-02 03:04:05'))) AS nested,
    CAST(1.5 AS decimal(20, 3)) AS exact,
    'text' AS text, X'00' AS bytes, DATE '2026-01-02' AS day, 1.5D AS float
"""


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_workers_see_this_schema(spark: Any, zone: str) -> None:
    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kinds = [str(kind) for kind in batch.schema.types]
            yield pa.record_batch({"name": batch.schema.names, "kind": kinds})

    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        df = spark.sql(f"SELECT {COLUMNS}")
        said = worker_schema(df)
        found = {
            row.name: row.kind for row in df.mapInArrow(seen, "name string, kind string").collect()
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert _without_nullability(dict(zip(said.names, map(str, said.types), strict=True))) == (
        _without_nullability(found)
    )
    assert said.field("instant").type.tz == zone


def _without_nullability(kinds: dict[str, str]) -> dict[str, str]:
    """Arrow prints what may not be null; Ensue does not read it."""
    return {name: kind.replace(" not null", "") for name, kind in kinds.items()}


def test_what_workers_return_keeps_its_kind(spark: Any) -> None:
    df = spark.sql(f"SELECT {COLUMNS}")
    returned = spark_schema(worker_schema(df))
    assert [field.dataType.simpleString() for field in returned] == (
        [field.dataType.simpleString() for field in df.schema]
    )
