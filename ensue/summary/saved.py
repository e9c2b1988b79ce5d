"""A summary's state as Arrow IPC bytes: what all keys share, and the retained events by key.

Columns of all keys stand end to end, with the number of events of each key beside its key; rows
that are retained travel as the table they are. The query and the options are in it as JSON, so
that a snapshot can be restored without saying them again. Scores that were settled are stored as
they are, so that a restored summary decides exactly as one that went on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.operator import state
from ensue.operator.protocol import Key
from ensue.scalar.moments import values_of

KIND = "summary"
COLUMNS = ("time", "mask", "weight", "id", "past", "group")


@dataclass
class SavedStore:
    """One key: its columns, its numbers, and the last order value."""

    columns: dict[str, NDArray[Any]]
    numbers: list[int]
    levels: list[float]
    latest: int | float | None


@dataclass
class Saved:
    """The whole of it, as plain values."""

    fingerprint: str  # of what a restored summary must agree in
    asked: str  # query and options, as JSON
    rows: int
    masks: list[int]
    tables: dict[str, list[float]]  # class weights, probabilities, learning
    groups: list[Any]
    schema: pa.Schema | None  # of the events; None before the first
    ids: NDArray[np.int64]
    held: pa.Table | None
    keys: pa.Table  # one row per key
    stores: list[SavedStore]


def to_bytes(saved: Saved) -> bytes:
    floating = any(s.columns["time"].dtype == np.float64 for s in saved.stores)
    packed = {
        name: np.concatenate([store.columns[name] for store in saved.stores])
        if saved.stores
        else np.zeros(0)
        for name in COLUMNS
        if not saved.stores or name in saved.stores[0].columns
    }
    stores = pa.table(
        {
            "count": [len(store.columns["time"]) for store in saved.stores],
            "numbers": pa.array([s.numbers for s in saved.stores], pa.list_(pa.int64())),
            "levels": pa.array([s.levels for s in saved.stores], pa.list_(pa.float64())),
            "latest": [None if s.latest is None else json.dumps(s.latest) for s in saved.stores],
        }
    )
    opened = saved.schema is not None
    inner = pa.table(
        {
            "fingerprint": [saved.fingerprint],
            "asked": [saved.asked],
            "rows": [saved.rows],
            "masks": pa.array([saved.masks], pa.list_(pa.int64())),
            "tables": [json.dumps(saved.tables)],
            "groups": [json.dumps(saved.groups)],
            "schema": _binary(_ipc(saved.schema.empty_table()) if saved.schema else b""),
            "ids": pa.array([saved.ids], pa.large_list(pa.int64())),
            "held": _binary(_ipc(saved.held) if saved.held is not None else b""),
            "keys": _binary(_ipc(saved.keys)),
            "stores": _binary(_ipc(stores)),
            "packed": _binary(_ipc(pa.table(packed))),
        }
    )
    numbers = {"opened": int(opened), "floating": int(floating)}
    return state.to_bytes(KIND, inner, numbers)


def from_bytes(blob: bytes) -> Saved:
    inner, numbers = state.from_bytes(KIND, blob)
    row = {name: inner.column(name)[0].as_py() for name in inner.column_names if name != "ids"}
    stored = _read(row["stores"])
    packed = _read(row["packed"])
    columns = {name: packed.column(name).to_numpy() for name in packed.column_names}
    if "time" in columns:
        columns["time"] = columns["time"].astype(np.float64 if numbers["floating"] else np.int64)
    bounds = np.cumsum([0, *stored.column("count").to_pylist()])
    stores = [
        SavedStore(
            {name: column[low:high] for name, column in columns.items()},
            told["numbers"],
            told["levels"],
            None if told["latest"] is None else json.loads(told["latest"]),
        )
        for told, low, high in zip(stored.to_pylist(), bounds[:-1], bounds[1:], strict=True)
    ]
    return Saved(
        fingerprint=row["fingerprint"],
        asked=row["asked"],
        rows=row["rows"],
        masks=row["masks"],
        tables=json.loads(row["tables"]),
        groups=json.loads(row["groups"]),
        schema=_read(row["schema"]).schema if numbers["opened"] else None,
        ids=inner.column("ids").combine_chunks().flatten().to_numpy(),
        held=_read(row["held"]) if row["held"] else None,
        keys=_read(row["keys"]),
        stores=stores,
    )


def key_table(keys: Sequence[Key], names: Sequence[str], schema: pa.Schema | None) -> pa.Table:
    """One row per key; without partition columns one that says nothing."""
    if not names or schema is None:
        return pa.table({_KEYLESS: pa.array([0] * len(keys), pa.int8())})
    return pa.table(
        {
            name: pa.array([key[i] for key in keys], schema.field(name).type)
            for i, name in enumerate(names)
        }
    )


def keys_of(table: pa.Table) -> list[Key]:
    names = [name for name in table.column_names if name != _KEYLESS]
    if not names:
        return [()] * table.num_rows
    return list(zip(*(values_of(table.column(name)) for name in names), strict=True))


_KEYLESS = "__ensue_row"


def _binary(blob: bytes) -> pa.Array:
    return pa.array([blob], pa.large_binary())


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.BufferReader(blob)).read_all()
