"""Every cell of `ensue.capabilities.TABLE` as a call on a few events, with the answer by hand.

Key `u` has A B A x B at 1 to 5, key `w` has A B. In `u`, `A B` matches (1, 2); `A -> B` matches
(1, 2) and (3, 5), and so the counts; `A ->> B` without its A also matches every B alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import ensue
from ensue import quantify

SPECULATION = {"speculation": math.inf}


def at(*seconds: int) -> pa.Array:
    return pa.array([second * 10**6 for second in seconds], pa.timestamp("us", "UTC"))


EVENTS = pa.table(
    {
        "user": ["u", "u", "u", "u", "u", "w", "w"],
        "ts": at(1, 2, 3, 4, 5, 1, 2),
        "kind": ["A", "B", "A", "x", "B", "A", "B"],
        "v": [10, 20, 30, 40, 50, 60, 70],
    }
)
WRONG = pa.table({"user": ["u"], "ts": at(4), "kind": ["B"], "v": [1]})  # inserted, then taken back
EDGES = pa.table({"subject": ["a", "b"], "relation": ["x", "y"], "object": ["b", "c"]})

ROW_MATCHES = [("u", 1, 2), ("w", 1, 2)]
EVENT_MATCHES = [("u", 1, 2), ("u", 3, 5), ("w", 1, 2)]
NEAR_MATCHES = [*EVENT_MATCHES, ("u", 1, 5), ("u", 2, 2), ("u", 5, 5), ("w", 2, 2)]  # A may miss
COUNTS = {"u": 2, "w": 1}
BLOCKS = [("u", 2, 30), ("u", 5, 120), ("w", 2, 130)]  # sums of v up to each B
PATHS = [("a", "c")]

ROWS = ensue.pattern("A B", types="kind").partition_by("user").order_by("ts")
SEQUENCE = (
    ensue.pattern("A -> B", types="kind").partition_by("user").order_by("ts").within("10 seconds")
)
NEAR = (
    ensue.pattern("A ->> B", types="kind").partition_by("user").order_by("ts").within("10 seconds")
).allow_missing(1, required=["B"])
BOTH = ensue.workload(pairs=SEQUENCE, again=SEQUENCE)
AUTOMATON = (
    ensue.Automaton({"n": "bigint"}, order_by="ts", partition_by="user", within="10 seconds")
    .arc("q0", "q1", when="kind = 'A'", set={"n": "n + 1"})
    .arc("q1", "q1", when="kind = 'x'")
    .arc("q1", "end", when="kind = 'B'")
    .final("end")
)
BLOCK_SUM = quantify.iter(
    "last",
    quantify.split(
        "a + b", quantify.sum("v", over="kind <> 'B'"), quantify.event("kind = 'B'", "v")
    ),
)


Rows = list[dict[str, Any]]


def spans(rows: Rows) -> list[tuple[Any, ...]]:
    """Matches as (user, first, last), sorted."""
    return sorted((row["user"], row["first"].second, row["last"].second) for row in rows)


def counts(rows: Rows) -> dict[str, int]:
    return {row["user"]: int(row["n"] if "n" in row else row["count"]) for row in rows}


def blocks(rows: Rows) -> list[tuple[Any, ...]]:
    """Values of a quantitative query as (user, time, value), sorted."""
    return sorted((row["user"], row["ts"].second, row["value"]) for row in rows)


def net(changes: Iterable[dict[str, Any]]) -> Rows:
    """What stands after all changes."""
    standing: dict[Any, dict[str, Any]] = {}
    for row in changes:
        if row["op"] == "+":
            assert row["match_id"] not in standing
            standing[row["match_id"]] = row
        else:
            del standing[row["match_id"]]
    return list(standing.values())


def in_pieces(matcher: Any) -> Rows:
    """Row by row in order, then the end."""
    rows = EVENTS.sort_by("ts")
    tables = [matcher.insert(rows.slice(i, 1)) for i in range(rows.num_rows)]
    return net(row for table in [*tables, matcher.end()] for row in table.to_pylist())


def disordered(matcher: Any) -> Rows:
    """The last row first, and one that is taken back."""
    rows = EVENTS.sort_by([("ts", "descending")])
    tables = [matcher.insert(WRONG)]
    tables += [matcher.insert(rows.slice(i, 1)) for i in range(rows.num_rows)]
    tables += [matcher.retract(WRONG), matcher.end()]
    return net(row for table in tables for row in table.to_pylist())
