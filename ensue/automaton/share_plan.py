"""The shared plan as it is shown, and the pattern-sharing degree of its nodes (Algorithm 2).

The degree is a bitmap with one bit per pattern, as a Python integer of any length here and as words
of 64 bits in the kernels; nodes of one bitmap are one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from ensue import errors
from ensue.automaton.share import Union, own_edges
from ensue.automaton.subsets import START


@dataclass(frozen=True)
class PlanNode:
    """A sub-pattern: how it is reached, who shares it (Algorithm 2) and who is complete in it."""

    path: str
    bitmap: int
    complete: int
    successors: tuple[tuple[str, int], ...]  # (label, node)


@dataclass(frozen=True)
class SharingPlan:
    """The execution plan DAG G (Figure 2): node 0 is the root; loops lead back to their node."""

    names: tuple[str, ...]
    nodes: tuple[PlanNode, ...]
    separate: int  # states of the patterns' own plans together

    @property
    def clusters(self) -> dict[int, tuple[int, ...]]:
        """Bitmap -> nodes whose partial matches are still open (PSD-based index)."""
        found: dict[int, list[int]] = {}
        for index, node in enumerate(self.nodes[1:], 1):
            if node.successors:
                found.setdefault(node.bitmap, []).append(index)
        return {bitmap: tuple(members) for bitmap, members in found.items()}

    def text(self, bitmap: int) -> str:
        """A label as the paper writes it: the last pattern first."""
        return format(bitmap, f"0{len(self.names)}b")


def sharing_plan(union: Union, share: bool = True, most: int = 20_000) -> SharingPlan:
    """The plan of a workload, walked from its root over what each label alone can do."""
    edges = [own_edges(member) for member in union.members]
    separate = sum(len({t for found in edge.values() for _, t, _ in found}) for edge in edges)
    everyone = tuple((p, START) for p in range(len(edges)))
    roots = [everyone] if share else [(pair,) for pair in everyone]
    ids: dict[tuple[tuple[int, object], ...], int] = {}
    paths, completes, successors = [""], [0], [list[tuple[str, int]]()]
    stack: list[tuple[int, tuple[tuple[int, object], ...]]] = [(0, root) for root in roots]
    while stack:
        index, pairs = stack.pop(0)
        by_label: dict[int, list[tuple[int, object, bool]]] = {}
        for pattern, state in pairs:
            for label, target, accept in edges[pattern].get(state, ()):
                by_label.setdefault(label, []).append((pattern, target, accept))
        for label, reached in by_label.items():
            node = tuple((pattern, target) for pattern, target, _ in reached)
            shown = _shown(union, reached[0][0], label)
            if node not in ids:
                if len(paths) >= most:
                    raise errors.LimitError(
                        f"the shared plan has more than {most:,} nodes",
                        remedy="ask for the plan of fewer patterns",
                    )
                ids[node] = len(paths)
                paths.append((paths[index] + " " + shown).strip())
                completes.append(sum(1 << p for p, _, accept in reached if accept))
                successors.append([])
                stack.append((ids[node], node))
            successors[index].append((shown, ids[node]))
    return SharingPlan(
        tuple(member.name for member in union.members),
        tuple(
            PlanNode(path, bitmap, complete, tuple(dict.fromkeys(after)))
            for path, bitmap, complete, after in zip(
                paths, _degrees(completes, successors), completes, successors, strict=True
            )
        ),
        separate,
    )


def _degrees(completes: list[int], successors: list[list[tuple[str, int]]]) -> list[int]:
    """Algorithm 2: b(P) is what is complete in P, or in what follows it."""
    found = list(completes)
    changed = True
    while changed:
        changed = False
        for index in range(len(found) - 1, -1, -1):
            bitmap = found[index]
            for _, after in successors[index]:
                bitmap |= found[after]
            if bitmap != found[index]:
                found[index], changed = bitmap, True
    return found


def _shown(union: Union, pattern: int, label: int) -> str:
    member = union.members[pattern]
    return member.plan.query.labels[member.own[label]]
