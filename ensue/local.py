"""The in-process runner: an Arrow table in, an Arrow table out.

It computes the plan's inputs and flags on Arrow columns, arranges the rows, drives the evaluator
and computes the measures over its atoms: what `spark/batch.py` leaves to Spark, done here with
the documented subset of functions. Tests and small jobs use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import FLAGS_PER_COLUMN, PREFIX, Plan, bits_name, input_name, plan
from ensue.evaluate.arrange import arrange, flat
from ensue.evaluate.arrow_kinds import from_arrow
from ensue.evaluate.base import Events
from ensue.evaluate.batch import as_mask
from ensue.evaluate.choose import evaluator_for
from ensue.evaluate.columns import Rows, evaluate
from ensue.evaluate.rows import output_order
from ensue.evaluate.sequence_listing import Listing
from ensue.evaluate.sequence_totals import Finish, Grouping, Totals
from ensue.pattern import rules
from ensue.pattern.binding import bind
from ensue.pattern.infer import require_boolean
from ensue.pattern.query import Query


def run(query: Query, table: pa.Table, listing: Listing | None = None) -> pa.Table:
    """All matches of a pattern in a table."""
    rules.duplicates(table.column_names, "column of the input")
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    table = table.combine_chunks()
    prepared = prepare(planned, table)
    evaluator = evaluator_for(bound, listing)
    evaluator.open(planned, prepared.schema)
    arranged, starts = arrange(prepared, bound.partition_by, bound.order_by)
    complete = np.ones(len(starts) - 1, np.bool_)
    pieces = list(evaluator.insert(Events(arranged, starts, complete)).tables())
    if not pieces:
        pieces = [evaluator.no_matches(arranged.schema)]
    return finish(planned, pa.concat_tables(pieces))


def totals(query: Query, table: pa.Table, grouping: Grouping) -> pa.Table:
    """Aggregates over all matches of an event pattern, never listing them."""
    bound = rules.check(bind(query, table.column_names))
    planned = plan(bound)
    prepared = prepare(planned, table.combine_chunks())
    arranged, starts = arrange(prepared, bound.partition_by, bound.order_by)
    events = Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))
    partials = Totals(planned, grouping).partials(events)
    found = Finish(planned, grouping, arranged.schema).table([partials])
    rows = Rows({name: flat(found, name) for name in found.column_names}, found.num_rows, None)
    names = [name for name in found.column_names if not name.startswith(PREFIX)]
    arrays = [rows.columns[name] for name in names]
    for measure in planned.outer:
        names.append(measure.name)
        arrays.append(evaluate(measure.value, rows))
    return pa.table(arrays, names=names)


def prepare(planned: Plan, table: pa.Table) -> pa.Table:
    """The columns the evaluator reads: partition and order, inputs, packed flags, and the rest."""
    rows = Rows({name: flat(table, name) for name in table.column_names}, table.num_rows, None)
    names = planned.carried(table.column_names)
    arrays = [rows.columns[name] for name in names]
    for index, expression in enumerate(planned.inputs):
        names.append(input_name(index))
        arrays.append(evaluate(expression, rows))
    flags = []
    for flag in planned.flags:
        value = evaluate(flag, rows)
        require_boolean(flag, from_arrow(value.type))
        flags.append(as_mask(value))
    for column, packed in enumerate(pack(flags)):
        names.append(bits_name(column))
        arrays.append(pa.array(packed))
    return (
        pa.table(arrays, names=names)
        if arrays
        else pa.table({"__ensue_row": np.arange(len(table))})
    )


def pack(flags: Sequence[np.ndarray]) -> Iterable[np.ndarray]:
    for begin in range(0, len(flags), FLAGS_PER_COLUMN):
        packed = np.zeros(len(flags[begin]), np.int64)
        for bit, flag in enumerate(flags[begin : begin + FLAGS_PER_COLUMN]):
            packed |= flag.astype(np.int64) << bit
        yield packed


def finish(planned: Plan, found: pa.Table) -> pa.Table:
    """Measures over atoms, in the standard's order of columns."""
    rows = Rows({name: flat(found, name) for name in found.column_names}, found.num_rows, None)
    values = {m.name: evaluate(m.value, rows) for m in planned.outer}
    order = output_order(planned, found.column_names)
    arrays = [values[name] if name in values else rows.columns[name] for name in order]
    return pa.table(arrays, names=order)
