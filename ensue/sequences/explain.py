"""`explain()` of event patterns: the automaton, where conditions are asked, what runs and why."""

from __future__ import annotations

from ensue.automaton.conditions import condition_lines
from ensue.automaton.plan import Plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import Subsets
from ensue.query.query import SkipMode
from ensue.query.words import clause_lines
from ensue.sequences.counts import countable
from ensue.sequences.evaluator import keeps_first


def explain_sequence(plan: Plan, shuffle: str, reason: str) -> str:
    """The plan in words."""
    query = plan.query
    automaton = compile_sequence(query)
    lines = ["Event pattern: all matches; a match is the set of its (label, event) pairs", ""]
    lines += clause_lines(query)
    lines.append("Automaton: places that wait, and what they do with an event (take, skip)")
    lines += [f"  {line}" for line in automaton.dump().splitlines()[1:]]
    lines += [
        "",
        "Conditions",
        *condition_lines(plan.tiers, "correlated: once per class of partial matches"),
    ]
    lines += ["", "Input", f"  {shuffle}", "", "Evaluator: sequences", f"  because {reason}"]
    lines.append("  listing: the shared match graph, read lazily")
    if plan.correlated or automaton.bounds:
        lines.append("    conditions on the match so far: compiled guards, classes sorted by what")
        lines.append("    decides; plain Python where they are too hard")
    told = [] if not keeps_first(query) else ["their first event"]
    if plan.correlated or automaton.bounds:
        told.append("the events that conditions ahead read")
    apart = " and ".join(told) or "nothing else"
    lines.append(f"    because partial matches are distinguished by their state and {apart}")
    skips = query.skip.mode is not SkipMode.NONE
    if skips and not automaton.absences:
        lines.append("  after-match strategy: applied to the list of complete partitions")
        lines.append("    plain Python goes by starts in pieces, and of too many matches")
    if countable(plan, Subsets(automaton)):
        lines.append("  count: matrices of steps per event class, on all cores")
        lines.append("    because conditions read only the row and its physical neighbours")
    else:
        followed = "in plain Python"
        if skips:
            reason = "an after-match strategy depends on the matches before"
            if not automaton.absences:
                followed = "over the matches that the strategy takes"
        elif automaton.absences:
            reason = "the pattern ends with an absence"
        else:
            followed = "read off the match graph, compiled (kernels/graph_totals)"
            reason = "a joint is bounded in time"
            if plan.correlated:
                reason = "conditions read the match so far"
        never = "" if skips else ", never listing a match"
        lines.append(f"  count and aggregates: {followed}{never}")
        lines.append(f"    because {reason}")
    return "\n".join(lines) + "\n"
