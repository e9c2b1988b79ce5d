"""What a user asks of a graph, by name, and the request by number that it becomes on one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue.paths.graph_store import GraphStore
from ensue.paths.plan import Origins
from ensue.paths.search import PathEngine, Request
from ensue.query.paths import PathQuery, Semantics

Absent = Callable[[str, list[Any], int], None]  # what was asked, some of the names, how many


@dataclass(frozen=True)
class Starts:
    """Nodes, by name, from which some of the queries are asked."""

    queries: Sequence[int]
    nodes: Any
    what: str = "start"  # for messages


@dataclass(frozen=True)
class Asked:
    """The checked arguments of a question, for every runner."""

    queries: tuple[PathQuery, ...]
    names: list[str] | None  # of the queries, where several are asked
    starts: tuple[Starts, ...] | None  # None: every node
    ends: Any  # names of nodes; None: any
    max_hops: int | None
    semantics: Semantics
    limit: int | None
    max_partials: int
    shortest: str | None
    weight: str | None
    absent: Absent  # told of names that the graph does not have

    def request(self, engine: PathEngine, turn: bool = True) -> Request:
        """With `turn`, paths may be searched from their ends where only these are given."""
        queries, backwards, store = self.queries, False, engine.store
        ends = None if self.ends is None else self._known(store, self.ends, "end")
        if self.starts is not None:
            nodes = [self._known(store, starts.nodes, starts.what) for starts in self.starts]
            origins = self._origins(nodes)
        elif turn and ends is not None and (self.limit or self.semantics is Semantics.NO_RETURN):
            pairs = engine.reaching(queries, ends, self.max_hops)
            origins = Origins.of_pairs(*pairs, len(queries))
        elif turn and ends is not None:
            # Fewer ends than nodes: the same paths, searched from their ends.
            queries, backwards = tuple(query.inverse() for query in queries), True
            origins, ends = Origins.everywhere(ends, len(queries)), None
        else:
            origins = Origins.everywhere(np.arange(store.node_count), len(queries))
        return Request(
            queries,
            origins,
            ends,
            self.max_hops,
            self.semantics,
            self.limit,
            self.max_partials,
            backwards,
            self.shortest,
            self.weight,
        )

    def _origins(self, nodes: list[NDArray[np.int64]]) -> Origins:
        assert self.starts is not None
        count = len(self.queries)
        if len(nodes) == 1 and len(self.starts[0].queries) == count:
            return Origins.everywhere(nodes[0], count)
        pairs = [(some, q) for s, some in zip(self.starts, nodes, strict=True) for q in s.queries]
        none = np.zeros(0, np.int64)
        return Origins.of_pairs(
            np.concatenate([none, *(some for some, _ in pairs)]),
            np.concatenate([none, *(np.full(len(some), query) for some, query in pairs)]),
            count,
        )

    def _known(self, store: GraphStore, names: Any, what: str) -> NDArray[np.int64]:
        nodes = store.find(names)
        absent = np.flatnonzero(nodes < 0)
        if len(absent):
            self.absent(what, [names[int(at)] for at in absent[:3]], len(absent))
        return nodes[nodes >= 0]
