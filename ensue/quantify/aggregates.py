"""The names people know: sum, mean, max, last, argmax, quantile, ... as queries of rank 0.

Each is defined on one or more events that satisfy `over`, and folds those where `where` holds.
Nulls are skipped as SQL's aggregates skip them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ensue import errors
from ensue.api.quantity import Quantity
from ensue.quantify.reading import MISSING, Given, read_operation, read_predicate, read_weight
from ensue.quantities import folds
from ensue.quantities.decimals import Mean
from ensue.quantities.model import Action, Automaton, Fold, Operation, Predicate, Step, Weight
from ensue.quantities.sketch import LEAST_ERROR, AddToSketch, QuantileOf
from ensue.scalar import kinds as k

_MOST = 2**62  # the loop counts in 64 bits, and no table has as many rows as are then left


def _aggregate(
    name: str,
    actions: Sequence[tuple[Fold, tuple[Given | Weight, ...], int]],
    slots: tuple[Any, ...],
    over: Given,
    where: Given,
    finish: str | Operation | None = None,
    empty: bool = False,
) -> Quantity:
    done = tuple(
        Action(fold, tuple(read_weight(w) for w in weights), slot)
        for fold, weights, slot in actions
    )
    ways: list[tuple[Predicate, tuple[Action, ...], bool]]
    ways = [(read_predicate(over), done, False)]
    if where is not None:
        counted, skipped = _filtered(over, where)
        ways = [(counted, done, False), (skipped, (), True)]
    operation = read_operation(finish, len(slots), name) if isinstance(finish, str) else finish
    # Without an event there is a value only where `empty` says so.
    states = ("at",) if empty else ("none", "some")
    steps = tuple(Step(source, states[-1], *way) for source in states for way in ways)
    final: dict[str, tuple[Action, ...]] = {states[-1]: ()}
    return Quantity.of(
        Automaton(states, steps, {states[0]: slots}, final, finish=operation, name=name)
    )


def _filtered(over: Given, where: Given) -> tuple[Predicate, Predicate]:
    if not isinstance(where, str) or not (over is None or isinstance(over, str)):
        raise errors.QueryError(
            "where takes SQL text, with `over` as SQL text or left out",
            remedy="put a Python condition into the value, giving None where it does not hold",
        )
    text = "" if over is None else f"({over}) AND "
    return read_predicate(f"{text}({where})"), read_predicate(f"{text}NOT (({where}) IS TRUE)")


class _Named(Protocol):
    """One of the folds by name; with a start, it is also defined on no events."""

    def __call__(
        self, value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING
    ) -> Quantity: ...


def _named(name: str, what: str, example: str, value: str) -> _Named:
    def query(
        value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING
    ) -> Quantity:
        empty = start is not MISSING
        slots = (start if empty else None,)
        fold = [(folds.FOLDS[name], (value,), 0)]
        return _aggregate(f"{name}({value})", fold, slots, over, where, empty=empty)

    query.__name__ = query.__qualname__ = name
    query.__doc__ = (
        f"{what} over one or more events that all satisfy `over`; with a start, also over none.\n\n"
        f"Examples:\n    >>> q.{example}\n    {value}"
    )
    return query


sum = _named("sum", "The sum", 'sum("x").eval(pa.table({"x": [1, 2, 3]}))', "6")
product = _named("product", "The product", 'product("x").eval(pa.table({"x": [2, 3]}))', "6")
max = _named("max", "The greatest value", 'max("x").eval(pa.table({"x": [1, 3, 2]}))', "3")
min = _named("min", "The least value", 'min("x").eval(pa.table({"x": [1, 3, 2]}))', "1")
last = _named(
    "last", "The last value that is not null", 'last("x").eval(pa.table({"x": [1, 3, None]}))', "3"
)
first = _named(
    "first",
    "The first value that is not null",
    'first("x").eval(pa.table({"x": [None, 3, 2]}))',
    "3",
)
any = _named(
    "any",
    "Whether one of the values is true,",
    'any("x > 2").eval(pa.table({"x": [1, 3]}))',
    "True",
)
all = _named(
    "all", "Whether all values are true,", 'all("x > 2").eval(pa.table({"x": [1, 3]}))', "False"
)


def count(
    value: Given = None, *, over: Given = None, where: Given = None, start: Any = MISSING
) -> Quantity:
    """The number of events, or of values that are not null.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> q.count(where="x > 0").eval(x)
        3
    """
    fold = folds.FOLDS["rows" if value is None else "count"]
    empty = start is not MISSING
    if empty and not (isinstance(start, int) and -_MOST <= start <= _MOST):
        raise errors.OperationTypeError(
            f"count(start={start!r}) does not begin with a whole number below 2^62",
            remedy="begin with 0, or add the number afterwards: apply('a + 1e30', count(...))",
        )
    slots = (start if empty else 0,)
    return _aggregate(
        f"count({'*' if value is None else value})", [(fold, (value,), 0)], slots, over, where,
        empty=empty,
    )  # fmt: skip


def mean(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The mean of the values that are not null; null where there is none.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> q.mean("x", where="x > 0").eval(pa.table({"x": [1, 2, 0]}))
        1.5
    """
    weights = (value,)
    whole = read_operation("CASE WHEN b > 0 THEN a / b END", 2, "mean")
    return _aggregate(
        f"mean({value})",
        [(folds.TOTAL, weights, 0), (folds.FOLDS["count"], weights, 1)],
        (None, 0),
        over,
        where,
        finish=Mean(whole.names, tree=whole.tree, text=whole.text),
    )


