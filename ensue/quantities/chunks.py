"""One long sequence in chunks, for nested queries too: what a chunk does to any start.

Where tokens stand depends on the letters alone, so from any likely start the tokens of a chunk soon
stand the same. From that row on its effect is known without the values before: each slot at its end
is either *fresh* (it depends on the chunk alone) or what a slot held at the row, with the *gain* of
one associative fold. Only where a value from before the chunk goes through anything else (the block
that was open at its beginning ends, and the mean of it is taken) does the chunk have to be cut; the
event there is run again once the values are known. Soon everything is fresh or gained whatever
letters follow (a fixed point over the nodes says so), and the rest of the chunk is only run.

So a chunk costs one run of its rows, wherever it starts: not one per state, as the tables of
`prefix.py` do. What is guessed about its start is checked when the real one arrives; if it was
another, the chunk is run from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.quantities.generated.emit import CARRIED, DONE, NODE, ROW
from ensue.quantities.generated.native import Carry, Inputs, Native
from ensue.quantities.generated.steps import Code, Constant, Old, Value, Weight
from ensue.quantities.kernels import loop as vm
from ensue.quantities.numbers import CHUNK, Numbers, fault
from ensue.stopping import in_threads, look

LOOKED_AT = 1 << 16  # rows of a chunk that are walked to find from where on it is only run
_MERGES = (vm.SUM, vm.PRODUCT, vm.MIN, vm.MAX, vm.LAST, vm.FIRST, vm.ANY, vm.ALL)


class Gain(NamedTuple):
    """What a slot held at the beginning of a segment, with one kind of fold on it."""

    slot: int
    fold: int = -1  # none yet
    floating: bool = False


FRESH, MIXED = "fresh", "mixed"
Origin = Gain | str
Origins = dict[int, Origin]  # of the slots of a node


@dataclass(frozen=True)
class Segment:
    """Rows whose effect is known, up to the event that has to be run on real values."""

    end: int  # the row of that event; the end of the chunk where there is none
    node: int
    origins: Origins
    bits: NDArray[np.int64]
    marks: NDArray[np.uint8]


@dataclass(frozen=True)
class Chunk:
    begin: int
    end: int
    ready: int  # the row from which the tokens are known
    states: tuple[int, ...] = ()  # and where they stand there
    segments: tuple[Segment, ...] = ()


class _NullError(Exception):
    """The code at hand takes for granted that there are none."""


def value(numbers: Numbers, table: pa.Table, threads: int) -> tuple[int, int]:
    """The bits and the mark of the answer; `TooHardError` where there is no machine code."""
    try:
        return _Sequence(numbers, table, frozenset()).value(threads)
    except _NullError:
        every = frozenset(range(len(numbers.numeric.weights)))
        return _Sequence(numbers, table, every).value(threads)


class _Sequence:
    """A numeric query over one table, cut into pieces."""

    def __init__(self, numbers: Numbers, table: pa.Table, nullable: frozenset[int]) -> None:
        self._numbers, self._table, self._nullable = numbers, table, nullable
        self._code: Native = numbers.native(nullable)
        self._nodes = self._code.nodes

    def value(self, threads: int) -> tuple[int, int]:
        rows = self._table.num_rows
        size = max(1, -(-rows // threads))
        pieces = [(begin, min(begin + size, rows)) for begin in range(0, rows, size)]
        # The letters of the beginning first, so that their moves are made once.
        self._code.add(self._read(0, min(rows, CHUNK)).letters)
        carry = self._start()
        for piece in in_threads(self._piece, pieces, threads):
            if isinstance(piece, Carry):
                carry = piece
            else:
                self._join(carry, piece)
        bits, marks = np.zeros(1, np.int64), np.zeros(1, np.uint8)
        self._walk(carry, rows, rows, (bits, marks))
        return int(bits[0]), int(marks[0])

    def _piece(self, piece: tuple[int, int]) -> Carry | Chunk:
        if piece[0]:
            return self._summary(*piece)
        carry = self._start()
        self._walk(carry, *piece)
        return carry

    def _start(self) -> Carry:
        carry = Carry(self._nodes.program.slots)
        for slot, first in self._nodes.first.items():
            assert isinstance(first, Constant)
            carry.bits[slot], carry.marks[slot] = first.bits, first.mark
        carry.place[NODE] = self._nodes.root
        return carry

    # -- running ---------------------------------------------------------------------------------

    def _read(self, begin: int, end: int) -> Inputs:
        inputs = self._numbers.intake.read(self._table.slice(begin, end - begin))
        if self._nullable:
            every = [np.zeros(end - begin, np.uint8) if m is None else m for m in inputs.marks]
            return inputs._replace(marks=list(every))
        if inputs.nullable:
            raise _NullError
        return inputs

    def _walk(
        self,
        carry: Carry,
        begin: int,
        end: int,
        ends: tuple[NDArray[np.int64], NDArray[np.uint8]] | None = None,
    ) -> None:
        """The rows, on from `carry`; it is left there, unless the value at the `ends` is wanted."""
        none = np.zeros(0, np.int64), np.zeros(0, np.uint8)
        keep, kept = np.full(1, -1, np.int64), self._numbers.kept()
        while True:
            until = min(end, begin + CHUNK)
            starts = np.array([0, until - begin], np.int64)
            entries = np.full(1, CARRIED, np.int64)
            status = self._code.run(
                self._read(begin, until), starts, entries, keep, kept, carry,
                ends is None, False, False, (*none, *(ends or none)),
            )  # fmt: skip
            look()
            if status != DONE:
                raise fault(status, int(carry.place[ROW]) + begin)
            begin = until
            if begin == end:
                return

    def _join(self, carry: Carry, chunk: Chunk) -> None:
        """The chunk after what `carry` holds."""
        self._walk(carry, chunk.begin, chunk.ready)
        node = self._nodes.nodes[int(carry.place[NODE])]
        if node.full or node.states != chunk.states:
            self._walk(carry, chunk.ready, chunk.end)
            return
        for segment in chunk.segments:
            _add(carry, segment)
            carry.place[NODE] = self._code.blank(segment.node)
            if segment.end < chunk.end:
                self._walk(carry, segment.end, segment.end + 1)

    # -- summaries -------------------------------------------------------------------------------

    def _summary(self, begin: int, end: int) -> Chunk:
        letters = self._read(begin, min(end, begin + LOOKED_AT)).letters
        self._code.add(letters)
        seen = letters.tolist()
        met = self._meet(seen)
        if met is None:
            return Chunk(begin, end, end)
        row, node = met
        ready, states = row, self._nodes.nodes[node].states
        segments: list[Segment] = []
        carry = Carry(self._nodes.program.slots)
        carry.marks[:], carry.place[NODE] = vm.NULL, node
        place, origins = row, _renewed({slot: MIXED for slot in self._nodes.slots_of(node)})
        while row < len(seen) and self._whatever_follows(node, origins) is None:
            target, after = self._after(node, origins, seen[row])
            if MIXED in after.values():
                self._walk(carry, begin + place, begin + row)
                segments.append(_segment(begin + row, node, origins, carry))
                self._walk(carry, begin + row, begin + row + 1)
                after = _renewed(after)
                for slot, origin in after.items():
                    if origin != FRESH:
                        carry.bits[slot], carry.marks[slot] = 0, vm.NULL
                target = carry.place[NODE] = self._code.blank(target)
                place = row + 1
            node, origins = int(target), after
            row += 1
        if row == len(seen) and begin + row < end:
            return Chunk(begin, end, end)  # it goes on to be cut
        self._walk(carry, begin + place, end)
        last = int(carry.place[NODE])
        if begin + row < end:
            # With all letters there are: some may have come since.
            found = self._whatever_follows(node, origins)
            if found is None:
                return Chunk(begin, end, end)
            origins = found[last]
        segments.append(_segment(end, last, origins, carry))
        return Chunk(begin, end, begin + ready, states, tuple(segments))

    def _meet(self, letters: list[int]) -> tuple[int, int] | None:
        """The row from which the tokens stand in one way, whatever was before, and its node."""
        ways = {self._code.blank(i) for i, node in enumerate(self._nodes.nodes) if node.states}
        for row, letter in enumerate(letters):
            if len(ways) == 1:
                return row, ways.pop()
            moved = {self._nodes.move(way, letter).target for way in ways}
            ways = {self._code.blank(way) for way in moved if self._nodes.nodes[way].states}
            if not ways:
                return None
        return None

    def _after(self, node: int, origins: Origins, letter: int) -> tuple[int, Origins]:
        move = self._nodes.move(node, letter)
        made: dict[int, Origin] = {}  # by id of the values, which the move keeps
        after = {
            slot: _origin(move.slots[slot], origins, made) if slot in move.slots else origins[slot]
            for slot in self._nodes.slots_of(move.target)
        }
        return move.target, after

    def _whatever_follows(self, node: int, origins: Origins) -> dict[int, Origins] | None:
        """The origins at each node that can follow, if none is ever mixed."""
        found = {node: origins}
        waiting = [node]
        while waiting:
            source = waiting.pop()
            for letter in sorted(self._nodes.letters):
                target, after = self._after(source, found[source], letter)
                known = found.get(target)
                both = after if known is None else {s: _either(known[s], after[s]) for s in after}
                if MIXED in both.values():
                    return None
                if both != known:
                    found[target] = both
                    waiting.append(target)
        return found


def _segment(end: int, node: int, origins: Origins, carry: Carry) -> Segment:
    return Segment(end, node, origins, carry.bits.copy(), carry.marks.copy())


def _renewed(origins: Origins) -> Origins:
    """At the beginning of a segment: what is not fresh is what it is."""
    return {slot: FRESH if o == FRESH else Gain(slot) for slot, o in origins.items()}


def _either(a: Origin, b: Origin) -> Origin:
    if a == b:
        return a
    if isinstance(a, Gain) and isinstance(b, Gain) and a.slot == b.slot:
        if a.fold < 0:
            return b
        if b.fold < 0:
            return a
    return MIXED


def _origin(value: Value, origins: Origins, made: dict[int, Origin]) -> Origin:
    """Where a value comes from."""
    if id(value) not in made:
        made[id(value)] = _derived(value, origins, made)
    return made[id(value)]


def _derived(value: Value, origins: Origins, made: dict[int, Origin]) -> Origin:
    match value:
        case Old(slot):
            return origins[slot]
        case Constant() | Weight():
            return FRESH
        case Code():
            return _all_fresh(_origin(v, origins, made) for _, v in value.inputs)
    state = [_origin(v, origins, made) for v in value.slots]
    weights = _all_fresh(_origin(v, origins, made) for v in value.weights)
    first = state[0]
    if isinstance(first, Gain) and weights == FRESH and len(state) == 1:
        fold = vm.COUNT if value.fold == vm.ROWS else value.fold
        if fold in (vm.COUNT, *_MERGES):
            return _either(first, Gain(first.slot, fold, value.floating))
    return _all_fresh([*state, weights])


def _all_fresh(origins: Iterable[Origin]) -> Origin:
    return FRESH if all(origin == FRESH for origin in origins) else MIXED


def _add(carry: Carry, segment: Segment) -> None:
    """What the slots hold after a segment."""
    bits, marks = carry.bits.copy(), carry.marks.copy()
    for slot, origin in segment.origins.items():
        if isinstance(origin, Gain):
            old = int(bits[origin.slot]), int(marks[origin.slot])
            gained = int(segment.bits[slot]), int(segment.marks[slot])
            carry.bits[slot], carry.marks[slot] = _merged(origin, old, gained)
        else:
            carry.bits[slot], carry.marks[slot] = segment.bits[slot], segment.marks[slot]


def _merged(gain: Gain, old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    if gain.fold < 0 or new[1] == vm.NULL:
        return old
    if old[1] == vm.NULL:
        return new
    a, b = _plain(old[0], gain.floating), _plain(new[0], gain.floating)
    match gain.fold:
        case vm.SUM | vm.COUNT:
            result = a + b
        case vm.PRODUCT:
            result = a * b
        case vm.MAX:
            result = b if _is_less(a, b) else a
        case vm.MIN:
            result = b if _is_less(b, a) else a
        case vm.FIRST:
            result = a
        case vm.LAST:
            result = b
        case _:
            result = a | b if gain.fold == vm.ANY else a & b
    if gain.floating:
        return int(np.float64(result).view(np.int64)), vm.VALUE
    if not -(2**63) <= result < 2**63:
        raise errors.OverflowDataError(
            "a whole number left the range of 64 bits",
            remedy="cast the value to double, as in CAST(x AS DOUBLE)",
        )
    return result, vm.VALUE


def _is_less(a: Any, b: Any) -> bool:
    """a < b, where NaN is greater than any number."""
    return bool(not np.isnan(a) and (np.isnan(b) or a < b))


def _plain(bits: int, floating: bool) -> Any:
    return np.int64(bits).view(np.float64) if floating else bits
