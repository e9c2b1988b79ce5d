"""max(x, n), min(x, n), max_by(x, y, n), min_by(x, y, n): the n values that are most extreme.

As Trino has them: a list from the most extreme on, null of no rows. Rows where what is looked for
is null are skipped; of equal y the later row comes first, as in `max_by(x, y)`. They are named
`max_n` and so on, since their results differ in type from those of `max`. The state is the list of
(key, value) from the least to the greatest; n is the last argument of a row, the same in each.
"""

from __future__ import annotations

from bisect import insort_left, insort_right
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ensue.aggregate import ordering
from ensue.aggregate.base import Aggregate, plain_type

State = list[tuple[Any, Any]]


class Ranked(Aggregate):
    def __init__(self, name: str, *, greatest: bool, by: bool = False) -> None:
        self.name = name
        self.arity = range(3, 4) if by else range(2, 3)
        self._greatest = greatest

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        *given, number = map(plain_type, argument_types)
        if not pa.types.is_integer(number):
            raise self.refuse_type(number, "a whole number as its last argument")
        if not ordering.is_orderable(given[-1]):
            raise self.refuse_type(given[-1], "values with an order")
        return pa.list_(given[0])

    def identity(self) -> State:
        return []

    def absorb(self, state: State, *values: Any) -> State:
        found, number = values[-2], values[-1]
        if found is None or number is None or number < 1:
            return state
        item = (ordering.key(found), values[0])
        insort = insort_right if self._greatest else insort_left
        insort(state, item, key=_looked_for)
        while len(state) > number:
            state.pop(0 if self._greatest else -1)
        return state

    def finish(self, state: State) -> list[Any] | None:
        values = [value for _, value in state]
        return (values[::-1] if self._greatest else values) or None


def _looked_for(item: tuple[Any, Any]) -> Any:
    return item[0]
