"""Workloads without a bound: exactly the union of the separate answers."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ensue
from ensue.api.pattern import Pattern
from ensue.api.workload import Workload
from ensue.shared.options import Sharing
from tests import oracle_sequences, sequence_specs
from tests.share import examples
from tests.unit.test_sequences_exhaustive import EVENTS, PATTERNS, ROWS, STREAMS
from tests.workload_cases import shared

SHARING = (True, False)


def listed(found: pa.Table) -> dict[str, list[tuple[object, ...]]]:
    """Per pattern: (partition, events) of each match, sorted."""
    by_name: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for match in found.to_pylist():
        events = tuple((e["label"], e["row"]) for e in match["events"])
        by_name[match["pattern"]].append((match.get("stream", 0), events))
    return {name: sorted(matches) for name, matches in by_name.items()}


def expected(
    pattern: Pattern, rows: dict[int, list[dict[str, object]]]
) -> list[tuple[object, ...]]:
    return sorted(
        (stream, pairs)
        for stream, events in rows.items()
        for pairs in oracle_sequences.matches(pattern.query, events)
    )


def all_short_streams(patterns: list[Pattern], share: bool = True) -> None:
    named = {
        f"q{i}": pattern.partition_by("stream").order_by("id") for i, pattern in enumerate(patterns)
    }
    wanted = {name: expected(pattern, ROWS) for name, pattern in named.items()}
    for merge in (True, False):
        got = listed(Workload(named, Sharing(share=share, merge=merge)).matches(EVENTS))
        for name, pattern in named.items():
            assert got.get(name, []) == wanted[name], (name, pattern, merge)


@pytest.mark.compiled
@pytest.mark.parametrize("share", SHARING)
def test_every_pattern_at_once_on_all_short_streams(share: bool) -> None:
    all_short_streams([ensue.pattern(text, types="kind") for text in PATTERNS], share)


@pytest.mark.compiled
def test_windows_of_different_sizes_share() -> None:
    all_short_streams(
        [ensue.pattern(text, types="kind").within(n) for text in PATTERNS[:12] for n in (1, 3)]
    )
    all_short_streams(
        [ensue.pattern(text, types="kind").within("3 rows") for text in PATTERNS[::3]]
    )


@pytest.mark.compiled
def test_after_match_strategies() -> None:
    texts = ["A ->> B ->> C", "A -> B+", "A ->> B+ ->> C", "A -> !X -> B"]
    skips = ["past last row", "to next row", "no skip"]
    all_short_streams([ensue.pattern(t, types="kind").after_match(s) for t in texts for s in skips])


@pytest.mark.compiled
def test_conditions_over_other_events() -> None:
    def q(text: str, **define: str) -> Pattern:
        return ensue.pattern(text, types="kind").define(**define)

    all_short_streams(
        [
            q("A ->> B ->> C", B="x > A.x", C="x <= B.x"),
            q("A ->> B ->> A", B="A.x < B.x"),
            q("A ->> B+ ->> C", C="SUM(B.x) > A.x"),
            q("A ->> B+ ->> C", B="COUNT(B.x) = 1 OR x >= LAST(B.x, 1)"),
            q("A ->> B ->> C", C="x > LAST(x, 1)"),
            q("A ->> !X ->> C", X="x > A.x"),
            q("A -> B -> C", C="x = FIRST(x)"),
            q("A ->> B ->> C", C="COUNT(*) = 3 AND AVG(x) > 1"),
        ]
    )


@pytest.mark.parametrize("group", range(8))
def test_spec_cases_as_workloads(group: int) -> None:
    """Cases over the same events are one workload."""
    by_events: dict[str, list[sequence_specs.Case]] = defaultdict(list)
    for case in sequence_specs.cases():
        by_events[case.data["events"]].append(case)
    for number, cases in enumerate(by_events.values()):
        if number % 8 != group:
            continue
        named = {f"c{i}": case.pattern for i, case in enumerate(cases)}
        found = ensue.workload(named).matches(cases[0].table).to_pylist()
        for name, case in zip(named, cases, strict=True):
            mine = [match for match in found if match["pattern"] == name]
            assert sequence_specs.shown(mine) == case.expected, case.name


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Pattern], list[str], list[int]]:
    steps = st.sampled_from(["A", "B", "C", "B+", "C?", "A{2}"])
    joints = st.sampled_from([" ->> ", " -> "])
    found = []
    for _ in range(draw(st.integers(1, 5))):
        parts = draw(st.lists(steps, min_size=1, max_size=4))
        text = parts[0]
        for part in parts[1:]:
            text += draw(joints) + part
        if "->" not in text or text.rstrip("?") in "ABC":
            text = "A ->> " + text
        pattern = ensue.pattern(text, types="kind")
        labels = pattern.query.labels
        if len(labels) > 1 and draw(st.booleans()):
            other = draw(st.sampled_from(labels[:-1]))
            pattern = pattern.define(**{labels[-1]: f"x >= {other}.x"})
        if draw(st.booleans()):
            pattern = pattern.within(draw(st.integers(1, 6)))
        found.append(pattern.order_by("id"))
    length = draw(st.integers(1, 9))
    kinds = draw(st.lists(st.sampled_from("ABCX"), min_size=length, max_size=length))
    values = draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))
    return found, kinds, values


@settings(max_examples=examples(60), deadline=None)
@given(workloads(), st.sampled_from(SHARING))
def test_hypothesis_workloads(
    given_: tuple[list[Pattern], list[str], list[int]], share: bool
) -> None:
    patterns, kinds, values = given_
    table = pa.table({"id": list(range(len(kinds))), "kind": kinds, "x": values})
    named = {f"q{i}": pattern for i, pattern in enumerate(patterns)}
    got = listed(Workload(named, Sharing(share=share)).matches(table))
    for name, pattern in named.items():
        assert got.get(name, []) == expected(pattern, {0: table.to_pylist()}), pattern


def test_sub_patterns_are_shared_at_other_places() -> None:
    def q(text: str, **define: str) -> Pattern:
        return ensue.pattern(text, types="kind").define(**define)

    patterns = [
        q("A ->> B ->> C", B="x > 0", C="x >= B.x"),
        q("X ->> A ->> B ->> A", B="x > 0"),
        q("C ->> X ->> A ->> B", B="0 < x"),
    ]
    all_short_streams(patterns)
    all_short_streams([pattern.within(3) for pattern in patterns])
    all_short_streams([pattern.within("4 rows") for pattern in patterns])
    long = pa.table({"id": range(40), "kind": list("CXABAC" * 6 + "CXAB"), "x": [1, 2] * 20})
    named = {f"q{i}": p.order_by("id").within(20) for i, p in enumerate(patterns)}
    together, apart = shared(named), shared(named, share=False)
    assert listed(together.matches(long)) == listed(apart.matches(long))
    assert together.report.work < apart.report.work
    assert together.report.patterns["q1"].found == len(listed(together.matches(long))["q1"])


def test_more_patterns_than_a_word_has_bits() -> None:
    named = {
        f"q{i}": ensue.pattern("A ->> B ->> C", types="kind").define(C=f"x <> {i}").order_by("id")
        for i in range(70)
    }
    letters = list("ABCABC")
    table = pa.table({"id": range(6), "kind": letters, "x": [0, 0, 3, 0, 0, 69]})
    got = listed(ensue.workload(named).matches(table))
    for i, (name, pattern) in enumerate(named.items()):
        assert got[name] == expected(pattern, {0: table.to_pylist()}), i


def test_measures_are_united_and_tables_come_back_in_kind() -> None:
    table = pa.table({"id": range(4), "kind": list("ABAB"), "x": [1, 2, 3, 4]})
    q = ensue.pattern("A ->> B", types="kind").order_by("id")
    load = ensue.workload(
        low=q.measures(total="A.x + B.x"), high=q.measures(top="MAX(x)", n="CLASSIFIER()")
    )
    found = load.matches(table)
    assert found.column_names == ["pattern", "total", "top", "n"]
    rows = sorted(found.to_pylist(), key=str)
    assert [r["total"] for r in rows if r["pattern"] == "low"] == [3, 5, 7]
    assert sorted((r["top"], r["n"]) for r in rows if r["pattern"] == "high") == [
        (2, "B"), (4, "B"), (4, "B"),
    ]  # fmt: skip
    frame = load.matches(table.to_pandas())
    assert list(frame.columns) == found.column_names and len(frame) == 6
    polars = pytest.importorskip("polars")
    assert load.matches(polars.from_arrow(table)).shape == (6, 4)


def test_no_match_keeps_the_columns() -> None:
    table = pa.table({"id": pa.array([], pa.int64()), "kind": pa.array([], pa.string())})
    q = ensue.pattern("A ->> B", types="kind").order_by("id")
    found = ensue.workload(q=q).matches(table)
    assert found.num_rows == 0
    assert found.column_names == ["pattern", "match_number", "first", "last", "events"]


def test_groups_of_other_orders_run_beside_each_other() -> None:
    table = pa.table({"id": range(4), "u": [0, 1, 0, 1], "kind": list("AABB")})
    q = ensue.pattern("A ->> B", types="kind")
    load = ensue.workload(all=q.order_by("id"), each=q.partition_by("u").order_by("id"))
    assert load.explain().count("group") >= 2
    found = load.matches(table).to_pylist()
    assert [m["pattern"] for m in found] == ["all"] * 4 + ["each"] * 2


def test_conditions_for_plain_python_and_long_numbers_fall_back() -> None:
    table = pa.table({"id": range(4), "kind": list("ABAB"), "s": ["a", "ab", "b", "bc"],
                      "x": [2**62, 2**62, 1, 1]})  # fmt: skip
    q = ensue.pattern("A ->> B", types="kind").order_by("id")
    text = q.define(B="s LIKE concat(A.s, '%')")
    load = ensue.workload(text=text, plain=q)
    assert "by itself" in load.explain(table)
    found = listed(load.matches(table))
    assert found["text"] == [(0, (("A", 0), ("B", 1))), (0, (("A", 2), ("B", 3)))]
    assert len(found["plain"]) == 3
    with pytest.raises(ensue.EnsueError, match="cannot shed"):
        load.matches(table, ensue.Budget(work=5))
    wide = table.set_column(3, "x", pa.array([2**62, 2**62, 1, 1], pa.int64()))
    large = q.define(B="CAST(x AS DECIMAL(30,0)) + A.x > 3")
    assert len(listed(ensue.workload(a=large, b=q).matches(wide))["a"]) == 2


def test_aggregate_gives_a_row_per_pattern() -> None:
    table = pa.table({"id": range(5), "kind": list("ABBAB"), "x": range(5)})
    q = ensue.pattern("A ->> B", types="kind").order_by("id")
    load = ensue.workload(one=q, two=ensue.pattern("A ->> B+", types="kind").order_by("id"))
    rows = load.aggregate(table, n="count(*)").to_pylist()
    assert [(r["pattern"], int(r["n"])) for r in rows] == [("one", 4), ("two", 8)]
    bounded = load.aggregate(table, ensue.Budget(work=1000), n="count(*)").to_pylist()
    assert [(r["pattern"], int(r["n"])) for r in bounded] == [("one", 4), ("two", 8)]


def test_in_pieces_with_snapshots_like_at_once() -> None:
    q = {
        "a": ensue.pattern("A ->> B ->> C", types="kind").define(C="x > A.x"),
        "b": ensue.pattern("A ->> B ->> A", types="kind"),
        "c": ensue.pattern("A ->> B+ ->> C", types="kind").define(C="SUM(B.x) > x"),
        "d": ensue.pattern("A -> !X", types="kind"),
    }
    load = ensue.workload({n: p.partition_by("u").order_by("id").within(14) for n, p in q.items()})
    rng = np.random.default_rng(3)
    kinds, users = rng.choice(list("ABCX"), 60), rng.integers(0, 2, 60)
    table = pa.table({"id": range(60), "u": users, "kind": kinds, "x": rng.integers(0, 5, 60)})
    at_once = listed(load.matches(table, as_of="end"))
    live, pieces = load.live(table.schema), []
    for begin in range(0, 60, 7):
        pieces.append(live.insert(table.slice(begin, 7)))
        live = load.live(table.schema, state=live.snapshot())
    pieces.append(live.end())
    assert listed(pa.concat_tables(pieces)) == at_once
    assert set(at_once) == set(q) and sum(map(len, at_once.values())) > 30


def test_patterns_come_and_go_while_running() -> None:
    def q(text: str) -> Pattern:
        return ensue.pattern(text, types="kind").order_by("id")

    table = pa.table({"id": range(6), "kind": list("ABCABC"), "x": [1, 2, 3, 4, 5, 6]})
    live = ensue.workload(abc=q("A ->> B ->> C").define(C="x > A.x"), ab=q("A ->> B")).live(
        table.schema
    )
    first = live.insert(table.slice(0, 2))
    live.revise(add={"bc": q("B ->> C").define(C="x = B.x + 1")}, remove=["ab"])
    second = pa.concat_tables([live.insert(table.slice(2)), live.end()])
    assert listed(first) == {"ab": [(0, (("A", 0), ("B", 1)))]}
    got = listed(second)
    assert set(got) == {"abc", "bc"}
    # the partial match A0 B1 is kept; the new pattern sees rows from 2 on
    assert got["abc"] == expected(q("A ->> B ->> C"), {0: table.to_pylist()})
    assert got["bc"] == [(0, (("B", 4), ("C", 5)))]
    with pytest.raises(ensue.EnsueError, match="no pattern 'zz'"):
        live.revise(remove=["zz"])
    with pytest.raises(ensue.EnsueError, match="already"):
        live.revise(add={"bc": q("A ->> C")})


@pytest.mark.parametrize(("call", "says"), [
    (lambda q: ensue.workload([("a", q), ("a", q)]), "two patterns are called 'a'"),
    (lambda q: ensue.workload(), "no pattern"),
    (lambda q: ensue.workload(a=q, weights={"a": 0}), "above zero"),
    (lambda q: ensue.workload(a=q, weights={"a": -2}), "above zero"),
    (lambda q: ensue.workload(a=q, weights={"b": 1}), "'b'"),
    (lambda q: ensue.workload(a="A -> B"), "is not a pattern"),
    (lambda q: ensue.workload(a=q).matches(EVENTS, ensue.Budget()), "no bound"),
    (lambda q: ensue.workload(a=q).matches(EVENTS, ensue.Budget(latency={"b": "1 ms"})), "'b'"),
    (lambda q: ensue.workload(a=q).matches(EVENTS, ensue.Budget(work=0)), "work=0"),
    (lambda q: ensue.workload(a=q).matches(EVENTS, ensue.Budget(latency="150%")), "150%"),
    (lambda q: ensue.workload(a=q.after_match("to next row")).matches(EVENTS, ensue.Budget(work=1)),
     "after_match"),
    (lambda q: ensue.workload(a=q).matches(EVENTS, history=EVENTS), "no budget is given"),
    (lambda q: ensue.workload(a=q).aggregate(EVENTS, ensue.Budget(work=9), n="sum(x)"), "count"),
])  # fmt: skip
def test_bad_input(call: object, says: str) -> None:
    q = ensue.pattern("A ->> B", types="kind").partition_by("stream").order_by("id")
    with pytest.raises(ensue.EnsueError, match=says):
        call(q)  # type: ignore[operator]


def test_streams_are_long_enough_to_tell() -> None:
    assert len(STREAMS) > 400 and len(list(itertools.islice(ROWS, 5))) == 5
