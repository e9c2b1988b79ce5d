"""Every engine gives the same answer: the spec cases with each engine forced in turn."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ensue.automaton.plan import Plan
from ensue.guards.compile import compile_guards
from ensue.guards.operators import TooHardError
from ensue.query.query import Query
from ensue.rows import evaluator as rows
from ensue.rows.engines import Engine
from ensue.rows.python_engine import PythonEngine
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
