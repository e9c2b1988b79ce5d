"""What predicates can hold together, decided by z3 over the event's columns.

A set of predicates divides the events into *letters*: the combinations of truth that some event
has. Automata over letters are finite automata, so every check of `language.py` works on them.

Soundness first. Columns are numbers (ordered, NaN greatest, so a total order is all that
comparisons need), strings (compared for equality; order and functions are opaque), booleans, each
with null. A term that z3 does not model as Spark computes it (float arithmetic, a string function)
is *opaque*: an unknown value, the same wherever the same text stands. So what z3 calls impossible
is impossible. What it calls possible is tried out on a concrete event; only if that fails is the
letter *uncertain*, and a check that depends on it says so and asks for a declaration.
Letters found are at most `MAX_LETTERS`; each costs one call of the solver per predicate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ensue import errors
from ensue.evaluate.quantify.model import Event, Expression, Function, Predicate
from ensue.evaluate.values import compile_value
from ensue.pattern import condition as c
from ensue.pattern import kinds as k
from ensue.pattern.infer import Typed, require_boolean, typed
from ensue.pattern.kinds import Kind

MAX_LETTERS = 4096
MILLISECONDS = 2_000  # per question to the solver
_ORDER = {"lt", "lte", "gt", "gte", "eq", "neq", "nullsafeeq"}


@dataclass(frozen=True)
class Letter:
    """A combination of truth: bit i says whether predicate i holds; and an event that has it."""

    holds: int
    event: Event | None  # None: made of Python predicates, or not confirmed
    certain: bool

    def shown(self, predicates: Sequence[Predicate]) -> str:
        if self.event is not None:
            inside = ", ".join(f"{name}={value!r}" for name, value in self.event.items())
            return "{" + inside + "}"
        names = [str(p) for i, p in enumerate(predicates) if self.holds >> i & 1]
        return "an event with " + (" and ".join(names) if names else "none of the predicates")


@dataclass(frozen=True)
class Alphabet:
    predicates: tuple[Predicate, ...]
    letters: tuple[Letter, ...]

    def bit(self, predicate: Predicate) -> int:
        return 1 << self.predicates.index(predicate)


def alphabet(predicates: Sequence[Predicate], kinds: Mapping[str, Kind] | None = None) -> Alphabet:
    """All letters of a set of predicates; `kinds` are those of the columns where known."""
    distinct = tuple(dict.fromkeys(predicates))
    return Alphabet(distinct, tuple(_Division(distinct, kinds or {}).letters()))


class _Division:
    def __init__(self, predicates: tuple[Predicate, ...], kinds: Mapping[str, Kind]) -> None:
        self._z3 = _solver_library()
        self._predicates = predicates
        self._kinds = {**_guessed(predicates), **{name.lower(): kd for name, kd in kinds.items()}}
        self._encoder = _Encoder(self._z3, self._kind)
        self._truths = [self._truth(i, p) for i, p in enumerate(predicates)]
        self._tests = [self._test(p) for p in predicates]

    def _kind(self, leaf: c.Condition) -> Kind:
        assert isinstance(leaf, c.Column)
        return k.DOUBLE if leaf.path else self._kinds.get(leaf.name.lower(), k.DOUBLE)

    def _truth(self, index: int, predicate: Predicate) -> Any:
        if isinstance(predicate, Function):
            return self._z3.Bool(f"python {index}")
        return self._encoder.truth(predicate.tree)

    def _test(self, predicate: Predicate) -> Callable[[Event], bool] | None:
        if isinstance(predicate, Function):
            return None
        try:
            compiled = compile_value(predicate.tree, self._kind)
        except errors.EnsueError:
            return None

        def test(event: Event) -> bool:
            by_name = {name.lower(): value for name, value in event.items()}
            return compiled(lambda leaf: by_name[leaf.name.lower()]) is True  # type: ignore[union-attr]

        return test

    def _declared(self) -> list[Any]:
        """Python predicates of one group: at most one holds, exactly one where complete."""
        groups: dict[int, list[int]] = {}
        for index, predicate in enumerate(self._predicates):
            if isinstance(predicate, Function) and predicate.group:
                groups.setdefault(predicate.group, []).append(index)
        said = []
        for members in groups.values():
            bools = [self._truths[m] for m in members]
            said.append(self._z3.AtMost(*bools, 1))
            first = self._predicates[members[0]]
            if isinstance(first, Function) and first.complete:
                said.append(self._z3.Or(*bools))
        return said

    def letters(self) -> list[Letter]:
        z3 = self._z3
        solver = z3.Solver()
        solver.set("timeout", MILLISECONDS)
        solver.add(*self._declared(), *self._encoder.facts)
        found: list[Letter] = []

        def divide(index: int, holds: int) -> None:
            verdict = solver.check()
            if verdict == z3.unsat:
                return
            if index == len(self._predicates):
                if len(found) == MAX_LETTERS:
                    raise errors.LimitError(
                        f"the {len(self._predicates)} predicates of the query divide events in "
                        f"more than {MAX_LETTERS} ways",
                        remedy="use fewer independent predicates, or declare which are disjoint",
                    )
                model = solver.model() if verdict == z3.sat else None
                found.append(self._letter(holds, model))
                return
            for truth in (True, False):
                solver.push()
                said = self._truths[index]
                solver.add(said if truth else z3.Not(said))
                divide(index + 1, holds | (int(truth) << index))
                solver.pop()

        divide(0, 0)
        return found

    def _letter(self, holds: int, model: Any) -> Letter:
        python = [i for i, p in enumerate(self._predicates) if isinstance(p, Function)]
        declared = all(self._predicates[i].group for i in python)  # type: ignore[union-attr]
        event = None if model is None else self._encoder.event(model)
        confirmed = event is not None and all(
            test is None or _tried(test, event) == bool(holds >> i & 1)
            for i, test in enumerate(self._tests)
        )
        # A Python predicate alone is a proposition of its own: true and false are both possible.
        certain = confirmed and (declared or len(self._predicates) == 1 or not python)
        return Letter(holds, event if confirmed and not python else None, certain)


def _tried(test: Callable[[Event], bool], event: Event) -> bool | None:
    try:
        return test(event)
    except (errors.EnsueError, ArithmeticError, TypeError, KeyError):
        return None


def _solver_library() -> Any:
    try:
        import z3  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise errors.UnsupportedError(
            "the checks of quantitative queries need z3, which is not installed",
            remedy="pip install z3-solver",
        ) from None
    return z3


def _guessed(predicates: Sequence[Predicate]) -> dict[str, Kind]:
    """Kinds of columns from what they are compared with, for checks before any table is seen."""
    found: dict[str, Kind] = {}

    def literal_kind(node: Any) -> Kind | None:
        if isinstance(node, c.Literal):
            names = {"string": k.STRING, "boolean": k.BOOLEAN}
            return names.get(node.kind)
        return None

    for predicate in predicates:
        if not isinstance(predicate, Expression):
            continue
        if isinstance(predicate.tree, c.Column):
            found[predicate.tree.name.lower()] = k.BOOLEAN
        for node in c.walk(predicate.tree):
            if not isinstance(node, c.Call):
                continue
            parts = [v for _, value in node.arguments for v in _flat(value)]
            kinds = [kind for kind in map(literal_kind, parts) if kind is not None]
            boolean = node.function in ("and", "or", "not")
            like = node.function in ("like", "rlike", "upper", "lower", "length", "regexplike")
            for part in parts:
                if isinstance(part, c.Column):
                    guess = k.BOOLEAN if boolean else k.STRING if like else None
                    guess = kinds[0] if kinds else guess
                    if guess is not None:
                        found.setdefault(part.name.lower(), guess)
    return found


def _flat(value: c.Argument) -> list[Any]:
    if isinstance(value, tuple):
        return [inner for item in value for inner in _flat(item)]
    return [value]


@dataclass(frozen=True)
class _Term:
    """A z3 term and when it is null."""

    value: Any
    null: Any


class _Encoder:
    """Conditions to z3 terms."""

    def __init__(self, z3: Any, kind: Callable[[c.Condition], Kind]) -> None:
        self._z3 = z3
        self._kind = kind
        self._columns: dict[c.Column, _Term] = {}
        self._opaque: dict[tuple[str, str], _Term] = {}
        self.facts: list[Any] = []

    def truth(self, tree: c.Condition) -> Any:
        """Whether the condition is true, neither false nor null."""
        try:
            node = typed(tree, self._kind)
        except errors.EnsueError:
            # A function of Spark that we cannot type: one proposition per text.
            term = self._unknown(c.dump(tree), k.BOOLEAN)
        else:
            require_boolean(tree, node.kind, "the predicate")
            term = self._term(node)
        return self._z3.And(self._z3.Not(term.null), term.value)

    def event(self, model: Any) -> Event:
        """Concrete values of the columns in a model of the solver."""
        event: dict[str, Any] = {}
        for column, term in self._columns.items():
            if column.path:
                continue
            null = model.eval(term.null, model_completion=True)
            value = model.eval(term.value, model_completion=True)
            missing = self._z3.is_true(null)
            event[column.name] = None if missing else self._plain(value, self._kind(column))
        return event

    def _plain(self, value: Any, kind: Kind) -> Any:
        if kind.name == "boolean":
            return self._z3.is_true(value)
        if kind.name == "string":
            return value.as_string()
        if kind.name == "int":
            return value.as_long()
        number = Fraction(value.as_fraction()) if hasattr(value, "as_fraction") else Fraction(0)
        if kind.name == "decimal":
            return Decimal(number.numerator) / Decimal(number.denominator)
        return int(number) if number.denominator == 1 else float(number)

    def _term(self, node: Typed) -> _Term:
        z3 = self._z3
        match node.operation:
            case "literal":
                return self._literal(node)
            case "leaf":
                return self._column(node)
            case "and" | "or":
                return self._logic(node)
            case "not":
                inner = self._term(node.operands[0])
                return _Term(z3.Not(inner.value), inner.null)
            case "isnull":
                return _Term(self._term(node.operands[0]).null, z3.BoolVal(False))
            case "istrue":
                inner = self._term(node.operands[0])
                return _Term(z3.And(z3.Not(inner.null), inner.value), z3.BoolVal(False))
            case "isfalse":
                inner = self._term(node.operands[0])
                return _Term(z3.And(z3.Not(inner.null), z3.Not(inner.value)), z3.BoolVal(False))
            case "in":
                return self._in(node)
            case "cast" if _exact_cast(node):
                inner = self._term(node.operands[0])
                return _Term(self._as_sort(inner.value, node.kind), inner.null)
            case operation if operation in _ORDER:
                return self._compare(node)
            case "add" | "sub" | "mul" | "neg" if _whole(node):
                return self._arithmetic(node)
            case _:
                return self._unknown(c.dump(node.origin), node.kind)

    def _sort(self, kind: Kind) -> Any:
        z3 = self._z3
        match kind.name:
            case "boolean":
                return z3.BoolSort()
            case "string":
                return z3.StringSort()
            case "int":
                return z3.IntSort()
            case _:
                return z3.RealSort()

    def _literal(self, node: Typed) -> _Term:
        z3, value = self._z3, node.value
        false = z3.BoolVal(False)
        if value is None:
            return _Term(z3.FreshConst(self._sort(node.kind)), z3.BoolVal(True))
        match node.kind.name:
            case "boolean":
                return _Term(z3.BoolVal(bool(value)), false)
            case "string":
                return _Term(z3.StringVal(value), false)
            case "int":
                return _Term(z3.IntVal(value), false)
            case "float" | "decimal" if not (isinstance(value, float) and math.isnan(value)):
                return _Term(z3.RealVal(str(Fraction(value))), false)
            case _:
                return self._unknown(c.dump(node.origin), node.kind)

    def _column(self, node: Typed) -> _Term:
        column = node.origin
        assert isinstance(column, c.Column)
        if node.kind.name not in ("boolean", "string", "int", "float", "decimal"):
            return self._unknown(c.dump(column), node.kind)
        if column not in self._columns:
            name = c.dump(column).lower()
            value = self._z3.Const(name, self._sort(node.kind))
            self._columns[column] = _Term(value, self._z3.Bool(f"null {name}"))
        return self._columns[column]

    def _unknown(self, text: str, kind: Kind) -> _Term:
        key = (text, kind.name)
        if key not in self._opaque:
            value = self._z3.Const(f"opaque {text}", self._sort(kind))
            self._opaque[key] = _Term(value, self._z3.Bool(f"null opaque {text}"))
        return self._opaque[key]

    def _logic(self, node: Typed) -> _Term:
        z3 = self._z3
        a, b = (self._term(operand) for operand in node.operands)
        if node.operation == "and":
            false = z3.Or(
                z3.And(z3.Not(a.null), z3.Not(a.value)), z3.And(z3.Not(b.null), z3.Not(b.value))
            )
            return _Term(z3.And(a.value, b.value), z3.And(z3.Or(a.null, b.null), z3.Not(false)))
        true = z3.Or(z3.And(z3.Not(a.null), a.value), z3.And(z3.Not(b.null), b.value))
        return _Term(true, z3.And(z3.Or(a.null, b.null), z3.Not(true)))

    def _in(self, node: Typed) -> _Term:
        z3 = self._z3
        subject, *choices = (self._term(operand) for operand in node.operands)
        if any(str(choice.value.sort()) != str(subject.value.sort()) for choice in choices):
            return self._unknown(c.dump(node.origin), node.kind)
        equal = z3.Or([z3.And(z3.Not(x.null), subject.value == x.value) for x in choices])
        null = z3.Or(subject.null, z3.And(z3.Not(equal), z3.Or([x.null for x in choices])))
        return _Term(equal, null)

    def _compare(self, node: Typed) -> _Term:
        z3 = self._z3
        a, b = (self._term(operand) for operand in node.operands)
        text = node.operands[0].kind.name == "string"
        if text and node.operation in ("lt", "lte", "gt", "gte"):
            # Spark orders strings by bytes, z3 by code points: keep trichotomy, nothing more.
            return self._text_order(node, a, b)
        null = z3.Or(a.null, b.null)
        match node.operation:
            case "eq":
                return _Term(a.value == b.value, null)
            case "neq":
                return _Term(a.value != b.value, null)
            case "nullsafeeq":
                same = z3.Or(z3.And(a.null, b.null), z3.And(z3.Not(null), a.value == b.value))
                return _Term(same, z3.BoolVal(False))
        if node.operands[0].kind.name == "boolean":
            return self._unknown(c.dump(node.origin), node.kind)
        match node.operation:
            case "lt":
                return _Term(a.value < b.value, null)
            case "lte":
                return _Term(a.value <= b.value, null)
            case "gt":
                return _Term(a.value > b.value, null)
            case _:
                return _Term(a.value >= b.value, null)

    def _text_order(self, node: Typed, a: _Term, b: _Term) -> _Term:
        z3 = self._z3
        less = z3.Bool(f"less {a.value} {b.value}")
        self.facts.append(z3.Implies(less, a.value != b.value))
        below = z3.And(less, a.value != b.value)
        equal = a.value == b.value
        truth = {
            "lt": below,
            "lte": z3.Or(below, equal),
            "gt": z3.And(z3.Not(less), z3.Not(equal)),
            "gte": z3.Or(z3.Not(less), equal),
        }[node.operation]
        return _Term(truth, z3.Or(a.null, b.null))

    def _arithmetic(self, node: Typed) -> _Term:
        z3 = self._z3
        terms = [self._term(operand) for operand in node.operands]
        null = z3.Or([term.null for term in terms])
        values = [term.value for term in terms]
        match node.operation:
            case "neg":
                return _Term(-values[0], null)
            case "add":
                return _Term(values[0] + values[1], null)
            case "sub":
                return _Term(values[0] - values[1], null)
            case _:
                return _Term(values[0] * values[1], null)

    def _as_sort(self, value: Any, kind: Kind) -> Any:
        real = self._sort(kind) == self._z3.RealSort()
        return self._z3.ToReal(value) if real and value.is_int() else value


def _exact_cast(node: Typed) -> bool:
    """Casts that keep the value: to a wider integer, or a small number to a float."""
    given = node.operands[0].kind
    if given.name == node.kind.name == "int":
        return given.bits <= node.kind.bits
    if given.name == node.kind.name == "float":
        return given.bits <= node.kind.bits
    if node.kind.name not in ("float", "decimal"):
        return False
    if node.operands[0].operation == "literal":
        value = node.operands[0].value
        return value is not None and Fraction(float(value)) == Fraction(value)
    # A wide integer may be rounded on its way to a float, which keeps order but not equality.
    return given.name == "int" and (given.bits <= 32 or node.kind.name == "decimal")


def _whole(node: Typed) -> bool:
    return node.kind.name == "int" and all(o.kind.name == "int" for o in node.operands)
