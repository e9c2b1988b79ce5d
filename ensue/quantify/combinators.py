"""Combinators: small queries put together, in the style of quantitative regular expressions.

Each says its domain, and becomes a streaming automaton (paper, Related work): the translation is
that of regular expressions to NFAs, so an unambiguous expression gives an unambiguous automaton. A
query that reads one event is written into its user as a step; any other is invoked. That every
input has one reading is checked when a query is built, as far as that holds for all types its
columns may have, and again when it meets a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ensue import errors
from ensue.api.quantity import Quantity
from ensue.front.builder import window
from ensue.quantify.reading import (
    MISSING,
    Given,
    automaton_of,
    read_fold,
    read_operation,
    read_predicate,
    read_weight,
    some_parts,
    stage_of,
)
from ensue.quantities.folds import FOLDS, REPLACE
from ensue.quantities.groups import Groups
from ensue.quantities.model import (
    RESULT,
    Action,
    Automaton,
    Fold,
    Invocation,
    Operation,
    Predicate,
    Silent,
    Step,
    Transition,
    Weight,
)
from ensue.quantities.pipes import Joined
from ensue.quantities.stages import AutomatonQuestion
from ensue.quantities.windows import Windows
from ensue.query import condition as c
from ensue.query.query import WindowKind

MAX_TEXT = 2_000  # of operations applied to each other


def _checked(automaton: Automaton, allow: str | None, assume: str | None) -> Quantity:
    return Quantity.of(automaton).allowing(allow, assume).checked()


def _one_move(moves: tuple[Transition, ...], name: str) -> Automaton:
    """One of the moves is taken, and its value is the query's."""
    return Automaton(("before", "after"), moves, {"before": (None,)}, {"after": ()}, name=name)


def _names(parts: tuple[Quantity, ...]) -> str:
    return ", ".join(part.automaton.name for part in parts)


def event(predicate: Given | Predicate = None, value: Given | Weight = None) -> Quantity:
    """Defined on one event that satisfies the predicate; its value there.

    Examples:
        >>> q.event("x > 0", "x * 10").eval(pa.table({"x": [3]}))
        30
    """
    condition = read_predicate(predicate)
    step = Step("before", "after", condition, (Action(REPLACE, (read_weight(value),)),))
    return Quantity.of(_one_move((step,), f"event({condition})"))


def split(
    op: Given | Operation, *parts: Quantity, allow: str | None = None, assume: str | None = None
) -> Quantity:
    """Defined where the stream can be cut into one stretch per part; op of their values.

    Checked when built: if a stream can be cut in two ways, the error shows one.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> block = q.sum("x", over="x > 0")
        >>> q.split("a", block, q.event("x = 0")).eval(x.slice(0, 3))
        3
    """
    some_parts(parts, "split")
    operation = read_operation(op, len(parts), "split")
    states = tuple(f"{i}" for i in range(len(parts) + 1))
    moves = tuple(
        _reading(states[i], states[i + 1], automaton_of(f, "split"), REPLACE, i)
        for i, f in enumerate(parts)
    )
    initial = {states[0]: (None,) * len(parts)}
    name = f"split({_names(parts)})"
    automaton = Automaton(states, moves, initial, {states[-1]: ()}, finish=operation, name=name)
    return _checked(automaton, allow, assume)


def iter(
    fold: str | Fold | Callable[..., Any],
    f: Quantity,
    *,
    start: Any = MISSING,
    allow: str | None = None,
    assume: str | None = None,
) -> Quantity:
    """Stretches of f, one after the other; their values are folded from `start`.

    Without a start at least one stretch is needed, and its value begins the fold. `fold` is a name
    (sum, max, count, ...), SQL over `state` and `value`, or a callable of two.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> block = q.sum("x", over="x > 0")
        >>> q.iter("max", q.split("a", block, q.event("x = 0"))).eval(x)
        5
    """
    return _checked(_iterated(read_fold(fold), automaton_of(f, "iter"), start), allow, assume)


