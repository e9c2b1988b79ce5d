"""Event patterns through the public names: words, limits, errors, aggregates, cores."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensue
from ensue import errors
from ensue.sequences import counts as sequence_counts
from ensue.sequences import limits as sequence_limits
from ensue.sequences import match_graph
from ensue.sequences import runs as sequence_runs
from tests import oracle_sequences
from tests.share import examples


def events(letters: str, **columns: list[object]) -> pa.Table:
    return pa.table({"id": list(range(len(letters))), "kind": list(letters), **columns})


def shown(matches: pa.Table) -> list[str]:
    return [
        " ".join(f"{e['row']}:{e['label']}" for e in match["events"])
        for match in matches.to_pylist()
    ]


ABC = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("id")

# -- one query, however it is said -----------------------------------------------------------------


def chain() -> ensue.chain.Chain:  # type: ignore[name-defined]
    start = ensue.begin("A").where("kind = 'A'").followed_by_any("B").where("kind = 'B'")
    return start.one_or_more().allow_combinations().followed_by_any("C").where("kind = 'C'")


def test_arrows_words_and_sase_give_equal_queries() -> None:
    assert chain().order_by("id").query == ABC.query
    said = ensue.sase("SEQ(A A, B+ B[], C C)", types="kind").order_by("id")
    assert said.query == ABC.query
    blank = ensue.pattern("A B+ C", types="kind").order_by("id")
    assert blank.select("any").query == ABC.query
    assert blank.query != ABC.query


def test_sase_conditions_negation_and_return() -> None:
    query = """SEQ(A a, B+ b[], !X x, C c)
        WHERE [user] AND b[i].v > b[i-1].v AND sum(b[..].v) < c.v AND a.v < b[i].v
        WITHIN 10 RETURN a.v AS first, count(b[]) AS n"""
    pattern = ensue.sase(query, types="kind").order_by("id")
    table = events("ABBBC", v=[1, 2, 5, 3, 9], user=["u"] * 5)
    found = sorted((m["first"], m["n"]) for m in pattern.matches(table).to_pylist())
    assert found == [(1, 1), (1, 1), (1, 1), (1, 2), (1, 2)]
    assert len(pattern.matches(events("ABBXC", v=[1, 2, 3, 0, 9], user=["u"] * 5))) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SEQ(A a, B+)", "is not a component"),
        ("SEQ(A a, B a)", "two components"),
        ("SEQ(A a, !B+ b)", "cannot repeat"),
        ("PATTERN A", "begins with SEQ"),
        ("SEQ(A a) WHERE 1 = 1", "names no component"),
        ("SEQ(A a, B b) STRATEGY greedy", "is not known"),
    ],
)
def test_sase_errors_have_a_place(text: str, problem: str) -> None:
    with pytest.raises(errors.EnsueError, match=problem):
        ensue.sase(text)


# -- bad input -------------------------------------------------------------------------------------


def test_a_trailing_not_needs_a_window() -> None:
    with pytest.raises(errors.QueryError, match="no window"):
        ensue.pattern("A -> !B").query
    with pytest.raises(errors.QueryError, match="no window"):
        ensue.begin("a").not_followed_by("b").query


def test_a_negation_before_a_permutation_of_optional_parts_is_refused() -> None:
    pattern = ensue.pattern("A -> !X -> PERMUTE(B, C?)", types="kind").order_by("id")
    with pytest.raises(errors.UnsupportedError, match="!X is before PERMUTE"):
        pattern.matches(events("AXB"))


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: ensue.begin("a").until("true"), "ends a loop"),
        (lambda: ensue.begin("a").times(2).until("true"), "ends a loop"),
        (lambda: ensue.begin("a").greedy(), "applies to a loop"),
        (lambda: ensue.begin("a").consecutive(), "applies to a loop"),
        (lambda: ensue.begin("a").one_or_more().times(2), "already says how often"),
        (lambda: ensue.begin("a").not_next("b").one_or_more(), "negated step"),
        (lambda: ensue.begin("a").next("a"), "two steps"),
        (lambda: ensue.begin("a").times(3, 2), "cannot come true"),
        (lambda: ensue.begin(ensue.begin("a")).where("true"), "not to a group"),
        (lambda: ensue.pattern("!A -> B").query, "cannot begin"),
        (lambda: ensue.pattern("A -> (!B)+ -> C").query, "stands alone"),
        (lambda: ensue.pattern("A -> !B -> C").measures(x="B.x").query, "no match has"),
    ],
)
def test_refused(build: object, problem: str) -> None:
    with pytest.raises(errors.QueryError, match=problem):
        build()  # type: ignore[operator]


def test_row_patterns_keep_their_own_rules() -> None:
    with pytest.raises(errors.QueryError, match="without a window nothing times out"):
        ensue.pattern("A B").matches(events("AB"), timeouts=True)
    with pytest.raises(errors.UnsupportedError, match="row patterns have no limit"):
        ensue.pattern("A B").matches(events("AB"), limit=1)
    with pytest.raises(errors.UnsupportedError, match="all matches of an event pattern"):
        ensue.pattern("A B").aggregate(events("AB"), n="count(*)")


def test_all_rows_per_match() -> None:
    whole = ABC.rows_per_match("all rows")
    found = whole.measures(n="COUNT(*)", of="FINAL COUNT(*)", b="LAST(B.id)", before="PREV(kind)")
    table = found.matches(events("AXBC", v=[5, 6, 7, 8]))
    assert table.to_pylist() == [
        {"id": 0, "n": 1, "of": 3, "b": None, "before": None, "kind": "A", "v": 5},
        {"id": 2, "n": 2, "of": 3, "b": 2, "before": "X", "kind": "B", "v": 7},
        {"id": 3, "n": 3, "of": 3, "b": 2, "before": "B", "kind": "C", "v": 8},
    ]
    assert whole.count(events("ABBC")) == ABC.count(events("ABBC")) == 3
    for as_of, status in ((None, "open"), ("end", "timeout")):
        late = whole.within(9).matches(events("ABA"), timeouts=True, as_of=as_of)
        assert late.column("status").to_pylist() == [status] * late.num_rows
        assert late.num_rows
    both = ensue.workload(whole=whole, listed=ABC).matches(events("ABC"))
    assert both.column("kind").to_pylist() == ["A", "B", "C", None]


def test_all_rows_as_events_come() -> None:
    rows = events("ABBC")
    whole = ABC.within(9).rows_per_match("all rows").measures(label="CLASSIFIER()")
    matcher = whole.matcher(speculation=math.inf)
    changes = [matcher.insert(rows.take([row])) for row in (3, 0, 2, 1)]
    changes.append(matcher.retract(rows.take([2])))
    kept: list[tuple[object, ...]] = []
    for change in pa.concat_tables([*changes, matcher.end()]).to_pylist():
        told = tuple(change[name] for name in ("match_id", "id", "label", "kind"))
        kept.append(told) if change["op"] == "+" else kept.remove(told)
    assert [row[1:] for row in kept] == [(0, "A", "A"), (1, "B", "B"), (3, "C", "C")]


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda q: q.matches(events("ABC"), limit=1), "limit, sample and compact choose matches"),
        (lambda q: q.matches(events("ABC"), compact=True), "limit, sample and compact"),
        (lambda q: q.allow_missing(1).matches(events("ABC")), "there is one row per match"),
        (lambda q: q.matches(events("ABC"), budget=ensue.Budget(work=9)), "ALL ROWS PER MATCH"),
        (
            lambda q: q.rows_per_match("all rows with unmatched").matches(events("ABC")),
            "not unmatched rows",
        ),
        (lambda q: q.matches(events("ABC", label=[1, 2, 3])), "measure 'label' has the name"),
    ],
)
def test_all_rows_refused(ask: Any, problem: str) -> None:
    with pytest.raises(errors.EnsueError, match=problem):
        ask(ABC.within(9).rows_per_match("all rows"))


def test_rows_of_their_own() -> None:
    """Nothing of a row pattern changes."""
    rows = ensue.pattern("A B", types="kind").order_by("id").rows_per_match("all rows")
    assert rows.matches(events("ABC")).column_names == ["id", "kind"]


def test_too_many_matches_says_how_many() -> None:
    with pytest.raises(errors.LimitError, match=r"there are 1,023 matches; max_matches is 100"):
        ABC.matches(events("A" + "B" * 10 + "C"), max_matches=100)
    correlated = ABC.define(B="id > A.id")
    with pytest.raises(errors.LimitError, match=r"there are 1,023 matches"):
        correlated.matches(events("A" + "B" * 10 + "C"), max_matches=100)


def test_no_window_on_a_long_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_limits, "WARN_ROWS", 5)
    with pytest.warns(sequence_limits.UnboundedPatternWarning, match="about"):
        ABC.matches(events("ABBBBC"))
    monkeypatch.setattr(sequence_limits, "MAX_ROWS", 5)
    with pytest.raises(errors.LimitError, match="has no window"):
        ABC.matches(events("ABBBBC"))
    assert ABC.within(10).count(events("ABBBBC")) == 15


# -- some of the matches ---------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [ABC, ABC.define(B="id > A.id")])
def test_limit_and_sample(pattern: ensue.Pattern) -> None:
    table = events("A" + "B" * 8 + "C")
    everything = shown(pattern.matches(table))
    assert len(set(everything)) == 255
    assert shown(pattern.matches(table, limit=7)) == everything[:7]
    drawn = shown(pattern.matches(table, sample=2000, seed=1))
    assert len(drawn) == 2000
    assert set(drawn) <= set(everything)
    # 255 matches drawn 2000 times: each is expected 7.8 times, and hardly one never
    assert len(set(drawn)) > 245


def test_timed_out_partial_matches() -> None:
    pattern = ensue.pattern("A -> B -> C", types="kind").order_by("id").within(2)
    found = pattern.matches(events("ABCABXX"), timeouts=True).to_pylist()
    assert [(m["status"], len(m["events"])) for m in found] == [("matched", 3), ("timeout", 2)]
    with pytest.raises(errors.QueryError, match="there is no within"):
        ABC.matches(events("ABC"), timeouts=True)


def test_a_grown_match_is_not_also_timed_out() -> None:
    pattern = ensue.pattern("A -> B+", types="kind").order_by("id").within(3)
    found = pattern.matches(events("ABBXX"), timeouts=True).to_pylist()
    assert [m["status"] for m in found] == ["matched", "matched"]


def test_measures_read_the_events_of_the_match() -> None:
    pattern = ABC.measures(n="COUNT(B.*)", first="FIRST(B.id)", before="PREV(C.id)", last="C.id")
    found = pattern.matches(events("ABXBC")).to_pylist()
    assert {"n": 2, "first": 1, "before": 3, "last": 4} in found
    assert len(found) == 3


# -- aggregates ------------------------------------------------------------------------------------


def test_counts_are_exact_at_any_size() -> None:
    table = events("A" + "B" * 4000 + "C")
    assert ABC.count(table) == 2**4000 - 1
    assert ABC.within(4001).count(table) == 2**4000 - 1
    with pytest.raises(errors.OverflowDataError, match="1205 digits"):
        ABC.aggregate(table, n="count(*)")
    text = ABC.aggregate(table, big="text", n="count(*)").column("n")[0].as_py()
    assert int(text) == 2**4000 - 1


def test_sums_and_averages_over_occurrences() -> None:
    table = events("ABBC", x=[1.5, 2.0, 4.0, 8.0])
    row = ABC.aggregate(table, n="count(*)", s="sum(B.x)", a="avg(B.x)", r="sum(B.x) / count(*)")
    assert row.to_pylist() == [{"n": Decimal(3), "s": 12.0, "a": 3.0, "r": 4.0}]
    nothing = ABC.aggregate(events("AB", x=[1.0, 2.0]), n="count(*)", s="sum(B.x)").to_pylist()
    assert nothing == [{"n": Decimal(0), "s": None}]


def test_trend_aggregation_is_polynomial() -> None:
    """Rising runs of B: a condition between neighbours in the loop, counted without listing."""

    def table(size: int) -> pa.Table:
        return events("A" + "B" * size + "C", x=[0, *range(size), 0])

    rising = ABC.define(B="LAST(B.x, 1) IS NULL OR x > LAST(B.x, 1)")
    assert rising.count(table(60)) == 2**60 - 1
    assert rising.aggregate(table(60), s="sum(C.x)", n="count(B.*)").to_pylist() == [
        {"s": Decimal(0), "n": Decimal(60 * 2**59)}
    ]
    said = ensue.sase("SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x", types="kind").order_by("id")
    assert said.count(table(60)) == 2**60 - 1
    counted = ABC.define(B="COUNT(B.*) = 1 OR x > LAST(B.x, 1)")
    assert counted.count(table(12)) == 2**12 - 1


def test_neighbours_in_a_loop_have_one_class_per_last_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20 events: the classes that wait for a C and those that wait for a B, one per last B."""
    monkeypatch.setattr(sequence_runs, "MAX_CLASSES", 2 * 20 + 2)
    table = events("A" + "B" * 20 + "C", x=[0, *range(20), 0])
    rising = ABC.define(B="LAST(B.x, 1) IS NULL OR x > LAST(B.x, 1)")
    assert rising.count(table) == 2**20 - 1


