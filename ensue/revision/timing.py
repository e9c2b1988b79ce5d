"""Which columns say when an event happened and how long it counts, as codes of the clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.automaton.registers import INFINITY
from ensue.operator.arrange import flat
from ensue.operator.clock import Clock
from ensue.query.query import OrderKey
from ensue.revision.kernels.layout import Numbers
from ensue.revision.parts import Times


@dataclass(frozen=True)
class Timing:
    """Which columns say when an event happened, how long it counts, and what comes next."""

    order_by: str
    tie: str | None = None  # orders events of one timestamp; else their content does
    within: Any = None  # RE = LE + within + one tick, since `within` includes its edge
    until: str | None = None  # or: the column with RE
    sequence: str | None = None

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of events, as a query has it."""
        return tuple(OrderKey(name) for name in (self.order_by, self.tie) if name is not None)

    def check(self, schema: pa.Schema) -> None:
        named = (self.order_by, self.tie, self.until, self.sequence)
        errors.UnknownColumnError.check(named, schema.names)
        for name in (self.tie, self.sequence):
            if name is not None and not pa.types.is_integer(schema.field(name).type):
                raise errors.ColumnTypeError(
                    f"the column {name!r} is {schema.field(name).type}, where a whole number is "
                    "expected",
                    remedy="cast it to bigint",
                )
        if self.within is not None and self.until is not None:
            raise errors.QueryError(
                "within= and until= both say how long an event counts", remedy="give one of them"
            )

    def keys(
        self, table: pa.Table, clock: Clock, window: int | float | None, name: Numbers
    ) -> Times:
        """Keys of events as codes; `window` as the clock counts it."""
        column = flat(table, self.order_by)
        le = clock.codes(column)
        count = len(le)
        zeros = np.zeros(count, np.int64)
        if self.until is not None:
            ends = flat(table, self.until)
            known = clock.codes(ends.cast(clock.kind))
            missing = ends.is_null().to_numpy(zero_copy_only=False)
            re = np.where(missing, INFINITY, known)
        elif window is None or math.isinf(window):
            re = np.full(count, INFINITY, np.int64)
        elif pa.types.is_floating(clock.kind):
            moved = pc.add(column.cast(pa.float64()), pa.scalar(float(window)))
            re = clock.codes(moved) + 1
        else:
            size = int(window) + 1
            re = np.where(le > INFINITY - size, INFINITY, le + size)
        tie = zeros
        if self.tie is not None:
            tie = pc.fill_null(flat(table, self.tie).cast(pa.int64()), 0).to_numpy()
        sequence = zeros
        if self.sequence is not None:
            numbers = flat(table, self.sequence).cast(pa.int64())
            sequence = pc.fill_null(numbers, -1).to_numpy()
        return Times(le, re, tie, name, sequence)
