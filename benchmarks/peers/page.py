"""Writes `docs/peers.md` from the comparisons that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.peers import KEPT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "peers.md"
_HEADER = """\
# Other engines

How Ensue compares with engines that answer the same question. `./dev bench peers` runs both sides on one
machine, in one command, over the same rows, checks that the answers agree, keeps the figures in
`benchmarks/results/peers/`, and writes this page; `./dev bench peers NAME --rows N` runs one at another size.
Peers are installed into folders of their own on first use.

CPU seconds count a process and all below it (for Spark and Flink the JVM and its workers); wall seconds depend
on what else the machine did (here: a lot), CPU seconds and their ratios hardly do. The ratio is the peer's CPU
over ours: above 1, Ensue takes less. Where only a peer's wall seconds are published, they are divided by our CPU
seconds, which is what our one core would take on an idle machine.
"""

# Title, both sides' settings, and what to keep in mind.
ABOUT: dict[str, tuple[str, str, str]] = {
    "flink-sql": (
        "Flink SQL",
        "Both read the rows from a file (Flink CSV, Ensue Parquet) and count the matches. Flink in batch mode on two "
        "cores, three runs to warm up; Ensue in process on one. W1: `A B+ C+?`, falls that turn. W2: `V C+ P` within "
        "an hour.",
        "Flink's fixed costs weigh more at the small size kept here. On Spark, at a million rows: `./dev bench w1 w2 "
        "--peer flink`. Reading alone is shown, since CSV costs more than Parquet. In exchange Flink answers within "
        "milliseconds of an event; Ensue on Spark does so at the end of a micro-batch.",
    ),
    "flink-cep": (
        "FlinkCEP",
        "All matches of A, then B, then C, with anything between. FlinkCEP's own classes, fed event by event "
        "without Flink's runtime (`benchmarks/FlinkSequences.java`), one thread, 4 GB. Ensue in process, one core.",
        "FlinkCEP keeps a record per partial match and works on one event at a time; that is also why its "
        "latency is low. Its CPU is that of the matching thread; its wall includes starting the JVM.",
    ),
    "duckdb": (
        "DuckDB",
        "The tasks are those of DuckDB's own micro-benchmarks (`benchmark/micro/match_recognize`), at their "
        "sizes. Ensue in process on an Arrow table. The published seconds are wall time of a 16-core MacBook "
        "with warm data (pull request duckdb/duckdb#25255, September 2026).",
        "**Not the same machine**, and not run here: the clause is on DuckDB's main branch and in no release "
        "(2.0.0 refuses the word). Read the ratio as an order of magnitude: sixteen cores against one.",
    ),
    "chdb": (
        "ClickHouse (chDB)",
        "ClickHouse in process, `max_threads = 2`, against Ensue in process; both read the same Parquet file. "
        "Users that get to the third step within 100,000 units (`windowFunnel`) or at all (`sequenceMatch`), and "
        "the number of funnels one after the other (`sequenceCount`).",
        "ClickHouse's functions give a number per user and nothing else; they are the fastest way to that number. "
        "`sequenceCount` is the worst of ours: matches that must not overlap are found one after the other, and "
        "listed before they are counted.",
    ),
    "graphs": (
        "networkx and igraph",
        "A power-law graph with one label: build it from an edge list; the ends of two hops from 1,000 nodes; all "
        "nodes that can be reached from 20. One thread each.",
        "Both are libraries of graph algorithms: neither reads path expressions or lists paths by label, and "
        "both have a hundred algorithms that Ensue has not (centralities, communities, flows).",
    ),
    "spark-sql": (
        "Spark SQL",
        "The same question in Spark SQL and in a quantitative query, in one session, `local[2]`.",
        "For a plain aggregate Spark SQL is ahead (`./dev bench quantify-spark`): the rows need not leave the JVM.",
    ),
    "rematch": (
        "REmatch",
        "`A.*B.*C.*D` on AⁱBⁱCⁱDⁱ: REmatch's Python package lists every way to read it, a summary counts them.",
        "Listing and counting are different work: the comparison is the SuSe paper's (its Figure 11).",
    ),
}
_MISSING = """\
## Not compared

| engine | why not |
|---|---|
| CORE | its Python wheel (pycer) is not on the package index of the machine that took these figures; its figures in the SuSe paper are quoted in [Figures of the papers](papers.md) |
| OpenCEP | no package; *a run per partial match (Python)* above evaluates as it does |
| Trino, Oracle, Snowflake, Databricks | need a server or an account; Trino's published figures stand under DuckDB |
| Siddhi, Esper | need a server; not tried |
"""


def write() -> None:
    PAGE.write_text(page())


def page() -> str:
    parts = [_HEADER]
    for name, (title, settings, note) in ABOUT.items():
        path = KEPT / f"{name}.json"
        parts.append(f"## {title}\n\n{settings}\n")
        if not path.exists():
            parts.append(f"No figures are kept yet: run `./dev bench peers {name}`.\n")
            continue
        record = json.loads(path.read_text())
        machine = record["machine"]
        versions = {"Ensue": machine["commit"], "Python": machine["python"], **record["versions"]}
        said = ", ".join(f"{engine} {version}" for engine, version in versions.items())
        parts.append(
            f"`{record['command']}` on {machine['cores']} cores, {machine['when'][:10]}: {said}.\n"
        )
        parts.append(
            "| task | engine | CPU s | wall s | ratio | answer |\n|---|---|---|---|---|---|"
        )
        parts += _rows(record["lines"])
        parts.append(f"\n{note}\n")
    return "\n".join([*parts, _MISSING])


def _rows(lines: list[dict[str, Any]]) -> list[str]:
    base: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line["engine"].startswith("Ensue"):
            base[line["task"]] = line
    order = list(dict.fromkeys(line["task"] for line in lines))
    found = []
    for line in sorted(lines, key=lambda line: order.index(line["task"])):
        ours = base[line["task"]]
        theirs = line["wall"] if line["cpu"] is None else line["cpu"]
        ratio = "" if line is ours else f"{theirs / max(ours['cpu'], 1e-6):.2g}"
        if line["cpu"] is None:
            ratio += " (wall / CPU)"
        engine = line["engine"] + (f", {line['note']}" if line["note"] else "")
        cells = (
            line["task"],
            engine,
            _seconds(line["cpu"]),
            _seconds(line["wall"]),
            ratio,
            _answer(line["answer"]),
        )
        found.append("| " + " | ".join(cells) + " |")
    return found


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _answer(value: Any) -> str:
    first = value[0] if isinstance(value, list) else value
    if first is None:
        return ""
    return first if isinstance(first, str) else f"{round(first):,}"
