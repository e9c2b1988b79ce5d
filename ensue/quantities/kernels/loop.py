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

from ensue.guards.machine import OVERFLOW, run_cells
from ensue.kernels.arithmetic import checked_product, checked_sum, compare_floats
from ensue.kernels.stop import asked

# Folds; the code in a program is twice this, plus one where the slot is a float.
REPLACE, LAST, FIRST, SUM, PRODUCT, MIN, MAX, COUNT, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8
ANY, ALL, ARGMAX, ARGMIN, MOMENTS, CODE = 9, 10, 11, 12, 13, 14
_NAMES = "replace last first sum product min max count rows any all argmax argmin moments"
FOLDS = {name: number for number, name in enumerate(_NAMES.split())}
RETURN, SILENT, STEP = 0, 1, 2
OUTPUT = 1 << 61
# Marks of a value; UNDEFINED: of an output where the query is not defined.
VALUE, NULL, UNDEFINED = 0, 1, 9


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
    code: NDArray[np.int64]  # of `guards/machine.py`, on the cells alone
    cells: NDArray[np.int64]  # constants, arguments, outputs
    cell_nulls: NDArray[np.bool_]
    join: int  # of rank 0 with ambiguity: the fold that joins paths on one state; else -1
    slots: int
    result_cell: int
    argument_cell: int


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
        total, fits = checked_sum(bits[into], bits[other])
        if not fits:
            return False
        bits[into] = total
    elif fold == ANY:
        bits[into] |= bits[other]
    elif fold == ALL:
        bits[into] &= bits[other]
    else:
        if floating:
            order = compare_floats(floats[other], floats[into])
        else:
            order = int(bits[other] > bits[into]) - int(bits[other] < bits[into])
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
    cells, cell_nulls = program.cells.copy(), program.cell_nulls.copy()
    cell_floats = cells.view(np.float64)
    weight_floats = weights.view(np.float64)
    no_floats, no_nulls = np.zeros((1, 1)), np.zeros((1, 1), np.bool_)
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
            if asked():
                return
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
                                cell_nulls[cell + part] = marks[slot + part]
                            if which == calls[call, 0]:
                                source = found
                        if source < 0:
                            continue
                        begin, end = calls[call, 2], calls[call, 3]
                        if begin == end:
                            cell = automata[called[calls[call, 0]], 2]
                            cells[result_cell] = cells[cell]
                            cell_nulls[result_cell] = cell_nulls[cell]
                        else:
                            status = run_cells(
                                code,
                                begin,
                                end,
                                cells,
                                cell_floats,
                                cell_nulls,
                                no_floats,
                                no_nulls,
                            )
                            if status < 0:
                                fault[0], fault[1] = status, row
                                return
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
                            value, mark = cells[-1 - weight], cell_nulls[-1 - weight]
                            number = cell_floats[-1 - weight]
                        fold, floating = actions[action, 0] >> 1, (actions[action, 0] & 1) == 1
                        if fold == REPLACE:
                            bits[slot] = value
                            marks[slot] = mark
                        elif fold == CODE:
                            cells[argument_cell] = bits[slot]
                            cell_nulls[argument_cell] = marks[slot]
                            cells[argument_cell + 1] = value
                            cell_nulls[argument_cell + 1] = mark
                            status = run_cells(
                                code,
                                actions[action, 4],
                                actions[action, 5],
                                cells,
                                cell_floats,
                                cell_nulls,
                                no_floats,
                                no_nulls,
                            )
                            if status < 0:
                                fault[0], fault[1] = status, row
                                return
                            bits[slot] = cells[argument_cell]
                            marks[slot] = cell_nulls[argument_cell]
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
                                    marks[slot + 1] = cell_nulls[-1 - second]
                        elif marks[slot] != VALUE:
                            bits[slot] = value
                            marks[slot] = VALUE
                        elif fold == SUM:
                            if floating:
                                floats[slot] += number
                            else:
                                total, fits = checked_sum(bits[slot], value)
                                if not fits:
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
                                total, fits = checked_product(bits[slot], value)
                                if not fits:
                                    fault[0], fault[1] = OVERFLOW, row
                                    return
                                bits[slot] = total
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
            value, mark = np.int64(0), np.uint8(UNDEFINED)
            if found >= 0:
                slot, cell = now * slots + own[found], automata[0, 2]
                for part in range(automata[0, 3]):
                    cells[cell + part] = bits[slot + part]
                    cell_nulls[cell + part] = marks[slot + part]
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
                    cells[cell], cell_nulls[cell] = bits[2 * slots], marks[2 * slots]
                begin, end = program.root[2], program.root[3]
                if begin < end:
                    cell = result_cell
                    status = run_cells(
                        code, begin, end, cells, cell_floats, cell_nulls, no_floats, no_nulls
                    )
                    if status < 0:
                        fault[0], fault[1] = status, max(row, 0)
                        return
                value, mark = cells[cell], np.uint8(cell_nulls[cell])
            if streaming and row >= starts[partition]:
                out_bits[row] = value
                out_marks[row] = mark
            if last:
                end_bits[partition] = value
                end_marks[partition] = mark
        if keep >= 0:
            for state in range(states):
                kept_occupied[keep, state] = occupied[now * states + state]
            for slot in range(slots):
                kept_bits[keep, slot] = bits[now * slots + slot]
                kept_marks[keep, slot] = marks[now * slots + slot]
