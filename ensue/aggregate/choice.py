"""max_by(x, y) and min_by(x, y): the x of the row with the extreme y; of equal y the last row.

Rows with a null y are skipped; a null x may be chosen. The state is (x, y) of the row chosen so
far, None before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ensue.aggregate import ordering
from ensue.aggregate.base import TWO_ARGUMENTS, Aggregate, Offsets, plain_type

Chosen = tuple[Any, Any] | None


class _Choice(Aggregate):
    arity = TWO_ARGUMENTS
    greatest: bool

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        by = plain_type(argument_types[1])
        if not ordering.is_orderable(by):
            raise self.refuse_type(by, "a second argument with an order")
        return plain_type(argument_types[0])

    def identity(self) -> Chosen:
        return None

    def lift(self, *values: Any) -> Chosen:
        value, by = values
        return None if by is None else (value, by)

    def combine(self, a: Chosen, b: Chosen) -> Chosen:
        if a is None or b is None:
            return b if a is None else a
        left, right = ordering.key(a[1]), ordering.key(b[1])
        return b if (right >= left if self.greatest else right <= left) else a

    def finish(self, state: Chosen) -> Any:
        return None if state is None else state[0]

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        value, by = columns
        return ordering.take_extrema(
            value, by, offsets, running, greatest=self.greatest, last_of_equals=True
        )


class MinBy(_Choice):
    name = "min_by"
    greatest = False


class MaxBy(_Choice):
    name = "max_by"
    greatest = True
