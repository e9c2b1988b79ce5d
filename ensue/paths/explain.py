"""What would run for a path request, in words."""

from __future__ import annotations

from ensue.paths.plan import PathPlan
from ensue.paths.search import PathEngine, Request
from ensue.query.paths import Semantics


def explain_local(engine: PathEngine, request: Request) -> str:
    store, plan = engine.store, engine.plan(request)
    layout = "by binary search" if len(store.entry_symbol) else "by a table of offsets"
    lines = [
        f"graph      {store.node_count:,} nodes, {store.edge_count:,} edges, "
        f"{len(store.labels):,} labels; in process, {store.nbytes / 2**20:.1f} MB, steps found "
        + layout,
        *explain_plan(plan, request),
    ]
    if request.backwards:
        lines.append("direction  from the ends: only they are given")
    lines += [f"paths      {_paths(engine, request)}", f"ends       {_ends(engine, plan, request)}"]
    lines.append(f"counts     {_counts(request)}")
    lines += [f"note       {note}" for note in store.notes]
    return "\n".join(lines)


def explain_plan(plan: PathPlan, request: Request) -> list[str]:
    automaton = plan.automaton
    longest = "no bound" if automaton.longest is None else f"at most {automaton.longest}"
    single = sum(program.states for program in plan.programs.programs)
    shared = [len(queries) for queries in automaton.queries_of]
    lines = [
        f"queries    {len(request.queries)}, from {len(request.origins):,} start nodes",
        f"automaton  {automaton.states} states over {len(plan.classes.tests)} classes of edges "
        f"({single} states query by query; {sum(n > 1 for n in shared)} shared); steps: {longest}",
    ]
    conditional = sum(test.condition is not None for test in plan.programs.tests)
    if conditional:
        lines.append(f"conditions {conditional} steps, evaluated on Arrow columns beforehand")
    return lines


def _paths(engine: PathEngine, request: Request) -> str:
    if request.shortest:
        return engine.shortest_reason(request)
    text = f"arena, level by level, {request.semantics.value}"
    if request.limit:
        text += f"; at most {request.limit:,} per start and query, shortest first"
    return text + f"; at most {request.max_partials:,} partial paths"


def _ends(engine: PathEngine, plan: PathPlan, request: Request) -> str:
    if request.semantics in (Semantics.TRAIL, Semantics.SIMPLE):
        return f"distinct ends of the enumerated paths: {request.semantics.value} needs each path"
    reason = engine.bitset_reason(plan, request)
    if reason is not None:
        return f"bitset search, 64 starts per word: {reason}"
    return "breadth-first search with a hash set per start"


def _counts(request: Request) -> str:
    if request.semantics in (Semantics.TRAIL, Semantics.SIMPLE):
        return f"the enumerated paths: {request.semantics.value} needs each path"
    return "per level and product state, no path is enumerated"
