"""Entries of keys, of any number of parts, there and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ensue.operator import snapshots
from ensue.operator.protocol import Snapshot

FIELDS = [pa.field("a", pa.int64()), pa.field("b", pa.string())]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {(): b"the only one"},
        {(1,): b"one", (None,): b"none"},
        {(1, "x"): b"", (2, None): b"two"},
    ],
)
def test_entries_come_back(keys: dict[tuple[object, ...], bytes]) -> None:
    parts = len(next(iter(keys), ()))
    blob = snapshots.to_bytes(Snapshot(keys, b"shared"), FIELDS[:parts])
    assert snapshots.from_bytes(blob) == Snapshot(keys, b"shared")
