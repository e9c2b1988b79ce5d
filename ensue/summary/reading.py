"""Rows of a table to what a summary reads: time, class, value and group of each event.

Definitions must look at one row only; a label that compares with other events of the match cannot
be counted without enumeration, except equality of an attribute (`equal=`). Values are kept exact:
integers and decimals as scaled integers, floats as the dyadic fractions that they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.arrange import flat
from ensue.operator.batch import order_numbers
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, WindowKind
from ensue.scalar.columns import Rows, evaluate, predicate

MAX_LABELS = 63


@dataclass(frozen=True)
class Total:
    """`sum(b.amount)`: the function, its labels and its expression."""

    function: str
    value: c.Condition  # over columns
    labels: frozenset[int]

    def needs(self, masks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows whose value counts, by their labels."""
        return masks & sum(1 << label for label in self.labels) != 0


def row_conditions(query: Query) -> tuple[c.Condition, ...]:
    """The definition of each label as a condition over columns."""
    if len(query.labels) > MAX_LABELS:
        raise errors.LimitError(
            f"the pattern has {len(query.labels)} labels; a summary takes at most {MAX_LABELS}",
            remedy="use fewer labels",
        )
    return tuple(_localised(query.definition(label), label, query) for label in query.labels)


def _localised(condition: c.Condition, label: str, query: Query) -> c.Condition:
    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, (c.Aggregate, c.MatchNumber, c.Classifier)):
            raise _correlated(label)
        if not isinstance(node, c.Navigate):
            return None
        own = node.variable is None or query.members(node.variable) == (label,)
        if not own or node.anchor is c.Anchor.FIRST or node.offset or node.shift:
            raise _correlated(label)
        return node.argument

    return c.transform(condition, change)


