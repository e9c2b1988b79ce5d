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
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ensue import errors
from ensue.evaluate.quantify import build, folds
from ensue.evaluate.quantify.build import MISSING
from ensue.evaluate.quantify.checks import EXPONENTIAL, LINEAR, Report
from ensue.evaluate.quantify.model import (
    ALWAYS,
    RESULT,
    Action,
    Automaton,
    Collect,
    Constant,
    Expression,
    Fold,
    Function,
    Invocation,
    Operation,
    Predicate,
    Silent,
    Step,
    Transition,
    Weight,
)
from ensue.evaluate.quantify.sketch import AddToSketch, QuantileOf
from ensue.evaluate.quantify.stages import (
    AutomatonStage,
    Groups,
    Joined,
)
from ensue.evaluate.quantify.windows import Windows
from ensue.front.builder import window
from ensue.front.expressions import Scope, parse_condition
from ensue.pattern import condition as c
from ensue.pattern.query import WindowKind
from ensue.quantity import Quantity

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

Given = str | Callable[..., Any] | int | float | bool | None
_groups = itertools.count(1)


# -- what users write -----------------------------------------------------------------------------


def _row_tree(text: str, where: str) -> c.Condition:
    """SQL text over the columns of one event."""
    tree = parse_condition(text, Scope(where=where))

    def plain(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Navigate):
            whole = not (node.offset or node.shift) and node.anchor is c.Anchor.LAST
            if whole and not isinstance(node.argument, c.Classifier):
                return node.argument
        if isinstance(node, (c.Navigate, c.Aggregate, c.MatchNumber, c.Classifier)):
            raise errors.QueryError(
                f"{where}: {c.dump(node)} reads other events, and only the event at hand is known",
                remedy="fold over events with iter, sum, max, ...",
                place=errors.Place.at_offset(text, 0),
            )
        return None

    return c.transform(tree, plain)


def _predicate(given: Given | Predicate) -> Predicate:
    if isinstance(given, (Expression, Function)):
        return given
    if given is None or given is True:
        return ALWAYS
    if isinstance(given, str):
        return Expression(_row_tree(given, "the predicate"))
    if callable(given):
        return Function(given)
    raise _not_readable(given, "a predicate")


def _weight(given: Given | Weight) -> Weight:
    if isinstance(given, (Constant, Expression, Function)):
        return given
    if isinstance(given, str):
        return Expression(_row_tree(given, "the value"))
    if callable(given):
        return Function(given)
    return Constant(given)


def _not_readable(given: object, what: str) -> errors.QueryError:
    return errors.QueryError(
        f"{given!r} is not {what}", remedy="give SQL text or a Python callable of the event"
    )


def _operation(given: Given | Operation, count: int) -> Operation:
    """An operation on values named a, b, c, ...; decimals in its text are doubles."""
    if isinstance(given, Operation):
        return given
    names = build.ARGUMENTS[:count]
    if isinstance(given, str):
        return Operation(names, tree=_argument_tree(given, names), text=given)
    if callable(given):
        return Operation(names, function=given)
    raise errors.QueryError(
        f"{given!r} is not an operation",
        remedy=f"give SQL over {', '.join(names)} or a Python callable of {count} values",
    )


def _argument_tree(text: str, names: tuple[str, ...]) -> c.Condition:
    tree = _row_tree(text, f"the operation {text!r}")

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Column):
            name = node.name.lower()
            if name not in names or node.path:
                raise errors.OperationTypeError(
                    f"the operation {text!r} reads {c.dump(node)!r}, which is none of its "
                    f"arguments: {', '.join(names)}",
                    remedy="name the values of the queries in turn a, b, c, ..., or, in a fold, "
                    "state and value",
                    place=errors.Place.at_offset(text, text.lower().find(name)),
                )
            return c.Column(name)
        if isinstance(node, c.Literal) and node.kind == "decimal":
            return c.Literal("double", float(node.value))  # type: ignore[arg-type]
        return None

    return c.transform(tree, change)


def _fold(given: str | Fold | Callable[..., Any]) -> Fold:
    if isinstance(given, str):
        if given.lower() in folds.FOLDS:
            return folds.FOLDS[given.lower()]
        names = ("state", "value")
        return folds.fold_of(Operation(names, tree=_argument_tree(given, names), text=given))
    return folds.fold_of(given)


def monoid(fold: str | Callable[..., Any], identity: Any) -> Fold:
    """A fold declared to be associative with an identity, so that it may run in parallel."""
    return replace(_fold(fold), associative=True, identity=identity)


