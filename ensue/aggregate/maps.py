"""map_agg(k, v), multimap_agg(k, v), map_union(m): a map of what the rows say of each key.

As Trino has them: null of no rows. `map_agg` and `map_union` keep the first value of a key,
`multimap_agg` all of them in row order, nulls included. Rows whose key is null are skipped. The
state is a dictionary from a comparable key to (key, value), in order of first appearance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ensue.aggregate import ordering
from ensue.aggregate.base import TWO_ARGUMENTS, Aggregate, plain_type

State = dict[Any, tuple[Any, Any]]


class MapAgg(Aggregate):
    name = "map_agg"
    arity = TWO_ARGUMENTS

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        key, value = map(plain_type, argument_types)
        if pa.types.is_null(key) or not ordering.is_orderable(key):
            raise self.refuse_type(key, "keys that can be compared")
        return pa.map_(key, self.value_type(value))

    def value_type(self, given: pa.DataType) -> pa.DataType:
        return given

    def identity(self) -> State:
        return {}

    def absorb(self, state: State, *values: Any) -> State:
        if values[0] is not None:
            state.setdefault(ordering.key(values[0]), (values[0], values[1]))
        return state

    def finish(self, state: State) -> list[tuple[Any, Any]] | None:
        return list(state.values()) or None


class MultimapAgg(MapAgg):
    name = "multimap_agg"

    def value_type(self, given: pa.DataType) -> pa.DataType:
        return pa.list_(given)

    def absorb(self, state: State, *values: Any) -> State:
        if values[0] is not None:
            known = state.setdefault(ordering.key(values[0]), (values[0], []))
            known[1].append(values[1])
        return state

    def finish(self, state: State) -> list[tuple[Any, Any]] | None:
        return [(key, list(values)) for key, values in state.values()] or None


class MapUnion(MapAgg):
    name = "map_union"
    arity = range(1, 2)

    def result_type(self, argument_types: Sequence[pa.DataType]) -> pa.DataType:
        self.check_arity(argument_types)
        if not pa.types.is_map(argument_types[0]):
            raise self.refuse_type(argument_types[0], "a map")
        return argument_types[0]

    def absorb(self, state: State, *values: Any) -> State:
        for key, value in values[0] or ():
            state.setdefault(ordering.key(key), (key, value))
        return state
