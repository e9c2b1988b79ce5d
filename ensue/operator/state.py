"""State as bytes: an Arrow IPC stream whose schema says what it is.

The same bytes are Spark state, a checkpoint of the in-process matcher and a fixture in tests.
Numbers that go with the rows travel in the schema's metadata as JSON; nothing is ever executed
when state is read. A checksum stands behind the stream: Arrow trusts the lengths that it reads, so
damage must be found before it sees the bytes. The header says that there is one, so that a state
which lost its end is not taken for one that was written before there were checksums; those load.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import pyarrow as pa

from ensue import errors

VERSION = 1
_META = b"ensue"
_SUM = b"ensue sum:"
_TAIL = len(_SUM) + 4


def to_bytes(kind: str, table: pa.Table, numbers: dict[str, int], query: str = "") -> bytes:
    """`query` is the fingerprint of the query that the state belongs to."""
    fields = {"kind": kind, "version": VERSION, "query": query, "numbers": numbers, "sum": 1}
    header = json.dumps(fields).encode()
    schema = table.schema.with_metadata({**(table.schema.metadata or {}), _META: header})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table.cast(schema))
    blob = sink.getvalue()
    return b"".join((blob, _SUM, zlib.crc32(blob).to_bytes(4, "big")))


def kind_of(blob: bytes) -> str:
    """The kind of a state; refused where it is none."""
    return str(_opened(blob)[1].get("kind"))


def from_bytes(kind: str, blob: bytes, query: str = "") -> tuple[pa.Table, dict[str, int]]:
    """Rows and numbers of a state; refused where it is of another kind, version or query."""
    reader, header = _opened(blob)
    try:
        table = reader.read_all()
        if not header.get("sum"):
            table.validate(full=True)  # nothing else vouches for it
    except (pa.ArrowException, OSError, ValueError):
        raise _damaged() from None
    if header.get("kind") != kind or header.get("version", 0) > VERSION:
        raise errors.StateError(
            f"the stored state is of kind {header.get('kind')!r}, version "
            f"{header.get('version')}; expected {kind!r}, version {VERSION} or earlier",
            remedy="restore it with the query and the version of Ensue that wrote it",
        )
    if header.get("query", query) != query:
        raise errors.StateError(
            "the stored state belongs to another query: its pattern, conditions, order or measures "
            "differ",
            remedy="restore it with the query that wrote it, or start afresh",
        )
    try:
        return table, {name: int(value) for name, value in header["numbers"].items()}
    except (KeyError, AttributeError, TypeError):
        raise _damaged() from None


def _opened(blob: bytes) -> tuple[pa.RecordBatchReader, dict[str, Any]]:
    try:
        summed = blob[-_TAIL:-4] == _SUM
        if summed and zlib.crc32(memoryview(blob)[:-_TAIL]).to_bytes(4, "big") != blob[-4:]:
            raise _changed()
        reader = pa.ipc.open_stream(pa.BufferReader(blob))
        header = json.loads((reader.schema.metadata or {})[_META])
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError):
        raise _damaged() from None
    if not isinstance(header, dict):
        raise _damaged()
    if header.get("sum") and not summed:
        raise _changed()
    return reader, header


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
