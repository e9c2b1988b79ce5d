"""A workload's plan as text: what is shared by whom, and where conditions are asked."""

from __future__ import annotations

from collections.abc import Mapping

from ensue.automaton.share import unite
from ensue.automaton.share_plan import sharing_plan
from ensue.query.query import Query, SkipMode
from ensue.shared.merged import FEW

MOST = 40


def _way(patterns: int) -> str:
    if patterns < FEW:
        return "one by one on merged states; as one where a bound is tighter than that"
    return "as one, or one by one on merged states where that is cheaper"


def explain_group(queries: Mapping[str, Query], rows: bool, alone: str) -> list[str]:
    """Lines about one group."""
    if rows:
        sheds = [n for n, q in queries.items() if q.skip.mode is SkipMode.TO_NEXT_ROW]
        lines = [f"{len(queries)} row patterns over one table and order; conditions tested once"]
        kept = [name for name in queries if name not in sheds]
        if sheds:
            lines.append("under a budget whole start rows are shed: " + ", ".join(sheds))
        if kept:
            lines.append(
                "no budget, matches depend on each other (no AFTER MATCH SKIP TO NEXT ROW): "
                + ", ".join(kept)
            )
        return lines
    if alone:
        return [f"by itself, exactly, without a budget: {alone}"]
    union = unite(queries)
    plan = sharing_plan(union)
    states = len(plan.nodes) - 1
    correlated = sum(bool(test.correlated) for test in union.plan.tests)
    wanted = sum(len(query.labels) for query in queries.values())
    lines = [
        f"{len(queries)} event patterns, matched {_way(len(queries))}",
        f"states: {plan.separate} of the patterns alone, {states} together",
        f"labels: {wanted} of the patterns, {union.labels} different; "
        f"{len(union.plan.flags)} row-local conditions tested once per event, "
        f"{correlated} tested per partial match (register machine)",
        "clusters by pattern-sharing degree "
        + (f"({', '.join(reversed(plan.names))}):" if len(plan.names) <= 12 else "(patterns):"),
    ]
    clusters = sorted(plan.clusters.items(), key=lambda item: -item[0].bit_count())
    for bitmap, nodes in clusters[:MOST]:
        many = len(plan.names) > 12
        label = f"{bitmap.bit_count()} patterns" if many else plan.text(bitmap)
        shown = "; ".join(plan.nodes[node].path for node in nodes[:6])
        lines.append(f"  [{label}] {shown}" + (" ..." if len(nodes) > 6 else ""))
    if len(clusters) > MOST:
        lines.append(f"  ... {len(clusters) - MOST} more")
    return lines
