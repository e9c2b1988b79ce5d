"""Many short streams of letters as one table, for exhaustive tests: a letter is an event's kind."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa


def table(streams: list[str]) -> pa.Table:
    stream, ident, kind, x = [], [], [], []
    for number, letters in enumerate(streams):
        for row, letter in enumerate(letters):
            stream.append(number)
            ident.append(row)
            kind.append(letter)
            x.append((row * 7 + number * 3) % 5)
    return pa.table({"stream": stream, "id": ident, "kind": kind, "x": x})


def rows_of(events: pa.Table) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events.to_pylist():
        found[event["stream"]].append(event)
    return found
