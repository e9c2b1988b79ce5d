"""Visits at a price: what the kernels count for it, classes of events, and when it is solved anew.

Classes of events are bins of the columns that conditions read of the event under test, or, where
they read none, that later conditions read of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.automaton.share_automaton import SharedAutomaton
from ensue.query import condition as c
from ensue.shared.constants import ANEW, ANYWAY, LEAST_ANEW, LEAST_OFF, OFF, UNKNOWN
from ensue.shared.features import without_past
from ensue.shared.kernels import layout
from ensue.shared.kernels.price import AGES, BUCKET, CELL, CELLS, CLASSES, solve
from ensue.shared.kernels.sketch import LEVELS

SAMPLE, LEAST_SAMPLE = 1 << 15, 64  # partial matches created that are kept: in all, and per node
MOST_CLASSES = 64  # of one kind of event
BINS = 16
GREATEST = 1e4

_WRITTEN_AS = {"pays": "index"}


class Prices:
    def __init__(self, automaton: SharedAutomaton, buckets: int, active: bool) -> None:
        self._automaton = automaton
        self.active = active
        cells, owners = (CELLS, buckets) if active else (1, 1)
        asked, taken, done, distinct = (np.zeros(cells, np.float32) for _ in range(4))
        visits, leaving, born, waited = (np.zeros(owners, np.float32) for _ in range(4))
        self._now = layout.Prices(
            asked=asked, taken=taken, done=done, owner=np.full(owners, -1, np.int32),
            visits=visits, leaving=leaving, born=born, waited=waited,
            log_cell=np.zeros((1, 1), np.int32), log_child=np.zeros((1, 1), np.int32),
            logged=np.zeros(1), events=np.zeros((1, 1), np.float32),
            pays=np.zeros((cells, AGES), np.uint8), best=np.zeros((owners, AGES), np.uint8),
            gain=np.zeros((cells, AGES), np.float32), value=np.zeros((owners, AGES), np.float32),
            levels=np.zeros(LEVELS + 2), scale=np.ones(1), lost=np.zeros(1),
            latest=np.full(cells, -1, np.int64), distinct=distinct,
            first=np.zeros((1, 2), np.int64), width=np.ones(1, np.int64),
            slot=np.zeros((1, 1), np.int16),
        )  # fmt: skip
        self.ready = False
        self.since = 0.0  # visits since it was solved, which do not fade as the counts do
        # What was asked, taken and done then.
        self._before = tuple(np.zeros(cells, np.float32) for _ in range(3))

    def arrays(self) -> layout.Prices:
        return self._now

    def cover(self, bases: list[int], classes: NDArray[np.bool_]) -> None:
        """Room for nodes: where their buckets begin, and which classes of events concern each."""
        nodes = len(bases) - 1
        if not self.active or nodes == 0:
            return
        self._place(bases, classes)
        now = self._now
        known, size = len(now.events), max(LEAST_SAMPLE, SAMPLE // nodes)
        if nodes <= known and now.events.shape[1] == CLASSES:
            return

        def grown(array: NDArray[Any], *width: int) -> NDArray[Any]:
            found = np.zeros((nodes, *width), array.dtype)
            kept = tuple(
                slice(min(length, had))
                for length, had in zip(found.shape, array.shape, strict=True)
            )
            found[kept] = array[kept]
            return found

        self._now = now._replace(
            log_cell=grown(now.log_cell, size), log_child=grown(now.log_child, size),
            events=grown(now.events, CLASSES), logged=grown(now.logged), lost=grown(now.lost),
        )  # fmt: skip

    def _place(self, bases: list[int], classes: NDArray[np.bool_]) -> None:
        """Where the buckets and cells of a node begin, and which classes it distinguishes."""
        now = self._now
        nodes, known = len(bases) - 1, len(now.first) if now.slot.shape[1] > 1 else 0
        first, width = np.zeros((nodes, 2), np.int64), np.ones(nodes, np.int64)
        slot = np.full((nodes, CLASSES), -1, np.int16)
        if known:
            first[:known], width[:known], slot[:known] = now.first, now.width, now.slot
        for node in range(nodes):
            if node >= known:
                first[node, BUCKET] = bases[node]
                if node:
                    size = bases[node] - bases[node - 1]
                    first[node, CELL] = first[node - 1, CELL] + size * width[node - 1]
                width[node] = max(1, int(classes[node].sum()))
            fresh = np.flatnonzero(classes[node] & (slot[node] < 0))
            used = int(slot[node].max()) + 1
            slot[node, fresh] = (used + np.arange(len(fresh))) % width[node]
        self._now = now._replace(first=first, width=width, slot=slot)

    def rescale(self) -> None:
        """Counts as if what is added now were one again, before they lose precision."""
        now = self._now
        if now.scale[0] < GREATEST:
            return
        counts = (
            now.asked, now.taken, now.done, now.visits, now.leaving, now.born, now.waited,
            now.events, now.distinct,
        )  # fmt: skip
        for array in (*counts, *self._before):
            np.divide(array, now.scale[0], out=array)
        now.scale[0] = 1.0

    def learned(self) -> dict[str, NDArray[Any]]:
        """All that is known, by name."""
        scalars = np.array([self.since, float(self.ready)])
        told = {_WRITTEN_AS.get(name, name): array for name, array in self._now._asdict().items()}
        return {**told, "before": np.stack(self._before), "scalars": scalars}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """What `learned` returned."""
        names = {name: _WRITTEN_AS.get(name, name) for name in layout.Prices._fields}
        self._now = layout.Prices(**{name: arrays[told].copy() for name, told in names.items()})
        if "before" in arrays:
            self._before = tuple(arrays["before"].copy())
        self.since, self.ready = float(arrays["scalars"][0]), bool(arrays["scalars"][1])

    def due(self) -> bool:
        """Whether much was counted since, and it is not what was expected."""
        now = self._now
        counted = float(now.visits.sum()) / float(now.scale[0])
        if self.since <= max(ANEW * counted, LEAST_ANEW):
            return False
        return self.since > ANYWAY * counted or self._surprised()

    def _surprised(self) -> bool:
        """Whether visits since created or completed more or less than their like did before.

        Or whether many had no like before.
        """
        now, (asked, *before) = self._now, self._before
        known = asked > 0
        new = now.asked - asked
        if float(new[~known].sum()) > UNKNOWN * float(new.sum()):
            return True
        more = new[known] / asked[known]
        for count, then in zip((now.taken, now.done), before, strict=True):
            expected = float((more * then[known]).sum()) / float(now.scale[0])
            found = float((count[known] - then[known]).sum()) / float(now.scale[0])
            low, high = sorted((expected, found))
            if high > LEAST_OFF and high > OFF * low:
                return True
        return False

    def _loops(self) -> bool:
        """Whether partial matches of a node lead to others of the same node."""
        now = self._now
        for node, logged in enumerate(now.logged.tolist()):
            children = now.log_child[node, : min(int(logged), now.log_child.shape[1])]
            if (now.owner[children] == node).any():
                return True
        return False

    def solve(self, rate: NDArray[np.float64], window: float, weights: NDArray[np.float64]) -> None:
        """Index and values anew; `rate` are visits of a partial match of each node per row."""
        now = self._now
        nodes = len(now.events)
        steps = np.array([self._automaton.steps(node) for node in range(nodes)])
        solve(
            np.argsort(steps, kind="stable").astype(np.int64),
            np.maximum(rate[:nodes] * window / AGES, 1e-9),
            2.0 * float(weights.max()),
            2 if self._loops() else 1,
            now,
        )
        self.since = 0.0
        self._before = (now.asked.copy(), now.taken.copy(), now.done.copy())
        self.ready = True


class EventClasses:
    """Classes of events: binned values, per kind of event."""

    def __init__(self, plan: Plan) -> None:
        self._of_label = [self._columns(plan, index) for index in range(len(plan.tests))]
        self._edges: dict[str, NDArray[np.float64]] = {}
        self._blocks: dict[int, int] = {}
        self._size = 0

    def told(self) -> dict[str, Any]:
        """What a restored run needs, for JSON."""
        return {
            "edges": {name: edges.tolist() for name, edges in self._edges.items()},
            "blocks": {str(bits): block for bits, block in self._blocks.items()},
            "size": self._size,
        }

    def restore(self, told: Mapping[str, Any]) -> None:
        self._edges = {name: np.array(edges) for name, edges in told["edges"].items()}
        self._blocks = {int(bits): block for bits, block in told["blocks"].items()}
        self._size = int(told["size"])

    def of_kinds(self, kinds: list[int], concerns: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Classes that concern each node, where it is known which kinds do."""
        found = np.zeros((len(concerns), CLASSES), np.bool_)
        for number, bits in enumerate(kinds):
            begin = self._blocks[bits] * self._size
            places = np.arange(begin, begin + self._size) % CLASSES
            found[np.ix_(np.flatnonzero(concerns[:, number]), places)] = True
        return found

    @staticmethod
    def _columns(plan: Plan, index: int) -> list[str]:
        test = plan.tests[index]
        own = list(
            dict.fromkeys(
                node.name
                for part in test.correlated
                for node in c.walk(c.transform(part, without_past))
                if isinstance(node, c.Column)
            )
        )
        if own:
            return own
        return list(
            dict.fromkeys(
                node.name
                for other in plan.tests
                for part in other.correlated
                for past in c.walk(part)
                if isinstance(past, (c.Navigate, c.Aggregate))
                and past.variable is not None
                and test.label in plan.query.members(past.variable)
                for node in c.walk(past)
                if isinstance(node, c.Column)
            )
        )

    def classes(
        self, kinds: list[int], of_row: NDArray[np.int32], columns: Mapping[str, pa.Array]
    ) -> NDArray[np.int32]:
        """The class of every row; `kinds` are the labels whose row parts each kind satisfies."""
        if not self._size:
            self._size = max(1, min(MOST_CLASSES, CLASSES // max(1, len(kinds))))
        found = np.zeros(len(of_row), np.int32)
        for number, bits in enumerate(kinds):
            block = self._blocks.setdefault(bits, len(self._blocks))
            rows = np.flatnonzero(of_row == number)
            names = list(
                dict.fromkeys(
                    name
                    for label, names in enumerate(self._of_label)
                    if bits >> label & 1
                    for name in names
                    if _numeric(columns[name].type)
                )
            )[:3]
            inner = np.zeros(len(rows), np.int64)
            if names and self._size > 1:
                bins = min(BINS, int(self._size ** (1 / len(names)) + 1e-9))
                for name in names:
                    inner = inner * bins + self._binned(name, columns[name], bins)[rows]
            found[rows] = (block * self._size + inner) % CLASSES
        return found

    def _binned(self, name: str, column: pa.Array, bins: int) -> NDArray[np.int64]:
        numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        if name not in self._edges:
            self._edges[name] = np.quantile(numbers, np.arange(1, 64) / 64)
        return np.searchsorted(self._edges[name], numbers) * bins // 64


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
