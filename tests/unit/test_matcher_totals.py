"""Aggregates over events as they come: the net of all changes is `q.aggregate` of the rest."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from tests.disorder import SCHEMA, arrived, canonical, events, net, withdrawn

ASKED = {"n": "count(*)", "s": "sum(A.x)", "least": "min(B.x)", "mean": "avg(B.x)"}
TEXTS = ["A ->> B", "A -> B", "A ->> B+ ->> C", "A ->> !C ->> B", "A ->> B ->> !C", "B ->> B"]
SIGMAS = (0, 0, 3, math.inf, math.inf)


def pattern(chooser: random.Random) -> ensue.Pattern:
    text = chooser.choice(TEXTS)
    made = ensue.pattern(text, types="kind").partition_by("key").order_by("t")
    if text.endswith("!C") or chooser.random() < 0.6:
        made = made.within(chooser.choice([2, 5, 11]))
    if "A" in text and "B" in text and chooser.random() < 0.3:
        made = made.define(B="x >= A.x")
    return made


def asked_of(made: ensue.Pattern) -> dict[str, str]:
    return {n: a for n, a in ASKED.items() if "A." not in a or "A" in made.query.labels}


@pytest.mark.parametrize("seed", range(40))
def test_the_net_of_all_changes_is_the_batch_answer(seed: int) -> None:
    chooser = random.Random(seed)
    made = pattern(chooser)
    how: dict[str, Any] = {"by": chooser.choice([(), "key"])}
    if chooser.random() < 0.4:
        how |= {"every": chooser.choice([4, 10])}
    sigma = chooser.choice(SIGMAS)
    matcher = made.matcher(
        aggregate=asked_of(made), speculation=sigma, id="id", schema=SCHEMA, **how
    )
    out, matcher, counted = arrived(matcher, events(chooser), chooser, ensue.restore)
    before = matcher.result().to_pylist()
    standing = net(out)
    if "every" not in how and out:
        assert canonical(before) == canonical(standing)
    out.append(matcher.end())
    wanted = made.aggregate(counted, **how, **asked_of(made), as_of="end").to_pylist()
    assert canonical(net(out)) == canonical(wanted)
    if "every" not in how:
        assert canonical(matcher.result().to_pylist()) == canonical(wanted)
        matcher = ensue.restore(matcher.snapshot())
        assert canonical(matcher.result().to_pylist()) == canonical(wanted)


@pytest.mark.parametrize("seed", range(8))
def test_speculation_holds_what_a_run_over_the_events_so_far_gives(seed: int) -> None:
    chooser = random.Random(seed)
    made = pattern(chooser)
    if made.query.labels[-1] == "C":  # an absence needs the end, or time
        made = ensue.pattern("A ->> B", types="kind").partition_by("key").order_by("t")
    asked = asked_of(made)
    matcher = made.matcher(aggregate=asked, by="key", speculation=math.inf, schema=SCHEMA)
    rows = events(chooser).to_pylist()
    chooser.shuffle(rows)
    for place in range(len(rows)):
        matcher.insert(rows[place : place + 1])
        known = pa.Table.from_pylist(sorted(rows[: place + 1], key=lambda r: r["t"]), SCHEMA)
        wanted = made.aggregate(known, by="key", **asked).to_pylist()
        assert canonical(matcher.result().to_pylist()) == canonical(wanted)


PAIR = ensue.pattern("A ->> B", types="kind").partition_by("key").order_by("t")


def row(key: str, t: int, kind: str, x: int = 1) -> dict[str, Any]:
    return {"key": key, "t": t, "id": t, "kind": kind, "x": x}


def test_a_change_takes_the_old_total_back_and_gives_the_new_one() -> None:
    matcher = PAIR.matcher(aggregate={"n": "count(*)"}, by="key", speculation=math.inf)
    matcher.insert([row("p", 1, "A"), row("q", 2, "A"), row("q", 3, "B")])
    changes = matcher.insert([row("q", 4, "B")]).to_pylist()
    assert [(c["op"], c["key"], c["n"]) for c in changes] == [("-", "q", 1), ("+", "q", 2)]
    assert changes[0]["match_id"] == changes[1]["match_id"]
    assert matcher.retract([row("q", 2, "A")]).to_pylist()[0]["op"] == "-"
    assert matcher.result().num_rows == 0
    assert matcher.metrics.retracted == 1


def test_without_speculation_a_total_only_grows_when_the_watermark_passes() -> None:
    matcher = PAIR.matcher(aggregate={"n": "count(*)"}, delay=2)
    assert net([matcher.insert([row("p", 2, "B"), row("p", 1, "A")])]) == [{"n": 0}]
    told = [matcher.insert([row("p", t, "B")]) for t in (3, 5, 9)]
    assert [c["n"] for table in told for c in table.to_pylist() if c["op"] == "+"] == [1, 3]
    matcher.insert([row("p", 4, "A")])
    assert matcher.late.num_rows == 1
    assert withdrawn(told) == 2  # each total replaces the one before it


def test_a_window_that_is_over_is_final_and_leaves_the_result() -> None:
    matcher = PAIR.within(3).matcher(aggregate={"n": "count(*)"}, every=10)
    matcher.insert([row("p", 1, "A"), row("p", 2, "B"), row("p", 21, "A"), row("p", 22, "B")])
    matcher.advance(23)
    (standing,) = matcher.result().to_pylist()
    assert (standing["window_start"], standing["window_end"]) == (20, 30)


def test_what_a_matcher_of_aggregates_refuses() -> None:
    asked = {"n": "count(*)"}
    matcher = PAIR.matcher(aggregate=asked, schema=SCHEMA)
    with pytest.raises(errors.UnsupportedError, match="does not support a pattern that changes"):
        matcher.revise(add={"other": PAIR})
    with pytest.raises(errors.UnsupportedError, match="does not support a result on demand"):
        PAIR.matcher(schema=SCHEMA).result()
    with pytest.raises(errors.QueryError, match="belong to aggregates, and none was given"):
        PAIR.matcher(by="key")
    with pytest.raises(errors.UnsupportedError, match="takes no budget"):
        PAIR.matcher(aggregate=asked, schema=SCHEMA, budget=ensue.Budget(work=5))
    with pytest.raises(errors.UnsupportedError, match="takes no settle"):
        PAIR.matcher(aggregate=asked, schema=SCHEMA, speculation=math.inf, settle=0)
    with pytest.raises(errors.StateError, match="no events have arrived yet"):
        PAIR.matcher(aggregate=asked).result()
    rows = ensue.pattern("A B", types="kind").partition_by("key").order_by("t")
    with pytest.raises(errors.UnsupportedError, match="event pattern"):
        rows.matcher(aggregate=asked, schema=SCHEMA)
