"""Compile, or load from Numba's disk cache, the kernels of a budget before Spark's workers do.

Without it every worker of a fresh machine compiles them by itself, at the same time.
"""

from __future__ import annotations

import sys
import threading
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import plan
from ensue.evaluate.approximate import ApproximateEvaluator
from ensue.evaluate.base import Budget, Events
from ensue.evaluate.prepare import prepare
from ensue.pattern import condition as c
from ensue.pattern import nodes
from ensue.pattern.missing import Effort, Missing
from ensue.pattern.query import OrderKey, Query, Skip, SkipMode, Window, WindowKind

PATIENCE = 2.0


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Run one small query under a budget; does nothing the second time."""
    message = "ensue: compiling its kernels for budgets, once per machine (cached on disk) ..."
    timer = threading.Timer(PATIENCE, lambda: print(message, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        _run()
    finally:
        timer.cancel()


def _run() -> None:
    steps = [nodes.Label("A"), nodes.Label("B")]
    kind = c.Navigate(c.Column("kind"))
    query = Query(
        pattern=nodes.Concatenation(tuple(steps), (nodes.Gap(nodes.Policy.ANY),)),
        define=tuple(
            (step.name, c.binary("eq", kind, c.Literal("string", step.name))) for step in steps
        ),
        order_by=(OrderKey("ts"),),
        skip=Skip(SkipMode.NONE),
        within=Window(WindowKind.NUMBER, 4),
        all_matches=True,
        missing=Missing(Fraction(1), effort=Effort(learn=2)),
    )
    planned = plan(query)
    events = pa.table({"ts": np.arange(8), "kind": list("ABABABAB")})
    table = prepare(planned, events)
    evaluator = ApproximateEvaluator()
    evaluator.open(planned, table.schema, Budget(work=1))
    whole = Events(table, np.array([0, 8], np.int64), np.ones(1, np.bool_))
    for _ in evaluator.insert(whole).tables():
        pass
