"""The in-process operator: shapes, speculation, corrections, edits, state and bad input."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from dataclasses import asdict
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator import cleanse, replay, segments
from ensue.rows.evaluator import KIND as ROWS
from ensue.run.branch import Lifetime

FALL = ensue.pattern("A B+ C").define(A="x = 1", B="x = 2", C="x = 3")
FALL = FALL.partition_by("k").order_by("t")
PAIR = ensue.pattern("A ->> B").define(A="x = 1", B="x = 2").partition_by("k").order_by("t")


def rows(*events: tuple[Any, Any, Any]) -> list[dict[str, Any]]:
    return [dict(zip(("k", "t", "x"), event, strict=True)) for event in events]


def net(*tables: pa.Table) -> list[str]:
    """Matches that stand, as labels and times."""
    found: list[str] = []
    for table in tables:
        for row in table.to_pylist():
            text = " ".join(f"{e['label']}{e['time']}" for e in row["events"])
            if row["op"] == "+":
                found.append(text)
            else:
                found.remove(text)
    return sorted(found)


def counted(matcher: Any) -> dict[str, int]:
    return {name: n for name, n in asdict(matcher.metrics).items() if name != "bytes"}


def ops(table: pa.Table) -> list[str]:
    return list(table.column("op").to_pylist())


def test_the_changes_table_has_names_times_and_ids() -> None:
    matcher = FALL.matcher(id="i")
    events = pa.table({"k": ["p"] * 3, "t": [1, 2, 3], "x": [1, 2, 3], "i": ["u", "v", "w"]})
    assert matcher.insert(events).num_rows == 0
    (match,) = matcher.advance(9).to_pylist()
    assert list(match) == ["op", "match_id", "k", "first", "last", "events"]
    assert len(match["match_id"]) == 32
    assert (match["op"], match["first"], match["last"]) == ("+", 1, 3)
    assert match["events"] == [
        {"label": "A", "time": 1, "event": "u"},
        {"label": "B", "time": 2, "event": "v"},
        {"label": "C", "time": 3, "event": "w"},
    ]


def test_a_match_is_called_the_same_when_withdrawn_and_when_it_comes_again() -> None:
    matcher = FALL.matcher(speculation=math.inf)
    first = matcher.insert(rows(("p", 1, 1), ("p", 2, 2), ("p", 5, 3)))
    between = matcher.insert(rows(("p", 3, 9)))
    again = matcher.retract(rows(("p", 3, 9)))
    assert (ops(first), ops(between), ops(again)) == (["+"], ["-"], ["+"])
    names = {table.column("match_id")[0].as_py() for table in (first, between, again)}
    assert len(names) == 1


def test_a_match_is_called_the_same_in_another_process() -> None:
    """The name is stored by sinks, so it may not change between versions without notice."""
    matcher = PAIR.matcher(speculation=math.inf)
    found = matcher.insert(rows(("p", 1, 1), ("p", 2, 2)))
    assert found.column("match_id").to_pylist() == ["4a370da2fbfe1493b63cac988e6f3fc3"]


def test_measures_that_change_with_the_neighbourhood_are_withdrawn_and_said_again() -> None:
    pattern = FALL.measures(n="COUNT(*)", before="PREV(A.x)", number="MATCH_NUMBER()")
    matcher = pattern.matcher(speculation=math.inf)
    first = matcher.insert(rows(("p", 10, 1), ("p", 20, 2), ("p", 30, 3))).to_pylist()
    changed = matcher.insert(rows(("p", 9, 7))).to_pylist()
    assert [row["before"] for row in first + changed] == [None, None, 7]
    assert [row["op"] for row in changed] == ["-", "+"]
    assert len({row["match_id"] for row in first + changed}) == 1
    more = matcher.insert(rows(("p", 1, 1), ("p", 2, 2), ("p", 3, 3))).to_pylist()
    assert [(row["op"], row["number"]) for row in more] == [("-", 1), ("+", 1), ("+", 2)]


def test_all_rows_per_match_withdraws_the_rows_of_a_match() -> None:
    pattern = FALL.rows_per_match("all rows").measures(label="CLASSIFIER()")
    matcher = pattern.matcher(speculation=math.inf)
    first = matcher.insert(rows(("p", 1, 1), ("p", 2, 2), ("p", 5, 3)))
    assert list(first.column_names) == ["op", "match_id", "k", "t", "label", "x"]
    assert ops(first) == ["+"] * 3
    assert ops(matcher.insert(rows(("p", 3, 9)))) == ["-"] * 3


def test_sigma_0_never_withdraws_and_sigma_infinity_answers_at_once() -> None:
    waiting, quick = PAIR.matcher(), PAIR.matcher(speculation=math.inf)
    events = rows(("p", 1, 1), ("p", 3, 2))
    assert ops(waiting.insert(events)) == []
    assert ops(quick.insert(events)) == ["+"]
    assert ops(waiting.advance(4)) == ["+"]
    assert ops(quick.advance(4)) == []


def test_a_length_of_time_as_sigma_and_as_delay() -> None:
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    times = [start + dt.timedelta(seconds=s) for s in (0, 30, 90)]
    events = pa.table({"k": ["p"] * 3, "t": times, "x": [1, 2, 2]})
    matcher = PAIR.within("10 minutes").matcher(speculation="20 seconds", delay="1 minute")
    assert ops(matcher.insert(events)) == ["+"]
    assert matcher.watermark == start + dt.timedelta(seconds=30)
    assert matcher.metrics.held == 1


def test_a_window_that_the_watermark_has_passed_decides() -> None:
    pattern = ensue.pattern("A B*").define(A="x = 1", B="x = 2").order_by("t").within(5)
    matcher = pattern.matcher()
    matcher.insert([{"t": 1, "x": 1}, {"t": 3, "x": 2}])
    assert ops(matcher.advance(6)) == []
    assert net(matcher.advance(7)) == ["A1 B3"]


def test_a_trailing_not_fires_with_the_watermark() -> None:
    pattern = ensue.pattern("A -> !X").define(A="x = 1", X="x = 9").order_by("t").within(5)
    for sigma in (0, math.inf):
        matcher = pattern.matcher(speculation=sigma)
        found = [matcher.insert([{"t": 1, "x": 1}, {"t": 2, "x": 1}, {"t": 7, "x": 9}])]
        found.append(matcher.advance(7))
        assert net(*found) == ["A1"]
        found.append(matcher.insert([{"t": 10, "x": 5}]))
        found.append(matcher.advance(20))
        assert net(*found) == ["A1"]


def test_end_completes_keys_and_they_start_afresh() -> None:
    pattern = FALL.matcher(speculation=math.inf)
    greedy = ensue.pattern("A B*").define(A="x = 1", B="x = 2").partition_by("k").order_by("t")
    pattern = greedy.matcher(speculation=math.inf)
    assert ops(pattern.insert(rows(("p", 1, 1), ("p", 2, 2), ("q", 1, 1)))) == []
    assert net(pattern.end(["p"])) == ["A1 B2"]
    assert net(pattern.insert(rows(("p", 3, 2), ("p", 4, 1))), pattern.end()) == ["A1", "A4"]


@pytest.mark.parametrize("sigma", [0, 3, math.inf])
def test_state_goes_on_elsewhere(sigma: Any) -> None:
    one, other = PAIR.matcher(speculation=sigma), PAIR.matcher(speculation=sigma)
    script: list[tuple[str, Any]] = [
        ("insert", rows(("p", 1, 1), ("q", 2, 1), ("p", 6, 2))),
        ("advance", 2),
        ("insert", rows(("p", 4, 2), ("q", 3, 2), ("p", 1, 2))),
        ("retract", rows(("p", 6, 2), ("p", 0, 0))),
        ("advance", 5),
        ("insert", rows(("p", 5, 2), ("p", 5, 2))),
        ("end", None),
    ]
    for call, argument in script:
        expected = getattr(one, call)(argument)
        assert getattr(other, call)(argument).to_pylist() == expected.to_pylist()
        other = ensue.restore(other.snapshot())
        assert counted(other) == counted(one)
        assert other.late.to_pylist() == one.late.to_pylist()
        assert other.rejected.to_pylist() == one.rejected.to_pylist()


def test_state_that_is_damaged_or_of_another_kind_is_refused() -> None:
    matcher = PAIR.matcher()
    with pytest.raises(errors.StateError, match="no events have arrived yet"):
        matcher.snapshot()
    for blob in (b"junk", cleanse.state.to_bytes(ROWS, pa.table({"a": [1]}))):
        with pytest.raises(errors.StateError):
            ensue.restore(blob)


# -- edits ----------------------------------------------------------------------------------------


def test_a_pattern_added_applies_to_events_after_now() -> None:
    matcher = FALL.matcher(speculation=math.inf, name="fall")
    matcher.insert(rows(("p", 1, 1), ("p", 5, 2)))
    revised = matcher.revise(add={"pair": PAIR})
    assert revised.lifetimes == {"pair": Lifetime(6, None)}
    assert ops(revised.changes) == []
    found = matcher.insert(rows(("p", 6, 1), ("p", 8, 2), ("p", 4, 1), ("p", 5, 1))).to_pylist()
    assert [(row["pattern"], row["first"]) for row in found] == [("pair", 6)]
    assert matcher.patterns == {"fall": Lifetime(None, None), "pair": Lifetime(6, None)}


def test_partial_matches_of_unchanged_patterns_stay() -> None:
    matcher = FALL.matcher(speculation=math.inf, name="fall")
    matcher.insert(rows(("p", 1, 1), ("p", 2, 2)))
    matcher.revise(add={"pair": PAIR})
    assert net(matcher.insert(rows(("p", 3, 3)))) == ["A1 B2 C3"]


def test_an_explicit_lifetime_matches_the_past_again() -> None:
    for sigma in (0, math.inf):
        matcher = FALL.matcher(speculation=sigma, name="fall", history=10)
        found = [matcher.insert(rows(("p", 1, 1), ("p", 4, 1), ("p", 5, 2), ("p", 9, 2)))]
        found.append(matcher.advance(6))
        revised = matcher.revise(add={"pair": (PAIR, 4, 9)})
        assert revised.lifetimes == {"pair": Lifetime(4, 9)}
        assert net(revised.changes) == ["A4 B5"]
        found += [revised.changes, matcher.insert(rows(("p", 8, 2))), matcher.end()]
        assert net(*found) == ["A4 B5", "A4 B8"]


def test_a_pattern_removed_sees_events_up_to_now_and_then_ends() -> None:
    greedy = ensue.pattern("A B*").define(A="x = 1", B="x = 2").partition_by("k").order_by("t")
    matcher = greedy.matcher(name="greedy")
    matcher.insert(rows(("p", 1, 1), ("p", 5, 2)))
    revised = matcher.revise(remove=["greedy"])
    assert revised.lifetimes == {"greedy": Lifetime(None, 6)}
    assert ops(matcher.insert(rows(("p", 3, 2), ("p", 6, 2)))) == []
    assert net(matcher.advance(7)) == ["A1 B3 B5"]
    assert matcher.patterns == {}
    assert ops(matcher.insert(rows(("p", 8, 1)))) == []


def test_a_pattern_that_ends_in_the_past_withdraws_what_came_after() -> None:
    matcher = PAIR.matcher(speculation=math.inf, name="pair")
    found = [matcher.insert(rows(("p", 1, 1), ("p", 3, 2), ("p", 5, 2)))]
    revised = matcher.revise(remove={"pair": 4})
    assert ops(revised.changes) == ["-"]
    assert net(*found, revised.changes) == ["A1 B3"]


def test_an_edit_under_the_same_name_replaces() -> None:
    matcher = PAIR.matcher(speculation=math.inf, name="p")
    matcher.insert(rows(("p", 1, 1)))
    revised = matcher.revise(add={"p": PAIR.within(1)})
    assert revised.lifetimes["p"] == Lifetime(2, None)
    assert net(matcher.insert(rows(("p", 2, 1), ("p", 4, 2)))) == []
    assert matcher.metrics.matches == 0


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"remove": ["nobody"]}, "there is no pattern 'nobody'"),
        ({"add": {"q": (PAIR, 8, 8)}}, "the lifetime of 'q' is empty"),
        ({"add": {"q": (PAIR, 1)}}, "events before 5 are no longer known"),
        ({"remove": {"pair": 3}}, "what is before the watermark 5 is final"),
        ({"add": {"q": PAIR.order_by("x")}}, "partitioned or ordered in another way"),
        ({"add": {"q": "A B"}}, "is given as 'A B'"),
        ({"add": {"q": PAIR.measures(first="'text'")}}, "do not fit into one table"),
        ({"add": {"q": PAIR.measures(op="1")}}, "'op'"),
        ({"add": {"q": PAIR.measures(y="MAX(nothing)")}}, "no column 'nothing'"),
    ],
)
def test_a_bad_edit_is_refused_and_the_old_pattern_goes_on(edit: Any, said: str) -> None:
    matcher = PAIR.matcher(speculation=math.inf, name="pair")
    matcher.insert(rows(("p", 1, 1), ("p", 9, 1)))
    matcher.advance(5)
    with pytest.raises(errors.EnsueError, match=said):
        matcher.revise(add={"fine": PAIR, **edit.get("add", {})}, remove=edit.get("remove", ()))
    assert matcher.patterns == {"pair": Lifetime(None, None)}
    assert net(matcher.insert(rows(("p", 10, 2)))) == ["A1 B10", "A9 B10"]


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0, math.inf])
def test_mistakes_become_rows_with_reasons_and_nothing_is_lost(sigma: Any) -> None:
    matcher = PAIR.matcher(speculation=sigma)
    found = [matcher.insert(rows(("p", 1, 1), ("p", 4, 2), ("p", 6, 2)))]
    found.append(matcher.advance(3))
    found.append(matcher.retract(rows(("p", 1, 1), ("p", 9, 9), ("p", 6, 2))))
    found.append(matcher.retract(rows(("p", 6, 2))))
    found.append(matcher.insert(rows(("p", 2, 2), ("p", None, 2), ("p", 5, 2))))
    found.append(matcher.end())
    assert net(*found) == ["A1 B4", "A1 B5"]
    assert matcher.rejected.column("reason").to_pylist() == [
        cleanse.FINAL,
        cleanse.NEVER_SEEN,
        cleanse.TWICE,
        "the event time is null",
    ]
    assert matcher.take_late().to_pylist() == rows(("p", 2, 2))
    assert matcher.take_late().num_rows == 0
    assert matcher.metrics.late == 1
    assert matcher.take_rejected().num_rows == 4


def test_calls_that_come_too_early_or_make_no_sense() -> None:
    matcher = PAIR.matcher()
    assert matcher.advance(5).num_rows == 0
    assert matcher.end().num_rows == 0
    with pytest.raises(errors.DataError, match="nothing to retract"):
        matcher.retract(rows(("p", 1, 1)))
    with pytest.raises(errors.QueryError, match="columns are not known"):
        matcher.revise(add={"other": PAIR})
    with pytest.raises(errors.QueryError, match="not the end of time"):
        matcher.advance(math.inf)
    matcher.insert(rows(("p", 4, 1), ("p", 5, 1)))
    assert matcher.metrics.late == 1
    with pytest.raises(errors.ColumnTypeError, match="is not a time of the column 't'"):
        matcher.advance("soon")
    with pytest.raises(errors.DataError, match="is not a key"):
        matcher.end([("p", "q")])


def test_what_it_cannot_run_it_refuses() -> None:
    with pytest.raises(errors.QueryError, match="there is no order_by"):
        ensue.pattern("A B").matcher()
    with pytest.raises(errors.UnknownColumnError, match="could be their id"):
        PAIR.matcher(id="nothing").insert(rows(("p", 1, 1)))


def test_a_pattern_that_fails_on_the_data_stops_alone() -> None:
    broken = ensue.pattern("A B").define(A="x >= 0", B="1 / (x - A.x) > 0")
    broken = broken.partition_by("k").order_by("t")
    matcher = PAIR.matcher(speculation=math.inf, name="pair")
    matcher.insert(rows(("p", 1, 1)))
    matcher.revise(add={"broken": broken})
    with pytest.raises(errors.DataError, match="the pattern 'broken' failed"):
        matcher.insert(rows(("p", 2, 2), ("p", 3, 2)))
    assert net(matcher.insert(rows(("p", 4, 2)))) == ["A1 B2", "A1 B3", "A1 B4"]
    matcher.revise(remove=["broken"])


def test_explain_says_what_runs() -> None:
    matcher = PAIR.matcher(
        speculation=math.inf,
        schema=pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())]),
    )
    told = matcher.explain()
    assert "answers at once" in told
    assert "replay since the watermark" in told
    assert "nothing is withdrawn" in FALL.matcher().explain()


# -- replay ---------------------------------------------------------------------------------------


def test_a_correction_costs_by_how_far_back_not_by_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SPACING", 16)
    fed: list[int] = []
    feed = replay.Replay._feed

    def counting(self: Any, events: Any) -> Any:
        fed.append(events.table.num_rows)
        return feed(self, events)

    monkeypatch.setattr(replay.Replay, "_feed", counting)
    matcher = FALL.matcher(speculation=math.inf)
    matcher.insert(rows(*(("p", 10 * t, 1 + t % 3) for t in range(2000))))
    fed.clear()
    matcher.insert(rows(("p", 10 * 1000 + 5, 7)))
    assert 0 < sum(fed) <= 64
    fed.clear()
    matcher.insert(rows(("p", 15, 7)))
    assert 0 < sum(fed) <= 64
    fed.clear()
    matcher.retract(rows(("p", 10 * 1990, 2)))
    assert 0 < sum(fed) <= 64


@pytest.mark.parametrize("pattern", [FALL, PAIR.within(50)], ids=["rows", "events"])
def test_what_is_kept_is_bounded_by_the_watermark(pattern: ensue.Pattern) -> None:
    matcher = pattern.matcher(speculation=math.inf, delay=100)
    kept = []
    for begin in range(0, 5000, 250):
        matcher.insert(rows(*((f"{t % 3}", t, 1 + t % 3) for t in range(begin, begin + 250))))
        kept.append(sum(branch.corrected.rows for branch in matcher._branches))
    assert max(kept) <= 3 * 400
    assert matcher.metrics.correctable <= 101


@pytest.mark.parametrize(
    "pattern",
    [
        ensue.pattern("A B+ C").define(A="x = 1", B="x = 2", C="x = 3").order_by("t"),
        ensue.pattern("A -> B").define(A="x <= 2", B="x = 2").order_by("t"),
        ensue.pattern("A -> !C").define(A="x <= 2", C="x = 3").order_by("t").within(3),
    ],
    ids=["rows", "next", "not"],
)
@pytest.mark.parametrize("sigma", [0, math.inf])
def test_all_orders_of_arrival_with_equal_times_and_copies(
    pattern: ensue.Pattern, sigma: Any
) -> None:
    events = [{"t": t, "x": x} for t, x in ((1, 1), (1, 2), (1, 2), (2, 3))]
    answers = set()
    for order in set(permutations(range(4))):
        matcher = pattern.matcher(speculation=sigma)
        found = [matcher.insert([events[i]]) for i in order] + [matcher.end()]
        standing = Counter[str]()
        for change in (row for table in found for row in table.to_pylist()):
            standing[change["match_id"]] += 1 if change["op"] == "+" else -1
        answers.add(frozenset((+standing).items()))
    assert len(answers) == 1
