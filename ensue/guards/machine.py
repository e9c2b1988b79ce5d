"""A small register machine for conditions that read the match so far.

Guards are data, not generated code: one compiled loop serves every pattern, so a new pattern costs
no compilation in any worker and nothing a user wrote is ever executed. An instruction is
(operation, destination, a, b) over two banks of cells, integers and floats, each cell with a null
mark; strings arrive as ranks, times as microseconds, so comparisons need no third bank.

A *register* belongs to a partial match and is updated when a row joins it: a row number, a count, a
sum or an extremum over the rows of a variable.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ensue.kernels.arithmetic import (
    checked_difference,
    checked_magnitude,
    checked_negation,
    checked_product,
    checked_quotient,
    checked_sum,
    compare_floats,
    fits_bits,
    power,
    remainder,
    single,
    unscaled_is_exact,
)
from ensue.kernels.calls import borrowing, inner

# Row numbers, into an integer cell; null where there is no such row.
ROW, LAST_ROW, FIRST_ROW, REGISTER_ROW, SHIFT_ROW = 0, 1, 2, 3, 4
# Values.
LOAD_INT, LOAD_FLOAT, INT_REGISTER, FLOAT_REGISTER, NUMBER = 10, 11, 12, 13, 14
INT_CONSTANT, FLOAT_CONSTANT, NULL, TO_FLOAT, MOVE_INT, MOVE_FLOAT = 15, 16, 17, 18, 19, 20
# Of a narrow type: a float rounded to 32 bits, an integer as such a float, an integer's range.
TO_SINGLE, INT_TO_SINGLE, FIT_BITS = 21, 22, 23
# Arithmetic; the float form is the integer form + 1.
ADD, SUBTRACT, MULTIPLY, MODULO, NEGATE, ABSOLUTE = 30, 32, 34, 36, 38, 40
DIVIDE_FLOAT, DIVIDE_WHOLE = 42, 43
# Of floats alone; LOGARITHM gives null where there is none.
ROOT, EXPONENTIAL, LOGARITHM, POWER = 44, 45, 46, 47
# Comparison; the float form is the integer form + 1. The extremes skip a null.
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, SAME, GREATEST, LEAST = 50, 52, 54, 56, 58, 60, 62
# Logic and control.
NOT, IS_NULL, IS_TRUE, IS_FALSE = 70, 71, 72, 73
AND, OR = 74, 75
JUMP, JUMP_UNLESS_TRUE, JUMP_IF_FALSE, JUMP_IF_TRUE, JUMP_IF_VALUE = 80, 81, 82, 83, 84
JUMP_IF_NULL = 85  # which then is the result

# Register updates.
KEEP_LAST, KEEP_FIRST, COUNT_ROWS, COUNT_VALUES = 0, 1, 2, 3
SUM_INT, SUM_FLOAT, MIN_INT, MIN_FLOAT, MAX_INT, MAX_FLOAT = 4, 5, 6, 7, 8, 9

TRUE, FALSE, OVERFLOW, BY_ZERO = 1, 0, -1, -2
NO_ROW, MISSING_ROW = -1, -2  # in a register: no such row yet; it stands for a missing event


@inner
def float_function(operation: int, a: int, target: int, floats: NDArray[np.float64]) -> bool:
    """A function of one float, as Spark's; True where it is null."""
    number = floats[a]
    if operation == ROOT:
        floats[target] = np.sqrt(number) if number >= 0.0 else np.nan
    elif operation == EXPONENTIAL:
        floats[target] = np.exp(number)
    elif number <= 0.0:
        return True
    else:
        floats[target] = np.log(number)
    return False


@inner
def extreme(
    operation: int,
    a: int,
    b: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
) -> int:
    """The cell of the greater or lesser value; the first of equal ones."""
    if nulls[a] or nulls[b]:
        return b if nulls[a] else a
    if operation & 1:
        order = compare_floats(floats[a], floats[b])
    else:
        order = int(ints[a] > ints[b]) - int(ints[a] < ints[b])
    if operation >= LEAST:
        order = -order
    return b if order < 0 else a


