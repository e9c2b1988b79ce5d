"""`explain()` as text: what runs, where each condition is evaluated, and why."""

from __future__ import annotations

from ensue.automaton.conditions import condition_lines
from ensue.automaton.plan import Plan
from ensue.query.words import clause_lines
from ensue.rows.engines import Engine
from ensue.rows.growth import growth_lines
from ensue.rows.thread_engine import ThreadEngine


def explain(plan: Plan, engine: Engine | None, shuffle: str, reason: str) -> str:
    """The plan in words. `engine` None: it depends on types that are not known yet."""
    program = plan.program
    lines = ["Row pattern: one match per start row, by preference (SQL:2016)", ""]
    lines += clause_lines(plan.query)
    lines.append(f"Program: {program.states} states, {program.arcs} arcs (first arc preferred)")
    lines += [f"  {line}" for line in program.dump().splitlines()[1 + len(program.labels) :]]
    lines += [
        "",
        "Conditions",
        *condition_lines(plan.tiers, "correlated: a guard for every partial match"),
    ]
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
    compared = engine.compared if isinstance(engine, ThreadEngine) else []
    if compared:
        lines.append("  attempts that no row ahead can complete stop early")
    if engine is not None:
        lines += growth_lines(plan, compared)
    return "\n".join(lines) + "\n"
