"""The trace of a search says what brute force says must be asked, and closes the same matches."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.query import nodes
from ensue.query.query import Query, SkipMode
from ensue.run import why
from ensue.why.trace import CutTraceWarning
from tests import oracle_trace
from tests.generate import short_streams, small_patterns, stream_query, stream_table
from tests.short_streams import rows_of, table
from tests.unit.test_sequences_exhaustive import CORRELATED, PATTERNS
from tests.unit.test_why_events import MORE


def steps(query: Query, data: pa.Table, key: int) -> list[dict[str, Any]]:
    from ensue.operator.notices import Notices

    return why.run_trace(query, data, key, 100_000, Notices()).to_pylist()


def check_rows(query: Query, streams: list[str]) -> None:
    data = stream_table(streams)
    parts = defaultdict(list)
    for row in data.to_pylist():
        parts[row["stream"]].append(row)
    for number, letters in enumerate(streams):
        told = steps(query, data, number)
        where = f"{nodes.pattern_text(query.pattern)} on {letters}"
        expected, matches = oracle_trace.of_rows(query, parts[number])
        got, taken, merged = defaultdict(set), defaultdict(set), set()
        for step in told:
            word = tuple(step["matched"])
            match step["action"]:
                case "ask" if step["variable"] not in "^$":
                    assert step["row"] == step["start"] + len(word), where
                    got[step["start"]].add((word, step["variable"], step["held"]))
                case "take" | "merge" as action:
                    taken[step["start"]].add(word)
                    merged |= {step["start"]} if action == "merge" else set()
        closed = [(s["start"], tuple(s["matched"])) for s in told if s["action"] == "match"]
        assert closed == matches, where
        used = {s["start"] for s in told if s["action"] == "consumed"}
        assert used == {
            row for row in range(1, len(letters)) if row not in expected and row - 1 in expected
        }, where
        for start, asked in expected.items():
            assert taken[start] == {(*w, name) for w, name, held in got[start] if held}, where
            if start in merged:
                assert got[start] <= asked, where
            else:
                assert got[start] == asked, where


@pytest.mark.parametrize("definitions", ["disjoint", "overlap", "neighbour", "correlated"])
def test_row_patterns(definitions: str) -> None:
    patterns = [*small_patterns(2), *small_patterns(3)[::17], *small_patterns(4)[::701]]
    for number, pattern in enumerate(p for p in patterns if nodes.labels(p)):
        skip = SkipMode.PAST_LAST_ROW if number % 2 else SkipMode.TO_NEXT_ROW
        check_rows(stream_query(pattern, definitions, skip), short_streams(4)[number % 11 :: 11])


EVENTS = table(["ABCAB", "AABBC", "ABXBC", "BACAC", "ABABC", "AXBCA", "CABBA", "AACB", "ABC", "X"])


def check_events(pattern: ensue.Pattern) -> None:
    query = pattern.partition_by("stream").order_by("id").query
    for number, rows in rows_of(EVENTS).items():
        told = steps(query, EVENTS, number)
        where = f"{pattern} on {number}"
        reference = oracle_trace.OfEvents(query, rows)
        classes = {}
        for step in told:
            pairs = tuple(zip(step["matched"], step["rows"], strict=True))
            if step["action"] != "ask":
                continue
            if step["variable"] is not None:
                held = reference.held(step["variable"], step["row"], pairs)
                assert step["held"] is held, where
            if pairs:
                classes[step["row"], pairs, tuple(step["places"])] = step["partials"]
        live, expected = Counter(), Counter((row, pairs[0][1]) for row, pairs in reference.live)
        for (row, pairs, _), count in classes.items():
            live[row, pairs[0][1]] += count
        assert live == expected, where
        closed = sum(step["partials"] for step in told if step["action"] == "match")
        assert closed == len(reference.found), where


@pytest.mark.parametrize("text", (PATTERNS + MORE)[::2])
def test_event_patterns(text: str) -> None:
    check_events(ensue.pattern(text, types="kind"))
    check_events(ensue.pattern(text, types="kind").within(2))


def test_event_patterns_that_read_other_events_and_forbid_them() -> None:
    for condition in CORRELATED[::2]:
        check_events(ensue.pattern("A ->> B+ ->> C", types="kind").define(B=condition, C="x > A.x"))
    for text in ("A -> !X", "A ->> B+ -> !X", "A -> B !X"):
        check_events(ensue.pattern(text, types="kind").within(2))
    check_events(ensue.pattern("A ->> B", types="kind").without(stop="kind = 'X'"))
    check_events(ensue.pattern("A -> within 1 units B ->> within 2 units C", types="kind"))
    skipping = ensue.pattern("A ->> B", types="kind").after_match("past last row")
    query = skipping.partition_by("stream").order_by("id").query
    used = [step for step in steps(query, EVENTS, 1) if step["action"] == "consumed"]
    assert [(step["start"], step["text"]) for step in used] == [
        (row, "used up by match 1, of rows 0 to 2") for row in (1, 2)
    ]


TRADES = pa.table({"user": ["p", "p", "p", None], "ts": [5, 6, 7, 1], "kind": ["a", "b", "c", "a"]})


def test_a_key_names_the_partition_and_a_limit_cuts_the_steps() -> None:
    asked = ensue.pattern("a b", types="kind").partition_by("user").order_by("ts")
    first, *_ = asked.trace(TRADES, "p").to_pylist()
    assert first == {
        "step": 0, "row": 0, "at": 5, "start": 0, "action": "ask", "variable": "a", "held": True,
        "reason": None, "text": "a: kind = 'a': 'a' = 'a' is true", "matched": [], "rows": [],
        "places": ["0"], "partials": 1,
    }  # fmt: skip
    assert asked.trace(TRADES, {"user": None})["at"].to_pylist() == [1, 1, None]
    with pytest.warns(CutTraceWarning, match="after 2 steps"):
        assert asked.trace(TRADES, ["p"], limit=2).num_rows == 2
    for key, problem in ((), "does not name"), (7, "is not a value"), ({"x": 1}, "does not name"):
        with pytest.raises(errors.EnsueError, match=problem):
            asked.trace(TRADES, key)
    with pytest.raises(errors.QueryError, match="no key was given"):
        asked.trace(TRADES)
    with pytest.raises(errors.DataError, match="no row has user = 'q'"):
        asked.trace(TRADES, "q")
    with pytest.raises(errors.QueryError, match="limit=0"):
        asked.trace(TRADES, "p", limit=0)
    whole = ensue.pattern("a -> c", types="kind").order_by("ts")
    assert whole.trace(TRADES.slice(0, 3))["action"].to_pylist()[-1] == "ask"
    with pytest.raises(errors.QueryError, match="no partition columns"):
        whole.trace(TRADES, "p")


def test_places_are_the_states_of_the_picture() -> None:
    for text in ("a b+ c", "a -> b+ ->> c"):
        asked = ensue.pattern(text, types="kind").partition_by("user").order_by("ts")
        known = {state.key for state in asked.program.view().states}
        shown = {place for step in asked.trace(TRADES, "p").to_pylist() for place in step["places"]}
        assert shown <= known and len(shown) > 2