def _correlated(label: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(
        f"DEFINE {label} looks at other events of the match, which a summary does not enumerate",
        remedy="use conditions on the event itself; for equal attributes, summarize(equal={'user': "
        "['a', 'b']}) or partition_by",
    )


def total_of(aggregate: c.Condition, query: Query, text: str) -> Total | None:
    """What `total=` asks for; None for count(*), which is always there."""
    functions = ("sum", "avg", "min", "max", "count")
    if (
        not isinstance(aggregate, c.Aggregate)
        or aggregate.function not in functions
        or aggregate.distinct
        or aggregate.where is not None
        or len(aggregate.arguments) > 1
    ):
        raise errors.QueryError(
            f"total={text!r} is not an aggregate that a summary keeps",
            remedy="write sum(x), avg(x), min(x), max(x) or count(*); x may name a label: sum(b.x)",
        )
    members = query.members(aggregate.variable)
    labels = frozenset(i for i, name in enumerate(query.labels) if name in members)
    if aggregate.function == "count":
        return None
    value = aggregate.arguments[0]
    if any(isinstance(n, (c.Navigate, c.Aggregate, c.Classifier)) for n in c.walk(value)):
        raise errors.QueryError(
            f"total={text!r} looks at more than one event", remedy="give an expression over columns"
        )
    return Total(aggregate.function, value, labels)


def policy_of(query: Query) -> nodes.Policy:
    """Any or next, the same at every joint; anything else is refused."""
    pattern = query.pattern
    if query.selection is not None and query.selection is not nodes.Policy.STRICT:
        pattern = nodes.with_blank(pattern, query.selection)
    gaps: set[nodes.Gap] = set()
    for node in nodes.walk(pattern):
        match node:
            case nodes.Concatenation(gaps=between):
                gaps.update(between)
            case nodes.Repetition(gap=gap, most=most) if most != 1:
                gaps.add(gap)
            case nodes.Permutation(gap=gap):
                gaps.add(gap)
    policies = {gap.policy for gap in gaps}
    if query.without or any(gap.within is not None for gap in gaps):
        raise errors.UnsupportedError(
            "summaries do not support `without` or a bound on one gap", remedy="leave it out"
        )
    asked = query.all_matches or query.selection is not None
    if nodes.Policy.STRICT in policies or (not policies and not asked):
        raise errors.UnsupportedError(
            "a summary counts matches with gaps, and this pattern asks for consecutive rows",
            remedy="say .select('any') (every combination) or .select('next')",
        )
    if len(policies) > 1:
        raise errors.UnsupportedError(
            "the pattern mixes skip-till-next (->) and skip-till-any (->>)",
            remedy="use one of them at every joint",
        )
    return policies.pop() if policies else query.selection or nodes.Policy.ANY


def masks(conditions: Sequence[c.Condition], labels: Sequence[str], table: pa.Table) -> Any:
    """One integer per row: bit i says that label i holds."""
    rows = Rows({name: flat(table, name) for name in table.column_names}, table.num_rows, None)
    packed = np.zeros(table.num_rows, np.int64)
    for bit, (label, condition) in enumerate(zip(labels, conditions, strict=True)):
        if condition == c.TRUE:
            packed |= np.int64(1 << bit)
            continue
        held = predicate(condition, rows, f"DEFINE {label}").to_numpy(zero_copy_only=False)
        packed |= held.astype(np.int64) << bit
    return packed


@dataclass(frozen=True)
class Read:
    """What is read of each row: its labels as bits, and its value where a total is asked."""

    masks: NDArray[np.int64]
    values: pa.Array | None = None

    def part(self, begin: int, step: int) -> Read:
        values = None if self.values is None else self.values.slice(begin, step)
        return Read(self.masks[begin : begin + step], values)


def read(
    conditions: Sequence[c.Condition],
    labels: Sequence[str],
    total: Total | None,
    table: pa.Table,
    given: Read | None = None,
) -> Read:
    """What the rows say, on Arrow unless Spark has computed it; values are checked."""
    held = masks(conditions, labels, table) if given is None else given.masks
    if total is None:
        return Read(held)
    needed = total.needs(held)
    if given is None or given.values is None:
        return Read(held, values(total, table, needed))
    return Read(held, checked_values(total, given.values, needed))


def values(total: Total, table: pa.Table, needed: NDArray[np.bool_]) -> pa.Array:
    """The value of each row; null or not a number is an error where it is needed."""
    rows = Rows({name: flat(table, name) for name in table.column_names}, table.num_rows, None)
    return checked_values(total, evaluate(total.value, rows), needed)


def checked_values(total: Total, found: pa.Array, needed: NDArray[np.bool_]) -> pa.Array:
    kind = found.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise errors.ColumnTypeError(
            f"{total.function} over {kind}: a summary adds up numbers",
            remedy="give a numeric column, or CAST it",
        )
    bad = ~found.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        bad |= ~np.isfinite(pc.fill_null(found, 0.0).to_numpy(zero_copy_only=False))
    bad &= needed
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise errors.DataError(
            f"{total.function}: the value in row {row} is {found[row].as_py()}",
            remedy="filter such rows, or use COALESCE(x, 0)",
        )
    return found


def weights(found: pa.Array | None, rows: int) -> NDArray[np.float64]:
    """Sizes of the values, for ranking only."""
    if found is None:
        return np.zeros(rows)
    plain = pc.fill_null(found.cast(pa.float64(), safe=False), 0.0)
    size: NDArray[np.float64] = np.abs(plain.to_numpy(zero_copy_only=False))
    return size


@dataclass(frozen=True)
class Scale:
    """Exact values as integers: value = integer / denominator."""

    denominator: int
    integers: list[int]
    floating: bool
    decimals: int | None

    def back(self, number: int) -> Any:
        """An integer of this scale as the kind of number that was given, rounded once if float."""
        if self.floating:
            exact = Fraction(number, self.denominator)
            try:
                return float(exact)
            except OverflowError:
                raise errors.OverflowDataError(
                    "the sum is beyond the range of a 64-bit float",
                    remedy="CAST the value to DECIMAL, which is summed exactly at any size",
                ) from None
        if self.decimals:
            from decimal import Context, Decimal

            wide = Context(prec=len(str(abs(number))) + self.decimals + 2)
            return Decimal(number).scaleb(-self.decimals, wide)
        return number


def scaled(found: pa.Array | pa.ChunkedArray | None, rows: int) -> Scale:
    if found is None:
        return Scale(1, [0] * rows, False, None)
    listed = found.to_pylist()
    if pa.types.is_floating(found.type):
        pairs = [float(x or 0.0).as_integer_ratio() for x in listed]
        common = max((d for _, d in pairs), default=1)
        return Scale(common, [n * (common // d) for n, d in pairs], True, None)
    if pa.types.is_decimal(found.type):
        decimals = found.type.scale
        factor = 10**decimals
        return Scale(factor, [int(Fraction(x or 0) * factor) for x in listed], False, decimals)
    return Scale(1, [int(x or 0) for x in listed], False, None)


def times_of(query: Query, table: pa.Table) -> NDArray[Any] | None:
    """Order values as numbers; None where the window counts rows or is absent."""
    window = query.within
    if window is None or window.kind is WindowKind.ROWS:
        return None
    key = query.order_by[0]
    if key.descending:
        raise errors.UnsupportedError(
            f"the summary is ordered by {key.column!r} descending", remedy="order ascending"
        )
    column = flat(table, key.column)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise errors.DataError(
            f"the order column {key.column!r} is null in row {row}",
            remedy="filter rows without a time",
        )
    found = _numbers(column, window.kind, key.column)
    if found.dtype == np.float64 and not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise errors.DataError(
            f"the order column {key.column!r} is {found[row]} in row {row}",
            remedy="filter rows without a time",
        )
    return found


def _numbers(column: pa.Array, kind: WindowKind, name: str) -> NDArray[Any]:
    try:
        found = order_numbers(column, kind, name)
    except pa.ArrowInvalid:
        found = np.full(1, 2**63 - 1)
    if (
        found.dtype != np.float64
        and len(found)
        and max(-int(found.min()), int(found.max())) >= 1 << 62
    ):
        # Differences of such times are beyond 64 bits.
        raise errors.OverflowDataError(
            f"the order column {name!r} has values beyond ±2^62",
            remedy="subtract a common start from them, or CAST them to DOUBLE",
        )
    return found


def order_values(query: Query, table: pa.Table) -> NDArray[Any] | None:
    """The order column as numbers that ascend with time; None where it has none such."""
    if not query.order_by:
        return None
    key = query.order_by[0]
    column = flat(table, key.column)
    kind = column.type
    if column.null_count:
        return None
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        found = _numbers(column, WindowKind.TIME, key.column)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        found = _numbers(column, WindowKind.NUMBER, key.column)
    else:
        return None
    return -found if key.descending else found


def in_order(times: NDArray[Any], latest: float | None, name: str, row: int, sign: int = 1) -> None:
    """Raises where time goes backwards, naming the row and both values; −1 for descending."""
    if len(times) == 0:
        return
    if latest is not None and times[0] < latest:
        raise _backwards(name, row, sign * latest, sign * times[0])
    fall = np.flatnonzero(times[1:] < times[:-1])
    if len(fall):
        at = int(fall[0])
        raise _backwards(name, row + at + 1, sign * times[at], sign * times[at + 1])


def _backwards(name: str, row: int, before: Any, now: Any) -> errors.DataError:
    return errors.DataError(
        f"time goes backwards at row {row} of its key: {name} {now} after {before}",
        remedy="sort the events, or say how late they may come: summarize(..., delay='1 minute')",
    )
