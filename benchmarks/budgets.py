"""What is promised under a bound in time, in one table over all that is best effort.

    ./dev bench budgets --data DIR --repeat 10 [--only TEXT] [--keep]

Every line is one bound ("50%", "20%" or "10%" of the time of the unbounded run) on one stream, over
seeds from 400 on that no constant was chosen on (`--repeat 10` for ten): the recall, the CPU that
the whole call took over that of the unbounded one (the least of two calls each), the 95th
percentile of the time per event over that of the unbounded run (events in pieces, as a matcher
takes them), bytes held, in how many runs the interval of `recall` held the truth, how wide it was,
and what baselines find at the same share of the work (on the first seed). SuSe's
bound is its size, a share of the events.

What was measured is written down after each stream and seed (with `--keep` in
`results/budgets/lines.json`), and not measured again: a run that was stopped goes on, seed after
seed, and `--only` takes the streams whose name holds a text. Delete the file to begin again. With
`--keep`, `docs/budgets.md` is written from it (`budgets_page.py`).
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import ensue
from benchmarks import acep, graph_budget, sharp_rows
from benchmarks import acep_streams as streams
from benchmarks import budgets_page as page
from benchmarks import sharp_baselines as sharp
from benchmarks import sharp_data as data
from benchmarks import suse_streams as suse
from benchmarks.budgets_page import SEEDS, SHARES, Line, Recall
from benchmarks.graph import MetaQA
from benchmarks.harness import say
from benchmarks.merged import ds2_queries, unselective

FEW = 20_000  # matches that are compared one by one
PIECE = 250  # rows that a matcher takes at a time
Wanted = Callable[[str, str], bool]  # what and stream: whether they are still to be measured
Shop = tuple[str, Callable[[int], pa.Table], Any]


def _least(call: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and the CPU time of the faster one of two calls."""
    _, first = _timed(call)
    answer, second = _timed(call)
    return answer, min(first, second)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clock = time.process_time()
        answer = call()
        return answer, time.process_time() - clock


def _pieces(holder: Any, table: pa.Table) -> list[float]:
    """CPU seconds per event of a table in pieces."""
    spent = []
    for begin in range(0, table.num_rows, PIECE):
        part = table.slice(begin, PIECE)
        _, seconds = _timed(lambda part=part: holder.insert(part))  # type: ignore[misc]
        spent.append(seconds / part.num_rows)
    return spent


# -- workloads (SHARP) ----------------------------------------------------------------------------


