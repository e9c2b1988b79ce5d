"""What runs where: every task and every way to run it, declared once.

A cell is `YES`, or a `No` with its reason and the next best thing. Runners that refuse say what
stands here (`refusal`), `docs/what-runs-where.md` is this table (`tools/where.py`), and tests call
every cell: a yes has to give the right answer there, a no has to be refused in these words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from ensue import errors


class Task(Enum):
    """What can be asked; the value is how a page calls it."""

    ROWS = "row patterns"
    EVENTS = "event patterns"
    AGGREGATE = "`count`, `aggregate`"
    SUMMARIZE = "`summarize`"
    MISSING = "`allow_missing`"
    WORKLOAD = "`workload`"
    AUTOMATON = "`Automaton`"
    QUANTIFY = "`quantify`"
    PATHS = "`graph` paths"


class Way(Enum):
    """How it can be run."""

    IN_PROCESS = "in process"
    PIECES = "in pieces"
    DISORDER = "disorder and corrections"
    SPARK_BATCH = "Spark batch"
    STREAM_FINAL = 'stream, `emit="final"`'
    STREAM_CHANGES = 'stream, `emit="changes"`'
    EDITS = "pattern edits"
    BUDGET = "`budget=`"
    SQL = "SQL"
    EXPLAIN = "`explain`"
    PLOT = "`plot`"


@dataclass(frozen=True)
class Yes:
    """It runs; `how` is the call."""

    how: str


@dataclass(frozen=True)
class No:
    """It does not; why, and what to do instead."""

    reason: str
    instead: str
    callable: bool = True  # there is a call that is refused; else nothing to call at all


_GRAPH_STANDS = No(
    "a graph is queried as a whole; its edges do not arrive as events",
    "build the graph again from the edges so far, on a stream inside foreachBatch",
)
_NO_GRAPH_CALL = replace(_GRAPH_STANDS, callable=False)
_ONE_PATTERN = "totals kept for one pattern cannot continue under another"
_NOT_SQL = "SQL's MATCH_RECOGNIZE has no clause for it"


def _matched(asked: str, **different: Yes | No) -> dict[Way, Yes | No]:
    """What lists matches has the same calls everywhere; `different` by the name of the way."""
    edited = f"matcher.revise(...), {asked}.matches(stream, control=..., edits=True)"
    cells: dict[Way, Yes | No] = {
        Way.IN_PROCESS: Yes(f"{asked}.matches(table)"),
        Way.PIECES: Yes(f"{asked}.matcher()"),
        Way.DISORDER: Yes(f"{asked}.matcher(speculation=...)"),
        Way.SPARK_BATCH: Yes(f"{asked}.matches(df)"),
        Way.STREAM_FINAL: Yes(f"{asked}.matches(stream)"),
        Way.STREAM_CHANGES: Yes(f'{asked}.matches(stream, emit="changes")'),
        Way.EDITS: Yes(edited),
        Way.BUDGET: Yes(f"{asked}.matches(table, budget=...)"),
        Way.SQL: No(_NOT_SQL, f"use {asked}.matches(df)", False),
        Way.EXPLAIN: Yes(f"{asked}.explain()"),
        Way.PLOT: Yes(f"{asked}.plot()"),
    }
    return cells | {Way[name]: cell for name, cell in different.items()}


TABLE: Mapping[Task, Mapping[Way, Yes | No]] = {
    Task.ROWS: _matched(
        "q",
        BUDGET=Yes('q.after_match("to next row").matches(table, budget=...)'),
        SQL=Yes("MATCH_RECOGNIZE (...)"),
    ),
    Task.EVENTS: _matched(
        "q",
        BUDGET=Yes("q.matches(table, budget=...), q.matcher(budget=...)"),
        SQL=No(
            "'->' is not part of SQL's PATTERN",
            "use q.matches(df), or aggregates OVER ALL MATCHES, which take arrows",
            False,
        ),
    ),
    Task.AGGREGATE: {
        Way.IN_PROCESS: Yes('q.aggregate(table, n="count(*)")'),
        Way.PIECES: Yes('q.matcher(aggregate={"n": "count(*)"})'),
        Way.DISORDER: Yes('q.matcher(aggregate={"n": "count(*)"}, speculation=...)'),
        Way.SPARK_BATCH: Yes('q.aggregate(df, n="count(*)")'),
        Way.STREAM_FINAL: Yes('q.aggregate(stream, every="1 hour", n="count(*)")'),
        Way.STREAM_CHANGES: Yes('q.aggregate(stream, emit="changes", n="count(*)")'),
        Way.EDITS: No(_ONE_PATTERN, "leave edits=True out, or edit the pattern of q.matches(...)"),
        Way.BUDGET: Yes('ensue.workload(q=q).aggregate(table, budget=..., n="count(*)")'),
        Way.SQL: Yes("MEASURES COUNT(*) OVER ALL MATCHES AS n"),
        Way.EXPLAIN: Yes("q.explain()"),
        Way.PLOT: Yes("q.plot()"),
    },
    Task.SUMMARIZE: {
        Way.IN_PROCESS: Yes("q.summarize(table, size=500)"),
        Way.PIECES: Yes("q.summarize(size=500)"),
        Way.DISORDER: Yes("q.summarize(size=500, speculation=...)"),
        Way.SPARK_BATCH: Yes("q.summarize(df, size=500)"),
        Way.STREAM_FINAL: Yes("q.summarize(stream, size=500)"),
        Way.STREAM_CHANGES: Yes('q.summarize(stream, size=500, emit="changes")'),
        Way.EDITS: No(_ONE_PATTERN, "leave edits=True out, or edit the pattern of q.matches(...)"),
        Way.BUDGET: Yes("q.summarize(size=500), whose bound is its size"),
        Way.SQL: No(_NOT_SQL, "use COUNT(*) OVER ALL MATCHES, which is exact", False),
        Way.EXPLAIN: Yes("q.explain()"),
        Way.PLOT: Yes("q.plot()"),
    },
    Task.MISSING: _matched(
        "q.allow_missing(1)",
        EDITS=Yes("matcher.revise(...)"),
        SQL=No(_NOT_SQL, "use q.allow_missing(...).matches(df)", False),
    ),
    Task.WORKLOAD: _matched(
        "w",
        SQL=No(_NOT_SQL, "write one MATCH_RECOGNIZE per pattern and UNION ALL them", False),
    ),
    Task.AUTOMATON: _matched(
        "a",
        DISORDER=Yes("a.matcher()"),
        BUDGET=No(
            "what a register would have held is not known for a partial match that was shed",
            "write the pattern with ensue.pattern(...), which takes a budget",
        ),
    ),
    Task.QUANTIFY: {
        Way.IN_PROCESS: Yes("f.eval(table), f.values(table)"),
        Way.PIECES: Yes("f.operator(schema)"),
        Way.DISORDER: No(
            "a value covers a whole stretch of events in order, and is emitted once",
            "sort the events first; on a stream f.values(stream) waits for the watermark",
        ),
        Way.SPARK_BATCH: Yes("f.values(df)"),
        Way.STREAM_FINAL: Yes("f.values(stream)"),
        Way.STREAM_CHANGES: Yes('f.values(stream, emit="changes")'),
        Way.EDITS: No(_ONE_PATTERN, "start a second query beside the first"),
        Way.BUDGET: No("a quantitative query runs in constant space and sheds nothing",
                       "leave the budget out"),
        Way.SQL: No(
            "the standard allows no aggregate inside another",
            "use q.measures(m='MAX(AVG(B.price))'), nested aggregates over the rounds of a match",
            False,
        ),
        Way.EXPLAIN: Yes("f.explain(table)"),
        Way.PLOT: Yes("f.plot()"),
    },
    Task.PATHS: {
        Way.IN_PROCESS: Yes("g.paths(expression)"),
        Way.PIECES: _NO_GRAPH_CALL,
        Way.DISORDER: _NO_GRAPH_CALL,
        Way.SPARK_BATCH: Yes("ensue.graph(df).paths(expression)"),
        Way.STREAM_FINAL: _GRAPH_STANDS,
        Way.STREAM_CHANGES: _GRAPH_STANDS,
        Way.EDITS: No("a path query runs once", "run the other expression", False),
        Way.BUDGET: Yes("g.retrieve(questions, budget=...)"),
        Way.SQL: No(_NOT_SQL, "use ensue.graph(df).paths(...)", False),
        Way.EXPLAIN: Yes("g.explain(expression)"),
        Way.PLOT: Yes("g.plot(expression)"),
    },
}  # fmt: skip


def said(task: Task, way: Way, what: str | None = None) -> tuple[str, str]:
    """The reason of a cell that says no, for `what` was asked, and what to do instead."""
    cell = TABLE[task][way]
    assert isinstance(cell, No), f"{task.value} runs {way.value}"
    asked = what or f"{task.value}, {way.value}".replace("`", "")
    return f"{asked}: {cell.reason}", cell.instead


def refusal(task: Task, way: Way, what: str | None = None) -> errors.UnsupportedError:
    """The error of a cell that says no; `what` was asked, in the words of who refuses."""
    problem, remedy = said(task, way, what)
    return errors.UnsupportedError(problem, remedy=remedy)