def test_an_earlier_event_of_another_component_in_sase() -> None:
    """c reads the last but one b: a run of one b has none, and the condition holds."""
    text = "SEQ(A a, B+ b[], C c) WHERE c.x > b[last-1].x STRATEGY next"
    pattern = ensue.sase(text, types="kind").order_by("id")
    assert shown(pattern.matches(events("ABBC", x=[0, 5, 1, 3]))) == ["0:a 1:b 3:c"]
    assert len(pattern.matches(events("ABBC", x=[0, 2, 1, 3]))) == 2


def test_windows_of_time() -> None:
    pattern = ensue.pattern("A -> B", types="kind").order_by("id")
    table = events("ABABXXAB")
    tumbling = pattern.aggregate(table, every=4, n="count(*)").to_pylist()
    assert [(r["window_start"], r["window_end"], int(r["n"])) for r in tumbling] == [
        (0, 4, 2),
        (4, 8, 1),
    ]
    sliding = pattern.aggregate(table, every=4, slide=2, n="count(*)").to_pylist()
    assert {r["window_start"]: int(r["n"]) for r in sliding} == {0: 2, -2: 1, 2: 1, 6: 1, 4: 1}


def test_pieces_on_all_cores_give_the_answer_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chooser = random.Random(3)
    letters = "".join(chooser.choice("ABCX") for _ in range(300))
    table = events(letters)
    patterns = [
        ABC.within(15),
        ABC,
        ensue.pattern("A -> B -> !X", types="kind").order_by("id").within(9),
        ensue.pattern("A ->> B ->> C", types="kind").order_by("id").within("40 rows"),
    ]
    alone = [pattern.count(table) for pattern in patterns]
    monkeypatch.setattr(sequence_counts, "MIN_PIECE", 16)
    for threads in (2, 3, 7):
        monkeypatch.setattr(sequence_counts, "THREADS", threads)
        assert [pattern.count(table) for pattern in patterns] == alone


