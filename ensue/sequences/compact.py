"""Matches that stay compact: one row per end event, with the graph of all matches that end there.

`graph` is a list of nodes, older ones first; the last one stands for all matches of the row:

- an event node (`label` is set) is each partial match of node `left`, then this event; `left` null
  means that the event is the first one;
- a union node (`label` null) is those of `left` and those of `right`.

Its size is that of the window, whatever the number of matches; `expand` reads matches off it, each
at the cost of its own length, and `count` counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.sequences.batch import EventBatch
from ensue.sequences.kernels import match_graph as kernels
from ensue.sequences.kernels.match_graph import Nodes
from ensue.sequences.match_graph import new_nodes

NODE = pa.struct(
    [
        pa.field("label", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("left", pa.int32()),
        pa.field("right", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Subgraphs:
    """Graphs one after the other: for each, its end row and how many nodes it has."""

    lengths: NDArray[np.int64]
    ends: NDArray[np.int64]
    labels: NDArray[np.int32]
    rows: NDArray[np.int64]
    lefts: NDArray[np.int32]
    rights: NDArray[np.int32]


def subgraphs(graph: Nodes, roots: NDArray[np.int64], found: int, most: int) -> Iterator[Subgraphs]:
    """The graphs of the first `found` roots, at most `most` of them; those of one row are one."""
    if not found:
        return
    size = len(graph.rows)
    seen = np.full(size, -1, np.int64)
    numbers = np.empty(size, np.int32)
    part = new_nodes(1 << 12)
    begin = 0
    while begin < found and most > 0:
        end = int(np.searchsorted(roots[:found, 0], roots[begin, 0], "right"))
        while (used := kernels.subgraph(roots, begin, end, graph, seen, numbers, part)) < 0:
            part = new_nodes(2 * len(part.rows))
            seen[:] = -1
        yield Subgraphs(
            np.array([used], np.int64),
            roots[begin : begin + 1, 0].copy(),
            part.labels[:used].copy(),
            part.rows[:used].copy(),
            part.lefts[:used].copy(),
            part.rights[:used].copy(),
        )
        most -= 1
        begin = end


def compact_table(plan: Plan, batch: EventBatch, held: Sequence[Subgraphs]) -> pa.Table:
    """Rows of the result: partition columns, row and order value of the end, and the graph."""
    query = plan.query
    ends = np.concatenate([part.ends for part in held] or [np.zeros(0, np.int64)])
    lengths = np.concatenate([part.lengths for part in held] or [np.zeros(0, np.int64)])
    labels = np.concatenate([part.labels for part in held] or [np.zeros(0, np.int32)])
    rows = np.concatenate([part.rows for part in held] or [np.zeros(0, np.int64)])
    lefts = np.concatenate([part.lefts for part in held] or [np.zeros(0, np.int32)])
    rights = np.concatenate([part.rights for part in held] or [np.zeros(0, np.int32)])
    partition = np.searchsorted(batch.starts, ends, "right") - 1
    origin = batch.starts[partition] - batch.reach.base[partition] if len(ends) else ends
    names = pa.array(plan.marks.labels, pa.string())
    union = labels < 0
    known = names.take(pa.array(np.where(union, 0, labels).astype(np.int64), mask=union))
    nodes = pa.StructArray.from_arrays(
        [
            known,
            pa.array(rows - np.repeat(origin, lengths), mask=union),
            pa.array(lefts, mask=lefts < 0),
            pa.array(rights, mask=rights < 0),
        ],
        fields=list(NODE),
    )
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    first = pa.array(batch.starts[partition] if len(ends) else ends)
    columns: dict[str, pa.Array] = {
        name: batch.columns[name].take(first) for name in query.partition_by
    }
    order = query.order_by[0].column if query.order_by else None
    moments = batch.columns[order] if order else pa.nulls(batch.table.num_rows)
    columns["last"] = moments.take(pa.array(ends))
    columns["row"] = pa.array(ends - origin)
    columns["graph"] = pa.ListArray.from_arrays(pa.array(offsets), nodes)
    return pa.table(columns)


Graph = Sequence[Mapping[str, Any]]


def expand(graph: Graph, limit: int | None = None) -> Iterator[list[tuple[str, int]]]:
    """The matches of a compact row's graph, lazily: (label, row) of each event, in order.

    Examples:
        >>> many = pa.table({"ts": range(4), "kind": ["a", "a", "b", "b"]})
        >>> q = ensue.pattern("a ->> b", types="kind").order_by("ts")
        >>> for row in q.matches(many, compact=True).to_pylist():
        ...     print(row["last"], len(list(ensue.expand(row["graph"]))))
        ...
        2 2
        3 2
    """
    if isinstance(graph, pa.ListScalar):
        graph = graph.as_py()
    elif isinstance(graph, np.ndarray):  # as pandas holds a list, its integers with nulls as floats
        graph = pa.array(graph.tolist(), NODE, from_pandas=True).to_pylist()
    if not _is_graph(graph):
        raise errors.QueryError(
            f"expand() takes the graph of one row of matches(..., compact=True), not {graph!r:.80}",
            remedy="write ensue.expand(row['graph'])",
        )
    return _expanded(graph, limit)


def _is_graph(graph: Any) -> bool:
    """Whether it is a list of nodes: dicts, or rows of Spark."""
    if not isinstance(graph, Sequence) or isinstance(graph, (str, bytes)):
        return False
    try:
        return not graph or len([graph[-1][name] for name in NODE.names]) == len(NODE)
    except (TypeError, KeyError, IndexError, ValueError):
        return False


def _expanded(graph: Graph, limit: int | None) -> Iterator[list[tuple[str, int]]]:
    if not len(graph):
        return
    path: list[tuple[str, int]] = []
    stack = [(len(graph) - 1, 0)]
    listed = 0
    while stack and (limit is None or listed < limit):
        place, depth = stack.pop()
        del path[depth:]
        while graph[place]["label"] is None:
            right = graph[place]["right"]
            if right is not None:
                stack.append((right, depth))
            place = graph[place]["left"]
        node = graph[place]
        path.append((node["label"], node["row"]))
        if node["left"] is None:
            yield path[::-1]
            listed += 1
        else:
            stack.append((node["left"], len(path)))


def count(graph: Graph) -> int:
    """How many matches a compact row stands for, exactly."""
    totals: list[int] = []
    for node in graph:
        left = node["left"]
        total = 1 if left is None else totals[left]
        if node["label"] is None and node["right"] is not None:
            total += totals[node["right"]]
        totals.append(total)
    return totals[-1] if totals else 0
