"""What a newcomer tries: wrong arguments, odd tables, predicates no solver knows; each by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q

EVENTS = pa.table(
    {
        "x": [1, 2, 0, 5, 0, 3, 1, 0],
        "k": list("abababab"),
        "f": [1.0, math.nan, None, 2.0, -math.inf, math.inf, 0.0, -0.0],
        "ts": [0, 1, 2, 100, 101, 500, 501, 502],
    }
)
Raising = Callable[[], Any]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (lambda: q.split("1"), errors.QueryError, "split has no parts"),
        (q.choose, errors.QueryError, "choose has no parts"),
        (lambda: q.combine("1"), errors.QueryError, "combine has no parts"),
        (lambda: q.split("a", *[q.event()] * 30), errors.QueryError, "at most 26 queries"),
        (lambda: q.apply("a", 3), errors.QueryError, "apply takes queries, not int"),
        (lambda: q.windows("x", rows=3), errors.QueryError, "windows takes queries, not str"),
        (lambda: q.group_by("k", "x"), errors.QueryError, "group_by takes queries, not str"),
        (lambda: q.group_by([], q.sum("x")), errors.QueryError, "names no column"),
        (lambda: q.group_by(None, q.sum("x")), errors.QueryError, "names no column"),
        (
            lambda: q.windows(q.sum("x"), rows=True),
            errors.QueryError,
            "windows cannot have True rows",
        ),
        (lambda: q.windows(q.sum("x"), rows=2, by="ts"), errors.QueryError, "by='ts' is the col"),
        (
            lambda: q.quantile("f", 0.5, error=0),
            errors.QueryError,
            "0 is not an error of a quantile",
        ),
        (
            lambda: q.quantile("f", 0.5, error=2),
            errors.QueryError,
            "2 is not an error of a quantile",
        ),
        (lambda: q.quantile("f", "0.5"), errors.QueryError, "0.5 is not a quantile"),
        (lambda: q.quantile("k", 0.5).eval(EVENTS), errors.OperationTypeError, "of numbers, not"),
        (lambda: q.sum("x").eval(EVENTS, threads=0), errors.QueryError, "threads=0"),
        (
            lambda: q.sum("x").eval(EVENTS, threads=2, partition_by="k"),
            errors.UnsupportedError,
            "one long sequence",
        ),
        (lambda: q.sum("x").label(EVENTS, "x"), errors.DuplicateNameError, "a column 'x'"),
        (
            lambda: q.count().eval(pa.table({"value": [1]}), partition_by="value"),
            errors.DuplicateNameError,
            "a column 'value'",
        ),
        (
            lambda: q.group_by("value", q.count()).eval(pa.table({"value": [1]})),
            errors.DuplicateNameError,
            "a column 'value'",
        ),
        (
            lambda: q.windows(q.sum("x"), time=5, by="zz").eval(EVENTS),
            errors.UnknownColumnError,
            "'zz', which their events do not have",
        ),
        (
            lambda: q.windows(q.sum("x"), time=10, by="ts").eval(
                pa.table({"x": [1, 2, 3], "ts": [5, 15, 7]})
            ),
            errors.DataError,
            "'ts' goes back at row 2",
        ),
        (
            lambda: (q.windows(q.sum("x"), time=5, by="ts") >> q.max("x")).eval(EVENTS),
            errors.UnknownColumnError,
            "'x'",
        ),
        (
            lambda: q.automaton("sum", collect=3),
            errors.AutomatonError,
            "3 is not a collect operation",
        ),
    ],
)
def test_bad_arguments_are_named(given: Raising, error: type[errors.EnsueError], said: str) -> None:
    with pytest.raises(error) as caught:
        given()
    assert said in str(caught.value) and caught.value.remedy


def test_a_known_ambiguity_is_no_matter_of_declaration() -> None:
    with pytest.raises(errors.AmbiguousError, match="in two ways"):
        q.split("a + b", q.sum("x", over="x > 0"), q.sum("x", over="x > 5"), assume="unambiguous")


def test_declarations_reach_every_part_of_a_pipeline() -> None:
    def low(event: Any) -> bool:
        return bool(event["x"] < 2)

    def high(event: Any) -> bool:
        return bool(event["x"] >= 2)

    step = q.choose(q.event(low, 1), q.event(high, 2))
    f = q.apply("a * 2", q.windows(q.iter("sum", step), rows=2)) >> q.max("value")
    with pytest.raises(errors.UndecidedError):
        f.check()
    assert "declaration" in str(f.check(assume="unambiguous"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("t < TIMESTAMP '2026-01-01'", "t >= TIMESTAMP '2026-01-01'"),
        ("t < TIMESTAMP '2026-01-01'", "t > TIMESTAMP '2026-01-02'"),
        ("d < DATE '2026-01-01'", "d = DATE '2026-02-01'"),
        ("soundex(k) = 'a'", "NOT (soundex(k) = 'a')"),
        ("soundex(k) = 'a'", "soundex(k) <> 'a'"),
        ("soundex(k) < j", "soundex(k) >= j"),
        ("soundex(k) = 'a' AND x > 1", "x <= 1"),
        ("CASE WHEN x > 1 THEN true ELSE false END", "x <= 1"),
        ("x > 0", "NOT ((x > 0) IS TRUE)"),
        ("k = 'a'", "k IN ('b', 'c')"),
        ("b", "NOT b"),
        ("x IS NULL", "x < 3"),
    ],
)
def test_predicates_known_to_exclude_each_other(one: str, other: str) -> None:
    assert q.choose(q.event(one, 1), q.event(other, 2)).check().tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("k LIKE 'a%'", "k LIKE 'b%'"),
        ("soundex(k) = 'a'", "soundex(k) = 'b'"),
        ("soundex(k) < j", "j < soundex(i)"),
        ("x * x * x + y * y * y = 42", "x * y * x > 7"),
    ],
)
def test_what_no_solver_knows_is_said_and_can_be_declared(one: str, other: str) -> None:
    """Never a witness that is none: the solver's word alone is no event."""
    with pytest.raises(errors.UndecidedError, match="cannot decide"):
        q.choose(q.event(one, 1), q.event(other, 2)).check()
    first, second = q.disjoint(one, other)
    assert q.choose(q.event(first, 1), q.event(second, 2)).check().tokens


