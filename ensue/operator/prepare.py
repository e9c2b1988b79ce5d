"""What a plan needs of a table before matching, and what it makes of the matches after it.

The plan's inputs and flags are computed on Arrow columns, with the documented subset of functions:
what `run/spark/batch.py` leaves to Spark, for the runners that work in process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import FLAGS_PER_COLUMN, PREFIX, Plan, bits_name, input_name
from ensue.operator.arrange import flat
from ensue.operator.batch import as_mask
from ensue.query.depth import roomy
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.infer import require_boolean


@roomy
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


@roomy
def finish(planned: Plan, found: pa.Table) -> pa.Table:
    """Measures over atoms, in the standard's order of columns."""
    rows = Rows({name: flat(found, name) for name in found.column_names}, found.num_rows, None)
    values = {m.name: evaluate(m.value, rows) for m in planned.outer}
    order = output_order(planned, found.column_names)
    arrays = [values[name] if name in values else rows.columns[name] for name in order]
    return pa.table(arrays, names=order)


def finish_totals(planned: Plan, found: pa.Table) -> pa.Table:
    """Aggregates over atoms, after the columns of the groups."""
    rows = Rows({name: flat(found, name) for name in found.column_names}, found.num_rows, None)
    names = [name for name in found.column_names if not name.startswith(PREFIX)]
    arrays = [rows.columns[name] for name in names]
    for measure in planned.outer:
        names.append(measure.name)
        arrays.append(evaluate(measure.value, rows))
    return pa.table(arrays, names=names)


def output_columns(plan: Plan, schema: pa.Schema) -> list[str]:
    """Input columns that the output carries, in the standard's order (rule 11)."""
    query = plan.query
    names = list(query.partition_by)
    if query.rows.all_rows:
        names += [k.column for k in query.order_by]
        names = list(dict.fromkeys(names))
        names += [n for n in schema.names if n not in names and not n.startswith(PREFIX)]
    return names


def output_order(plan: Plan, found: Sequence[str]) -> list[str]:
    """Names of the result in the standard's order: keys, then measures, then the rest."""
    query = plan.query
    carried = [name for name in found if not name.startswith(PREFIX)]
    ahead = len(query.partition_by)
    if query.rows.all_rows:
        ahead = len({*query.partition_by, *(key.column for key in query.order_by)})
    measures = [measure.name for measure in plan.outer]
    taken = {name.casefold() for name in measures}
    for name in carried[ahead:]:
        if name.casefold() in taken:
            raise errors.DuplicateNameError(
                f"the measure {name!r} has the name of an input column that ALL ROWS PER MATCH "
                "also shows",
                remedy="choose another name for the measure",
            )
    return carried[:ahead] + measures + carried[ahead:]
