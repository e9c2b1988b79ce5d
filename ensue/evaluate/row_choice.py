"""Which engine runs a row pattern, and why: the fastest that can answer its conditions."""

from __future__ import annotations

import pyarrow as pa

from ensue.automaton.guard_operators import TooHardError
from ensue.automaton.guards import compile_guards
from ensue.automaton.plan import Plan
from ensue.evaluate.arrow_kinds import from_arrow
from ensue.evaluate.python_engine import PythonEngine
from ensue.evaluate.row_engines import AutomatonEngine, Engine
from ensue.evaluate.thread_engine import ThreadEngine


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
