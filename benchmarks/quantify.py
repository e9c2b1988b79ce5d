"""Quantitative queries: speed and flatness in process, growth with the query, ratios to Spark SQL.

`quantify` runs in process on one core; `quantify-spark` compares the same questions asked of Spark
SQL and of Ensue on Spark, in one session; `quantify-ten` runs ten queries for which SQL needs
several passes (sorts, self-joins or recursion) in one pass each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Target, compare, report, say
from benchmarks.rows import MILLION, Settings, _frame, _noop
from ensue import quantify as q

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
    variants = {
        name: (rows, _evaluated(f, table)) for name, f in RANKS.items()
    }  # warm: the loop is compiled once for all queries
    found = compare(variants, repeat=settings.repeat)
    small = 200_000
    slow = compare(
        {"plain Python loop": (small, lambda: _python_blocks(table.slice(0, small)))}, repeat=2
    )
    rates = {measured.name: measured.rate for measured in found}
    targets = [
        Target(f"{name}, events per CPU second", rate, 5e6, at_most=False)
        for name, rate in rates.items()
        if name.startswith("rank 2")
    ]
    met = report(f"{rows:,} events in process, one core", [*found, *slow], targets, "quantify")
    return _flat(settings) and _growth(settings) and met


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
    machine = f.stage.bind(table.schema).machine  # type: ignore[attr-defined]
    sizes = [size for size in (10_000, 100_000, MILLION, 10 * MILLION) if size <= most]

    def run(size: int) -> None:
        # As many events in all sizes, so that each time is long enough to be read.
        for _ in range(max(1, 2 * MILLION // size)):
            machine.run(table.slice(0, size), np.array([0, size], np.int64))

    variants: dict[str, tuple[int, Callable[[], Any]]] = {}
    for size in sizes:
        total = size * max(1, 2 * MILLION // size)
        variants[f"{size:,} events"] = (total, lambda size=size: run(size))
    found = compare(variants, repeat=settings.repeat)
    costs = [measured.cpu_median / measured.rows for measured in found]
    for measured, cost in zip(found, costs, strict=True):
        measured.notes["ns per event"] = f"{cost * 1e9:.0f}"
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
    rows = MILLION
    table = ticks(rows)
    queries = {depth: chained(depth) for depth in (1, 2, 4, 8)}
    found = compare(
        {f"size {f.automaton.size}": (rows, _evaluated(f, table)) for f in queries.values()},
        repeat=settings.repeat,
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


def run_spark(settings: Settings) -> bool:
    """quantify-spark: the same questions in Spark SQL and in Ensue, in one session"""
    rows = settings.rows or 2 * MILLION
    frame = _frame(settings, "quantify", ticks(rows, KEYS))
    frame.createOrReplaceTempView("ticks")
    spark = settings.spark
    plain = q.mean("x")
    met = True
    for title, text, f, limit in (
        ("a plain aggregate", "SELECT k, AVG(x) AS value FROM ticks GROUP BY k", plain, 3.0),
        ("two window sorts: largest block", ISLANDS, island_sums(), 1.0),
    ):
        found = compare(
            {
                "Spark SQL": (rows, lambda text=text: _noop(spark.sql(text))),
                "Spark: Ensue": (
                    rows,
                    lambda f=f: _noop(f.eval(frame, partition_by="k", order_by="ts")),
                ),
            },
            repeat=settings.repeat,
        )
        same = _same(spark.sql(text), f.eval(frame, partition_by="k", order_by="ts"))
        say(f"answers {'agree' if same else 'DIFFER'}")
        ratio = found[1].cpu_median / found[0].cpu_median
        wall = found[1].wall_median / found[0].wall_median
        targets = [Target("CPU, Ensue ÷ SQL", ratio, limit), Target("wall", wall, limit)]
        name = "quantify-spark-" + title.split(":")[0].replace(" ", "-")
        met = report(f"{title}, {rows:,} rows", found, targets, name) and same and met
    return met


def _same(sql: Any, ours: Any) -> bool:
    left, right = sql.toArrow().sort_by("k"), ours.toArrow().sort_by("k")
    return bool(
        left["k"].equals(right["k"])
        and np.allclose(left["value"].to_numpy(), right["value"].to_numpy(), equal_nan=True)
    )


# -- ten queries in one pass ----------------------------------------------------------------------

TEN: dict[str, q.Quantity] = {
    "largest block mean": q.windows(q.mean("x"), until="x <= 0") >> q.max("value"),
    "mean of block maxima": q.windows(q.max("x"), until="x <= 0") >> q.mean("value"),
    "means of three, max per hundred, mean of those": q.windows(q.mean("x"), rows=3)
    >> q.windows(q.max("value"), rows=33)
    >> q.mean("value"),
    "peak of the per-window maxima against the mean": q.combine(
        "a - b",
        q.windows(q.max("x"), time=1000, by="ts") >> q.max("value"),
        q.mean("x"),
    ),
    "longest run below ten": q.windows(q.count(where="x < 10"), until="x >= 10") >> q.max("value"),
    "budget: most spent before a reset": q.windows(q.sum("x"), until="x <= 0") >> q.max("value"),
    "alternation x<10, x>=10 counted": q.windows(q.count(), until="x >= 10") >> q.count(),
    "spread of block sums": q.windows(q.sum("x"), until="x <= 0") >> q.stddev("value"),
    "time of the best window": q.windows(q.sum("x"), time=1000, by="ts")
    >> q.argmax("window_start", "value"),
    "decayed sum": q.iter("state * 0.9 + value", q.event(None, "x"), start=0.0),
}


def run_ten(settings: Settings) -> bool:
    """quantify-ten: ten queries that Spark SQL needs several passes for, one pass each"""
    rows = settings.rows or MILLION
    frame = _frame(settings, "quantify-ten", ticks(rows, KEYS))
    variants: dict[str, tuple[int, Callable[[], Any]]] = {
        "one shuffle and sort, nothing else": (
            rows,
            lambda: _noop(frame.repartition("k").sortWithinPartitions("k", "ts")),
        )
    }
    for name, f in TEN.items():
        variants[name] = (rows, lambda f=f: _noop(f.eval(frame, partition_by="k", order_by="ts")))
    found = compare(variants, repeat=settings.repeat)
    return report(f"ten queries, {rows:,} rows, {KEYS:,} keys", found, (), "quantify-ten")


COMMANDS = {"quantify": run_speed, "quantify-spark": run_spark, "quantify-ten": run_ten}
