"""Summaries of disordered, corrected events: what the ordered summary of the rest gives."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from tests.disorder import SCHEMA, arrived, events

PAIR = ensue.pattern("A B* C", types="kind").select("any").order_by("t").within(15)
OPTIONS: list[dict[str, Any]] = [
    {"size": 200, "total": "sum(x)"},
    {"size": 4},
    {"size": 5, "total": "avg(B.x)", "select": "present"},
    {"size": 5, "select": "fifo"},
    {"size": 4, "select": "random", "seed": 3},
]


@pytest.mark.parametrize("seed", range(25))
def test_in_the_end_it_is_the_ordered_summary(seed: int) -> None:
    chooser = random.Random(seed)
    pattern = chooser.choice([PAIR, PAIR.partition_by("key")])
    options = OPTIONS[seed % len(OPTIONS)]
    sigma = chooser.choice([0, 5, math.inf])
    summary = pattern.summarize(**options, speculation=sigma, id="id")
    summary.insert(SCHEMA.empty_table())
    _, summary, counted = arrived(summary, events(chooser), chooser, ensue.restore)
    ordered = pattern.summarize(counted, **options)
    if sigma == math.inf:
        assert summary.result() == ordered.result()
    summary.advance(41)
    assert summary.result() == ordered.result()
    assert summary.events().to_pylist() == ordered.events().to_pylist()
    final = summary.end()
    counts = {row.get("key"): int(row["count"]) for row in final.to_pylist()}
    if pattern.query.partition_by:
        assert counts == {key: found["count"] for key, found in ordered.result().items()}
    summary = ensue.restore(summary.snapshot())
    assert summary.result() == ordered.result()  # until the next event
    summary.insert([{"key": "p", "t": 50, "id": 50, "kind": "A", "x": 1}]).advance(60)
    assert summary.events().num_rows == 1


@pytest.mark.parametrize("seed", range(6))
def test_ahead_of_the_watermark_it_answers_for_all_that_has_come(seed: int) -> None:
    chooser = random.Random(seed)
    pattern, options = PAIR.partition_by("key"), OPTIONS[seed % 3]
    summary = pattern.summarize(**options, speculation=math.inf)
    rows = events(chooser).to_pylist()
    chooser.shuffle(rows)
    for place in range(len(rows)):
        summary.insert(rows[place : place + 1])
        known = sorted(rows[: place + 1], key=lambda row: row["t"])
        ordered = pattern.summarize(pa.Table.from_pylist(known, SCHEMA), **options)
        assert summary.result() == ordered.result()


def row(key: str, t: int, kind: str, number: int = 0) -> dict[str, Any]:
    return {"key": key, "t": t, "id": number or t, "kind": kind, "x": 1}


def test_what_waits_what_is_late_and_what_is_rejected() -> None:
    summary = PAIR.summarize(size=9, delay=2, id="id")
    summary.insert([row("p", 3, "C"), row("p", 1, "A"), row("p", 1, "A")])
    assert summary.result() == {"count": 0} and summary.metrics.duplicates == 1
    summary.insert([row("p", 9, "A")])
    assert summary.result() == {"count": 1} and summary.watermark == 7
    summary.insert([row("p", 2, "B"), {**row("p", 9, "C"), "x": 5}])
    summary.retract([row("p", 1, "A"), row("p", 9, "A")])
    assert summary.take_late().num_rows == 1 and summary.late.num_rows == 0
    assert len(summary.take_rejected()) == 2
    told = summary.metrics
    assert (told.rows, told.late, told.rejected, told.retracted) == (8, 1, 2, 1)
    assert summary.events()["t"].to_pylist() == [1, 3]
    assert summary.contribution()["matches"].to_pylist() == [1, 1]
    assert "speculation 0" in summary.explain()


def test_a_key_that_ends_gives_its_answer_and_starts_afresh() -> None:
    summary = PAIR.partition_by("key").summarize(size=9, speculation=math.inf)
    summary.insert([row(key, t, "AC"[t % 2]) for key in "pq" for t in range(4)])
    (final,) = summary.end(["p"]).to_pylist()
    assert (final["key"], int(final["count"]), len(final["events"])) == ("p", 3, 4)
    assert summary.result() == {"q": {"count": 3}}
    summary.insert([row("p", 1, "A"), row("p", 2, "C")])
    assert summary.result() == {"q": {"count": 3}, "p": {"count": 1}}


def test_what_it_refuses() -> None:
    summary = PAIR.summarize(size=9, speculation=0)
    with pytest.raises(errors.StateError, match="no events have arrived yet"):
        summary.snapshot()
    with pytest.raises(errors.UnsupportedError, match="does not support a pattern that changes"):
        summary.revise(add={"other": PAIR})
    with pytest.raises(errors.UnknownColumnError, match="no column 'number'"):
        PAIR.summarize(size=9, id="number").insert([row("p", 1, "A")])
    with pytest.raises(errors.QueryError, match="no order_by"):
        ensue.pattern("A B", types="kind").select("any").summarize(size=9, speculation=0)
    with pytest.raises(errors.QueryError, match="positive number of events"):
        PAIR.summarize(size=0, speculation=0)
