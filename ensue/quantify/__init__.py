"""Quantitative queries: what the structure of a stream adds up to, in constant space.

A query f says on which streams it is defined (its domain) and what its value is there. Small
queries are put together by combinators; `f.eval(table)` gives the value of a whole table (None
where undefined), `f.stream(table)` one per event, `f.check()` what it costs and why. Predicates and
values are SQL over the event's columns, or Python callables of the event as a mapping.

    >>> import pyarrow as pa
    >>> from ensue import quantify as q
    >>> block = q.sum("x", over="x > 0")                       # the sum of a block of positive x
    >>> f = q.iter("max", q.split("a", block, q.event("x = 0")))  # blocks end with 0: the largest
    >>> f.eval(pa.table({"x": [1, 2, 0, 5, 0, 3, 1, 0]}))
    5

`reading` takes what users write, `combinators` puts queries together, `aggregates` has the names
people know, `by_hand` draws automata state by state. The query itself is `ensue.quantify.Quantity`.
"""

from ensue.api.quantity import Quantity
from ensue.quantify.aggregates import (
    all,
    any,
    argmax,
    argmin,
    count,
    first,
    last,
    max,
    mean,
    min,
    prefix_sum,
    product,
    quantile,
    stddev,
    sum,
    variance,
)
from ensue.quantify.by_hand import AutomatonBuilder, automaton
from ensue.quantify.combinators import apply, choose, combine, event, group_by, iter, split, windows
from ensue.quantify.reading import disjoint, monoid
from ensue.quantities.checks import EXPONENTIAL, LINEAR, Report

__all__ = [
    "EXPONENTIAL",
    "LINEAR",
    "AutomatonBuilder",
    "Quantity",
    "Report",
    "all",
    "any",
    "apply",
    "argmax",
    "argmin",
    "automaton",
    "choose",
    "combine",
    "count",
    "disjoint",
    "event",
    "first",
    "group_by",
    "iter",
    "last",
    "max",
    "mean",
    "min",
    "monoid",
    "prefix_sum",
    "product",
    "quantile",
    "split",
    "stddev",
    "sum",
    "variance",
    "windows",
]