def variance(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The sample variance (Welford); null for fewer than two values.

    Examples:
        >>> q.variance("x").eval(pa.table({"x": [1.0, 2.0, 3.0]}))
        1.0
    """
    return _moments("variance", value, over, where, "CASE WHEN a > 1 THEN c / (a - 1) END")


def stddev(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The sample standard deviation; null for fewer than two values.

    Examples:
        >>> q.stddev("x").eval(pa.table({"x": [1.0, 2.0, 3.0]}))
        1.0
    """
    return _moments("stddev", value, over, where, "CASE WHEN a > 1 THEN sqrt(c / (a - 1)) END")


def _moments(name: str, value: Given, over: Given, where: Given, finish: str) -> Quantity:
    fold = folds.FOLDS["moments"]
    return _aggregate(
        f"{name}({value})", [(fold, (value,), 0)], (0, 0.0, 0.0), over, where, finish=finish
    )


def argmax(value: Given, key: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The value at the event with the greatest key, the first of those.

    Examples:
        >>> bids = pa.table({"who": ["ann", "bob"], "bid": [3, 9]})
        >>> q.argmax("who", "bid").eval(bids)
        'bob'
    """
    return _argument("argmax", value, key, over, where)


def argmin(value: Given, key: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The value at the event with the least key, the first of those.

    Examples:
        >>> bids = pa.table({"who": ["ann", "bob"], "bid": [3, 9]})
        >>> q.argmin("who", "bid").eval(bids)
        'ann'
    """
    return _argument("argmin", value, key, over, where)


def _argument(name: str, value: Given, key: Given, over: Given, where: Given) -> Quantity:
    fold = folds.FOLDS[name]
    return _aggregate(
        f"{name}({value}, {key})", [(fold, (key, value), 0)], (None, None), over, where, finish="b"
    )


def quantile(
    value: Given, part: float, *, error: float = 0.01, over: Given = None, where: Given = None
) -> Quantity:
    """The value at place `part` * (n - 1) of the sorted ones, to a relative `error`.

    Examples:
        >>> round(q.quantile("x", 0.5).eval(pa.table({"x": range(101)})))
        50
    """
    if not _number(part) or not 0 <= part <= 1:
        raise errors.QueryError(f"{part} is not a quantile", remedy="give a number from 0 to 1")
    if not _number(error) or not LEAST_ERROR <= error < 1:
        raise errors.QueryError(
            f"{error} is not an error of a quantile",
            remedy=f"give a number from {LEAST_ERROR} and below 1, such as 0.01",
        )
    fold = folds.sketch(AddToSketch(error))
    finish = Operation(("a",), function=QuantileOf(part), text=f"quantile {part}", result=k.DOUBLE)
    return _aggregate(
        f"quantile({value}, {part})", [(fold, (value,), 0)], (None,), over, where, finish=finish
    )


def _number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)


def prefix_sum(value: Given, *, start: Any = 0) -> Quantity:
    """The sum of all values so far; `stream` gives it at every event.

    Examples:
        >>> q.prefix_sum("x").stream(pa.table({"x": [1, 2, 3]})).to_pylist()
        [1, 3, 6]
    """
    return sum(value, start=start)
