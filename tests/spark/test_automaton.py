"""Automata by hand on Spark: batch and stream give what a table gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ensue
from ensue import errors
from ensue.spark.control import Control
from ensue.spark.listener import Metrics
from tests.spark.test_stream import collect, events, files, plain, stream_of, writer

PAIRS = (
    ensue.Automaton({"n": "bigint", "x": "bigint"}, order_by="ts", partition_by="user",
                    within="40 seconds")
    .arc("s", "a", when="kind = 'A'", set={"x": "x"})
    .arc("a", "a", when="kind = 'B'", set={"n": "n + 1"})
    .arc("a", "c", when="kind = 'C'")
    .final("c")
)  # fmt: skip
COLUMNS = ("user", "first", "last", "until", "state", "n")


def test_batch(spark: Any) -> None:
    table = events()
    found = PAIRS.matches(spark.createDataFrame(table))
    here = PAIRS.matches(table)
    assert found.columns == here.column_names
    rows = [row.asDict() for row in found.collect()]
    assert here.num_rows > 10
    assert plain(rows, (*COLUMNS, "match_number")) == plain(
        here.to_pylist(), (*COLUMNS, "match_number")
    )
    with pytest.raises(errors.QueryError, match="lanes= is an option of streams"):
        PAIRS.matches(spark.createDataFrame(table), lanes=3)
    with pytest.raises(errors.UnknownColumnError, match="user"):
        PAIRS.matches(spark.createDataFrame(table).drop("user"))


def test_a_stream_with_an_edit(spark: Any, tmp_path: Path) -> None:
    """The edit comes with the first rows: what is told is that of the edited automaton."""
    table = events()
    edited = PAIRS.arc("a", "d", when="kind = 'A'").final("d")
    files(table, tmp_path / "in")
    control = Control(tmp_path / "control")
    stream = stream_of(spark, tmp_path / "in")
    control.arcs("pairs", {"again": dict(source="a", target="d", when="kind = 'A'", final=True)})
    options = {"control": str(control.folder), "lanes": 3, "edits": True, "name": "pairs"}
    found = PAIRS.matches(stream, **options)
    rows: list[dict[str, Any]] = []
    query = writer(found, tmp_path, collect(rows)).start()
    query.processAllAvailable()
    control.end()
    query.processAllAvailable()
    query.stop()
    metrics = Metrics()
    for progress in query.recentProgress:
        metrics.add(progress)
    assert list(metrics.patterns().values()) == [
        {("pairs", 1): {"matches": len(rows), "retracted": 0}}
    ]
    assert plain(rows, COLUMNS) == plain(edited.matches(table).to_pylist(), COLUMNS)
    assert {row["state"] for row in rows} == {"c", "d"}
    assert {(row["pattern"], row["version"]) for row in rows} == {("pairs", 1)}
    # Another automaton does not go on from this checkpoint.
    again = edited.matches(stream, **options)
    query = writer(again, tmp_path, collect(rows)).start()
    files(table.slice(0, 3), tmp_path / "more")
    for path in (tmp_path / "more").iterdir():
        path.rename(tmp_path / "in" / f"9{path.name}")
    with pytest.raises(Exception, match="an automaton of 4 arcs"):
        query.processAllAvailable()
