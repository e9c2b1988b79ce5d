"""How the cost of a row pattern may grow with the rows of a partition, said before it runs.

Attempts cost a square where they stay in a loop, each to the end of its partition, and cannot be
distinguished from those that will match: a condition ahead reads what differs from start to start
(another variable's rows, FIRST, an aggregate), no window ends the attempt, and nothing says early
that it will fail. One comparison does (`reach.py`) where it is the only such condition: the ways
that are open for one need not be open for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ensue.automaton.plan import Plan
from ensue.automaton.walks import reached
from ensue.query import condition as c
from ensue.query.sql import condition_sql
from ensue.rows.reach import Comparison


def growth_lines(plan: Plan, compared: Sequence[Comparison]) -> list[str]:
    """A warning for `explain()` where the growth may be worse than linear."""
    asked = {part for test in plan.tests for part in test.correlated}
    if plan.query.within is not None or any(asked <= set(one.parts) for one in compared):
        return []
    waiting = dict.fromkeys(_kept_waiting(plan))
    if not waiting:
        return []
    parts = "; ".join(f"{label}: {text}" for label, text in waiting)
    return [
        "  growth: attempts may stay alive to the end of their partition, and the cost may grow",
        f"  with the square of its rows ({parts}); within(...) bounds it",
    ]


def _kept_waiting(plan: Plan) -> Iterator[tuple[str, str]]:
    program, onward = plan.program, plan.program.followers
    for state in range(1, program.states):
        ahead = set(reached(onward(state), onward))
        if state not in ahead:
            continue  # no loop
        own = plan.tests[int(program.label[state])].label
        for label in dict.fromkeys(int(program.label[s]) for s in sorted(ahead)):
            for part, shown in zip(plan.tests[label].correlated, _shown(plan, label), strict=True):
                if _tells_starts_apart(plan, part, own):
                    yield plan.tests[label].label, shown


def _shown(plan: Plan, label: int) -> list[str]:
    return [condition_sql(part) for part in plan.tiers[label].correlated]


def _tells_starts_apart(plan: Plan, part: c.Condition, looping: str) -> bool:
    """Whether a condition reads what two attempts in the same place of a loop do not share."""
    for node in c.atoms(part):
        if not isinstance(node, c.Navigate) or node.anchor is c.Anchor.FIRST:
            return True
        if looping not in plan.query.members(node.variable):
            return True
    return c.has(part, c.Classifier)
