"""What is promised under a bound in time, in one table over all that is best effort.

Every line is one bound ("50%", "20%" or "10%" of the time of the unbounded run) on one stream, over
seeds from 400 on that no constant was chosen on (`--repeat 10` for ten): the recall, the CPU that
the whole call took over that of the unbounded one (the least of two calls each), the 95th
percentile of the time per event over that of the unbounded run (events in pieces, as a matcher
takes them), bytes held, in how many runs the interval of `recall` held the truth, how wide it was,
and what baselines find at the same share of the work (on the first seed). SuSe's
bound is its size, a share of the events.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.table import Table

import ensue
from benchmarks import acep, graph_budget, sharp_rows
from benchmarks import acep_streams as streams
from benchmarks import sharp_baselines as sharp
from benchmarks import sharp_data as data
from benchmarks import suse_streams as suse
from benchmarks.graph import MetaQA
from benchmarks.harness import CONSOLE, Target, say, write_rows
from benchmarks.merged import ds2_queries, unselective

SHARES = (50, 20, 10)
SEEDS = 400
FEW = 20_000  # matches that are compared one by one
PIECE = 250  # rows that a matcher takes at a time
Recall = tuple[float | None, float | None, float | None]


@dataclass
class Line:
    """One run under one bound."""

    what: str
    stream: str
    share: int
    recall: float
    cpu: float  # of the unbounded call's
    p95: float | None = None
    held: int | None = None  # bytes
    told: Recall = (None, None, None)
    bundles: float | None = None  # the share of match bundles, where matches have any
    false: int = 0
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def covered(self) -> bool | None:
        _, low, high = self.told
        if low is None or high is None:
            return None
        return low - 1e-6 <= self.recall <= high + 1e-6

    @property
    def width(self) -> float | None:
        _, low, high = self.told
        return None if low is None or high is None else high - low


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


def sharp_lines(settings: Any) -> Iterator[Line]:
    size = settings.rows or 10_000
    shops: list[tuple[str, Callable[[int], pa.Table], Mapping[str, Any]]] = [
        ("DS1", lambda seed: data.ds1(size, seed), data.q3_q4(1_500)),
        ("DS1, tails", lambda seed: data.ds1(size // 4, seed), unselective(400)),
        ("DS2", lambda seed: data.ds2(size, seed), ds2_queries(1_000)),
    ]
    if _has(settings.folder, "trips.parquet", "*tripdata*.csv"):
        bikes = data.citi_bike(str(settings.folder), 10 * size)
        shops.append(("Citi Bike", lambda seed: _part(bikes, size, seed), data.q3_q4(800)))
    for name, made, patterns in shops:
        for seed in range(SEEDS, SEEDS + settings.repeat):
            table = made(seed)
            load = ensue.workload(patterns)
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
                yield Line("SHARP", name, share, recall, seconds / whole, told=told,
                           false=len(got - exact), others=others)  # fmt: skip


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


def row_lines(settings: Any) -> Iterator[Line]:
    size = settings.rows or 20_000
    real = _has(settings.folder, "crimes.parquet", "Crimes*.csv")
    whole = data.crimes(str(settings.folder), 10 * size) if real else None
    for seed in range(SEEDS, SEEDS + settings.repeat):
        table = data.crimes_like(size, seed) if whole is None else _part(whole, size, seed)
        table = table.set_column(0, "t", pa.array(np.arange(table.num_rows)))
        rows = sharp_rows.Rows(data.q5_q6(), table)
        _, spent = _least(lambda rows=rows: rows.load.matches(rows.table))  # type: ignore[misc]
        for share in SHARES:
            bound = ensue.Budget(latency=f"{share}%")
            some, seconds = _least(lambda rows=rows, b=bound: rows.load.matches(rows.table, b))  # type: ignore[misc]
            got = sharp_rows.ids(some)
            yield Line("SHARP, rows", "crimes" if real else "like crimes", share,
                       len(got & rows.exact) / max(1, len(rows.exact)), seconds / spent,
                       told=_together(rows.load.report.patterns.values()),
                       false=len(got - rows.exact),
                       others=rows.baselines(share) if seed == SEEDS else {})  # fmt: skip


# -- events missing (RC-ACEP) ----------------------------------------------------------------------


def missing_lines(settings: Any) -> Iterator[Line]:
    size = settings.rows or 8_000
    window = 80

    def letters(seed: int) -> pa.Table:
        return streams.table_of(
            streams.tweets(size, seed, window=window, every=4 * window, story="Q2")
        )

    single = ensue.pattern(streams.QUERIES["Q2"], types="kind").select("any").order_by("t")
    single = single.within(window).allow_missing(1)
    yield from _missing(settings, "streams", letters, single, window, streams.query)
    yield from _missing(
        settings, "correlated", lambda seed: _rising(size, seed), _rise("t", 60), 60
    )
    for name, table, pattern, span in (
        *acep._taxis(settings.folder),
        *acep._airlines(settings.folder),
    ):
        made = lambda seed, table=table: _part(table, size, seed)  # noqa: E731
        yield from _missing(settings, name, made, pattern(), span)
    bars = _found(settings.folder, "nasdaq_minute_2018/bars.parquet")
    if bars is not None:
        table = pq.read_table(bars).sort_by([("symbol", "ascending"), ("ts", "ascending")])
        move = pc.subtract(pc.divide(table["close"], table["open"]), 1.0).to_numpy()
        kinds = np.where(
            move > 0.001, "A", np.where(move < -0.001, "B", np.where(move > 0, "C", "X"))
        )
        table = pa.table({"t": np.arange(table.num_rows), "kind": kinds, "x": table["close"]})
        made = lambda seed, table=table: _part(table, size, seed)  # noqa: E731
        yield from _missing(settings, "NASDAQ", made, _rise("t", 30), 30)
    if _has(settings.folder, "crimes.parquet", "Crimes*.csv"):
        crimes = data.crimes(str(settings.folder), 10 * size)
        text = "A ->> B ->> C ->> D"
        pattern = ensue.pattern(text, types="type").partition_by("ID").order_by("t").within(3_000)
        made = lambda seed, table=crimes: _part(table, size, seed)  # noqa: E731
        yield from _missing(settings, "crimes", made, pattern.allow_missing(1), 3_000)


def _rising(size: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    kinds = chance.choice(list("ABCXXXX"), size)
    return pa.table({"t": np.arange(size), "kind": kinds, "x": chance.integers(0, 100, size)})


def _rise(time: str, window: int) -> Any:
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by(time).within(window)
    pattern = pattern.define(B="x > A.x", C="x > B.x")
    return pattern.allow_missing(1, required=["A"], learn=500, history=32)


def _missing(
    settings: Any,
    name: str,
    made: Callable[[int], pa.Table],
    pattern: Any,
    window: float,
    query: Callable[..., Any] | None = None,
) -> Iterator[Line]:
    for seed in range(SEEDS, SEEDS + settings.repeat):
        table = made(seed)
        _timed(lambda table=table: pattern.matches(table.slice(0, 500)))  # type: ignore[misc]
        exact, whole = _least(lambda table=table: pattern.matches(table))  # type: ignore[misc]
        few = exact.num_rows <= FEW
        truth = set(_ids(exact)) if few else set()
        part = pattern.query.partition_by
        known = [(0 if not part else m[part[0]], float(m["last"])) for m in _ends(exact, part)]
        bundles = streams.bundles(known, window)
        keys = {part: number for number, part in enumerate(dict.fromkeys(b[0] for b in bundles))}
        bundles = [(keys[b[0]], b[1], b[2]) for b in bundles]
        for share in SHARES:
            bound = ensue.Budget(latency=f"{share}%")
            some, seconds = _least(lambda table=table, b=bound: pattern.matches(table, budget=b))  # type: ignore[misc]
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
            yield Line("RC-ACEP", name, share, recall, seconds / whole, p95, held, known_of, hit,
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


def summary_lines(settings: Any) -> Iterator[Line]:
    size, window = settings.rows or 3_000, 400

    def drawn(seed: int) -> pa.Table:
        return suse.table(suse.letters(size, suse.LETTERS, "uniform", seed), suse.LETTERS)

    shops = [("streams", drawn, suse.QUERY)]
    bars = _found(settings.folder, "nasdaq_minute_2018/bars.parquet")
    if bars is not None:
        table = pq.read_table(bars).sort_by([("ts", "ascending"), ("symbol", "ascending")])
        move = pc.subtract(pc.divide(table["close"], table["open"]), 1.0).to_numpy()
        kinds = np.where(
            move > 0.001, "a", np.where(move < -0.001, "b", np.where(move > 0, "c", "x"))
        )
        whole = pa.table({"kind": kinds, "t": np.arange(len(kinds))})
        shops.append(("NASDAQ", lambda seed: _part(whole, size, seed), "a b* c"))
    for name, made, text in shops:
        for seed in range(SEEDS, SEEDS + settings.repeat):
            table = made(seed)
            query = suse.query(text, window)
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
                    p95 = float(np.quantile(_pieces(fresh, table), 0.95)) * size / seconds
                yield Line("SuSe", name, share, float(some.count() / max(there, 1)),
                           seconds / whole_time, p95, metrics.bytes,
                           (metrics.recall, metrics.low, metrics.high), others=others)  # fmt: skip


# -- paths (SHARP on graphs) -----------------------------------------------------------------------


def graph_lines(settings: Any) -> Iterator[Line]:
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
        yield Line("SHARP, graph", "MetaQA 2 hops", share, told["recall"], seconds / whole,
                   others=others)  # fmt: skip


# -- the table -------------------------------------------------------------------------------------

PARTS = (sharp_lines, row_lines, missing_lines, summary_lines, graph_lines)


def run_budgets(settings: Any) -> bool:
    """budgets          every bound in time: recall, CPU, p95, memory, intervals, baselines."""
    lines: list[Line] = []
    for part in PARTS:
        for line in part(settings):
            lines.append(line)
            say(f"{line.what}, {line.stream}, {line.share} %: recall {line.recall:.3f}, CPU "
                f"{line.cpu:.2f}, told {_interval(line.told)}")  # fmt: skip
    write_rows(
        "budgets", [vars(line) | {"others": json.dumps(dict(line.others))} for line in lines]
    )
    _shown(lines)
    return _judged(lines)


def _shown(lines: list[Line]) -> None:
    table = Table(title="Bounds in time", title_justify="left", title_style="bold")
    table.add_column("what")
    for column in ("recall", "bundles", "CPU", "p95", "KB", "covered", "width", "false"):
        table.add_column(column, justify="right")
    for key in dict.fromkeys((line.what, line.stream, line.share) for line in lines):
        mine = [line for line in lines if (line.what, line.stream, line.share) == key]
        asked = [line.covered for line in mine if line.covered is not None]
        widths = [line.width for line in mine if line.width is not None]
        bundles = [line.bundles for line in mine if line.bundles is not None]
        others = {name: value for line in mine for name, value in line.others.items()}
        p95 = next((line.p95 for line in mine if line.p95 is not None), None)
        held = next((line.held for line in mine if line.held is not None), None)
        table.add_row(
            f"{key[0]}, {key[1]}, {key[2]} %",
            _share(np.mean([line.recall for line in mine])),
            _share(np.mean(bundles)) if bundles else "",
            f"{np.mean([line.cpu for line in mine]):.2f}",
            "" if p95 is None else f"{p95:.2f}",
            "" if held is None else f"{held / 1024:,.0f}",
            f"{sum(asked)}/{len(mine)}",
            f"{np.mean(widths):.2f}" if widths else "none",
            str(sum(line.false for line in mine)),
        )
        for name, value in others.items():
            table.add_row(f"  {name}", _share(value))
    CONSOLE.print(table)


def _judged(lines: list[Line]) -> bool:
    told = [line for line in lines if line.covered is not None]
    targets = [Target("false matches", float(sum(line.false for line in lines)), 0.0)]
    if told:
        inside = sum(bool(line.covered) for line in told) / len(told)
        targets.append(Target("share of intervals that hold the truth", inside, 0.95, False))
    for share in SHARES:
        mine = [line for line in lines if line.share == share and line.what != "SuSe"]
        if mine:
            most = max(line.cpu for line in mine)
            targets.append(
                Target(f"CPU of a call under {share} %, at most", most, share / 100 + 0.05)
            )
            over = sum(line.cpu > 1.05 for line in mine) / len(mine)
            targets.append(Target(f"share of calls under {share} % above the unbounded", over, 0.0))
    bundles = [line.bundles for line in lines if line.share == 10 and line.bundles is not None]
    if bundles:
        targets.append(
            Target("RC-ACEP: bundles at 10 %, on average", float(np.mean(bundles)), 0.9, False)
        )
    for target in targets:
        CONSOLE.print(f"  {target}", style="green" if target.met else "yellow", highlight=False)
    return all(target.met for target in targets)


def _share(value: Any) -> str:
    return f"{100 * float(value):.1f} %" if value >= 1e-3 or not value else f"{float(value):.1e}"


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
