"""One small table of events, and the answers about it by definition: brute force over the rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import ensue

Row = dict[str, Any]
Answer = list[str]

BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
WITHIN = 7  # seconds: two rows of a key further on are inside, three are not
KEYS = ("p", "q", None)
KINDS = {"p": "ABAB", "q": "AACB", None: "BABB"}


def table() -> pa.Table:
    """The keys take turns, a row a second; `x` numbers the rows."""
    count = sum(map(len, KINDS.values()))
    return pa.table(
        {
            "k": pa.array([KEYS[i % 3] for i in range(count)], pa.string()),
            "ts": pa.array([moment(i) for i in range(count)], pa.timestamp("us", "UTC")),
            "kind": [KINDS[KEYS[i % 3]][i // 3] for i in range(count)],
            "x": pa.array(range(count), pa.int64()),
        }
    )


def moment(second: int) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=second)


def micros(second: int) -> int:
    return int(moment(second).timestamp()) * 1_000_000


ROWS = table()
ANYTIME = ensue.pattern("A ->> B", types="kind").partition_by("k").order_by("ts")
PAIR = ANYTIME.within(f"{WITHIN} seconds")
RUN = ensue.pattern("A B+", types="kind").partition_by("k").order_by("ts")
LARGER = ensue.pattern("A ->> B").define(A="kind = 'A'", B="kind = 'B' AND B.x > A.x")
LARGER = LARGER.partition_by("k").order_by("ts").within(f"{WITHIN} seconds")


# -- by definition --------------------------------------------------------------------------------


def by_key(rows: pa.Table) -> list[list[Row]]:
    listed = sorted(rows.to_pylist(), key=lambda row: row["x"])
    return [[row for row in listed if row["k"] == key] for key in KEYS]


def couples(rows: pa.Table, within: float = WITHIN) -> list[tuple[Row, Row]]:
    """A ->> B within the window: every A with every B after it."""
    return [
        (first, last)
        for part in by_key(rows)
        for first in part
        for last in part
        if (first["kind"], last["kind"]) == ("A", "B") and 0 < last["x"] - first["x"] <= within
    ]


def pairs(rows: pa.Table) -> list[Row]:
    return [{"k": a["k"], "first": a["x"], "last": b["x"]} for a, b in couples(rows)]


def pairs_with_one_missing(rows: pa.Table) -> list[Row]:
    """Pairs, and each of their events alone: the other is missing."""
    alone = [row for row in rows.to_pylist() if row["kind"] in "AB"]
    return pairs(rows) + [{"k": r["k"], "first": r["x"], "last": r["x"]} for r in alone]


def runs(rows: pa.Table) -> list[Row]:
    """A B+ row by row: the longest from each A, and on after it."""
    found = []
    for part in by_key(rows):
        at = 0
        while at < len(part):
            end = at + 1
            while part[at]["kind"] == "A" and end < len(part) and part[end]["kind"] == "B":
                end += 1
            if end > at + 1:
                found.append(
                    {"k": part[at]["k"], "first": part[at]["x"], "last": part[end - 1]["x"]}
                )
            at = end
    return found


def both(rows: pa.Table) -> list[Row]:
    every = pairs(rows)
    near = [row for row in every if row["last"] - row["first"] <= 4]
    return [{**r, "pattern": "pair"} for r in every] + [{**r, "pattern": "short"} for r in near]


def totals(rows: pa.Table, within: float = WITHIN) -> list[Row]:
    """How many pairs a key has, and the sum over their last events."""
    sums: dict[Any, list[int]] = {}
    for _, last in couples(rows, within):
        sums.setdefault(last["k"], []).append(last["x"])
    return [{"k": key, "n": len(values), "s": sum(values)} for key, values in sums.items()]


def running_sums(rows: pa.Table) -> list[Row]:
    """Each row, with the sum of its key up to it."""
    return [
        {"x": row["x"], "value": sum(other["x"] for other in part[: place + 1])}
        for part in by_key(rows)
        for place, row in enumerate(part)
    ]


def sums(rows: pa.Table) -> list[Row]:
    return [{"k": p[0]["k"], "value": sum(row["x"] for row in p)} for p in by_key(rows) if p]


def themselves(rows: pa.Table) -> list[Row]:
    return [{"k": row["k"], "x": row["x"]} for row in rows.to_pylist()]


def canonical(rows: Iterable[Row]) -> Answer:
    return sorted(repr(sorted(row.items())) for row in rows)


def span(row: Row) -> Row:
    """A match by its first and last event."""
    ends = {name: round((row[name] - BEGIN).total_seconds()) for name in ("first", "last")}
    return {"k": row["k"], **ends}
