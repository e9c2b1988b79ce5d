"""`GraphStore`: a labelled graph as flat arrays, in memory or memory-mapped.

Nodes and labels are numbered; `names` and `labels` turn numbers back. The edges' own columns stay
as an Arrow table whose row e is edge e, the nodes' as one whose row n is node n: conditions of
steps read them. Everything is written as Arrow IPC files, whose buffers are mapped, not read, so
that all workers of a host share one copy.
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue import errors
from ensue.paths.kernels.graph import build_dense

VERSION = b"2"  # of the files
_DENSE_FACTOR = 8  # dense while nodes x symbols is at most this many times the entries
_DENSE_ALWAYS = 1 << 22
_NOTHING = np.zeros(0, np.int32)
_NOTHING.setflags(write=False)


@dataclass(frozen=True, eq=False)
class GraphStore:
    """See the module and `paths/kernels/graph.py` for the layout."""

    names: pa.Array  # per node
    labels: tuple[str, ...]
    offset: NDArray[np.int32]
    neighbour: NDArray[np.int32]  # per entry
    edge: NDArray[np.int32]  # per entry: its edge
    entry_symbol: NDArray[np.int32]  # per entry, empty where `offset` is dense
    edges: pa.Table  # the edges' own columns
    nodes: pa.Table  # the nodes' own columns
    notes: tuple[str, ...] = field(default=())

    @staticmethod
    def build(
        source: NDArray[np.int32],
        label: NDArray[np.int32],
        target: NDArray[np.int32],
        names: pa.Array,
        labels: tuple[str, ...],
        edges: pa.Table | None = None,
        nodes: pa.Table | None = None,
        notes: tuple[str, ...] = (),
    ) -> GraphStore:
        symbols = 2 * len(labels)
        cells, entries = len(names) * symbols, 2 * len(source)
        if cells <= max(_DENSE_ALWAYS, _DENSE_FACTOR * entries):
            arrays = (*build_dense(source, label, target, len(names), len(labels)), _NOTHING)
        else:
            arrays = _build_sparse(source, label, target, len(names), len(labels))
        # Mapped files are read-only; arrays in memory are too, so that kernels compile once.
        for array in arrays:
            array.setflags(write=False)
        offset, neighbour, edge, entry_symbol = arrays
        return GraphStore(
            names,
            labels,
            offset,
            neighbour,
            edge,
            entry_symbol,
            _columns(edges, len(source)),
            _columns(nodes, len(names)),
            notes,
        )

    @property
    def node_count(self) -> int:
        return len(self.names)

    @property
    def edge_count(self) -> int:
        return len(self.neighbour) // 2

    @property
    def symbols(self) -> int:
        return 2 * len(self.labels)

    @property
    def nbytes(self) -> int:
        arrays = (self.offset, self.neighbour, self.edge, self.entry_symbol)
        tables = self.names.nbytes + self.edges.nbytes + self.nodes.nbytes
        return int(sum(array.nbytes for array in arrays) + tables)

    @cached_property
    def symbol_names(self) -> pa.Array:
        """Labels as paths show them: crossed backwards with a ^ before."""
        shown = [*self.labels, *("^" + label for label in self.labels)]
        return pa.array(shown, pa.string())

    @cached_property
    def average_degree(self) -> float:
        """Neighbours per node (SHARP §5: avg_num_nbr)."""
        return len(self.neighbour) / max(self.node_count, 1)

    @cached_property
    def largest_degree(self) -> int:
        """The most entries of a node."""
        step = 1 if len(self.entry_symbol) else max(self.symbols, 1)
        return int(np.diff(self.offset[::step]).max(initial=0))

    @cached_property
    def entry_symbols(self) -> NDArray[np.int32]:
        """Per entry: its symbol, whatever the layout."""
        if len(self.entry_symbol) or not len(self.neighbour):
            return self.entry_symbol
        cells = np.arange(self.symbols, dtype=np.int32)
        counts = np.diff(self.offset)
        return np.repeat(np.tile(cells, self.node_count), counts)

    @cached_property
    def entry_source(self) -> NDArray[np.int32]:
        """Per entry: the node it leaves."""
        step = 1 if len(self.entry_symbol) else max(self.symbols, 1)
        counts = np.diff(self.offset[::step])
        return np.repeat(np.arange(self.node_count, dtype=np.int32), counts)

    @cached_property
    def edge_labels(self) -> NDArray[np.int32]:
        """Per edge: the number of its label."""
        codes = np.empty(self.edge_count, np.int32)
        codes[self.edge] = self.entry_symbols % max(len(self.labels), 1)
        return codes

    @cached_property
    def twins(self) -> NDArray[np.int32]:
        """Per entry: the other one of its edge."""
        backward = (self.entry_symbols >= len(self.labels)).astype(np.int32)
        place = 2 * self.edge + backward
        entry_at = np.empty(len(self.edge), np.int32)
        entry_at[place] = np.arange(len(self.edge), dtype=np.int32)
        return entry_at[place ^ 1]

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {name: number for number, name in enumerate(self.names.to_pylist())}

    def find(self, wanted: Sequence[Any] | pa.Array) -> NDArray[np.int64]:
        """Numbers of nodes by name; -1 where there is none."""
        if not isinstance(wanted, (pa.Array, pa.ChunkedArray)):
            if len(wanted) * 50 >= self.node_count or self.node_count < _DENSE_ALWAYS:
                return self._looked_up(wanted)
            wanted = pa.array(wanted)
        if wanted.type != self.names.type:
            try:
                wanted = wanted.cast(self.names.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise errors.UnknownNodeError(
                    f"the graph's nodes are of type {self.names.type}, not {wanted.type}",
                    remedy="give node names of the same type",
                ) from None
        if len(wanted) * 50 < self.node_count:
            found = pc.index_in(wanted, value_set=self.names)
            return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return self._looked_up(wanted.to_pylist())

    def _looked_up(self, wanted: Sequence[Any]) -> NDArray[np.int64]:
        try:
            numbers = map(self._numbers.get, wanted, repeat(-1))
            return np.fromiter(numbers, np.int64, len(wanted))
        except TypeError:
            raise errors.UnknownNodeError(
                f"nodes are named by values of type {self.names.type}, not by containers",
                remedy="give one node or a flat list of nodes",
            ) from None

    def near_names(self, name: object) -> list[str]:
        if not isinstance(name, str) or self.node_count > 200_000:
            return []
        return difflib.get_close_matches(name, self._numbers, n=3, cutoff=0.75)

    # -- files -----------------------------------------------------------------------------------

    def save(self, folder: Path | None = None) -> Path:
        """One Arrow IPC file per table of columns; returns the folder."""
        folder = folder or Path(tempfile.mkdtemp(prefix="ensue-graph-"))
        folder.mkdir(parents=True, exist_ok=True)
        header = {b"ensue": VERSION, b"notes": "\n".join(self.notes).encode()}
        entries = {"neighbour": self.neighbour, "edge": self.edge}
        if len(self.entry_symbol):
            entries["entry_symbol"] = self.entry_symbol
        tables = {
            "labels": pa.table({"label": pa.array(self.labels, pa.string())}),
            "names": pa.table({"name": self.names}),
            "offset": pa.table({"offset": self.offset}),
            "entries": pa.table(entries),
            "edges": self.edges,
            "nodes": self.nodes,
        }
        tables["labels"] = tables["labels"].replace_schema_metadata(header)
        for name, table in tables.items():
            path = str(folder / f"{name}.arrow")
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table.combine_chunks())
        return folder

    @staticmethod
    def load(folder: Path) -> GraphStore:
        """The graph of a folder, its arrays mapped from the files."""
        try:
            tables = {
                name: pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).read_all()
                for name in ("labels", "names", "offset", "entries", "edges", "nodes")
            }
        except (OSError, pa.ArrowInvalid) as problem:
            raise errors.StateError(
                f"{folder} does not hold a stored graph: {problem}",
                remedy="store it again with graph.save(folder)",
            ) from None
        header = tables["labels"].schema.metadata or {}
        if header.get(b"ensue") != VERSION:
            raise errors.StateError(
                f"{folder} holds a graph of version {header.get(b'ensue', b'?').decode()!r}, "
                f"this library reads {VERSION.decode()!r}",
                remedy="store it again with graph.save(folder)",
            )
        entries = tables["entries"]
        symbols = _flat(entries["entry_symbol"]) if "entry_symbol" in entries.column_names else None
        notes = header.get(b"notes", b"").decode()
        return GraphStore(
            _whole(tables["names"]["name"]),
            tuple(tables["labels"]["label"].to_pylist()),
            _flat(tables["offset"]["offset"]),
            _flat(entries["neighbour"]),
            _flat(entries["edge"]),
            _NOTHING if symbols is None else symbols,
            tables["edges"],
            tables["nodes"],
            tuple(notes.split("\n")) if notes else (),
        )


def _build_sparse(
    source: NDArray[np.int32],
    label: NDArray[np.int32],
    target: NDArray[np.int32],
    nodes: int,
    labels: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    start = np.concatenate([source, target])
    symbol = np.concatenate([label, label + np.int32(labels)])
    order = np.lexsort((symbol, start))
    offset = np.zeros(nodes + 1, np.int32)
    offset[1:] = np.cumsum(np.bincount(start, minlength=nodes))
    number = np.arange(len(source), dtype=np.int32)
    neighbour = np.concatenate([target, source])[order]
    edge = np.concatenate([number, number])[order]
    return offset, neighbour, edge, symbol[order].astype(np.int32)


def _columns(table: pa.Table | None, rows: int) -> pa.Table:
    """The table, or one with as many rows and nothing to read."""
    if table is not None and table.num_columns:
        return table.combine_chunks()
    return pa.table({"__ensue_row": np.zeros(rows, np.int8)})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _flat(column: pa.ChunkedArray) -> NDArray[Any]:
    return _whole(column).to_numpy(zero_copy_only=False)
