"""The model: nondeterministic streaming automata of any rank (paper, section 2).

An automaton reads a stream of events along paths. Each transition gives a weight, a *fold* (⊗)
adds the weight to the value of the path, and a *collect* (⊕) joins the values of all accepting
paths. A transition is a `Step` (a predicate of the event), `Silent` (ε) or an `Invocation`
op(A1, ..., Am), which reads the stretch of the stream that all Ai accept.

Two conveniences that add no power. The value of a path is a tuple of *slots*, and a transition may
name its own folds (`Action`): in the paper's terms the weight type is a tagged union and ⊗ looks
at the tag. And `finish` maps the value of an accepting path to the output: an op(A) around A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from ensue import errors
from ensue.query.condition import TRUE, Condition
from ensue.query.condition import columns as columns_of
from ensue.query.sql import condition_sql
from ensue.scalar import kinds as k
from ensue.scalar.casts import BadValueError, fit_decimal
from ensue.scalar.infer import infer
from ensue.scalar.kinds import Kind
from ensue.scalar.values import compile_value, kind_of_value

ARGUMENTS = tuple("abcdefghijklmnopqrstuvwxyz")  # of operations
MAX_RANK = 100  # deeper, and Python's own stack ends first
Event = Mapping[str, Any]
Value = Any
State = str


def guarded(function: Callable[..., Any], name: str, values: tuple[Any, ...]) -> Any:
    """What an operation or fold makes of values; its failure names them."""
    try:
        return function(*values)
    except errors.EnsueError:
        raise
    except Exception as problem:
        shown = ", ".join(repr(value) for value in values)
        raise errors.DataError(
            f"{name} failed on ({shown}): {type(problem).__name__}: {problem}",
            remedy="let it take such values, or keep them away by a predicate; a start must be of "
            "the type of the values",
        ) from problem


def fitted(value: Any, kind: Kind) -> Any:
    """A number as one of a decimal's or a float's type; it says where the digits are too few."""
    if value is None or kind.name not in ("decimal", "float"):
        return value
    if kind.name == "float":
        return float(value)
    try:
        return fit_decimal(Decimal(value), kind)
    except BadValueError:
        raise errors.OverflowDataError(
            f"the value {value} does not fit {kind}",
            remedy="cast the values to double, or to a decimal of fewer digits",
        ) from None


@dataclass(frozen=True)
class Constant:
    """A weight that is the same for every event."""

    value: Value

    def __str__(self) -> str:
        return "null" if self.value is None else str(self.value)


@dataclass(frozen=True)
class Expression:
    """A weight or predicate in SQL, over the columns of the event."""

    tree: Condition
    group: int = 0  # predicates of one group are declared disjoint; 0: nothing declared
    complete: bool = False  # and one of the group always holds

    def __str__(self) -> str:
        return condition_sql(self.tree)


@dataclass(frozen=True)
class Function:
    """A weight or predicate as a Python callable of the event (a mapping by column name)."""

    call: Callable[[Event], Value]
    group: int = 0  # as of an `Expression`
    complete: bool = False

    def __str__(self) -> str:
        return getattr(self.call, "__name__", "a function")


@dataclass(frozen=True)
class Result:
    """The weight of an invocation: what op returned."""

    def __str__(self) -> str:
        return "result"


RESULT = Result()
Weight = Constant | Expression | Function | Result
Predicate = Expression | Function
ALWAYS = Expression(TRUE)


@dataclass(frozen=True)
class Operation:
    """A function of values: an SQL tree over argument names, or a Python callable."""

    names: tuple[str, ...]
    tree: Condition | None = None
    function: Callable[..., Value] | None = None
    text: str = ""
    result: Kind | None = None  # of a callable, where it is known
    kinds: tuple[Kind, ...] | None = None  # of the arguments, where values do not tell them

    @staticmethod
    def identity() -> Operation:
        return Operation(("a",), function=_same, text="")

    @property
    def is_identity(self) -> bool:
        return self.function is _same

    def __str__(self) -> str:
        return self.text or getattr(self.function, "__name__", "op")

    def __call__(self, *values: Value) -> Value:
        if self.function is not None:
            return guarded(self.function, str(self), values)
        kinds = self.kinds
        if kinds is None:
            kinds = tuple(kind_of_value(value) for value in values)
        else:
            values = tuple(map(fitted, values, kinds))
        compiled = self._compiled.get(kinds)
        if compiled is None:
            compiled = self._compiled[kinds] = self._compile(kinds)
        by_name = dict(zip(self.names, values, strict=True))
        return compiled(lambda leaf: by_name[leaf.name])

    @cached_property
    def _compiled(self) -> dict[tuple[Kind, ...], Any]:
        return {}

    def _compile(self, kinds: tuple[Kind, ...]) -> Any:
        by_name = dict(zip(self.names, kinds, strict=True))
        assert self.tree is not None
        return compile_value(self.tree, lambda leaf: by_name[leaf.name])  # type: ignore[union-attr]

    def typed(self, kinds: tuple[Kind, ...]) -> Operation:
        """The operation on arguments of these kinds."""
        return self if self.tree is None else replace(self, kinds=kinds)

    def kind(self, kinds: tuple[Kind, ...], where: str) -> Kind | None:
        """The kind of the result; None where a Python callable leaves it open."""
        if self.result is not None:
            return self.result
        if self.is_identity:
            return kinds[0]
        if self.tree is None or any(kind.name == "other" for kind in kinds):
            return None
        by_name = dict(zip(self.names, kinds, strict=True))
        try:
            return infer(self.tree, lambda leaf: by_name[leaf.name])  # type: ignore[union-attr]
        except errors.ColumnTypeError as problem:
            shown = ", ".join(f"{n} is {kind}" for n, kind in by_name.items())
            raise errors.OperationTypeError(
                f"{where}: the operation {self} does not fit its arguments ({shown}): "
                f"{problem.problem}",
                remedy="cast the argument, as in CAST(a AS DOUBLE), or change the operation",
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        # The closures of `_compiled` do not travel to a worker.
        return {name: v for name, v in self.__dict__.items() if name != "_compiled"}


def _same(value: Value) -> Value:
    return value


@dataclass(frozen=True)
class Fold:
    """⊗ on `width` neighbouring slots with `weights` weights: one of `folds.py`, or the user's."""

    name: str
    function: Callable[..., Any]  # (slots..., weights...) -> slots; a tuple where width > 1
    width: int = 1
    weights: int = 1
    operation: Operation | None = None  # of a fold given as SQL over `state` and `value`
    associative: bool = False  # as a monoid on the slot, with `identity`
    identity: Value = None
    result: Callable[[tuple[Kind, ...], tuple[Kind, ...]], tuple[Kind, ...]] | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Action:
    """One fold on the slots from `slot` on."""

    fold: Fold
    weights: tuple[Weight, ...]
    slot: int = 0

    def apply(self, slots: tuple[Value, ...], weights: tuple[Value, ...]) -> tuple[Value, ...]:
        end = self.slot + self.fold.width
        changed = guarded(self.fold.function, self.fold.name, slots[self.slot : end] + weights)
        if self.fold.width == 1:
            changed = (changed,)
        return slots[: self.slot] + tuple(changed) + slots[end:]


