"""A query that cannot match says so, and why; `explain(data)` counts the rows of each variable."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors, extras
from ensue.run import nothing

CLICKS = pa.table(
    {
        "user": ["a", "a", "a", "b", "b", None],
        "ts": [1, 2, 3, 1, 2, 3],
        "kind": ["pv", "cart", "buy", "pv", "cart", "buy"],
        "close": [1.0, 4.0, None, 6.0, 2.0, 9.0],
    }
)


def events(text: str) -> ensue.api.pattern.Pattern:
    return ensue.pattern(text, types="kind").partition_by("user").order_by("ts")


def quiet(call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


@pytest.mark.parametrize("text", ["pvv -> buy", "pvv buy", "(pvv | pww) -> buy"])
@pytest.mark.parametrize("verb", ["matches", "count"])
def test_a_type_that_does_not_occur_is_named_with_the_nearest(text: str, verb: str) -> None:
    query = events(text)
    told_of = r"pvv: no row has kind = 'pvv'; the nearest value is 'pv'"
    with pytest.warns(errors.NothingMatchesWarning, match=told_of) as told:
        getattr(query, verb)(CLICKS)
        getattr(query, verb)(CLICKS.to_pandas())
    assert len(told) == 1
    assert told[0].filename == __file__


def test_wrong_case_is_named_as_such() -> None:
    with pytest.warns(errors.NothingMatchesWarning, match="has 'buy', and upper and lower case"):
        events("pv -> BUY").matches(CLICKS)


@pytest.mark.parametrize("text", ["pv -> pvv?", "pv -> (buy | pvv)", "pv !pvv -> buy", "buy -> pv"])
def test_what_a_match_does_not_need_is_no_reason(text: str) -> None:
    quiet(lambda: events(text).matches(CLICKS))
    quiet(lambda: events(text).count(CLICKS))
    quiet(lambda: events("pvv -> buy").matches(CLICKS.slice(0, 0)))


@pytest.mark.parametrize("solver", [True, False])
def test_a_condition_that_no_value_satisfies(solver: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not solver:
        monkeypatch.setattr(nothing, "alphabet", lambda *_: extras.needed("z3", "this"))
        monkeypatch.setattr(extras, "import_module", _absent)
    query = ensue.pattern("A B").define(A="close > 5 AND close < 3").order_by("ts", ties="ignore")
    with pytest.warns(errors.NothingMatchesWarning, match=r"no value can satisfy .close > 5. AND"):
        query.matches(CLICKS)
    for held in ("close >= 9 AND close <= 9 AND ts > 8", "close > 5 AND kind > 'x' AND kind > 'a'"):
        with pytest.warns(errors.NothingMatchesWarning, match="no row has"):
            query.define(A=held).matches(CLICKS)
    possible = query.define(A="close > 5 AND close < 5.5")
    with pytest.warns(errors.NothingMatchesWarning) as told:
        possible.matches(CLICKS)
    assert "no row has close < 5.5 of the 2 with close > 5" in str(told[0].message)


def _absent(name: str) -> Any:
    raise ModuleNotFoundError(name=name)


@pytest.mark.parametrize(
    ("condition", "told_of"),
    [
        ("close > 50", "the column is from 1.0 to 9.0"),
        ("ts BETWEEN 10 AND 20", "the column is from 1 to 3"),
        ("kind IN ('Buy', 'carts')", "the column has 'buy', and upper and lower case differ"),
        ("kind IN ('carts', 'pvv')", "the nearest values are 'cart', 'pv'"),
    ],
)
def test_what_the_column_holds_is_told(condition: str, told_of: str) -> None:
    query = ensue.pattern("A B").define(A=condition).order_by("ts", ties="ignore")
    with pytest.warns(errors.NothingMatchesWarning, match=told_of):
        query.matches(CLICKS)


def test_a_summary_of_nothing_says_why() -> None:
    with pytest.warns(errors.NothingMatchesWarning, match="the nearest value is 'pv'"):
        events("pvv ->> buy").within(9).summarize(CLICKS, size=3)


def test_a_condition_on_neighbours_that_no_row_satisfies() -> None:
    query = ensue.pattern("A").define(A="ts > PREV(ts) + 7").order_by("ts", ties="ignore")
    with pytest.warns(errors.NothingMatchesWarning, match=r"A: no row satisfies ts > "):
        query.matches(CLICKS)


def test_a_workload_names_all_patterns_in_one_warning() -> None:
    load = ensue.workload(a=events("pvv -> buy"), b=events("pv -> cart"), c=events("pv BUY"))
    with pytest.warns(errors.NothingMatchesWarning) as told:
        load.matches(CLICKS)
        load.matches(CLICKS)
    assert len(told) == 1
    assert "a, pvv: no row" in str(told[0].message)
    assert "c, BUY: no row" in str(told[0].message)
    assert "b, " not in str(told[0].message)
    assert "a: Data: 6 rows" in load.explain(CLICKS)


@pytest.mark.parametrize("text", ["pv -> BUY", "pv BUY"])
def test_explain_counts_rows_and_nulls(text: str) -> None:
    told = events(text).define(pv="close > 1").explain(CLICKS)
    assert "Data: 6 rows" in told
    assert "pv: 1 (16.7%)" in told
    assert "BUY: 0 (0.0%): no row has kind = 'BUY'; the column has 'buy'" in told
    assert "kind 0.0%, close 16.7%" in told
    assert "Data" not in events(text).explain()


def test_explain_counts_attempts_by_the_place_they_reach() -> None:
    told = events("pv cart BUY").explain(CLICKS).replace('"', "")
    assert "rows that begin an attempt, by the place they reach" in told
    assert "    pv: 2\n    pv cart: 2\n    pv cart BUY: 0\n" in told
    told = events("pv -> !cart -> buy").explain(CLICKS).replace('"', "")
    assert "partial matches, by the place they reach\n    pv: 2\n    pv -> !cart -> buy: 0" in told


def test_sql_says_why_nothing_matches() -> None:
    clause = "MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES A.ts AS t PATTERN (A)"
    text = f"SELECT * FROM clicks {clause} DEFINE A AS kind = 'CART')"
    with pytest.warns(errors.NothingMatchesWarning, match="the column has 'cart'"):
        assert len(ensue.sql(text, clicks=CLICKS)) == 0


def test_a_number_beyond_all_numbers_is_no_crash() -> None:
    pattern = ensue.pattern("A").order_by("t").define(A="t = 1e999 OR t BETWEEN 1e999 AND 2")
    with pytest.warns(errors.NothingMatchesWarning):
        assert pattern.count(pa.table({"t": [1, 2]})) == 0
