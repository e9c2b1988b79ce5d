"""min(x) and max(x), in Spark's order of values; of equal values (0.0 and -0.0) the first.

The state is the extremum so far, None before the first value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ensue.aggregate import ordering
from ensue.aggregate.base import Aggregate, Offsets, plain_type


class _Extremum(Aggregate):
    greatest: bool

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        given = plain_type(argument_types[0])
        if not ordering.is_orderable(given):
            raise self.refuse_type(given, "a type with an order")
        return given

    def identity(self) -> Any:
        return None

    def lift(self, *values: Any) -> Any:
        return values[0]

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        left, right = ordering.key(a), ordering.key(b)
        return b if (right > left if self.greatest else right < left) else a

    def finish(self, state: Any) -> Any:
        return state

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        return ordering.take_extrema(
            columns[0], columns[0], offsets, running, greatest=self.greatest
        )


class Min(_Extremum):
    name = "min"
    greatest = False


class Max(_Extremum):
    name = "max"
    greatest = True
