"""A small query on an engine of the row evaluator, so that Spark's workers here find it compiled.

In process nothing is compiled before the query itself calls it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import bits_name, input_name, plan
from ensue.kernels.warm import announced
from ensue.operator.protocol import Events
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Measure, OrderKey, Query, Window, WindowKind
from ensue.rows.evaluator import RowsEvaluator


@lru_cache(maxsize=2)
@announced
def warm_up(guarded: bool) -> None:
    """Compile what row patterns call, with guards or without; does nothing the second time."""
    price = c.Column("price")
    last = c.Navigate(price, "A") if guarded else c.Navigate(price, None, shift=-1)
    query = Query(
        pattern=nodes.concatenate([nodes.Label("A"), nodes.Repetition(nodes.Label("B"), 1, None)]),
        define=(
            ("A", c.binary("gt", c.Navigate(price), c.Literal("int", 0))),
            ("B", c.binary("lt", c.Navigate(price), last)),
        ),
        order_by=(OrderKey("ts"),),
        measures=(
            Measure("bottom", c.Navigate(price, "B")),
            Measure("rows", c.Aggregate("count", ())),
        ),
        within=Window(WindowKind.NUMBER, 10),
    )
    planned = plan(query)
    prices = np.array([3.0, 2.0, 1.0])
    columns = {"ts": np.arange(3), bits_name(0): np.ones(3, np.int64)}
    columns |= {input_name(index): prices for index in range(len(planned.inputs))}
    table = pa.table(columns)
    evaluator = RowsEvaluator()
    evaluator.open(planned, table.schema)
    events = Events(table, np.array([0, 3], np.int64), np.ones(1, np.bool_))
    for _ in evaluator.insert(events).tables():
        pass
