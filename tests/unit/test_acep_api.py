"""allow_missing as users meet it: columns, refusals, warnings, explain."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.query.missing import NearlyEverythingMatchesWarning

TRIPS = pa.table(
    {
        "car": [1, 1, 1, 1, 2, 2, 2],
        "ts": [1, 2, 3, 4, 1, 2, 3],
        "kind": ["start", "gps", "gps", "payment", "start", "gps", "stop"],
        "fare": [0, 0, 0, 9, 0, 0, 0],
    }
)


def trip(text: str = "start ->> gps ->> payment") -> Any:
    return ensue.pattern(text, types="kind").partition_by("car").order_by("ts").within(10)


def test_columns_of_the_listing() -> None:
    found = trip().allow_missing(1).matches(TRIPS)
    assert found.column_names == [
        "car", "match_number", "first", "last", "events", "errors", "missing", "missing_at",
    ]  # fmt: skip
    assert found.schema.field("errors").type == pa.int64()
    assert found.schema.field("missing").type == pa.list_(pa.string())
    second = [m for m in found.to_pylist() if m["car"] == 2]
    assert second == [
        {"car": 2, "match_number": 1, "first": 1, "last": 2, "errors": 1,
         "events": [{"label": "start", "row": 0}, {"label": "gps", "row": 1}],
         "missing": ["payment"], "missing_at": [2]},
    ]  # fmt: skip


def test_measures_keep_what_was_missing() -> None:
    found = trip().measures(fare="payment.fare", n="count(*)").allow_missing(1).matches(TRIPS)
    assert found.column_names == ["car", "fare", "n", "errors", "missing", "missing_at"]
    lacking = [m for m in found.to_pylist() if m["missing"] == ["payment"]]
    assert lacking and all(m["fare"] is None for m in lacking)


def test_weights_bound_the_total() -> None:
    light = trip().allow_missing(0.5, missing={"gps": 0.5, "payment": 3}).matches(TRIPS)
    assert light.schema.field("errors").type == pa.float64()
    assert {(m["errors"], *m["missing"]) for m in light.to_pylist()} == {(0.0,), (0.5, "gps")}
    heavy = trip().allow_missing(3, missing={"gps": 0.5, "payment": 3}, required=["start"])
    assert {m["car"] for m in heavy.matches(TRIPS).to_pylist()} == {1, 2}


def test_required_events_must_be_there() -> None:
    found = trip().allow_missing(1, required=["payment"]).matches(TRIPS)
    assert {m["car"] for m in found.to_pylist()} == {1}
    assert all("payment" not in m["missing"] for m in found.to_pylist())


def test_other_kinds_of_tables_and_limits() -> None:
    assert list(trip().allow_missing(1).matches(TRIPS.to_pandas()).columns)[-1] == "missing_at"
    assert len(trip().allow_missing(1).matches(TRIPS, limit=2)) == 2
    conditions = trip().define(payment="ts > gps.ts").allow_missing(1)
    assert len(conditions.matches(TRIPS, limit=2)) == 2
    with pytest.raises(errors.LimitError, match="max_matches"):
        conditions.matches(TRIPS, max_matches=1)
    empty = TRIPS.slice(0, 0)
    for pattern in (trip().allow_missing(1), conditions):
        assert pattern.matches(empty).schema.names == pattern.matches(TRIPS).schema.names
        assert pattern.matches(empty, budget=ensue.Budget(work=5)).num_rows == 0


def test_count_is_the_number_of_matches() -> None:
    pattern = trip().allow_missing(1)
    found = pattern.measures(fare="payment.fare").matches(TRIPS)["fare"].to_pylist()
    assert pattern.count(TRIPS) == len(found) > 0
    total = pattern.aggregate(TRIPS, total="sum(payment.fare)")["total"].to_pylist()
    assert total == [sum(fare for fare in found if fare is not None)]
    with pytest.raises(errors.UnsupportedError, match="allow_missing"):
        trip().define(payment="ts > gps.ts").allow_missing(1).count(TRIPS)
    with pytest.raises(errors.UnsupportedError, match="allow_missing"):
        pattern.summarize(size=10)


def test_explain_names_the_engine_and_the_reason() -> None:
    text = trip().allow_missing(1).explain()
    assert "at most 1 missing" in text and "shared match graph" in text
    assert "match nodes" in trip().define(payment="ts > gps.ts").allow_missing(1).explain()


def test_a_chain_can_allow_missing_events() -> None:
    chain = ensue.begin("a").where("kind = 'start'").followed_by_any("b").where("kind = 'payment'")
    found = chain.order_by("ts").partition_by("car").within(9).allow_missing(1, required=["a"])
    assert {tuple(m["missing"]) for m in found.matches(TRIPS).to_pylist()} == {(), ("b",)}


def test_the_empty_match_is_never_reported_and_generous_bounds_warn() -> None:
    with pytest.warns(NearlyEverythingMatchesWarning, match="nearly everything matches"):
        pattern = trip().allow_missing(3)
    assert all(m["events"] for m in pattern.matches(TRIPS).to_pylist())
    with pytest.warns(NearlyEverythingMatchesWarning):
        trip("start ->> gps* ->> payment").allow_missing(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trip().allow_missing(2)
        trip().allow_missing(0)
        trip().allow_missing(5, required=["start"])
        trip().allow_missing(2, missing={"gps": 3})


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [-1, -0.5, float("nan"), float("inf"), "2", None, True])
def test_a_bound_that_is_no_number(k: Any) -> None:
    with pytest.raises(errors.QueryError, match=r"allow_missing\(k\)"):
        trip().allow_missing(k)


def test_a_broken_bound_needs_weights() -> None:
    with pytest.raises(errors.QueryError, match="counts events"):
        trip().allow_missing(1.5)


@pytest.mark.parametrize("weight", [-1, float("nan"), "much"])
def test_a_weight_that_is_none(weight: Any) -> None:
    with pytest.raises(errors.QueryError, match="'gps'"):
        trip().allow_missing(1, missing={"gps": weight})


def test_unknown_and_contradictory_names() -> None:
    with pytest.raises(errors.UnknownVariableError, match="'fuel'"):
        trip().allow_missing(1, missing={"fuel": 2})
    with pytest.raises(errors.UnknownVariableError, match="'fuel'"):
        trip().allow_missing(1, required=["fuel"])
    with pytest.raises(errors.QueryError, match="has a weight for being missing and is required"):
        trip().allow_missing(1, missing={"gps": 2}, required=["gps"])
    with pytest.raises(errors.QueryError, match="does not know speed"):
        trip().allow_missing(1, speed=3)


@pytest.mark.parametrize(
    "text", ["start ->> !stop ->> payment", "start ->> payment ->> !stop", "start -> !stop -> gps"]
)
def test_negated_steps(text: str) -> None:
    with pytest.raises(errors.QueryError, match="negated"):
        trip(text).allow_missing(1).matches(TRIPS)
    with pytest.raises(errors.QueryError, match="'stop', which is negated"):
        trip(text).allow_missing(1, missing={"stop": 1}).matches(TRIPS)


def test_without_and_until() -> None:
    with pytest.raises(errors.QueryError, match="without"):
        trip().without(stop="kind = 'stop'").allow_missing(1).matches(TRIPS)


@pytest.mark.parametrize(
    "text, word",
    [
        ("start -> gps ->> payment", "next"),
        ("start ->> (gps payment)", "strict"),
        ("gps+[strict] ->> payment", "strict"),
        ("start gps", "strict"),
        ("start ->> within 5 us gps", "bounded joint"),
    ],
)
def test_joints_that_are_not_skip_till_any(text: str, word: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=word):
        trip(text).allow_missing(1).matches(TRIPS)


def test_other_refusals() -> None:
    with pytest.raises(errors.UnsupportedError, match="after-match"):
        trip().after_match("past last row").allow_missing(1).matches(TRIPS)
    with pytest.raises(errors.UnsupportedError, match="timeouts"):
        trip().allow_missing(1).matches(TRIPS, timeouts=True)
    with pytest.raises(errors.ReservedNameError, match="errors"):
        trip().measures(errors="count(*)").allow_missing(1).matches(TRIPS)
    greedy = ensue.begin("a").where("kind = 'gps'").one_or_more().allow_combinations().greedy()
    with pytest.raises(errors.UnsupportedError, match="greedy"):
        greedy.followed_by_any("b").order_by("ts").allow_missing(1).matches(TRIPS)


@pytest.mark.parametrize(
    "budget, said",
    [
        (ensue.Budget(work=0), "leaves nothing"),
        (ensue.Budget(work=-3), "work=-3 is not an amount of work"),
        (ensue.Budget(latency="0 ms"), "leaves nothing"),
        (ensue.Budget(latency="0%"), "latency='0%' is not a share"),
        (ensue.Budget(work="many"), "not an amount of work"),
        (ensue.Budget(latency={"q": "1 ms"}), "take one latency, not one per pattern"),
        (ensue.Budget(), "the budget has no bound"),
        (ensue.Budget(work=3, latency="1 ms"), "take one bound at a time"),
        (ensue.Budget(memory="1 MB"), "take no bound on memory"),
    ],
)
def test_budgets_that_cannot_be_kept(budget: Any, said: str) -> None:
    with pytest.raises((errors.QueryError, errors.UnsupportedError), match=said):
        trip().allow_missing(1).matches(TRIPS, budget=budget)


def test_a_budget_needs_a_window() -> None:
    unbounded = ensue.pattern("start ->> gps", types="kind").order_by("ts").allow_missing(1)
    with pytest.raises(errors.QueryError, match="needs a window"):
        unbounded.matches(TRIPS, budget=ensue.Budget(work=3))


@pytest.mark.parametrize(
    "options", [{"adapt": "never"}, {"history": 0}, {"learn": -1}, {"sketch": 1}, {"sketch": "x"}]
)
def test_options_that_make_no_sense(options: Any) -> None:
    with pytest.raises(errors.QueryError, match="allow_missing"):
        trip().allow_missing(1, **options)


def test_recover_needs_what_it_reads() -> None:
    found = trip().allow_missing(1).matches(TRIPS)
    assert len(trip().allow_missing(1).recover(TRIPS, found)) == len(found)
    assert len(trip().allow_missing(1).recover(TRIPS, found.slice(0, 0))) == 0
    with pytest.raises(errors.QueryError, match="recover"):
        trip().recover(TRIPS, found)
    with pytest.raises(errors.UnsupportedError, match="measures"):
        trip().measures(n="count(*)").allow_missing(1).recover(TRIPS, found)


# -- beside other runners -------------------------------------------------------------------------


def test_a_matcher_reports_them_as_events_come() -> None:
    pattern = trip().allow_missing(1)
    matcher = pattern.matcher()
    rows = TRIPS.sort_by([("ts", "ascending"), ("car", "ascending")])
    found = [matcher.insert(rows.slice(begin, 3)) for begin in (0, 3, 6)]
    found.append(matcher.end())
    got = [row for piece in found for row in piece.to_pylist()]
    assert {row["op"] for row in got} == {"+"}

    def told(match: Any) -> Any:
        return match["car"], match["first"], match["last"], match["errors"], *match["missing"]

    assert sorted(map(told, got)) == sorted(map(told, pattern.matches(TRIPS).to_pylist()))


def test_a_workload_has_exact_and_approximate_patterns() -> None:
    exact = ensue.pattern("start ->> gps", types="kind").partition_by("car").order_by("ts")
    loose = trip().allow_missing(1)
    found = ensue.workload(exact=exact.within(10), loose=loose).matches(TRIPS).to_pylist()
    counts = {name: sum(row["pattern"] == name for row in found) for name in ("exact", "loose")}
    assert counts == {"exact": 3, "loose": len(loose.matches(TRIPS))}
    assert all(row["errors"] is None for row in found if row["pattern"] == "exact")


def test_recover_takes_the_matches_of_the_table() -> None:
    table = pa.table({"car": [1, 1, 2], "t": [1, 2, 3], "kind": ["start", "gps", "start"]})
    q = ensue.pattern("start ->> gps", types="kind").partition_by("car").order_by("t").within(9)
    q = q.allow_missing(1, required=["start"])
    found = q.matches(table)
    assert q.recover(table, found).num_rows == found.num_rows == 3
    with pytest.raises(errors.QueryError, match="was given the columns car, t, kind"):
        q.recover(table, table)
    for part in (table.slice(0, 1), table.slice(0, 2)):
        with pytest.raises(errors.QueryError, match="which the table does not have"):
            q.recover(part, found)


def test_a_proxy_is_refused_with_or_without_a_budget() -> None:
    table = pa.table({"t": [1, 2], "kind": ["A", "B"], "x": [1, 2]})
    q = ensue.pattern("A ->> B", types="kind").define(B="x > A.x").order_by("t").within(9)
    q = q.allow_missing(1, proxy=True)
    for options in ({}, {"budget": ensue.Budget(work=5)}):
        with pytest.raises(errors.UnsupportedError, match="keeps only the latest start"):
            q.matches(table, **options)
