"""Aggregates: a fold each, over Python values and over Arrow columns. See `base.py`.

One file per state. `get` finds one by its Spark SQL name.
"""

from __future__ import annotations

from ensue import errors
from ensue.aggregate.average import Average
from ensue.aggregate.base import Aggregate
from ensue.aggregate.collect import ArrayAgg
from ensue.aggregate.count import Count
from ensue.aggregate.distinct import Distinct
from ensue.aggregate.extrema import Extremum, Quantifier
from ensue.aggregate.maps import MapAgg, MapUnion, MultimapAgg
from ensue.aggregate.ranked import Ranked
from ensue.aggregate.total import Sum

__all__ = ["Aggregate", "get", "names"]

_ALL: tuple[Aggregate, ...] = (
    Count(),
    Sum(),
    Average(),
    Extremum("min", greatest=False),
    Extremum("max", greatest=True),
    ArrayAgg(),
    Distinct(ArrayAgg(), "collect_set"),
    Extremum("min_by", greatest=False, by=True),
    Extremum("max_by", greatest=True, by=True),
    Quantifier("bool_and", greatest=False),
    Quantifier("bool_or", greatest=True),
    Ranked("min_n", greatest=False),
    Ranked("max_n", greatest=True),
    Ranked("min_by_n", greatest=False, by=True),
    Ranked("max_by_n", greatest=True, by=True),
    MapAgg(),
    MultimapAgg(),
    MapUnion(),
)
_BY_NAME = {aggregate.name: aggregate for aggregate in _ALL}
# For the rest, a value that comes twice changes nothing: DISTINCT is the aggregate itself.
_DISTINCT = {
    name: Distinct(_BY_NAME[name])
    for name in ("count", "sum", "avg", "array_agg", "min_n", "max_n")
}


def get(name: str, distinct: bool = False) -> Aggregate:
    """The aggregate of that (lower case) name, over each different value once if `distinct`."""
    if name not in _BY_NAME:
        raise errors.UnsupportedFunctionError(
            f"{name!r} is not an aggregate that Ensue knows",
            remedy="use one of " + ", ".join(names()),
        )
    return _DISTINCT.get(name, _BY_NAME[name]) if distinct else _BY_NAME[name]


def names() -> tuple[str, ...]:
    """Of all aggregates, in alphabetical order."""
    return tuple(sorted(_BY_NAME))
