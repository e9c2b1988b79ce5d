"""Quantitative queries: speed and flatness in process, growth with the query, ratios to Spark SQL.

`quantify` runs in process on one core; `quantify-spark` compares the same questions asked of Spark
SQL and of Ensue on Spark, in one session; `quantify-ten` runs ten queries for which SQL needs
several passes (sorts, joins, arrays of whole keys) in one pass each, beside that SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Target, compare, report, say, write_rows
from benchmarks.rows import MILLION, Settings, _frame, _noop
from ensue import quantify as q
from ensue.quantities.bound import Batch
from ensue.quantities.run import BoundAutomaton

KEYS = 10_000


def ticks(rows: int, keys: int = 1) -> pa.Table:
    randomness = np.random.default_rng(11)
    x = np.abs(randomness.normal(10, 3, rows))
    x[19::20] = 0.0  # a separator every twenty rows, so that no block is empty
    return pa.table(
        {
            "k": randomness.integers(0, keys, rows) if keys > 1 else np.zeros(rows, np.int64),
            "ts": np.arange(rows),
            "x": x,
        }
    )


def blocks(inner: q.Quantity) -> q.Quantity:
    """The largest value of a block; blocks end with x = 0."""
    return q.iter("max", q.split("a", inner, q.event("x <= 0")))


RANKS = {
    "rank 0: sum": q.sum("x", start=0.0),
    "rank 2: max of block sums": blocks(q.sum("x", over="x > 0")),
    "rank 2: max of block means": blocks(q.mean("x", over="x > 0")),
    "rank 3: div(S, C) in blocks": blocks(
        q.combine("a / b", q.sum("x", over="x > 0"), q.count(over="x > 0"))
    ),
}


def run_speed(settings: Settings) -> bool:
    """quantify: rank 0 to 3 in process on one core, 10⁴ to 10⁷ events, and growth with the query"""
    rows = settings.rows or 10 * MILLION
    table = ticks(rows)
    variants = {name: (rows, _evaluated(f, table)) for name, f in RANKS.items()}
    found = compare(variants, repeat=settings.repeat)
    small = 200_000
    slow = compare(
        {"plain Python loop": (small, lambda: _python_blocks(table.slice(0, small)))}, repeat=2
    )
    loop = slow[0].rate
    targets = [
        Target(f"{one.name}, events per second ÷ the loop's", one.rate / loop, 10, at_most=False)
        for one in found
        if one.name.startswith("rank 2")
    ]
    title = f"{rows:,} events in process, one core"
    met = report(title, [*slow, *found], targets, "quantify")
    parts = (_threads(settings), _strings(settings), _flat(settings), _growth(settings))
    return all(parts) and met


def _threads(settings: Settings) -> bool:
    """CPU of both threads, which is what two cores share: 1.18 times one thread's is 1.7 faster."""
    rows = settings.rows or 10 * MILLION
    table = ticks(rows)
    f = RANKS["rank 2: max of block means"]
    found = compare(
        {
            "one thread": (rows, _evaluated(f, table)),
            "two threads": (rows, lambda: f.eval(table, threads=2)),
        },
        repeat=settings.repeat,
    )
    assert found[0].answer == found[1].answer
    scales = 2 * found[0].cpu_median / found[1].cpu_median
    target = Target("2 × CPU of one thread ÷ CPU of two", scales, 1.7, at_most=False)
    title = f"a nested query over one sequence of {rows:,} events"
    return report(title, found, [target], "quantify-threads")


def _strings(settings: Settings) -> bool:
    rows, small = settings.rows or MILLION, 50_000
    names = np.array([f"user {i}" for i in range(1_000)])
    users = names[np.random.default_rng(3).integers(0, 1_000, rows)]
    table = ticks(rows).append_column("user", pa.array(users))
    f = blocks(q.argmax("user", "x", over="x > 0"))
    bound = f.stage.bind(table.schema)
    assert isinstance(bound, BoundAutomaton)
    plain = BoundAutomaton(f.automaton, table.schema, bound.report, compiled=False)
    few = Batch.whole(table.slice(0, small), np.array([0, small], np.int64))
    found = compare(
        {
            "on Python values": (small, lambda: plain.run(few, plain.memory(), False)),
            "as ranks": (rows, _evaluated(f, table)),
        },
        repeat=settings.repeat,
        warm_up=1,
    )
    target = Target("events per second ÷ on values", found[1].rate / found[0].rate, 50, False)
    title = f"who had the most in each block, the last by name: {rows:,} events"
    return report(title, found, [target], "quantify-strings")


