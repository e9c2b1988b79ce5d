"""Columns prepared once for several plans, under the names of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ensue.automaton.plan import FLAGS_PER_COLUMN, Plan, bits_name, input_name
from ensue.kernels import bits
from ensue.operator.buffer import AT, EVENT, KEY
from ensue.operator.match_names import ID

_HIDDEN = (AT, KEY, EVENT, ID)


def joined_plan(plans: Sequence[Plan]) -> Plan:
    """A plan that prepares what any of the plans reads; each expression once."""
    base = next((plan for plan in plans if plan.query.rows.all_rows), plans[0])
    return replace(
        base,
        inputs=tuple(dict.fromkeys(e for plan in plans for e in plan.inputs)),
        flags=tuple(dict.fromkeys(flag for plan in plans for flag in plan.flags)),
    )


def own_table(joined: Plan, own: Plan, table: pa.Table, flags: bool = True) -> pa.Table:
    """The columns that `own` reads out of those that were prepared for `joined`.

    Hidden ones that name the events stay.
    """
    carried = [name for name in table.column_names if not name.startswith("__ensue_")]
    names = list(own.carried(carried))
    names += [name for name in _HIDDEN if name in table.column_names]
    columns = [table.column(name) for name in names]
    for index, expression in enumerate(own.inputs):
        names.append(input_name(index))
        columns.append(table.column(input_name(joined.inputs.index(expression))))
    if flags:
        for begin in range(0, len(own.flags), FLAGS_PER_COLUMN):
            packed = np.zeros(table.num_rows, np.int64)
            for bit, flag in enumerate(own.flags[begin : begin + FLAGS_PER_COLUMN]):
                place = joined.flags.index(flag)
                source = table.column(bits_name(place // FLAGS_PER_COLUMN)).to_numpy()
                holds = bits.packed_flag(source, place % FLAGS_PER_COLUMN)
                packed |= holds.astype(np.int64) << bit
            names.append(bits_name(begin // FLAGS_PER_COLUMN))
            columns.append(pa.chunked_array([pa.array(packed)]))
    if not names:
        return table
    return pa.table(columns, names=names)
