"""The expressions of quantitative queries: a stack machine over 64-bit cells.

An operation op(A1, ..., Am), the finish of an automaton and a fold given as SQL are small programs
of (operation, argument) pairs; `flatten.py` writes them. Each value has a mark: null, or what went
wrong, which is an error only if the value is asked for.
"""

from __future__ import annotations

import numpy as np
from numba import njit
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
)

# Operations of expressions, on a stack; the float form is the integer form + 1.
LOAD, TO_FLOAT = 0, 1
ADD, SUBTRACT, MULTIPLY, MODULO, NEGATE, ABSOLUTE, GREATEST, LEAST = 2, 4, 6, 8, 10, 12, 14, 16
DIVIDE_WHOLE = 18
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, SAME, GREATER, GREATER_EQUAL = 20, 22, 24, 26, 28, 30, 32
DIVIDE, ROOT, LOGARITHM, EXPONENTIAL, POWER = 40, 41, 42, 43, 44
AND, OR, NOT, IS_NULL, IS_TRUE, IS_FALSE, SELECT, COALESCE = 50, 51, 52, 53, 54, 55, 56, 57
# Of a narrow type: a float rounded to 32 bits, an integer as such a float, an integer's range.
TO_SINGLE, INT_TO_SINGLE, FIT_BITS = 60, 61, 62

# Marks of a value. A bad value is an error only if it is asked for (CASE may not choose it).
VALUE, NULL, OVERFLOW, BY_ZERO = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def run_code(
    code: NDArray[np.int64],
    begin: int,
    end: int,
    cells: NDArray[np.int64],
    cell_marks: NDArray[np.uint8],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    marks: NDArray[np.uint8],
) -> None:
    """Run an expression; the result is at the bottom of the stack."""
    top = -1
    for place in range(begin, end):
        operation, argument = code[place, 0], code[place, 1]
        if operation == LOAD:
            top += 1
            ints[top] = cells[argument]
            marks[top] = cell_marks[argument]
        elif operation == TO_FLOAT:
            if marks[top] == VALUE:
                floats[top] = float(ints[top])
        elif operation in (NEGATE, NEGATE + 1, ABSOLUTE, ABSOLUTE + 1):
            if marks[top] == VALUE:
                if operation == NEGATE + 1:
                    floats[top] = -floats[top]
                elif operation == ABSOLUTE + 1:
                    floats[top] = abs(floats[top])
                else:
                    if operation == NEGATE:
                        ints[top], fits = checked_negation(ints[top])
                    else:
                        ints[top], fits = checked_magnitude(ints[top])
                    if not fits:
                        marks[top] = OVERFLOW
        elif operation < DIVIDE:
            top -= 1
            _binary(operation, ints, floats, marks, top)
        elif operation in (DIVIDE, POWER):
            top -= 1
            if operation == POWER:
                marks[top] = _first_mark(marks[top], marks[top + 1])
            else:
                marks[top] = _first_mark(marks[top + 1], marks[top])
            if marks[top] == VALUE:
                if operation == POWER:
                    floats[top] = power(floats[top], floats[top + 1])
                elif floats[top + 1] == 0.0:
                    marks[top] = BY_ZERO
                else:
                    floats[top] = floats[top] / floats[top + 1]
        elif operation < AND:
            if marks[top] == VALUE:
                if operation == ROOT:
                    floats[top] = np.sqrt(floats[top]) if floats[top] >= 0.0 else np.nan
                elif operation == EXPONENTIAL:
                    floats[top] = np.exp(floats[top])
                elif floats[top] <= 0.0:
                    marks[top] = NULL  # as Spark's ln
                else:
                    floats[top] = np.log(floats[top])
        elif operation in (AND, OR):
            top -= 1
            decides = 0 if operation == AND else 1
            left, right = marks[top], marks[top + 1]
            if left == VALUE and ints[top] == decides:
                pass
            elif right == VALUE and ints[top + 1] == decides and left != OVERFLOW and left < 3:
                ints[top] = decides
                marks[top] = VALUE
            else:
                ints[top] = 1 - decides
                marks[top] = max(left, right)
        elif operation == NOT:
            ints[top] = 1 - ints[top]
        elif operation == IS_NULL:
            if marks[top] <= NULL:
                ints[top] = 1 if marks[top] == NULL else 0
                marks[top] = VALUE
        elif operation in (IS_TRUE, IS_FALSE):
            if marks[top] <= NULL:
                wanted = 1 if operation == IS_TRUE else 0
                ints[top] = 1 if marks[top] == VALUE and ints[top] == wanted else 0
                marks[top] = VALUE
        elif operation == SELECT:  # condition, value, otherwise
            top -= 2
            if marks[top] <= NULL:
                chosen = top + 1 if marks[top] == VALUE and ints[top] == 1 else top + 2
                ints[top] = ints[chosen]
                marks[top] = marks[chosen]
        elif operation == TO_SINGLE:
            if marks[top] == VALUE:
                floats[top] = single(floats[top])
        elif operation == INT_TO_SINGLE:
            if marks[top] == VALUE:
                floats[top] = float(np.float32(ints[top]))
        elif operation == FIT_BITS:
            if marks[top] == VALUE and not fits_bits(ints[top], argument):
                marks[top] = OVERFLOW
        elif operation == COALESCE:
            top -= 1
            if marks[top] == NULL:
                ints[top] = ints[top + 1]
                marks[top] = marks[top + 1]


