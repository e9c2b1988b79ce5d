"""min, max, min_by, max_by, bool_and, bool_or: the value of the row where something is extreme.

`min(x)` and `max(x)` look for x itself, in Spark's order of values; of equal values (0.0 and -0.0)
the first counts. `min_by(x, y)` and `max_by(x, y)` look for y and give x, which may be null; of
equal y the last row counts. `bool_and` is the least boolean, `bool_or` the greatest. Rows where
what is looked for is null are skipped. The state is (x, y) of the row chosen so far, None before
the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ensue.aggregate import ordering
from ensue.aggregate.base import ONE_ARGUMENT, TWO_ARGUMENTS, Aggregate, Offsets, plain_type

Chosen = tuple[Any, Any] | None


class Extremum(Aggregate):
    def __init__(self, name: str, *, greatest: bool, by: bool = False) -> None:
        self.name = name
        self.arity = TWO_ARGUMENTS if by else ONE_ARGUMENT
        self._greatest, self._by = greatest, by

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        given = plain_type(argument_types[-1])
        if not ordering.is_orderable(given):
            what = "a second argument with an order" if self._by else "a type with an order"
            raise self.refuse_type(given, what)
        return plain_type(argument_types[0])

    def identity(self) -> Chosen:
        return None

    def absorb(self, state: Chosen, *values: Any) -> Chosen:
        if values[-1] is None:
            return state
        if state is None:
            return values[0], values[-1]
        known, new = ordering.key(state[1]), ordering.key(values[-1])
        better = new > known if self._greatest else new < known
        return (values[0], values[-1]) if better or (self._by and new == known) else state

    def finish(self, state: Chosen) -> Any:
        return None if state is None else state[0]

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        return ordering.take_extrema(
            columns[0],
            columns[-1],
            offsets,
            running,
            greatest=self._greatest,
            last_of_equals=self._by,
        )


class Quantifier(Extremum):
    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        given = plain_type(argument_types[0])
        if not (pa.types.is_boolean(given) or pa.types.is_null(given)):
            raise self.refuse_type(given, "a boolean")
        return pa.bool_()

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        values = columns[0].cast(pa.bool_())  # of a column of nulls too
        return super().over_columns([values], offsets, running)
