"""Regular path queries on a graph: full paths, distinct end points, counts (SHARP §2.3).

The product of the queries' automaton and the graph is searched from the start nodes. Which search
runs depends on what is asked (docs/decisions has the worked comparison):

| asked | walk, no_return | trail, simple |
|---|---|---|
| paths | arena, level by level | the same, looking back for repeats |
| first paths | the same; where levels grow large, one length after the other | the same |
| shortest paths | from both ends, or breadth-first: `paths/shortest.py` | refused |
| end points | breadth-first; a hash set per start, or 64 starts per word | from the paths |
| counts | counts per level and product state, never a path | from the paths |

Paths of the last column can be exponentially many: they stop at `limit` or at `max_partials`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.kernels.order import index_by_group
from ensue.paths.counts import exact_counts
from ensue.paths.embed import Embedders
from ensue.paths.graph_store import GraphStore
from ensue.paths.kernels.counts import count_paths, meets_cycle
from ensue.paths.kernels.deepening import deepen_paths
from ensue.paths.kernels.ends import search_ends, search_ends_bits
from ensue.paths.kernels.graph import Search
from ensue.paths.kernels.paths import (
    NO_RETURN,
    NODE,
    ORIGIN,
    SIMPLE,
    TRAIL,
    WALK,
    Rows,
    expand_paths,
    reverse_paths,
    write_paths,
)
from ensue.paths.plan import UNBOUNDED, Origins, PathPlan, Planner
from ensue.paths.shortest import Shortest, Weights, Written
from ensue.query.paths import PathQuery, Semantics
from ensue.stopping import look

MAX_PARTIALS = 50_000_000
BITSET_STARTS = 16  # from so many starts on, a loop is searched 64 starts at a time
BITSET_BYTES = 2 << 30
_CHUNK = 8192
_FEW_ENDS = 64  # up to so many ends, the starts that reach them are looked for first
_LEVELS = 1_000_000  # partial paths kept for a `limit` before the search goes depth first
_GROWTH = 8  # ... and so many times more at each further try
MODES = {
    Semantics.WALK: WALK,
    Semantics.TRAIL: TRAIL,
    Semantics.SIMPLE: SIMPLE,
    Semantics.NO_RETURN: NO_RETURN,
}
WALKS = (Semantics.WALK, Semantics.NO_RETURN)  # the others need each path
_ANYWHERE = np.zeros(0, np.bool_)


@dataclass(frozen=True)
class Request:
    """What is asked of a graph; `origins` and `ends` are node numbers."""

    queries: tuple[PathQuery, ...]
    origins: Origins
    ends: NDArray[np.int64] | None = None  # None: anywhere
    max_hops: int | None = None
    semantics: Semantics = Semantics.WALK
    limit: int | None = None  # paths per start and query, shortest first
    max_partials: int = MAX_PARTIALS
    backwards: bool = False  # queries are inverses, origins the ends: turn the answers round
    shortest: str | None = None  # any or all: of each pair of start and end
    weight: str | None = None  # the edges' column that makes paths long; None: their steps


@dataclass
class Found:
    """Answers by number: one row per path (or end point); `nodes` and `labels` by `offset`."""

    query: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    offset: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    nodes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    labels: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    weight: NDArray[np.float64] | None = None  # per path, where it was asked

    def __len__(self) -> int:
        return len(self.query)

    @staticmethod
    def nothing(weighted: bool = False) -> Found:
        none = np.zeros(0, np.int32)
        return Found(none, none, none, weight=np.zeros(0) if weighted else None)


def _from_arena(arena: Rows, found: Rows, origins: Origins) -> Found:
    order = index_by_group(arena[found[:, 0], ORIGIN].astype(np.int64), len(origins))
    rows, query, length = np.ascontiguousarray(found[order].T)
    offset = _offsets(length)
    nodes = np.empty(int(offset[-1]) + len(rows), np.int32)
    labels = np.empty(int(offset[-1]), np.int32)
    write_paths(arena, rows, offset, nodes, labels)
    start, end = origins.node[arena[rows, ORIGIN]], arena[rows, NODE]
    return Found(query, start, end, offset, nodes, labels)


def _written(paths: Written, query: NDArray[np.int32], request: Request) -> Found:
    offset = _offsets(paths.length)
    first = offset[:-1] + np.arange(len(query))
    start, end = paths.nodes[first], paths.nodes[first + paths.length]
    weight = paths.weight if request.weight else None
    return Found(query, start, end, offset, paths.nodes, paths.symbols, weight)


def _offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


class PathEngine:
    """Answers requests on one graph; `work` counts the extensions of the last one."""

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self.planner = Planner(store)
        self.embedders = Embedders()
        self.weights = Weights(store)
        self.work = 0

    def plan(self, request: Request) -> PathPlan:
        return self.planner.plan(request.queries, request.origins.sets)

    def check(self, request: Request, enumerates: bool) -> None:
        """Raises what answering would raise: an unknown label, a loop without end."""
        plan = self.plan(request)
        if request.shortest:
            self._shortest(request)
        elif enumerates:
            self._hops(plan, request)

    def reaching(
        self, queries: Sequence[PathQuery], ends: NDArray[np.int64], max_hops: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Pairs of a node and a query of which a walk leads from there to one of the ends.

        A limit is per start: it cannot be kept by a search that begins at the ends, but that
        search tells which starts are worth one.
        """
        if len(ends) > _FEW_ENDS:
            every = np.arange(self.store.node_count)
            which = np.arange(len(queries), dtype=np.int32)
            return np.tile(every, len(queries)), np.repeat(which, len(every))
        inverses = tuple(query.inverse() for query in queries)
        origins = Origins.everywhere(ends, len(queries))
        found = self.ends(Request(inverses, origins, None, max_hops, backwards=True))
        return found.start.astype(np.int64), found.query

    # -- paths -----------------------------------------------------------------------------------

    def paths(self, request: Request) -> Iterator[Found]:
        """All paths, some thousand starts at a time, by start, shortest first."""
        if request.shortest:
            yield from self._shortest_paths(request)
            return
        plan = self.plan(request)
        hops = self._hops(plan, request)
        wanted = self._wanted(request)
        self.work = 0
        for begin in range(0, len(request.origins), _CHUNK):
            origins = request.origins.slice(begin, begin + _CHUNK)
            asked = replace(request, origins=origins)
            search = self._search(plan, asked, hops, wanted)
            found = self._searched((plan.graph, plan.moves, search), origins, request)
            yield self._turned(found) if request.backwards else found

    def _searched(self, asked: tuple[Any, ...], origins: Origins, request: Request) -> Found:
        """Level by level; where a limit is set and levels grow large, also depth first.

        Depth first finds early answers below a hub, and loses where answers are deep or few: each
        has its turn with more and more room, so none is waited for much longer than it takes.
        """
        most = request.max_partials
        room = min(most, _LEVELS) if request.limit else most
        while True:
            arena, rows, work, stopped = expand_paths(*(*asked, room))
            look()
            self.work += work
            if not stopped:
                return _from_arena(arena, rows, origins)
            larger = min(most, _GROWTH * room)
            if request.limit:
                rows, nodes, labels, work, stopped = deepen_paths(*(*asked, larger))
                look()
                self.work += work
                if not stopped:
                    origin, query, length = np.ascontiguousarray(rows.T)
                    offset = _offsets(length)
                    last = offset[1:] + np.arange(len(length))
                    return Found(query, origins.node[origin], nodes[last], offset, nodes, labels)
            if room == most:
                break
            room = larger
        what = f"the first {request.limit:,} paths of each start" if request.limit else "the paths"
        raise errors.LimitError(
            f"{what} have more than {most:,} beginnings to keep",
            remedy="set max_hops"
            + (" or a smaller limit" if request.limit else " or limit")
            + ", ask for end points or counts, or raise max_partials (24 bytes each)",
        )

    def _turned(self, found: Found) -> Found:
        reverse_paths(found.offset, found.nodes, found.labels, len(self.store.labels))
        return replace(found, start=found.end, end=found.start)

    def _shortest(self, request: Request) -> list[Shortest]:
        """A search per query."""
        every, hops = request.shortest == "all", request.max_hops
        plans = [self.planner.plan([query], [frozenset({0})]) for query in request.queries]
        return [
            Shortest(
                plan,
                self.weights.of(request.weight, plan, positive=every),
                request.ends,
                UNBOUNDED if hops is None else hops,
                request.semantics is Semantics.NO_RETURN,
                every,
            )
            for plan in plans
        ]

    def shortest_reason(self, request: Request) -> str:
        return self._shortest(request)[0].reason

    def _shortest_paths(self, request: Request) -> Iterator[Found]:
        searches, left = self._shortest(request), request.max_partials
        for begin in range(0, len(request.origins), _CHUNK):
            origins = request.origins.slice(begin, begin + _CHUNK)
            starts, numbers = origins.pairs()
            found, queries = [], []
            for start, query in zip(starts.tolist(), numbers.tolist(), strict=True):
                one = searches[query].paths(start, min(request.limit or UNBOUNDED, left + 1))
                if one is None:
                    continue
                left -= len(one.length)
                if left < 0:
                    raise errors.LimitError(
                        f"there are more than {request.max_partials:,} shortest paths",
                        remedy='set a limit, ask shortest="any", or raise max_partials',
                    )
                found.append(one)
                queries.append(np.full(len(one.length), query, np.int32))
            if found:
                piece = _written(Written.of(found), np.concatenate(queries), request)
                yield self._turned(piece) if request.backwards else piece
        self.work = sum(search.work for search in searches)

    # -- end points ------------------------------------------------------------------------------

    def ends(self, request: Request) -> Found:
        """Each distinct (query, start, end) once."""
        if request.semantics not in WALKS:
            return self._distinct_ends(request)
        plan = self.plan(request)
        if self.bitset_reason(plan, request) is not None:
            origin, node = np.ascontiguousarray(self._bits(plan, request, count_only=False)[0].T)
            query = np.full(len(node), min(request.origins.sets[0]), np.int32)
        else:
            rows, _ = self._hashed(plan, request, count_only=False)
            origin, node, query = np.ascontiguousarray(rows.T)
        start = request.origins.node[origin]
        if request.backwards:
            start, node = node, start
        return Found(query, start, node)

    def counts(self, request: Request, of: str) -> list[list[int]]:
        """How many paths, or of="ends" distinct ends, each (origin, query) has."""
        if of == "ends":
            return [[int(value) for value in row] for row in self.end_counts(request)]
        return self.path_counts(request)

    def end_counts(self, request: Request) -> NDArray[np.int64]:
        """How many distinct ends each (origin, query) has, without keeping them."""
        if request.semantics not in WALKS:
            found = self._distinct_ends(request)
            return self._tally(request, found)
        plan = self.plan(request)
        if self.bitset_reason(plan, request) is not None:
            counts = np.zeros((len(request.origins), len(request.queries)), np.int64)
            counts[:, min(request.origins.sets[0])] = self._bits(plan, request, count_only=True)[1]
            return counts
        return self._hashed(plan, request, count_only=True)[1]

    def bitset_reason(self, plan: PathPlan, request: Request) -> str | None:
        """Why 64 starts share a search; None where each start has its own."""
        starts, sets = len(request.origins), request.origins.sets
        size = self.store.node_count * plan.automaton.states * 24
        if not plan.automaton.cyclic or len(sets) != 1 or len(sets[0]) != 1 or request.limit:
            return None
        if starts < BITSET_STARTS or size > BITSET_BYTES:
            return None
        return f"{starts:,} starts and a loop: their searches overlap ({size >> 20} MB of bits)"

    def _hashed(self, plan: PathPlan, request: Request, count_only: bool) -> Any:
        search = self._search(plan, request)
        *found, self.work = search_ends(
            plan.graph, plan.moves, search, plan.several_accepts, count_only
        )
        look()
        return found

    def _bits(self, plan: PathPlan, request: Request, count_only: bool) -> Any:
        wanted = self._wanted(request)
        if not len(wanted):
            wanted = np.ones(self.store.node_count, np.bool_)
        first = plan.automaton.entries[request.origins.sets[0]]
        if first < 0:
            return np.zeros((0, 2), np.int32), np.zeros(len(request.origins), np.int64)
        search = self._search(plan, request, wanted=wanted)
        *found, self.work = search_ends_bits(plan.graph, plan.moves, search, first, count_only)
        look()
        return found

    def _distinct_ends(self, request: Request) -> Found:
        unlimited = replace(request, limit=None)
        pieces = []
        for found in self.paths(unlimited):
            triples = np.stack([found.query, found.start, found.end], axis=1)
            _, first = np.unique(triples, axis=0, return_index=True)
            pieces.append(triples[np.sort(first)])
        joined = np.concatenate(pieces) if pieces else np.zeros((0, 3), np.int32)
        if request.backwards and len(joined):
            joined = joined[np.sort(np.unique(joined, axis=0, return_index=True)[1])]
        if request.limit:
            joined = joined[_first_of_each(joined[:, :2], request.limit)]
        query, start, end = (np.ascontiguousarray(joined[:, k]) for k in range(3))
        return Found(query, start, end)

    # -- counts ----------------------------------------------------------------------------------

    def path_counts(self, request: Request) -> list[list[int]]:
        """The number of paths of each (origin, query), exact."""
        if request.semantics not in WALKS:
            total = np.zeros((len(request.origins), len(request.queries)), np.int64)
            for found in self.paths(replace(request, limit=None)):
                total += self._tally(request, found)
            return [[int(value) for value in row] for row in total]
        plan = self.plan(request)
        hops = self._hops(plan, request)
        search = self._search(plan, request, hops)

        def count(prime: np.uint64) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
            exact, rough, self.work = count_paths(plan.graph, plan.moves, search, prime)
            look()
            return exact, rough

        # At most (largest degree) choices per step; a finite search visits no product state twice.
        steps = hops if hops < UNBOUNDED else self.store.node_count * plan.automaton.states
        bits = (steps + 1) * math.log2(self.store.largest_degree + 1) + math.log2(steps + 2)
        return exact_counts(count, bits, lambda: self.work)

    def _tally(self, request: Request, found: Found) -> NDArray[np.int64]:
        counts = np.zeros((len(request.origins), len(request.queries)), np.int64)
        place = np.full(self.store.node_count, -1, np.int64)
        place[request.origins.node] = np.arange(len(request.origins))
        starts = found.end if request.backwards else found.start
        np.add.at(counts, (place[starts], found.query), 1)
        return counts

    # -- bounds ----------------------------------------------------------------------------------

    def _search(
        self,
        plan: PathPlan,
        request: Request,
        hops: int | None = None,  # where known; else as asked
        wanted: NDArray[np.bool_] | None = None,
    ) -> Search:
        """What kernels are asked."""
        if hops is None:
            hops = UNBOUNDED if request.max_hops is None else request.max_hops
        return Search(
            request.origins.node,
            plan.first_states(request.origins),
            plan.asks(request.origins),
            len(request.queries),
            hops,
            MODES[request.semantics],
            request.limit or 0,
            self._wanted(request) if wanted is None else wanted,
        )

    def _wanted(self, request: Request) -> NDArray[np.bool_]:
        if request.ends is None:
            return _ANYWHERE
        wanted = np.zeros(self.store.node_count, np.bool_)
        wanted[request.ends] = True
        return wanted

    def _hops(self, plan: PathPlan, request: Request) -> int:
        """How far paths can go; refuses where there is no bound and a cycle is in reach."""
        if request.max_hops is not None:
            return request.max_hops
        if not plan.automaton.cyclic or request.semantics not in WALKS:
            return UNBOUNDED
        node = meets_cycle(plan.graph, plan.moves, self._search(plan, request))
        look()
        if node < 0:
            return UNBOUNDED
        name = self.store.names[int(node)].as_py()
        raise unbounded(request.queries, request.semantics, name)


def unbounded(
    queries: Sequence[PathQuery], semantics: Semantics, node: object
) -> errors.UnboundedPathsError:
    texts = ", ".join(repr(query.text) for query in queries[:3])
    return errors.UnboundedPathsError(
        f"{texts}: a loop of the expression meets a cycle of the graph (through {node!r}), so "
        "there are "
        f"infinitely many {semantics.value} paths",
        remedy='set max_hops, bound the loop as {1,3}, use semantics="trail" or "simple", or ask '
        "for end points, which are finite",
    )


def _first_of_each(keys: NDArray[Any], limit: int) -> NDArray[np.int64]:
    """Rows among the first `limit` of their key, in order."""
    _, group = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    grouped = group[order]
    begin = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1])) if len(order) else order
    sizes = np.diff(np.append(begin, len(order)))
    rank = np.arange(len(order)) - np.repeat(begin, sizes)
    return np.sort(order[rank < limit])