@njit(cache=True, nogil=True)
def _first_mark(first: int, second: int) -> int:
    """Operands are asked in turn, up to one that is null or bad; a divisor before its dividend."""
    return first if first != VALUE else second


@njit(cache=True, nogil=True)
def _binary(
    operation: int,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    marks: NDArray[np.uint8],
    top: int,
) -> None:
    other = top + 1
    floating = operation % 2 == 1
    kind = operation - 1 if floating else operation
    if kind in (GREATEST, LEAST):
        if marks[top] > NULL or marks[other] == NULL:
            return
        if marks[top] == NULL or marks[other] > NULL:
            ints[top] = ints[other]
            marks[top] = marks[other]
            return
        order = order_of(floating, ints, floats, top, other)
        if (kind == GREATEST and order < 0) or (kind == LEAST and order > 0):
            ints[top] = ints[other]
        return
    if kind == SAME and max(marks[top], marks[other]) == NULL:
        ints[top] = 1 if marks[top] == marks[other] else 0
        marks[top] = VALUE
        return
    if kind == SAME:
        marks[top] = max(marks[top], marks[other])
    elif kind in (MODULO, DIVIDE_WHOLE):
        marks[top] = _first_mark(marks[other], marks[top])
    else:
        marks[top] = _first_mark(marks[top], marks[other])
    if marks[top] != VALUE:
        return
    if kind >= EQUAL:
        order = order_of(floating, ints, floats, top, other)
        if kind in (EQUAL, SAME):
            ints[top] = 1 if order == 0 else 0
        elif kind == NOT_EQUAL:
            ints[top] = 1 if order != 0 else 0
        elif kind == LESS:
            ints[top] = 1 if order < 0 else 0
        elif kind == GREATER:
            ints[top] = 1 if order > 0 else 0
        elif kind == GREATER_EQUAL:
            ints[top] = 1 if order >= 0 else 0
        else:
            ints[top] = 1 if order <= 0 else 0
    elif floating:
        if kind == ADD:
            floats[top] += floats[other]
        elif kind == SUBTRACT:
            floats[top] -= floats[other]
        elif kind == MULTIPLY:
            floats[top] *= floats[other]
        elif floats[other] == 0.0:
            marks[top] = BY_ZERO
        else:
            floats[top] = np.fmod(floats[top], floats[other])
    else:
        fits = True
        if kind == ADD:
            ints[top], fits = checked_sum(ints[top], ints[other])
        elif kind == SUBTRACT:
            ints[top], fits = checked_difference(ints[top], ints[other])
        elif kind == MULTIPLY:
            ints[top], fits = checked_product(ints[top], ints[other])
        elif ints[other] == 0:
            marks[top] = BY_ZERO
        elif kind == MODULO:
            ints[top] = remainder(ints[top], ints[other])
        else:
            ints[top], fits = checked_quotient(ints[top], ints[other])
        if not fits:
            marks[top] = OVERFLOW


@njit(cache=True, nogil=True)
def order_of(
    floating: bool, ints: NDArray[np.int64], floats: NDArray[np.float64], a: int, b: int
) -> int:
    if floating:
        return compare_floats(floats[a], floats[b])
    return -1 if ints[a] < ints[b] else (1 if ints[a] > ints[b] else 0)
