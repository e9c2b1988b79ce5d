"""A batch as the register machine of guards reads it: numbers in banks, strings by their rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.guards.compile import Guards
from ensue.guards.registers import GuardMachine
from ensue.operator.batch import unscaled
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.columns.time import wall_clock
from ensue.scalar.moments import in_zone

Live = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def load_banks(
    guards: Guards, columns: Mapping[str, pa.Array], length: int, live: Live | None = None
) -> GuardMachine | None:
    """The batch as the register machine reads it; None where a decimal does not fit 64 bits.

    `live`: the registers that are read ahead of each state, where these are not the program's.
    """
    ints = np.zeros((max(1, len(guards.int_inputs)), length), np.int64)
    floats = np.zeros((max(1, len(guards.float_inputs)), length), np.float64)
    int_nulls = np.zeros(ints.shape, np.bool_)
    float_nulls = np.zeros(floats.shape, np.bool_)
    dictionary = _dictionary(guards, columns)
    for index, name in enumerate(guards.int_inputs):
        if name in guards.clocks:
            column = _clock_readings(columns[guards.clocks[name][0]], guards.clocks[name][1])
        else:
            column = columns[name]
        if name in guards.text_inputs:
            ints[index] = pc.fill_null(pc.index_in(column, dictionary), 0).to_numpy()
        else:
            numbers = whole_numbers(column, guards.scales.get(name, 0))
            if numbers is None:
                return None
            ints[index] = numbers
        int_nulls[index] = column.is_null().to_numpy(zero_copy_only=False)
    for index, name in enumerate(guards.float_inputs):
        column = columns[name].cast(pa.float64())
        floats[index] = pc.fill_null(column, 0.0).to_numpy()
        float_nulls[index] = column.is_null().to_numpy(zero_copy_only=False)
    constants = guards.int_constants.copy()
    if guards.literals:
        ranks = pc.index_in(pa.array(guards.literals, pa.string()), dictionary).to_numpy()
        constants[len(constants) - len(guards.literals) :] = ranks
    return GuardMachine(
        guards.code,
        guards.guard_offset,
        guards.updates,
        guards.applies,
        *(live or (guards.live_ints, guards.live_floats)),
        guards.initial_ints,
        guards.initial_floats,
        ints,
        floats,
        int_nulls,
        float_nulls,
        constants,
        guards.float_constants,
        np.zeros(guards.cells, np.int64),
        np.zeros(guards.cells, np.float64),
        np.zeros(guards.cells, np.bool_),
    )


def _dictionary(guards: Guards, columns: Mapping[str, pa.Array]) -> pa.Array:
    """All strings the guards may meet in this batch, sorted: a string's rank stands for it."""
    parts = [pc.unique(columns[name].cast(pa.string())) for name in guards.text_inputs]
    parts.append(pa.array(guards.literals, pa.string()))
    values = pc.unique(pa.concat_arrays(parts)).drop_null()
    return values.take(pc.sort_indices(values))


def _clock_readings(column: pa.Array, zone: str) -> pa.Array:
    instants = column.cast(pa.timestamp("us", zone), safe=False)
    readings = wall_clock(instants, from_arrow(instants.type))
    if readings is not None:
        return readings
    values = in_zone(instants.to_pylist(), instants.type)
    walls = [value and value.replace(tzinfo=None) for value in values]
    return pa.array(walls, pa.timestamp("us"))


def whole_numbers(column: pa.Array, scale: int) -> NDArray[np.int64] | None:
    """Whole numbers, booleans and times as 64 bits, null as 0; None: a decimal that has more."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_decimal(kind):
        return unscaled(column, scale)
    elif pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    numbers: NDArray[np.int64] = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(
        zero_copy_only=False
    )
    return numbers
