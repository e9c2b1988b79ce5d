"""A few small queries, so that the kernels of missing events are compiled before use."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import plan
from ensue.kernels.warm import announced
from ensue.missing.evaluator import ApproximateEvaluator
from ensue.operator.budget import Budget
from ensue.operator.prepare import prepare
from ensue.operator.protocol import Events
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.missing import Effort, Missing
from ensue.query.query import OrderKey, Query, Skip, SkipMode, Window, WindowKind


@lru_cache(maxsize=1)
@announced
def warm_up() -> None:
    """Compile every kernel of missing events; does nothing the second time."""
    steps = [nodes.Label("A"), nodes.Label("B")]
    kind, ts = (c.Navigate(c.Column(name)) for name in ("kind", "ts"))
    define = [c.binary("eq", kind, c.Literal("string", step.name)) for step in steps]
    later = c.binary("gt", ts, c.Navigate(c.Column("ts"), "A"))
    query = Query(
        pattern=nodes.Concatenation(tuple(steps), (nodes.Gap(nodes.Policy.ANY),)),
        define=tuple((step.name, test) for step, test in zip(steps, define, strict=True)),
        order_by=(OrderKey("ts"),),
        skip=Skip(SkipMode.NONE),
        within=Window(WindowKind.NUMBER, 4),
        all_matches=True,
        missing=Missing(Fraction(1), effort=Effort(learn=2)),
    )
    correlated = (query.define[0], ("B", c.binary("and", define[1], later)))
    _match(query, Budget(work=1))
    for budget in (None, Budget(work=1)):
        _match(replace(query, define=correlated), budget)


def _match(query: Query, budget: Budget | None) -> None:
    """Eight events in two pieces."""
    planned = plan(query)
    table = prepare(planned, pa.table({"ts": np.arange(8), "kind": list("ABABABAB")}))
    evaluator = ApproximateEvaluator()
    evaluator.open(planned, table.schema, budget)
    for begin in (0, 4):
        piece = Events(table.slice(begin, 4), np.array([0, 4], np.int64), np.zeros(1, np.bool_))
        for _ in evaluator.insert(piece).tables():
            pass