def _collect(given: str | Collect | Callable[..., Any] | None) -> Collect | None:
    if given is None or isinstance(given, Collect):
        return given
    if isinstance(given, str):
        if given not in folds.COLLECTS:
            raise errors.AutomatonError(
                f"{given!r} is not a collect operation",
                remedy=f"use one of {', '.join(folds.COLLECTS)} or a callable of two values",
            )
        return folds.COLLECTS[given]
    return Collect(getattr(given, "__name__", "collect"), given)


def _automaton_of(f: Quantity, what: str) -> Automaton:
    if not isinstance(f, Quantity):
        raise errors.QueryError(
            f"{what} takes queries, {type(f).__name__} given",
            remedy="wrap a value in event(...), or use sum, mean, last, ...",
        )
    if not isinstance(f.stage, AutomatonStage):
        raise errors.QueryError(
            f"{what} cannot hold a window, a group or a pipeline",
            remedy=f"apply {what} inside the window, or continue with >> after it",
        )
    return f.stage.automaton


def disjoint(*predicates: Callable[..., Any], complete: bool = False) -> tuple[Predicate, ...]:
    """Python predicates declared to exclude each other; `complete`: one of them always holds."""
    group = next(_groups)
    return tuple(Function(p, group, complete) for p in predicates)


# -- combinators ----------------------------------------------------------------------------------


def event(predicate: Given | Predicate = None, value: Given | Weight = None) -> Quantity:
    """Defined on one event that satisfies the predicate; its value there."""
    return Quantity.of(build.event(_predicate(predicate), _weight(value)))


def split(
    op: Given | Operation, *parts: Quantity, allow: str | None = None, assume: str | None = None
) -> Quantity:
    """Defined where the stream can be cut into one stretch per part; op of their values.

    Checked when built: if a stream can be cut in two ways, the error shows one.
    """
    automata = [_automaton_of(f, "split") for f in parts]
    found = Quantity.of(build.split(_operation(op, len(parts)), automata))
    return found.allowing(allow, assume).checked()


def iter(
    fold: str | Fold | Callable[..., Any],
    f: Quantity,
    *,
    start: Any = MISSING,
    allow: str | None = None,
    assume: str | None = None,
) -> Quantity:
    """Stretches of f one after the other, their values folded from `start`.

    Without a start at least one stretch is needed, and its value begins the fold. `fold` is a name
    (sum, max, count, ...), SQL over `state` and `value`, or a callable of two.
    """
    found = Quantity.of(build.iterate(_fold(fold), _automaton_of(f, "iter"), start))
    return found.allowing(allow, assume).checked()


def choose(*options: Quantity, allow: str | None = None, assume: str | None = None) -> Quantity:
    """The value of the one option that is defined; their domains must not meet."""
    found = Quantity.of(build.choose([_automaton_of(f, "choose") for f in options]))
    return found.allowing(allow, assume).checked()


def combine(
    op: Given | Operation, *parts: Quantity, allow: str | None = None, assume: str | None = None
) -> Quantity:
    """op of the values of all parts on the same stream; their domains must be the same."""
    operation = _operation(op, len(parts))
    if not all_automata(parts):
        return Quantity(Joined(operation, [f.stage for f in parts]))
    automata = [_automaton_of(f, "combine") for f in parts]
    found = Quantity.of(build.combine(operation, automata))
    return found.allowing(allow, assume).checked()


def all_automata(parts: tuple[Quantity, ...]) -> bool:
    return not [f for f in parts if not isinstance(f.stage, AutomatonStage)]


def apply(op: Given | Operation, f: Quantity) -> Quantity:
    """op of the value of f."""
    operation = _operation(op, 1)
    if not isinstance(f.stage, AutomatonStage):
        return Quantity(Joined(operation, [f.stage]))
    return Quantity.of(build.apply(operation, f.stage.automaton))


def windows(
    f: Quantity,
    *,
    rows: int | None = None,
    time: str | int | None = None,
    by: str | None = None,
    until: str | None = None,
    partial: bool | None = None,
) -> Quantity:
    """f on each tumbling window: of `rows` events, of `time` in the column `by`, or `until` holds.

    The value comes at the event that ends the window; for windows of time, at the first event of
    the next one, and, unless partial=False, for the last window at the end of the table.
    """
    kinds = [kind for kind in (rows, time, until) if kind is not None]
    if len(kinds) != 1:
        raise errors.QueryError(
            "windows needs exactly one of rows, time and until",
            remedy='write windows(f, rows=3) or windows(f, time="1 minute", by="ts")',
        )
    if rows is not None and (not isinstance(rows, int) or rows < 1):
        raise errors.QueryError(f"windows of {rows} rows", remedy="give a whole number above 0")
    span = None
    if time is not None:
        if by is None:
            raise errors.QueryError(
                "windows of time need the column that holds it", remedy='add by="ts"'
            )
        size = window(time)
        if size.kind is WindowKind.ROWS:
            raise errors.QueryError(f"time={time!r} counts rows", remedy="use rows= instead")
        span = int(size.size)
        if span < 1:
            raise errors.QueryError(f"windows of time {time!r}", remedy="give a longer window")
    ends = None if until is None else Expression(_row_tree(until, "until"))
    late = time is not None if partial is None else partial
    return Quantity(Windows(f.stage, rows, span, by or "", ends, late))