def _iterated(fold: Fold, f: Automaton, start: Any) -> Automaton:
    if fold.width != 1 or fold.weights != 1:
        raise errors.AutomatonError(
            f"iter folds one value at a time; {fold} takes {fold.weights}",
            remedy="use one of sum, product, min, max, count, last, first, any, all, or SQL text",
        )
    name = f"iter({fold}, {f.name})"
    if start is not MISSING:
        loop = _reading("at", "at", f, fold)
        return Automaton(("at",), (loop,), {"at": (start,)}, {"at": ()}, name=name)
    none = {"none": (0 if fold.name in ("count", "rows") else None,)}
    takes_first = fold if fold.name in FOLDS else REPLACE
    if _single(f) is not None or takes_first is REPLACE:
        steps: tuple[Transition, ...] = (
            _reading("none", "some", f, takes_first),
            _reading("some", "some", f, fold),
        )
        return Automaton(("none", "some"), steps, none, {"some": ()}, name=name)
    steps = (
        Silent("none", "next"),
        _reading("next", "some", f, fold),
        Silent("some", "next"),
    )
    return Automaton(("none", "next", "some"), steps, none, {"some": ()}, name=name)


def _single(f: Automaton) -> Step | None:
    """The step of a query that reads exactly one event, and does nothing else."""
    if f.finish is None and len(f.transitions) == 1 and f.width == 1:
        (step,) = f.transitions
        plain = isinstance(step, Step) and not any(f.final.values()) and len(f.states) == 2
        if plain and isinstance(step, Step) and step.source in f.initial and step.target in f.final:
            folds = [a.fold for a in step.actions]
            if folds == [REPLACE] and step.source not in f.final and step.target not in f.initial:
                return step
    return None


def _reading(source: str, target: str, f: Automaton, fold: Fold, slot: int = 0) -> Transition:
    """A transition that reads what f accepts and folds its value into a slot."""
    step = _single(f)
    if step is not None:
        return Step(source, target, step.predicate, (Action(fold, step.actions[0].weights, slot),))
    return Invocation(source, target, Operation.identity(), (f,), (Action(fold, (RESULT,), slot),))


def choose(*options: Quantity, allow: str | None = None, assume: str | None = None) -> Quantity:
    """The value of the one option that is defined; their domains must not meet.

    Examples:
        >>> sign = q.choose(q.event("x > 0", 1), q.event("x <= 0", -1))
        >>> q.iter("sum", sign).eval(pa.table({"x": [5, 7, -2]}))
        1
    """
    some_parts(options, "choose", most=None)
    automata = [automaton_of(f, "choose") for f in options]
    moves = tuple(_reading("before", "after", f, REPLACE) for f in automata)
    return _checked(_one_move(moves, f"choose({_names(options)})"), allow, assume)


def combine(
    op: Given | Operation, *parts: Quantity, allow: str | None = None, assume: str | None = None
) -> Quantity:
    """op of the values of all parts on the same stream; their domains must be the same.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> q.combine("a / b", q.sum("x"), q.count()).eval(x)
        1.6
    """
    some_parts(parts, "combine")
    operation = read_operation(op, len(parts), "combine")
    stages = [stage_of(f, "combine") for f in parts]
    if [stage for stage in stages if not isinstance(stage, AutomatonQuestion)]:
        return Quantity(Joined(operation, stages)).allowing(allow, assume)
    automata = tuple(automaton_of(f, "combine") for f in parts)
    return _checked(_called(operation, automata, f"combine({_names(parts)})"), allow, assume)


def _called(operation: Operation, automata: tuple[Automaton, ...], name: str) -> Automaton:
    action = Action(REPLACE, (RESULT,))
    return _one_move((Invocation("before", "after", operation, automata, (action,)),), name)


