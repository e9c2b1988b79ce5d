"""What runs where in process: every cell is called, and the page says what the table says.

The cells of Spark and of SQL are called in tests/spark/test_what_runs_where.py.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.capabilities import TABLE, No, Task, Way, Yes
from ensue.operator.protocol import Events, PatternChange
from tests import where
from tests.where import AUTOMATON, BLOCK_SUM, BOTH, EDGES, EVENTS, NEAR, ROWS, SEQUENCE, SPECULATION

ENOUGH = ensue.Budget(work=1_000_000)
SPARK = (Way.SPARK_BATCH, Way.STREAM_FINAL, Way.STREAM_CHANGES, Way.SQL)
GRAPH = ensue.graph(EDGES)


def _rows(found: Any) -> where.Rows:
    return found if isinstance(found, list) else found.to_pylist()


def _listed(found: Any, wanted: list[tuple[Any, ...]]) -> None:
    assert where.spans(_rows(found)) == sorted(wanted)


def _counted(found: Any) -> None:
    assert where.counts(_rows(found)) == where.COUNTS


def _twice(found: Any) -> None:
    """Both patterns of the workload find the same."""
    _listed(found, where.EVENT_MATCHES * 2)
    assert {row["pattern"] for row in _rows(found)} == {"pairs", "again"}


def _edited(matcher: Any, change: Callable[[Any], Any], wanted: list[tuple[Any, ...]]) -> None:
    """The pattern is replaced before the first event."""
    change(matcher)
    _listed(where.in_pieces(matcher), wanted)


def _replaced(old: str, pattern: Any) -> Callable[[Any], Any]:
    return lambda matcher: matcher.revise(add={"new": pattern}, remove=[old])


def _blocks(found: Any) -> None:
    assert where.blocks(_rows(found)) == where.BLOCKS


def _summed(found: Any) -> None:
    assert {key[0]: result["count"] for key, result in found.items()} == where.COUNTS


def _in_order(summary: Any) -> Any:
    rows = EVENTS.sort_by("ts")
    for index in range(rows.num_rows):
        summary.insert(rows.slice(index, 1))
    return summary


def _corrected_summary() -> Any:
    summary = SEQUENCE.summarize(size=10, **SPECULATION)
    summary.insert(where.WRONG)
    summary.insert(EVENTS.sort_by([("ts", "descending")]))
    summary.retract(where.WRONG)
    return summary


def _quantified() -> Any:
    return BLOCK_SUM.operator(SCHEMA, partition_by="user", output="defined")


def _ends(found: Any) -> None:
    pairs = zip(found["start"].to_pylist(), found["end"].to_pylist(), strict=True)
    assert list(pairs) == where.PATHS


def _explained(text: str) -> None:
    assert len(text.split()) > 3


def _drawn(picture: Any, *labels: str) -> None:
    assert picture.svg.startswith("<svg") or "<svg" in picture.svg
    assert all(label in picture.svg for label in labels)


def _in_pieces(operator: Any) -> Any:
    rows = EVENTS.sort_by("ts")
    tables = []
    for index in range(rows.num_rows):
        one = Events(rows.slice(index, 1), np.array([0, 1]), np.array([False]))
        tables += operator.insert(one).tables()
    return pa.concat_tables([*tables, *operator.end().tables()])


TOTALS = {"aggregate": {"n": "count(*)"}, "by": "user"}
SCHEMA = EVENTS.schema
CALLS: dict[tuple[Task, Way], Callable[[], None]] = {
    (Task.ROWS, Way.IN_PROCESS): lambda: _listed(ROWS.matches(EVENTS), where.ROW_MATCHES),
    (Task.ROWS, Way.PIECES): lambda: _listed(where.in_pieces(ROWS.matcher()), where.ROW_MATCHES),
    (Task.ROWS, Way.DISORDER): lambda: _listed(
        where.disordered(ROWS.matcher(**SPECULATION)), where.ROW_MATCHES
    ),
    (Task.ROWS, Way.EDITS): lambda: _edited(
        SEQUENCE.matcher(name="old", schema=SCHEMA), _replaced("old", ROWS), where.ROW_MATCHES
    ),
    (Task.ROWS, Way.BUDGET): lambda: _listed(
        ROWS.after_match("to next row").matches(EVENTS, budget=ENOUGH), where.ROW_MATCHES
    ),
    (Task.ROWS, Way.EXPLAIN): lambda: _explained(ROWS.explain()),
    (Task.ROWS, Way.PLOT): lambda: _drawn(ROWS.plot(), "A", "B"),
    (Task.EVENTS, Way.IN_PROCESS): lambda: _listed(SEQUENCE.matches(EVENTS), where.EVENT_MATCHES),
    (Task.EVENTS, Way.PIECES): lambda: _listed(
        where.in_pieces(SEQUENCE.matcher()), where.EVENT_MATCHES
    ),
    (Task.EVENTS, Way.DISORDER): lambda: _listed(
        where.disordered(SEQUENCE.matcher(**SPECULATION)), where.EVENT_MATCHES
    ),
    (Task.EVENTS, Way.EDITS): lambda: _edited(
        ROWS.matcher(name="old", schema=SCHEMA), _replaced("old", SEQUENCE), where.EVENT_MATCHES
    ),
    (Task.EVENTS, Way.BUDGET): lambda: (
        _listed(SEQUENCE.matches(EVENTS, budget=ENOUGH), where.EVENT_MATCHES),
        _listed(where.in_pieces(SEQUENCE.matcher(budget=ENOUGH)), where.EVENT_MATCHES),
    ),
    (Task.EVENTS, Way.EXPLAIN): lambda: _explained(SEQUENCE.explain()),
    (Task.EVENTS, Way.PLOT): lambda: _drawn(SEQUENCE.plot(), "A", "B"),
    (Task.AGGREGATE, Way.IN_PROCESS): lambda: _counted(
        SEQUENCE.aggregate(EVENTS, by="user", n="count(*)")
    ),
    (Task.AGGREGATE, Way.PIECES): lambda: _counted(where.in_pieces(SEQUENCE.matcher(**TOTALS))),
    (Task.AGGREGATE, Way.DISORDER): lambda: _counted(
        where.disordered(SEQUENCE.matcher(**TOTALS, **SPECULATION))
    ),
    (Task.AGGREGATE, Way.EDITS): lambda: SEQUENCE.matcher(**TOTALS, schema=SCHEMA).revise(
        add={"new": ROWS}
    ),
    (Task.AGGREGATE, Way.BUDGET): lambda: _counted(
        ensue.workload(q=SEQUENCE).aggregate(EVENTS, budget=ENOUGH, by="user", n="count(*)")
    ),
    (Task.AGGREGATE, Way.EXPLAIN): lambda: _explained(SEQUENCE.explain()),
    (Task.AGGREGATE, Way.PLOT): lambda: _drawn(SEQUENCE.plot(), "A", "B"),
    (Task.SUMMARIZE, Way.IN_PROCESS): lambda: _summed(
        SEQUENCE.summarize(EVENTS.sort_by("ts"), size=10).result()
    ),
    (Task.SUMMARIZE, Way.PIECES): lambda: _summed(_in_order(SEQUENCE.summarize(size=10)).result()),
    (Task.SUMMARIZE, Way.DISORDER): lambda: _summed(_corrected_summary().result()),
    (Task.SUMMARIZE, Way.BUDGET): lambda: _summed(_in_order(SEQUENCE.summarize(size=10)).result()),
    (Task.SUMMARIZE, Way.EXPLAIN): lambda: _explained(SEQUENCE.explain()),
    (Task.SUMMARIZE, Way.PLOT): lambda: _drawn(SEQUENCE.plot(), "A", "B"),
    (Task.MISSING, Way.IN_PROCESS): lambda: _listed(NEAR.matches(EVENTS), where.NEAR_MATCHES),
    (Task.MISSING, Way.PIECES): lambda: _listed(
        where.in_pieces(NEAR.matcher()), where.NEAR_MATCHES
    ),
    (Task.MISSING, Way.DISORDER): lambda: _listed(
        where.disordered(NEAR.matcher(**SPECULATION)), where.NEAR_MATCHES
    ),
    (Task.MISSING, Way.EDITS): lambda: _edited(
        ROWS.matcher(name="old", schema=SCHEMA), _replaced("old", NEAR), where.NEAR_MATCHES
    ),
    (Task.MISSING, Way.BUDGET): lambda: _listed(
        NEAR.matches(EVENTS, budget=ENOUGH), where.NEAR_MATCHES
    ),
    (Task.MISSING, Way.EXPLAIN): lambda: _explained(NEAR.explain()),
    (Task.MISSING, Way.PLOT): lambda: _drawn(NEAR.plot(), "A", "B"),
    (Task.WORKLOAD, Way.IN_PROCESS): lambda: _twice(BOTH.matches(EVENTS)),
    (Task.WORKLOAD, Way.PIECES): lambda: _twice(where.in_pieces(BOTH.matcher())),
    (Task.WORKLOAD, Way.DISORDER): lambda: _twice(where.disordered(BOTH.matcher(**SPECULATION))),
    (Task.WORKLOAD, Way.EDITS): lambda: _edited(
        BOTH.matcher(schema=SCHEMA),
        lambda m: m.revise(remove=["again"]),
        where.EVENT_MATCHES,
    ),
    (Task.WORKLOAD, Way.BUDGET): lambda: _twice(BOTH.matches(EVENTS, budget=ENOUGH)),
    (Task.WORKLOAD, Way.EXPLAIN): lambda: _explained(BOTH.explain()),
    (Task.WORKLOAD, Way.PLOT): lambda: _drawn(BOTH.plot(), "A", "B"),
    (Task.AUTOMATON, Way.IN_PROCESS): lambda: _listed(
        AUTOMATON.matches(EVENTS), where.EVENT_MATCHES
    ),
    (Task.AUTOMATON, Way.PIECES): lambda: _listed(
        where.in_pieces(AUTOMATON.matcher()), where.EVENT_MATCHES
    ),
    (Task.AUTOMATON, Way.DISORDER): lambda: _listed(
        where.disordered(AUTOMATON.matcher()), where.EVENT_MATCHES
    ),
    (Task.AUTOMATON, Way.EDITS): lambda: _edited(
        AUTOMATON.matcher(SCHEMA),
        lambda m: m.revise(add={"alone": dict(source="q0", target="end", when="kind = 'x'")}),
        [*where.EVENT_MATCHES, ("u", 4, 4)],
    ),
    (Task.AUTOMATON, Way.BUDGET): lambda: AUTOMATON.matches(EVENTS, budget=ENOUGH),
    (Task.AUTOMATON, Way.EXPLAIN): lambda: _explained(AUTOMATON.explain()),
    (Task.AUTOMATON, Way.PLOT): lambda: _drawn(AUTOMATON.plot(), "q0", "q1", "end"),
    (Task.QUANTIFY, Way.IN_PROCESS): lambda: _blocks(
        BLOCK_SUM.values(EVENTS, partition_by="user", order_by="ts")
    ),
    (Task.QUANTIFY, Way.PIECES): lambda: _blocks(_in_pieces(_quantified())),
    (Task.QUANTIFY, Way.DISORDER): lambda: _quantified().retract(EVENTS),
    (Task.QUANTIFY, Way.EDITS): lambda: _quantified().revise(PatternChange()),
    (Task.QUANTIFY, Way.BUDGET): lambda: _quantified().open(None, SCHEMA, ENOUGH),
    (Task.QUANTIFY, Way.EXPLAIN): lambda: _explained(BLOCK_SUM.explain(EVENTS)),
    (Task.QUANTIFY, Way.PLOT): lambda: _drawn(BLOCK_SUM.plot()),
    (Task.PATHS, Way.IN_PROCESS): lambda: _ends(GRAPH.paths("x/y", start="a")),
    (Task.PATHS, Way.BUDGET): lambda: _ends(
        GRAPH.retrieve(ensue.Question("x then y", "a", ["x/y"]), budget=ENOUGH).table
    ),
    (Task.PATHS, Way.EXPLAIN): lambda: _explained(GRAPH.explain("x/y")),
    (Task.PATHS, Way.PLOT): lambda: _drawn(GRAPH.plot("x/y"), "x", "y"),
}


@pytest.mark.parametrize("cell", CALLS, ids=lambda cell: f"{cell[0].name}-{cell[1].name}".lower())
def test_a_cell_does_what_it_says(cell: tuple[Task, Way]) -> None:
    task, way = cell
    declared = TABLE[task][way]
    if isinstance(declared, No):
        with pytest.raises(errors.UnsupportedError) as raised:
            CALLS[cell]()
        assert raised.value.problem.endswith(declared.reason)
        assert raised.value.remedy == declared.instead
    else:
        CALLS[cell]()


def test_every_cell_is_called() -> None:
    cells = {(task, way): TABLE[task][way] for task in Task for way in Way if way not in SPARK}
    silent = {at for at, cell in cells.items() if isinstance(cell, No) and not cell.callable}
    on_spark = {(Task.SUMMARIZE, Way.EDITS)}  # called beside the other cells of Spark
    assert set(CALLS) == set(cells) - silent - on_spark
    assert not any(hasattr(GRAPH, name) for name in ("insert", "retract", "matcher", "revise"))


# What users hold of each task where its events come one by one.
HELD: dict[Task, Callable[[], Any]] = {
    Task.ROWS: lambda: ROWS.matcher(**SPECULATION),
    Task.EVENTS: lambda: SEQUENCE.matcher(**SPECULATION),
    Task.AGGREGATE: lambda: SEQUENCE.matcher(**TOTALS, **SPECULATION),
    Task.SUMMARIZE: lambda: SEQUENCE.summarize(size=10, **SPECULATION),
    Task.MISSING: lambda: NEAR.matcher(**SPECULATION),
    Task.WORKLOAD: lambda: BOTH.matcher(**SPECULATION),
    Task.AUTOMATON: AUTOMATON.matcher,
    Task.QUANTIFY: _quantified,
}


@pytest.mark.parametrize("task", HELD, ids=lambda task: task.name.lower())
def test_a_cell_is_what_the_operator_declares(task: Task) -> None:
    declared, cells = HELD[task]().capabilities, TABLE[task]
    assert declared.retraction == isinstance(cells[Way.DISORDER], Yes)
    assert declared.revision == isinstance(cells[Way.EDITS], Yes)
    assert not declared.shedding or isinstance(cells[Way.BUDGET], Yes)


def test_what_is_held_under_a_budget_declares_that_it_sheds() -> None:
    for pattern in (SEQUENCE, NEAR, BOTH):
        assert pattern.matcher(budget=ENOUGH).capabilities.shedding


def test_the_page_is_the_table() -> None:
    path = Path(__file__).parents[2] / "tools" / "where.py"
    specification = importlib.util.spec_from_file_location("where_page", path)
    assert specification is not None and specification.loader is not None
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run: python tools/where.py"
