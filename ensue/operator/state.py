"""State as bytes: one envelope for every kind of state.

The same bytes are Spark state, a checkpoint of the in-process matcher and a fixture in tests. A
state is an Arrow IPC stream whose schema says what it is: its `Kind`, the version of that kind, and
the fingerprint of the query it belongs to (`query/stored.py`). Nothing is ever executed when state
is read. A checksum stands behind the stream: Arrow trusts the lengths that it reads, so damage must
be found before it sees the bytes. The header says that there is one, so that a state which lost its
end is not taken for one that was written before there were checksums; those load. All of it can be
compressed, behind a checksum of its own: small states are mostly headers.

A state is one table with a few numbers (`to_bytes`), or named parts (`pack`): tables, arrays,
schemas, JSON values and states of other kinds. Each kind is declared once, as a constant of the
module that writes it; `KINDS` has all that are imported.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.query.stored import Fingerprint

_META = b"ensue"
_SUM = b"ensue sum:"
_TAIL = len(_SUM) + 4
_COMPRESSED, _CODEC = b"ensue compressed:", "zstd"
_HEAD = len(_COMPRESSED) + 4
_NO_BYTES = 1_000_000  # rows that a table may have without a bit for each
NO_QUERY = Fingerprint("")
_TABLE, _SCHEMA, _STATE, _STATES, _JSON = "table", "schema", "state", "states", "json"
_SCHEMA_OF_PARTS = pa.schema(
    {
        "name": pa.string(),
        "type": pa.string(),
        "shape": pa.list_(pa.int64()),
        "data": pa.large_binary(),
    }
)


@dataclass(frozen=True)
class Kind:
    """What a state is of: its name, the version that is written, and the oldest that is read."""

    name: str
    version: int = 1
    oldest: int = 1
    order: tuple[str, ...] = ()  # version 1: names of its list of parts, the last for the rest

    @property
    def readable(self) -> str:
        """The versions that are read."""
        return " to ".join(map(str, sorted({self.oldest, self.version})))

    def __post_init__(self) -> None:
        if KINDS.setdefault(self.name, self) != self:
            raise AssertionError(f"two kinds of state are named {self.name!r}")


KINDS: dict[str, Kind] = {}


def to_bytes(
    kind: Kind,
    table: pa.Table,
    numbers: Mapping[str, int] | None = None,
    query: Fingerprint = NO_QUERY,
) -> bytes:
    """A table and the numbers that go with it; `query` is what the state belongs to."""
    header = {
        "kind": kind.name, "version": kind.version, "query": query.now,
        "numbers": dict(numbers or {}), "sum": 1,
    }  # fmt: skip
    told = {**(table.schema.metadata or {}), _META: json.dumps(header).encode()}
    blob = _stream(table.replace_schema_metadata(told))
    return b"".join((blob, _SUM, zlib.crc32(blob).to_bytes(4, "big")))


def from_bytes(
    kind: Kind, blob: bytes, query: Fingerprint = NO_QUERY
) -> tuple[pa.Table, dict[str, int]]:
    """Table and numbers of a state; refused where it is of another kind, version or query."""
    table, header = _read(kind, blob, query)
    return table, header["numbers"]


def pack(
    kind: Kind,
    parts: Mapping[str, Any],
    numbers: Mapping[str, int] | None = None,
    query: Fingerprint = NO_QUERY,
    compressed: bool = False,
) -> bytes:
    """Named parts as one state: tables, schemas, arrays, states (or a tuple of them), or JSON."""
    rows = [{"name": name, **_written(value)._asdict()} for name, value in parts.items()]
    blob = to_bytes(kind, pa.Table.from_pylist(rows, _SCHEMA_OF_PARTS), numbers, query)
    if not compressed:
        return blob
    packed = pa.compress(blob, _CODEC, asbytes=True)
    return b"".join((_COMPRESSED, zlib.crc32(packed).to_bytes(4, "big"), packed))


def unpack(kind: Kind, blob: bytes, query: Fingerprint = NO_QUERY) -> Parts:
    """The parts of a state; refused where it is of another kind, version or query."""
    table, header = _read(kind, blob, query)
    if table.schema.equals(_SCHEMA_OF_PARTS):
        parts = {row.pop("name"): Part(**row) for row in table.to_pylist()}
    elif header["version"] == 1:
        parts = _parts_of_version_1(kind, table)
    else:
        raise _damaged()
    return Parts(parts, header["numbers"])


class Part(NamedTuple):
    type: str  # table, schema, state, states, json, or the dtype of an array
    shape: list[int]  # of an array; of states, how long each is
    data: bytes


class Parts:
    """The parts of a state, each read as what it was written as."""

    def __init__(self, parts: Mapping[str, Part], numbers: dict[str, int]) -> None:
        self._parts = parts
        self.numbers = numbers

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def table(self, name: str) -> pa.Table:
        return _table(pa.ipc.open_stream(self._part(name, _TABLE).data))

    def schema(self, name: str) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self._part(name, _SCHEMA).data))

    def state(self, name: str) -> bytes:
        return self._part(name, _STATE).data

    def states(self, name: str) -> list[bytes]:
        part = self._part(name, _STATES)
        ends = np.cumsum(part.shape, dtype=np.int64).tolist()
        return [part.data[begin:end] for begin, end in pairwise([0, *ends])]

    def json(self, name: str) -> Any:
        return json.loads(self._part(name, _JSON).data)

    def array(self, name: str) -> NDArray[Any]:
        part = self._part(name)
        try:
            return np.frombuffer(part.data, part.type).reshape(part.shape).copy()
        except (TypeError, ValueError):
            raise _damaged() from None

    def _part(self, name: str, kind: str = "") -> Part:
        part = self._parts.get(name)
        if part is None or (kind and part.type not in (kind, "")):
            raise _damaged()
        return part


def kind_of(blob: bytes) -> str:
    """The name of the kind of a state; refused where it is none."""
    return str(_opened(blob)[1]["kind"])


def numbers_of(blob: bytes) -> dict[str, int]:
    """The numbers of a state, whatever it is of."""
    return dict(_opened(blob)[1]["numbers"])


@contextmanager
def restoring() -> Iterator[None]:
    """Around all that takes a state apart: what fits together nowhere is refused as a state.

    A checksum says that bytes are what somebody wrote, not that Ensue wrote them.
    """
    try:
        yield
    except (errors.StateError, errors.LimitError, errors.MissingExtraError, MemoryError):
        raise  # the last three speak of this machine
    except errors.EnsueError as problem:
        raise errors.StateError(
            f"the stored state does not hold what Ensue writes: {problem.problem}",
            remedy="restore it with the query and the version of Ensue that wrote it, or start "
            "afresh",
        ) from problem
    except Exception as problem:
        raise _damaged() from problem


# -- reading -------------------------------------------------------------------------------------


def _read(kind: Kind, blob: bytes, query: Fingerprint) -> tuple[pa.Table, dict[str, Any]]:
    reader, header = _opened(blob)
    version = header["version"]
    if header["kind"] != kind.name:
        raise errors.StateError(
            f"the stored state is of kind {header['kind']!r}, version {version}; expected "
            f"{kind.name!r}, version {kind.readable}",
            remedy="restore it with the query and the version of Ensue that wrote it",
        )
    if not kind.oldest <= version <= kind.version:
        other = "a later one" if version > kind.version else "start afresh"
        raise errors.StateError(
            f"the stored state of kind {kind.name!r} is of version {version}; this Ensue reads "
            f"version {kind.readable}",
            remedy=f"restore it with the version of Ensue that wrote it, or {other}",
        )
    names = (query.now, query.earlier or query.now) if version == 1 else (query.now,)
    if header.get("query", query.now) not in names:
        raise errors.StateError(
            "the stored state belongs to another query: its pattern, conditions, order or measures "
            "differ",
            remedy="restore it with the query that wrote it, or start afresh",
        )
    return _table(reader), header


def _opened(blob: bytes) -> tuple[pa.RecordBatchReader, dict[str, Any]]:
    """A state that is as it was written, before its rows are read, and its header."""
    try:
        if blob.startswith(_COMPRESSED):
            packed = blob[_HEAD:]
            if zlib.crc32(packed).to_bytes(4, "big") != blob[len(_COMPRESSED) : _HEAD]:
                raise _changed()
            blob = pa.CompressedInputStream(pa.BufferReader(packed), _CODEC).read()
        summed = blob[-_TAIL:-4] == _SUM
        if summed and zlib.crc32(memoryview(blob)[:-_TAIL]).to_bytes(4, "big") != blob[-4:]:
            raise _changed()
        reader = pa.ipc.open_stream(pa.BufferReader(blob))
        header = json.loads((reader.schema.metadata or {})[_META])
        version, numbers = header["version"], header["numbers"]
        header["numbers"] = {name: int(value) for name, value in numbers.items()}
        sound = isinstance(version, int) and isinstance(header["kind"], str)
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, AttributeError):
        raise _damaged() from None
    if not sound:
        raise _damaged()
    if header.get("sum") and not summed:
        raise _changed()
    return reader, header


def _table(reader: pa.RecordBatchReader) -> pa.Table:
    """All rows, under the metadata that they had before they were written."""
    try:
        table = reader.read_all()
        table.validate(full=True)  # a checksum vouches for bytes, not for who wrote them
    except (pa.ArrowException, OSError, ValueError):
        raise _damaged() from None
    if (
        table.num_rows > _NO_BYTES + 8 * table.nbytes
    ):  # as nulls, rows cost nothing until they are read
        raise _damaged()
    metadata = dict(table.schema.metadata or {})
    metadata.pop(_META, None)
    return table.replace_schema_metadata(metadata or None)


def _changed() -> errors.StateError:
    return errors.StateError(
        "the stored state is damaged: its checksum does not fit",
        remedy="restore it from a copy (of the checkpoint, or of the snapshot), or start afresh",
    )


def _damaged() -> errors.StateError:
    return errors.StateError(
        "the stored state is not Ensue's, or is damaged",
        remedy="restore it from the checkpoint it was written to, or start afresh",
    )


# -- parts ---------------------------------------------------------------------------------------


def _written(value: Any) -> Part:
    match value:
        case pa.Table():
            return Part(_TABLE, [], _stream(value).to_pybytes())
        case pa.Schema():
            return Part(_SCHEMA, [], value.serialize().to_pybytes())
        case np.ndarray():
            return Part(value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes())
        case bytes():
            return Part(_STATE, [], value)
        case tuple():
            return Part(_STATES, [len(item) for item in value], b"".join(value))
        case _:
            return Part(_JSON, [], json.dumps(value).encode())


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _parts_of_version_1(kind: Kind, table: pa.Table) -> dict[str, Part]:
    """Version 1 had layouts of its own: a column per part, or a row per part.

    What a part is was mostly not written (""): it is what the reader takes it for.
    """
    if table.column_names == ["name", "part"]:
        return {row["name"]: Part("", [], row["part"]) for row in table.to_pylist()}
    if kind.order:
        blobs = table.column("state").to_pylist()
        ahead = len(kind.order) - 1
        parts = {n: Part("", [], b) for n, b in zip(kind.order, blobs[:ahead], strict=False)}
        return parts | {kind.order[-1]: _written(tuple(blobs[ahead:]))}
    cells = {name: table.column(name)[0] for name in table.column_names}
    # No bytes stood for a part that was not there.
    return {name: _cell_of_version_1(cell) for name, cell in cells.items() if cell.as_py() != b""}


def _cell_of_version_1(cell: pa.Scalar) -> Part:
    match cell.as_py():
        case list():
            return _written(cell.values.to_numpy())
        case str() | bytes() as data:
            return Part("", [], data.encode() if isinstance(data, str) else data)
        case value:
            return _written(value)
