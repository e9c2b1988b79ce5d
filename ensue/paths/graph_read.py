"""Edges into a `GraphStore`: from an Arrow table, or from a file of triples.

What is wrong with the input is never dropped without a word: null ends and labels are an error
unless `nulls="drop"`, rows that repeat another are one edge (a graph is a set of triples), and an
edge to a node that the table of nodes does not have is kept. Each of these can be set, and what
was done is in the graph's notes.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from ensue import errors
from ensue.paths.graph_store import GraphStore

TEXT_SUFFIXES = (".tsv", ".txt", ".tab")
TRIPLE_SUFFIXES = (".nt", ".ntriples")
SETTINGS = {
    "nulls": ("error", "drop"),
    "duplicates": ("drop", "keep", "error"),
    "dangling": ("keep", "drop", "error"),
}


def build_graph(
    table: pa.Table,
    src: str,
    label: str,
    dst: str,
    *,
    nodes: pa.Table | None = None,
    node_id: str = "id",
    nulls: str = "error",
    duplicates: str = "drop",
    dangling: str = "keep",
) -> GraphStore:
    """The graph of a table of edges; further columns are there for conditions."""
    check_settings(nulls=nulls, duplicates=duplicates, dangling=dangling)
    check_columns(table.column_names, src, label, dst)
    notes: list[str] = []
    table = _without_nulls(table, (src, label, dst), nulls, notes)
    table = _without_repeats(table, duplicates, notes)
    if len(table) >= 2**30:
        raise errors.LimitError(
            f"the graph has {len(table):,} edges; one worker holds at most {2**30 - 1:,}",
            remedy="give the edges as a Spark DataFrame: it expands paths by joins",
        )
    kind = _common_type(table[src].type, table[dst].type, src, dst)
    known = None if nodes is None else _node_ids(nodes, node_id, kind)
    pieces = [*table[src].cast(kind).chunks, *table[dst].cast(kind).chunks]
    encoded = pa.chunked_array(([known] if known is not None else []) + pieces, kind)
    encoded = encoded.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    names = encoded.dictionary
    numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    declared = 0 if known is None else len(known)
    source = numbers[declared : declared + len(table)]
    target = numbers[declared + len(table) :]
    if known is not None:
        outside = (source >= declared) | (target >= declared)
        if outside.any():
            table, source, target = _dangling(
                table, source, target, outside, dangling, names, declared, notes
            )
            if dangling == "drop":
                names = names.slice(0, declared)
    texts = table[label].cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    labels = tuple(texts.dictionary.to_pylist())
    codes = texts.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    others = [name for name in table.column_names if name not in (src, label, dst)]
    return GraphStore.build(
        np.ascontiguousarray(source),
        codes,
        np.ascontiguousarray(target),
        names,
        labels,
        table.select(others) if others else None,
        None if nodes is None else _aligned(nodes, node_id, len(names)),
        tuple(notes),
    )


def check_settings(**given: str) -> None:
    for name, value in given.items():
        if value not in SETTINGS[name]:
            raise errors.QueryError(
                f"{name}={value!r} is not a setting", remedy="use " + ", ".join(SETTINGS[name])
            )


def check_columns(columns: list[str], src: str, label: str, dst: str) -> None:
    for name, argument in ((src, "src"), (label, "label"), (dst, "dst")):
        if name not in columns:
            raise errors.UnknownColumnError(
                f"the edges have no column {name!r} ({argument}=)",
                remedy=f"name one of {', '.join(columns)}",
            )


def _without_nulls(
    table: pa.Table, columns: tuple[str, ...], nulls: str, notes: list[str]
) -> pa.Table:
    bad = None
    for name in columns:
        if table[name].null_count:
            missing = pc.is_null(table[name])
            bad = missing if bad is None else pc.or_(bad, missing)
    if bad is None:
        return table
    rows = np.flatnonzero(bad.to_numpy())
    if nulls == "error":
        name = next(n for n in columns if not table[n][int(rows[0])].is_valid)
        raise errors.DataError(
            f"row {rows[0]} of the edges has no {name} (null), as have {len(rows) - 1:,} more",
            remedy='fill the value, or set nulls="drop"',
        )
    notes.append(f"{len(rows):,} edges with a null end or label were dropped")
    return table.filter(pc.invert(bad))


def _without_repeats(table: pa.Table, duplicates: str, notes: list[str]) -> pa.Table:
    if duplicates == "keep" or not len(table):
        return table
    first = _first_rows(table)
    repeats = len(table) - len(first)
    if not repeats:
        return table
    if duplicates == "error":
        kept = np.zeros(len(table), np.bool_)
        kept[first] = True
        row = int(np.flatnonzero(~kept)[0])
        raise errors.DataError(
            f"row {row} of the edges repeats an earlier row: {table.slice(row, 1).to_pylist()[0]}",
            remedy='remove it, or set duplicates="drop" (one edge) or "keep" (parallel edges)',
        )
    notes.append(f"{repeats:,} edges that repeat another in every column were dropped")
    return table.take(pa.array(first))


def _first_rows(table: pa.Table) -> NDArray[np.int64]:
    """The first of each set of equal rows, in order."""
    combined = np.zeros(len(table), np.int64)
    for name in table.column_names:
        column = table[name]
        if pa.types.is_nested(column.type):
            column = pa.array([str(value) for value in column.to_pylist()])
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.unify_dictionaries().combine_chunks()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        count = max(len(encoded.dictionary), 1)
        if combined.size and int(combined.max()) > 2**62 // count:
            combined = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        combined = combined * count + codes
    keys = pa.array(combined).dictionary_encode()
    if len(keys.dictionary) == len(table):
        return np.arange(len(table), dtype=np.int64)
    return np.sort(np.unique(combined, return_index=True)[1]).astype(np.int64)


def _common_type(first: pa.DataType, second: pa.DataType, src: str, dst: str) -> pa.DataType:
    if pa.types.is_dictionary(first):
        first = first.value_type
    if pa.types.is_dictionary(second):
        second = second.value_type
    if pa.types.is_nested(first) or pa.types.is_nested(second):
        raise errors.ColumnTypeError(
            f"nodes cannot be nested values ({src} is {first}, {dst} is {second})",
            remedy="name nodes by text or numbers",
        )
    if first == second:
        return pa.string() if pa.types.is_large_string(first) else first
    if pa.types.is_integer(first) and pa.types.is_integer(second):
        return pa.int64()
    texts = (pa.types.is_string, pa.types.is_large_string)
    if all(any(check(kind) for check in texts) for kind in (first, second)):
        return pa.string()
    raise errors.ColumnTypeError(
        f"{src} is {first} and {dst} is {second}: a node has one type",
        remedy="cast one of the two columns",
    )


def _node_ids(nodes: pa.Table, node_id: str, kind: pa.DataType) -> pa.Array:
    if node_id not in nodes.column_names:
        raise errors.UnknownColumnError(
            f"the nodes have no column {node_id!r} (node_id=)",
            remedy=f"name one of {', '.join(nodes.column_names)}",
        )
    ids = nodes[node_id].cast(kind)
    ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], kind)
    if ids.null_count or len(ids.unique()) != len(ids):
        raise errors.DataError(
            f"{node_id!r} of the nodes has nulls or repeats; each node is one row",
            remedy="remove them",
        )
    return ids


def _aligned(nodes: pa.Table, node_id: str, count: int) -> pa.Table:
    """One row per node: those without a row of their own get nulls."""
    columns = {}
    for name in nodes.column_names:
        column = nodes[name]
        extra = pa.nulls(count - len(nodes), column.type)
        columns[name] = pa.chunked_array([*column.chunks, extra], column.type)
    columns.setdefault("id", columns[node_id])
    return pa.table(columns)


def _dangling(
    table: pa.Table,
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    outside: NDArray[np.bool_],
    dangling: str,
    names: pa.Array,
    declared: int,
    notes: list[str],
) -> tuple[pa.Table, NDArray[np.int32], NDArray[np.int32]]:
    rows = np.flatnonzero(outside)
    row = int(rows[0])
    node = int(source[row] if source[row] >= declared else target[row])
    if dangling == "error":
        raise errors.DataError(
            f"row {row} of the edges leads to the node {names[node].as_py()!r}, which the table of "
            f"nodes does not have; {len(rows) - 1:,} more edges dangle",
            remedy='add the node, or set dangling="keep" (no attributes) or "drop"',
        )
    if dangling == "keep":
        notes.append(f"{len(rows):,} edges have an end that the table of nodes does not have")
        return table, source, target
    notes.append(f"{len(rows):,} edges with an end outside the table of nodes were dropped")
    return table.filter(pa.array(~outside)), source[~outside], target[~outside]


# -- files ---------------------------------------------------------------------------------------


def read_triples(path: Path, src: str, label: str, dst: str) -> pa.Table:
    """Triples of a TSV file (with a header line or without) or of N-Triples."""
    if not path.is_file():
        raise errors.UnsupportedInputError(
            f"there is no file {str(path)!r}", remedy="give a .tsv, .txt or .nt file of triples"
        )
    if path.suffix in TRIPLE_SUFFIXES:
        return _read_ntriples(path, src, label, dst)
    if path.suffix not in TEXT_SUFFIXES:
        raise errors.UnsupportedInputError(
            f"{path.name!r} is not a kind of file that Ensue reads as triples",
            remedy="give .tsv, .txt (tab or | between the three) or .nt, or read it into a table",
        )
    with path.open(encoding="utf-8", errors="replace") as handle:
        first = handle.readline().rstrip("\n")
    separator = "\t" if "\t" in first else "|"
    header = first.split(separator)
    named = {src, label, dst} <= set(header)
    names = None if named else [src, label, dst]
    options = pyarrow.csv.ReadOptions(column_names=names)
    parse = pyarrow.csv.ParseOptions(delimiter=separator, quote_char=False)
    kinds = {name: pa.string() for name in (src, label, dst)}
    convert = pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False)
    try:
        return pyarrow.csv.read_csv(path, options, parse, convert)
    except pa.ArrowInvalid as problem:
        raise errors.DataError(
            f"{path.name}: {str(problem).splitlines()[0]}",
            remedy="each line has a subject, a relation and an object between tabs, in UTF-8",
        ) from None


_TERM = r'(?:<([^<>"{}|^`\\\x00-\x20]*)>|(_:\S+))'
_TRIPLE = re.compile(
    rf"^\s*{_TERM}\s+<([^<>\s]*)>\s+"
    r'(?:<([^<>\s]*)>|(_:\S+?)|"((?:[^"\\\n\r]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^<[^<>\s]*>)?)'
    r"\s*\.\s*(?:#.*)?$"
)
_BROKEN = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(r'\\(?:([tbnrf"\'\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))')
_PLAIN = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def _read_ntriples(path: Path, src: str, label: str, dst: str) -> pa.Table:
    """IRIs without their brackets, literals by their text; language and type are left out."""
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    # Bytes that are not UTF-8 become lone surrogates, so that the error can name their line.
    with path.open(encoding="utf-8", errors="surrogateescape") as handle:
        for number, line in enumerate(handle, 1):
            if not line.isascii() and _BROKEN.search(line):
                raise errors.DataError(
                    f"{path.name}, line {number} is not UTF-8", remedy="convert the file to UTF-8"
                )
            found = _TRIPLE.match(line)
            if found is None:
                if not line.strip() or line.lstrip().startswith("#"):
                    continue
                shown = line.rstrip("\n")[:200]
                raise errors.DataError(
                    f"{path.name}, line {number} is not a triple: {shown!r}",
                    remedy="N-Triples lines read <subject> <relation> <object> .",
                )
            subject, blank, relation, iri, other, literal = found.groups()
            columns[0].append(_unescaped(subject) if blank is None else blank)
            columns[1].append(_unescaped(relation))
            columns[2].append(_unescaped(iri or literal or "") if other is None else other)
    kinds = [pa.array(column, pa.string()) for column in columns]
    return pa.table(kinds, names=[src, label, dst])


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: _PLAIN[m[1]] if m[1] else chr(int(m[2] or m[3], 16)), text)