def test_declared_text_is_still_evaluated() -> None:
    first, second = q.disjoint("k LIKE 'a%'", "k LIKE 'b%'", complete=True)
    f = q.iter("sum", q.choose(q.event(first, 1), q.event(second, 10)))
    assert f.eval(EVENTS) == 44


def test_a_declared_fold_is_not_tested() -> None:
    def distances(**declared: bool) -> Any:
        made = q.automaton(lambda y, x: abs(y - x), collect="max", **declared).initial("p", 0)
        made = made.step("p", "p", None, "x").step("p", "q", None, "x").step("q", "q", None, "x")
        return made.final("q").build()

    assert "declared" in str(distances(distributive=True).check())
    with pytest.raises(errors.DistributivityError):
        distances().check()


def test_independent_predicates_are_divided_family_by_family() -> None:
    """Twelve columns: 4,096 letters, of which the solver is asked about 24."""
    f = q.split("a", *[q.event(f"c{i} > 0", i) for i in range(12)])
    assert f.check().letters == 4096
    with pytest.raises(errors.LimitError, match="more than 4096 ways"):
        q.split("a", *[q.event(f"c{i} > 0", i) for i in range(13)])


def test_odd_values() -> None:
    ends = pa.table({"f": [-math.inf, 1.0, math.inf, math.nan]})
    parts = [q.quantile("f", part).eval(ends) for part in (0.0, 0.4, 0.7)]
    assert parts == [-math.inf, pytest.approx(1, rel=0.02), math.inf]
    assert math.isnan(q.quantile("f", 1.0).eval(ends))
    assert q.quantile("f", 0.5).eval(pa.table({"f": [1e308]})) == pytest.approx(1e308, rel=0.02)
    piped = q.windows(q.quantile("x", 0.5), rows=2) >> q.max("value")
    assert piped.eval(EVENTS) == pytest.approx(1, rel=0.02)
    nanoseconds = pa.table({"t": pa.array([1, 2001, 10**10], pa.timestamp("ns"))})
    assert q.windows(q.count(), time="1 second", by="t").stream(nanoseconds).to_pylist() == [
        None, None, 2,
    ]  # fmt: skip
    gaps = q.windows(q.sum("x"), time=10, by="ts").values(EVENTS)
    assert gaps.to_pydict() == {"window_start": [0, 100, 500], "value": [3, 5, 4]}
    until = q.windows(q.sum("x"), until=lambda e: e["x"] == 0)
    assert until.values(EVENTS)["value"].to_pylist() == [3, 5, 4]


