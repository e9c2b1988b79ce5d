"""The external sort gives what sorting in memory gives, for every type of key."""

from __future__ import annotations

import datetime as dt
import random

import numpy as np
import pyarrow as pa
import pytest

from ensue.front.grammar import parse_pattern
from ensue.operator import sorting
from ensue.operator.arrange import arrange
from ensue.query.query import OrderKey, Query

KEYS = {
    "int": [1, 2, None, -5],
    "string": ["b", "a", None, "é"],
    "double": [1.5, float("nan"), None, -0.0],
    "date": [dt.date(2024, 1, 1), None, dt.date(1960, 5, 5)],
    "bool": [True, False, None],
}
ORDERS = [
    (OrderKey.of("t"),),
    (OrderKey.of("t", True),),
    (OrderKey.of("x", False, False), OrderKey.of("t")),
    (OrderKey.of("x", True, True), OrderKey.of("t")),
    (OrderKey.of("s", True), OrderKey.of("t")),
]


def shuffled(kind: str, rows: int) -> pa.Table:
    draw = random.Random(7)
    keys = [draw.choice(KEYS[kind]) for _ in range(rows)]
    times = list(range(rows))
    draw.shuffle(times)
    return pa.table(
        {
            "k": pa.array(keys),
            "t": pa.array(times),
            "x": pa.array([draw.choice([None, 1.0, 2.0, float("nan")]) for _ in range(rows)]),
            "s": pa.array([draw.choice([None, "u", "v"]) for _ in range(rows)]),
        }
    )


def partitions(events: list[sorting.Events]) -> set[str]:
    """Each complete partition as text; a partition sent in several parts is joined."""
    found, parts = [], []
    for piece in events:
        for index in range(len(piece.complete)):
            begin, end = int(piece.starts[index]), int(piece.starts[index + 1])
            parts += piece.table.slice(begin, end - begin).to_pylist()
            if piece.complete[index]:
                found.append(str(parts))
                parts = []
    assert not parts
    return set(found)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("kind", KEYS)
def test_spilled_runs_merge_to_the_same_partitions(
    kind: str, order: tuple[OrderKey, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "_BLOCK_ROWS", 16)
    table = shuffled(kind, 500)
    query = Query(parse_pattern("A"), partition_by=("k",), order_by=order)
    batches = table.to_batches(max_chunksize=37)
    spilled = list(sorting.sorted_events(batches, table.schema, query, memory=1500))
    ordered, starts = arrange(table, ("k",), order)
    complete = np.ones(len(starts) - 1, np.bool_)
    assert partitions(spilled) == partitions([sorting.Events(ordered, starts, complete)])


def test_one_long_partition_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_BLOCK_ROWS", 16)
    table = shuffled("int", 400).drop_columns(["k"])
    query = Query(parse_pattern("A"), order_by=(OrderKey.of("t"),))
    events = list(
        sorting.sorted_events(table.to_batches(max_chunksize=50), table.schema, query, memory=2000)
    )
    assert len(events) > 3
    assert [int(e.complete[0]) for e in events] == [0] * (len(events) - 1) + [1]
    assert [r["t"] for e in events for r in e.table.to_pylist()] == list(range(400))
