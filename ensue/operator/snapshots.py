"""A snapshot of an evaluator as one blob: the entries of all keys, and what the keys share."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ensue.operator import state
from ensue.operator.protocol import Snapshot, key_at, key_out
from ensue.query.stored import Fingerprint

KIND = state.Kind("snapshot", version=2, oldest=2)
_STATE = "state"


def to_bytes(
    snapshot: Snapshot, fields: Sequence[pa.Field], query: Fingerprint = state.NO_QUERY
) -> bytes:
    """`fields` are the partition columns; `query` is what the state belongs to."""
    keys = snapshot.keys
    columns = {
        f"key_{place}": pa.array([key_out(key[place], field.type) for key in keys], field.type)
        for place, field in enumerate(fields)
    }
    columns[_STATE] = pa.array(list(keys.values()), pa.binary())
    parts = {"keys": pa.table(columns), "shared": snapshot.shared}
    return state.pack(KIND, parts, query=query)


def from_bytes(blob: bytes, query: Fingerprint = state.NO_QUERY) -> Snapshot:
    parts = state.unpack(KIND, blob, query)
    keys = parts.table("keys")
    names = [name for name in keys.column_names if name != _STATE]
    entries = {key_at(keys, row, names): keys[_STATE][row].as_py() for row in range(keys.num_rows)}
    return Snapshot(entries, parts.state("shared"))
