"""Row-local expressions on Arrow columns, as Spark would evaluate them.

A condition is typed once, then evaluated node by node with Arrow kernels over all rows. A part
that can raise and stands behind AND, OR, CASE, IF or COALESCE is evaluated on the rows that reach
it only, because Spark evaluates row by row: `x <> 0 AND 1 / x > 2` must not divide by zero.
A function of one dictionary-encoded column is evaluated on the dictionary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.query.condition import Anchor, Column, Condition, Navigate
from ensue.query.sql import describe
from ensue.scalar.arrow_kinds import foreign, from_arrow, to_arrow
from ensue.scalar.casts import BadValueError
from ensue.scalar.columns.arithmetic import ARITHMETIC
from ensue.scalar.columns.cast import cast
from ensue.scalar.columns.compare import compare, is_in, null_safe_equal
from ensue.scalar.columns.faults import BadRowError, data_error
from ensue.scalar.columns.mapping import Value, mapped
from ensue.scalar.columns.rows import Rows, normalized, partition_ids, shift
from ensue.scalar.columns.text import TEXT
from ensue.scalar.columns.time import TIME
from ensue.scalar.functions import CATALOGUE
from ensue.scalar.functions.operators import equal
from ensue.scalar.infer import Typed, infer, require_boolean, typed
from ensue.scalar.kinds import BOOLEAN, Kind

__all__ = ["Rows", "evaluate", "kind_of", "predicate", "shift"]

_COMPARISONS = ("eq", "neq", "lt", "lte", "gt", "gte")
_KERNELS: dict[str, Callable[[list[Value], Typed], Value | None]] = {**ARITHMETIC, **TEXT, **TIME}


def evaluate(condition: Condition, rows: Rows) -> pa.Array:
    """The value of a row-local condition at each row, in the Arrow type Spark would give it."""
    node = typed(condition, lambda leaf: _leaf_kind(leaf, rows), rows.session_zone)
    if foreign(node.kind):
        return _Evaluation(rows, None).array(node)
    wanted = to_arrow(node.kind)
    if rows.length == 0:
        return pa.array([], wanted)
    value = _Evaluation(rows, None).array(node)
    return value if value.type == wanted else pc.cast(value, wanted)


def predicate(condition: Condition, rows: Rows, where: str = "the condition") -> pa.Array:
    """`evaluate` of a condition that must be boolean, with null as false."""
    require_boolean(condition, kind_of(condition, rows), where)
    return pc.fill_null(pc.cast(evaluate(condition, rows), pa.bool_()), False)


def kind_of(condition: Condition, rows: Rows) -> Kind:
    return infer(condition, lambda leaf: _leaf_kind(leaf, rows), rows.session_zone)


def _leaf_kind(leaf: Condition, rows: Rows) -> Kind:
    if isinstance(leaf, Column):
        return rows.kind(leaf)
    if isinstance(leaf, Navigate) and leaf.anchor is Anchor.LAST and not leaf.offset:
        return infer(leaf.argument, lambda inner: _leaf_kind(inner, rows), rows.session_zone)
    raise errors.UnsupportedError(
        f"{describe(leaf)} depends on the match, and cannot be evaluated over rows alone",
        remedy="evaluate it per match with ensue.scalar.values",
    )


class _Evaluation:
    """Evaluates over the rows at `positions` (None: all); answers are as long as that."""

    def __init__(self, rows: Rows, positions: np.ndarray[Any, Any] | None) -> None:
        self._rows = rows
        self._positions = positions
        self._length = rows.length if positions is None else len(positions)
        self._done: dict[int, tuple[Typed, Value]] = {}

    def array(self, node: Typed) -> pa.Array:
        value = self.value(node)
        if not isinstance(value, pa.Scalar):
            return value
        if not value.is_valid:
            return pa.nulls(self._length, value.type)
        return pa.repeat(value, self._length)

    def value(self, node: Typed) -> Value:
        if id(node) not in self._done:
            try:
                # The node is kept, since a node that is gone may leave its id to another.
                self._done[id(node)] = node, self._evaluate(node)
            except BadRowError as fault:
                raise self._error(fault, node) from None
        return self._done[id(node)][1]

    def _error(self, fault: BadRowError, node: Typed) -> errors.DataError:
        row = fault.row if self._positions is None else int(self._positions[fault.row])
        return data_error(fault.fault, node.origin, row)

    def _at(self, rows: np.ndarray[Any, Any]) -> _Evaluation:
        """The evaluation of the rows at these places of the present ones."""
        return _Evaluation(self._rows, rows if self._positions is None else self._positions[rows])

    def _evaluate(self, node: Typed) -> Value:
        match node.operation:
            case "literal":
                return pa.scalar(node.value, to_arrow(node.kind))
            case "leaf":
                return self._leaf(node.origin)
            case "cast" | "trycast":
                return cast(self.value(node.operands[0]), node)
            case "and" | "or":
                return self._logical(node)
            case "not":
                return pc.invert(self.value(node.operands[0]))
            case "isnull":
                return pc.is_null(self.value(node.operands[0]))
            case "istrue":
                return pc.fill_null(self.value(node.operands[0]), False)
            case "isfalse":
                return pc.fill_null(pc.invert(self.value(node.operands[0])), False)
            case "case":
                return self._case(node)
            case "coalesce":
                return self._coalesce(node)
            case "in":
                return self._in(node)
            case _:
                return self._function(node)

    # -- leaves ----------------------------------------------------------------------------------

    def _leaf(self, leaf: Condition) -> Value:
        if isinstance(leaf, Column):
            column = self._rows.read(leaf)
            return column if self._positions is None else column.take(pa.array(self._positions))
        assert isinstance(leaf, Navigate)
        node = typed(
            leaf.argument, lambda inner: _leaf_kind(inner, self._rows), self._rows.session_zone
        )
        if leaf.shift == 0:
            return self.value(node)
        if self._positions is None:
            return shift(self.array(node), leaf.shift, self._rows.starts)
        return self._shifted(node, leaf.shift, self._positions)

    def _shifted(self, node: Typed, by: int, positions: np.ndarray[Any, Any]) -> Value:
        there = positions + by
        inside = (there >= 0) & (there < self._rows.length)
        clipped = np.clip(there, 0, max(self._rows.length - 1, 0))
        ids = partition_ids(self._rows.starts, positions)
        inside &= partition_ids(self._rows.starts, clipped) == ids
        found = _Evaluation(self._rows, there[inside]).array(node)
        return _scattered(found, np.flatnonzero(inside), len(positions))

    # -- lazily evaluated forms ------------------------------------------------------------------

    def _logical(self, node: Typed) -> Value:
        join = pc.and_kleene if node.operation == "and" else pc.or_kleene
        left = self.value(node.operands[0])
        second = node.operands[1]
        if not second.fails:
            return join(left, self.value(second))
        decided = node.operation == "or"
        open_rows = pc.fill_null(pc.not_equal(left, pa.scalar(decided)), True)
        return join(left, self._only(second, open_rows))

    def _only(self, node: Typed, wanted: Value) -> Value:
        """`node` on the rows where `wanted` is true, null on the others."""
        if isinstance(wanted, pa.Scalar):
            return self.value(node) if wanted.as_py() else pa.scalar(None, to_arrow(node.kind))
        rows = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
        if len(rows) == 0:
            return pa.scalar(None, to_arrow(node.kind))
        if len(rows) == self._length:
            return self.value(node)
        return _scattered(self._at(rows).array(node), rows, self._length)

    def _case(self, node: Typed) -> Value:
        *branches, default = node.operands
        conditions, values = branches[::2], branches[1::2]
        if not node.fails:
            result = self.value(default)
            for condition, value in reversed(list(zip(conditions, values, strict=True))):
                holds = pc.fill_null(self.value(condition), False)
                result = pc.if_else(holds, self.value(value), result)
            return result
        waiting: Value = pa.array(np.ones(self._length, bool))
        result = pa.nulls(self._length, to_arrow(node.kind))
        for condition, value in zip(conditions, values, strict=True):
            holds = pc.and_(waiting, pc.fill_null(self._only(condition, waiting), False))
            result = pc.if_else(holds, self._only(value, holds), result)
            waiting = pc.and_not(waiting, holds)
        return pc.if_else(waiting, self._only(default, waiting), result)

    def _coalesce(self, node: Typed) -> Value:
        first, *rest = node.operands
        result = self.value(first)
        for operand in rest:
            if operand.fails:
                result = pc.coalesce(result, self._only(operand, pc.is_null(result)))
            else:
                result = pc.coalesce(result, self.value(operand))
        return result

    def _in(self, node: Typed) -> Value:
        first, *choices = node.operands
        subject = self.value(first)
        if first.kind.name == "array":
            return self._in_arrays(node)
        if not any(choice.fails for choice in choices):
            return is_in(subject, [self.value(choice) for choice in choices], first.kind)
        result: Value = pa.scalar(False)
        waiting: Value = pc.is_valid(subject)
        for choice in choices:
            equal = is_in(subject, [self._only(choice, waiting)], first.kind)
            result = pc.or_kleene(result, equal)
            waiting = pc.and_not(waiting, pc.fill_null(equal, False))
        return result

    def _in_arrays(self, node: Typed) -> Value:
        """Arrow does not compare arrays."""
        first, *choices = node.operands
        subject, result = self.value(first), pa.scalar(False)
        for choice in choices:
            result = pc.or_kleene(result, mapped(equal, [subject, self.value(choice)], BOOLEAN))
        return result

    # -- functions -------------------------------------------------------------------------------

    def _function(self, node: Typed) -> Value:
        encoded = self._encoded(node)
        if encoded is not None:
            return encoded
        return _apply(node, self._operands(node))

    def _operands(self, node: Typed) -> list[Value]:
        entry = CATALOGUE[node.operation]
        if not entry.stops_at_null or not any(operand.fails for operand in node.operands):
            return [self.value(operand) for operand in node.operands]
        values: dict[int, Value] = {}
        reached: Value = pa.scalar(True)
        for place in entry.order(len(node.operands)):
            operand = node.operands[place]
            values[place] = self._only(operand, reached) if operand.fails else self.value(operand)
            reached = pc.and_(reached, pc.is_valid(values[place]))
        return [values[place] for place in range(len(node.operands))]

    def _encoded(self, node: Typed) -> Value | None:
        """The function on the dictionary of its only column, if that is dictionary-encoded."""
        leaves = [operand for operand in node.operands if operand.operation != "literal"]
        if len(leaves) != 1 or self._positions is not None or CATALOGUE[node.operation].sees_null:
            return None
        column = _plain_column(leaves[0])
        raw = None if column is None else self._rows.raw(column)
        if raw is None or not pa.types.is_dictionary(raw.type) or raw.dictionary.null_count:
            return None
        values = normalized(raw.dictionary, from_arrow(raw.dictionary.type))
        operands = [
            values if operand is leaves[0] else self.value(operand) for operand in node.operands
        ]
        try:
            return _apply(node, operands).take(raw.indices)
        except BadRowError:
            # Perhaps a value that no row has; and if not, the row has to be found.
            return None


def _plain_column(node: Typed) -> Column | None:
    origin = node.origin if node.operation == "leaf" else None
    if isinstance(origin, Navigate) and origin.shift == 0:
        origin = origin.argument
    return origin if isinstance(origin, Column) else None


def _apply(node: Typed, operands: list[Value]) -> Value:
    assert node.signature is not None
    kind = node.signature.parameters[0] if node.signature.parameters else node.kind
    if kind.name == "null":
        operands = [pc.cast(operand, pa.bool_()) for operand in operands]
    simple = kind.name not in ("array", "struct", "other")
    if node.operation in _COMPARISONS and simple:
        return compare(node.operation, operands[0], operands[1], kind)
    if node.operation == "nullsafeeq" and simple:
        return null_safe_equal(operands[0], operands[1], kind)
    kernel = _KERNELS.get(node.operation)
    try:
        result = None if kernel is None else kernel(operands, node)
    except BadValueError as fault:
        raise BadRowError(0, fault) from None
    if result is not None:
        return result
    entry = CATALOGUE[node.operation]
    function = entry.implement(node.signature)
    return mapped(function, operands, node.kind, sees_null=entry.sees_null)


def _scattered(values: pa.Array, rows: np.ndarray[Any, Any], length: int) -> pa.Array:
    """`values[i]` at `rows[i]` of a column of nulls."""
    places = np.full(length, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return values.take(pa.array(places, mask=places < 0))
