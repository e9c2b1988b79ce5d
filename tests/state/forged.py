"""States whose contents were changed and whose checksum is right: what damage cannot make.

`forged` walks through a state, the states, tables, arrays and JSON values inside it, and gives one
that differs in a single field.
"""

from __future__ import annotations

import json
import random
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.operator import state

_NUMBERS = (-1, 0, 2**31, 2**40, 2**62, -(2**63))
_VALUES: tuple[Any, ...] = (None, "", "junk", [], {}, True, 1.5, *_NUMBERS, 10**30)


def forged(blob: bytes, chance: random.Random) -> bytes:
    reader, header = state._opened(blob)
    if chance.random() < 0.15:
        return _signed(_flipped(blob[: -state._TAIL], chance))
    table = reader.read_all()
    told = dict(table.schema.metadata)
    if chance.random() < 0.15:
        told[state._META] = json.dumps(_json(header, chance)).encode()
    elif table.schema.equals(state._SCHEMA_OF_PARTS) and table.num_rows:
        rows = table.to_pylist()
        row = chance.choice([row for row in rows for _ in range(1 + len(row["data"]) // 64)])
        row.update(_part(row, chance))
        if chance.random() < 0.05:
            rows.remove(row)
        table = pa.Table.from_pylist(rows, table.schema)
    else:
        table = _table(table, chance)
    return _signed(_stream(table.replace_schema_metadata(told)))


def _signed(blob: bytes) -> bytes:
    return blob + state._SUM + zlib.crc32(blob).to_bytes(4, "big")


def _flipped(blob: bytes, chance: random.Random) -> bytes:
    """Arrow's own lengths among others."""
    changed = bytearray(blob)
    changed[chance.randrange(len(blob))] = chance.randrange(256)
    return bytes(changed)


def _part(row: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    data, kind = row["data"], row["type"]
    if chance.random() < 0.1:
        return {"type": chance.choice(["table", "state", "states", "json", "<i8", "|O", "junk"])}
    if chance.random() < 0.1:
        return {"data": data[: chance.randrange(len(data) + 1)]}
    if chance.random() < 0.1:
        return {"shape": [chance.choice(_NUMBERS) for _ in range(chance.randrange(3))]}
    if kind == "state" and data:
        return {"data": forged(data, chance)}
    if kind == "states" and sum(row["shape"]):
        ends = np.cumsum(row["shape"]).tolist()
        parts = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        place = chance.choice([n for n, part in enumerate(parts) if part])
        parts[place] = forged(parts[place], chance)
        return {"data": b"".join(parts), "shape": [len(part) for part in parts]}
    if kind == "json":
        return {"data": json.dumps(_json(json.loads(data), chance)).encode()}
    if kind == "table" and chance.random() < 0.3:
        return {"data": _flipped(data, chance)}
    if kind == "table":
        return {"data": _stream(_table(pa.ipc.open_stream(data).read_all(), chance))}
    if kind not in ("schema", "state", "states"):
        array = np.frombuffer(data, kind).copy()
        if array.size and array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            fitting = [number for number in _NUMBERS if limits.min <= number <= limits.max]
            array[chance.randrange(array.size)] = chance.choice(fitting)
            return {"data": array.tobytes()}
    return {"data": bytes(chance.randrange(256) for _ in data)}


def _json(value: Any, chance: random.Random) -> Any:
    """One leaf, or one branch, is another value."""
    if value and chance.random() < 0.9:
        if isinstance(value, dict):
            name = chance.choice(list(value))
            if chance.random() < 0.1:
                return {key: held for key, held in value.items() if key != name}
            return {**value, name: _json(value[name], chance)}
        if isinstance(value, list):
            place = chance.randrange(len(value))
            return [*value[:place], _json(value[place], chance), *value[place + 1 :]]
    return chance.choice(_VALUES)


def _table(table: pa.Table, chance: random.Random) -> pa.Table:
    if not table.num_columns or chance.random() < 0.1:
        return table.slice(1) if chance.random() < 0.5 else pa.table({"junk": [1]})
    place = chance.randrange(table.num_columns)
    column, field = table.column(place), table.schema.field(place)
    if chance.random() < 0.1:
        return table.remove_column(place)
    values = column.to_pylist()
    if values:
        kind, at = column.type, chance.randrange(len(values))
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            try:
                values[at] = forged(values[at], chance)
            except Exception:
                values[at] = b"junk"
        else:
            values[at] = chance.choice(_VALUES)
        try:
            return table.set_column(place, field, pa.array(values, kind))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            values[at] = None
            return table.set_column(place, field, pa.array(values, kind))
    return table.set_column(place, field.name, pa.nulls(table.num_rows, pa.int8()))


def _stream(table: pa.Table) -> bytes:
    return state._stream(table).to_pybytes()
