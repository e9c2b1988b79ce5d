"""Queries that are one plain aggregate per key, handed to Spark's own aggregation.

Where every event is read in one way wherever the query stands, and all folds commute (or the order
tells which event is meant), the automaton says no more than `SELECT key, AGG(...) GROUP BY key`:
Spark combines before the shuffle, which no Python worker can. The answer is the same (float sums
up to their rounding), so this is a choice of speed alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType

from ensue.quantities.model import (
    ALWAYS,
    Action,
    Automaton,
    Constant,
    Expression,
    Predicate,
    Step,
    Weight,
)
from ensue.quantities.stages import VALUE, AutomatonQuestion, Question
from ensue.query import condition as c
from ensue.query.query import OrderKey
from ensue.query.sql import row_sql
from ensue.run.spark.keyed import quoted

_FUNCTIONS = {
    "sum": "SUM",
    "min": "MIN",
    "max": "MAX",
    "count": "COUNT",
    "any": "BOOL_OR",
    "all": "BOOL_AND",
}
# Integers and times have an opposite, which tells the first of equal keys.
_OPPOSITE = dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "~CAST({} AS BIGINT)")
_OPPOSITE |= {"date": "~CAST(UNIX_DATE({}) AS BIGINT)", "timestamp": "~UNIX_MICROS({})"}
_LARGEST = 2**63 - 1  # of nulls, which come first
# Numbers that grow with the values and never reach the least one, which stands for null.
_NUMBER = dict.fromkeys(("tinyint", "smallint", "int"), "CAST({} AS BIGINT)")
_NUMBER |= {"date": "CAST(UNIX_DATE({}) AS BIGINT)", "timestamp": "UNIX_MICROS({})"}
_SLOT = "__ensue_slot_"
_INSIDE = "__ensue_inside"
Ways = tuple[tuple[Predicate, tuple[Action, ...]], ...]


def plain_aggregate(
    stage: Question, df: DataFrame, keys: tuple[str, ...], order: Sequence[OrderKey] = ()
) -> DataFrame | None:
    """The answer by Spark's aggregation, or None where the query is more than that."""
    if not isinstance(stage, AutomatonQuestion) or not keys:
        return None
    automaton = stage.automaton
    ways = _ways(automaton)
    if ways is None or (automaton.finish is not None and automaton.finish.tree is None):
        return None
    predicates = [predicate for predicate, _ in ways]
    if not all(isinstance(predicate, Expression) for predicate in predicates):
        return None
    slots: dict[int, Column] = {}
    start = next(iter(automaton.initial.values()))
    writer = _Writer(df, order)
    for predicate, actions in ways:
        for action in actions:
            found = writer.aggregates(action, start, predicate)
            if found is None or any(action.slot + i in slots for i in range(len(found))):
                return None
            slots |= {action.slot + i: column for i, column in enumerate(found)}
    if set(slots) != set(range(automaton.width)):
        return None
    columns = [column.alias(f"{_SLOT}{slot}") for slot, column in slots.items()]
    # The query is defined where every event of the key is read.
    inside = " OR ".join(f"COALESCE({_sql(p)}, FALSE)" for p in predicates)
    everywhere = ALWAYS in predicates or _complement(predicates)
    if not everywhere:
        columns.append(F.expr(f"BOOL_AND({inside})").alias(_INSIDE))
    names = [quoted(name) for name in keys]
    grouped = df.groupBy(*[F.col(name) for name in names]).agg(*columns)
    value = _finished(automaton)
    if not everywhere:
        value = f"CASE WHEN {_INSIDE} THEN {value} END"
    return grouped.select(*map(F.col, names), F.expr(value).alias(VALUE))


def _sql(predicate: Predicate) -> str:
    assert isinstance(predicate, Expression)
    return f"({row_sql(predicate.tree)})"


def _complement(predicates: list[Predicate]) -> bool:
    """Whether one is the other's negation, as `where=` writes them: then one always holds."""
    if len(predicates) != 2:
        return False
    texts = {_sql(p) for p in predicates}
    return any(f"(NOT ({text} IS TRUE))" in texts for text in texts)


def _ways(automaton: Automaton) -> Ways | None:
    """What an event does, where that is the same from every state and leads to the same one."""
    if any(automaton.final.values()) or len(automaton.initial) != 1 or len(automaton.final) != 1:
        return None
    (start,), (end,) = automaton.initial, automaton.final
    seen: dict[str, list[tuple[Predicate, tuple[Action, ...]]]] = {}
    for transition in automaton.transitions:
        if not isinstance(transition, Step) or transition.target != end:
            return None
        seen.setdefault(transition.source, []).append((transition.predicate, transition.actions))
    if set(seen) != {start, end} or any(ways != seen[end] for ways in seen.values()):
        return None
    return tuple(seen[end])


