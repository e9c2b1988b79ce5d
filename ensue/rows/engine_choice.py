"""Which engine runs a row pattern, and why: the fastest that can answer its conditions."""

from __future__ import annotations

import pyarrow as pa

from ensue.automaton.plan import Plan
from ensue.guards.compile import compile_guards
from ensue.guards.operators import TooHardError
from ensue.rows.engines import AutomatonEngine, Engine
from ensue.rows.python_engine import PythonEngine
from ensue.rows.thread_engine import ThreadEngine
from ensue.scalar.arrow_kinds import from_arrow


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