def group_by(key: str | tuple[str, ...] | list[str], f: Quantity) -> Quantity:
    """f for each value of the key; `eval` gives a table of keys and values."""
    keys = (key,) if isinstance(key, str) else tuple(key)
    return Quantity(Groups(keys, f.stage))


# -- the names people know ------------------------------------------------------------------------


def _aggregate(
    name: str,
    actions: list[tuple[Fold, tuple[Given | Weight, ...], int]],
    slots: tuple[Any, ...],
    over: Given,
    where: Given,
    finish: str | Operation | None = None,
    empty: bool = False,
) -> Quantity:
    done = tuple(
        Action(fold, tuple(_weight(w) for w in weights), slot) for fold, weights, slot in actions
    )
    over_all = _predicate(over)
    counted = skipped = None
    if where is not None:
        counted, skipped = _filtered(over, where)
    operation = finish
    if isinstance(finish, str):
        operation = _operation(finish, len(slots))
    automaton = build.aggregate(
        done,
        slots,
        over=over_all,
        counted=counted,
        skipped=skipped,
        finish=operation,  # type: ignore[arg-type]
        empty=empty,
        name=name,
    )
    return Quantity.of(automaton)


def _filtered(over: Given, where: Given) -> tuple[Predicate, Predicate]:
    if not isinstance(where, str) or not (over is None or isinstance(over, str)):
        raise errors.QueryError(
            "where takes SQL text, with `over` as SQL text or left out",
            remedy="put a Python condition into the value, giving None where it does not hold",
        )
    text = "" if over is None else f"({over}) AND "
    return _predicate(f"{text}({where})"), _predicate(f"{text}NOT (({where}) IS TRUE)")


def sum(value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING) -> Quantity:
    """The sum over one or more events that all satisfy `over`; with a start, also over none."""
    return _fold_named("sum", value, over, where, start)


def product(
    value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING
) -> Quantity:
    return _fold_named("product", value, over, where, start)


def max(value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING) -> Quantity:
    return _fold_named("max", value, over, where, start)


def min(value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING) -> Quantity:
    return _fold_named("min", value, over, where, start)


def last(
    value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING
) -> Quantity:
    """The last value that is not null."""
    return _fold_named("last", value, over, where, start)


def first(
    value: Given, *, over: Given = None, where: Given = None, start: Any = MISSING
) -> Quantity:
    """The first value that is not null."""
    return _fold_named("first", value, over, where, start)


