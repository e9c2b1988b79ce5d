"""Walks over graphs of states: what is reached and how far, what lies ahead, and what merges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Node = TypeVar("Node", bound=Hashable)
Value = TypeVar("Value")


def reached(starts: Iterable[Node], onward: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """The starts and all that follows them, each once, depth first."""
    stack = list(starts)
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for following in onward(node):
            if following not in seen:
                seen.add(following)
                stack.append(following)


def reached_along(starts: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> set[Node]:
    """The starts and all that edges, given as pairs, lead to from there."""
    following: dict[Node, list[Node]] = {}
    for source, target in edges:
        following.setdefault(source, []).append(target)
    return set(reached(starts, lambda node: following.get(node, ())))


def distances(starts: Iterable[Node], onward: Callable[[Node], Iterable[Node]]) -> dict[Node, int]:
    """The fewest steps to each that is reached, in the order of the steps."""
    distance = dict.fromkeys(starts, 0)
    queue = list(distance)
    for node in queue:
        for following in onward(node):
            if following not in distance:
                distance[following] = distance[node] + 1
                queue.append(following)
    return distance


def reversed_edges(edges: Iterable[Iterable[int]], size: int) -> list[list[int]]:
    """Per state, the states that lead to it, each once."""
    sources: list[list[int]] = [[] for _ in range(size)]
    for source, targets in enumerate(edges):
        for target in dict.fromkeys(targets):
            sources[target].append(source)
    return sources


def gathered(own: Sequence[Value], edges: Sequence[Iterable[int]]) -> list[Value]:
    """Per state, what it has and what any state has that is reached from it, joined by `|`."""
    values: list[Any] = list(own)
    sources = reversed_edges(edges, len(values))
    waiting = list(range(len(values)))
    while waiting:
        state = waiting.pop()
        for source in sources[state]:
            joined = values[source] | values[state]
            if joined != values[source]:
                values[source] = joined
                waiting.append(source)
    return values


def merged(
    kinds: Mapping[Node, object], leaving: Callable[[Node, Mapping[Node, Node]], Hashable]
) -> dict[Node, Node]:
    """Per state, the first of those that nothing ahead distinguishes (Moore's refinement).

    `leaving` says what a state does next, in terms of the states found so far to stand for others.
    """
    block = _firsts(kinds.items())
    while True:
        refined = _firsts((state, (block[state], leaving(state, block))) for state in kinds)
        if refined == block:
            return block
        block = refined


def _firsts(keyed: Iterable[tuple[Node, object]]) -> dict[Node, Node]:
    first: dict[object, Node] = {}
    return {node: first.setdefault(key, node) for node, key in keyed}
