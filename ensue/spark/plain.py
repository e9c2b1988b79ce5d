"""Queries that are one plain aggregate per key, handed to Spark's own aggregation.

Where every event is read, in any order, and all folds commute, the automaton says no more than
`SELECT key, AGG(...) GROUP BY key`: Spark combines before the shuffle, which no Python worker can.
The answer is the same (float sums up to their rounding), so this is a choice of speed alone.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue.evaluate.quantify.model import ALWAYS, Action, Automaton, Constant, Expression, Step
from ensue.evaluate.quantify.stages import VALUE, AutomatonStage, Stage
from ensue.pattern import condition as c
from ensue.pattern.sql import row_sql

_FUNCTIONS = {
    "sum": "SUM",
    "min": "MIN",
    "max": "MAX",
    "count": "COUNT",
    "any": "BOOL_OR",
    "all": "BOOL_AND",
}
_SLOT = "__ensue_slot_"


def plain_aggregate(stage: Stage, df: DataFrame, keys: tuple[str, ...]) -> DataFrame | None:
    """The answer by Spark's aggregation, or None where the query is more than that."""
    if not isinstance(stage, AutomatonStage) or not keys:
        return None
    automaton = stage.automaton
    actions = _actions(automaton)
    if actions is None or (automaton.finish is not None and automaton.finish.tree is None):
        return None
    columns: list[str] = []
    start = next(iter(automaton.initial.values()))
    for slot in range(automaton.width):
        own = [action for action in actions if action.slot == slot]
        if len(own) != 1:
            return None
        text = _aggregate(own[0], start[slot])
        if text is None:
            return None
        columns.append(f"{text} AS {_SLOT}{slot}")
    names = [f"`{name.replace('`', '``')}`" for name in keys]
    grouped = df.groupBy(*[F.col(name) for name in names]).agg(*map(F.expr, columns))
    value = _finished(automaton)
    return grouped.select(*map(F.col, names), F.expr(value).alias(VALUE))


def _actions(automaton: Automaton) -> tuple[Action, ...] | None:
    """The folds of every event, where each is read the same way wherever the query stands."""
    if any(automaton.final.values()) or len(automaton.initial) != 1 or len(automaton.final) != 1:
        return None
    (start,), (end,) = automaton.initial, automaton.final
    seen: dict[str, tuple[Action, ...]] = {}
    for transition in automaton.transitions:
        plain = isinstance(transition, Step) and transition.target == end
        if not plain or not isinstance(transition, Step) or transition.predicate != ALWAYS:
            return None
        if transition.source in seen:
            return None
        seen[transition.source] = transition.actions
    if set(seen) != {start, end} or len(set(seen.values())) != 1:
        return None
    return seen[end]


def _aggregate(action: Action, start: Any) -> str | None:
    weight, *more = action.weights
    if more or not isinstance(weight, (Expression, Constant)):
        return None
    counts = action.fold.name in ("count", "rows")
    if action.fold.name == "rows":
        text = "COUNT(*)"
    elif action.fold.name in _FUNCTIONS and isinstance(weight, Expression):
        text = f"{_FUNCTIONS[action.fold.name]}({row_sql(weight.tree)})"
    else:
        return None
    # Only the neutral start is left to SQL, which has no other.
    return text if (start == 0 and counts) or (start is None and not counts) else None


def _finished(automaton: Automaton) -> str:
    if automaton.finish is None:
        return f"{_SLOT}0"
    assert automaton.finish.tree is not None
    slots = {name: c.Column(f"{_SLOT}{i}") for i, name in enumerate(automaton.finish.names)}

    def change(node: c.Condition) -> c.Condition | None:
        return slots.get(node.name) if isinstance(node, c.Column) else None

    return row_sql(c.transform(automaton.finish.tree, change))