class _Writer:
    """Folds as aggregates of SQL; `order` says which event is first."""

    def __init__(self, df: DataFrame, order: Sequence[OrderKey]) -> None:
        kinds = dict(df.dtypes)
        self._ansi = df.sparkSession.conf.get("spark.sql.ansi.enabled", "true") == "true"
        self._order = [quoted(key.column) for key in order]
        ascending = all(key.nulls_first and not key.descending for key in order)
        opposites = [_OPPOSITE.get(kinds.get(key.column, "")) for key in order]
        self._nullable = False  # whether what grows with the order may be null
        self._last = self._rank(df, order) if order and ascending else None
        self._first = None
        if self._last is not None and None not in opposites:
            texts = [str(o).format(name) for o, name in zip(opposites, self._order, strict=True)]
            self._first = ", ".join(f"COALESCE({text}, {_LARGEST})" for text in texts)

    def _rank(self, df: DataFrame, order: Sequence[OrderKey]) -> str:
        """What grows with the order. Spark hashes by a number, but sorts to compare structs."""
        if len(order) == 1:
            field = df.schema[order[0].column]
            number = _NUMBER.get(field.dataType.simpleString())
            if number is not None:
                return f"COALESCE({number.format(self._order[0])}, {-_LARGEST - 1})"
            if isinstance(field.dataType, NumericType):
                self._nullable = field.nullable
                return self._order[0]
        return f"STRUCT({', '.join(self._order)})"

    def aggregates(
        self, action: Action, start: tuple[Any, ...], predicate: Predicate
    ) -> list[Column] | None:
        """One aggregate for each slot of the fold; None where SQL has none."""
        values = [_value(weight) for weight in action.weights]
        if None in values:
            return None
        begin = start[action.slot : action.slot + action.fold.width]
        if action.fold.name == "product":
            # A function of the DataFrame API alone, and of floats alone.
            inside = f"CASE WHEN {_sql(predicate)} THEN {values[0]} END"
            return [F.product(F.expr(inside))] if begin == (None,) else None
        only = "" if predicate == ALWAYS else f" FILTER (WHERE {_sql(predicate)})"
        texts = self._texts(action.fold.name, [str(v) for v in values], begin, only)
        return None if texts is None else [F.expr(text) for text in texts]

    def _texts(
        self, fold: str, values: list[str], start: tuple[Any, ...], only: str
    ) -> list[str] | None:
        value = values[-1]
        if fold == "moments":
            if start != (0, 0.0, 0.0):
                return None
            number = f"COUNT({value}){only}"
            spread = f"VAR_POP({value}){only} * {number}"
            return [number, f"AVG({value}){only}", spread]
        if fold in ("argmax", "argmin"):
            return self._best(fold, values, only) if start == (None, None) else None
        if fold in ("first", "last"):
            if self._last is None or start != (None,):
                return None
            chosen = f"CASE WHEN {value} IS NOT NULL THEN {self._last} END"
            timed = f"{'MAX_BY' if fold == 'last' else 'MIN_BY'}({value}, {chosen}){only}"
            if not self._nullable:
                return [timed]
            # A row without a time comes first.
            untimed = f"ANY_VALUE(CASE WHEN {self._last} IS NULL THEN {value} END, TRUE){only}"
            both = (timed, untimed) if fold == "last" else (untimed, timed)
            return [f"COALESCE({', '.join(both)})"]
        if fold == "rows":
            text = f"COUNT(*){only}"
        elif fold == "sum" and not self._ansi:
            # Without ANSI a sum of whole numbers wraps round in silence.
            total = f"TRY_SUM({value}){only}"
            refused = "RAISE_ERROR('a whole number left the range of 64 bits')"
            text = f"CASE WHEN {total} IS NULL AND COUNT({value}){only} > 0 THEN {refused} "
            text += f"ELSE {total} END"
        elif fold in _FUNCTIONS:
            text = f"{_FUNCTIONS[fold]}({value}){only}"
        else:
            return None
        # Only the neutral start is left to SQL, which has no other.
        neutral = (0,) if fold in ("count", "rows") else (None,)
        return [text] if start == neutral else None

    def _best(self, fold: str, values: list[str], only: str) -> list[str] | None:
        """The first event with the greatest (least) key, by the order."""
        if self._last is None or self._first is None:
            return None
        key, value = values
        greatest = fold == "argmax"
        at = self._first if greatest else ", ".join(self._order)
        rank = f"CASE WHEN {key} IS NOT NULL THEN STRUCT({key}, {at}) END"
        best, by = ("MAX", "MAX_BY") if greatest else ("MIN", "MIN_BY")
        return [f"{best}({key}){only}", f"{by}({value}, {rank}){only}"]


def _value(weight: Weight) -> str | None:
    if isinstance(weight, Expression):
        return row_sql(weight.tree)
    if not isinstance(weight, Constant):
        return None
    if weight.value is None:
        return "NULL"
    whole = isinstance(weight.value, int) and not isinstance(weight.value, bool)
    return f"CAST({weight.value} AS BIGINT)" if whole else None


def _finished(automaton: Automaton) -> str:
    if automaton.finish is None:
        return f"{_SLOT}0"
    assert automaton.finish.tree is not None
    slots = {name: c.Column(f"{_SLOT}{i}") for i, name in enumerate(automaton.finish.names)}

    def change(node: c.Condition) -> c.Condition | None:
        return slots.get(node.name) if isinstance(node, c.Column) else None

    return row_sql(c.transform(automaton.finish.tree, change))