@inner
def run_guard(
    code: NDArray[np.int64],  # [instruction, (operation, destination, a, b)]
    begin: int,
    end: int,
    row: int,
    start: int,
    first: int,  # bounds of the partition, for physical shifts
    last: int,
    number: int,
    int_registers: NDArray[np.int64],
    float_registers: NDArray[np.float64],
    int_columns: NDArray[np.int64],  # [column, row]
    float_columns: NDArray[np.float64],
    int_nulls: NDArray[np.bool_],
    float_nulls: NDArray[np.bool_],
    int_constants: NDArray[np.int64],
    float_constants: NDArray[np.float64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    nulls: NDArray[np.bool_],
) -> int:
    """TRUE, FALSE (also for null), OVERFLOW or BY_ZERO; the result is in the last destination."""
    place = begin
    target = 0
    while place < end:
        operation = code[place, 0]
        target = code[place, 1]
        a, b = code[place, 2], code[place, 3]
        place += 1
        if operation < 10:
            null = False
            found = row
            if operation == LAST_ROW:
                found = row - a
                null = found < start
            elif operation == FIRST_ROW:
                found = start + a
                null = found > row
            elif operation == REGISTER_ROW:
                found = int_registers[a]
                null = found < 0
            elif operation == SHIFT_ROW:
                found = ints[a] + b
                null = nulls[a] or found < first or found >= last
            ints[target] = found
            nulls[target] = null
        elif operation < 30:
            if operation == LOAD_INT:
                nulls[target] = nulls[a] or int_nulls[b, ints[a]]
                if not nulls[target]:
                    ints[target] = int_columns[b, ints[a]]
            elif operation == LOAD_FLOAT:
                nulls[target] = nulls[a] or float_nulls[b, ints[a]]
                if not nulls[target]:
                    floats[target] = float_columns[b, ints[a]]
            elif operation == INT_REGISTER:
                ints[target] = int_registers[a]
                nulls[target] = b >= 0 and int_registers[b] == 0
            elif operation == FLOAT_REGISTER:
                floats[target] = float_registers[a]
                nulls[target] = b >= 0 and int_registers[b] == 0
            elif operation == NUMBER:
                ints[target] = number
                nulls[target] = False
            elif operation == INT_CONSTANT:
                ints[target] = int_constants[a]
                nulls[target] = False
            elif operation == FLOAT_CONSTANT:
                floats[target] = float_constants[a]
                nulls[target] = False
            elif operation == NULL:
                nulls[target] = True
            elif operation == TO_FLOAT:
                nulls[target] = nulls[a]
                if not nulls[a]:
                    if float_constants[b] != 1.0 and not unscaled_is_exact(ints[a]):
                        return OVERFLOW
                    floats[target] = float(ints[a]) / float_constants[b]
            elif operation == TO_SINGLE:
                floats[target] = single(floats[a])
                nulls[target] = nulls[a]
            elif operation == INT_TO_SINGLE:
                floats[target] = float(np.float32(ints[a]))
                nulls[target] = nulls[a]
            elif operation == FIT_BITS:
                if not nulls[a] and not fits_bits(ints[a], b):
                    return OVERFLOW
                ints[target] = ints[a]
                nulls[target] = nulls[a]
            elif operation == MOVE_INT:
                ints[target] = ints[a]
                nulls[target] = nulls[a]
            elif operation == MOVE_FLOAT:
                floats[target] = floats[a]
                nulls[target] = nulls[a]
        elif operation < 50:
            fits = True
            if operation in (NEGATE, ABSOLUTE):
                nulls[target] = nulls[a]
                if not nulls[a]:
                    if operation == NEGATE:
                        ints[target], fits = checked_negation(ints[a])
                    else:
                        ints[target], fits = checked_magnitude(ints[a])
                    if not fits:
                        return OVERFLOW
                continue
            if operation == NEGATE + 1 or operation == ABSOLUTE + 1:
                nulls[target] = nulls[a]
                floats[target] = -floats[a] if operation == NEGATE + 1 else abs(floats[a])
                continue
            if ROOT <= operation <= LOGARITHM:
                nulls[target] = nulls[a]
                if not nulls[a]:
                    nulls[target] = float_function(operation, a, target, floats)
                continue
            nulls[target] = nulls[a] or nulls[b]
            if nulls[target]:
                continue
            if operation == ADD:
                ints[target], fits = checked_sum(ints[a], ints[b])
            elif operation == SUBTRACT:
                ints[target], fits = checked_difference(ints[a], ints[b])
            elif operation == MULTIPLY:
                ints[target], fits = checked_product(ints[a], ints[b])
            elif operation == MODULO:
                if ints[b] == 0:
                    return BY_ZERO
                ints[target] = remainder(ints[a], ints[b])
            elif operation == ADD + 1:
                floats[target] = floats[a] + floats[b]
            elif operation == SUBTRACT + 1:
                floats[target] = floats[a] - floats[b]
            elif operation == MULTIPLY + 1:
                floats[target] = floats[a] * floats[b]
            elif operation == MODULO + 1:
                if floats[b] == 0.0:
                    return BY_ZERO
                floats[target] = np.fmod(floats[a], floats[b])
            elif operation == DIVIDE_FLOAT:
                if floats[b] == 0.0:
                    return BY_ZERO
                floats[target] = floats[a] / floats[b]
            elif operation == DIVIDE_WHOLE:
                if ints[b] == 0:
                    return BY_ZERO
                ints[target], fits = checked_quotient(ints[a], ints[b])
            elif operation == POWER:
                floats[target] = power(floats[a], floats[b])
            if not fits:
                return OVERFLOW
        elif operation < 70:
            if operation == SAME or operation == SAME + 1:
                if nulls[a] or nulls[b]:
                    ints[target] = nulls[a] and nulls[b]
                elif operation == SAME:
                    ints[target] = ints[a] == ints[b]
                else:
                    ints[target] = compare_floats(floats[a], floats[b]) == 0
                nulls[target] = False
                continue
            if operation >= GREATEST:
                chosen = extreme(operation, a, b, ints, floats, nulls)
                nulls[target] = nulls[chosen]
                if operation & 1:
                    floats[target] = floats[chosen]
                else:
                    ints[target] = ints[chosen]
                continue
            nulls[target] = nulls[a] or nulls[b]
            if nulls[target]:
                continue
            if operation & 1:
                order = compare_floats(floats[a], floats[b])
                operation -= 1
            else:
                order = -1 if ints[a] < ints[b] else (1 if ints[a] > ints[b] else 0)
            if operation == EQUAL:
                ints[target] = order == 0
            elif operation == NOT_EQUAL:
                ints[target] = order != 0
            elif operation == LESS:
                ints[target] = order < 0
            else:
                ints[target] = order <= 0
        elif operation < 80:
            if operation == NOT:
                ints[target] = 1 - ints[a]
                nulls[target] = nulls[a]
            elif operation == IS_NULL:
                ints[target] = nulls[a]
                nulls[target] = False
            elif operation == IS_TRUE:
                ints[target] = not nulls[a] and ints[a] != 0
                nulls[target] = False
            elif operation == IS_FALSE:
                ints[target] = not nulls[a] and ints[a] == 0
                nulls[target] = False
            elif operation == AND:
                false = (not nulls[a] and ints[a] == 0) or (not nulls[b] and ints[b] == 0)
                nulls[target] = not false and (nulls[a] or nulls[b])
                ints[target] = 0 if false else 1
            elif operation == OR:
                true = (not nulls[a] and ints[a] != 0) or (not nulls[b] and ints[b] != 0)
                nulls[target] = not true and (nulls[a] or nulls[b])
                ints[target] = 1 if true else 0
        elif operation == JUMP:
            place = b
        elif operation == JUMP_UNLESS_TRUE:
            if nulls[a] or ints[a] == 0:
                place = b
        elif operation == JUMP_IF_FALSE:
            if not nulls[a] and ints[a] == 0:
                place = b
        elif operation == JUMP_IF_TRUE:
            if not nulls[a] and ints[a] != 0:
                place = b
        elif operation == JUMP_IF_VALUE:
            if not nulls[a]:
                place = b
        elif operation == JUMP_IF_NULL and nulls[a]:
            nulls[target] = True
            place = b
    return TRUE if not nulls[target] and ints[target] != 0 else FALSE


@borrowing
def run_cells(
    code: NDArray[np.int64],
    begin: int,
    end: int,
    cells: NDArray[np.int64],
    floats: NDArray[np.float64],  # the same cells
    nulls: NDArray[np.bool_],
    no_floats: NDArray[np.float64],  # two tables that are never read
    no_nulls: NDArray[np.bool_],
) -> int:
    """As `run_guard`, for code that reads no rows: arguments and constants are cells as well."""
    return run_guard(
        code, begin, end, 0, 0, 0, 0, 0, cells, floats, code, no_floats, no_nulls, no_nulls,
        cells, floats, cells, floats, nulls,
    )  # fmt: skip


@inner
def update_registers(
    updates: NDArray[np.int64],  # [update, (kind, register, column, where, count register, arg)]
    applies: NDArray[np.bool_],  # per update: whether the row's label belongs to it
    row: int,
    int_registers: NDArray[np.int64],
    float_registers: NDArray[np.float64],
    int_columns: NDArray[np.int64],
    float_columns: NDArray[np.float64],
    int_nulls: NDArray[np.bool_],
    float_nulls: NDArray[np.bool_],
) -> bool:
    """The registers after `row` joined; False where an integer sum overflows."""
    for index in range(updates.shape[0]):
        if not applies[index]:
            continue
        kind, register = updates[index, 0], updates[index, 1]
        column, where = updates[index, 2], updates[index, 3]
        if where >= 0 and (int_nulls[where, row] or int_columns[where, row] == 0):
            continue
        if kind == KEEP_LAST:
            for slot in range(register + updates[index, 5], register, -1):
                int_registers[slot] = int_registers[slot - 1]
            int_registers[register] = row
        elif kind == KEEP_FIRST:
            # One slot per occurrence up to the one wanted; the first empty one is filled.
            for slot in range(register, register + updates[index, 5] + 1):
                if int_registers[slot] == NO_ROW:
                    int_registers[slot] = row
                    break
        elif kind == COUNT_ROWS:
            int_registers[register] += 1
        elif kind == COUNT_VALUES:
            null = float_nulls[column, row] if updates[index, 5] else int_nulls[column, row]
            if not null:
                int_registers[register] += 1
        elif kind in (SUM_INT, MIN_INT, MAX_INT):
            if int_nulls[column, row]:
                continue
            value, kept = int_columns[column, row], int_registers[register]
            fresh = int_registers[updates[index, 4]] == 1  # the count is updated before
            if kind == SUM_INT:
                total, fits = checked_sum(kept, value)
                if not fits:
                    return False
                int_registers[register] = total
            elif fresh or (value < kept if kind == MIN_INT else value > kept):
                int_registers[register] = value
        else:
            if float_nulls[column, row]:
                continue
            number, before = float_columns[column, row], float_registers[register]
            fresh = int_registers[updates[index, 4]] == 1
            if kind == SUM_FLOAT:
                float_registers[register] = number if fresh else before + number
            elif fresh or compare_floats(number, before) == (-1 if kind == MIN_FLOAT else 1):
                float_registers[register] = number
    return True


@inner
def miss_registers(
    updates: NDArray[np.int64], applies: NDArray[np.bool_], int_registers: NDArray[np.int64]
) -> None:
    """The registers after an event of a label was found missing: rows only; sums know nothing."""
    for index in range(updates.shape[0]):
        if not applies[index]:
            continue
        register = updates[index, 1]
        if updates[index, 0] == KEEP_LAST:
            for slot in range(register + updates[index, 5], register, -1):
                int_registers[slot] = int_registers[slot - 1]
            int_registers[register] = MISSING_ROW
        elif updates[index, 0] == KEEP_FIRST:
            for slot in range(register, register + updates[index, 5] + 1):
                if int_registers[slot] == NO_ROW:
                    int_registers[slot] = MISSING_ROW
                    break
