"""Shortest paths of 20 pairs: on a power-law graph, and across a grid where they are very many.

networkx searches the same pairs from both ends beside it, and igraph from one where it is
installed. The peers know no labels; ours reads the expression that allows any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from typing import Any

import networkx
import numpy as np
import pyarrow as pa

import ensue
from benchmarks.graph import power_law
from benchmarks.harness import Target, compare, report
from benchmarks.rows import Settings

_SIDE = 60
_TIMES = 20  # in a row: one is over before the clock of CPU seconds has ticked twice
_NONE = -1.0
Pairs = list[tuple[int, int]]
Lengths = Callable[[], list[float]]


def run_shortest(settings: Settings) -> bool:
    """graph-shortest  20 pairs on 1 million edges and across a 60 x 60 grid, beside networkx"""
    edges, rng = settings.rows or 1_000_000, np.random.default_rng(3)
    table = power_law(edges, edges // 10)
    ends = rng.choice(table["subject"].to_numpy(), (20, 2)).tolist()
    corners = [(place, _SIDE * _SIDE - 1 - place) for place in range(20)]
    return all(
        [
            _compared(f"20 pairs, {edges:,} edges", "power_law", table, ends, settings),
            _compared("20 pairs, 60 x 60 grid", "grid", _grid(), corners, settings),
        ]
    )


def _grid() -> pa.Table:
    steps = [
        (x * _SIDE + y, label, (x + dx) * _SIDE + y + dy)
        for x, y in product(range(_SIDE), repeat=2)
        for label, dx, dy in (("a", 1, 0), ("b", 0, 1))
        if x + dx < _SIDE and y + dy < _SIDE
    ]
    source, label, target = zip(*steps, strict=True)
    return pa.table({"subject": source, "relation": label, "object": target})


def _compared(title: str, name: str, table: pa.Table, pairs: Pairs, settings: Settings) -> bool:
    km = np.random.default_rng(4).integers(1, 100, len(table))
    table = table.append_column("km", pa.array(km))
    graph = ensue.graph(table, duplicates="keep")
    met = []
    for weight, most in ((None, 3), ("km", 1)):  # by steps most of the time is that of the call
        variants = {
            "any shortest": _ours(graph, pairs, weight, "any"),
            "networkx, from both ends": _networkx(table, pairs, weight),
            "100 of all shortest": _ours(graph, pairs, weight, "all"),
        }
        if find_spec("igraph"):
            variants["igraph, one path"] = _igraph(table, pairs, weight)
        calls = {
            one: (len(pairs), call) if "all" in one else (_TIMES * len(pairs), _often(call))
            for one, call in variants.items()
        }
        found = compare(calls, repeat=settings.repeat, warm_up=1)
        same = all(one.answer == found[0].answer for one in found)
        targets = [
            Target("the same lengths from all", float(same), 1, False),
            Target("CPU beside networkx", found[0].cpu_median / found[1].cpu_median, most),
        ]
        by = weight or "steps"
        met.append(report(f"{title}, by {by}", found, targets, f"graph_shortest_{name}_{by}"))
    return all(met)


def _often(call: Lengths) -> Lengths:
    def run() -> list[float]:
        for _ in range(_TIMES - 1):
            call()
        return call()

    return run


def _ours(graph: ensue.Graph, pairs: Pairs, weight: str | None, shortest: str) -> Lengths:
    asked: dict[str, Any] = {"weight": weight, "shortest": shortest, "limit": 100}
    column = "weight" if weight else "length"

    def run() -> list[float]:
        tables = (graph.paths("(.)*", start=one, end=other, **asked) for one, other in pairs)
        return [float(found[column][0].as_py()) if len(found) else _NONE for found in tables]

    return run


def _networkx(table: pa.Table, pairs: Pairs, weight: str | None) -> Lengths:
    peer = networkx.DiGraph()
    columns = (table[name].to_pylist() for name in ("subject", "object", "km"))
    for source, target, km in zip(*columns, strict=True):
        known = peer.get_edge_data(source, target, {"km": km})["km"]
        peer.add_edge(source, target, km=min(km, known))

    def one(start: int, end: int) -> float:
        try:
            if weight:
                return float(networkx.bidirectional_dijkstra(peer, start, end, weight)[0])
            return float(len(networkx.bidirectional_shortest_path(peer, start, end)) - 1)
        except networkx.NetworkXNoPath:
            return _NONE

    return lambda: [one(*pair) for pair in pairs]


def _igraph(table: pa.Table, pairs: Pairs, weight: str | None) -> Lengths:
    import igraph

    ends = np.stack([table["subject"].to_numpy(), table["object"].to_numpy()], axis=1)
    peer = igraph.Graph(n=int(ends.max()) + 1, edges=ends, directed=True)
    costs = table["km"].to_numpy() if weight else np.ones(len(table))
    given = costs.tolist() if weight else None

    def one(start: int, end: int) -> float:
        path = peer.get_shortest_path(start, end, weights=given, output="epath")
        return float(costs[path].sum()) if path or start == end else _NONE

    return lambda: [one(*pair) for pair in pairs]


COMMANDS = {"graph-shortest": run_shortest}
