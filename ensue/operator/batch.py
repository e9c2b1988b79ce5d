"""`Batch`: rows of several partitions with where matching stands in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import FLAGS_PER_COLUMN, Plan, Test, bits_name
from ensue.kernels import automaton, bits
from ensue.operator.arrange import check_key
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, Window, WindowKind
from ensue.scalar.arrow_kinds import from_arrow
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.infer import require_boolean
from ensue.stopping import look


@dataclass
class Batch:
    """One unit of work for an engine. `cursor` is advanced in place."""

    plan: Plan
    columns: Mapping[str, pa.Array]
    starts: NDArray[np.int64]  # first row of each partition, and the number of rows
    is_open: NDArray[np.bool_]
    heads: NDArray[np.bool_]  # the first row here is the first row of its partition
    base: NDArray[np.int64]  # number of the first row here inside its partition
    cursor: NDArray[np.int64]  # [partition, (next start, matches so far, end of matched rows)]
    horizon: int | float | None = None  # watermark in the window's unit: no row before it will come

    @property
    def length(self) -> int:
        return int(self.starts[-1])

    @property
    def ends(self) -> NDArray[np.int64]:
        """End of the rows that can be decided: a row whose NEXT may still come cannot."""
        late = np.where(self.is_open, self.plan.lookahead, 0)
        return np.maximum(self.starts[:-1], self.starts[1:] - late)

    def rows(self) -> Rows:
        return Rows(self.columns, self.length, self.starts[:-1])

    def label_bits(self) -> NDArray[np.uint64]:
        """Per row: the labels whose row and neighbour parts hold (correlated parts left open)."""
        labels = len(self.plan.marks.labels)
        words = np.zeros((self.length, (labels + 63) // 64 or 1), np.uint64)
        in_window = self._has_order_value()
        for index, test in enumerate(self.plan.tests):
            holds = self._holds(test)
            if in_window is not None:
                holds = in_window if holds is None else holds & in_window
            if holds is None:
                bits.set_label_everywhere(words, index)
            else:
                bits.set_label(words, index, holds)
        return words

    def _holds(self, test: Test) -> NDArray[np.bool_] | None:
        """None: on every row."""
        holds = None if test.flag is None else self._flag(test.flag)
        for part in test.neighbour:
            # AND with what holds so far, so that a part is not asked where the user ruled it out.
            if holds is not None and not holds.all():
                values = self._evaluate_where(part, holds)
            else:
                values = as_mask(evaluate(part, self.rows()))
            holds = values if holds is None else holds & values
        return holds

    def _evaluate_where(self, part: c.Condition, holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
        guard = "__ensue_guard"
        columns = {**self.columns, guard: pa.array(holds)}
        guarded = c.binary("and", c.Column(guard), part)
        return as_mask(evaluate(guarded, Rows(columns, self.length, self.starts[:-1])))

    def _flag(self, index: int) -> NDArray[np.bool_]:
        packed = self.columns[bits_name(index // FLAGS_PER_COLUMN)]
        return bits.packed_flag(packed.to_numpy(zero_copy_only=False), index % FLAGS_PER_COLUMN)

    def _has_order_value(self) -> NDArray[np.bool_] | None:
        """A row without an order value is in no window; None where that needs no check."""
        query = self.plan.query
        timed = query.within is not None and query.within.kind is not WindowKind.ROWS
        if not timed and all(gap.within is None for gap in nodes.gaps(query.pattern)):
            return None
        order = self.columns[self.plan.query.order_by[0].column]
        if order.null_count == 0:
            return None
        valid: NDArray[np.bool_] = order.is_valid().to_numpy(zero_copy_only=False)
        return valid

    def viability(self) -> NDArray[np.int32]:
        """Per row and state: the least end of a match from there, guards taken as true."""
        program = self.plan.program
        least = automaton.viability(
            self.label_bits(),
            self.starts,
            self.ends,
            self.is_open,
            program.label,
            program.arc_offset,
            program.arc_target,
            program.arc_flags,
        )
        look()
        return least

    def window_limits(self) -> NDArray[np.int32]:
        """Per row: how far a match that starts there may reach; empty without a window."""
        window = self.plan.query.within
        if window is None:
            return np.empty(0, np.int32)
        rows_window = window.kind is WindowKind.ROWS
        everywhere = np.empty(0, np.bool_)
        if rows_window:
            order: NDArray[np.int64] | NDArray[np.float64] = np.empty(0, np.int64)
            size: int | float = min(int(window.size), 2**31)
            greatest: int | float = 0
        else:
            key = self.plan.query.order_by[0]
            column = self.columns[key.column]
            order, size = window_numbers(column, window, key.column)
            if key.descending:
                # For integers ~x falls where x rises, as -x does, and never overflows.
                order = -order if order.dtype == np.float64 else np.invert(order)
            greatest = np.inf if order.dtype == np.float64 else np.iinfo(np.int64).max
            if column.null_count:
                everywhere = column.is_valid().to_numpy(zero_copy_only=False)
        limits = automaton.window_limits(
            order, self.starts, self.ends, self.is_open, everywhere, size, greatest, rows_window
        )
        if self.horizon is None or rows_window or self.plan.lookahead:
            return limits
        # A window that ends before the watermark sees no further row, though more may come.
        over = (limits == automaton.NEVER) & (order < self.horizon - size)
        limits[over] = np.repeat(self.ends, np.diff(self.starts))[over]
        return limits


def check_types(plan: Plan, schema: pa.Schema) -> None:
    """Refuse types that do not fit before any row is read: the window's and the conditions'."""
    empty = schema.empty_table()
    columns = {name: empty.column(name).combine_chunks() for name in schema.names}
    for name in (*plan.query.partition_by, *(key.column for key in plan.query.order_by)):
        check_key(name, schema.field(name).type)
    window = plan.query.within
    if window is not None and window.kind is not WindowKind.ROWS:
        name = plan.query.order_by[0].column
        order_numbers(columns[name], window.kind, name)
    for test in plan.tests:
        for part in test.neighbour:
            found = evaluate(part, Rows(columns, 0, np.zeros(0, np.int64)))
            require_boolean(part, from_arrow(found.type), f"a condition of {test.label}")


def as_mask(values: pa.Array) -> NDArray[np.bool_]:
    """Null is not satisfied."""
    if values.null_count:
        values = pc.fill_null(values, False)
    mask: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask


def order_kind(query: Query, column: pa.Array) -> WindowKind:
    """What the window and the bounds of joints measure on the order column; both must fit it."""
    temporal = pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
    for gap in nodes.gaps(query.pattern):
        if gap.within is not None and gap.timed != temporal:
            given = f"{gap.within:,} microseconds" if gap.timed else f"{gap.within:,} units"
            raise errors.ColumnTypeError(
                f"a step is bound to come within {given}, and the order column "
                f"{query.order_by[0].column!r} is of type {column.type}",
                remedy="write `-> within 5 minutes` for times, `-> within 5 units` for numbers",
            )
    if query.within is not None and query.within.kind is not WindowKind.ROWS:
        return query.within.kind
    return WindowKind.TIME if temporal else WindowKind.NUMBER


def order_numbers(
    column: pa.Array, window: WindowKind, name: str
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Order values as numbers: microseconds for times, as they are for numbers; null as 0."""
    kind = column.type
    temporal = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if temporal != (window is WindowKind.TIME):
        given = "a duration" if window is WindowKind.TIME else "a number"
        raise errors.ColumnTypeError(
            f"WITHIN is {given}, and the order column {name!r} is of type {kind}",
            remedy=f"make times of its texts first, as pandas.to_datetime(df[{name!r}]) does"
            if pa.types.is_string(kind) or pa.types.is_large_string(kind)
            else "give a duration such as '1 hour' for times, a plain number for numbers, or "
            "'500 rows'",
        )
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise errors.ColumnTypeError(
            f"WITHIN needs an order column that is a time or a number, not {kind}",
            remedy="order by a timestamp, date or numeric column, or use a window in rows",
        )
    floating = pa.types.is_floating(column.type) or pa.types.is_uint64(column.type)
    wide = pa.float64() if floating else pa.int64()
    numbers: NDArray[np.int64] = pc.fill_null(column.cast(wide), 0).to_numpy(zero_copy_only=False)
    return numbers


def window_numbers(
    column: pa.Array, window: Window, name: str
) -> tuple[NDArray[np.int64] | NDArray[np.float64], int | float]:
    """Order values and the window's size in one unit; decimals exactly where 64 bits hold them."""
    if pa.types.is_decimal(column.type) and window.kind is WindowKind.NUMBER:
        exact = unscaled(column, column.type.scale)
        size = Decimal(str(window.size)).scaleb(column.type.scale)
        if exact is not None and size < 2**62:
            return exact, int(size)
    order = order_numbers(column, window.kind, name)
    if order.dtype == np.float64:
        return order, float(window.size)
    return order, min(int(window.size), 2**63 - 1)


def unscaled(column: pa.Array, scale: int) -> NDArray[np.int64] | None:
    """Decimals as integers of that scale, read from their 128 bits; None where 64 are too few."""
    wide = column.cast(pa.decimal128(38, scale))
    words = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)
    low, high = words[wide.offset : wide.offset + len(wide)].T
    valid = wide.is_valid().to_numpy(zero_copy_only=False)
    if (high != low >> 63)[valid].any():
        return None
    return np.where(valid, low, 0)