def _evaluated(f: q.Quantity, table: pa.Table) -> Callable[[], Any]:
    return lambda: f.eval(table)


def _python_blocks(table: pa.Table) -> float:
    best, total, count = 0.0, 0.0, 0
    for x in table["x"].to_pylist():
        if x > 0:
            total, count = total + x, count + 1
        else:
            best, total, count = max(best, total / count), 0.0, 0
    return best


def _flat(settings: Settings) -> bool:
    f = RANKS["rank 2: max of block means"]
    most = settings.rows or 10 * MILLION
    table = ticks(most)
    bound = f.stage.bind(table.schema)
    sizes = [size for size in (10_000, 100_000, MILLION, 10 * MILLION) if size <= most]

    def run(size: int) -> None:
        # As many events in all sizes, so that each time is long enough to be read.
        for _ in range(max(1, 2 * MILLION // size)):
            batch = Batch.whole(table.slice(0, size), np.array([0, size], np.int64))
            bound.run(batch, bound.memory(), False)

    variants: dict[str, tuple[int, Callable[[], Any]]] = {}
    for size in sizes:
        total = size * max(1, 2 * MILLION // size)
        variants[f"{size:,} events"] = (total, lambda size=size: run(size))
    found = compare(variants, repeat=settings.repeat)
    costs = [measured.cpu_median / measured.rows for measured in found]
    for measured, cost in zip(found, costs, strict=True):
        measured.notes["ns per event"] = f"{cost * 1e9:.0f}"
    write_rows(
        "quantify-length",
        [{"events": n, "ns": 1e9 * cost} for n, cost in zip(sizes, costs, strict=True)],
    )
    spread = Target("cost per event, longest ÷ shortest stream", costs[-1] / costs[0], 1.25)
    return report("cost per event by length of the stream", found, [spread], "quantify-flat")


def chained(parts: int) -> q.Quantity:
    """A query of `parts` nested blocks: each level ends with its own separator."""
    f = q.sum("x", over="x > 0")
    for level in range(parts):
        end = q.event(f"x = {-level}")
        f = q.iter("max", q.split("a", f, end))
    return f


def _growth(settings: Settings) -> bool:
    rows = min(settings.rows or MILLION, MILLION)
    table = ticks(rows)
    queries = {depth: chained(depth) for depth in (1, 2, 4, 8)}
    found = compare(
        {f"size {f.automaton.size}": (rows, _evaluated(f, table)) for f in queries.values()},
        repeat=settings.repeat,
    )
    write_rows(
        "quantify-size",
        [
            {"size": f.automaton.size, "ns": 1e9 * measured.cpu_median / rows}
            for f, measured in zip(queries.values(), found, strict=True)
        ],
    )
    first, last = queries[1].automaton.size, queries[8].automaton.size
    factor = found[-1].cpu_median / found[0].cpu_median
    limit = (last / first) ** 2
    target = Target(f"cost when the query grows {last / first:.1f} times", factor, limit)
    return report("cost by size of the query", found, [target], "quantify-growth")


# -- against Spark SQL ----------------------------------------------------------------------------

ISLANDS = """
WITH flagged AS (
  SELECT k, ts, x, LAG(x) OVER (PARTITION BY k ORDER BY ts) AS before FROM ticks
), numbered AS (
  SELECT k, x, SUM(CASE WHEN before <= 0 THEN 1 ELSE 0 END)
    OVER (PARTITION BY k ORDER BY ts) AS block FROM flagged
), blocks AS (SELECT k, block, SUM(x) AS total FROM numbered GROUP BY k, block)
SELECT k, MAX(total) AS value FROM blocks GROUP BY k
"""


def island_sums() -> q.Quantity:
    """Sums of blocks that end with x <= 0, their maximum; the block open at the end counts too."""
    return q.windows(q.sum("x"), until="x <= 0", partial=True) >> q.max("value")


PLAIN: dict[str, tuple[str, q.Quantity]] = {
    "mean": ("AVG(x)", q.mean("x")),
    "stddev": ("STDDEV_SAMP(x)", q.stddev("x")),
    "last": ("MAX_BY(x, ts)", q.last("x")),
    "argmax": ("MAX_BY(ts, x)", q.argmax("ts", "x")),
    "conditional sum": ("SUM(x) FILTER (WHERE x > 10)", q.sum("x", where="x > 10")),
    "product": ("PRODUCT", q.product("x / 10")),
    "quantile (in the worker)": ("PERCENTILE_APPROX(x, 0.9e0)", q.quantile("x", 0.9)),
}


def run_spark(settings: Settings) -> bool:
    """quantify-spark: the same questions in Spark SQL and in Ensue, in one session"""
    rows = settings.rows or 2 * MILLION
    frame = _frame(settings, "quantify", ticks(rows, KEYS))
    frame.createOrReplaceTempView("ticks")
    asked = [
        (f"a plain aggregate: {name}", text, f, 3.0, "quantile" not in name)
        for name, (text, f) in PLAIN.items()
    ]
    asked.append(("two window sorts: largest block", ISLANDS, island_sums(), 1.0, True))
    met = True
    for title, text, f, limit, exact in asked:
        theirs = _plain_sql(settings.spark, frame, text)
        found = compare(
            {
                "Spark SQL": (rows, lambda theirs=theirs: _noop(theirs)),
                "Spark: Ensue": (
                    rows,
                    lambda f=f: _noop(f.eval(frame, partition_by="k", order_by="ts")),
                ),
            },
            repeat=settings.repeat,
        )
        same = not exact or _same(theirs, f.eval(frame, partition_by="k", order_by="ts"))
        say(f"answers {'agree' if same else 'DIFFER'}" if exact else "answers are approximate")
        ratio = found[1].cpu_median / found[0].cpu_median
        wall = found[1].wall_median / found[0].wall_median
        targets = [Target("CPU, Ensue ÷ SQL", ratio, limit), Target("wall", wall, limit)]
        name = "quantify-spark-" + title.replace(":", "").replace(" ", "-")
        met = report(f"{title}, {rows:,} rows", found, targets, name) and same and met
    return met


def _plain_sql(spark: Any, frame: Any, text: str) -> Any:
    if text == "PRODUCT":  # an aggregate that only the DataFrame API has
        from pyspark.sql import functions as F  # noqa: N812

        return frame.groupBy("k").agg(F.product(F.col("x") / 10).alias("value"))
    return spark.sql(
        text if "SELECT" in text else f"SELECT k, {text} AS value FROM ticks GROUP BY k"
    )


def _same(sql: Any, ours: Any) -> bool:
    left, right = sql.toArrow().sort_by("k"), ours.toArrow().sort_by("k")
    return bool(
        left["k"].equals(right["k"])
        and np.allclose(
            left["value"].cast(pa.float64()).to_numpy(),
            right["value"].cast(pa.float64()).to_numpy(),
            equal_nan=True,
        )
    )


# -- ten queries in one pass ----------------------------------------------------------------------


def _blocks_sql(inner: str, outer: str, end: str = "x <= 0") -> str:
    """Blocks that end where `end` holds: a window sort to number them, then two aggregations."""
    return f"""
WITH numbered AS (
  SELECT k, x, COALESCE(SUM(CASE WHEN {end} THEN 1 END) OVER (PARTITION BY k ORDER BY ts
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS block FROM ticks
), blocks AS (
  SELECT k, block, {inner} AS v, BOOL_OR({end}) AS closed FROM numbered GROUP BY k, block
)
SELECT k, {outer}(v) FILTER (WHERE closed) AS value FROM blocks GROUP BY k
"""


def _folded_sql(step: str) -> str:
    """A fold that SQL has no aggregate for: all of a key in one array, sorted, then folded."""
    return f"""
SELECT k, AGGREGATE(ARRAY_SORT(COLLECT_LIST(STRUCT(ts, x))), 0D, (state, e) -> {step}) AS value
FROM ticks GROUP BY k
"""


SORTED = "a window sort and two aggregations"
ARRAYS = "no aggregate: collects each key in an array, which must fit in memory"
TEN: dict[str, tuple[q.Quantity, str, str]] = {
    "largest block mean": (
        q.windows(q.mean("x"), until="x <= 0") >> q.max("value"),
        _blocks_sql("AVG(x)", "MAX"),
        SORTED,
    ),
    "mean of block maxima": (
        q.windows(q.max("x"), until="x <= 0") >> q.mean("value"),
        _blocks_sql("MAX(x)", "AVG"),
        SORTED,
    ),
    "means of three, max per 33, mean of those": (
        q.windows(q.mean("x"), rows=3) >> q.windows(q.max("value"), rows=33) >> q.mean("value"),
        """
WITH numbered AS (
  SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) - 1 AS i FROM ticks
), threes AS (
  SELECT k, i DIV 3 AS g, AVG(x) AS v, COUNT(*) AS n FROM numbered GROUP BY k, i DIV 3
), runs AS (
  SELECT k, g DIV 33 AS h, MAX(v) AS v, COUNT_IF(n = 3) AS n FROM threes GROUP BY k, g DIV 33
)
SELECT k, AVG(v) FILTER (WHERE n = 33) AS value FROM runs GROUP BY k
""",
        "a window sort and three aggregations",
    ),
    "peak of the per-window sums against the mean": (
        q.combine(
            "a - b",
            q.windows(q.sum("x"), time=100_000, by="ts") >> q.max("value"),
            q.mean("x"),
        ),
        """
SELECT k, p.peak - m.mean AS value
FROM (SELECT k, MAX(v) AS peak FROM (SELECT k, ts DIV 100000 AS w, SUM(x) AS v FROM ticks
        GROUP BY k, ts DIV 100000) GROUP BY k) p
JOIN (SELECT k, AVG(x) AS mean FROM ticks GROUP BY k) m USING (k)
""",
        "two scans, three aggregations and a join",
    ),
    "longest run below ten": (
        q.windows(q.count(where="x < 10"), until="x >= 10") >> q.max("value"),
        _blocks_sql("COUNT_IF(x < 10)", "MAX", "x >= 10"),
        SORTED,
    ),
    "budget: most spent before a reset": (
        q.windows(q.sum("x"), until="x <= 0") >> q.max("value"),
        _blocks_sql("SUM(x)", "MAX"),
        SORTED,
    ),
    "spread of block sums": (
        q.windows(q.sum("x"), until="x <= 0") >> q.stddev("value"),
        _blocks_sql("SUM(x)", "STDDEV_SAMP"),
        SORTED,
    ),
    "time of the best window": (
        q.windows(q.sum("x"), time=100_000, by="ts") >> q.argmax("window_start", "value"),
        """
SELECT k, MAX_BY(w * 100000, STRUCT(v, -w)) AS value FROM (
  SELECT k, ts DIV 100000 AS w, SUM(x) AS v FROM ticks GROUP BY k, ts DIV 100000
) GROUP BY k
""",
        "two aggregations",
    ),
    "decayed sum": (
        q.iter("state * 0.9 + value", q.event(None, "x"), start=0.0),
        _folded_sql("state * 0.9D + e.x"),
        ARRAYS,
    ),
    "spending that starts again at a hundred": (
        q.iter(
            "CASE WHEN state + value > 100 THEN 0.0 ELSE state + value END",
            q.event(None, "x"),
            start=0.0,
        ),
        _folded_sql("CASE WHEN state + e.x > 100 THEN 0D ELSE state + e.x END"),
        ARRAYS,
    ),
}


def run_ten(settings: Settings) -> bool:
    """quantify-ten: ten queries in one pass each, beside what Spark SQL needs for them"""
    rows = settings.rows or MILLION
    frame = _frame(settings, "quantify-ten", ticks(rows, KEYS))
    frame.createOrReplaceTempView("ticks")
    met = True
    for name, (f, text, passes) in TEN.items():
        sql, ours = settings.spark.sql(text), f.eval(frame, partition_by="k", order_by="ts")
        found = compare(
            {
                f"Spark SQL: {passes}": (rows, lambda sql=sql: _noop(sql)),
                "Ensue: one pass": (rows, lambda ours=ours: _noop(ours)),
            },
            repeat=settings.repeat,
        )
        same = _same(sql, ours)
        ratio = found[1].cpu_median / found[0].cpu_median
        say(f"{name}: answers {'agree' if same else 'DIFFER'}; CPU, Ensue ÷ SQL {ratio:.2f}")
        report(f"{name}, {rows:,} rows", found, (), "quantify-ten-" + name.replace(" ", "-"))
        met = met and same
    return met


COMMANDS = {"quantify": run_speed, "quantify-spark": run_spark, "quantify-ten": run_ten}
