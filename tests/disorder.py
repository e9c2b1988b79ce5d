"""Random arrivals for anything that takes disordered, corrected events: a driver that tests share.

Events come in any order, some twice, some late; some are taken back, and come again; watermarks
pass; and the holder is restored from its snapshot between any two calls. `arrived` gives what was
put out, the holder at the end, and the events that count, in order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [("key", pa.string()), ("t", pa.int64()), ("id", pa.int64()), ("kind", pa.string()),
     ("x", pa.int64())]
)  # fmt: skip


def events(chooser: random.Random, most: int = 9, kinds: str = "AABBBCX") -> pa.Table:
    """Three keys; times differ."""
    times = chooser.sample(range(40), chooser.randrange(3, 3 * most))
    rows = [
        {"key": chooser.choice("pqr"), "t": time, "id": number, "kind": chooser.choice(kinds),
         "x": chooser.randrange(4)}
        for number, time in enumerate(times)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def arrived(
    holder: Any, table: pa.Table, chooser: random.Random, restore: Callable[[bytes], Any]
) -> tuple[list[pa.Table], Any, pa.Table]:
    """See the module; `end` is left to the caller."""
    out: list[Any] = []
    rows = {row["id"]: row for row in table.to_pylist()}
    counted: dict[int, dict[str, Any]] = {}
    mark = -1
    waiting = list(rows)
    chooser.shuffle(waiting)
    while waiting:
        size = chooser.choice([1, 2, 3, 5])
        batch, waiting = waiting[:size], waiting[size:]
        if chooser.random() < 0.3:
            batch = [*batch, chooser.choice(batch)]  # a copy
        counted |= {name: rows[name] for name in batch if rows[name]["t"] >= mark}
        out.append(holder.insert(pa.Table.from_pylist([rows[name] for name in batch], SCHEMA)))
        if chooser.random() < 0.3:
            name = chooser.choice(list(rows))
            if name in counted and rows[name]["t"] >= mark:
                del counted[name]
                if chooser.random() < 0.4:
                    waiting.append(name)
            out.append(holder.retract(pa.Table.from_pylist([rows[name]], SCHEMA)))
        if chooser.random() < 0.4:
            least = min([rows[name]["t"] for name in waiting], default=40)
            mark = max(mark, chooser.choice([least, least, chooser.randrange(41)]))
            out.append(holder.advance(mark))
        if chooser.random() < 0.4:
            holder = restore(holder.snapshot())
    ordered = sorted(counted.values(), key=lambda row: row["t"])
    return out, holder, pa.Table.from_pylist(ordered, SCHEMA)


def net(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """Rows that stand; each withdrawal takes back a row that was told."""
    standing: Counter[str] = Counter()
    shown: dict[str, dict[str, Any]] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        op = row.pop("op")
        text = repr(row)
        standing[text] += 1 if op == "+" else -1
        assert standing[text] >= 0, f"withdrawn, but never told: {row}"
        row.pop("match_id")
        shown[text] = row
    return [shown[text] for text, count in standing.items() for _ in range(count)]


def withdrawn(tables: list[pa.Table]) -> int:
    return sum(table.column("op").to_pylist().count("-") for table in tables)


def canonical(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(row) for row in rows)
