"""The spec cases on Spark: many cases in one job, each tagged with its number.

Each case is a plan of its own; their results, as JSON text, are united so that one Spark job
serves a whole group. Cases that fail while running have a job each.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from ensue.errors import EnsueError
from ensue.run.spark import batch
from tests import specs

GROUP = 40
JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
READABLE = [c for c in specs.cases() if c.error is None]
GROUPS = [READABLE[i : i + GROUP] for i in range(0, len(READABLE), GROUP)]


def frame(spark: Any, table: pa.Table) -> Any:
    return spark.createDataFrame(table)


def as_json(df: Any, number: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.col(f"`{name}`") for name in df.columns]
    return df.select(
        F.lit(number).alias("case"),
        F.to_json(F.struct(*columns), JSON).alias("row"),
    )


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_group(spark: Any, number: int) -> None:
    group = GROUPS[number]
    columns: list[list[str]] = []
    united = None
    for index, case in enumerate(group):
        found = batch.run(case.query(), frame(spark, case.table))
        columns.append(found.columns)
        tagged = as_json(found, index)
        united = tagged if united is None else united.unionByName(tagged)
    rows: dict[int, list[specs.Row]] = {index: [] for index in range(len(group))}
    for row in united.collect():  # type: ignore[union-attr]
        rows[row["case"]].append(json.loads(row["row"]))
    problems = []
    for index, case in enumerate(group):
        expected_columns, expected = case.expected()
        if columns[index] != expected_columns:
            problems.append(f"{case}: columns {columns[index]}, expected {expected_columns}")
        got = plain(case, rows[index])
        wanted = plain(case, expected)
        if got != wanted:
            problems.append("\n".join([f"{case}: got", *got, "expected", *wanted]))
    assert not problems, "\n\n".join(problems)


def plain(case: specs.Case, rows: list[specs.Row]) -> list[str]:
    return specs.comparable(case.query(), [_jsonable(row) for row in rows])


def _jsonable(value: Any) -> Any:
    """A value as Spark's JSON shows it, so that both sides are alike."""
    if isinstance(value, dict):
        return {name: _jsonable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_jsonable(inner) for inner in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if hasattr(value, "isoformat"):
        return value.isoformat(sep="T", timespec="microseconds")
    return value


@pytest.mark.parametrize("case", [c for c in specs.cases() if c.error is not None], ids=str)
def test_error(spark: Any, case: specs.Case) -> None:
    try:
        batch.run(case.query(), frame(spark, case.table)).collect()
    except EnsueError as problem:
        assert case.error in [kind.__name__ for kind in type(problem).__mro__]
    except Exception as problem:
        # Raised in a worker: Spark carries the text, which names the class.
        assert f"ensue.errors.{case.error}" in str(problem)
    else:
        pytest.fail(f"{case}: expected {case.error}")
