"""Filters in front of the shuffle change no answer: held to the oracle over all rows."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensue
from ensue.api.pattern import Pattern
from ensue.automaton.needed import clauses_of, needed_labels, rows_that_matter
from ensue.automaton.plan import plan
from ensue.operator.as_of import proves_absence
from ensue.operator.prepare import prepare
from ensue.query import condition as c
from tests import oracle_sequences
from tests.share import examples
from tests.short_streams import rows_of, table

pytestmark = pytest.mark.filterwarnings("ignore::ensue.errors.NothingMatchesWarning")

ORDER = 5  # rows of a stream have the times 0, 5, 10, ...

NAMES = st.sampled_from(["A", "B", "C", "D"])
STEPS = st.one_of(
    NAMES,
    st.builds("{}{}".format, NAMES, st.sampled_from(["+", "*", "?", "{2}", "{1,2}"])),
    st.builds("({} | {})".format, NAMES, NAMES),
    st.builds("({} -> {}){}".format, NAMES, NAMES, st.sampled_from(["", "+", "?"])),
    st.just("PERMUTE(A, B)"),
)


@st.composite
def skipping(draw: st.DrawFn) -> Pattern:
    """An event pattern whose joints all skip, with negations, windows and strategies."""
    text = draw(NAMES)
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 4)) == 0:
            text += " -> !X"
        text += draw(st.sampled_from([" -> ", " ->> "])) + draw(STEPS)
    if ends := draw(st.booleans()):
        text += " -> !W"
    found = ensue.pattern(text, types="kind").partition_by("stream").order_by("id")
    if ends or draw(st.booleans()):
        found = found.within(draw(st.integers(2, 6)) * ORDER)
    if draw(st.integers(0, 3)) == 0:
        found = found.without(y="kind = 'Y'")
    labels = found.query.labels
    if "B" in labels and draw(st.booleans()):
        found = found.define(B="x >= 2")
    if {"A", "C"} <= set(labels) and draw(st.booleans()):
        found = found.define(C="x <> LAST(A.x)")
    if draw(st.booleans()):
        ways = ["past last row", "to next row", f"to last {labels[0]}"]
        found = found.after_match(draw(st.sampled_from(ways)))
    return found


STREAMS = st.lists(st.text("ABCDWXYZZZ", min_size=1, max_size=9), min_size=4, max_size=8)


def spread(streams: list[str]) -> pa.Table:
    events = table(streams)
    ids = pc.multiply(events.column("id"), ORDER)
    return events.set_column(1, "id", ids)


def holds(condition: c.Condition, pattern: Pattern, events: pa.Table) -> pa.Table:
    """The rows with the condition."""
    label = pattern.query.labels[0]
    alone = ensue.pattern(label).partition_by("stream").order_by("id").query
    asked = plan(alone.__class__(alone.pattern, define=((label, condition),)))
    return events.filter(pc.equal(prepare(asked, events).column("__ensue_bits_0"), 1))


def listed(found: pa.Table) -> dict[int, list[tuple[tuple[str, int], ...]]]:
    sets: dict[int, list[tuple[tuple[str, int], ...]]] = defaultdict(list)
    for match in found.to_pylist():
        sets[match["stream"]].append(tuple((e["label"], e["row"]) for e in match["events"]))
    return sets


@settings(max_examples=examples(120), deadline=None)
@given(skipping(), STREAMS)
def test_rows_that_no_label_takes_change_nothing(pattern: Pattern, streams: list[str]) -> None:
    events = spread(streams)
    planned = plan(pattern.query)
    condition, reason = rows_that_matter(planned)
    assert condition is not None, reason
    kept = holds(condition, pattern, events)
    got = listed(pattern.matches(kept, as_of="end"))
    rows, of_stream = rows_of(events), rows_of(kept)
    for number, every in rows.items():
        here = of_stream.get(number, [])
        expected = oracle_sequences.matches(pattern.query, every)
        found = [tuple((n, here[row]["id"] // ORDER) for n, row in match) for match in got[number]]
        assert sorted(found) == sorted(expected), (streams[number], pattern)
    wanted: dict[str, Any] = {"by": "stream", "every": 3 * ORDER, "n": "count(*)", "as_of": "end"}
    assert pattern.count(kept, as_of="end") == sum(map(len, got.values()))
    totals = [pattern.aggregate(rows, **wanted).to_pylist() for rows in (kept, events)]
    assert sorted(map(str, totals[0])) == sorted(map(str, totals[1]))
    first = f"LAST({pattern.query.labels[0]}.x)"
    shown = pattern.measures(n="MATCH_NUMBER()", a=first, last="LAST(id)", k="COUNT(*)")
    if proves_absence(pattern.query) and kept.num_rows:
        # The latest row may be one of those left out, and tells the time all the same.
        latest = max(events["id"].to_pylist())
        found = shown.matches(kept, as_of=latest)
        assert found.num_rows == shown.matches(events).num_rows
    assert shown.matches(kept, as_of="end").equals(shown.matches(events, as_of="end"))


ROW_STEPS = st.one_of(STEPS.filter(lambda step: "->" not in step), st.just("(A B | C{2})"))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ROW_STEPS, min_size=1, max_size=3), STREAMS)
def test_a_match_meets_every_clause(steps: list[str], streams: list[str]) -> None:
    pattern = ensue.pattern(" ".join(steps), types="kind").partition_by("stream").order_by("id")
    events = spread(streams)
    clauses = clauses_of(plan(pattern.query))
    found = set(pattern.matches(events).column("stream").to_pylist())
    for clause in clauses:
        there = set(holds(clause, pattern, events).column("stream").to_pylist())
        assert found <= there, (pattern, clause)


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("A B+ C*", ["A", "B"]),
        ("A (B | C) D?", ["A", "BC"]),
        ("(A B | A C) {- D -}", ["A", "AB", "AC", "BC", "D"]),
        ("PERMUTE(A, B)", ["A", "B"]),
        ("(A | B?) ^ $", []),
        ("A -> !X -> B", ["A", "B"]),
    ],
)
def test_needed_labels(text: str, sets: list[str]) -> None:
    found = needed_labels(ensue.pattern(text, types="kind").query)
    assert sorted("".join(sorted(labels)) for labels in found) == sets


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (ensue.pattern("A B"), "a row pattern has no gaps"),
        (ensue.pattern("A -> B C"), "a strict joint asks which row is the next"),
        (ensue.pattern("A -> B").within("5 rows"), "the window counts rows"),
        (ensue.pattern("A -> within 5 units B"), "any row shows that a joint's time is over"),
        (ensue.pattern("A ->> B").within(9).allow_missing(1), "events may be missing"),
        (
            ensue.pattern("A -> B").define(B="x > PREV(x)"),
            "a condition or measure reads the rows beside an event",
        ),
        (ensue.pattern("A -> B").define(B="LAST(A.x) < x"), "every row could be B"),
    ],
)
def test_reasons(pattern: Pattern, reason: str) -> None:
    typed = pattern.define(A="kind = 'A'").order_by("id")
    assert rows_that_matter(plan(typed.query)) == (None, reason)
