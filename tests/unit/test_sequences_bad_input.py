"""What event patterns refuse, whichever way it is written, and what the refusal says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.front.sql import read_query
from ensue.sequences import evaluator as sequences
from ensue.sequences import limits as sequence_limits


def events(letters: str) -> pa.Table:
    numbers = list(range(len(letters)))
    return pa.table({"id": numbers, "kind": list(letters), "x": numbers})


def pattern(text: str) -> ensue.Pattern:
    return ensue.pattern(text, types="kind").order_by("id")


def clause(measure: str, text: str) -> Any:
    return read_query(
        f"""SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measure} OVER ALL MATCHES AS n
            PATTERN ({text}) DEFINE A AS kind = 'A', X AS kind = 'X')"""
    )


ABC = pattern("A ->> B+ ->> C")
MANY = events("A" + "B" * 10 + "C")


@pytest.mark.parametrize(
    "build",
    [
        lambda: pattern("A -> !X").query,
        lambda: pattern("A ->> B ->> !X").query,
        lambda: pattern("A -> (B -> !X)").query,
        lambda: pattern("A -> (B | C -> !X)").query,
        lambda: pattern("A -> (B -> !X)+").query,
        lambda: pattern("A -> (B -> !X)?").query,
        lambda: pattern("PERMUTE(A, (B -> !X))").query,
        lambda: ensue.begin("A").not_followed_by("X").query,
        lambda: ensue.sase("SEQ(A a, !X x)", types="kind").query,
        lambda: clause("COUNT(*)", "A -> !X"),
    ],
)
def test_a_trailing_not_without_within(build: Callable[[], object]) -> None:
    with pytest.raises(errors.QueryError, match=r"ends with the absence of '[xX]'") as caught:
        build()
    assert "add within(" in str(caught.value)


def test_a_trailing_not_that_something_proves() -> None:
    for proved in (pattern("A -> !X").within(1), pattern("A -> within 1 units !X")):
        assert [proved.count(events(letters)) for letters in ("AB", "ABB", "AXB")] == [0, 1, 0]
        assert proved.count(events("AB"), as_of="end") == 1
    assert pattern("A !X").select("strict").count(events("AB")) == 1
    assert pattern("A -> (B -> !X)+ -> C").count(events("ABC")) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda: ensue.begin("a").until("true"),
        lambda: ensue.begin("a").times(2).until("true"),
        lambda: ensue.begin("a").optional().until("true"),
        lambda: ensue.begin("a").followed_by(ensue.begin("b")).until("true"),
    ],
)
def test_until_outside_a_loop(build: Callable[[], object]) -> None:
    with pytest.raises(
        errors.QueryError, match=r"until\(\) ends a loop, and .* is not one"
    ) as caught:
        build()
    assert "one_or_more()" in str(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda: pattern("A -> !X -> B").measures(m="X.x").query,
        lambda: pattern("A -> !X -> B").measures(m="COUNT(X.*)").query,
        lambda: pattern("A -> !X -> B").aggregate(MANY, m="sum(X.x)"),
        lambda: pattern("A -> B").without(X="kind = 'X'").measures(m="LAST(X.x)").query,
        lambda: ensue.begin("A").not_next("X").next("B").measures(m="X.x").query,
        lambda: ensue.sase("SEQ(A a, !X X, B b) RETURN X.x AS m", types="kind").query,
        lambda: clause("SUM(X.x)", "A -> !X -> B"),
    ],
)
def test_a_measure_on_a_negated_step(build: Callable[[], object]) -> None:
    with pytest.raises(errors.QueryError, match=r"reads 'X', and no match has an event for it"):
        build()


# -- without a window ------------------------------------------------------------------------------

UNBOUNDED = {
    "graph": lambda: ABC.matches(MANY),
    "compact": lambda: ABC.matches(MANY, compact=True),
    "correlated": lambda: ABC.define(B="id > A.id").matches(MANY),
    "skipping": lambda: ABC.after_match("past last row").matches(MANY),
    "sample": lambda: ABC.matches(MANY, sample=3),
}


@pytest.mark.parametrize("run", UNBOUNDED.values(), ids=UNBOUNDED)
def test_skipping_anything_without_a_window(
    run: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_limits, "WARN_ROWS", 12)
    monkeypatch.setattr(sequence_limits, "NODE_BYTES", 1 << 20)
    # 12 rows, three labels, a megabyte each
    with pytest.warns(sequence_limits.UnboundedPatternWarning, match=r"12 rows .* about 36 MB"):
        run()
    monkeypatch.setattr(sequence_limits, "MAX_ROWS", 11)
    with pytest.raises(errors.LimitError, match=r"about 36 MB; the limit is 11 rows") as caught:
        run()
    assert "within(...)" in str(caught.value)


@pytest.mark.filterwarnings("error")
def test_what_is_bounded_has_no_such_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_limits, "WARN_ROWS", 5)
    monkeypatch.setattr(sequence_limits, "MAX_ROWS", 5)
    assert ABC.count(MANY) == 1023  # counting keeps no event
    assert len(ABC.within(20).matches(MANY)) == 1023
    assert len(pattern("A -> B -> C").matches(MANY)) == 1


# -- too many matches ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [
        lambda most: ABC.matches(MANY, max_matches=most),
        lambda most: ABC.measures(n="COUNT(B.*)").matches(MANY, max_matches=most),
        lambda most: ABC.define(B="id > A.id").matches(MANY, max_matches=most),
        lambda most: (
            pattern("A ->> B+ ->> C ->> !X").within(20).matches(MANY, max_matches=most, as_of="end")
        ),
    ],
)
def test_more_than_max_matches(run: Callable[[int], pa.Table]) -> None:
    with pytest.raises(
        errors.LimitError, match=r"there are 1,023 matches; max_matches is 1,022"
    ) as e:
        run(1022)
    for way_out in ("limit=", "sample=", "q.aggregate("):
        assert way_out in str(e.value)
    assert len(run(1023)) == 1023


def test_far_too_many_are_known_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million would be listed first, and this is an exact count all the same."""
    monkeypatch.setattr(sequences, "MANY", 100)
    table = events("A" + "B" * 60 + "C")
    with pytest.raises(errors.LimitError, match=r"there are 1,152,921,504,606,846,975 matches"):
        ABC.matches(table, max_matches=1_000_000)
    assert len(ABC.matches(table, limit=300, max_matches=1_000_000)) == 300
    assert len(ABC.matches(MANY, max_matches=1023)) == 1023


