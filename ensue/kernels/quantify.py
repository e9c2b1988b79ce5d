"""One loop for every numeric quantitative query (streaming automata, Figures 6 and 7, flattened).

The hierarchy is laid out flat: every state of every automaton occurrence is one number, and a
token is a run of slots, first those of the automata above (outermost first), then its own. A step
copies a token and folds weights into its own slots. After all steps of an event, *returns* and
silent moves run bottom-up (an automaton that ended hands the token below the top back to its
caller), then *starts* run top-down. Nothing is allocated per event; a query is data, so a new one
costs no compilation. A token that the next event cannot move, and that ends nothing, is not made
at all: most guesses of a nondeterministic query die here, before their value is computed. Slots
are 64 bits, read as integers or floats, each with a null mark.

Cost per event: one test per transition, and the depth of a token for each transition taken; at
most quadratic in the size of the automaton (Theorem 4). The folds stand inside the loop and arrays
are read through locals: passing the program to a function would cost more than the fold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.kernels.guards import compare_floats, wrapped_difference, wrapped_sum

# Folds; the code in a program is twice this, plus one where the slot is a float.
REPLACE, LAST, FIRST, SUM, PRODUCT, MIN, MAX, COUNT, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8
ANY, ALL, ARGMAX, ARGMIN, MOMENTS, CODE = 9, 10, 11, 12, 13, 14
FOLDS = {
    "replace": REPLACE,
    "last": LAST,
    "first": FIRST,
    "sum": SUM,
    "product": PRODUCT,
    "min": MIN,
    "max": MAX,
    "count": COUNT,
    "rows": ROWS,
    "any": ANY,
    "all": ALL,
    "argmax": ARGMAX,
    "argmin": ARGMIN,
    "moments": MOMENTS,
}
# Operations of expressions, on a stack; the float form is the integer form + 1.
LOAD, TO_FLOAT = 0, 1
ADD, SUBTRACT, MULTIPLY, MODULO, NEGATE, ABSOLUTE, GREATEST, LEAST = 2, 4, 6, 8, 10, 12, 14, 16
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, SAME = 20, 22, 24, 26, 28
DIVIDE, ROOT, LOGARITHM, EXPONENTIAL, POWER = 40, 41, 42, 43, 44
AND, OR, NOT, IS_NULL, IS_TRUE, IS_FALSE, SELECT, COALESCE = 50, 51, 52, 53, 54, 55, 56, 57

# Marks of a value. A bad value is an error only if it is asked for (CASE may not choose it).
VALUE, NULL, OVERFLOW, BY_ZERO = 0, 1, 2, 3
RETURN, SILENT, STEP = 0, 1, 2
OUTPUT = 1 << 61
UNDEFINED = 9  # mark of an output where the query is not defined


class Program(NamedTuple):
    """A hierarchy as arrays; ranges are (begin, end) pairs of neighbouring columns."""

    base: NDArray[np.int64]  # per state: first slot
    own: NDArray[np.int64]  # per state: first slot of its own automaton
    depth: NDArray[np.int64]  # per state: number of slots
    live: NDArray[np.int64]  # per state: predicates that can move a token on it; OUTPUT: ends all
    # kind, predicate mask or call, source, target, actions begin, end; steps first, then bottom up
    moves: NDArray[np.int64]
    actions: NDArray[np.int64]  # code, slot, weight, weight, code begin, end
    calls: NDArray[np.int64]  # automata begin, end, code begin, end
    called: NDArray[np.int64]  # automata of the calls
    automata: NDArray[np.int64]  # finals begin, end, first cell of the slots at its end, width
    finals: NDArray[np.int64]
    starts: NDArray[np.int64]  # source state, tokens begin, end; parents first
    tokens: NDArray[np.int64]  # state, whether it takes the stack of the source, first constant
    initial_bits: NDArray[np.int64]
    initial_marks: NDArray[np.uint8]
    root: NDArray[np.int64]  # tokens begin, end of the outermost automaton, code begin, end
    code: NDArray[np.int64]  # operation, argument
    cells: NDArray[np.int64]  # constants, arguments, outputs
    cell_marks: NDArray[np.uint8]
    join: int  # of rank 0 with ambiguity: the fold that joins paths on one state; else -1
    slots: int
    result_cell: int
    argument_cell: int


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
                elif ints[top] == np.iinfo(np.int64).min:
                    marks[top] = OVERFLOW
                elif operation == NEGATE or ints[top] < 0:
                    ints[top] = -ints[top]
        elif operation < DIVIDE:
            top -= 1
            _binary(operation, ints, floats, marks, top)
        elif operation in (DIVIDE, POWER):
            top -= 1
            marks[top] = max(marks[top], marks[top + 1])
            if marks[top] == VALUE:
                if operation == POWER:
                    floats[top] = floats[top] ** floats[top + 1]
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
        elif operation == COALESCE:
            top -= 1
            if marks[top] == NULL:
                ints[top] = ints[top + 1]
                marks[top] = marks[top + 1]


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
        order = _order(floating, ints, floats, top, other)
        if (kind == GREATEST and order < 0) or (kind == LEAST and order > 0):
            ints[top] = ints[other]
        return
    if kind == SAME and max(marks[top], marks[other]) == NULL:
        ints[top] = 1 if marks[top] == marks[other] else 0
        marks[top] = VALUE
        return
    marks[top] = max(marks[top], marks[other])
    if marks[top] != VALUE:
        return
    if kind >= EQUAL:
        order = _order(floating, ints, floats, top, other)
        if kind in (EQUAL, SAME):
            ints[top] = 1 if order == 0 else 0
        elif kind == NOT_EQUAL:
            ints[top] = 1 if order != 0 else 0
        elif kind == LESS:
            ints[top] = 1 if order < 0 else 0
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
        a, b = ints[top], ints[other]
        if kind == ADD:
            ints[top] = wrapped_sum(a, b)
            if ((a ^ ints[top]) & (b ^ ints[top])) < 0:
                marks[top] = OVERFLOW
        elif kind == SUBTRACT:
            ints[top] = wrapped_difference(a, b)
            if ((a ^ b) & (a ^ ints[top])) < 0:
                marks[top] = OVERFLOW
        elif kind == MULTIPLY:
            ints[top] = a * b
            if product_overflows(a, b):
                marks[top] = OVERFLOW
        elif b == 0:
            marks[top] = BY_ZERO
        else:
            remainder = a - b * int(a / b) if abs(a) < 1 << 53 and abs(b) < 1 << 53 else a % b
            if remainder != 0 and (remainder < 0) != (a < 0):
                remainder -= b
            ints[top] = remainder


@njit(cache=True, nogil=True)
def product_overflows(a: int, b: int) -> bool:
    if a == 0 or b == 0:
        return False
    if abs(float(a) * float(b)) < 9.0e18:
        return False
    if abs(float(a) * float(b)) > 9.3e18:
        return True
    product = a * b
    return (a == -1 and b == np.iinfo(np.int64).min) or product // b != a


@njit(cache=True, nogil=True)
def _order(
    floating: bool, ints: NDArray[np.int64], floats: NDArray[np.float64], a: int, b: int
) -> int:
    if floating:
        return compare_floats(floats[a], floats[b])
    return -1 if ints[a] < ints[b] else (1 if ints[a] > ints[b] else 0)


@njit(cache=True, nogil=True)
def join_slots(
    join: int,
    bits: NDArray[np.int64],
    floats: NDArray[np.float64],
    marks: NDArray[np.uint8],
    into: int,
    other: int,
) -> bool:
    """⊕ of two slots; False where a sum leaves 64 bits."""
    if marks[other] != VALUE:
        return True
    if marks[into] != VALUE:
        bits[into], marks[into] = bits[other], VALUE
        return True
    fold, floating = join >> 1, (join & 1) == 1
    if fold == SUM:
        if floating:
            floats[into] += floats[other]
            return True
        total = wrapped_sum(bits[into], bits[other])
        if ((bits[into] ^ total) & (bits[other] ^ total)) < 0:
            return False
        bits[into] = total
    elif fold == ANY:
        bits[into] |= bits[other]
    elif fold == ALL:
        bits[into] &= bits[other]
    else:
        order = _order(floating, bits, floats, other, into)
        if order != 0 and (order > 0) == (fold == MAX):
            bits[into] = bits[other]
    return True


@njit(cache=True, nogil=True)
def run(
    program: Program,
    letters: NDArray[np.int64],
    weights: NDArray[np.int64],  # [weight, row]
    weight_marks: NDArray[np.uint8],
    starts: NDArray[np.int64],
    fresh: NDArray[np.bool_],  # per partition: starts anew; else it goes on from what was kept
    kept: NDArray[np.int64],  # per partition: where its state is kept, or -1
    kept_occupied: NDArray[np.bool_],  # [place, state], in and out
    kept_bits: NDArray[np.int64],
    kept_marks: NDArray[np.uint8],
    streaming: bool,
    out_bits: NDArray[np.int64],  # per row where streaming
    out_marks: NDArray[np.uint8],
    end_bits: NDArray[np.int64],  # per partition
    end_marks: NDArray[np.uint8],
    fault: NDArray[np.int64],  # what went wrong, and at which row
) -> None:
    base, own, depth, moves = program.base, program.own, program.depth, program.moves
    actions, calls, called = program.actions, program.calls, program.called
    automata, finals, invoked = program.automata, program.finals, program.starts
    tokens, initial_bits = program.tokens, program.initial_bits
    initial_marks, code = program.initial_marks, program.code
    root_begin, root_end = program.root[0], program.root[1]
    result_cell, argument_cell = program.result_cell, program.argument_cell
    states, slots, live = len(base), program.slots, program.live
    # Tokens before and after an event stand side by side in one array; `now` and `then` swap.
    occupied = np.zeros(2 * states, np.bool_)
    # The last slot holds a path until it is joined with another on its state.
    bits, marks = np.zeros(2 * slots + 1, np.int64), np.ones(2 * slots + 1, np.uint8)
    join, joined = program.join, False
    floats = bits.view(np.float64)
    stack, stack_marks = np.zeros(64, np.int64), np.zeros(64, np.uint8)
    stack_floats = stack.view(np.float64)
    cells, cell_marks = program.cells.copy(), program.cell_marks.copy()
    cell_floats = cells.view(np.float64)
    weight_floats = weights.view(np.float64)
    now, then = 0, 1
    for partition in range(len(starts) - 1):
        keep = kept[partition]
        first_row = starts[partition]
        idle = not fresh[partition] and first_row == starts[partition + 1]
        if fresh[partition] or idle:
            first_row -= 1  # a round that reads no event places the first tokens, or only looks
        if not fresh[partition]:
            for state in range(states):
                occupied[now * states + state] = kept_occupied[keep, state]
            for slot in range(slots):
                bits[now * slots + slot] = kept_bits[keep, slot]
                marks[now * slots + slot] = kept_marks[keep, slot]
        for row in range(first_row, starts[partition + 1]):
            following = np.int64(-1)
            if row + 1 < starts[partition + 1]:
                following = letters[row + 1] | OUTPUT if streaming else letters[row + 1]
            before, after = now * slots, then * slots
            here, there = now * states, then * states
            if not idle:
                for state in range(states):
                    occupied[there + state] = False
            if idle:
                pass
            elif row < starts[partition]:
                for index in range(root_begin, root_end):
                    state, constant = tokens[index, 0], tokens[index, 2]
                    for part in range(depth[state]):
                        bits[after + base[state] + part] = initial_bits[constant + part]
                        marks[after + base[state] + part] = initial_marks[constant + part]
                    occupied[there + state] = True
            else:
                letter = letters[row]
                for index in range(moves.shape[0]):
                    if live[moves[index, 3]] & following == 0:
                        continue
                    kind = moves[index, 0]
                    if kind == STEP:
                        source = moves[index, 2]
                        if not occupied[here + source] or letter & moves[index, 1] == 0:
                            continue
                        origin = before + base[source]
                    elif kind == SILENT:
                        source = moves[index, 2]
                        if not occupied[there + source]:
                            continue
                        origin = after + base[source]
                    else:
                        call = moves[index, 1]
                        source = -1
                        for which in range(calls[call, 0], calls[call, 1]):
                            automaton = called[which]
                            found = -1
                            for final in range(automata[automaton, 0], automata[automaton, 1]):
                                if occupied[there + finals[final]]:
                                    found = finals[final]
                                    break
                            if found < 0:
                                source = -1
                                break
                            slot, cell = after + own[found], automata[automaton, 2]
                            for part in range(automata[automaton, 3]):
                                cells[cell + part] = bits[slot + part]
                                cell_marks[cell + part] = marks[slot + part]
                            if which == calls[call, 0]:
                                source = found
                        if source < 0:
                            continue
                        begin, end = calls[call, 2], calls[call, 3]
                        if begin == end:
                            cell = automata[called[calls[call, 0]], 2]
                            cells[result_cell] = cells[cell]
                            cell_marks[result_cell] = cell_marks[cell]
                        else:
                            run_code(
                                code,
                                begin,
                                end,
                                cells,
                                cell_marks,
                                stack,
                                stack_floats,
                                stack_marks,
                            )
                            if stack_marks[0] > NULL:
                                fault[0], fault[1] = stack_marks[0], row
                                return
                            cells[result_cell] = stack[0]
                            cell_marks[result_cell] = stack_marks[0]
                        origin = after + base[source]
                    target = moves[index, 3]
                    joined = join >= 0 and occupied[there + target]
                    place = 2 * slots if joined else after + base[target]
                    for part in range(depth[target]):
                        bits[place + part] = bits[origin + part]
                        marks[place + part] = marks[origin + part]
                    occupied[there + target] = True
                    if not joined:
                        place = after + own[target]
                    for action in range(moves[index, 4], moves[index, 5]):
                        slot = place + actions[action, 1]
                        weight = actions[action, 2]
                        if weight >= 0:
                            value, mark = weights[weight, row], weight_marks[weight, row]
                            number = weight_floats[weight, row]
                        else:
                            value, mark = cells[-1 - weight], cell_marks[-1 - weight]
                            number = cell_floats[-1 - weight]
                        fold, floating = actions[action, 0] >> 1, (actions[action, 0] & 1) == 1
                        if fold == REPLACE:
                            bits[slot] = value
                            marks[slot] = mark
                        elif fold == CODE:
                            cells[argument_cell] = bits[slot]
                            cell_marks[argument_cell] = marks[slot]
                            cells[argument_cell + 1] = value
                            cell_marks[argument_cell + 1] = mark
                            run_code(
                                code,
                                actions[action, 4],
                                actions[action, 5],
                                cells,
                                cell_marks,
                                stack,
                                stack_floats,
                                stack_marks,
                            )
                            if stack_marks[0] > NULL:
                                fault[0], fault[1] = stack_marks[0], row
                                return
                            bits[slot] = stack[0]
                            marks[slot] = stack_marks[0]
                        elif fold in (COUNT, ROWS):
                            if marks[slot] != VALUE:
                                bits[slot] = 0
                                marks[slot] = VALUE
                            if fold == ROWS or mark == VALUE:
                                bits[slot] += 1
                        elif fold == MOMENTS:
                            for part in range(3):
                                if marks[slot + part] != VALUE:
                                    bits[slot + part] = 0
                                    marks[slot + part] = VALUE
                            if mark == VALUE:
                                bits[slot] += 1
                                distance = number - floats[slot + 1]
                                floats[slot + 1] += distance / bits[slot]
                                floats[slot + 2] += distance * (number - floats[slot + 1])
                        elif mark != VALUE:
                            pass
                        elif fold in (ARGMAX, ARGMIN):
                            take = marks[slot] != VALUE
                            if not take:
                                if floating:
                                    order = compare_floats(number, floats[slot])
                                else:
                                    order = int(value > bits[slot]) - int(value < bits[slot])
                                take = order > 0 if fold == ARGMAX else order < 0
                            if take:
                                bits[slot] = value
                                marks[slot] = VALUE
                                second = actions[action, 3]
                                if second >= 0:
                                    bits[slot + 1] = weights[second, row]
                                    marks[slot + 1] = weight_marks[second, row]
                                else:
                                    bits[slot + 1] = cells[-1 - second]
                                    marks[slot + 1] = cell_marks[-1 - second]
                        elif marks[slot] != VALUE:
                            bits[slot] = value
                            marks[slot] = VALUE
                        elif fold == SUM:
                            if floating:
                                floats[slot] += number
                            else:
                                total = wrapped_sum(bits[slot], value)
                                if ((bits[slot] ^ total) & (value ^ total)) < 0:
                                    fault[0], fault[1] = OVERFLOW, row
                                    return
                                bits[slot] = total
                        elif fold in (MAX, MIN):
                            if floating:
                                order = compare_floats(number, floats[slot])
                            else:
                                order = int(value > bits[slot]) - int(value < bits[slot])
                            if order != 0 and (order > 0) == (fold == MAX):
                                bits[slot] = value
                        elif fold == LAST:
                            bits[slot] = value
                        elif fold == PRODUCT:
                            if floating:
                                floats[slot] *= number
                            else:
                                if product_overflows(bits[slot], value):
                                    fault[0], fault[1] = OVERFLOW, row
                                    return
                                bits[slot] *= value
                        elif fold == ANY:
                            bits[slot] |= value
                        elif fold == ALL:
                            bits[slot] &= value
                    if joined and not join_slots(
                        join, bits, floats, marks, after + own[target], place
                    ):
                        fault[0], fault[1] = OVERFLOW, row
                        return
            for index in range(invoked.shape[0]):
                source = invoked[index, 0]
                if idle or not occupied[there + source]:
                    continue
                origin = after + base[source]
                for token in range(invoked[index, 1], invoked[index, 2]):
                    state, constant = tokens[token, 0], tokens[token, 2]
                    if live[state] & following == 0:
                        continue
                    place = after + base[state]
                    below = own[state] - base[state]
                    if tokens[token, 1]:
                        for part in range(below):
                            bits[place + part] = bits[origin + part]
                            marks[place + part] = marks[origin + part]
                    for part in range(depth[state] - below):
                        bits[place + below + part] = initial_bits[constant + part]
                        marks[place + below + part] = initial_marks[constant + part]
                    occupied[there + state] = True
            if not idle:
                now, then = then, now
            last = row == starts[partition + 1] - 1
            if not last and not (streaming and row >= starts[partition]):
                continue
            found = -1
            for final in range(automata[0, 0], automata[0, 1]):
                if occupied[now * states + finals[final]]:
                    found = finals[final]
                    break
            mark = np.uint8(UNDEFINED)
            if found >= 0:
                slot, cell = now * slots + own[found], automata[0, 2]
                for part in range(automata[0, 3]):
                    cells[cell + part] = bits[slot + part]
                    cell_marks[cell + part] = marks[slot + part]
                if join >= 0:
                    # Paths that end in different states are joined in the spare slot.
                    bits[2 * slots], marks[2 * slots] = bits[slot], marks[slot]
                    for final in range(automata[0, 0], automata[0, 1]):
                        other = finals[final]
                        if other != found and occupied[now * states + other]:
                            slot = now * slots + own[other]
                            if not join_slots(join, bits, floats, marks, 2 * slots, slot):
                                fault[0], fault[1] = OVERFLOW, max(row, 0)
                                return
                    cells[cell], cell_marks[cell] = bits[2 * slots], marks[2 * slots]
                begin, end = program.root[2], program.root[3]
                if begin == end:
                    stack[0], stack_marks[0] = cells[cell], cell_marks[cell]
                else:
                    run_code(code, begin, end, cells, cell_marks, stack, stack_floats, stack_marks)
                mark = stack_marks[0]
                if NULL < mark < UNDEFINED:
                    fault[0], fault[1] = mark, max(row, 0)
                    return
            if streaming and row >= starts[partition]:
                out_bits[row] = stack[0]
                out_marks[row] = mark
            if last:
                end_bits[partition] = stack[0]
                end_marks[partition] = mark
        if keep >= 0:
            for state in range(states):
                kept_occupied[keep, state] = occupied[now * states + state]
            for slot in range(slots):
                kept_bits[keep, slot] = bits[now * slots + slot]
                kept_marks[keep, slot] = marks[now * slots + slot]