def any(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    return _fold_named("any", value, over, where, MISSING)


def all(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    return _fold_named("all", value, over, where, MISSING)


def _fold_named(name: str, value: Given, over: Given, where: Given, start: Any) -> Quantity:
    empty = start is not MISSING
    return _aggregate(
        f"{name}({value})",
        [(folds.FOLDS[name], (value,), 0)],
        (start if empty else None,),
        over,
        where,
        empty=empty,
    )


def count(
    value: Given = None, *, over: Given = None, where: Given = None, start: Any = MISSING
) -> Quantity:
    """The number of events, or of values that are not null."""
    fold = folds.FOLDS["rows" if value is None else "count"]
    empty = start is not MISSING
    slots = (start if empty else 0,)
    return _aggregate(
        f"count({'*' if value is None else value})", [(fold, (value,), 0)], slots, over, where,
        empty=empty,
    )  # fmt: skip


def mean(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The mean of the values that are not null; null where there is none."""
    weights = (value,)
    return _aggregate(
        f"mean({value})",
        [(folds.FOLDS["sum"], weights, 0), (folds.FOLDS["count"], weights, 1)],
        (None, 0),
        over,
        where,
        finish="CASE WHEN b > 0 THEN a / b END",
    )


def variance(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The sample variance (Welford); null for fewer than two values."""
    return _moments("variance", value, over, where, "CASE WHEN a > 1 THEN c / (a - 1) END")


def stddev(value: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The sample standard deviation; null for fewer than two values."""
    return _moments("stddev", value, over, where, "CASE WHEN a > 1 THEN sqrt(c / (a - 1)) END")


def _moments(name: str, value: Given, over: Given, where: Given, finish: str) -> Quantity:
    fold = folds.FOLDS["moments"]
    return _aggregate(
        f"{name}({value})", [(fold, (value,), 0)], (0, 0.0, 0.0), over, where, finish=finish
    )


def argmax(value: Given, key: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The value at the event with the greatest key, the first of those."""
    return _argument("argmax", value, key, over, where)


def argmin(value: Given, key: Given, *, over: Given = None, where: Given = None) -> Quantity:
    """The value at the event with the least key, the first of those."""
    return _argument("argmin", value, key, over, where)


def _argument(name: str, value: Given, key: Given, over: Given, where: Given) -> Quantity:
    fold = folds.FOLDS[name]
    return _aggregate(
        f"{name}({value}, {key})", [(fold, (key, value), 0)], (None, None), over, where, finish="b"
    )


def quantile(
    value: Given, part: float, *, error: float = 0.01, over: Given = None, where: Given = None
) -> Quantity:
    """An approximate quantile by a sketch of constant size, right to a relative `error`."""
    if not 0 <= part <= 1:
        raise errors.QueryError(f"the quantile {part}", remedy="give a number from 0 to 1")
    fold = folds.fold_of(AddToSketch(error))
    finish = Operation(("a",), function=QuantileOf(part), text=f"quantile {part}")
    return _aggregate(
        f"quantile({value}, {part})", [(fold, (value,), 0)], (None,), over, where, finish=finish
    )


def prefix_sum(value: Given, *, start: Any = 0) -> Quantity:
    """The sum of all values so far; `stream` gives it at every event."""
    return sum(value, start=start)


# -- automata by hand -----------------------------------------------------------------------------


def automaton(
    fold: str | Fold | Callable[..., Any],
    *,
    collect: str | Collect | Callable[..., Any] | None = None,
    finish: Given | Operation | None = None,
    name: str = "automaton",
) -> AutomatonBuilder:
    """A streaming automaton state by state, as the paper draws them."""
    operation = None if finish is None else _operation(finish, 1)
    return AutomatonBuilder(_fold(fold), _collect(collect), operation, name)


class AutomatonBuilder:
    """Collects states and transitions; `build()` gives the query."""

    def __init__(
        self, fold: Fold, collect: Collect | None, finish: Operation | None, name: str
    ) -> None:
        self._fold, self._collect, self._finish, self._name = fold, collect, finish, name
        self._states: dict[str, None] = {}
        self._initial: dict[str, tuple[Any, ...]] = {}
        self._final: dict[str, tuple[Action, ...]] = {}
        self._transitions: list[Transition] = []

    def initial(self, state: str, value: Any) -> AutomatonBuilder:
        self._states.setdefault(state)
        self._initial[state] = (value,)
        return self

    def final(self, state: str, weight: Any = MISSING) -> AutomatonBuilder:
        self._states.setdefault(state)
        given = () if weight is MISSING else (Action(self._fold, (Constant(weight),)),)
        self._final[state] = given
        return self

    def step(
        self, source: str, target: str, when: Given | Predicate, weight: Given | Weight
    ) -> AutomatonBuilder:
        """An event where `when` holds; a number, text or callable gives the weight."""
        action = Action(self._fold, (_weight(weight),))
        return self._add(Step(source, target, _predicate(when), (action,)))

    def skip(self, source: str, target: str, when: Given | Predicate) -> AutomatonBuilder:
        """An event where `when` holds, with no weight."""
        return self._add(Step(source, target, _predicate(when), ()))

    def silent(self, source: str, target: str, weight: Any = MISSING) -> AutomatonBuilder:
        given = () if weight is MISSING else (Action(self._fold, (Constant(weight),)),)
        return self._add(Silent(source, target, given))

    def call(
        self, source: str, target: str, op: Given | Operation, *queries: Quantity
    ) -> AutomatonBuilder:
        """op(A1, ..., Am) on a stretch that all queries accept."""
        parts = tuple(_automaton_of(query, "call") for query in queries)
        operation = Operation.identity() if op is None else _operation(op, len(parts))
        action = Action(self._fold, (RESULT,))
        return self._add(Invocation(source, target, operation, parts, (action,)))

    def _add(self, transition: Transition) -> AutomatonBuilder:
        self._states.setdefault(transition.source)
        self._states.setdefault(transition.target)
        self._transitions.append(transition)
        return self

    def build(self) -> Quantity:
        return Quantity.of(
            Automaton(
                tuple(self._states),
                tuple(self._transitions),
                self._initial,
                self._final,
                finish=self._finish,
                collect=self._collect,
                name=self._name,
            )
        )


def named(f: Quantity, name: str) -> Quantity:
    """The query under another name, for messages and pictures."""
    if not isinstance(f.stage, AutomatonStage):
        return f
    return Quantity(replace(f.stage, automaton=replace(f.stage.automaton, name=name, _cache={})))