def apply(op: Given | Operation, f: Quantity) -> Quantity:
    """op of the value of f.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> q.apply("a * 100", q.sum("x")).eval(x)
        800
    """
    operation = read_operation(op, 1, "apply")
    stage = stage_of(f, "apply")
    if not isinstance(stage, AutomatonQuestion):
        return Quantity(Joined(operation, [stage]))
    inner = stage.automaton
    name = f"apply({operation}, {inner.name})"
    if inner.collect is not None or (inner.width > 1 and inner.finish is None):
        automaton = _called(operation, (inner,), name)
    else:
        finish = operation if inner.finish is None else _composed(operation, inner.finish)
        automaton = replace(inner, finish=finish, name=name, _cache={})
    return Quantity.of(automaton).allowing(stage.allow, stage.assume)


def _composed(outer: Operation, inner: Operation) -> Operation:
    text = f"{outer} of {inner}"
    if outer.tree is not None and inner.tree is not None:
        (argument,) = outer.names
        substitute = inner.tree

        def change(node: c.Condition) -> c.Condition | None:
            return substitute if node == c.Column(argument) else None

        if len(text) < MAX_TEXT:
            return Operation(inner.names, tree=c.transform(outer.tree, change), text=text)
        raise errors.LimitError(
            "operations are applied to each other until their text is longer than "
            f"{MAX_TEXT:,} characters",
            remedy="write them as one operation, or give a Python callable",
        )
    return Operation(inner.names, function=_Then(outer, inner), text=text)


class _Then:
    """Two operations in turn; a class, so that it travels to workers."""

    def __init__(self, outer: Operation, inner: Operation) -> None:
        self._outer, self._inner = outer, inner

    def __call__(self, *values: Any) -> Any:
        return self._outer(self._inner(*values))


def windows(
    f: Quantity,
    *,
    rows: int | None = None,
    time: str | int | None = None,
    by: str | None = None,
    until: Given | Predicate = None,
    partial: bool | None = None,
) -> Quantity:
    """f on each tumbling window: of `rows` events, of `time` in the column `by`, or `until` holds.

    A window counts if an event ends it: its own last one or, of windows of time, the first event
    after it; the value comes with that event. With `partial`, which windows of time have unless you
    say partial=False, the window that is open at the end counts too; of time it is emitted as soon
    as a watermark has passed its end. Without it a watermark ends nothing. A table, its pieces and
    a stream give the same values.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> q.windows(q.sum("x"), rows=2).values(x).column("value").to_pylist()
        [3, 5]
    """
    kinds = [kind for kind in (rows, time, until) if kind is not None]
    if len(kinds) != 1:
        raise errors.QueryError(
            "windows needs exactly one of rows, time and until",
            remedy='write windows(f, rows=3) or windows(f, time="1 minute", by="ts")',
        )
    if by is not None and time is None:
        raise errors.QueryError(
            f"by={by!r} is the column of windows of time, and these are by "
            + ("rows" if rows is not None else "a predicate"),
            remedy='leave it out, or write windows(f, time="1 minute", by="ts")',
        )
    if rows is not None and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 1):
        raise errors.QueryError(
            f"windows cannot have {rows} rows", remedy="give a whole number above 0"
        )
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
            raise errors.QueryError(f"windows cannot last {time!r}", remedy="give a longer window")
    ends = None if until is None else read_predicate(until)
    late = time is not None if partial is None else partial
    return Quantity(Windows(stage_of(f, "windows"), rows, span, by or "", ends, late))


def group_by(key: str | tuple[str, ...] | list[str], f: Quantity) -> Quantity:
    """f for each value of the key; `eval` gives a table of keys and values.

    Examples:
        >>> spent = pa.table({"user": ["ann", "bob", "ann"], "x": [1, 2, 3]})
        >>> q.group_by("user", q.sum("x")).eval(spent).to_pydict()
        {'user': ['ann', 'bob'], 'value': [4, 2]}
    """
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    if not keys or [name for name in keys if not isinstance(name, str)]:
        raise errors.QueryError(
            f"group_by({key!r}, ...) names no column", remedy="give a column, or a list of columns"
        )
    return Quantity(Groups(keys, stage_of(f, "group_by")))
