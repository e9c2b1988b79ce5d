"""The counting automaton as arrays, by *class* of event.

An event may satisfy several labels; each is a mapping of its own. Events that satisfy the same
set of labels are of one class, and a class has the arcs of all its labels. Arcs of a class stand in
an order in which a state is read before it is written (sinks first, a state's loop after its other
arcs), so that a sweep needs no copies; `ordered` says for which classes there is such an order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ensue.automaton.counting import CountingAutomaton
from ensue.summary.kernels.arrays import Arcs

Arc = tuple[int, int, int]  # source, target, label


@dataclass
class ClassedAutomaton:
    """Classes grow as sets of labels are seen; class numbers never change."""

    automaton: CountingAutomaton
    fork: bool  # skip-till-any: a partial match stays and goes on; else it moves
    valued: frozenset[int] = frozenset()  # labels whose value counts in SUM
    masks: list[int] = field(default_factory=list)
    arcs: list[list[Arc]] = field(default_factory=list)
    ordered: list[bool] = field(default_factory=list)
    _arrays: Arcs | None = None

    def __post_init__(self) -> None:
        for label in range(len(self.automaton.labels)):
            self.class_of(1 << label)

    def class_of(self, mask: int) -> int:
        """The class of events that satisfy these labels; −1 where no arc has any of them."""
        if mask in self.masks:
            return self.masks.index(mask)
        found = [(p, q, c) for c, p, q in self.automaton.arcs if mask >> c & 1]
        if not found:
            return -1
        arcs, ordered = _read_before_write(found)
        self.masks.append(mask)
        self.arcs.append(arcs)
        self.ordered.append(ordered)
        self._arrays = None
        return len(self.masks) - 1

    def classes_of(self, masks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each mask."""
        distinct, inverse = np.unique(masks, return_inverse=True)
        return np.array([self.class_of(int(mask)) for mask in distinct], np.int64)[inverse]

    @property
    def classes(self) -> int:
        return len(self.masks)

    @property
    def states(self) -> int:
        return self.automaton.states

    def arrays(self) -> Arcs:
        """As the kernels read it."""
        if self._arrays is None:
            flat = [arc for arcs in self.arcs for arc in arcs]
            offsets = np.cumsum([0, *(len(arcs) for arcs in self.arcs)])
            self._arrays = Arcs(
                offset=offsets.astype(np.int64),
                source=np.array([p for p, _, _ in flat], np.int64),
                target=np.array([q for _, q, _ in flat], np.int64),
                valued=np.array([c in self.valued for _, _, c in flat], np.bool_),
                ordered=np.array(self.ordered, np.bool_),
                starts=np.array([any(p == 0 for p, _, _ in a) for a in self.arcs], np.bool_),
                final=np.array(self.automaton.final, np.bool_),
                fork=self.fork,
            )
        return self._arrays


def _read_before_write(found: list[Arc]) -> tuple[list[Arc], bool]:
    """Arcs of a class sources-sinks-first; False where there is no such order."""
    leaving: dict[int, set[int]] = {}
    for p, q, _ in found:
        leaving.setdefault(p, set())
        if p != q:
            leaving[p].add(q)
    order: list[int] = []
    ready = True
    rest = dict(leaving)
    while rest:
        free = [p for p, targets in rest.items() if not targets & rest.keys()]
        if not free:
            ready = False
            free = list(rest)
        for p in sorted(free):
            order.append(p)
            del rest[p]
    # Two loops of one state, by two labels of an event, would read what the first wrote.
    loops = [p for p, q, _ in found if p == q]
    ready = ready and len(loops) == len(set(loops))
    place = {p: i for i, p in enumerate(order)}
    return sorted(found, key=lambda arc: (place[arc[0]], arc[0] == arc[1], arc[1], arc[2])), ready
