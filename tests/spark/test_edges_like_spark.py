"""Spark judges every function at the edges of every type (`tests/edges.py`).

An expression that raises on one row would end its job, so Spark evaluates each inside its own
`TryEval`, which gives null for an error: an array around the value tells the two nulls apart. Spark
interprets, since compiling a thousand expressions takes longer than evaluating them.
`ENSUE_EDGES=10000` asks every expression, on every row.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ensue.scalar.arrow_kinds import from_arrow
from tests import edge_machines as machines
from tests import edges

MOST = int(os.environ.get("ENSUE_EDGES", "4"))
ROWS = None if "ENSUE_EDGES" in os.environ else 16
PER_JOB = 100
INEXACT = ("power", "exp", "ln", "log", "log10", "sqrt")
SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
}
CASES = {name: edges.sample(name, MOST, ROWS) for name in edges.ENTRIES}


@pytest.fixture(scope="module")
def answers(spark: Any) -> Iterator[dict[str, pa.Array]]:
    """Spark's column of one-element arrays for each expression; null where it raised."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    naive = [name for name in edges.KINDS if name.startswith("ntz_")]
    frame = spark.createDataFrame(edges.TABLE).coalesce(1)
    # Spark takes a naive Arrow timestamp for one in its own zone.
    casts = (f"CAST({name} AS TIMESTAMP_NTZ) AS {name}" for name in naive)
    frame = frame.selectExpr(f"* EXCEPT ({', '.join(naive)})", *casts)
    texts = [case.text for cases in CASES.values() for case in cases]
    found: dict[str, pa.Array] = {}
    for start in range(0, len(texts), PER_JOB):
        part = texts[start : start + PER_JOB]
        tried = [_tried(spark, text).alias(f"c{place}") for place, text in enumerate(part)]
        table = frame.select("id", *tried).toArrow().sort_by("id")
        found |= {text: table[f"c{p}"].combine_chunks() for p, text in enumerate(part)}
    for name, value in before.items():
        spark.conf.set(name, value)
    yield found


def _tried(spark: Any, text: str) -> Any:
    from pyspark.sql.classic.column import Column

    sql = spark._jvm.org.apache.spark.sql
    convert = sql.classic.ExpressionUtils
    inner = convert.expression(sql.functions.expr(f"array({text})"))
    return Column(convert.column(sql.catalyst.expressions.TryEval(inner)))


@pytest.mark.parametrize("name", edges.ENTRIES)
def test_values_and_columns_are_those_of_spark(answers: dict[str, pa.Array], name: str) -> None:
    problems: list[str] = []
    for case in CASES[name]:
        column = answers[case.text]
        theirs = from_arrow(column.type.value_type)
        if theirs != case.kind and theirs.name != "interval":
            problems.append(f"{case.text}: type {case.kind}, Spark {theirs}")
        values = machines.by_values(case)
        for engine, found in (("values", values), ("columns", machines.by_columns(case, values))):
            for row, ours in zip(case.rows, found, strict=True):
                wanted = _answer(column[row])
                if _agree(ours, wanted, name not in INEXACT):
                    continue
                given = {column: edges.COLUMNS[column][row] for column in case.names}
                if not _known(name, given, ours, wanted):
                    problems.append(f"{case.text} of {given}: {engine} {ours}, Spark {wanted}")
    assert not problems, "\n" + "\n".join(problems)


def _answer(scalar: pa.Scalar) -> edges.Answer:
    if not scalar.is_valid:
        return "error", None
    try:
        return "value", scalar.as_py()[0]
    except UnicodeDecodeError:
        return "value", scalar.values[0].as_buffer().to_pybytes().decode("utf-8", "replace")
    except (OverflowError, ValueError):
        return "value", edges.FAR


def _agree(ours: edges.Answer, theirs: edges.Answer, exact: bool) -> bool:
    if "error" in (ours[0], theirs[0]):
        return ours[0] == theirs[0]
    return edges.same(ours[1], theirs[1], exact)


def _known(name: str, given: dict[str, Any], ours: edges.Answer, theirs: edges.Answer) -> bool:
    """The differences that docs/functions.md lists."""
    if theirs == ("value", edges.FAR):
        return ours[0] == "error"
    texts = isinstance(ours[1], str) or name in ("startswith", "endswith", "contains", "instr")
    if texts or name in ("length", "like", "ilike", "split", "array_join", "locate", "rlike"):
        if any(isinstance(v, float) and 0 < abs(v) < sys.float_info.min for v in given.values()):
            return True
        if any(isinstance(v, float) and 0 < abs(v) < 1e-37 for v in given.values()):
            return True
    long = any(isinstance(v, Decimal) and len(v.as_tuple().digits) > 34 for v in given.values())
    if long and (theirs[0] == "error" or name in ("cast", "trycast", "substring", "left", "right")):
        return True
    if name == "intdiv" and any(isinstance(v, Decimal) for v in given.values()):
        return ours[0] == "error" and ours[1][0] == "overflow"
    wide = any(isinstance(v, int) and not -(2**31) <= v < 2**31 for v in given.values())
    if name == "initcap" and "İı" in given.values():
        return True
    return name == "element" and wide and ours[0] == "error"