def test_the_compact_graph_in_small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction, growth and taking up a listing again, against large arrays."""
    chooser = random.Random(4)
    table = events("".join(chooser.choice("ABCX") for _ in range(200)))
    pattern = ABC.within(12)
    whole = shown(pattern.matches(table))
    monkeypatch.setattr(match_graph, "NODES", 64)
    monkeypatch.setattr(match_graph, "ROOTS", 4)
    monkeypatch.setattr(match_graph, "MATCHES", 3)
    assert shown(pattern.matches(table)) == whole


# -- random patterns -------------------------------------------------------------------------------

LABELS = st.sampled_from("ABC")
ARROWS = st.sampled_from([" ", " -> ", " ->> "])


@st.composite
def pattern_texts(draw: st.DrawFn) -> str:
    def part(depth: int) -> str:
        if depth and draw(st.integers(0, 3)) == 0:
            inside = " | ".join(part(depth - 1) for _ in range(2))
            return f"({inside})"
        return str(draw(LABELS)) + draw(st.sampled_from(["", "", "+", "?", "*", "{2}", "{1,2}"]))

    text = "A"
    for _ in range(draw(st.integers(1, 3))):
        text += draw(st.sampled_from([" -> ", " ->> "])) + part(1)
    return text


@settings(max_examples=examples(150), deadline=None)
@given(pattern_texts(), st.text("ABCX", min_size=1, max_size=7), st.sampled_from([None, 3]))
def test_random_patterns(text: str, letters: str, window: int | None) -> None:
    pattern = ensue.pattern(text, types="kind").order_by("id")
    if window is not None:
        pattern = pattern.within(window)
    table = events(letters)
    expected = sorted(
        " ".join(f"{row}:{label}" for label, row in pairs)
        for pairs in oracle_sequences.matches(pattern.query, table.to_pylist())
    )
    assert sorted(shown(pattern.matches(table))) == expected
    assert pattern.count(table) == len(expected)


def test_ties_and_nulls_in_the_order_column() -> None:
    table = pa.table({"id": pa.array([None, 0, 0, 1], pa.int64()), "kind": list("AABC")})
    assert len(ABC.within(5).matches(table)) == 1
    assert np.isclose(float(ABC.within(5).count(table)), 1.0)


def test_the_bound_of_the_last_joint_proves_an_absence() -> None:
    table = pa.table({"t": [1, 2, 4, 5, 10, 11, 13], "kind": list("ABACBAB")})
    chain = ensue.begin("a").where("kind = 'A'").not_followed_by("b").where("kind = 'B'")
    chain = chain.within(2, between="previous and current").order_by("t")
    assert [m["first"] for m in chain.matches(table).to_pylist()] == [4]
    assert chain.count(table) == 1
    text = ensue.pattern("A -> within 2 units !B", types="kind").order_by("t")
    assert text.count(table) == 1
    # nothing comes after the last A, and the end of the data proves the absence as well
    assert chain.count(table.slice(0, 6)) == 1
    assert chain.count(table.slice(0, 6), as_of="end") == 2


def test_partial_matches_that_exceed_the_bound_of_a_joint_are_timed_out() -> None:
    table = pa.table({"t": [1, 2, 3, 4, 11, 13], "kind": list("SSMXEE")})
    chain = ensue.begin("s").where("kind = 'S'").followed_by_any("m").where("kind = 'M'")
    chain = chain.followed_by_any("e").where("kind = 'E'")
    late = chain.within(7, between="previous and current").order_by("t")
    found = late.matches(table, timeouts=True).to_pylist()
    assert [([e["row"] for e in m["events"]], m["status"]) for m in found] == [
        ([0, 2], "timeout"),
        ([1, 2], "timeout"),
    ]
    in_time = chain.within(8, between="previous and current").order_by("t")
    rows = [m["status"] for m in in_time.matches(table, timeouts=True).to_pylist()]
    # both also waited for another E, in vain
    assert rows == ["matched", "matched", "timeout", "timeout"]


def test_sql_of_event_patterns_is_refused_by_name() -> None:
    pattern = ensue.pattern("A ->> B", types="kind").order_by("t")
    with pytest.raises(errors.UnsupportedError, match="has no SQL form"):
        pattern.sql()
    assert "take B" in pattern.explain()


def test_an_event_without_a_time_meets_no_bound_of_a_joint() -> None:
    times = pa.array([None, None, 1, 2], pa.int64())
    table = pa.table({"t": times, "kind": list("ABAB"), "x": [1, 2, 3, 4]})
    bounded = ensue.pattern("A ->> within 5 units B", types="kind").order_by("t")
    for q in (bounded, bounded.define(B="x > A.x"), bounded.after_match("to next row")):
        assert shown(q.matches(table)) == ["2:A 3:B"]
        assert q.count(table) == 1


def test_times_over_all_64_bits() -> None:
    table = pa.table({"t": [2**63 - 1, -1, -(2**63)], "kind": list("BBB")})
    pair = ensue.pattern("B ->> B", types="kind").within(10)
    for order in ("t", "t DESC"):
        assert pair.order_by(order).count(table) == 0
        assert pair.order_by(order).matches(table).num_rows == 0


def test_strict_can_be_selected() -> None:
    strict = ensue.pattern("A B+", types="kind").order_by("id").select("strict")
    table = events("ABBCB", x=[1, 2, 3, 4, 5])
    assert shown(strict.matches(table)) == ["0:A 1:B", "0:A 1:B 2:B"]
    assert strict.aggregate(table, s="sum(B.x)").to_pylist() == [{"s": Decimal(7)}]


# Conditions that read the match: the situations of FlinkCEP's IterativeConditionsITCase, with its
# answers (rows of the events; in Flink's words the running sum includes the event under test).
@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (lambda loop: loop, ["0 1 2 5 7", "0 1 2 7", "0 1 7", "3 4 5 7", "3 4 7"]),
        (
            lambda loop: loop.allow_combinations(),
            ["0 1 2 5 7", "0 1 2 7", "0 1 4 7", "0 1 5 7", "0 1 7", "3 4 5 7", "3 4 7"],
        ),
    ],
)
def test_running_sums_as_in_flink(chain: object, expected: list[str]) -> None:
    table = events("SFFSFFNE", price=[1.0, 1.0, 2.0, 2.0, 3.0, 1.0, 1.0, 1.0])
    loop = (
        ensue.begin("start")
        .where("kind = 'S'")
        .followed_by("middle")
        .where("kind = 'F' AND SUM(middle.price) < 5")
        .one_or_more()
    )
    q = chain(loop).followed_by("end").where("kind = 'E'").order_by("id")  # type: ignore[operator]
    found = [" ".join(str(e["row"]) for e in m["events"]) for m in q.matches(table).to_pylist()]
    assert sorted(found) == expected
    assert q.count(table) == len(expected)


def test_sums_and_counts_of_earlier_steps_as_in_flink() -> None:
    starts = ensue.begin("s").where("kind = 'S'").one_or_more()
    q = starts.followed_by_any("m").where("kind = 'F'").followed_by_any("e")
    q = q.where("kind = 'E' AND SUM(s.price) >= 2").order_by("id")
    table = events("SSFSFE", price=[1.0, 2.0, 1.0, 3.0, 2.0, 1.0])
    found = {" ".join(str(e["row"]) for e in m["events"]) for m in q.matches(table).to_pylist()}
    assert found == {"0 1 2 5", "1 2 5", "0 1 4 5", "0 1 3 4 5", "1 3 4 5", "1 4 5", "3 4 5"}
    until = ensue.begin("a").where("kind = 'A'").followed_by("d").where("kind = 'D'")
    until = until.one_or_more().until("COUNT(d.*) = 3").order_by("id")
    assert sorted(shown(until.matches(events("ADDDD")))) == [
        "0:a 1:d",
        "0:a 1:d 2:d",
        "0:a 1:d 2:d 3:d",
    ]
