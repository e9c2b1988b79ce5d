"""Aggregates over all matches, without listing any: exact integers and fractions.

The value of a class of partial matches is how many there are and, for each aggregate, what their
events sum up to so far. Taking an event x adds (number of partial matches) · x to a sum; joining
two classes adds their values. So the cost is that of the classes, whatever the number of matches:
10^1000 of them are a Python integer of 3,300 bits. Conditions between neighbours in a loop ("trend"
aggregation) only add classes, one per last event.

`count(*)` is the number of matches; `count(B.*)`, `sum(B.x)`, `avg(B.x)`, `min` and `max` speak of
the events of B in all matches, each as often as it occurs. Doubles are summed exactly and rounded
once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import aggregate, errors
from ensue.automaton.plan import Plan
from ensue.operator.digits import digits, number_of, ratio, ratio_of
from ensue.query import condition as c
from ensue.scalar.columns import Rows, evaluate
from ensue.scalar.moments import in_numbers
from ensue.sequences.batch import EventBatch

KNOWN = ("count", "sum", "avg", "min", "max")
EXACT = pa.decimal128(38, 0)
_LARGEST = 10**38


@dataclass(frozen=True)
class Slot:
    """One aggregate: which labels it reads, and the value of each row (None: not counted)."""

    function: str
    labels: frozenset[int]
    column: pa.Array | None  # None: every row counts as 1

    @cached_property
    def values(self) -> Sequence[Any] | None:
        """The same as Python values."""
        return None if self.column is None else self.column.to_pylist()


Part = tuple[int, Any, float]  # occurrences, sum or extreme, and what is not finite
Total = tuple[int, tuple[Part, ...]]


class Aggregates:
    """The slots of a plan's atoms over one batch, as an algebra and a way to add totals up."""

    def __init__(self, plan: Plan, batch: EventBatch | None) -> None:
        self._plan = plan
        self.slots = [self._slot(atom, batch) for atom in plan.atoms]
        self.nothing: Total = (0, tuple((0, None, 0.0) for _ in self.slots))

    def _slot(self, atom: c.Condition, batch: EventBatch | None) -> Slot:
        if not isinstance(atom, c.Aggregate):
            raise errors.UnsupportedError(
                "aggregate() takes aggregates over all matches, and this reads a single row",
                remedy="use count, sum, avg, min or max; single matches have measures(...)",
            )
        if atom.function not in KNOWN or (atom.distinct and atom.function not in ("min", "max")):
            shown = f"{atom.function}(DISTINCT ...)" if atom.distinct else atom.function
            raise errors.UnsupportedFunctionError(
                f"{shown} over all matches is not known without listing them",
                remedy="use one of " + ", ".join(KNOWN) + ", or list the matches with limit=...",
            )
        query = self._plan.query
        names = query.members(atom.variable)
        labels = frozenset(i for i, label in enumerate(query.labels) if label in names)
        if batch is None:
            return Slot(atom.function, labels, None)
        values = None
        if atom.arguments:
            values = self._values(atom.arguments[0], batch)
        if atom.where is not None:
            kept = pc.fill_null(self._values(atom.where, batch).cast(pa.bool_()), False)
            given = pa.array(np.ones(len(kept), np.int64)) if values is None else values
            values = pc.if_else(kept, given, pa.scalar(None, given.type))
        return Slot(atom.function, labels, values)

    @staticmethod
    def _values(argument: c.Condition, batch: EventBatch) -> pa.Array:
        if isinstance(argument, c.Column):
            found = batch.columns[argument.name]
        else:
            found = evaluate(argument, Rows(batch.columns, batch.table.num_rows, None))
        column = in_numbers(pa.table({"value": found})).column(0)
        return column.combine_chunks()

    # -- the algebra -----------------------------------------------------------------------------

    def begin(self, label: int, row: int) -> Total:
        return self.take((1, self.nothing[1]), label, row)

    def take(self, value: Total, label: int, row: int) -> Total:
        count, parts = value
        return count, tuple(
            self._took(slot, part, count, row) if label in slot.labels else part
            for slot, part in zip(self.slots, parts, strict=True)
        )

    @staticmethod
    def _took(slot: Slot, part: Part, count: int, row: int) -> Part:
        occurrences, known, odd = part
        value = 1 if slot.values is None else slot.values[row]
        if value is None:
            return part
        if slot.function in ("min", "max"):
            return occurrences + count, _extreme(slot.function, known, value), odd
        if slot.function == "count":
            return occurrences + count, None, odd
        if isinstance(value, float):
            if not math.isfinite(value):
                return occurrences + count, known or 0, odd + value
            value = Fraction(value)
        elif isinstance(value, Decimal):
            value = Fraction(value)
        return occurrences + count, (known or 0) + count * value, odd

    def join(self, left: Total, right: Total) -> Total:
        return left[0] + right[0], tuple(
            (a[0] + b[0], _joined(slot.function, a[1], b[1]), a[2] + b[2])
            for slot, a, b in zip(self.slots, left[1], right[1], strict=True)
        )

    # -- results ---------------------------------------------------------------------------------

    def finish(self, index: int, total: Total, kind: pa.DataType) -> Any:
        """The value of an atom, in the kind of its column."""
        slot, (occurrences, value, odd) = self.slots[index], total[1][index]
        if slot.function == "count":
            return _decimal(total[0] if self.counts_matches(index) else occurrences)
        if occurrences == 0:
            return None
        if slot.function in ("min", "max"):
            return value
        if odd or math.isnan(odd):
            return odd
        if slot.function == "avg":
            return _float(Fraction(value) / occurrences)
        if pa.types.is_floating(kind):
            return _float(Fraction(value))
        if pa.types.is_decimal(kind) and kind.scale:
            return Decimal(int(Fraction(value) * 10**kind.scale)).scaleb(-kind.scale)
        return _decimal(int(value))

    def finish_text(self, index: int, total: Total) -> str | None:
        """The value of an exact atom as text, of any size."""
        slot, (occurrences, value, _) = self.slots[index], total[1][index]
        if slot.function == "count":
            return digits(total[0] if self.counts_matches(index) else occurrences)
        return None if occurrences == 0 else digits(int(value))

    def counts_matches(self, index: int) -> bool:
        """count(*): the number of matches, not of events."""
        return self._plan.atoms[index] == c.Aggregate("count", ())

    def kinds(self, schema: pa.Schema) -> list[pa.DataType]:
        """The Arrow type of each atom."""
        found = []
        empty = {name: schema.empty_table().column(name).combine_chunks() for name in schema.names}
        for atom in self._plan.atoms:
            assert isinstance(atom, c.Aggregate)
            if atom.function == "count":
                found.append(EXACT)
                continue
            argument = evaluate(atom.arguments[0], Rows(empty, 0, None)).type
            if atom.function in ("sum", "avg") and pa.types.is_duration(argument):
                raise errors.ColumnTypeError(
                    f"{atom.function} over all matches adds numbers, not {argument}",
                    remedy="take the difference of numbers, such as unix_micros(...)",
                )
            if atom.function == "avg":
                aggregate.get("avg").result_type([argument])  # refuses what is no number
                found.append(pa.float64())
            elif atom.function == "sum":
                plain = aggregate.get("sum").result_type([argument])
                if pa.types.is_integer(plain):
                    plain = EXACT
                elif pa.types.is_decimal(plain):
                    plain = pa.decimal128(38, plain.scale)
                found.append(plain)
            else:
                found.append(argument)
        return found

    # -- totals between tasks --------------------------------------------------------------------

    def pack(self, total: Total) -> str:
        """A total as text that `unpack` reads; extremes travel as columns of their own."""
        parts = [
            [digits(n), None if slot.function in ("min", "max") else _text(value), repr(odd)]
            for slot, (n, value, odd) in zip(self.slots, total[1], strict=True)
        ]
        return json.dumps([digits(total[0]), parts])

    def unpack(self, text: str, extremes: Sequence[Any]) -> Total:
        count, parts = json.loads(text)
        return number_of(count), tuple(
            (number_of(n), extreme if value is None else ratio_of(value), float(odd))
            for (n, value, odd), extreme in zip(parts, extremes, strict=True)
        )


def _text(value: Any) -> str:
    return ratio(Fraction(value)) if value is not None else "0"


def _extreme(function: str, known: Any, value: Any) -> Any:
    if known is None:
        return value
    if isinstance(value, float) and (math.isnan(value) or math.isnan(known)):
        # NaN is the greatest, as in Spark
        greatest = math.nan
        return greatest if function == "max" else (known if math.isnan(value) else value)
    return max(known, value) if function == "max" else min(known, value)


def _joined(function: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    if function in ("min", "max"):
        return _extreme(function, left, right)
    return left + right


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise errors.OverflowDataError(
            "a sum over all matches is beyond the range of a double",
            remedy="aggregate fewer matches with within(...), or ask for avg",
        ) from None


def _decimal(value: int) -> Decimal:
    if abs(value) >= _LARGEST:
        size = len(digits(abs(value)))
        raise errors.OverflowDataError(
            f"a count or sum over all matches has {size} digits; a table holds 38",
            remedy='ask for text with q.aggregate(..., big="text"), or use q.count(data) for a '
            "Python integer",
        )
    return Decimal(value)
