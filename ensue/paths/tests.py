"""Which edges pass which tests: the classes that an automaton of paths reads.

Most tests look at the label only; then a class belongs to a symbol (label and direction). Where a
condition looks at the edge or its nodes, it is evaluated on Arrow columns once, before any path is
followed: on the nodes where it reads a node only, on the edges where it reads the edge only, and
else on the entries whose label fits.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.paths.graph_store import GraphStore
from ensue.query import condition as c
from ensue.query.paths import EDGE, NODE, SOURCE, EdgeTest, PathQuery
from ensue.scalar.columns import Rows, predicate

CONDITIONAL = -1


@dataclass(frozen=True, eq=False)
class EdgeClasses:
    """`tests[k]` are the tests that an edge of class k passes."""

    tests: tuple[frozenset[int], ...]
    of_symbol: NDArray[np.int32]  # CONDITIONAL where the entry decides
    of_entry: NDArray[np.int32]  # empty where no symbol is conditional
    under_symbol: tuple[tuple[int, ...], ...]  # the classes that entries of a symbol can have


def check_labels(queries: Iterable[PathQuery], labels: Sequence[str]) -> None:
    """Every label a query names is one of the graph; else an error with near spellings."""
    known = set(labels)
    for query in queries:
        for name in query.labels():
            if name in known:
                continue
            near = difflib.get_close_matches(name, labels, n=3, cutoff=0.6)
            shown = near or sorted(labels)[:10]
            found = re.search(rf"(?<![\w:.-]){re.escape(name)}(?![\w])", query.text)
            place = errors.Place.at_offset(query.text, found.start()) if found else None
            raise errors.UnknownLabelError(
                f"the graph has no edge labelled {name!r}",
                remedy=("did you mean " if near else "its labels are ")
                + ", ".join(shown)
                + ("?" if near else "")
                if labels
                else "give it edges: it has none",
                place=place,
            )


def classify(tests: Sequence[EdgeTest], store: GraphStore) -> EdgeClasses:
    numbers: dict[frozenset[int], int] = {}
    of_symbol = np.empty(max(store.symbols, 1), np.int32)
    conditional: dict[int, list[int]] = {}
    labels = len(store.labels)
    by_label = [[test.accepts(label) for test in tests] for label in store.labels]
    for symbol in range(store.symbols):
        backward, label = symbol >= labels, symbol % max(labels, 1)
        fitting = [
            number
            for number, test in enumerate(tests)
            if test.backward == backward and by_label[label][number]
        ]
        if any(tests[number].condition is not None for number in fitting):
            of_symbol[symbol] = CONDITIONAL
            conditional[symbol] = fitting
        else:
            of_symbol[symbol] = numbers.setdefault(frozenset(fitting), len(numbers))
    under: list[tuple[int, ...]] = [
        (int(of_symbol[symbol]),) if symbol < store.symbols else ()
        for symbol in range(len(of_symbol))
    ]
    of_entry = np.zeros(0, np.int32)
    if conditional:
        of_entry = _classify_entries(tests, store, conditional, numbers, under)
    return EdgeClasses(tuple(numbers), of_symbol, of_entry, tuple(under))


def _classify_entries(
    tests: Sequence[EdgeTest],
    store: GraphStore,
    conditional: dict[int, list[int]],
    numbers: dict[frozenset[int], int],
    under: list[tuple[int, ...]],
) -> NDArray[np.int32]:
    of_entry = np.full(len(store.neighbour), -1, np.int32)
    wanted = np.zeros(store.symbols, np.bool_)
    wanted[list(conditional)] = True
    symbols = store.entry_symbols
    entries = np.flatnonzero(wanted[symbols])
    passed = {}
    for number in sorted({n for fitting in conditional.values() for n in fitting}):
        condition = tests[number].condition
        if condition is not None:
            passed[number] = _holds(condition, store, entries)
    for symbol, fitting in conditional.items():
        rows = np.flatnonzero(symbols[entries] == symbol)
        always = frozenset(n for n in fitting if n not in passed)
        code = np.zeros(len(rows), np.int64)
        undecided = [n for n in fitting if n in passed]
        for position, number in enumerate(undecided):
            if position and position % 32 == 0:
                code = np.unique(code, return_inverse=True)[1].astype(np.int64)
            code = code * 2 + passed[number][rows]
        values, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        ids = np.empty(len(values), np.int32)
        for index, row in enumerate(rows[first]):
            held = always | {n for n in undecided if passed[n][row]}
            ids[index] = numbers.setdefault(frozenset(held), len(numbers))
        of_entry[entries[rows]] = ids[inverse]
        under[symbol] = tuple(dict.fromkeys(int(i) for i in ids))
    return of_entry


def _holds(
    condition: c.Condition, store: GraphStore, entries: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Per entry: whether every conjunct holds."""
    holds = np.ones(len(entries), np.bool_)
    for part in c.conjuncts(condition):
        roots = {node.name for node in c.walk(part) if isinstance(node, c.Column)}
        if roots <= {NODE} or roots <= {SOURCE}:
            on_nodes = _mask(part, _rows(part, store, None, None))
            at = store.neighbour[entries] if roots <= {NODE} else store.entry_source[entries]
            holds &= on_nodes[at]
        elif roots == {EDGE}:
            holds &= _mask(part, _rows(part, store, None, None))[store.edge[entries]]
        else:
            ends = {NODE: store.neighbour[entries], SOURCE: store.entry_source[entries]}
            holds &= _mask(part, _rows(part, store, ends, store.edge[entries]))
    return holds


def _mask(part: c.Condition, rows: Rows) -> NDArray[np.bool_]:
    flat = c.transform(part, _flattened)
    return predicate(flat, rows, "the condition of a step").to_numpy(zero_copy_only=False)


def _flattened(node: c.Condition) -> c.Condition | None:
    """`edge.since` as one column name, the rest of its path into structs."""
    if isinstance(node, c.Column):
        return c.Column(f"{node.name}.{node.path[0]}", node.path[1:])
    return None


def _rows(
    part: c.Condition,
    store: GraphStore,
    ends: dict[str, NDArray[np.int32]] | None,
    edges: NDArray[np.int32] | None,
) -> Rows:
    columns: dict[str, pa.Array] = {}
    length = store.node_count
    for node in c.walk(part):
        if not isinstance(node, c.Column):
            continue
        values = attribute(store, node.name, node.path[0])
        if node.name == EDGE:
            values = values if edges is None else values.take(pa.array(edges))
        elif ends is not None:
            values = values.take(pa.array(ends[node.name]))
        columns[f"{node.name}.{node.path[0]}"] = values
        length = len(values)
    return Rows(columns, length)


def attribute(store: GraphStore, root: str, name: str) -> pa.Array:
    if root == EDGE and name == "label":
        return pa.array(store.labels, pa.string()).take(pa.array(store.edge_labels))
    table = store.edges if root == EDGE else store.nodes
    if root != EDGE and name == "id":
        return store.names
    known = {column.lower(): column for column in table.column_names if column != "__ensue_row"}
    if name.lower() not in known:
        what = "edges" if root == EDGE else "nodes"
        extra = "label" if root == EDGE else "id"
        raise errors.UnknownColumnError(
            f"the {what} have no column {name!r}, read as {root}.{name}",
            remedy=f"name one of {', '.join([*known.values(), extra])}"
            + ("" if root == EDGE or known else "; give ensue.graph(..., nodes=table) for more"),
        )
    column = table[known[name.lower()]]
    return (
        pc.take(column, pa.array(np.arange(len(column)))).combine_chunks()
        if (column.num_chunks != 1)
        else column.chunk(0)
    )
