"""What the studio answers, compared with what the library says of the same query."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ensue
from ensue.studio import answer, lanes, sources
from ensue.studio.samples import SAMPLES
from ensue.studio.session import CancelledError, PlacedError, Session, error_message
from ensue.studio.texts import Typed
from ensue.studio.worker import plain

TURNS = {
    "language": "pattern",
    "text": "A B+ C",
    "options": {
        "define": "B: price < PREV(price)\nC: price > PREV(price) AND price > 7",
        "partition_by": "symbol",
        "order_by": "ts",
        "measures": "bottom: LAST(B.price)",
    },
}
ARROWS = {"language": "pattern", "text": "A ->> B", "options": {"define": "B: price > A.price"}}
PRICES = pa.table(
    {
        "symbol": ["b"] * 6 + ["a"] * 5 + [None],
        "ts": [6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 9],
        "price": [9.0, 8.0, 4.0, 8.0, 6.0, 9.0, 3.0, 2.0, 1.0, 4.0, math.nan, 1.0],
        "note": [f"n{i}" for i in range(12)],
    }
)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session({"prices": PRICES, "empty": PRICES.slice(0, 0)})


def ask(session: Session, method: str, **params: Any) -> Any:
    """The result, as it goes over the wire."""
    found = session.call(method, params)
    return json.loads(json.dumps(plain(found), allow_nan=False))


def refused(session: Session, method: str, **params: Any) -> dict[str, Any]:
    with pytest.raises((ensue.EnsueError, PlacedError)) as caught:
        session.call(method, params)
    return error_message(caught.value)


def test_matches_are_those_of_the_library(session: Session) -> None:
    about = {"source": "prices", "query": TURNS}
    found = ask(session, "run", **about)
    query = (
        ensue.pattern("A B+ C")
        .define(B="price < PREV(price)", C="price > PREV(price) AND price > 7")
        .partition_by("symbol").order_by("ts")
    )  # fmt: skip
    listed = query.matches(PRICES).to_pylist()
    assert found["matches"] == len(listed) == 1 and found["keys"] == 3
    assert [c["name"] for c in found["columns"]] == ["#key", "#match", "symbol", "bottom"]
    (row,) = found["rows"]
    assert row[1:] == [1, "b", 6.0]
    keys = {k["key"]: k for k in ask(session, "keys", **about)["keys"]}
    assert {k["label"]: (k["rows"], k["matches"]) for k in keys.values()} == {
        "b": (6, 1), "a": (5, 0), "null": (1, 0),
    }  # fmt: skip
    assert keys[row[0]]["label"] == "b"
    match = ask(session, "match", **about, key=row[0], number=1)
    assert [(e["label"], e["row"]) for e in match["rows"]] == [
        (e["label"], e["row"]) for e in listed[0]["events"]
    ]
    assert dict(match["rows"][0]["values"])["ts"] == listed[0]["first"]
    assert match["measures"] == [["bottom", 6.0]]
    assert ask(session, "keys", **about, search="UL")["total"] == 1
    assert ask(session, "keys", **about, sort="-rows", limit=1)["keys"][0]["label"] == "b"


def test_lanes_near_and_far(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"source": "prices", "query": TURNS}
    keys = [k["key"] for k in ask(session, "keys", **about)["keys"]]
    near = ask(session, "lanes", **about, keys=keys, width=40)
    assert near["axis"] == "number" and not near["far"] and (near["from"], near["to"]) == (1, 9)
    lane = next(lane for lane in near["lanes"] if lane["label"] == "b")
    assert lane["points"]["at"] == [1, 2, 3, 4, 5, 6]
    names = near["variables"]
    assert [n if n is None else names[n] for n in lane["points"]["label"]] == [
        "A", "B", "C", None, None, None,
    ]  # fmt: skip
    # A fits everywhere, B where the price falls, C where it rises above 7.
    fits = [[names[n] for n in row] for row in lane["points"]["fits"]]
    assert fits == [["A"], ["A", "B"], ["A", "C"], ["A", "B"], ["A", "C"], ["A", "C"]]
    assert [names[n] for n in near["telling"]] == ["B", "C"]  # A says nothing of a row
    (bracket,) = lane["matches"]
    assert (bracket["from"], bracket["to"], bracket["measures"]) == (1, 3, {"bottom": 6.0})
    part = ask(session, "lanes", **about, keys=keys, **{"from": 2, "to": 4})
    assert [lane["rows"] for lane in part["lanes"]] == [
        sum(
            2 <= t <= 4
            for t, s in zip(*(PRICES[n].to_pylist() for n in ("ts", "symbol")), strict=True)
            if s == k
        )
        for k in [{"null": None}.get(lane["label"], lane["label"]) for lane in part["lanes"]]
    ]
    monkeypatch.setattr(lanes, "MIN_DENSE", 3)
    assert ask(session, "lanes", **about, keys=keys, width=9)["far"]  # six rows in nine pixels
    assert not ask(session, "lanes", **about, keys=keys, width=40)["far"]
    monkeypatch.setattr(lanes, "MAX_ROWS", 3)
    far = ask(session, "lanes", **about, keys=keys, width=40)
    assert far["far"] and far["buckets"] == 10
    lane = next(lane for lane in far["lanes"] if lane["label"] == "b")
    assert sum(lane["buckets"]["rows"]) == 6 and sum(lane["buckets"]["matches"]) == 1
    assert {n: sum(c) for n, c in lane["buckets"]["counts"].items()} == {"A": 1, "B": 1, "C": 1}
    assert refused(session, "lanes", **about, keys=[99])["class"] == "QueryError"


def test_why_is_that_of_the_library(session: Session) -> None:
    about = {"source": "prices", "query": TURNS}
    pattern = session.answer(about).pattern
    told = {row["symbol"]: row for row in pattern.why(PRICES).to_pylist()}
    found = ask(session, "why", **about)
    assert sum(count for _, count in found["reasons"]) == len(told) == found["total"]
    for attempt in found["attempts"]:
        one = told[None if attempt["label"] == "null" else attempt["label"]]
        for name in ("matched", "variable", "reason", "text", "matches"):
            assert attempt[name] == one[name]
        assert attempt["at"] == one["stopped_at"]
    best = {k["label"]: k["best"] for k in ask(session, "keys", **about)["keys"]}
    assert best["b"]["reason"] == told["b"]["reason"]
    key = found["attempts"][0]["key"]
    starts = ask(session, "why", **about, key=key, per="start")
    assert [a["start_row"] for a in starts["attempts"]] == list(range(starts["total"]))
    funnel = ask(session, "funnel", **about)
    rows = pattern.funnel_of_attempts(PRICES).to_pylist()
    assert funnel["matched"] == rows[-1]["reached"]
    assert [(s["variable"], s["reached"]) for s in funnel["steps"]] == list(
        dict.fromkeys((r["variable"], r["reached"]) for r in rows[:-1])
    )
    some = ask(session, "why", **about, reason="no start")
    assert {a["reason"] for a in some["attempts"]} <= {"no start"}


def test_steps_and_near_misses(session: Session) -> None:
    about = {"source": "prices", "query": TURNS}
    pattern = session.answer(about).pattern
    keys = {k["label"]: k["key"] for k in ask(session, "keys", **about)["keys"]}
    states = {state["id"] for state in ask(session, "read", **about)["automaton"]["states"]}
    for label, value in (("b", "b"), ("null", None)):
        told = pattern.trace(PRICES, key=value).to_pylist()
        found = ask(session, "trace", **about, key=keys[label], limit=1_000)
        assert found["total"] == len(found["steps"]) == len(told) and found["cut"] is None
        assert found["steps"] == told
        assert {place for step in told for place in step["places"]} <= states
    wrong = ask(session, "expected", **about, key=keys["b"], rows={"A": 0, "B": 1, "C": 4})
    rows = {"A": 0, "B": [1], "C": 4}
    (one,) = pattern.why(PRICES, rows=rows, key={"symbol": "b"}).to_pylist()
    assert wrong["reason"] == one["reason"] is not None and wrong["at"] == one["stopped_at"]
    right = ask(session, "expected", **about, key=keys["b"], rows={"A": 0, "B": 1, "C": 2})
    assert right["reason"] is None
    part = ask(session, "trace", **about, key=keys["b"], **{"from": 3, "limit": 2})
    assert [step["step"] for step in part["steps"]] == [3, 4] and part["chosen"] is None
    last = told[-1]
    at = {"row": last["row"], "start": last["start"], "limit": 2}
    around = ask(session, "trace", **about, key=keys["null"], **at)
    assert around["chosen"] == 0 or around["steps"][1]["step"] == around["chosen"]
    here = next(s for s in told if (s["row"], s["start"]) == (last["row"], last["start"]))
    assert around["chosen"] == here["step"]
    misses = ask(session, "nearest", **about, n=4)["misses"]
    for miss, one in zip(misses, pattern.nearest(PRICES, 4).to_pylist(), strict=True):
        assert miss["start_row"] == one["row"] and miss["at"] == one["stopped_at"]
        assert all(miss[n] == one[n] for n in ("lacks", "missing", "matched", "reason", "text"))


def test_a_row_says_what_holds(session: Session) -> None:
    about = {"source": "prices", "query": TURNS}
    key = next(k["key"] for k in ask(session, "keys", **about)["keys"] if k["label"] == "a")
    row = ask(session, "row", **about, key=key, row=3)
    assert {v["name"]: v["holds"] for v in row["variables"]} == {"A": True, "B": False, "C": False}
    assert [p["holds"] for p in row["variables"][2]["parts"]] == [False, True] or [
        p["text"] for p in row["variables"][2]["parts"] if p["holds"] is False
    ] == ["price > 7"]
    assert row["variables"][1]["parts"][0]["values"] == "price = 4.0, PREV(price) = 1.0"
    assert dict(row["values"])["note"] == "n9"
    assert "no row 99" in refused(session, "row", **about, key=key, row=99)["message"]


def test_two_versions_are_compared(session: Session) -> None:
    looser = json.loads(json.dumps(TURNS))
    looser["options"]["define"] = "B: price < PREV(price)\nC: price > PREV(price)"
    found = ask(session, "compare", source="prices", a=TURNS, b=looser)
    before, after = (
        session.answer({"source": "prices", "query": q}).pattern for q in (TURNS, looser)
    )
    changes = before.diff(after, PRICES).to_pylist()
    assert found["appear"] == sum(c["op"] == "+" for c in changes) >= 1
    assert found["disappear"] == sum(c["op"] == "-" for c in changes)
    assert {c["op"] for c in found["changes"]} == {"+"} and found["stay"] == 1


def test_all_matches_are_counted_and_some_listed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "MAX_LISTED", 4)
    query = {**ARROWS, "text": "A ->> B ->> C"}
    found = ask(session, "run", source="prices", query=query)
    every = ensue.pattern("A ->> B ->> C").define(B="price > A.price").count(PRICES)
    assert found["matches"] == every > 4 and len(found["rows"]) == 4 and str(every) in found["cut"]
    assert any("order" in text for text in found["warnings"])
    assert ask(session, "lanes", source="prices", query=query, keys=[0])["cut"]


def test_the_cost_and_a_budget(session: Session) -> None:
    query = {**ARROWS, "options": {**ARROWS["options"], "order_by": "ts", "within": "4"}}
    free = ask(session, "cost", source="prices", query=query)
    assert free["recall"] is None and free["rows"] == 12 and free["stages"]
    bound = ask(session, "cost", source="prices", query=query, budget="50%")
    assert 0 <= bound["recall"] <= 1 and bound["kept"] <= bound["matches"] == free["matches"]
    options = {"types": "kind", "partition_by": "user_id", "order_by": "ts", "within": "1 hour"}
    steps = {"language": "pattern", "text": "view ->> cart ->> pay", "options": options}
    less, more = (
        ask(session, "cost", source="shop", query=steps, budget=share)["recall"]
        for share in ("25%", "75%")
    )
    assert 0 < less < more < 1
    refusal = refused(session, "cost", source="prices", query=TURNS, budget="50%")
    assert refusal["class"] == "UnsupportedError" and refusal["remedy"]


def test_what_is_typed_is_shown(session: Session) -> None:
    read = ask(session, "read", source="prices", query=TURNS)
    assert [v["name"] for v in read["variables"]] == ["A", "B", "C"]
    assert read["columns"][:2] == ["symbol", "ts"] and read["semantics"] == "row"
    states = read["automaton"]["states"]
    assert any(s["start"] for s in states) and any(s["accept"] for s in states)
    assert all(0 <= a["target"] < len(states) for a in read["automaton"]["arcs"])
    wrong = json.loads(json.dumps(TURNS))
    wrong["options"]["define"] = "B: prise < PREV(price)"
    error = refused(session, "read", source="prices", query=wrong)
    assert error["class"] == "UnknownColumnError"
    assert (error["place"]["field"], error["place"]["offset"], error["place"]["length"]) == (
        "define", 3, 5,
    )  # fmt: skip
    assert "read" in error["remedy"] or error["remedy"]

    def options(field: str, offset: int, query: Any = TURNS) -> list[str]:
        found = ask(session, "complete", source="prices", query=query, field=field, offset=offset)
        return [option["label"] for option in found["options"]]

    assert "price" in options("define", 5) and "symbol" in options("partition_by", 0)
    assert options("text", 1)[0] == "A"
    python = {"language": "python", "text": 'ensue.pattern("A").de'}
    assert options("text", 21, python)[0] == "define"


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_alive(session: Session, name: str) -> None:
    opened = ask(session, "open", source=name)
    assert opened["rows"] >= 1_000 and opened["suggested"]["order_by"] == "ts"
    assert opened["suggested"]["partition_by"] == opened["columns"][0]["name"]
    for question in opened["queries"]:
        about = {"source": name, "query": question["query"]}
        assert ask(session, "run", **about)["matches"] > 3, question["title"]
        feed = ask(session, "copy", **about, **{"as": "feed"})["text"]
        found: dict[str, Any] = {}
        exec(feed, found)  # the test that is offered, here made by us: it has to pass
        found["test_pattern"]()
        assert "@" in feed or "expect_nothing" in feed
        link = ask(session, "copy", **about, **{"as": "link"})["text"]
        assert ask(session, "unshare", text=link) == about
        assert Typed.of(question["query"]).key
        check_measures(session, name, question["query"])


def check_measures(session: Session, source: str, query: dict[str, Any]) -> None:
    """A row of the result names the match that it is about."""
    measures = query["options"].get("measures", "") + "\nbegan: FIRST(ts)"
    about = {
        "source": source,
        "query": {**query, "options": query["options"] | {"measures": measures}},
    }
    found = ask(session, "run", **about, limit=1_000)
    for row in found["rows"][::37]:
        match = ask(session, "match", **about, key=row[0], number=row[1])
        assert dict(match["rows"][0]["values"])["ts"] == row[-1] == dict(match["measures"])["began"]


def test_bad_input_is_told(session: Session, tmp_path: Path) -> None:
    opened = ask(session, "open", source="empty")
    assert opened["rows"] == 0 and "empty" in opened["notes"][0]
    assert ask(session, "run", source="empty", query=TURNS)["matches"] == 0
    assert ask(session, "lanes", source="empty", query=TURNS, keys=[])["lanes"] == []
    assert ask(session, "keys", source="empty", query=TURNS)["keys"] == []

    wide = {f"c{i}": np.arange(3) for i in range(5_000)}
    plain_csv = tmp_path / "mixed.csv"
    lines = [f"{i},{i}" for i in range(200_000)]
    plain_csv.write_text("\n".join(["id,x", *lines, "200000,many"]) + "\n")
    other = Session({"wide": pa.table(wide), "mixed": plain_csv})
    opened = ask(other, "open", source="wide")
    assert len(opened["columns"]) == 5_000 and "looks like time" in opened["notes"][-1]
    query = {"language": "pattern", "text": "A B", "options": {"define": "B: c4999 > 1"}}
    row = ask(other, "row", source="wide", query=query, key=0, row=2)
    assert row["values"][0] == ["c4999", 2] and len(row["values"]) == 100
    opened = ask(other, "open", source="mixed")
    assert opened["rows"] == 200_001 and "'x' has values of several types" in opened["notes"][0]

    for params in ({}, {"source": "x", "query": TURNS}, {"source": "prices", "query": {"text": 1}}):
        assert refused(session, "run", **params)["remedy"]
    assert refused(session, "run", source="prices", query={"text": "A", "language": "perl"})
    long = {"language": "pattern", "text": "A " * 200_000}
    assert refused(session, "read", query=long)["class"] == "LimitError"
    assert refused(session, "nothing")["class"] == "QueryError"


def test_a_large_file_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(
        pa.table({"id": np.arange(5_000), "ts": np.arange(5_000)}), path, row_group_size=500
    )
    monkeypatch.setenv(sources.ROWS_SETTING, "1200")
    opened = ask(Session({"events": path}), "open", source="events")
    assert opened["rows"] == opened["sampled"]["rows"] == 1_200 and opened["sampled"]["of"] == 5_000
    assert sources.ROWS_SETTING in opened["sampled"]["text"]
    monkeypatch.setenv(sources.ROWS_SETTING, "9000")
    assert ask(Session({"events": path}), "open", source="events")["sampled"] is None
    with pytest.raises(ensue.EnsueError, match="does not exist"):
        Session({"events": tmp_path / "none.parquet"})
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    assert refused(Session({"bad": tmp_path / "bad.parquet"}), "open", source="bad")["remedy"]


def test_a_call_is_cancelled_where_it_reports() -> None:
    def tell(done: int, total: int | None, text: str) -> None:
        raise CancelledError

    with pytest.raises(CancelledError):
        Session({"prices": PRICES}).call("run", {"source": "prices", "query": TURNS}, tell)