def test_the_last_window_is_counted_through_operations_and_groups() -> None:
    rising = pa.table({"x": [1, 2, 3], "g": [0, 1, 0], "ts": [0, 10, 20]})
    timed = q.windows(q.sum("x"), time=10, by="ts")
    assert (q.apply("a * 2", timed) >> q.max("value")).eval(rising) == 6
    assert (q.group_by("g", timed) >> q.sum("value")).eval(rising) == 6
    inside = q.windows(timed >> q.sum("value"), time=100, by="ts")
    assert inside.eval(rising) == 6
    fresh = q.windows(q.group_by("g", q.sum("x")), rows=2)
    assert fresh.stream(pa.table({"x": [1, 2, 3, 4], "g": [0, 0, 0, 0]})).to_pylist() == [
        None, 3, None, 7,
    ]  # fmt: skip


def test_nesting_has_a_limit_with_a_name() -> None:
    f = q.event(None, "x")
    with pytest.raises(errors.LimitError, match="nested 101 deep"):
        for _ in range(200):
            f = q.automaton("sum").initial("p", 0).call("p", "r", None, f).final("r").build()
    g = q.sum("x")
    with pytest.raises(errors.LimitError, match="applied to each other"):
        for _ in range(2000):
            g = q.apply("a + 1", g)


def test_a_where_that_always_holds_is_no_fault() -> None:
    table = pa.table({"x": [2, 3]})
    for f in (q.sum("x", over="x > 1", where="x > 1"), q.count(over="x > 1", where="x > 0")):
        f.check(table)
    assert q.sum("x", over="x > 1", where="x > 0").eval(table) == 5
    block = q.split("a", q.sum("x", over="x > 1", where="x > 0"), q.event("x = 0"))
    assert q.iter("max", block).eval(pa.table({"x": [2, 3, 0]})) == 5
    with pytest.raises(errors.UnsatisfiableError, match="no event satisfies"):
        q.sum("x", over="x > 1", where="x < 1").check(table)


def test_failures_of_callables_are_told_with_their_values() -> None:
    table = pa.table({"x": [1, 2]})
    for f in (
        q.combine(lambda a: a, q.sum("x"), q.count()),
        q.combine(lambda a, b: a / 0, q.sum("x"), q.count()),
        q.iter(lambda a, b: a / 0, q.event(None, "x"), start=1),
        q.sum("x", start="zero"),
    ):
        with pytest.raises(errors.DataError, match=r"failed on .*Error"):
            f.eval(table)


def test_python_predicates_must_say_yes_or_no() -> None:
    table = pa.table({"x": [3]})
    assert q.event(lambda e: np.bool_(True), "x").eval(table) == 3
    assert q.event(lambda e: None, "x").eval(table) is None
    for f in (q.event(lambda e: e["x"], "x"), q.windows(q.sum("x"), until=lambda e: "yes")):
        with pytest.raises(errors.DataError, match="at row 0, where True, False or None"):
            f.eval(table)


def test_whole_numbers_beyond_53_bits_become_doubles_without_a_fault() -> None:
    table = pa.table({"x": [2**60 + 1], "y": [0.5]})
    either = q.choose(q.event("y > 0", "x"), q.event("y <= 0", "y"))
    assert either.eval(table) == float(2**60)
    assert q.quantile("x", 0.5).eval(table) == pytest.approx(2**60, rel=0.02)


def test_counts_do_not_begin_where_they_would_wrap_round() -> None:
    with pytest.raises(errors.OperationTypeError, match="whole number below"):
        q.count(start=2**63 - 1)
    assert q.count(start=5).eval(pa.table({"x": [1]})) == 6


def test_a_cycle_without_events_is_refused_when_built() -> None:
    drawn = q.automaton("sum").initial("p", 0).silent("p", "r", 0).silent("r", "p", 0).final("p")
    with pytest.raises(errors.EmptyCycleError, match="without reading an event"):
        drawn.build()
