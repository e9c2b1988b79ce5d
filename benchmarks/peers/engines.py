"""The comparisons: what both sides run, at which settings."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ensue
from benchmarks import flink, flink_cep, graph, quantify, rows, sequences
from benchmarks.harness import OUT, compare, say
from benchmarks.peers import Line, Record, apart, installed, of_measurement, timed, version
from benchmarks.rows import Settings
from ensue.java import find_java

LINES = list[Line]


# -- Flink -----------------------------------------------------------------------------------------


def flink_sql(settings: Settings) -> Record:
    """W1 and W2: the rows read from a file, matched, counted; Ensue in process."""
    count = settings.rows or 200_000
    lines: LINES = []
    for work in (rows.w1(), rows.w2()):
        table = work.make(work.keys, count)
        task = f"{work.name.upper()}, {count:,} rows, {work.keys:,} keys"
        path = settings.folder / f"{work.name}.parquet"
        pq.write_table(table, path)
        ours = timed(task, lambda p=path, w=work: _summed(w, w.peer_query.matches(p)))
        read, match = flink.run(work.name, table, settings.folder, settings.repeat)
        read.name, match.name = "Flink SQL, reading only", "Flink SQL"
        lines += [ours, of_measurement(task, match, _rounded(match.answer))]
        lines.append(of_measurement(task, read))
        lines[-1].answer = None
    return Record(
        lines,
        {"Flink": flink.PACKAGE.partition("==")[2], "Java": find_java().describe().split()[1]},
    )


def _summed(work: rows.Workload, found: pa.Table) -> list[float]:
    return _rounded(rows.answer_of(work, found))


def _rounded(answer: list[float]) -> list[float]:
    return [round(float(value), 2) for value in answer]


def flink_patterns(settings: Settings) -> Record:
    """A, then B, then C, anything between: all matches."""
    count, window = settings.rows or 20_000, 400
    table = sequences.events(count)
    task = f"A ->> B ->> C, {count:,} events, window {window:,}"
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("id").within(window)
    counted = timed(task, lambda: int(pattern.count(table)))
    counted.engine = "Ensue, counted"
    listed = timed(task, lambda: len(pattern.matches(table)))
    listed.engine = "Ensue, listed"
    lines = [counted, listed]
    if flink_cep.available():
        letters = "".join(table.column("kind").to_pylist())
        lines.append(of_measurement(task, flink_cep.run(letters, window)))
    dicts = table.to_pylist()
    by_run = compare(
        {"a run per partial match (Python)": (
            count, lambda: len(sequences.run_by_run(dicts, "ABC", window)))},
        repeat=1, warm_up=0,
    )[0]  # fmt: skip
    lines.append(of_measurement(task, by_run))
    return Record(lines, {"FlinkCEP": flink.PACKAGE.partition("==")[2]})


# -- DuckDB ----------------------------------------------------------------------------------------

# Seconds of wall time that DuckDB's developers published with the clause (pull request 25255,
# 3 September 2026): DuckDB's main branch on a 16-core MacBook, "DBMS X" and Trino 476 beside it.
PUBLISHED = {
    "scan": (0.146, 0.24, 1.48),
    "partitions": (0.057, 0.30, 1.21),
    "quantifier": (0.072, 0.10, 0.29),
    "navigation": (0.055, 0.02, 0.44),
}


def _published_work() -> dict[str, tuple[pa.Table, Any]]:
    """The four published tasks, as patterns; the sizes are the published ones."""
    i = np.arange(2_000_000)
    first = ensue.pattern("A B").define(A="v = 0", B="v = 1").measures(start_i="FIRST(i)")
    readings = pa.table(
        {"p": (i // 100).astype(np.int32), "i": i.astype(np.int32), "v": (i % 5).astype(np.int32)}
    )
    j = np.arange(500_000)
    loops = ensue.pattern("A+ B+ A+").define(A="v < 12", B="v >= 12")
    n = np.arange(200_000)
    scattered = pa.table(
        {"i": n.astype(np.int32), "v": (n * 2_654_435_761 % 1000).astype(np.int32)}
    )
    rising = ensue.pattern("A B+").define(A="TRUE", B="v > LAST(A.v)").measures(start_i="FIRST(i)")
    return {
        "scan": (readings.select(["i", "v"]), first.order_by("i")),
        "partitions": (readings, first.partition_by("p").order_by("i")),
        "quantifier": (
            pa.table({"i": j.astype(np.int32), "v": (j % 17).astype(np.int32)}),
            loops.order_by("i").measures(start_i="i").rows_per_match("all rows"),
        ),
        "navigation": (scattered, rising.order_by("i")),
    }  # fmt: skip


def duckdb(settings: Settings) -> Record:
    """The micro-benchmarks published with DuckDB's MATCH_RECOGNIZE, ours beside the published."""
    lines: LINES = []
    for name, (table, pattern) in _published_work().items():
        task = f"{name}, {table.num_rows:,} rows"
        ours = timed(task, lambda t=table, p=pattern: p.matches(t).num_rows, settings.repeat)
        lines.append(ours)
        for engine, wall in zip(
            ("DuckDB (main)", "DBMS X", "Trino 476"), PUBLISHED[name], strict=True
        ):
            lines.append(Line(task, engine, None, wall, None, "published, another machine"))
    return Record(lines, {"DuckDB": "main of September 2026, not in release 2.0.0"})


