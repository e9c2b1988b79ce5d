"""`explain()` of patterns with events missing: the automaton, the bound, what runs and why."""

from __future__ import annotations

from ensue.automaton.conditions import condition_lines
from ensue.automaton.letters import letter_states
from ensue.automaton.plan import Plan
from ensue.missing.listing import lists_within
from ensue.query.words import clause_lines


def explain_missing(plan: Plan, shuffle: str, reason: str) -> str:
    """The plan in words."""
    query, missing = plan.query, plan.query.missing
    assert missing is not None
    states = letter_states(query, every_way=plan.correlated)
    total = sum(map(len, states.links)) + sum(map(len, states.finals))
    bound = str(missing.bound) if missing.bound.denominator == 1 else str(float(missing.bound))
    lines = [f"Event pattern with at most {bound} missing: each set of events once", ""]
    lines += clause_lines(query)
    lines.append(
        f"Automaton: {states.states - 1} letters, {total} links that skip what may be missing"
    )
    lines += [f"  {line}" for line in states.dump().splitlines()[1:]]
    lines += ["", "Missing events"]
    for label in query.labels:
        cost = missing.cost(label)
        price = "must be there" if cost is None else f"costs {cost / missing.scale:g}"
        lines.append(f"  {label}: {price}")
    lines += [
        "",
        "Conditions",
        *condition_lines(
            plan.tiers, "when its last event is matched; holds where it reads a missing one"
        ),
    ]
    lines += ["", "Input", f"  {shuffle}", "", "Evaluator: approximate", f"  because {reason}"]
    if plan.correlated:
        lines.append("  without a budget: match nodes with registers of what conditions read")
        lines.append("    because conditions read other events, which may be missing")
    else:
        lines.append("  without a budget: the shared match graph, over states and least errors")
        lines.append("    because conditions read only the row and its physical neighbours")
    if lists_within(plan):
        lines.append("  with a budget: the same graph, and as many of its matches as it allows")
        lines.append("    because all matches can be counted, and no option of RC-ACEP is given")
        return "\n".join(lines) + "\n"
    effort = missing.effort
    kept = "the latest start per state and error" if effort.proxy else "all match nodes"
    known = f"a sketch of {effort.sketch} cells" if effort.sketch else "all match vectors"
    lines.append(f"  with a budget: {kept}, chosen by a history of {effort.history} bundles")
    lines.append(f"    ({known}; adaptation: {effort.adapt})")
    return "\n".join(lines) + "\n"