@pytest.mark.parametrize("asked", ["limit", "sample", "max_matches"])
@pytest.mark.parametrize("value", [-1, 2.5, "3", True])
def test_how_many_is_a_whole_number(asked: str, value: object) -> None:
    with pytest.raises(errors.QueryError, match=f"{asked}=.* is not a number of matches"):
        ABC.matches(MANY, **{asked: value})


@pytest.mark.parametrize("other", [{"limit": 1}, {"timeouts": True}, {"compact": True}])
def test_a_sample_is_of_complete_single_matches(other: dict[str, Any]) -> None:
    with pytest.raises(errors.QueryError, match=f"sample= draws .* {next(iter(other))}= asks"):
        ABC.within(5).matches(MANY, sample=2, **other)


def test_a_limit_counts_what_timed_out_too() -> None:
    windowed = pattern("A -> B -> C").within(2)
    table = events("ABXXABCXABX")
    everything = windowed.matches(table, timeouts=True).to_pylist()
    assert [row["status"] for row in everything] == ["timeout", "matched", "open"]
    for most in range(4):
        assert windowed.matches(table, timeouts=True, limit=most).to_pylist() == everything[:most]


# -- aggregates ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "error", "problem"),
    [
        ({"every": 0}, errors.QueryError, "windows of time need a size"),
        ({"every": -1}, errors.QueryError, "-1 is not a bound on time"),
        ({"every": 2.5}, errors.QueryError, "2.5 is not a bound on time"),
        ({"every": 2, "slide": 0}, errors.QueryError, "slide=0 does not fit"),
        ({"every": 2, "slide": 3}, errors.QueryError, "slide=3 does not fit"),
        ({"every": "1 hour"}, errors.ColumnTypeError, "is a duration, and the order column 'id'"),
        ({"every": 2, "window_start": "max(C.x)"}, errors.DuplicateNameError, "has that name"),
        ({"s": "sum(B.kind)"}, errors.ColumnTypeError, "sum of string"),
        ({"s": "avg(B.kind)"}, errors.ColumnTypeError, "avg of string"),
        ({"by": "kind"}, errors.QueryError, "grouped by partition columns"),
        ({"s": "LAST(B.x)"}, errors.UnsupportedError, "reads a single row"),
    ],
)
def test_refused_aggregates(
    asked: dict[str, Any], error: type[errors.EnsueError], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        ABC.aggregate(MANY, n="count(*)", **asked)


def test_numbers_are_no_windows_of_times() -> None:
    times = pa.array([0, 1], pa.timestamp("us", "UTC"))
    table = pa.table({"t": times, "kind": ["A", "B"]})
    pair = ensue.pattern("A -> B", types="kind").order_by("t")
    with pytest.raises(errors.ColumnTypeError, match="is a number, and the order column 't'"):
        pair.aggregate(table, every=10, n="count(*)")
    assert pair.aggregate(table, every="1 s", n="count(*)").num_rows == 1


def test_bounds_of_joints_measure_what_the_order_column_has() -> None:
    numbers = pa.table({"t": [0, 3], "kind": ["A", "B"]})
    times = numbers.set_column(0, "t", numbers["t"].cast(pa.timestamp("us")))
    within = "A -> within {} B".format
    for table, fits, other in ((numbers, "3 units", "3 us"), (times, "3 us", "3 units")):
        assert ensue.pattern(within(fits), types="kind").order_by("t").count(table) == 1
        with pytest.raises(errors.ColumnTypeError, match=r"within 3 .* the order column 't'"):
            ensue.pattern(within(other), types="kind").order_by("t").count(table)
    assert ensue.pattern(within("2 units"), types="kind").order_by("t").count(numbers) == 0
    steps = ensue.begin("A").where("kind = 'A'").followed_by("B").where("kind = 'B'")
    assert steps.within(3, between="previous and current").order_by("t").count(numbers) == 1
    with pytest.raises(errors.ColumnTypeError, match="3 units"):
        steps.within(3, between="previous and current").order_by("t").count(times)


def test_a_match_whose_end_has_no_time_is_in_no_window() -> None:
    table = pa.table({"t": pa.array([None, None, -1, 5], pa.int64()), "kind": list("ABAB")})
    pair = ensue.pattern("A ->> B", types="kind").order_by("t")
    found = pair.aggregate(table, every=4, n="count(*)").to_pylist()
    assert pair.count(table) == 3
    assert [(row["window_start"], int(row["n"])) for row in found] == [(4, 2)]


def test_windows_of_fractions_begin_below_them() -> None:
    table = pa.table({"t": [-1.5, -0.5, 0.5], "kind": list("ABB")})
    pair = ensue.pattern("A ->> B", types="kind").order_by("t")
    found = pair.aggregate(table, every=1, n="count(*)").to_pylist()
    assert {row["window_start"]: int(row["n"]) for row in found} == {-1: 1, 0: 1}


# -- the compact form ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [b"junk", "graph", None, 3, [1, 2], [{"label": "A"}]])
def test_expand_takes_a_graph(given: Any) -> None:
    with pytest.raises(errors.QueryError, match="takes the graph of one row"):
        ensue.expand(given)


def test_expand_takes_what_a_table_holds() -> None:
    found = ABC.matches(events("ABBC"), compact=True)
    listed = list(ensue.expand(found.to_pylist()[0]["graph"]))
    assert len(listed) == 3
    assert list(ensue.expand(found.column("graph")[0])) == listed
    assert list(ensue.expand(found.to_pandas()["graph"][0])) == listed
    assert list(ensue.expand([])) == []


@pytest.mark.parametrize("number", [1.5, "2", True])
def test_a_repetition_that_is_no_whole_number(number: Any) -> None:
    for build in (ensue.begin("A").times, ensue.begin("A").times_or_more):
        with pytest.raises(errors.QueryError, match="is not a number of events"):
            build(number)
    with pytest.raises(errors.QueryError, match="is not a number of events"):
        ensue.begin("A").times(1, number)


def test_a_bound_of_the_last_step_that_is_no_whole_number() -> None:
    with pytest.raises(errors.QueryError, match=r"3\.5 is not a bound on time"):
        ensue.begin("A").followed_by("B").within(3.5, between="previous and current")


def test_max_matches_must_be_said() -> None:
    with pytest.raises(errors.QueryError, match="max_matches=None is not a number of matches"):
        ABC.matches(MANY, max_matches=None)  # type: ignore[arg-type]


def test_time_outs_count_as_what_is_listed() -> None:
    table = events("A" + "B" * 200)
    q = ABC.within(300)
    with pytest.raises(errors.LimitError) as caught:
        q.matches(table, timeouts=True)
    assert "0 matches and more than 10^60 partial ones that ran out of time" in str(caught.value)
    assert "or leave timeouts out" in str(caught.value)
    assert q.matches(table, timeouts=True, limit=3).num_rows == 3
    assert q.matches(events("ABBC"), timeouts=True, max_matches=7).num_rows == 7
    with pytest.raises(errors.LimitError, match="there are 3 matches and 4 partial ones"):
        q.matches(events("ABBC"), timeouts=True, max_matches=6)
