"""The obvious way to find paths: walk everywhere, then ask whether the walk spells the expression.

Exponential and plain on purpose; never shipped. A walk is a list of steps (edge number, backwards);
it is an answer if some way of reading the expression consumes exactly its steps. Reads only the
parsed tree, none of the engine.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.paths import PathQuery

Step = tuple[int, bool]
_COMPARE = {
    "gt": operator.gt,
    "lt": operator.lt,
    "gte": operator.ge,
    "lte": operator.le,
    "eq": operator.eq,
    "neq": operator.ne,
}


@dataclass(frozen=True)
class World:
    """Edges as (source, label, target) with their own columns, and nodes with theirs."""

    edges: tuple[tuple[Any, str, Any], ...]
    edge_columns: tuple[dict[str, Any], ...] = ()
    node_columns: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def names(self) -> list[Any]:
        return list(dict.fromkeys(n for s, _, t in self.edges for n in (s, t)))

    def ends(self, step: Step) -> tuple[Any, Any]:
        source, _, target = self.edges[step[0]]
        return (target, source) if step[1] else (source, target)


def all_paths(
    world: World, query: PathQuery, start: Any, semantics: str, hops: int
) -> list[tuple[tuple[Any, ...], tuple[str, ...]]]:
    """(nodes, labels) of every answer of at most `hops` steps."""
    found = []
    for steps in walks(world, start, semantics, hops):
        if len(steps) in readings(world, query, query.pattern, steps, 0):
            visited = [start, *(world.ends(step)[1] for step in steps)]
            labels = [("^" if back else "") + world.edges[edge][1] for edge, back in steps]
            found.append((tuple(visited), tuple(labels)))
    return found


def walks(world: World, start: Any, semantics: str, hops: int) -> Iterator[list[Step]]:
    yield []
    if hops == 0:
        return
    for edge in range(len(world.edges)):
        for back in (False, True):
            if world.ends((edge, back))[0] != start:
                continue
            for rest in walks(world, world.ends((edge, back))[1], "walk", hops - 1):
                steps = [(edge, back), *rest]
                if allowed(world, start, steps, semantics):
                    yield steps


def allowed(world: World, start: Any, steps: list[Step], semantics: str) -> bool:
    visited = [start, *(world.ends(step)[1] for step in steps)]
    if semantics == "trail":
        return len({edge for edge, _ in steps}) == len(steps)
    if semantics == "simple":
        return len(set(visited)) == len(visited)
    if semantics == "no_return":
        return start not in visited[2:]
    return True


def readings(
    world: World, query: PathQuery, node: nodes.Node, steps: list[Step], at: int
) -> set[int]:
    """Where a reading of `node` that begins at step `at` can end."""
    match node:
        case nodes.Empty():
            return {at}
        case nodes.Label(name=name):
            fits = at < len(steps) and passes(world, query, int(name), steps[at])
            return {at + 1} if fits else set()
        case nodes.Concatenation(parts=parts):
            places = {at}
            for part in parts:
                places = {e for p in places for e in readings(world, query, part, steps, p)}
            return places
        case nodes.Alternation(options=options):
            return {e for option in options for e in readings(world, query, option, steps, at)}
        case nodes.Repetition(part=part, least=least, most=most):
            places, reached = {at}, set()
            for times in range(len(steps) + least + 1 if most is None else most + 1):
                if times >= least:
                    reached |= places
                places = {e for p in places for e in readings(world, query, part, steps, p)}
            return reached
    raise AssertionError(node)


def passes(world: World, query: PathQuery, number: int, step: Step) -> bool:
    test, (edge, back) = query.tests[number], step
    if test.backward != back or not test.accepts(world.edges[edge][1]):
        return False
    if test.condition is None:
        return True
    source, target = world.ends(step)
    scope = {
        "edge": world.edge_columns[edge] if world.edge_columns else {},
        "node": world.node_columns.get(target, {}),
        "source": world.node_columns.get(source, {}),
    }
    return value(test.condition, scope) is True


def value(condition: Any, scope: dict[str, dict[str, Any]]) -> Any:
    """The few operators that the tests use; null as in SQL."""
    match condition:
        case c.Literal(value=plain):
            return plain
        case c.Column(name=root, path=path):
            return scope[root].get(path[0])
        case c.Call(function="and"):
            left, right = (value(condition[r], scope) for r in ("this", "expression"))
            return False if False in (left, right) else None if None in (left, right) else True
        case c.Call(function=function):
            left, right = (value(condition[r], scope) for r in ("this", "expression"))
            return None if None in (left, right) else _COMPARE[function](left, right)
    raise AssertionError(condition)
