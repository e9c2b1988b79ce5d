"""A lane's state as bytes: its parts, with what they were written for.

A lane is rewritten only when a micro-batch touched it, and compressed: all of it goes through the
state store with every micro-batch. Beside the parts (`operator/state.py`)
stands a description of the query and its settings: a restart that differs is told exactly what
differs, not only that something does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ensue import errors
from ensue.operator import state
from ensue.query import nodes, stored
from ensue.query.query import Query, Window, WindowKind
from ensue.query.sql import describe

KIND = state.Kind("lane", version=2)
_DESCRIPTION = "description"
_MARK = " (fingerprint "
_PARTS = ("define", "order_by", "within", "measures")
_OTHER = ("subsets", "rows", "skip", "selection", "all_matches", "without")
_WHY = {"lanes": ": keys live in the lane they were hashed to"}


def asked(query: Query) -> dict[str, str]:
    """What a query asks, part by part, so that a difference can be named."""
    mark = stored.fingerprint(query).now[:12]
    told = {
        "partition_by": ", ".join(query.partition_by) or "(none)",
        "pattern": f"{nodes.pattern_text(query.pattern)}{_MARK}{mark})",
        "define": "; ".join(f"{label} AS {describe(test)}" for label, test in query.define),
        "order_by": ", ".join(
            f"{key.column} descending" if key.descending else key.column for key in query.order_by
        ),
        "within": _window(query.within),
        "measures": "; ".join(f"{m.name} AS {describe(m.value)}" for m in query.measures or ())
        or "(the listing)",
    }
    return told | {name: _plain(getattr(query, name)) for name in _OTHER}


def _window(window: Window | None) -> str:
    if window is None:
        return "(none)"
    if window.kind is WindowKind.TIME:
        return f"{window.size / 1_000_000:g} seconds"
    return f"{window.size:g} {'rows' if window.kind is WindowKind.ROWS else ''}".strip()


def _plain(value: Any) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def to_bytes(
    parts: Mapping[str, Any],
    description: Mapping[str, str],
    numbers: Mapping[str, int] | None = None,
) -> bytes:
    return state.pack(KIND, {**parts, _DESCRIPTION: dict(description)}, numbers, compressed=True)


def from_bytes(blob: bytes, description: Mapping[str, str]) -> state.Parts:
    """The parts, once the description is what it was."""
    parts = state.unpack(KIND, blob)
    _compare(parts.json(_DESCRIPTION), description)
    return parts


def _compare(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    # A setting that an earlier version did not know has the default it had then.
    differing = [name for name in now if name in before and before[name] != now[name]]
    # The fingerprint stands for the query; how a version words it and its parts is for the reader.
    if "pattern" in differing and _mark(before["pattern"]) == _mark(now["pattern"]):
        differing.remove("pattern")
    if "pattern" not in differing:
        differing = [name for name in differing if name not in (*_PARTS, *_OTHER)]
    named = any(name in (*_PARTS, *_OTHER) for name in differing)
    if named and "pattern" in differing and _words(before["pattern"]) == _words(now["pattern"]):
        differing.remove("pattern")  # its parts say more than its fingerprint
    if not differing:
        return
    told = "; ".join(f"{name} was {before[name]} and is {now[name]}" for name in differing)
    raise errors.CheckpointError(
        f"the checkpoint was written by another query: {told}", remedy=_remedy(differing)
    )


def _words(pattern: str) -> str:
    return pattern.rpartition(_MARK)[0]


def _mark(pattern: str) -> str:
    return pattern.rpartition(_MARK)[2]


def _remedy(differing: list[str]) -> str:
    told = f"set {', '.join(differing)} back, or start with a new checkpoint"
    told += "".join(_WHY.get(name, "") for name in differing)
    if set(differing) <= {"pattern", *_PARTS, *_OTHER} - {"order_by"}:
        told += "; a stream with control= and edits=True changes its patterns as it runs"
    return told
