"""Which evaluator and engine runs a query, and why."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from ensue.automaton.guard_operators import TooHardError
from ensue.automaton.guards import compile_guards
from ensue.automaton.plan import Plan
from ensue.evaluate.arrow_kinds import from_arrow
from ensue.evaluate.base import Evaluator
from ensue.evaluate.python_engine import PythonEngine
from ensue.evaluate.row_engines import AutomatonEngine, Engine
from ensue.evaluate.sequence_listing import Listing
from ensue.evaluate.thread_engine import ThreadEngine
from ensue.pattern.query import Query


class Matcher(Evaluator, Protocol):
    """An evaluator that lists matches."""

    def no_matches(self, schema: pa.Schema) -> pa.Table: ...


def evaluator_for(query: Query, listing: Listing | None = None) -> Matcher:
    """The evaluator that lists the matches of a query; both import this module in turn."""
    from ensue.evaluate.approximate import ApproximateEvaluator
    from ensue.evaluate.rows import RowsEvaluator
    from ensue.evaluate.sequences import SequencesEvaluator

    if query.missing is not None:
        return ApproximateEvaluator(listing)
    return RowsEvaluator() if query.row_semantics else SequencesEvaluator(listing)


def choose_row_engine(plan: Plan, schema: pa.Schema) -> Engine:
    """The fastest engine that can answer the plan's conditions."""
    if not plan.correlated:
        return AutomatonEngine(plan)
    kinds = {f.name: from_arrow(f.type) for f in schema}
    try:
        return ThreadEngine(plan, compile_guards(plan, kinds), schema)
    except TooHardError as problem:
        engine = PythonEngine(plan, schema, f"a condition needs plain Python: {problem}")
        engine.check_types()
        return engine
