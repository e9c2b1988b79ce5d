"""Any shortest path of each pair of ends, or all of them: by steps or by a weight of the edges.

A pair of ends may be joined by infinitely many walks and by very many shortest ones;
but the nodes and states on them are few, and each is visited once. Which search runs:

| ends asked | search |
|---|---|
| a few | per pair from both ends at once; from the start where all paths by weight are asked |
| many, or any | once per start, until all ends are found |

Weights are added as 64-bit numbers from the start on. Two paths weigh the same if these sums do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.paths import DEAD
from ensue.operator.turns import Turns
from ensue.paths.graph_store import GraphStore
from ensue.paths.kernels.shortest import Pair, search_between, search_from
from ensue.paths.kernels.sides import write_shortest
from ensue.paths.plan import UNBOUNDED, PathPlan
from ensue.paths.tests import attribute
from ensue.query.paths import EDGE, Semantics
from ensue.stopping import look

SHORTEST = ("any", "all")
_FEW_ENDS = 4  # up to so many, each is searched for by itself
_NO_WEIGHTS = np.zeros(0, np.float64)


def check_shortest(shortest: str | None, weight: str | None, semantics: Semantics) -> None:
    if shortest is None:
        if weight is not None:
            raise errors.QueryError(
                f"weight={weight!r} measures how short a path is, and all paths are wanted",
                remedy='add shortest="any" or "all"',
            )
        return
    if shortest not in SHORTEST:
        raise errors.QueryError(
            f"shortest={shortest!r} is not a setting", remedy="use " + ", ".join(SHORTEST)
        )
    if semantics in (Semantics.TRAIL, Semantics.SIMPLE):
        raise errors.UnsupportedError(
            f"a shortest path under semantics={semantics.value!r} has no search that is quick: "
            "which edges or nodes are left depends on the whole path",
            remedy='use semantics="walk" or "no_return"; without labels that have to come in an '
            "order, a shortest walk visits no node twice anyway",
        )


@dataclass(frozen=True)
class Written:
    """Paths from one start: their lengths, weights, and all nodes and symbols one after another."""

    length: NDArray[np.int64]
    weight: NDArray[np.float64]
    nodes: NDArray[np.int32]
    symbols: NDArray[np.int32]

    @staticmethod
    def of(several: Sequence[Written]) -> Written:
        if len(several) == 1:
            return several[0]
        columns = ("length", "weight", "nodes", "symbols")
        return Written(*(np.concatenate([getattr(one, c) for one in several]) for c in columns))


class Shortest:
    """Shortest paths of one query on one graph."""

    def __init__(
        self,
        plan: PathPlan,
        weights: NDArray[np.float64],  # per edge; empty: each step costs 1
        ends: NDArray[np.int64] | None,  # node numbers; None: anywhere
        hops: int,
        no_return: bool,
        every: bool,
    ) -> None:
        self._plan = plan
        self._first = plan.automaton.entries[frozenset({0})]
        self._weights = weights
        self._ends = None if ends is None else np.unique(ends)
        self._hops = hops
        self._no_return = no_return
        self._every = every
        self.work = 0

    @cached_property
    def _from_both(self) -> bool:
        """By weight both sides know the least cost, but not all ways that have it, nor its hops."""
        few = self._ends is not None and len(self._ends) <= _FEW_ENDS
        return few and not (len(self._weights) and (self._every or self._hops < UNBOUNDED))

    @cached_property
    def _wanted(self) -> NDArray[np.bool_]:
        if self._ends is None:
            return np.zeros(0, np.bool_)
        wanted = np.zeros(self._plan.store.node_count, np.bool_)
        wanted[self._ends] = True
        return wanted

    def paths(self, start: int, limit: int) -> Written | None:
        """The first `limit` of this start, the shortest first."""
        if self._first == DEAD:
            return None
        if self._from_both and not (self._no_return and start in self._ends):  # type: ignore[operator]
            found = [self._between(start, end) for end in self._ends.tolist()]  # type: ignore[union-attr]
            found = sorted((one for one in found if one is not None), key=lambda one: one[0])
        else:
            found = [self._from(start, limit)]
        written: list[Written] = []
        for _, ahead, behind, met in found:
            if limit > 0:
                text = write_shortest(ahead, behind, met, self._weights, self._every, limit)
                look()
                written.append(Written(*text))
                limit -= len(text[0])
        return Written.of(written) if written else None

    def _pair(self, start: int, end: int) -> Pair:
        return Pair(start, int(self._first), end, self._hops, self._no_return, self._every)

    def _between(self, start: int, end: int) -> Any:
        plan = self._plan
        asked = plan.graph, plan.moves, plan.backwards, self._weights, self._pair(start, end)
        ahead, behind, met, work = search_between(*asked)
        look()
        self.work += work
        if not len(met):
            return None
        return ahead.cost[met[0, 0]] + behind.cost[met[0, 1]], ahead, behind, met

    def _from(self, start: int, limit: int) -> Any:
        plan, pair = self._plan, self._pair(start, -1)
        most = UNBOUNDED if self._ends is None else len(self._ends)
        side, rows, work = search_from(
            plan.graph, plan.moves, self._weights, pair, self._wanted, min(most, limit)
        )
        look()
        self.work += work
        return 0.0, side, side, np.stack([rows, np.full_like(rows, -1)], axis=1)

    @property
    def reason(self) -> str:
        every = "all shortest paths" if self._every else "any shortest path"
        by = ", by weight" if len(self._weights) else ""
        if self._from_both:
            return f"{every} of each pair{by}, searched from both ends"
        return f"{every}{by}, one search per start, each node and state visited once"


class Weights(Turns):
    """Columns of edges as weights, checked once per graph, column and set of labels."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._columns: dict[str, tuple[pa.Array, NDArray[np.float64]]] = {}
        self._checked: set[tuple[str, bool, tuple[int, ...]]] = set()

    def of(self, name: str | None, plan: PathPlan, positive: bool) -> NDArray[np.float64]:
        """Those of a column; edges whose label the plan can cross have to be numbers from 0 on."""
        if name is None:
            return _NO_WEIGHTS
        if name not in self._columns:
            self._columns[name] = _numbers(attribute(self._store, EDGE, name), name)
        column, values = self._columns[name]
        labels = len(self._store.labels)
        crossed = tuple(sorted({int(symbol) % labels for symbol in plan.moves.visit_symbol}))
        if (name, positive, crossed) in self._checked:
            return values
        fits = np.isfinite(values) & (values > 0 if positive else values >= 0)
        wrong = np.flatnonzero(~fits & np.isin(self._store.edge_labels, crossed))
        if len(wrong):
            what = "positive" if positive else "0 or more"
            why = " (a loop of weight 0 has infinitely many shortest paths)" if positive else ""
            raise errors.DataError(
                f"the weight {name!r} of edge {wrong[0]} is {column[int(wrong[0])].as_py()!r}; "
                f"{len(wrong):,} edges have no weight that is a number, finite and {what}",
                remedy=f"give these edges a weight, or leave them out of the graph{why}",
            )
        self._checked.add((name, positive, crossed))
        return values


def _numbers(column: pa.Array, name: str) -> tuple[pa.Array, NDArray[np.float64]]:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise errors.DataError(
            f"the weight {name!r} is a column of {kind}, not of numbers",
            remedy="name a column of the edges that holds numbers",
        )
    values = pc.fill_null(column.cast(pa.float64()), float("nan"))
    return column, np.array(values.to_numpy(zero_copy_only=False), np.float64)