@dataclass(frozen=True)
class Step:
    """Kind (i): reads one event where `predicate` (φ) holds; the weights are α of the event."""

    source: State
    target: State
    predicate: Predicate
    actions: tuple[Action, ...]
    spare: bool = False  # takes what another step leaves over, which may be nothing


@dataclass(frozen=True)
class Silent:
    """Kind (ii): reads nothing (ε); the weights are constants."""

    source: State
    target: State
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Invocation:
    """Kind (iii): reads what all `automata` accept; the weight is op of their outputs."""

    source: State
    target: State
    operation: Operation
    automata: tuple[Automaton, ...]
    actions: tuple[Action, ...]


Transition = Step | Silent | Invocation


@dataclass(frozen=True)
class Collect:
    """⊕: commutative and associative; `distributive` declares (y ⊕ z) ⊗ x = (y ⊗ x) ⊕ (z ⊗ x)."""

    name: str
    function: Callable[[Value, Value], Value]
    distributive: bool | None = None  # None: to be tested
    samples: tuple[Value, ...] = ()  # to test on; empty: values of the types at hand

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Automaton:
    """(Q, X, Y, Δ, I, F, ⊗, ⊕); states are named, and the order of `states` is theirs."""

    states: tuple[State, ...]
    transitions: tuple[Transition, ...]
    initial: Mapping[State, tuple[Value, ...]]  # I: slots at the start
    final: Mapping[State, tuple[Action, ...]]  # F: folds with constant weights at the end
    finish: Operation | None = None  # of the slots; None: the slot, or the tuple of them
    collect: Collect | None = None
    name: str = "automaton"
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = set(self.states)
        used = [s for t in self.transitions for s in (t.source, t.target)]
        for state in (*self.initial, *self.final, *used):
            if state not in known:
                raise errors.AutomatonError(
                    f"{self.name} names the state {state!r}, which it does not have",
                    remedy=f"use one of {', '.join(self.states)}",
                )
        if not self.initial or not self.final:
            missing = "initial" if not self.initial else "final"
            raise errors.AutomatonError(
                f"{self.name} has no {missing} state, so it is defined on no input",
                remedy=f"mark one state as {missing}",
            )
        widths = {len(slots) for slots in self.initial.values()}
        if len(widths) != 1:
            raise errors.AutomatonError(
                f"{self.name}: initial states carry {sorted(widths)} slots, all must carry the "
                "same number",
                remedy="give every initial state a value of one shape",
            )
        for transition in self.transitions:
            self._check_transition(transition)
        if self.rank > MAX_RANK:
            raise errors.LimitError(
                f"queries are nested {self.rank} deep, in {self.name[:60]}...; the limit is "
                f"{MAX_RANK}",
                remedy="split takes up to 26 parts at once, and iter any number of stretches",
            )

    def _check_transition(self, transition: Transition) -> None:
        for action in transition.actions:
            if action.slot + action.fold.width > self.width:
                raise errors.AutomatonError(
                    f"{self.name}: the fold {action.fold} writes slots {action.slot} to "
                    f"{action.slot + action.fold.width - 1} of {self.width}",
                    remedy="give the initial states as many slots as the folds write",
                )
            if len(action.weights) != action.fold.weights:
                raise errors.AutomatonError(
                    f"{self.name}: the fold {action.fold} takes {action.fold.weights} weights, "
                    f"{len(action.weights)} given",
                    remedy="give as many weights as the fold takes",
                )
            for weight in action.weights:
                fits = isinstance(weight, Constant) or (
                    isinstance(transition, Step)
                    if isinstance(weight, (Expression, Function))
                    else isinstance(transition, Invocation)
                )
                if not fits:
                    raise errors.AutomatonError(
                        f"{self.name}: the weight {weight} cannot stand on the transition from "
                        f"{transition.source} to {transition.target}",
                        remedy="a silent transition has constant weights; only a step reads the "
                        "event, and only an invocation has a result",
                    )
        if isinstance(transition, Invocation):
            given = len(transition.automata)
            if given != len(transition.operation.names) or not given:
                raise errors.OperationTypeError(
                    f"{self.name}: the operation {transition.operation} takes "
                    f"{len(transition.operation.names)} arguments, {given} queries given",
                    remedy="give one query for each argument of the operation",
                )

    @property
    def width(self) -> int:
        return len(next(iter(self.initial.values())))

    @cached_property
    def rank(self) -> int:
        """The nesting depth: 0 where nothing is invoked."""
        return max((a.rank + 1 for a in self.invoked()), default=0)

    @cached_property
    def size(self) -> int:
        """States and transitions of this and, with multiplicity, of all below."""
        return len(self.states) + len(self.transitions) + sum(a.size for a in self.invoked())

    def invoked(self) -> Iterator[Automaton]:
        for transition in self.transitions:
            if isinstance(transition, Invocation):
                yield from transition.automata

    def hierarchy(self) -> Iterator[Automaton]:
        """This automaton and all occurrences below it."""
        yield self
        for automaton in self.invoked():
            yield from automaton.hierarchy()

    def actions(self) -> Iterator[Action]:
        """The folds of all transitions, then those at the end."""
        for transition in self.transitions:
            yield from transition.actions
        for actions in self.final.values():
            yield from actions

    def predicates(self) -> tuple[Predicate, ...]:
        """The distinct predicates of the hierarchy, in order of appearance."""
        steps = (t for a in self.hierarchy() for t in a.transitions if isinstance(t, Step))
        return tuple(dict.fromkeys(step.predicate for step in steps))

    def weights(self) -> tuple[Weight, ...]:
        """The distinct weights of the hierarchy that are computed from the event."""
        given = (w for a in self.hierarchy() for action in a.actions() for w in action.weights)
        return tuple(dict.fromkeys(w for w in given if isinstance(w, (Expression, Function))))

    def columns(self) -> tuple[str, ...]:
        """Names of the columns that SQL predicates and weights read."""
        parts = (*self.predicates(), *self.weights())
        trees = [part.tree for part in parts if isinstance(part, Expression)]
        return tuple(dict.fromkeys(name for tree in trees for name in columns_of(tree)))

    @property
    def reads_python(self) -> bool:
        """Whether a predicate or weight is a Python callable of the event."""
        return any(isinstance(part, Function) for part in (*self.predicates(), *self.weights()))

    def output(self, slots: tuple[Value, ...]) -> Value:
        if self.finish is not None:
            return self.finish(*slots)
        return slots[0] if self.width == 1 else slots

    def ending(self, state: State, slots: tuple[Value, ...]) -> Value:
        """The output of a path that ends in a final state (F, then `finish`)."""
        return self.output(folded(slots, self.final[state], {}))

    def mapped(self, change: Callable[[Expression], Expression]) -> Automaton:
        """A copy of the hierarchy in which each SQL predicate and weight is replaced."""

        def weight(given: Weight) -> Weight:
            return change(given) if isinstance(given, Expression) else given

        def actions(given: tuple[Action, ...]) -> tuple[Action, ...]:
            return tuple(
                replace(action, weights=tuple(weight(w) for w in action.weights))
                for action in given
            )

        changed: list[Transition] = []
        for t in self.transitions:
            match t:
                case Step():
                    predicate = t.predicate
                    if isinstance(predicate, Expression):
                        predicate = change(predicate)
                    changed.append(replace(t, predicate=predicate, actions=actions(t.actions)))
                case Invocation():
                    below = tuple(a.mapped(change) for a in t.automata)
                    changed.append(replace(t, automata=below))
                case _:
                    changed.append(t)
        return replace(self, transitions=tuple(changed), _cache={})


def folded(
    slots: tuple[Value, ...],
    actions: tuple[Action, ...],
    weights: Mapping[Weight, Value],
    result: Value = None,
) -> tuple[Value, ...]:
    """The slots after the folds of one transition; `weights` holds those of the event."""
    for action in actions:
        given = tuple(
            w.value if isinstance(w, Constant) else result if isinstance(w, Result) else weights[w]
            for w in action.weights
        )
        slots = action.apply(slots, given)
    return slots


def constant_kind(value: Value) -> Kind:
    """The kind of a constant weight or initial slot; a small integer is a bigint."""
    return k.NULL if value is None else kind_of_value(value)
