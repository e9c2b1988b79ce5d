"""What a stream counts and refuses on Spark: metrics, bad rows, and checkpoints that do not fit."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.spark.control import Control
from ensue.spark.errors import own_error
from ensue.spark.listener import Metrics, progress_line
from tests.lanes import streams
from tests.spark import batches
from tests.spark.test_stream import SCHEMA, collect, writer
from tests.spark.test_stream_cases import PROVIDER, ROCKS

PAIR = (
    ensue.pattern("A -> !X -> B", types="kind")
    .partition_by("user")
    .order_by("ts")
    .within("30 seconds")
    .measures(at="A.ts", x="B.x")
)
DELAY = 20
Row = tuple[str, int | None, str]
# Each list is a micro-batch: user, second, kind. The watermark is 20 seconds behind.
BATCHES: list[list[Row]] = [
    [("a", 10, "A"), ("a", 14, "B"), ("b", 11, "A"), ("n", None, "A"), ("a", 30, "X")],
    # The match of user a is taken back; user big passes the limit of 12 rows.
    [("a", 12, "X"), ("b", 33, "B"), *(("big", second, "A") for second in range(20, 36))],
    # The watermark is at 15: the first two are late. More of big is left out as well.
    [("a", 13, "B"), ("b", 14, "B"), ("big", 37, "B"), ("n", None, "B"), ("c", 60, "A")],
    [("c", 61, "A"), ("a", 62, "A"), ("b", 59, "A")],
]


def table_of(rows: list[Row]) -> pa.Table:
    users, seconds, kinds = zip(*rows, strict=True)
    times = [None if s is None else streams.EPOCH + s * streams.SECOND for s in seconds]
    return pa.table(
        {
            "user": pa.array(users, pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": pa.array(kinds, pa.string()),
            "x": pa.array(range(len(rows)), pa.int64()),
        }
    )


def write(folder: Path, first: int, *rows: list[Row]) -> None:
    batches.write(folder, map(table_of, rows), first)


def stream_of(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("ts", f"{DELAY} seconds")


def failure(query: Any) -> str:
    """Of a query that must fail, and not hang."""
    with pytest.raises(Exception) as caught:
        assert query.awaitTermination(120)
    return str(caught.value)


@pytest.fixture(scope="module")
def rocks(spark: Any) -> Any:
    spark.conf.set(PROVIDER, ROCKS)
    yield spark
    spark.conf.unset(PROVIDER)


def test_one_answer_of_a_stream_is_refused(spark: Any, tmp_path: Path) -> None:
    write(tmp_path, 0, *BATCHES)
    stream = stream_of(spark, tmp_path)
    for answer in (PAIR.count, PAIR.show, ensue.workload({"pair": PAIR}).show):
        with pytest.raises(errors.UnsupportedError, match="a stream has no end"):
            answer(stream)


@pytest.fixture(scope="module")
def ran(rocks: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A stream that has read all and is not closed: its folder, rows, progress and state."""
    folder = tmp_path_factory.mktemp("ran")
    write(folder / "in", 0, *BATCHES)
    rows: list[dict[str, Any]] = []
    query = writer(asked(rocks, folder), folder, collect(rows)).start()
    query.processAllAvailable()
    state = rocks.read.format("statestore").load(str(folder / "checkpoint"))
    held = state.selectExpr("sum(length(value.groupState.state))").collect()[0][0]
    shutil.copytree(folder / "checkpoint", folder / "open")
    before = list(query.recentProgress)
    Control(folder / "control").finish(query)
    after = list(query.recentProgress)
    (folder / "control" / "00000001-stream.end").unlink()
    write(folder / "in", 9, [("d", 70, "A")])  # a micro-batch for those who go on from "open"
    return folder, rows, before, after, held


def asked(spark: Any, folder: Path, pattern: Any = PAIR, **given: Any) -> Any:
    options = {
        "emit": "changes",
        "late": True,
        "lanes": 3,
        "key_limit": 12,
        "overflow": "shed",
        "name": "pair",
        "control": str(folder / "control"),
    }
    return pattern.matches(stream_of(spark, folder / "in"), **(options | given))


