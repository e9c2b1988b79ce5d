"""Automata state by state, as the paper draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ensue.api.quantity import Quantity
from ensue.quantify.reading import (
    MISSING,
    Given,
    automaton_of,
    read_collect,
    read_fold,
    read_operation,
    read_predicate,
    read_weight,
)
from ensue.quantities.laws import examples, require_collect
from ensue.quantities.model import (
    RESULT,
    Action,
    Automaton,
    Collect,
    Constant,
    Fold,
    Invocation,
    Operation,
    Predicate,
    Silent,
    Step,
    Transition,
    Weight,
)
from ensue.quantities.tokens import silent_order


def automaton(
    fold: str | Fold | Callable[..., Any],
    *,
    collect: str | Collect | Callable[..., Any] | None = None,
    finish: Given | Operation | None = None,
    distributive: bool = False,
    samples: Sequence[Any] = (),
    name: str = "automaton",
) -> AutomatonBuilder:
    """A streaming automaton state by state, as the paper draws them.

    `distributive=True` declares that the fold distributes over the collect operation. Otherwise
    that is tested, as are the laws of a collect operation of your own: on values of the types that
    the states begin with, or on `samples`.

    Examples:
        >>> total = q.automaton("sum").initial("at", 0).step("at", "at", None, "x").final("at")
        >>> total.build().eval(pa.table({"x": [1, 2]}))
        3
    """
    operation = None if finish is None else read_operation(finish, 1, "finish")
    joins = read_collect(collect)
    if joins is not None and distributive:
        joins = replace(joins, distributive=True)
    if joins is not None and samples:
        joins = replace(joins, samples=tuple(samples))
    return AutomatonBuilder(read_fold(fold), joins, operation, name)


class AutomatonBuilder:
    """Collects states and transitions; `build()` gives the query.

    Examples:
        >>> best = (
        ...     q.automaton("sum", collect="max")
        ...     .initial("before", 0)
        ...     .initial("in", 0)
        ...     .step("before", "before", None, 0)
        ...     .step("before", "in", None, 0)
        ...     .step("in", "in", None, "x")
        ...     .final("in")
        ...     .build()
        ... )
        >>> best.eval(pa.table({"x": [3, -5, 4, 2]}))
        6
    """

    def __init__(
        self, fold: Fold, collect: Collect | None, finish: Operation | None, name: str
    ) -> None:
        self._fold, self._collect, self._finish, self._name = fold, collect, finish, name
        self._states: dict[str, None] = {}
        self._initial: dict[str, tuple[Any, ...]] = {}
        self._final: dict[str, tuple[Action, ...]] = {}
        self._transitions: list[Transition] = []

    def initial(self, state: str, value: Any) -> AutomatonBuilder:
        """A state to begin in, with the value to begin from.

        Examples:
            >>> total = q.automaton("sum").initial("at", 0).step("at", "at", None, "x").final("at")
            >>> total.build().eval(pa.table({"x": [1, 2]}))
            3
        """
        self._states.setdefault(state)
        self._initial[state] = (value,)
        return self

    def final(self, state: str, weight: Any = MISSING) -> AutomatonBuilder:
        """A state to end in; a weight is folded in at the end.

        Examples:
            >>> total = q.automaton("sum").initial("at", 0).step("at", "at", None, "x")
            >>> total.final("at", 10).build().eval(pa.table({"x": [1, 2]}))
            13
        """
        self._states.setdefault(state)
        self._final[state] = self._constant(weight)
        return self

    def _constant(self, weight: Any) -> tuple[Action, ...]:
        return () if weight is MISSING else (Action(self._fold, (Constant(weight),)),)

    def step(
        self, source: str, target: str, when: Given | Predicate, weight: Given | Weight
    ) -> AutomatonBuilder:
        """An event where `when` holds; a number, text or callable gives the weight.

        Examples:
            >>> total = q.automaton("sum").initial("at", 0).final("at")
            >>> total.step("at", "at", "x > 0", "x").build().eval(pa.table({"x": [1, 2]}))
            3
        """
        action = Action(self._fold, (read_weight(weight),))
        return self._add(Step(source, target, read_predicate(when), (action,)))

    def skip(self, source: str, target: str, when: Given | Predicate) -> AutomatonBuilder:
        """An event where `when` holds, with no weight.

        Examples:
            >>> total = q.automaton("sum").initial("at", 0).final("at")
            >>> total = total.step("at", "at", "x > 0", "x").skip("at", "at", "x <= 0")
            >>> total.build().eval(pa.table({"x": [1, -2, 3]}))
            4
        """
        return self._add(Step(source, target, read_predicate(when), ()))

    def silent(self, source: str, target: str, weight: Any = MISSING) -> AutomatonBuilder:
        """A move that reads no event; a weight is folded in on the way.

        Examples:
            >>> total = q.automaton("sum").initial("at", 0).step("at", "at", None, "x")
            >>> total.silent("at", "end", 100).final("end").build().eval(pa.table({"x": [1, 2]}))
            103
        """
        return self._add(Silent(source, target, self._constant(weight)))

    def call(
        self, source: str, target: str, op: Given | Operation, *queries: Quantity
    ) -> AutomatonBuilder:
        """op(A1, ..., Am) on a stretch that all queries accept.

        Examples:
            >>> m = q.automaton("replace").initial("q0", None).final("q1")
            >>> m = m.call("q0", "q1", "a / b", q.sum("x"), q.count())
            >>> m.build().eval(pa.table({"x": [1, 2]}))
            1.5
        """
        parts = tuple(automaton_of(query, "call") for query in queries)
        operation = Operation.identity() if op is None else read_operation(op, len(parts), "call")
        action = Action(self._fold, (RESULT,))
        return self._add(Invocation(source, target, operation, parts, (action,)))

    def _add(self, transition: Transition) -> AutomatonBuilder:
        self._states.setdefault(transition.source)
        self._states.setdefault(transition.target)
        self._transitions.append(transition)
        return self

    def build(self) -> Quantity:
        """The query.

        Faults that no allowed cost could excuse are refused now: a cycle of ε, and a collect
        operation that depends on the order of paths.

        Examples:
            >>> total = q.automaton("sum", name="total").initial("at", 0)
            >>> total.step("at", "at", None, "x").final("at").build()
            <quantitative query: total>
        """
        built = Automaton(
            tuple(self._states),
            tuple(self._transitions),
            self._initial,
            self._final,
            finish=self._finish,
            collect=self._collect,
            name=self._name,
        )
        silent_order(built)
        require_collect(built.collect, examples(built))
        return Quantity.of(built)