def sharp_lines(settings: Any, seed: int, wanted: Wanted) -> Iterator[Line]:
    size = settings.rows or 10_000
    shops: list[Shop] = [
        ("DS1", lambda seed: data.ds1(size, seed), data.q3_q4(1_500)),
        ("DS1, tails", lambda seed: data.ds1(size // 4, seed), unselective(400)),
        ("DS2", lambda seed: data.ds2(size, seed), ds2_queries(1_000)),
    ]
    if _has(settings.folder, "trips.parquet", "*tripdata*.csv"):
        bikes = _bikes(str(settings.folder), 10 * size)
        shops.append(("Citi Bike", lambda seed: _part(bikes, size, seed), data.q3_q4(800)))
    for name, made, patterns in shops:
        if not wanted("SHARP", name):
            continue
        table, load = made(seed), ensue.workload(patterns)
        _timed(lambda load=load, table=table: load.matches(table.slice(0, 200)))  # type: ignore[misc]
        found, whole = _least(lambda load=load, table=table: load.matches(table))  # type: ignore[misc]
        exact = sharp.identities(found)
        needed = _work_as_one(patterns, table) if seed == SEEDS else 0.0
        for share in SHARES:
            bound = ensue.Budget(latency=f"{share}%")
            some, seconds = _least(lambda load=load, t=table, b=bound: load.matches(t, b))  # type: ignore[misc]
            got = sharp.identities(some)
            told = _together(load.report.patterns.values())
            others = {}
            if seed == SEEDS:
                for rule, run in sharp.BASELINES.items():
                    theirs = run(patterns, table, needed * share / 100).matches & exact
                    others[rule] = len(theirs) / max(1, len(exact))
            recall = len(got & exact) / max(1, len(exact))
            yield Line("SHARP", name, share, seed, recall, seconds / whole, told=told,
                       false=len(got - exact), others=others)  # fmt: skip


_bikes, _crimes, _airlines, _taxis = map(
    cache, (data.citi_bike, data.crimes, acep._airlines, acep._taxis)
)


def _work_as_one(patterns: Mapping[str, Any], table: pa.Table) -> float:
    """Per event, with every partial match followed by itself: what baselines have a share of."""
    as_one = sharp.run(patterns, table, None)
    return as_one.report.work / table.num_rows


def _together(estimates: Iterable[Any]) -> Recall:
    """Of all patterns, from each one's own."""
    known = list(estimates)
    found = sum(e.found for e in known)
    if any(e.recall is None for e in known) or not found:
        return None, None, None
    shares = [
        sum(e.found / max(getattr(e, name), 1e-9) for e in known if e.found)
        for name in ("recall", "low", "high")
    ]
    return found / shares[0], found / shares[1], found / shares[2]


def row_lines(settings: Any, seed: int, wanted: Wanted) -> Iterator[Line]:
    size = settings.rows or 20_000
    real = _has(settings.folder, "crimes.parquet", "Crimes*.csv")
    name = "crimes" if real else "like crimes"
    if not wanted("SHARP, rows", name):
        return
    whole = _crimes(str(settings.folder), 10 * size) if real else None
    table = data.crimes_like(size, seed) if whole is None else _part(whole, size, seed)
    table = table.set_column(0, "t", pa.array(np.arange(table.num_rows)))
    rows = sharp_rows.Rows(data.q5_q6(), table)
    _, spent = _least(lambda: rows.load.matches(rows.table))
    for share in SHARES:
        bound = ensue.Budget(latency=f"{share}%")
        some, seconds = _least(lambda b=bound: rows.load.matches(rows.table, b))  # type: ignore[misc]
        got = sharp_rows.ids(some)
        recall = len(got & rows.exact) / max(1, len(rows.exact))
        yield Line("SHARP, rows", name, share, seed, recall, seconds / spent,
                   told=_together(rows.load.report.patterns.values()),
                   false=len(got - rows.exact),
                   others=rows.baselines(share) if seed == SEEDS else {})  # fmt: skip


# -- events missing (RC-ACEP) ----------------------------------------------------------------------


def missing_lines(settings: Any, seed: int, wanted: Wanted) -> Iterator[Line]:
    size, window = settings.rows or 8_000, 80

    def letters(seed: int) -> pa.Table:
        return streams.table_of(
            streams.tweets(size, seed, window=window, every=4 * window, story="Q2")
        )

    def part_of(table: pa.Table) -> Callable[[int], pa.Table]:
        return lambda seed: _part(table, size, seed)

    single = ensue.pattern(streams.QUERIES["Q2"], types="kind").select("any").order_by("t")
    single = single.within(window).allow_missing(1)
    shops: list[tuple[str, Callable[[int], pa.Table], Any, float]] = [
        ("streams", letters, single, window),
        ("correlated", lambda seed: _rising(size, seed), _rise("t", 60), 60),
    ]
    for name, table, pattern, span in (*_taxis(settings.folder), *_airlines(settings.folder)):
        shops.append((name, part_of(table), pattern(), span))
    bars = _found(settings.folder, "nasdaq_minute_2018/bars.parquet")
    if bars is not None:
        shops.append(("NASDAQ", part_of(_moves(bars)), _rise("t", 30), 30))
    if _has(settings.folder, "crimes.parquet", "Crimes*.csv"):
        crimes = _crimes(str(settings.folder), 10 * size)
        text = "A ->> B ->> C ->> D"
        pattern = ensue.pattern(text, types="type").partition_by("ID").order_by("t").within(3_000)
        shops.append(("crimes", part_of(crimes), pattern.allow_missing(1), 3_000))
    for name, made, pattern, span in shops:
        if wanted("RC-ACEP", name):
            query = streams.query if name == "streams" else None
            yield from _missing(seed, name, made(seed), pattern, span, query)


@cache
def _moves(bars: Path) -> pa.Table:
    """Minutes of all symbols, one after the other: up by much, down by much, up, or neither."""
    table = pq.read_table(bars).sort_by([("symbol", "ascending"), ("ts", "ascending")])
    move = pc.subtract(pc.divide(table["close"], table["open"]), 1.0).to_numpy()
    kinds = np.where(move > 0.001, "A", np.where(move < -0.001, "B", np.where(move > 0, "C", "X")))
    return pa.table({"t": np.arange(table.num_rows), "kind": kinds, "x": table["close"]})


def _rising(size: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    kinds = chance.choice(list("ABCXXXX"), size)
    return pa.table({"t": np.arange(size), "kind": kinds, "x": chance.integers(0, 100, size)})


def _rise(time: str, window: int) -> Any:
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by(time).within(window)
    pattern = pattern.define(B="x > A.x", C="x > B.x")
    return pattern.allow_missing(1, required=["A"], learn=500, history=32)


def _missing(
    seed: int,
    name: str,
    table: pa.Table,
    pattern: Any,
    window: float,
    query: Callable[..., Any] | None,
) -> Iterator[Line]:
    _timed(lambda: pattern.matches(table.slice(0, 500)))
    exact, whole = _least(lambda: pattern.matches(table))
    few = exact.num_rows <= FEW
    truth = set(_ids(exact)) if few else set()
    part = pattern.query.partition_by
    known = [(0 if not part else m[part[0]], float(m["last"])) for m in _ends(exact, part)]
    bundles = streams.bundles(known, window)
    keys = {part: number for number, part in enumerate(dict.fromkeys(b[0] for b in bundles))}
    bundles = [(keys[b[0]], b[1], b[2]) for b in bundles]
    for share in SHARES:
        bound = ensue.Budget(latency=f"{share}%")
        some, seconds = _least(lambda b=bound: pattern.matches(table, budget=b))  # type: ignore[misc]
        told = json.loads(some.schema.metadata[b"ensue"])
        got = set(_ids(some)) if few else set()
        hits = len(truth & got) if few else some.num_rows  # of many, only the number is asked
        points = [
            (keys.get(0 if not part else m[part[0]], -1), float(m["last"]))
            for m in _ends(some, part)
        ]
        p95 = held = None
        if seed == SEEDS:
            matcher = pattern.matcher(schema=table.schema, budget=bound)
            ordered = table.sort_by("t")
            begun = table.num_rows // PIECE // 4
            spent = _pieces(matcher, ordered)[begun:]
            free = _pieces(pattern.matcher(schema=table.schema), ordered)[begun:]
            p95 = float(np.quantile(spent, 0.95) / np.quantile(free, 0.95))
            held = matcher.metrics.bytes
        others = {}
        if query is not None and seed == SEEDS:
            others = _acep_baselines(query, table, share, window, bundles)
        recall = hits / max(1, exact.num_rows)
        known_of = told["recall"], told["low"], told["high"]
        hit, false = streams.fraction(bundles, points), len(got - truth)
        yield Line("RC-ACEP", name, share, seed, recall, seconds / whole, p95, held, known_of, hit,
                   false, others)  # fmt: skip


def _acep_baselines(
    query: Callable[..., Any], table: pa.Table, share: int, window: float, bundles: Any
) -> dict[str, float]:
    """Bundles found by the paper's algorithm and by time-outs at a share of the extensions."""
    full = streams.run(query("Q2", window, 1), table, None, streams.Everything)
    budget = max(1, int(share / 100 * full.work / full.events))
    found = {}
    for label, kind in (("RC-ACEP of the paper", streams.BudgetEngine),
                        ("time-out", streams.TimeOut),
                        ("late states first", streams.LateStatesFirst)):  # fmt: skip
        run = streams.run(query("Q2", window, 1, history=8), table, budget, kind)
        found[f"{label} (bundles)"] = streams.fraction(bundles, run.points)
    return found


def _ids(found: pa.Table) -> list[tuple[Any, ...]]:
    columns = [name for name in found.column_names if name not in ("match_number", "events")]
    rows = found.select([*columns, "events"]).to_pylist()
    return [(*(str(row[c]) for c in columns), str(row["events"])) for row in rows]


def _ends(found: pa.Table, part: tuple[str, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.select([*part, "last"]).to_pylist()
    return rows


# -- summaries (SuSe) ------------------------------------------------------------------------------


def summary_lines(settings: Any, seed: int, wanted: Wanted) -> Iterator[Line]:
    size, window = settings.rows or 3_000, 400

    def drawn(seed: int) -> pa.Table:
        return suse.table(suse.letters(size, suse.LETTERS, "uniform", seed), suse.LETTERS)

    shops: list[Shop] = [("streams", drawn, suse.QUERY)]
    bars = _found(settings.folder, "nasdaq_minute_2018/bars.parquet")
    if bars is not None:
        shops.append(("NASDAQ", lambda seed: _part(_changes(bars), size, seed), "a b* c"))
    for name, made, text in shops:
        if not wanted("SuSe", name):
            continue
        table, query = made(seed), suse.query(text, window)
        _timed(lambda q=query, t=table: q.summarize(t.slice(0, 300), size=50).count())  # type: ignore[misc]
        full, whole_time = _timed(lambda q=query, t=table: q.summarize(t, size=size))  # type: ignore[misc]
        there = full.count()
        for share in SHARES:
            places = max(4, size * share // 100)
            some, seconds = _timed(lambda q=query, t=table, n=places: q.summarize(t, size=n))  # type: ignore[misc]
            metrics = some.metrics
            others, p95 = {}, None
            if seed == SEEDS:
                for rule in ("present", "fifo", "random"):
                    theirs = query.summarize(table, size=places, select=rule)
                    others[rule] = float(theirs.count() / max(there, 1))
                fresh = query.summarize(size=places)
                p95 = float(np.quantile(_pieces(fresh, table), 0.95)) * size / whole_time
            yield Line("SuSe", name, share, seed, float(some.count() / max(there, 1)),
                       seconds / whole_time, p95, metrics.bytes,
                       (metrics.recall, metrics.low, metrics.high), others=others)  # fmt: skip


@cache
def _changes(bars: Path) -> pa.Table:
    """Minutes of all symbols as they came."""
    table = pq.read_table(bars).sort_by([("ts", "ascending"), ("symbol", "ascending")])
    move = pc.subtract(pc.divide(table["close"], table["open"]), 1.0).to_numpy()
    kinds = np.where(move > 0.001, "a", np.where(move < -0.001, "b", np.where(move > 0, "c", "x")))
    return pa.table({"kind": kinds, "t": np.arange(len(kinds))})


# -- paths (SHARP on graphs) -----------------------------------------------------------------------


def graph_lines(settings: Any, seed: int, wanted: Wanted) -> Iterator[Line]:
    """The questions of the test set; there is one of it, so one seed stands for all."""
    if seed != SEEDS or not wanted("SHARP, graph", "MetaQA 2 hops"):
        return
    found = MetaQA.read(settings.folder, (2,))
    if found is None:
        say("MetaQA is read from metaqa/ of --data")
        return
    graph, asked = found.graph, graph_budget.candidates(found, True)
    words = {k: v for k, v in graph_budget.LABEL_TEXTS.items() if k in graph.labels}
    graph.retrieve(asked[:10], label_texts=words)
    _, whole = _timed(lambda: graph.retrieve(asked, label_texts=words))
    for share in SHARES:
        bound = ensue.Budget(latency=f"{share}%")
        some, seconds = _timed(
            lambda b=bound: graph.retrieve(asked, label_texts=words, budget=b)  # type: ignore[misc]
        )
        others = {}
        for rule in graph_budget.STRATEGIES[1:]:
            theirs = graph.retrieve(asked, label_texts=words, budget=bound, strategy=rule)
            others[rule] = graph_budget.scores(theirs, found)["recall"]
        told = graph_budget.scores(some, found)
        yield Line("SHARP, graph", "MetaQA 2 hops", share, seed, told["recall"], seconds / whole,
                   others=others)  # fmt: skip


# -- the table -------------------------------------------------------------------------------------

PARTS = (sharp_lines, row_lines, missing_lines, summary_lines, graph_lines)


def run_budgets(settings: Any) -> bool:
    """budgets          every bound in time: recall, CPU, p95, memory, intervals, baselines."""
    kept = page.Kept(settings.keep)
    for seed in range(SEEDS, SEEDS + settings.repeat):

        def wanted(what: str, stream: str, seed: int = seed) -> bool:
            return settings.only in f"{what}, {stream}" and not kept.has(what, stream, seed)

        for part in PARTS:
            for line in part(settings, seed, wanted):
                kept.add(line)
                say(f"{line.what}, {line.stream}, {line.share} %: recall {line.recall:.3f}, CPU "
                    f"{line.cpu:.2f}, told {_interval(line.told)}")  # fmt: skip
    page.show(kept.lines)
    return page.judged(kept.lines)


def _interval(told: Recall) -> str:
    return (
        "nothing" if told[0] is None else " to ".join(f"{x:.3f}" for x in told[1:] if x is not None)
    )


def _part(table: pa.Table, size: int, seed: int) -> pa.Table:
    """A stretch of a real stream by seed."""
    room = max(1, table.num_rows - size)
    return table.slice(int(np.random.default_rng(seed).integers(0, room)), size).combine_chunks()


def _found(folder: Path, name: str) -> Path | None:
    path = folder / name
    return path if path.exists() else None


def _has(folder: Path, *names: str) -> bool:
    return any(next(folder.rglob(name), None) is not None for name in names)


COMMANDS = {"budgets": run_budgets}
