"""A summary's state as Arrow IPC bytes: what all keys share, and the retained events by key.

Columns of all keys stand end to end, with the number of events of each key beside its key; rows
that are retained travel as the table they are. The query and the options are in it as JSON, so
that a snapshot can be restored without saying them again. Scores that were settled are stored as
they are, so that a restored summary decides exactly as one that went on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.operator import state
from ensue.operator.protocol import Key
from ensue.query import stored
from ensue.query.query import Query
from ensue.scalar.moments import values_of
from ensue.summary.options import SummaryOptions

KIND = state.Kind("summary", version=2)
COLUMNS = ("time", "mask", "weight", "id", "past", "group")


@dataclass
class SavedStore:
    """One key: its columns, its numbers, and the last order value."""

    columns: dict[str, NDArray[Any]]
    numbers: list[int]
    levels: list[float]
    latest: int | float | None
    followers: dict[int, dict[str, NDArray[Any]]]  # by value of the attribute in `equal`, else 0


@dataclass
class Saved:
    """The whole of it, as plain values."""

    asked: dict[str, Any]  # query and options, in which a restored summary must agree
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
    followed = [
        {"store": number, "value": value, **{name: told.tolist() for name, told in lanes.items()}}
        for number, store in enumerate(saved.stores)
        for value, lanes in store.followers.items()
    ]
    parts = {
        "asked": saved.asked,
        "rows": saved.rows,
        "masks": np.array(saved.masks, np.int64),
        "tables": saved.tables,
        "groups": saved.groups,
        "schema": saved.schema,
        "ids": saved.ids,
        "held": saved.held,
        "keys": saved.keys,
        "stores": stores,
        "packed": pa.table(packed),
        "followed": pa.Table.from_pylist(followed) if followed else None,
    }
    known = {name: part for name, part in parts.items() if part is not None}
    return state.pack(KIND, known, {"floating": int(floating)})


def from_bytes(blob: bytes) -> Saved:
    parts = state.unpack(KIND, blob)
    rows, packed = parts.table("stores"), parts.table("packed")
    columns = {name: packed.column(name).to_numpy() for name in packed.column_names}
    if "time" in columns:
        kind = np.float64 if parts.numbers["floating"] else np.int64
        columns["time"] = columns["time"].astype(kind)
    followers: dict[int, dict[int, dict[str, NDArray[Any]]]] = {}
    if "followed" in parts:
        for told in parts.table("followed").to_pylist():
            mine = followers.setdefault(told.pop("store"), {})
            mine[told.pop("value")] = {name: np.array(lanes) for name, lanes in told.items()}
    bounds = np.cumsum([0, *rows.column("count").to_pylist()])
    stores = [
        SavedStore(
            {name: column[low:high] for name, column in columns.items()},
            told["numbers"],
            told["levels"],
            None if told["latest"] is None else json.loads(told["latest"]),
            followers.get(number, {}),
        )
        for number, (told, low, high) in enumerate(
            zip(rows.to_pylist(), bounds[:-1], bounds[1:], strict=True)
        )
    ]
    return Saved(
        asked=parts.json("asked"),
        rows=parts.json("rows"),
        masks=parts.array("masks").tolist(),
        tables=parts.json("tables"),
        groups=parts.json("groups"),
        schema=parts.schema("schema") if "schema" in parts else None,
        ids=parts.array("ids"),
        held=parts.table("held") if "held" in parts else None,
        keys=parts.table("keys"),
        stores=stores,
    )


def asked_of(query: Query, options: SummaryOptions) -> dict[str, Any]:
    """Query and options as plain values."""
    plain = vars(options) | {"total": None}
    for name in ("probabilities", "equal"):
        plain[name] = None if plain[name] is None else dict(plain[name])
    return {"query": stored.to_json(query), "options": plain}


def described(blob: bytes) -> tuple[Query, SummaryOptions]:
    """What the summary of a snapshot was asked; `total` is still to be parsed."""
    return _described(from_bytes(blob).asked)


def same(asked: Mapping[str, Any], query: Query, options: SummaryOptions) -> bool:
    """Whether a snapshot was asked the same."""
    return _fingerprint(*_described(asked)) == _fingerprint(query, options)


def _described(asked: Mapping[str, Any]) -> tuple[Query, SummaryOptions]:
    return stored.from_json(asked["query"]), SummaryOptions(**asked["options"])


def _fingerprint(query: Query, options: SummaryOptions) -> stored.Fingerprint:
    equal = sorted((name, sorted(labels)) for name, labels in (options.equal or {}).items())
    chances = sorted((options.probabilities or {}).items())
    plain = (options.size, options.select, options.total_text, options.budget)
    return stored.fingerprint(query, *plain, equal, chances)


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
