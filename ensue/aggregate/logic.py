"""bool_and(x) and bool_or(x): whether all, or some, of the values are true; null of no values.

The state is (how many true, how many false), so that rows can be taken out again. Over columns,
bool_and is the least value and bool_or the greatest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ensue.aggregate import ordering
from ensue.aggregate.base import Aggregate, Offsets, plain_type

Tally = tuple[int, int]


class _Quantifier(Aggregate):
    invertible = True
    greatest: bool

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        given = plain_type(argument_types[0])
        if not (pa.types.is_boolean(given) or pa.types.is_null(given)):
            raise self.refuse_type(given, "a boolean")
        return pa.bool_()

    def identity(self) -> Tally:
        return 0, 0

    def lift(self, *values: Any) -> Tally:
        value = values[0]
        return (0, 0) if value is None else (int(value), int(not value))

    def combine(self, a: Tally, b: Tally) -> Tally:
        return a[0] + b[0], a[1] + b[1]

    def inverse(self, a: Tally, b: Tally) -> Tally:
        return a[0] - b[0], a[1] - b[1]

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        values = columns[0].cast(pa.bool_())  # of a column of nulls too
        return ordering.take_extrema(values, values, offsets, running, greatest=self.greatest)


class BoolAnd(_Quantifier):
    name = "bool_and"
    greatest = False

    def finish(self, state: Tally) -> bool | None:
        true, false = state
        return false == 0 if true or false else None


class BoolOr(_Quantifier):
    name = "bool_or"
    greatest = True

    def finish(self, state: Tally) -> bool | None:
        true, false = state
        return true > 0 if true or false else None