# -- ClickHouse ------------------------------------------------------------------------------------

_CHDB = """
import chdb
path = sys.argv[1]
conditions = ", ".join(f"kind = '{kind}'" for kind in ("view", "cart", "pay"))
asked = {
    "windowFunnel": f"windowFunnel(100000)(ts, {conditions}) AS n",
    "sequenceMatch": f"sequenceMatch('(?1).*(?2).*(?3)')(ts, {conditions}) AS n",
    "sequenceCount": f"sequenceCount('(?1).*(?2).*(?3)')(ts, {conditions}) AS n",
}
total = {"windowFunnel": "countIf(n = 3)", "sequenceMatch": "countIf(n = 1)", "sequenceCount": "sum(n)"}
for name, text in asked.items():
    query = (f"SELECT {total[name]} FROM (SELECT user, {text} FROM file('{path}', Parquet) GROUP BY user) "
             "SETTINGS max_threads = 2, max_block_size = 65536")
    timed(name, "chDB", lambda: int(chdb.query(query, "CSV").data().strip()))
"""


def chdb(settings: Settings) -> Record:
    """ClickHouse's funnel functions, in process, two threads; both sides read one Parquet file."""
    count = settings.rows or 2_000_000
    keys = max(count // 100, 1)
    random = np.random.default_rng(4)
    kinds = pa.array(["view", "cart", "pay", "other"]).take(
        pa.array(random.choice(4, count, p=[0.3, 0.1, 0.05, 0.55]))
    )
    path = settings.folder / f"funnels-{count}.parquet"
    pq.write_table(
        pa.table(
            {
                "user": random.integers(0, keys, count),
                "ts": np.arange(count, dtype=np.uint32),
                "kind": kinds,
            }
        ),
        path,
    )
    steps = ensue.pattern("view ->> cart ->> pay", types="kind").partition_by("user").order_by("ts")
    alike = ensue.pattern("view -> cart -> pay", types="kind").partition_by("user").order_by("ts")
    ours = {
        "windowFunnel": lambda: _keys(steps.within(100_000), path),
        "sequenceMatch": lambda: _keys(steps, path),
        "sequenceCount": lambda: int(alike.after_match("past last row").count(path)),
    }
    lines = [timed(name, call, settings.repeat) for name, call in ours.items()]
    folder = installed("chdb", "chdb==4.4.0")
    versions = {}
    if folder is not None:
        lines += apart(folder, _CHDB, path)
        versions = {"chDB": version(folder, "chdb"), "ClickHouse": version(folder, "chdb-core")}
    for line in lines:
        line.task += f", {count:,} rows, {keys:,} keys"
    return Record(lines, versions)


def _keys(pattern: Any, path: Any) -> int:
    """Users with at least one match."""
    found = pattern.aggregate(path, by="user", n="count(*)")
    return sum(n > 0 for n in found["n"].to_pylist())


# -- graphs ----------------------------------------------------------------------------------------

_GRAPHS = """
import pyarrow.parquet as pq
edges = pq.read_table(sys.argv[1])
starts = pq.read_table(sys.argv[2])["start"].to_pylist()
pairs = list(zip(edges["subject"].to_pylist(), edges["object"].to_pylist()))

def two_hops(out, nodes):
    return sum(len(set().union(*map(out, out(node)))) if out(node) else 0 for node in nodes)

import networkx
def build():
    global graph
    graph = networkx.DiGraph(pairs)
    return graph.number_of_nodes()
timed("build", "networkx", build, 1, 0)
out = {node: set(graph.successors(node)) for node in graph}.__getitem__
timed("ends of two hops", "networkx", lambda: two_hops(lambda node: set(graph.successors(node)), starts), 1, 0)
timed("closure", "networkx", lambda: sum(len(networkx.descendants(graph, node)) for node in starts[:20]), 1, 0)

import igraph
def build_igraph():
    global small, names
    small = igraph.Graph.TupleList(pairs, directed=True)
    names = {name: place for place, name in enumerate(small.vs["name"])}
    return small.vcount()
timed("build", "igraph", build_igraph, 1, 0)
def hops():
    own = lambda place: set(small.neighbors(place, mode="out"))
    return two_hops(own, [names[node] for node in starts])
timed("ends of two hops", "igraph", hops, 1, 0)
timed("closure", "igraph", lambda: sum(len(small.subcomponent(names[node], mode="out")) - 1 for node in starts[:20]), 1, 0)
"""


def graphs(settings: Settings) -> Record:
    """A power-law graph: build it, ends of two hops from 1,000 nodes, all ends from 20 of them."""
    count = settings.rows or 200_000
    made = graph.power_law(count, count // 10).select(["subject", "relation", "object"])
    made = made.set_column(1, "relation", pa.array(["e"] * count))
    made = made.group_by(["subject", "relation", "object"]).aggregate([])
    starts = np.random.default_rng(2).choice(np.unique(made["subject"].to_numpy()), 1_000).tolist()
    paths = (settings.folder / "edges.parquet", settings.folder / "starts.parquet")
    pq.write_table(made, paths[0])
    pq.write_table(pa.table({"start": starts}), paths[1])
    ours = ensue.graph(made)
    lines = [
        timed("build", lambda: ensue.graph(made).node_count, settings.repeat),
        timed("ends of two hops", lambda: sum(_ends(ours, "e/e", starts)), settings.repeat),
        timed("closure", lambda: sum(_closed(ours, starts[:20])), settings.repeat),
    ]
    folder = installed("graphs", "networkx==3.6.1", "igraph==1.0.0", "pyarrow")
    versions = {}
    if folder is not None:
        lines += apart(folder, _GRAPHS, *paths)
        versions = {name: version(folder, name) for name in ("networkx", "igraph")}
    for line in lines:
        line.task += f", {made.num_rows:,} edges"
    return Record(lines, versions)


def _ends(ours: Any, path: str, starts: list[int]) -> list[int]:
    """Ends per start, a start that is drawn twice counted twice."""
    distinct = {
        row["start"]: int(row["count"])
        for row in ours.counts(path, start=list(dict.fromkeys(starts)), of="ends").to_pylist()
    }
    return [distinct.get(start, 0) for start in starts]


def _closed(ours: Any, starts: list[int]) -> list[int]:
    """Nodes that can be reached, the start itself not counted."""
    found = ours.ends("e+", start=list(dict.fromkeys(starts)))
    pairs = zip(found["start"].to_pylist(), found["end"].to_pylist(), strict=True)
    reached: dict[int, int] = {}
    for start, end in pairs:
        reached[start] = reached.get(start, 0) + (start != end)
    return [reached.get(start, 0) for start in starts]


# -- Spark SQL -------------------------------------------------------------------------------------


def spark_sql(settings: Settings) -> Record:
    """Nested aggregation: what Spark SQL needs several passes for."""
    count = settings.rows or 200_000
    frame = rows._frame(settings, "peers-ticks", quantify.ticks(count, count // 100))
    frame.createOrReplaceTempView("ticks")
    lines: LINES = []
    for name in ("largest block mean", "means of three, max per 33, mean of those", "decayed sum"):
        ours, text, passes = quantify.TEN[name]
        there = settings.spark.sql(text)
        here = ours.eval(frame, partition_by="k", order_by="ts")
        found = compare(
            {"Ensue on Spark": (count, lambda h=here: rows._noop(h)),
             "Spark SQL": (count, lambda t=there: rows._noop(t))},
            repeat=settings.repeat,
        )  # fmt: skip
        same = quantify._same(there, here)
        for measured in found:
            line = of_measurement(f"{name}, {count:,} rows, {count // 100:,} keys", measured)
            line.answer = "agree" if same else measured.name
            line.note = passes if measured.name == "Spark SQL" else "one pass"
            lines.append(line)
    return Record(lines, {"Spark": settings.spark.version})


def rematch(settings: Settings) -> Record:
    """All ways to read ABCD in AⁱBⁱCⁱDⁱ: REmatch lists them, a summary counts them."""
    from benchmarks import suse
    from benchmarks import suse_streams as s

    lines: LINES = []
    for length in (32, 64, 128):
        word = "".join(letter * (length // 4) for letter in "ABCD")
        task = f"ABCD, {length} letters"
        events = s.table(np.array(["ABCD".index(c) for c in word]), "ABCD")
        asked = s.query("A B C D", length)
        lines.append(timed(task, lambda e=events, n=length, q=asked: int(_counted(q, e, n))))
        seconds = suse._rematch(word)
        if seconds is not None:
            lines.append(
                Line(
                    task, "REmatch (pyrematch)", seconds, seconds, (length // 4) ** 4, "one thread"
                )
            )
    return Record(lines, {"pyrematch": version(OUT.parent / "data" / "pyrematch", "pyrematch")})


def _counted(asked: Any, events: pa.Table, size: int) -> int:
    summary = asked.summarize(size=size)
    summary.insert(events)
    return int(summary.count())


PEERS: dict[str, Callable[[Settings], Record]] = {
    "flink-sql": flink_sql,
    "flink-cep": flink_patterns,
    "duckdb": duckdb,
    "chdb": chdb,
    "graphs": graphs,
    "spark-sql": spark_sql,
    "rematch": rematch,
}


def run(name: str, settings: Settings) -> Record | None:
    try:
        return PEERS[name](replace(settings, repeat=settings.repeat))
    except (SystemExit, subprocess.SubprocessError) as problem:
        say(f"{name} was not run: {problem}")
        return None
