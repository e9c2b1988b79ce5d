"""Types of conditions: each node gets its kind, and each implicit cast of Spark becomes explicit.

`typed` turns a condition into a tree of `Typed` nodes in which every operand already has the kind
its operator wants; both evaluators walk that tree, so that promotion is decided once. What depends
on the match or the row (Column, Navigate, Aggregate, Classifier, MatchNumber) is a leaf, and the
caller says its kind.

Operations of `Typed`: `literal`, `leaf`, `cast`, `trycast`, `and`, `or`, `not`, `case` (conditions
and values in turn, then the default), `coalesce`, `in`, `isnull`, `istrue`, `isfalse`, and the
names of the function catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from ensue import errors
from ensue.query.condition import CONDITIONS, Argument, Call, Condition, Literal, TypeName
from ensue.query.duration import read_interval
from ensue.query.sql import describe
from ensue.scalar import kinds as k
from ensue.scalar.casts import BadValueError, caster, never_fails
from ensue.scalar.functions import CATALOGUE, Given, Signature, near, positional
from ensue.scalar.functions.base import COLUMN_FIRST, NOT_CONSTANT
from ensue.scalar.functions.shapes import word
from ensue.scalar.kinds import Kind

ColumnKind = Callable[[Condition], Kind]
_TESTS = ("boolean", "null")  # kinds that a predicate may have
_SPANS = {"months": k.MONTHS, "days": k.DAYS, "time": k.INTERVAL}  # of intervals


@dataclass(frozen=True, eq=False)
class Typed:
    """A node with its kind; `fails` says that evaluating it can raise on some data."""

    operation: str
    kind: Kind
    origin: Condition
    operands: tuple[Typed, ...] = ()
    value: Any = None  # of a literal
    signature: Signature | None = None  # of a catalogue function
    fails: bool = False

    def __post_init__(self) -> None:
        if any(operand.fails for operand in self.operands):
            object.__setattr__(self, "fails", True)


def infer(condition: Condition, column_kind: ColumnKind, zone: str = k.DEFAULT_ZONE) -> Kind:
    """The kind of a condition; `column_kind` answers for its leaves."""
    return typed(condition, column_kind, zone).kind


def require_boolean(condition: Condition, kind: Kind, where: str = "the condition") -> None:
    """Refuse a predicate that is not boolean."""
    if kind.name not in _TESTS:
        raise errors.ColumnTypeError(
            f"{where} is {describe(condition)}, of type {kind}, where a boolean is expected",
            remedy="compare it with something, as in x > 0",
        )


def typed(condition: Condition, column_kind: ColumnKind, zone: str = k.DEFAULT_ZONE) -> Typed:
    """The condition with kinds and with every cast explicit."""
    return _Typer(column_kind, zone).type(condition)


class _Typer:
    def __init__(self, column_kind: ColumnKind, zone: str) -> None:
        self._column_kind = column_kind
        self._zone = zone

    def type(self, condition: Condition) -> Typed:
        if isinstance(condition, Literal):
            return _literal(condition)
        if not isinstance(condition, Call):
            leaf = Typed("leaf", self._column_kind(condition), condition)
            return self._cast(leaf, self._rezone(leaf.kind), condition)
        form = _FORMS.get(_form_name(condition))
        return form(self, condition) if form else self._function(condition)

    # -- functions of the catalogue --------------------------------------------------------------

    def _function(self, call: Call) -> Typed:
        shape = positional(call)
        entry = CATALOGUE.get(shape.name)
        if entry is None:
            raise _unknown(shape.name, describe(call).partition("(")[0].lower())
        count = len(shape.arguments)
        if count < entry.least or (entry.most is not None and count > entry.most):
            raise errors.ColumnTypeError(
                f"{entry.name} is called with {count} arguments in {describe(call)}",
                remedy=f"call it as {entry.usage}",
            )
        operands = [self.type(argument) for argument in shape.arguments]
        node = self.apply(shape.name, operands, call)
        return _not(node, call) if shape.negated else node

    def apply(self, name: str, operands: Sequence[Typed], origin: Condition) -> Typed:
        entry = CATALOGUE[name]
        signature = entry.resolve([_given(operand) for operand in operands])
        if signature is None:
            raise _mismatch(entry.usage, operands, origin)
        signature = replace(
            signature,
            parameters=tuple(self._rezone(kind) for kind in signature.parameters),
            result=self._rezone(signature.result),
            zone=self._zone,
        )
        cast = tuple(
            self._cast(self._read(operand, signature.strings_as, origin), kind, origin)
            for operand, kind in zip(operands, signature.parameters, strict=True)
        )
        return Typed(
            name, signature.result, origin, cast, signature=signature, fails=signature.fails
        )

    def _read(self, operand: Typed, kind: Kind | None, origin: Condition) -> Typed:
        string = kind is not None and operand.kind.name == "string"
        return self._cast(operand, kind, origin) if string and kind is not None else operand

    def _rezone(self, kind: Kind) -> Kind:
        return k.timestamp(self._zone) if kind.zoned else kind

    # -- casts -----------------------------------------------------------------------------------

    def _cast(self, node: Typed, kind: Kind, origin: Condition, operation: str = "cast") -> Typed:
        if node.kind == kind and (node.kind.zone == kind.zone or not kind.zoned):
            return node
        convert = caster(node.kind, kind)
        if convert is None:
            raise errors.ColumnTypeError(
                f"{describe(node.origin)} is {node.kind}, which cannot be cast to {kind}",
                remedy="convert it by way of another type, or compute it as a column first",
            )
        if node.operation == "literal":
            try:
                value = None if node.value is None else convert(node.value)
                return Typed("literal", kind, node.origin, value=value)
            except BadValueError:
                if operation == "trycast":
                    return Typed("literal", kind, node.origin)
        fails = operation == "cast" and not never_fails(node.kind, kind)
        return Typed(operation, kind, origin, (node,), fails=fails)

    def _boolean(self, node: Typed, origin: Condition, usage: str) -> Typed:
        if node.kind.name not in ("boolean", "null", "string"):
            raise _mismatch(usage, [node], origin)
        return self._cast(node, k.BOOLEAN, origin)

    def _shared(self, nodes: Sequence[Typed], origin: Condition, usage: str) -> list[Typed]:
        shared: Kind | None = k.NULL
        # Spark promotes all other types first, so that one string does not decide for all.
        for node in sorted(nodes, key=lambda n: n.kind.name == "string"):
            shared = None if shared is None else k.common(shared, node.kind)
        if shared is None:
            raise _mismatch(usage, nodes, origin)
        return [self._cast(node, self._rezone(shared), origin) for node in nodes]

    # -- special forms ---------------------------------------------------------------------------

    def logical(self, call: Call) -> Typed:
        usage = f"a {call.function.upper()} b"
        nodes = [self.type(part) for part in _conditions(call)]
        names = {node.kind.name for node in nodes}
        if "string" in names and "boolean" not in names:
            raise _mismatch(usage, nodes, call)
        operands = tuple(self._boolean(node, call, usage) for node in nodes)
        decided = call.function == "or"
        if any(part.operation == "literal" and part.value is decided for part in operands):
            # Spark's optimizer does the same: `x / 0 > 0 AND false` never divides.
            return Typed("literal", k.BOOLEAN, call, value=decided)
        return Typed(call.function, k.BOOLEAN, call, operands)

    def negation(self, call: Call) -> Typed:
        return _not(self._boolean(self.type(_conditions(call)[0]), call, "NOT a"), call)

    def is_(self, call: Call) -> Typed:
        subject, against = _conditions(call)
        operand = self.type(subject)
        if not isinstance(against, Literal) or against.kind not in ("null", "boolean"):
            raise errors.UnsupportedFunctionError(
                f"IS is followed by {describe(against)} in {describe(call)}",
                remedy="use IS NULL, IS TRUE, IS FALSE or <=>",
            )
        if against.kind == "null":
            return Typed("isnull", k.BOOLEAN, call, (operand,))
        operand = self._boolean(operand, call, "a IS TRUE")
        name = "istrue" if against.value else "isfalse"
        return Typed(name, k.BOOLEAN, call, (operand,))

    def isnull(self, call: Call) -> Typed:
        operand = self.type(_conditions(call)[0])
        node = Typed("isnull", k.BOOLEAN, call, (operand,))
        return _not(node, call) if _form_name(call) == "isnotnull" else node

    def between(self, call: Call) -> Typed:
        subject, low, high = (self.type(part) for part in _roles(call, "this", "low", "high"))
        above = self.apply("gte", (subject, low), call)
        below = self.apply("lte", (subject, high), call)
        return Typed("and", k.BOOLEAN, call, (above, below))

    def in_(self, call: Call) -> Typed:
        if call["this"] is None or any(
            role not in ("this", "expressions") for role, _ in call.arguments
        ):
            raise _unknown("in (sub-query)", "in (sub-query)")
        nodes = [self.type(part) for part in _conditions(call)]
        shared = tuple(self._shared(nodes, call, "a IN (b, ...)"))
        if shared[0].kind.name in ("struct", "other", "months"):
            raise _mismatch("a IN (b, ...)", nodes, call)
        return Typed("in", k.BOOLEAN, call, shared)

    def case(self, call: Call) -> Typed:
        subject = call["this"]
        branches = call["ifs"]
        assert isinstance(branches, tuple)
        conditions, values = [], []
        for branch in branches:
            assert isinstance(branch, Call)
            when, then = _roles(branch, "this", "true")
            if isinstance(subject, CONDITIONS):
                sides = (self.type(subject), self.type(when))
                conditions.append(self.apply("eq", sides, call))
            else:
                conditions.append(self._branch(when, call))
            values.append(self.type(then))
        default = call["default"]
        last = self.type(default) if isinstance(default, CONDITIONS) else _NULL
        return self._choice(conditions, [*values, last], call)

    def if_(self, call: Call) -> Typed:
        condition, then = _roles(call, "this", "true")
        other = call["false"]
        last = self.type(other) if isinstance(other, CONDITIONS) else _NULL
        return self._choice([self._branch(condition, call)], [self.type(then), last], call)

    def _branch(self, condition: Condition, call: Call) -> Typed:
        node = self.type(condition)
        if node.kind.name not in _TESTS:
            require_boolean(condition, node.kind, f"a branch of {describe(call)}")
        return self._cast(node, k.BOOLEAN, call)

    def _choice(self, conditions: list[Typed], values: list[Typed], call: Call) -> Typed:
        shared = self._shared(values, call, "CASE WHEN ... THEN a ELSE b END")
        operands = [n for pair in zip(conditions, shared, strict=False) for n in pair]
        return Typed("case", shared[0].kind, call, (*operands, shared[-1]))

    def coalesce(self, call: Call) -> Typed:
        nodes = [self.type(part) for part in _conditions(call)]
        shared = tuple(self._shared(nodes, call, "coalesce(a, b, ...)"))
        return Typed("coalesce", shared[0].kind, call, shared)

    def nvl2(self, call: Call) -> Typed:
        subject, then, other = (self.type(part) for part in _roles(call, "this", "true", "false"))
        absent = Typed("isnull", k.BOOLEAN, call, (subject,))
        return self._choice([_not(absent, call)], [then, other], call)

    def nullif(self, call: Call) -> Typed:
        first, second = (self.type(part) for part in _roles(call, "this", "expression"))
        equal = self.apply("eq", (first, second), call)
        return self._choice([equal], [_NULL, first], call)

    def cast(self, call: Call) -> Typed:
        target = call["to"]
        if not isinstance(target, TypeName) or call["format"] is not None:
            raise errors.UnsupportedFunctionError(
                f"{describe(call)} has a form of CAST that Ensue does not compute",
                remedy=COLUMN_FIRST,
            )
        kind = k.from_name(target.text, self._zone)
        if kind is None:
            raise errors.UnsupportedFunctionError(
                f"CAST to {target.text} is not one that Ensue computes",
                remedy=COLUMN_FIRST,
            )
        node = self.type(_roles(call, "this")[0])
        return self._cast(node, kind, call, call.function)

    def interval(self, call: Call) -> Typed:
        unit = call["unit"]
        written = call["this"]
        text = str(written.value) if isinstance(written, Literal) else None
        name = unit.text if isinstance(unit, TypeName) else word(unit)
        found = None if text is None or name is None else read_interval(text.strip(), name.upper())
        if found is None:
            raise errors.UnsupportedFunctionError(
                f"{describe(call)} is an interval that Ensue does not read",
                remedy="write it as INTERVAL '90' MINUTE, or compute it as a column first",
            )
        span, amount = found
        value = amount if span == "months" else timedelta(microseconds=amount)
        return Typed("literal", _SPANS[span], call, value=value)


_NULL = Typed("literal", k.NULL, Literal("null", None))
_FORMS: dict[str, Callable[[_Typer, Call], Typed]] = {
    "and": _Typer.logical,
    "or": _Typer.logical,
    "not": _Typer.negation,
    "is": _Typer.is_,
    "isnull": _Typer.isnull,
    "isnotnull": _Typer.isnull,
    "between": _Typer.between,
    "in": _Typer.in_,
    "case": _Typer.case,
    "if": _Typer.if_,
    "coalesce": _Typer.coalesce,
    "nvl2": _Typer.nvl2,
    "nullif": _Typer.nullif,
    "cast": _Typer.cast,
    "trycast": _Typer.cast,
    "interval": _Typer.interval,
}


def _decimal(precision: int, scale: int) -> Kind:
    if precision > k.MAX_PRECISION:
        raise errors.LimitError(
            f"a number has {precision} digits; the limit is {k.MAX_PRECISION}",
            remedy="write it as a double, such as 1e40, or as a text",
        )
    return k.decimal(precision, scale)


def _literal(literal: Literal) -> Typed:
    value: Any = literal.value
    match literal.kind:
        case "int":
            fitting = [i for i in (k.INT, k.BIGINT) if k.bounds(i)[0] <= value <= k.bounds(i)[1]]
            if fitting:
                return Typed("literal", fitting[0], literal, value=value)
            kind, value = _decimal(len(str(abs(value))), 0), Decimal(value)
        case "decimal":
            _, digits, exponent = value.as_tuple()
            scale = max(0, -int(exponent))
            kind = _decimal(max(len(digits) + max(0, int(exponent)), scale, 1), scale)
        case "double":
            kind = k.DOUBLE
        case "string":
            kind = k.STRING
        case "boolean":
            kind = k.BOOLEAN
        case _:
            kind = k.NULL
    return Typed("literal", kind, literal, value=value)


def _form_name(call: Call) -> str:
    return str(call["this"]).lower() if call.function == "anonymous" else call.function


def _conditions(call: Call) -> list[Condition]:
    found: list[Condition] = []
    for role, value in call.arguments:
        if role == "this" and call.function == "anonymous":
            continue
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, CONDITIONS):
                found.append(item)
    return found


def _roles(call: Call, *roles: str) -> list[Condition]:
    found: list[Condition] = []
    for role in roles:
        value: Argument = call[role]
        if not isinstance(value, CONDITIONS):
            raise errors.ColumnTypeError(
                f"{describe(call)} lacks an argument", remedy="give it all its arguments"
            )
        found.append(value)
    return found


def _given(node: Typed) -> Given:
    return Given(node.kind, node.value if node.operation == "literal" else NOT_CONSTANT)


def _not(node: Typed, origin: Condition) -> Typed:
    return Typed("not", k.BOOLEAN, origin, (node,))


def _mismatch(usage: str, operands: Sequence[Typed], origin: Condition) -> errors.ColumnTypeError:
    given = ", ".join(f"{describe(operand.origin)} is {operand.kind}" for operand in operands)
    return errors.ColumnTypeError(
        f"{usage} does not take these types in {describe(origin)}: {given}",
        remedy="cast one side, as in CAST(x AS double)",
    )


def _unknown(name: str, written: str) -> errors.UnsupportedFunctionError:
    close = near(name)
    # Words such as `a BETWEEN b AND c` have no name before a bracket.
    shown = written if re.fullmatch(r"\w+", written) else name
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return errors.UnsupportedFunctionError(
        f"the function {shown!r} is not one that Ensue computes{hint}",
        remedy=COLUMN_FIRST,
    )
