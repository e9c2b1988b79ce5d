"""The shared plan as it is shown, and the pattern-sharing degree of its nodes (Algorithm 2).

The degree is a bitmap with one bit per pattern, as a Python integer of any length here and as words
of 64 bits in the kernels; nodes of one bitmap are one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from ensue.automaton import view
from ensue.automaton.share import Union, own_edges
from ensue.automaton.subsets import START, States, determinise
from ensue.automaton.walks import gathered


@dataclass(frozen=True)
class PlanNode:
    """A sub-pattern: how it is reached, who shares it (Algorithm 2) and who is complete in it."""

    path: str
    bitmap: int
    complete: int
    successors: tuple[tuple[str, int], ...]  # (label, node)


@dataclass(frozen=True)
class SharingPlan(view.Shown):
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

    def view(self) -> view.View:
        states, arcs = [], []
        for index, node in enumerate(self.nodes):
            names = [name for i, name in enumerate(self.names) if node.complete >> i & 1]
            degree = f"{node.bitmap.bit_count()} patterns"
            if len(self.names) <= 12:
                degree = self.text(node.bitmap)
            marks = (view.ACCEPT,) if names else (view.START,) * (index == 0)
            note = f"{node.path or view.START}: " + (", ".join(names) or degree)
            label = node.path or view.START
            states.append(view.State(str(index), label, marks, note, degree))
            arcs += [view.Arc(index, target, name) for name, target in node.successors]
        return view.View(tuple(states), tuple(arcs))

    def text(self, bitmap: int) -> str:
        """A label as the paper writes it: the last pattern first."""
        return format(bitmap, f"0{len(self.names)}b")


_Node = tuple[tuple[int, object], ...]  # (pattern, state), ascending


def sharing_plan(union: Union, share: bool = True, most: int = 20_000) -> SharingPlan:
    """The plan of a workload, walked from its root over what each label alone can do."""
    edges = [own_edges(member) for member in union.members]
    separate = sum(len({t for found in edge.values() for _, t, _ in found}) for edge in edges)
    root: _Node = tuple((pattern, START) for pattern in range(len(edges)))
    completes = {root: 0}

    def by_label(node: _Node) -> dict[tuple[str, int, int], _Node]:
        """Under a label's name and number; apart by pattern at the root of separate plans."""
        reached: dict[tuple[int, int], list[tuple[int, object, bool]]] = {}
        for pattern, state in node:
            for label, target, accept in edges[pattern].get(state, ()):
                apart = pattern if node is root and not share else -1
                reached.setdefault((label, apart), []).append((pattern, target, accept))
        targets = {}
        for (label, apart), ways in reached.items():
            target = tuple((pattern, state) for pattern, state, _ in ways)
            completes.setdefault(target, sum(1 << p for p, _, accept in ways if accept))
            targets[_shown(union, ways[0][0], label), label, apart] = target
        return targets

    states: States[_Node] = States(
        most, "ask for the plan of fewer patterns", "the shared plan needs"
    )
    rows = determinise(states, [root], by_label)
    paths = [""] * len(states)
    for index, row in enumerate(rows):
        for (shown, _, _), target in row.items():
            if target and not paths[target]:
                paths[target] = f"{paths[index]} {shown}".strip()
    complete = [completes[node] for node in states.keys]
    successors = [
        list(dict.fromkeys((shown, target) for (shown, _, _), target in row.items()))
        for row in rows
    ]
    # Algorithm 2: b(P) is what is complete in P, or in what follows it.
    degrees = gathered(complete, [[after for _, after in ways] for ways in successors])
    return SharingPlan(
        tuple(member.name for member in union.members),
        tuple(
            PlanNode(paths[node], degrees[node], complete[node], tuple(successors[node]))
            for node in range(len(states))
        ),
        separate,
    )


def _shown(union: Union, pattern: int, label: int) -> str:
    member = union.members[pattern]
    return member.plan.query.labels[member.own[label]]
