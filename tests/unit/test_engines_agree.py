"""Every engine gives the same answer: the spec cases with each engine forced in turn."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import ensue
from ensue.automaton.plan import Plan
from ensue.guards.compile import compile_guards
from ensue.guards.operators import TooHardError
from ensue.guards.reader import Match
from ensue.query.query import Query
from ensue.rows import evaluator as rows
from ensue.rows.engines import Engine
from ensue.rows.python_engine import PythonEngine, Search
from ensue.rows.thread_engine import ThreadEngine
from ensue.run import local
from ensue.scalar.arrow_kinds import from_arrow
from tests import specs


def _threads(plan: Plan, schema: pa.Schema) -> Engine:
    kinds = {f.name: from_arrow(f.type) for f in schema}
    try:
        return ThreadEngine(plan, compile_guards(plan, kinds), schema)
    except TooHardError:
        return PythonEngine(plan, schema, "only Python can")


def _python(plan: Plan, schema: pa.Schema) -> Engine:
    return PythonEngine(plan, schema, "asked for")


@pytest.mark.parametrize("force", [_threads, _python], ids=["threads", "python"])
@pytest.mark.parametrize("case", specs.cases(), ids=str)
def test_spec(case: specs.Case, force: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "choose_row_engine", force)

    def run(query: Query, table: pa.Table) -> tuple[list[str], list[specs.Row]]:
        result = local.run(query, table)
        return result.column_names, result.to_pylist()

    specs.check(case, run)


TEXTS = ["A+", "A+ B+", "(A | B)+ C", "A B* C?", "(A B?)+ C", "A+? B", "(A | B | C)+"]
FOLDS = ["COUNT(DISTINCT A.x)", "MAX_BY(x, y)", "COUNT(DISTINCT x)", "SUM(DISTINCT A.x)",
         "size(ARRAY_AGG(A.x))", "MIN_BY(A.x, A.y)", "COUNT(DISTINCT B.x)"]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_what_is_kept_along_the_path(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and states of aggregates that are kept are those worked out anew for each condition."""
    chooser = random.Random(seed)
    size, text = chooser.randrange(3, 14), chooser.choice(TEXTS)
    columns = {"x": [None, 0, 1, 2, 3], "y": [0, 1, 2, 3]}
    table = pa.table({n: [chooser.choice(v) for _ in range(size)] for n, v in columns.items()})
    table = table.append_column("i", pa.array(range(size)))
    define = {}
    for label in (label for label in "ABC" if label in text):
        side = chooser.choice([f for f in FOLDS if "B." not in f or "B" in text] + ["x"])
        define[label] = f"{side} {chooser.choice(['<', '>', '<=', '='])} {chooser.randrange(4)}"
    query = ensue.pattern(text).define(**define).order_by("i")
    query = query.after_match(chooser.choice(["past last row", "to next row"]))
    kept = query.matches(table)

    def rows_of(search: Search, variable: str | None) -> list[int]:
        members = search._members(variable)
        return [search._start + place for place, s in enumerate(search._path) if members[s]]

    monkeypatch.setattr(Search, "_rows_of", rows_of)
    monkeypatch.setattr(Search, "aggregate", Match.aggregate)
    assert query.matches(table).equals(kept)
