"""A snapshot of an evaluator as one blob: the entries of all keys, and what the keys share."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ensue.operator import state
from ensue.operator.protocol import Snapshot, key_table, keys_in
from ensue.query.stored import Fingerprint

KIND = state.Kind("snapshot", version=2, oldest=2)
_STATE = "state"


def to_bytes(
    snapshot: Snapshot, fields: Sequence[pa.Field], query: Fingerprint = state.NO_QUERY
) -> bytes:
    """`fields` are the partition columns; `query` is what the state belongs to."""
    parts = key_table(snapshot.keys, [f.with_name(f"key_{at}") for at, f in enumerate(fields)])
    columns = dict(zip(parts.column_names, parts.columns, strict=True))
    # A table without columns has no rows, and the only key may have no parts.
    keys = pa.table(columns | {_STATE: pa.array(list(snapshot.keys.values()), pa.binary())})
    return state.pack(KIND, {"keys": keys, "shared": snapshot.shared}, query=query)


def from_bytes(blob: bytes, query: Fingerprint = state.NO_QUERY) -> Snapshot:
    parts = state.unpack(KIND, blob, query)
    keys = parts.table("keys")
    names = [name for name in keys.column_names if name != _STATE]
    entries = zip(keys_in(keys, names), keys[_STATE].to_pylist(), strict=True)
    return Snapshot(dict(entries), parts.state("shared"))
