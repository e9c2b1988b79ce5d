"""Workloads on Spark: the answers of the same workloads in process."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from tests.spark.batches import write
from tests.workload_cases import Case, case, listed


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "t": np.arange(600),
            "u": rng.integers(0, 4, 600),
            "kind": rng.choice(list("ABCD"), 600),
            "x": rng.integers(0, 20, 600),
        }
    )


def q(text: str, **define: str) -> Pattern:
    pattern = ensue.pattern(text, types="kind").define(**define)
    return pattern.partition_by("u").order_by("t")


EVENTS = {
    "low": q("A ->> B ->> C", C="x > A.x").within(60).measures(top="MAX(x)", n="COUNT(*)"),
    "high": q("A ->> B ->> D", D="x < B.x").within(60).measures(top="D.x"),
    "text": q("A ->> B ->> C", C="concat(A.kind, kind) = 'AC' AND x = A.x").within(60)
    .measures(n="COUNT(*)"),
}  # fmt: skip
ROWS = q("A B", B="x > A.x").after_match("to next row")


def rows(found: Any) -> list[str]:
    listed = found.to_pylist() if isinstance(found, pa.Table) else [
        row.asDict(recursive=True) for row in found.collect()
    ]  # fmt: skip
    return sorted(str(sorted(row.items())) for row in listed)


def test_event_patterns_like_in_process(spark: Any, table: pa.Table) -> None:
    load = ensue.workload(EVENTS)
    df = spark.createDataFrame(table)
    found = load.matches(df)
    assert found.columns == ["pattern", "u", "top", "n"]
    assert rows(found) == rows(load.matches(table).select(found.columns))
    # a bound that is never reached changes nothing
    shared = ensue.workload({name: EVENTS[name] for name in ("low", "high")})
    assert rows(shared.matches(df, ensue.Budget(work=1e9))) == rows(shared.matches(table))
    with pytest.raises(ensue.EnsueError, match="cannot shed"):
        load.matches(df, ensue.Budget(work=1))


def test_row_patterns_aggregates_and_statements(spark: Any, table: pa.Table) -> None:
    df = spark.createDataFrame(table)
    load = ensue.workload(r=ROWS)
    exact = rows(load.matches(table))
    assert rows(load.matches(df, ensue.Budget(work=1e9))) == exact
    some = rows(ROWS.matches(df, budget=ensue.Budget(work=0.02)))
    assert 0 < len(some) < len(exact)
    counted = ensue.workload(low=EVENTS["low"], high=EVENTS["high"]).aggregate(df, n="count(*)")
    local = ensue.workload(low=EVENTS["low"], high=EVENTS["high"]).aggregate(table, n="count(*)")
    assert rows(counted) == rows(local)
    df.createOrReplaceTempView("workload_events")
    statement = """SELECT * FROM workload_events MATCH_RECOGNIZE (
        PARTITION BY u ORDER BY t MEASURES A.x AS a, B.x AS b AFTER MATCH SKIP {skip}
        PATTERN (A B) DEFINE A AS kind = 'A', B AS kind = 'B' AND x > A.x)"""
    texts = [statement.format(skip="TO NEXT ROW")] * 2
    first, second = ensue.sql(texts, spark=spark, budget=ensue.Budget(work=1e9))
    assert first.count() == second.count() == len(exact)
    with pytest.raises(ensue.EnsueError, match="depend on each other"):
        ensue.sql(statement.format(skip="PAST LAST ROW"), spark=spark, budget=ensue.Budget(work=1))
    with pytest.raises(ensue.EnsueError, match="no row pattern"):
        ensue.sql("SELECT 1", spark=spark, budget=ensue.Budget(work=1))
    for wrong, said in (
        (ensue.Budget(memory="1 MB"), "take no bound on memory"),
        (ensue.Budget(latency={"statement": "1 s"}), "take one latency"),
        (ensue.Budget(work="many"), "not an amount of work"),
    ):
        with pytest.raises(ensue.EnsueError, match=said):
            ensue.sql(texts[0], spark=spark, budget=wrong)


def test_many_row_patterns_in_one_shuffle(spark: Any, table: pa.Table, capsys: Any) -> None:
    chain = [q("A B+", B=f"x > {n} AND x >= LAST(A.x)") for n in range(4)]
    patterns = {f"same {n}": p.measures(n="COUNT(B.*)", x="A.x + 1") for n, p in enumerate(chain)}
    patterns |= {
        "other type": q("A C?", C="x > PREV(x)").measures(y="C.x * 0.5", n="LAST(t)"),
        "listed": q("(B | C) D").within(30),
        "all rows": q("C D").rows_per_match("all rows").measures(top="D.x"),
        "other order": q("D C").order_by("x", "t").measures(n="COUNT(*)"),
    }
    load = ensue.workload(patterns)
    df = spark.createDataFrame(table)
    found = load.matches(df)
    found.explain()
    # the shared ones, "all rows", and another order
    assert capsys.readouterr().out.count("Exchange hashpartitioning") == 3
    local = load.matches(table).select(found.columns)
    assert rows(found) == rows(local)
    assert len(set(local.column("pattern").to_pylist())) == len(patterns)
    with pytest.raises(errors.ColumnTypeError, match="Spark rejects the condition"):
        ensue.workload(a=ROWS, b=q("A B", B="element_at(x, 1) > 2")).matches(df)


def test_random_workloads_like_each_pattern_alone(spark: Any) -> None:
    patterns = {f"{seed} {name}": p for seed in range(7)
                for name, p in case(seed, budget=True).patterns.items()}  # fmt: skip
    asked = Case(case(4, streams=12).table, patterns)
    exact = asked.exact()
    assert sum(map(len, exact.values())) > 200
    df = spark.createDataFrame(asked.table)
    load = ensue.workload(patterns)
    whole = load.matches(df, as_of="end").withColumn("bound", F.lit(False))
    part = load.matches(df, ensue.Budget(work=2), as_of="end").withColumn("bound", F.lit(True))
    found = whole.unionByName(part).toArrow()
    bound = found.column("bound")
    whole_found, part_found = listed(found.filter(pc.invert(bound))), listed(found.filter(bound))
    assert whole_found == {name: matches for name, matches in exact.items() if matches}
    for name, matches in part_found.items():
        assert set(matches) <= set(exact[name]) and len(set(matches)) == len(matches), name
    assert sum(map(len, part_found.values())) < sum(map(len, exact.values()))


def test_a_history_teaches_every_task(spark: Any, table: pa.Table) -> None:
    rng = np.random.default_rng(8)
    past = pa.table(
        {
            "t": np.arange(900),
            "u": rng.integers(0, 4, 900),
            "kind": rng.choice(list("ABCD"), 900),
            "x": rng.integers(0, 20, 900),
        }
    )
    df = spark.createDataFrame(table)
    load = ensue.workload(low=EVENTS["low"], high=EVENTS["high"])
    exact, bound = rows(load.matches(table)), ensue.Budget(work=2)
    taught = rows(load.matches(df, bound, history=spark.createDataFrame(past)))
    assert rows(load.matches(df, bound, history=past)) == taught
    untaught = rows(load.matches(df, bound))
    assert set(taught) <= set(exact) and len(untaught) < len(taught) < len(exact)
    # In process a share is of the past as well; here the past alone can tell.
    half = load.matches(df, ensue.Budget(work="50%"), history=past)
    assert 0 < half.count() < len(exact)
    starts = ensue.workload(r=ROWS.measures(a="A.t", b="B.t"))
    some = ensue.Budget(work=0.05)
    found = rows(starts.matches(df, some, history=past))
    assert set(found) <= set(rows(starts.matches(table)))
    assert len(found) >= len(rows(starts.matches(df, some))) > 0
    assert rows(load.matches(table, bound, history=spark.createDataFrame(past))) == rows(
        load.matches(table, bound, history=past)
    )
    with pytest.raises(errors.ColumnTypeError, match="'x' of the history is string"):
        load.matches(df, bound, history=past.set_column(3, "x", pa.array(["1"] * 900)))


def test_an_observation_is_told_whether_a_share_held(spark: Any, table: pa.Table) -> None:
    rng = np.random.default_rng(9)
    sizes = rng.integers(5, 21, 400)
    short = pa.table(
        {
            "t": np.concatenate([np.arange(size) for size in sizes]),
            "u": np.repeat(np.arange(400), sizes),
            "kind": rng.choice(list("ABCD"), sizes.sum()),
            "x": rng.integers(0, 20, sizes.sum()),
        }
    )
    load = ensue.workload(low=EVENTS["low"], high=EVENTS["high"], r=ROWS.measures(n="COUNT(*)"))
    exact = rows(load.matches(short))
    share, costs, never = ensue.Budget(work="20%"), Observation(), Observation()
    found = load.matches(spark.createDataFrame(short).repartition(1), share, observe=costs)
    assert found.columns == ["pattern", "u", "top", "n"]
    assert set(rows(found)) < set(exact)
    told = costs.get
    assert told["rows"] == short.num_rows and told["shed"] > 0 and told["recall"] < 1
    assert (told["unbounded"], told["reason"]) == (0, "")
    # Too few rows for a share: the reason is told, of one pattern too.
    df = spark.createDataFrame(table)
    EVENTS["low"].matches(df, budget=share, observe=never).collect()
    assert never.get["unbounded"] == table.num_rows == never.get["rows"]
    assert "the bound held for no row" in never.get["reason"] and not never.get["shed"]
    for wrong in ({"data": table, "budget": share}, {"data": df}):
        with pytest.raises(errors.QueryError, match="observe="):
            load.matches(observe=Observation(), **wrong)
    with pytest.raises(errors.QueryError, match="observe="):
        ROWS.matches(df, budget=share, observe=Observation())


def test_columns_with_dots(spark: Any, tmp_path: Path) -> None:
    """Whatever is asked, columns keep the names that the user gave them."""
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    table = pa.table(
        {
            "u.u": [1, 1, 1, 2],
            "t.t": pa.array([begin + dt.timedelta(seconds=i) for i in range(4)]),
            "k`s": ["A", "B", "A", "A"],
        }
    )
    asked = ensue.pattern("A B", types="k`s").partition_by("u.u").order_by("t.t")
    asked = asked.measures(**{"at.at": "FIRST(`t.t`)"})
    df = spark.createDataFrame(table)
    load = ensue.workload(r=asked, s=asked.after_match("to next row"))
    wanted = [(name, 1, begin.replace(tzinfo=None)) for name in "rs"]
    columns = ["pattern", "u.u", "at.at"]
    together = load.matches(df)
    assert together.columns == columns
    assert sorted(map(tuple, together.collect())) == wanted
    why = asked.why(df)
    assert why.columns == asked.why(table).column_names
    assert sorted(row["u.u"] for row in why.collect()) == [1, 2]
    write(tmp_path / "in", [table])
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    stream = stream.withWatermark("`t.t`", "0 seconds")
    for found, shown in ((asked.matches(stream), wanted[:1]), (load.matches(stream), wanted)):
        assert found.columns == columns[-len(found.columns) :]
        rows: list[Any] = []
        query = found.writeStream.foreachBatch(
            lambda frame, _, rows=rows: rows.extend(frame.collect())
        )
        query = query.option("checkpointLocation", str(tmp_path / f"{len(found.columns)}"))
        query.trigger(availableNow=True).start().awaitTermination()
        assert sorted(map(tuple, rows)) == [row[-len(found.columns) :] for row in shown]
