"""`explain()` as text: what runs, where each condition is evaluated, and why."""

from __future__ import annotations

from ensue.automaton.plan import Plan
from ensue.query import condition as c
from ensue.query.sql import condition_sql, row_sql
from ensue.rows.engines import Engine


def explain(plan: Plan, engine: Engine | None, shuffle: str, reason: str) -> str:
    """The plan in words. `engine` None: it depends on types that are not known yet."""
    program = plan.program
    lines = ["Row pattern: one match per start row, by preference (SQL:2016)", ""]
    lines.append(f"Program: {program.states} states, {program.arcs} arcs (first arc preferred)")
    lines += [f"  {line}" for line in program.dump().splitlines()[1 + len(program.labels) :]]
    lines += ["", "Conditions"]
    for tier in plan.tiers:
        parts = []
        if tier.row != c.TRUE:
            parts.append(
                (
                    "row: by Spark before the shuffle (in process: on Arrow columns)",
                    row_sql(tier.row),
                )
            )
        parts += [
            ("neighbours: on Arrow columns after the sort", condition_sql(part))
            for part in tier.neighbour
        ]
        parts += [
            ("correlated: a guard for every partial match", condition_sql(part))
            for part in tier.correlated
        ]
        lines.append(f"  {tier.label}" + ("" if parts else ": always true"))
        lines += [f"    {where}: {text}" for where, text in parts]
    lines += ["", "Input", f"  {shuffle}"]
    lines += ["", "Evaluator: rows", f"  because {reason}"]
    if engine is None:
        lines.append(
            "  engine: threads, or python where a type or function needs it; "
            "explain(data) says which"
        )
        lines.append("  because conditions read the match so far")
    else:
        lines += [f"  engine: {engine.name}", f"  because {engine.reason}"]
    return "\n".join(lines) + "\n"