def totals_of(progresses: list[Any]) -> tuple[Metrics, Any]:
    metrics = Metrics()
    for progress in progresses:
        metrics.add(progress)
    (found,) = metrics.totals().values()
    return metrics, found


def copied(checkpoint: Path, target: Path) -> None:
    """A checkpoint under an id of its own: Spark stops a query when another with its id starts."""
    shutil.copytree(checkpoint, target)
    (target / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (target / ".metadata.crc").unlink()


# -- metrics, and rows that cannot be used --------------------------------------------------------


def test_every_metric_is_there_and_right(ran: Any) -> None:
    _, rows, before, after, held = ran
    every = [row for part in BATCHES for row in part]
    newest = max(second for _, second, _ in every if second is not None)
    usable = [
        row for row in every if row[1] is not None and row[0] != "big" and row not in BATCHES[2][:2]
    ]
    ops = Counter((row["status"], row["op"]) for row in rows)
    # Null times are rejected, rows before the watermark late, a key past its limit is shed.
    assert ops["rejected", "+"] == 2 and ops["late", "+"] == 2
    assert {json.loads(row["event"])["user"] for row in rows if row["status"] == "rejected"} == {
        "n"
    }
    told = Counter(row["match_id"] for row in rows if row["op"] == "+" and row["match_id"])
    told.subtract(row["match_id"] for row in rows if row["op"] == "-")
    assert sum(told.values()) == len(PAIR.matches(table_of(usable))) > 0 == min(told.values())
    metrics, totals = totals_of(after)
    shed = sum(user == "big" for user, *_ in every)
    wanted = {
        "rows": len(every),
        "matches": ops["matched", "+"],
        "retracted": ops["matched", "-"],
        "late": 2,
        "rejected": 2,
        "shed": shed,
        "corrected": 0,
        "bad_edits": 0,
        "recall": 1 - shed / len(every),
        "keys": 0,
        "pending": 0,
        "partials": 0,
    }
    assert {name: totals[name] for name in wanted} == wanted
    assert wanted["matches"] > wanted["retracted"] > 0
    (by_pattern,) = metrics.patterns().values()
    assert by_pattern == {
        ("pair", 0): {"matches": wanted["matches"], "retracted": wanted["retracted"]}
    }
    # Before the end: rows not yet passed by the watermark wait, and lanes that the last
    # micro-batch did not call count with what they hold.
    _, totals = totals_of(before)
    waiting = [row for row in usable if row[1] is not None and row[1] >= newest - DELAY]
    assert (totals["pending"], totals["state_bytes"]) == (len(waiting), held)
    assert totals["state_memory_bytes"] > 0 and totals["batches"] == len(before)
    assert "recall about" in progress_line(SimpleNamespace(lastProgress=before[1]))


def test_observed_metrics_of_a_budget(spark: Any) -> None:
    """What Spark makes of the lanes' counts, on rows by hand."""
    from pyspark.sql import Observation

    from ensue.run.spark import stream_operator as operator

    def counts(**told: float) -> list[float]:
        return [float(told.get(name, 0)) for name in operator._COUNTS]

    first = counts(rows=10, matches=2, shed=2, promised=4, followed=3, keys=5)
    again = (None, first, '{"a@0 matches": 2}', 0)  # a task that ran twice
    other = (None, counts(rows=10, keys=1), '{"a@0 matches": 1, "b@3 matches": 4}', 2)
    frame = spark.createDataFrame([again, (None, None, None, -1), other, again], operator._STEPPED)
    seen = Observation("ensue")
    frame.observe(seen, *operator._metrics()).collect()
    assert seen.get["rows"] == 20 and seen.get["keys"] == 6
    assert seen.get["recall"] == pytest.approx(0.9 * 0.75)
    assert seen.get["patterns"] == {"a@0 matches": 3, "b@3 matches": 4}
    assert seen.get["lanes"] == {"0": [0, 0, 5, 0], "2": [0, 0, 1, 0]}


def test_rows_that_may_stop_a_stream(ran: Any, rocks: Any, tmp_path: Path) -> None:
    """An exploding key, a null time, and a condition that Spark cannot compute."""
    folder = ran[0]
    made = {
        "limit": asked(rocks, folder, overflow="fail"),
        "null": asked(rocks, folder, nulls="fail"),
        "zero": asked(rocks, folder, PAIR.define(B="1 / x > 0")),
    }
    queries = {n: writer(one, tmp_path, collect([]), n).start() for n, one in made.items()}
    told = {name: failure(query) for name, query in queries.items()}
    assert "LimitError: the key ('big',) keeps 16 rows in state; key_limit is 12" in told["limit"]
    assert "bound the pattern with within(...), raise key_limit=" in told["limit"]
    assert "DataError: a row of the key ('n',) has no event time (ts is null)" in told["null"]
    assert "filter such rows before matching" in told["null"]
    assert "DIVIDE_BY_ZERO" in told["zero"]
    own = {name: own_error(query.exception()) for name, query in queries.items()}
    assert {name: type(problem) for name, problem in own.items()} == {
        "limit": errors.LimitError,
        "null": errors.DataError,
        "zero": errors.DataError,
    }
    assert str(own["zero"]).startswith("Spark cannot compute 1 / `x`: [DIVIDE_BY_ZERO] Division by")


# -- checkpoints ----------------------------------------------------------------------------------


def test_a_checkpoint_of_another_query_says_what_differs(ran: Any, rocks: Any) -> None:
    folder = ran[0]
    other = {
        "lanes": (
            asked(rocks, folder, lanes=5),
            "lanes was 3 and is 5\nWhat to do: set lanes back, or start with a new checkpoint",
        ),
        "partitioning": (
            asked(rocks, folder, PAIR.partition_by("kind")),
            "partition_by was user and is kind; ",
        ),
        "pattern": (
            asked(rocks, folder, ensue.pattern("A -> B", types="kind").partition_by("user")
                  .order_by("ts").within("30 seconds").measures(at="A.ts", x="B.x")),
            "pattern was A -> !X -> B (fingerprint",
        ),
    }  # fmt: skip
    for name in other:
        copied(folder / "open", folder / name)
    # At once, since each start takes its time.
    queries = {n: writer(o, folder, collect([]), n).start() for n, (o, _) in other.items()}
    for name, query in queries.items():
        told = failure(query)
        assert "CheckpointError: the checkpoint was written by another query: " in told
        assert other[name][1] in told, told[-3000:]


def _garbage(path: Path) -> None:
    path.write_text("garbage")
    path.with_name(f".{path.name}.crc").unlink()


def _flipped(path: Path, checked: bool) -> None:
    """`checked`: with the checksum that a local file system keeps beside a file."""
    data = bytearray(path.read_bytes())
    data[::64] = bytes(byte ^ 16 for byte in data[::64])  # whichever part of it is read
    path.write_bytes(data)
    if not checked:
        path.with_name(f".{path.name}.crc").unlink()


def _flip_state(folder: Path, ending: str, checked: bool = False) -> None:
    found = list((folder / "state").rglob(f"*.{ending}"))
    assert found
    for path in found:
        _flipped(path, checked)


# How Spark says that there is no state; 4.0 names the file, later ones the folder.
NO_STATE = re.compile("MISSING_STATE_DIRECTORY|CANNOT_READ_STREAMING_STATE_FILE")
DAMAGE: dict[str, tuple[Callable[[Path], Any], str | re.Pattern[str]]] = {
    "zip": (lambda folder: _flip_state(folder, "zip"), "CANNOT_LOAD_STATE_STORE"),
    "crc": (lambda folder: _flip_state(folder, "zip", True), "Checksum error: file:"),
    "sst": (lambda folder: _flip_state(folder, "sst"), "RocksDBException"),
    "gone": (lambda folder: shutil.rmtree(folder / "state"), NO_STATE),
    "offsets": (
        lambda folder: _garbage(max((folder / "offsets").glob("[0-9]*"))),
        "MALFORMED_LOG_FILE",
    ),
}


def test_a_damaged_checkpoint_is_refused(ran: Any, rocks: Any) -> None:
    """Spark finds damage of its files itself; that of our bytes is in tests/lanes."""
    folder = ran[0]
    queries = {}
    for name, (damage, _) in DAMAGE.items():
        copied(folder / "open", folder / name)
        damage(folder / name)
        queries[name] = writer(asked(rocks, folder), folder, collect([]), name).start()
    for name, query in queries.items():
        told = failure(query)
        assert re.search(DAMAGE[name][1], told), told[-3000:]


def test_a_foreign_checkpoint_is_refused(ran: Any, rocks: Any, tmp_path: Path) -> None:
    """Of a plain query with and without state, and of one with another number of sources."""
    folder = ran[0]
    stream = stream_of(rocks, folder / "in")
    foreign = {"rows": stream, "users": stream.dropDuplicates(["user"])}
    started = [writer(one, tmp_path, collect([]), name).start() for name, one in foreign.items()]
    for query in started:
        query.processAllAvailable()
        query.stop()
    copied(folder / "open", tmp_path / "open")
    write(folder / "in", 10, [("d", 71, "A")])
    alone = asked(rocks, folder, control=None)
    words = {
        "rows": NO_STATE,
        "users": "Streaming stateful operator name does not match",
        "open": r"There are \[2\] sources in the checkpoint offsets and now there are \[1\]",
    }
    queries = {name: writer(alone, tmp_path, collect([]), name).start() for name in words}
    for name, query in queries.items():
        assert re.search(words[name], failure(query))


# -- refused before anything runs -----------------------------------------------------------------


def test_event_times_of_other_types_and_no_watermark(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    plain = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    automaton = ensue.Automaton(order_by="ts").arc("a", "b", when="kind = 'A'").final("b")
    calls: dict[str, Callable[[Any], Any]] = {
        "matches": PAIR.matches,
        "aggregate": lambda df: PAIR.measures().aggregate(df, n="count(*)"),
        "summarize": lambda df: PAIR.measures().summarize(df, size=5),
        "automaton": automaton.matches,
        "edits": lambda df: PAIR.matches(df, control=str(tmp_path / "c"), edits=True),
    }
    for name, call in calls.items():
        with pytest.raises(errors.WatermarkError, match="the stream has no watermark on ts") as got:
            call(plain)
        assert "df.withWatermark('ts', '10 seconds')" in got.value.remedy, name
        for kind in ("string", "bigint", "date", "timestamp_ntz"):
            wrong = plain.withColumn("ts", plain["ts"].cast("timestamp").cast(kind))
            words = f"the event time 'ts' is of type {kind}; a stream is ordered by a timestamp"
            with pytest.raises(errors.ColumnTypeError, match=words) as caught:
                call(wrong)
            assert "cast it to TIMESTAMP before withWatermark" in caught.value.remedy
    with pytest.raises(errors.QueryError, match="control= is DataFrame"):
        PAIR.matches(plain, emit="changes", control=spark.range(3))
    with pytest.raises(errors.ColumnTypeError, match="the stream of edits has the columns"):
        PAIR.matches(plain, emit="changes", control=plain)
    edits = {"control": str(tmp_path / "c"), "edits": True}
    with pytest.raises(errors.UnsupportedError, match="aggregate, pattern edits"):
        PAIR.measures().aggregate(plain, n="count(*)", **edits)
    with pytest.raises(errors.UnsupportedError, match="summarize, pattern edits"):
        PAIR.measures().summarize(plain, size=5, **edits)
    with pytest.raises(errors.QueryError, match="'a pair' cannot name a pattern"):
        PAIR.matches(plain, emit="changes", name="a pair")


def test_sql_that_only_tables_have(spark: Any, tmp_path: Path) -> None:
    """Neither must silently run on each micro-batch by itself."""
    (tmp_path / "in").mkdir()
    stream_of(spark, tmp_path / "in").createOrReplaceTempView("a_stream")
    text = """SELECT * FROM a_stream MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY ts MEASURES {measures} {skip}
        PATTERN (A B) DEFINE A AS kind = 'A', B AS kind = 'B')"""
    counted = text.format(measures="COUNT(*) OVER ALL MATCHES AS n", skip="")
    with pytest.raises(errors.UnsupportedError, match="OVER ALL MATCHES"):
        ensue.sql(counted, spark=spark)
    listed = text.format(measures="COUNT(*) AS n", skip="AFTER MATCH SKIP TO NEXT ROW")
    with pytest.raises(errors.UnsupportedError, match="budget"):
        ensue.sql(listed, spark=spark, budget=ensue.Budget(work=1))
