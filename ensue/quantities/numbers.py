"""A compiled query over batches: chunk by chunk through its machine code, or the interpreter.

The machine code (`generated/`) is the way of nearly every query. The interpreter of
`kernels/loop.py` takes what has too many configurations, instructions without machine code, or
paths that are joined (ambiguity at rank 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.guards.machine import OVERFLOW
from ensue.guards.operators import TooHardError
from ensue.quantities.bound import Batch
from ensue.quantities.flatten import Numeric
from ensue.quantities.generated.emit import CARRIED, DONE, NODE, ROW
from ensue.quantities.generated.native import Carry, Inputs, Native, native
from ensue.quantities.inputs import Intake
from ensue.quantities.kernels import loop as vm
from ensue.quantities.memory import Indices, Kept
from ensue.quantities.model import Automaton
from ensue.scalar.kinds import Kind
from ensue.stopping import look

CHUNK = 1 << 16


class Cells(NamedTuple):
    """Outputs as 64 bits and marks: per row where streaming, and per partition."""

    bits: NDArray[np.int64]
    marks: NDArray[np.uint8]
    end_bits: NDArray[np.int64]
    end_marks: NDArray[np.uint8]
    values: pa.Array | None = None  # what the bits stand for, where they are ranks


class Numbers:
    """A numeric query, with the code that it has been given so far."""

    def __init__(self, numeric: Numeric, kinds: dict[str, Kind], automaton: Automaton) -> None:
        self.numeric = numeric
        self.intake = Intake(numeric, kinds)
        self._automaton = automaton
        self._natives: dict[frozenset[int], Native] = {}
        self.refusal = "" if numeric.program.join < 0 else "paths are joined"

    def kept(self) -> Kept:
        program = self.numeric.program
        return Kept.of(len(program.base), program.slots, self._automaton)

    def native(self, nullable: frozenset[int]) -> Native:
        if nullable not in self._natives:
            predicates = len(self.numeric.predicates)
            self._natives[nullable] = native(self.numeric.program, nullable, predicates)
        return self._natives[nullable]

    @property
    def at_once(self) -> bool:
        """Whether it needs all events together, since the ranks of strings change with more."""
        return bool(self.numeric.strings)

    def run(self, batch: Batch, kept: Kept | None, streaming: bool) -> Cells:
        table, values = self.intake.ranked(batch.table)
        found = self._run(replace(batch, table=table), kept, streaming)
        return found._replace(values=values)

    def _run(self, batch: Batch, kept: Kept | None, streaming: bool) -> Cells:
        if not self.refusal:
            try:
                return self._generated(batch, kept, streaming)
            except TooHardError as problem:
                self.refusal = str(problem)
        return self._interpreted(batch, kept, streaming, 0, None)

    def _outputs(self, batch: Batch, streaming: bool) -> Cells:
        count, rows = len(batch.starts) - 1, int(batch.starts[-1]) if streaming else 0
        return Cells(
            np.zeros(rows, np.int64),
            np.zeros(rows, np.uint8),
            np.zeros(count, np.int64),
            np.zeros(count, np.uint8),
        )

    def _generated(self, batch: Batch, kept: Kept | None, streaming: bool) -> Cells:
        starts, places = batch.starts, batch.places
        outputs = self._outputs(batch, streaming)
        held = kept or self.kept()
        keep = places if kept is not None else np.full(len(places), -1, np.int64)
        carry = Carry(self.numeric.program.slots)
        goes_on, before = False, self.native(frozenset())
        for first, begin, end, cuts in _chunks(starts):
            inputs = self.intake.read(batch.table.slice(begin, end - begin))
            last = first + len(cuts) - 1
            stays = bool(starts[last] > end)
            window = slice(begin, end) if streaming else slice(0, 0)
            some = outputs.bits[window], outputs.marks[window]
            ends = outputs.end_bits[first:last], outputs.end_marks[first:last]
            try:
                code = self.native(inputs.nullable)
                fresh = batch.fresh[first:last]
                entries = code.entries(held, places[first:last], fresh)
                if goes_on:
                    entries[0] = CARRIED
                    if before is not code:  # other inputs are null than in the chunk before
                        carry.place[NODE] = code.blank_of(before, int(carry.place[NODE]))
                before = code
                status = code.run(
                    inputs, cuts - begin, entries, keep[first:last].copy(), held, carry,
                    stays, streaming, kept is not None, (*some, *ends),
                )  # fmt: skip
            except TooHardError:
                if kept is None:
                    raise  # nothing is kept: all of it runs again
                self.refusal = "its letters reach too many configurations"
                return self._interpreted(batch, kept, streaming, begin, outputs)
            look()
            if status != DONE:
                raise fault(status, int(carry.place[ROW]) + begin)
            goes_on = stays
        return outputs

    def _interpreted(
        self, batch: Batch, kept: Kept | None, streaming: bool, from_row: int, told: Cells | None
    ) -> Cells:
        starts, places = batch.starts, batch.places
        outputs = told or self._outputs(batch, streaming)
        held = kept
        if held is None:  # one place carries a partition from one chunk to the next
            held, places = self.kept(), np.full(len(places), -1, np.int64)
            held.grow(1)
        problem = np.zeros(2, np.int64)
        for first, begin, end, cuts in _chunks(starts):
            if begin < from_row:
                continue
            inputs = self.intake.read(batch.table.slice(begin, end - begin))
            last = first + len(cuts) - 1
            chosen, starting = places[first:last].copy(), batch.fresh[first:last].copy()
            goes_on = bool(starts[first] < begin)
            if goes_on:
                starting[0] = False
            if kept is None:
                chosen[-1] = 0
                chosen[0] = 0 if goes_on else chosen[0]
            window = slice(begin, end) if streaming else slice(0, 0)
            vm.run(
                self.numeric.program,
                inputs.letters.astype(np.int64),
                *_tables(inputs),
                cuts - begin,
                starting,
                chosen,
                held.occupied,
                held.bits,
                held.marks,
                streaming,
                outputs.bits[window],
                outputs.marks[window],
                outputs.end_bits[first:last],
                outputs.end_marks[first:last],
                problem,
            )
            look()
            if problem[0]:
                raise fault(int(problem[0]), int(problem[1]) + begin)
        return outputs


def _tables(inputs: Inputs) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """[weight, row], and the marks of both."""
    count, rows = max(1, len(inputs.weights)), len(inputs.letters)
    weights, marks = np.zeros((count, rows), np.int64), np.zeros((count, rows), np.uint8)
    for index, (bits, nulls) in enumerate(zip(inputs.weights, inputs.marks, strict=True)):
        weights[index] = bits
        if nulls is not None:
            marks[index] = nulls
    return weights, marks


def _chunks(starts: Indices) -> Iterator[tuple[int, int, int, Indices]]:
    """(first partition, first row, end row, cuts) of each chunk; every partition is in one."""
    rows = int(starts[-1])
    begin, first = 0, 0
    count = len(starts) - 1
    while begin < rows or first < count:
        end = min(begin + CHUNK, rows)
        # Empty partitions at the end of the chunk belong to it.
        last = int(np.searchsorted(starts, end, side="left"))
        if end == rows:
            last = count
        cuts = starts[first : last + 1].copy()
        cuts[0] = begin
        cuts[-1] = min(cuts[-1], end)
        yield first, begin, end, cuts
        if end == rows:
            return
        first = last if starts[last] == end else last - 1
        begin = end


def fault(kind: int, row: int) -> errors.DataError:
    if kind == OVERFLOW:
        return errors.OverflowDataError(
            f"a whole number left the range of 64 bits at row {row}",
            remedy="cast the value to double, as in CAST(x AS DOUBLE)",
        )
    return errors.DataError(
        f"division by zero at row {row}",
        remedy="guard the divisor, as in a / NULLIF(b, 0)",
    )
