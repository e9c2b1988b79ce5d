"""A lane's state as bytes: named parts in one Arrow IPC stream, with what they were written for.

A lane is rewritten only when a micro-batch touched it. The parts are Arrow bytes of their own
(`evaluate/state.py`), so a part that did not change is carried over without being read. Beside
them stands a description of the query and its settings: a restart that differs is told exactly
what differs, not only that something does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from ensue import errors
from ensue.evaluate import state

KIND = "lane"
_DESCRIPTION = "description"
_REMEDY = {
    "lanes": "set lanes back, or start a new checkpoint: keys live in the lane they were hashed to",
    "partition_by": "set it back, or start a new checkpoint",
    "pattern": "set it back, start a new checkpoint, or change patterns through control=",
}


def to_bytes(parts: Mapping[str, bytes], description: Mapping[str, str]) -> bytes:
    named = {**parts, _DESCRIPTION: json.dumps(dict(description)).encode()}
    table = pa.table({"name": list(named), "part": pa.array(list(named.values()), pa.binary())})
    return state.to_bytes(KIND, table, {})


def from_bytes(blob: bytes, description: Mapping[str, str]) -> dict[str, bytes]:
    """The parts, once the description is what it was."""
    table, _ = state.from_bytes(KIND, blob)
    parts = dict(zip(table["name"].to_pylist(), table["part"].to_pylist(), strict=True))
    before = json.loads(parts.pop(_DESCRIPTION))
    _compare(before, description)
    return parts


def _compare(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    # A setting that an earlier version did not know has the default it had then.
    differing = [name for name in now if name in before and before[name] != now[name]]
    if not differing:
        return
    told = "; ".join(f"{name} was {before[name]} and is {now[name]}" for name in differing)
    remedies = dict.fromkeys(_REMEDY.get(name, _REMEDY["partition_by"]) for name in differing)
    raise errors.CheckpointError(
        f"the checkpoint was written by another query: {told}", remedy="; ".join(remedies)
    )
