"""Event patterns on Spark give what they give in process: many cases to a job."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

import ensue
from ensue import errors
from ensue.automaton.plan import FLAGS_PER_COLUMN, bits_name, plan
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.sql import row_sql
from ensue.run.spark import batch
from ensue.run.spark.keyed import arrow_schema, sorted_worker
from tests import sequence_specs

CASES = sequence_specs.cases()
# A Spark stage each: every third case that is cut by time, and a few of the others.
WINDOWED = [case for case in CASES if "within" in case.data and "after_match" not in case.data]
PUBLIC = WINDOWED[::3] + [case for case in CASES if case not in WINDOWED][::90]


def test_every_spec_case_in_one_job(spark: Any) -> None:
    """The stages of `batch.run`, with the number of the case as key and a plan for each case."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    names = ["case", "time", "id", "kind"]
    tables = [
        case.table.add_column(0, "case", pa.array([number] * len(case.table), pa.int32()))
        for number, case in enumerate(CASES)
    ]
    frame = spark.createDataFrame(pa.concat_tables(tables)).repartition(3)
    plans, conditions = {}, {}
    for number, case in enumerate(CASES):
        bound = rules.check(bind(case.pattern.partition_by("case").query, names))
        plans[number] = plan(bound)
        assert plans[number].carried(names) == ["case", "time", "id"]
        assert not plans[number].inputs
        assert len(plans[number].flags) <= FLAGS_PER_COLUMN
        flags = enumerate(map(row_sql, plans[number].flags))
        bits = " + ".join(["0L", *(f"IF({flag}, {1 << bit}L, 0L)" for bit, flag in flags)])
        conditions.setdefault(bits, []).append(str(number))
    cases = (f"WHEN case IN ({', '.join(of)}) THEN {bits}" for bits, of in conditions.items())
    packed = F.expr(f"CASE {' '.join(cases)} END").alias(bits_name(0))
    prepared = frame.select("case", "time", "id", packed)
    workers = {
        number: sorted_worker(planned.query, batch._worker(planned, None))
        for number, planned in plans.items()
    }

    def work(batches: Any) -> Any:
        table = pa.Table.from_batches(list(batches), schema)
        for number in pa.compute.unique(table.column("case")).to_pylist():
            rows = table.filter(pa.compute.equal(table.column("case"), number))
            yield from workers[number](rows.combine_chunks().to_batches())

    schema = arrow_schema(prepared)
    matched = prepared.repartition("case").mapInArrow(
        work, from_arrow_schema(batch._output_schema(plans[0], schema, None))
    )
    rows: dict[int, list[dict[str, Any]]] = {number: [] for number in plans}
    for row in matched.collect():
        rows[row["case"]].append(row.asDict(recursive=True))
    wrong = [
        f"{case}: found {sequence_specs.shown(rows[number])}, expected {case.expected}"
        for number, case in enumerate(CASES)
        if sequence_specs.shown(rows[number]) != case.expected
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(bool(found) for found in rows.values()) > 400


def test_spec_cases_through_the_public_names(spark: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    united = None
    for index, case in enumerate(PUBLIC):
        found = case.pattern.matches(spark.createDataFrame(case.table).coalesce(1))
        tagged = found.select(F.lit(index).alias("case"), "events")
        united = tagged if united is None else united.union(tagged)
    rows: dict[int, list[dict[str, Any]]] = {index: [] for index in range(len(PUBLIC))}
    for row in united.collect():  # type: ignore[union-attr]
        rows[row["case"]].append(row.asDict(recursive=True))
    for index, case in enumerate(PUBLIC):
        assert sequence_specs.shown(rows[index]) == case.expected, str(case)


EVENTS = pa.table(
    {
        "user": ["u"] * 6 + ["v"] * 4,
        "id": [0, 1, 2, 3, 4, 5, 0, 1, 2, 3],
        "kind": list("ABXBCC") + list("ABBC"),
        "x": [1, 2, 3, 4, 5, 6, 1, 5, 2, 9],
    }
)


def same(spark: Any, run: Any) -> None:
    local = run(EVENTS)
    remote = run(spark.createDataFrame(EVENTS))
    assert remote.columns == local.column_names
    key = str
    assert sorted((r.asDict(recursive=True) for r in remote.collect()), key=key) == sorted(
        local.to_pylist(), key=key
    )


def test_measures_and_correlated_conditions(spark: Any) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").define(B="x > A.x", C="x > LAST(B.x)")
    pattern = pattern.partition_by("user").order_by("id").within(5)
    same(spark, pattern.measures(n="COUNT(B.*)", last="LAST(B.x)", past="PREV(C.x)").matches)
    same(spark, pattern.matches)
    same(spark, pattern.rows_per_match("all rows").matches)
    same(spark, pattern.rows_per_match("all rows").measures(n="COUNT(*)", p="PREV(x)").matches)


def test_aggregates(spark: Any) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    asked = {"n": "count(*)", "s": "sum(B.x)", "a": "avg(B.x)", "m": "max(C.x)"}
    same(spark, lambda data: pattern.aggregate(data, **asked))
    same(spark, lambda data: pattern.aggregate(data, by="user", **asked))
    same(spark, lambda data: pattern.aggregate(data, every=2, slide=1, **asked))
    frame = spark.createDataFrame(EVENTS)
    assert pattern.count(frame) == pattern.count(EVENTS) == len(pattern.matches(EVENTS))


def long_sequence(rows: int = 400) -> pa.Table:
    """One sequence without a key: ties, gaps and null times."""
    chooser = random.Random(11)
    time, times = 0, []
    for _ in range(rows):
        time += chooser.choice([0, 1, 1, 1, 1, 2, 2, 3, 40])
        times.append(None if chooser.random() < 0.02 else time)
    kinds = [chooser.choice("ABCX") for _ in range(rows)]
    x = [chooser.randrange(5) for _ in range(rows)]
    return pa.table({"t": times, "i": list(range(rows)), "kind": kinds, "x": x})


@pytest.mark.parametrize("condition", [None, "x > A.x"])
def test_a_sequence_without_a_key_is_cut_by_time(spark: Any, condition: str | None) -> None:
    table = long_sequence()
    frame = spark.createDataFrame(table).repartition(3)
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("t", "i").within(6)
    if condition is not None:
        pattern = pattern.define(B=condition)
    expected = pattern.matches(table).to_pylist()
    found = [row.asDict(recursive=True) for row in pattern.matches(frame).collect()]
    assert sorted(found, key=lambda row: row["match_number"]) == expected
    assert len(expected) > 5
    measured = pattern.measures(a="A.x", n="COUNT(*)", c="C.t")
    remote = sorted(str(row.asDict()) for row in measured.matches(frame).collect())
    assert remote == sorted(map(str, measured.matches(table).to_pylist()))
    whole = pattern.rows_per_match("all rows")
    remote = sorted(str(row.asDict()) for row in whole.matches(frame).collect())
    assert remote == sorted(map(str, whole.matches(table).to_pylist()))
    asked = {"n": "count(*)", "s": "sum(B.x)", "m": "max(C.x)"}
    assert (
        pattern.aggregate(frame, **asked).collect()[0].asDict()
        == (pattern.aggregate(table, **asked).to_pylist()[0])
    )


def test_times_are_cut_too(spark: Any) -> None:
    table = long_sequence(200)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    times = [
        None if t is None else start + datetime.timedelta(seconds=t)
        for t in table.column("t").to_pylist()
    ]
    table = table.set_column(0, "t", pa.array(times, pa.timestamp("us", "UTC")))
    pattern = ensue.pattern("A -> B+ -> C", types="kind").order_by("t", "i").within("9 seconds")
    frame = spark.createDataFrame(table)
    assert "stretch" in pattern.matches(frame)._jdf.queryExecution().toString()
    found = pattern.matches(frame).orderBy("match_number").collect()
    expected = pattern.matches(table).to_pylist()
    assert [[e["row"] for e in row["events"]] for row in found] == [
        [e["row"] for e in match["events"]] for match in expected
    ]
    assert pattern.count(frame) == pattern.count(table) == len(expected) > 10


def test_counts_without_a_window_are_a_product_of_matrices(spark: Any) -> None:
    table = long_sequence().filter(pa.compute.is_valid(long_sequence().column("t")))
    frame = spark.createDataFrame(table).repartition(4)
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("t", "i")
    expected = pattern.count(table)
    assert expected > 10**29
    assert pattern.count(frame) == expected
    strict = ensue.pattern("A -> B C", types="kind").order_by("t DESC", "i DESC")
    assert strict.count(frame) == strict.count(table) > 0
    empty = spark.createDataFrame(table).where("false")
    assert pattern.count(empty) == 0


def test_samples_are_matches_and_reach_every_partition(spark: Any) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    every = {
        (row["user"], tuple(e["row"] for e in row["events"]))
        for row in pattern.matches(EVENTS).to_pylist()
    }
    drawn = pattern.matches(spark.createDataFrame(EVENTS), sample=200, seed=3).collect()
    found = [(row["user"], tuple(e["row"] for e in row["events"])) for row in drawn]
    assert len(found) == 200
    assert set(found) == every
    assert sorted(row["match_number"] for row in drawn) == list(range(1, 201))
    # uniform over the matches: no match is drawn far more often than another
    counts = [found.count(match) for match in every]
    mean = 200 / len(every)
    assert sum((count - mean) ** 2 / mean for count in counts) < 40
    none = pattern.matches(spark.createDataFrame(EVENTS).where("kind <> 'C'"), sample=5)
    assert none.count() == 0


def test_aggregates_over_all_matches_in_sql(spark: Any) -> None:
    spark.createDataFrame(EVENTS).createOrReplaceTempView("sequence_events")
    found = ensue.sql(
        """SELECT user, n, s FROM sequence_events MATCH_RECOGNIZE (
             PARTITION BY user ORDER BY id
             MEASURES COUNT(*) OVER ALL MATCHES AS n, SUM(B.x) OVER ALL MATCHES AS s
             PATTERN (A ->> B+ ->> C)
             DEFINE A AS kind = 'A', B AS kind = 'B', C AS kind = 'C')
           ORDER BY user""",
        spark=spark,
    ).collect()
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    expected = pattern.aggregate(EVENTS, by="user", n="count(*)", s="sum(B.x)").to_pylist()
    assert [row.asDict() for row in found] == expected


def test_timeouts(spark: Any) -> None:
    pattern = ensue.pattern("A -> B -> C", types="kind").partition_by("user").order_by("id")
    same(spark, lambda data: pattern.within(2).matches(data, timeouts=True))


def test_too_many_matches_reach_the_driver(spark: Any) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    found = pattern.matches(spark.createDataFrame(EVENTS), max_matches=2)
    with pytest.raises(Exception, match="max_matches is 2"):
        found.collect()
    assert issubclass(errors.LimitError, errors.EnsueError)


def test_rows_that_cannot_match_are_not_shuffled(
    spark: Any, tmp_path: Any, capsys: Any, monkeypatch: Any
) -> None:
    path = str(tmp_path / "events")
    spark.createDataFrame(EVENTS).write.parquet(path)
    df = spark.read.parquet(path)
    keyed = ensue.pattern("A ->> B", types="kind").partition_by("user").order_by("id")
    pattern = keyed.measures(x="LAST(B.x)")
    asked = {
        "matches": pattern.matches,
        "aggregate": lambda frame: keyed.aggregate(frame, by="user", n="count(*)"),
        "workload": ensue.workload(p=pattern, q=keyed.measures(n="COUNT(*)")).matches,
    }
    assert "only rows with (`kind` = 'A') OR (`kind` = 'B') are shuffled" in pattern.explain(df)
    assert "every row is shuffled: events.row numbers it" in keyed.explain(df)
    answers: dict[str, dict[str, Any]] = {}
    for mode in ("rows", "off"):
        monkeypatch.setenv("ENSUE_PREFILTER", mode)
        for name, run in asked.items():
            found = run(df)
            found.explain("formatted")
            pushed = "Or(EqualTo(kind,A),EqualTo(kind,B))" in capsys.readouterr().out
            assert pushed == (mode == "rows"), (name, mode)
            answers.setdefault(name, {})[mode] = sorted(map(str, found.collect()))
    for name, answer in answers.items():
        assert answer["rows"] == answer["off"], name
    monkeypatch.setenv("ENSUE_PREFILTER", "rows")
    keyed.matches(df).explain("formatted")  # events.row counts every row
    absent = ensue.pattern("A -> !B", types="kind").partition_by("user").order_by("id").within(3)
    absent.measures(x="A.x").matches(df, as_of=2).explain("formatted")  # any later row proves it
    assert "EqualTo(kind,A)" not in capsys.readouterr().out


@pytest.mark.parametrize("window", [None, 20])
def test_partitions_without_a_needed_row_are_not_shuffled(
    spark: Any, capsys: Any, monkeypatch: Any, window: int | None
) -> None:
    random_rows = random.Random(7)
    rows = pa.table(
        {
            "user": [f"u{i // 50}" for i in range(20_000)] + [None] * 60,
            "id": [i % 50 * 3 for i in range(20_000)] + [None] * 20 + list(range(40)),
            "kind": [random_rows.choice("AXXX" + "B" * (i % 977 == 0)) for i in range(20_060)],
        }
    )
    df = spark.createDataFrame(rows).repartition(3)
    pattern = ensue.pattern("A X* B", types="kind").partition_by("user").order_by("id")
    pattern = pattern.within(window).measures(n="COUNT(*)") if window else pattern
    answers = {}
    for mode in ("off", "sample"):
        monkeypatch.setenv("ENSUE_PREFILTER", mode)
        found = pattern.matches(df)
        found.explain()
        assert ("LeftSemi" in capsys.readouterr().out) == (mode == "sample")
        assert ("a sample of the keys has" in pattern.explain(df)) == (mode == "sample")
        answers[mode] = sorted(map(str, found.collect()))
    assert answers["sample"] == answers["off"]
    assert answers["off"]
    monkeypatch.setenv("ENSUE_PREFILTER", "everything")
    with pytest.raises(errors.QueryError, match="ENSUE_PREFILTER='everything' is not known"):
        pattern.matches(df)
