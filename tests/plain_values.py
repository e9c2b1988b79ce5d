"""A condition evaluated once on plain values, typed as its values are."""

from __future__ import annotations

from typing import Any

from ensue.query.condition import Condition
from ensue.scalar import kinds as k
from ensue.scalar.infer import ColumnKind
from ensue.scalar.values import Leaf, compile_value, kind_of_value


def evaluate_value(
    condition: Condition,
    leaf: Leaf,
    column_kind: ColumnKind | None = None,
    zone: str = k.DEFAULT_ZONE,
) -> Any:
    """The value of a condition; without `column_kind` the kinds are read off the values.

    A Python int is then taken for a bigint and a float for a double, so that only the columns'
    own kinds give the exact overflow of narrower types.
    """
    known: dict[Condition, Any] = {}

    def read(node: Condition) -> Any:
        if node not in known:
            known[node] = leaf(node)
        return known[node]

    kinds = column_kind or (lambda node: kind_of_value(read(node)))
    return compile_value(condition, kinds, zone)(read)
