"""What an aggregate is: a fold over the rows, and the same thing over columns.

As a fold, in plain Python values, a state takes in one row after the other:

    finish(absorb(absorb(identity(), 3), 4))        # sum: 7

Null is None and is skipped as SQL says; what no rows give (null, 0, an empty list) is
`finish(identity())`. Why states are neither joined nor taken apart is in
docs/decisions/0084-aggregates-are-folds.md.

Over columns, rows lie in contiguous segments, segment i from `offsets[i]` to `offsets[i + 1]`:

    reduce(columns, offsets)    one result per segment
    scan(columns, offsets)      at each row, the result of its segment up to and with that row

Both are given here for any type by walking the rows, one Python value each. An aggregate
that can do better overrides `over_columns`, which serves both; it gets columns that start at row 0,
end with the last segment and hold no dictionaries, and returns None for types it leaves to the
walk. Both ways give the same answer: the contract tests compare them.

How to add one
1. Write a class: `name`, `arity`, `result_type`, `identity`, `absorb`, `finish`.
2. If the states are numbers, add `over_columns` over flat arrays (`columns.py` turns Arrow into
   NumPy and back; compile loops with Numba).
3. List it in `__init__.py`. `tests/contract/test_aggregates.py` finds it there and checks the laws
   above; add a line to `tests/spark/test_aggregates_like_spark.py` if Spark has it too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors

State = Any  # plain Python values; each aggregate's header says which
Offsets = NDArray[np.int64]

ONE_ARGUMENT = range(1, 2)
TWO_ARGUMENTS = range(2, 3)


class Aggregate(ABC):
    """One aggregate function. Holds no data: one object serves every query."""

    name: str
    arity: range = ONE_ARGUMENT  # how many arguments it takes
    distinct: bool = False

    @abstractmethod
    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the result as Spark has it, or `ColumnTypeError`."""

    @abstractmethod
    def identity(self) -> State:
        """The state of no rows; a new object each time, since `absorb` may change it."""

    @abstractmethod
    def absorb(self, state: State, *values: Any) -> State:
        """The state with one more row; changes a list or dictionary that it is given."""

    @abstractmethod
    def finish(self, state: State) -> Any:
        """The result for a state, which can still be used afterwards."""

    def reduce(self, arguments: Sequence[pa.Array], offsets: Offsets) -> pa.Array:
        """One result per segment; a segment may be empty."""
        return self._over(arguments, offsets, running=False)

    def scan(self, arguments: Sequence[pa.Array], offsets: Offsets) -> pa.Array:
        """The running result at each row from `offsets[0]` to `offsets[-1]`, itself included."""
        return self._over(arguments, offsets, running=True)

    def _over(self, arguments: Sequence[pa.Array], offsets: Offsets, running: bool) -> pa.Array:
        columns, starts, result = self._prepared(arguments, offsets)
        column = self.over_columns(columns, starts, running)
        if column is not None:
            return column
        rows = _rows(columns, int(starts[-1]))
        results = []
        for segment in range(len(starts) - 1):
            state = self.identity()
            for row in rows[starts[segment] : starts[segment + 1]]:
                state = self.absorb(state, *row)
                if running:
                    results.append(self.finish(state))
            if not running:
                results.append(self.finish(state))
        return self.column(results, result)

    def over_columns(
        self, columns: list[pa.Array], offsets: Offsets, running: bool
    ) -> pa.Array | None:
        """`scan` (if running) or `reduce` over flat arrays; None for types that need the walk."""
        return None

    def column(self, results: Sequence[Any], result: pa.DataType) -> pa.Array:
        """Finished results as a column of type `result`, or `OverflowDataError`."""
        try:
            return pa.array(results, type=result)
        except pa.ArrowInvalid as error:
            if pa.types.is_decimal(result):
                raise self.overflow(result) from error
            raise

    def check_arity(self, argument_types: Sequence[pa.DataType]) -> None:
        if len(argument_types) not in self.arity:
            least, most = self.arity[0], self.arity[-1]
            expected = f"{least}" if least == most else f"{least} or more"
            raise errors.ColumnTypeError(
                f"{self} takes {expected} argument(s), not {len(argument_types)}",
                remedy=f"give {self} {expected} argument(s)",
            )

    def refuse_type(self, given: pa.DataType, accepted: str) -> errors.ColumnTypeError:
        return errors.ColumnTypeError(
            f"{self} of {given} is not defined: it takes {accepted}",
            remedy=f"cast the argument to {accepted}",
        )

    def overflow(self, limit: pa.DataType) -> errors.OverflowDataError:
        return errors.OverflowDataError(
            f"{self} left the range of its type {limit}",
            remedy="cast the argument to a wider type, such as decimal(38, 0) or double",
        )

    def __str__(self) -> str:
        return f"{self.name}(distinct)" if self.distinct else self.name

    def __repr__(self) -> str:
        return f"<aggregate {self}>"

    def _prepared(
        self, arguments: Sequence[pa.Array], offsets: Offsets
    ) -> tuple[list[pa.Array], Offsets, pa.DataType]:
        """Decoded columns that start at row 0, the offsets into them, and the result's type."""
        starts = np.ascontiguousarray(offsets, dtype=np.int64)
        shortest = min((len(a) for a in arguments), default=None)
        if not len(starts) or starts[0] < 0 or np.any(starts[1:] < starts[:-1]):
            raise errors.DataError(
                f"{self}: the offsets of segments must be one or more numbers that never decrease",
                remedy="give n + 1 offsets for n segments",
            )
        if shortest is not None and starts[-1] > shortest:
            raise errors.DataError(
                f"{self}: the last segment ends at {starts[-1]}, the shortest column has "
                f"{shortest} rows",
                remedy="give offsets that lie inside the columns",
            )
        begin, size = int(starts[0]), int(starts[-1] - starts[0])
        columns = []
        for argument in arguments:
            column = argument.slice(begin, size)
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            columns.append(column)
        return columns, starts - begin, self.result_type([column.type for column in columns])


def plain_type(given: pa.DataType) -> pa.DataType:
    """The type of the values: what a dictionary encodes, otherwise the type itself."""
    return given.value_type if pa.types.is_dictionary(given) else given


def _rows(columns: list[pa.Array], size: int) -> list[tuple[Any, ...]]:
    if not columns:
        return [()] * size
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
