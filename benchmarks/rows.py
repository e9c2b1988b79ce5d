"""Row patterns: two workloads against the cost of moving the rows, growth, blow-up and memory.

W1 reads the row before each row, W2 one row at a time within a time window. The baseline is the
job that any Spark program has to do before it can look at a key's rows in order: shuffle by key
and sort in the worker, through the same Arrow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import ensue
from benchmarks import flink, session
from benchmarks.harness import Measurement, Target, compare, report, say
from benchmarks.processes import Clock, PeakMemory
from ensue.demo import data

MILLION = 1_000_000


@dataclass
class Settings:
    """What the command line said; `spark` starts a session on the first use."""

    folder: Path
    rows: int | None = None
    repeat: int = 3
    peer: str | None = None
    only: str = ""
    keep: bool = False
    session: list[Any] = field(default_factory=list)

    @property
    def spark(self) -> Any:
        if not self.session:
            self.session.append(_start_spark())
        return self.session[0]


@dataclass(frozen=True)
class Workload:
    name: str
    key: str
    columns: tuple[str, ...]  # what the pattern reads
    make: Callable[[int, int], pa.Table]  # (keys, rows)
    keys: int
    query: Any
    peer_query: Any  # as near as the peer's SQL comes to `query`
    check: tuple[str, ...]  # measures whose sums are compared


def w1() -> Workload:
    def query(pattern: str) -> Any:
        return (
            ensue.pattern(pattern)
            .define(B="price < LAST(price, 1)", C="price > LAST(price, 1)")
            .partition_by("symbol")
            .order_by("ts")
            .after_match("past last row")
            .measures(
                first_price="FIRST(A.price)", bottom="LAST(B.price)", last_price="LAST(C.price)"
            )
        )

    sums = ("first_price", "bottom", "last_price")
    needs = ("symbol", "ts", "price")
    # Flink refuses a greedy quantifier at the end of a pattern.
    peer = query("A B+ C+?")
    return Workload("w1", "symbol", needs, data.ticks, 1_000, query("A B+ C+"), peer, sums)


def w2() -> Workload:
    query = (
        ensue.pattern("V C+ P")
        .define(V="kind = 'view'", C="kind = 'cart'", P="kind = 'pay'")
        .partition_by("user_id")
        .order_by("ts")
        .within("1 hour")
        .after_match("past last row")
        .measures(carts="COUNT(C.*)", paid="P.amount")
    )
    needs = ("user_id", "ts", "kind", "amount")
    return Workload("w2", "user_id", needs, data.funnel, 10_000, query, query, ("carts", "paid"))


def run_w1(settings: Settings) -> bool:
    """W1: 1 M ticks, 1,000 symbols, falls that turn: (A B+ C+), each row against the one before"""
    return _run_workload(w1(), settings)


def run_w2(settings: Settings) -> bool:
    """W2: 1 M events, 10,000 users, (V C+ P) within 1 hour"""
    return _run_workload(w2(), settings)


def _run_workload(work: Workload, settings: Settings) -> bool:
    rows = settings.rows or MILLION
    table = work.make(work.keys, rows)
    frame = _frame(settings, work.name, table)
    found = compare(
        {
            "Spark: shuffle and sort": (rows, lambda: _noop(baseline(frame, work))),
            "Spark: Ensue": (rows, lambda: _noop(work.query.matches(frame))),
        },
        repeat=settings.repeat,
    )
    on_spark = answer_of(work, work.query.matches(frame).toArrow())
    title = f"{work.name}, {rows:,} rows, {work.keys:,} keys, on Spark local[2]"
    ratio = found[1].cpu_median / found[0].cpu_median
    wall = found[1].wall_median / found[0].wall_median
    limits = [Target("CPU, Ensue ÷ baseline", ratio, 1.5), Target("wall", wall, 1.5)]
    found[1].notes["matches"] = f"{on_spark[0]:,}"
    met = report(title, found, limits, f"{work.name}-spark")

    ordered = table.select(work.columns).sort_by([(work.key, "ascending"), ("ts", "ascending")])
    local = compare(
        {"in process: Ensue": (rows, lambda: work.query.matches(ordered))},
        repeat=max(5, settings.repeat),
    )
    answer = answer_of(work, local[0].answer)
    local[0].notes["matches"] = f"{answer[0]:,}"
    fast = [Target("rows per CPU second", local[0].rate, 10e6, at_most=False)]
    met &= report(
        f"{work.name}, {rows:,} rows, sorted input, in process",
        local,
        fast if work.name == "w1" else (),
        f"{work.name}-local",
    )
    met &= same("Spark and in process", on_spark, answer)
    if settings.peer == "flink":
        met &= _against_flink(work, table, frame, settings)
    return met


def _against_flink(work: Workload, table: pa.Table, frame: Any, settings: Settings) -> bool:
    rows = table.num_rows
    read, match = flink.run(work.name, table, settings.folder, settings.repeat)
    ours = compare(
        {"Spark: Ensue": (rows, lambda: _noop(work.peer_query.matches(frame)))},
        repeat=settings.repeat,
    )[0]
    answer = answer_of(work, work.peer_query.matches(frame).toArrow())
    ours.notes["matches"] = f"{answer[0]:,}"
    match.notes["matches"] = f"{match.answer[0]:,}"
    without = (match.cpu_median - read.cpu_median) / ours.cpu_median
    limits = [
        Target("CPU, Flink ÷ Ensue", match.cpu_median / ours.cpu_median, 10, at_most=False),
        Target("wall, Flink ÷ Ensue", match.wall_median / ours.wall_median, 10, at_most=False),
        Target("CPU, Flink without its reading ÷ Ensue", without, 10, at_most=False),
    ]
    title = f"{work.name}, {rows:,} rows, the pattern that both can run"
    met = report(title, [ours, match, read], limits, f"{work.name}-flink")
    return same("Flink and Ensue", match.answer, answer) and met


def run_why(settings: Settings) -> bool:
    """why: W1 and W2, why() against matches(), at most 5 times the cost"""
    rows, met = settings.rows or MILLION, True
    for work in (w1(), w2()):
        table = work.make(work.keys, rows).select(work.columns)
        frame = _frame(settings, f"why-{work.name}", table)
        for place, data_there, run in (("in process", table, _kept), ("Spark", frame, _noop)):
            variants = {
                verb: (rows, partial(_asked, getattr(work.query, verb), data_there, run))
                for verb in ("matches", "why")
            }
            found = compare(variants, repeat=settings.repeat)
            ratio = found[1].cpu_median / found[0].cpu_median
            limits = [Target("CPU, why ÷ matches", ratio, 5)]
            title = f"why, {work.name}, {rows:,} rows, {place}"
            met &= report(title, found, limits, f"why-{work.name}-{place.replace(' ', '-')}")
    return met


def _asked(verb: Callable[[Any], Any], table: Any, run: Callable[[Any], Any]) -> Any:
    return run(verb(table))


def _kept(answer: Any) -> Any:
    return answer


def run_growth(settings: Settings) -> bool:
    """growth-w1: ten times the rows at most 11 × the cost, a hundred times the keys 1.5 ×"""
    rows = settings.rows or MILLION
    work = w1()
    sizes = {"rows": (1_000, rows), "rows × 10": (1_000, 10 * rows), "keys × 100": (100_000, rows)}
    met = True
    for place in ("in process", "Spark"):
        variants: dict[str, tuple[int, Callable[[], Any]]] = {}
        for name, (keys, count) in sizes.items():
            table = work.make(keys, count).select(work.columns)
            if place == "Spark":
                frame = _frame(settings, f"growth-{keys}", table)
                variants[name] = (count, _on_spark(work, frame))
            else:
                ordered = table.sort_by([(work.key, "ascending"), ("ts", "ascending")])
                variants[name] = (count, _in_process(work, ordered))
        found = compare(variants, repeat=settings.repeat)
        base, more_rows, more_keys = (measured.cpu_median for measured in found)
        limits = [
            Target("CPU, rows × 10", more_rows / base, 11),
            Target("CPU, keys × 100", more_keys / base, 1.5),
        ]
        title = f"growth of w1, {place}"
        met &= report(title, found, limits, f"growth-{place.replace(' ', '-')}")
    return met


def run_blowup(settings: Settings) -> bool:
    """blowup: (A+)+ B on 100,000 A's and no B, in both engines"""
    rows = settings.rows or 100_000
    met = True
    # (conditions, rows, limit on the cost of ten times the rows). In the last every start would run
    # to the end of the data; a pass backwards tells that no row will do.
    cases = {
        "known": ({"A": "x = 1", "B": "x = 2"}, rows, 11),
        "correlated": ({"A": "x = 1 AND x >= FIRST(A.x)", "B": "x = 2"}, rows, 11),
        "compared": ({"A": "x >= FIRST(A.x)", "B": "x > FIRST(A.x)"}, rows, 11),
    }
    for name, (definitions, most, limit) in cases.items():
        query = ensue.pattern("(A+)+ B").define(**definitions).order_by("t").measures(n="COUNT(*)")
        variants = {}
        for count in (most // 10, most):
            table = pa.table({"t": np.arange(count), "x": np.ones(count, np.int64)})
            variants[f"{count:,} rows"] = (count, _in_process_query(query, table))
        found = compare(variants, repeat=settings.repeat, warm_up=1)
        assert all(measured.answer.num_rows == 0 for measured in found)
        limits = [Target("CPU, rows × 10", found[1].cpu_median / found[0].cpu_median, limit)]
        said = ", ".join(f"{label} AS {text}" for label, text in definitions.items())
        met &= report(f"(A+)+ B without a match, {said}", found, limits, f"blowup-{name}")
    return met


def run_memory(settings: Settings) -> bool:
    """memory: peak of the Python workers for 1 key of 10 M rows, and 1 M keys of 10 rows"""
    rows = settings.rows or 10 * MILLION
    work = w1()
    warm = _frame(settings, "memory-warm", work.make(100, 10_000).select(work.columns))
    _noop(work.query.matches(warm))
    _noop(baseline(warm, work))
    found = []
    for keys in (1, rows // 10):
        frame = _frame(settings, f"memory-{keys}", work.make(keys, rows).select(work.columns))
        for name, job in (
            ("shuffle and sort", lambda frame=frame: baseline(frame, work)),
            ("Ensue", lambda frame=frame: work.query.matches(frame)),
        ):
            measured = Measurement(f"{keys:,} keys: {name}", rows)
            with PeakMemory() as peak, Clock() as clock:
                _noop(job())
            measured.add(clock)
            measured.notes = {
                "largest worker MB": round(peak.largest / 1e6),
                "all workers MB": round(peak.together / 1e6),
                "bytes a row": round(peak.together / rows),
            }
            found.append(measured)
    return report(f"memory of w1 on Spark, {rows:,} rows", found, (), "memory")


def _on_spark(work: Workload, frame: Any) -> Callable[[], Any]:
    return lambda: _noop(work.query.matches(frame))


def _in_process(work: Workload, table: pa.Table) -> Callable[[], Any]:
    return _in_process_query(work.query, table)


def _in_process_query(query: Any, table: pa.Table) -> Callable[[], Any]:
    return lambda: query.matches(table)


def baseline(frame: Any, work: Workload) -> Any:
    """Shuffle by key, then sort in the worker and count: no pattern."""
    key = work.key

    # A nested function travels to the workers by value: they need not import this package.
    def sort_and_count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        table = pa.Table.from_batches(held).combine_chunks()
        codes = table[key].combine_chunks()
        if pa.types.is_string(codes.type):
            codes = codes.dictionary_encode().indices
        times = table["ts"].combine_chunks().cast(pa.int64()).to_numpy()
        order = np.lexsort((times, codes.to_numpy()))
        yield pa.record_batch({"n": pa.array([len(order)], pa.int64())})

    needed = frame.select(*work.columns)
    return needed.repartition(key).mapInArrow(sort_and_count, "n long")


def _noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _frame(settings: Settings, name: str, table: pa.Table) -> Any:
    path = settings.folder / f"{name}-{table.num_rows}.parquet"
    if not path.exists():
        draft = path.with_suffix(".draft")
        pq.write_table(table, draft, row_group_size=250_000)
        draft.replace(path)
    return settings.spark.read.parquet(str(path))


def answer_of(work: Workload, matches: pa.Table) -> list[float]:
    return [matches.num_rows, *(float(pc.sum(matches[name]).as_py()) for name in work.check)]


def same(who: str, left: list[float], right: list[float]) -> bool:
    if np.allclose(left, right, rtol=1e-9):
        say(f"{who} agree: {left[0]:,.0f} matches, sums of measures equal")
        return True
    say(f"[red]{who} DIFFER: {left} and {right}[/red]")
    return False


def _start_spark() -> Any:
    spark, java = session.start("ensue benchmarks", {"spark.driver.memory": "6g"})
    say(java)
    return spark
