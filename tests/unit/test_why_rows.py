"""Why row patterns did not match: every small pattern over every short stream, and random ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import ensue
from ensue import errors
from ensue.operator.notices import Notices
from ensue.query import nodes
from ensue.query.query import Query, Rows, SkipMode, Window, WindowKind
from ensue.run import why
from tests import oracle, oracle_why
from tests.generate import (
    generated_case,
    query_texts,
    short_streams,
    small_patterns,
    stream_query,
    stream_table,
    tables,
)
from tests.share import examples, some

UP_TO_THREE = small_patterns(1) + small_patterns(2) + small_patterns(3)
OF_FOUR = small_patterns(4)[::29]


def told(query: Query, table: pa.Table, per: str, texts: bool = False) -> list[dict[str, Any]]:
    rows = why.run(query, table, per, Notices()).to_pylist()
    for row in rows:
        text = row["text"] if texts else row.pop("text")
        assert (text is None) == (row["reason"] is None)
    return rows


def by_place(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


def check(queries: Iterable[Query], streams: list[str]) -> None:
    table = stream_table(streams)
    rows = table.to_pylist()
    for query in some(queries, repr):
        for per in ("start", "partition"):
            expected = by_place(oracle_why.why(query, rows, per))
            got = by_place(told(query, table, per))
            differs = [pair for pair in zip(got, expected, strict=True) if pair[0] != pair[1]]
            where = [streams[int(p[0].split("'stream', ")[1].split(")")[0])] for p in differs[:1]]
            text = nodes.pattern_text(query.pattern)
            assert not differs, f"{text}, {per}, on {where}: got, expected: {differs[:1]}"


def test_labels_that_exclude_each_other() -> None:
    patterns = UP_TO_THREE[::2] + OF_FOUR[::2]
    check(
        (stream_query(p, "disjoint", SkipMode.PAST_LAST_ROW) for p in patterns),
        short_streams(3, "abc"),
    )


def test_labels_that_overlap() -> None:
    check((stream_query(p, "overlap") for p in UP_TO_THREE[1::2] + OF_FOUR[1::2]), short_streams(4))


@pytest.mark.parametrize("definitions", ["neighbour", "correlated"])
def test_conditions_over_other_rows(definitions: str) -> None:
    patterns = [p for p in UP_TO_THREE[::5] + OF_FOUR[::2] if nodes.labels(p)]
    check((stream_query(p, definitions) for p in patterns), short_streams(4))


@pytest.mark.parametrize("window", [Window(WindowKind.NUMBER, 1), Window(WindowKind.ROWS, 2)])
def test_windows(window: Window) -> None:
    patterns = UP_TO_THREE[::4] + OF_FOUR[::3]
    queries = (stream_query(p, "disjoint", SkipMode.PAST_LAST_ROW) for p in patterns)
    check((replace(query, within=window) for query in queries), short_streams(4))


@settings(
    max_examples=examples(200),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(query_texts(), tables(), st.sampled_from(("start", "partition")))
def test_random_queries(query_text: dict[str, Any], table_text: str, per: str) -> None:
    case = generated_case(query_text, table_text)
    query = replace(case.query(), measures=None, rows=Rows.ONE)
    try:
        expected = oracle_why.why(query, case.input, per, patience=20_000)
    except oracle.TooLongError:
        assume(False)
    except errors.SkipTargetError:
        with pytest.raises(errors.SkipTargetError):
            told(query, case.table, per)
    else:
        assert by_place(told(query, case.table, per)) == by_place(expected)


# -- texts, and the shape of the answer ------------------------------------------------------------

EVENTS = pa.table(
    {
        "user": [1, 1, 1, 2, 2, 2, 3, 3, 4],
        "ts": [1, 2, 9, 1, 2, 3, 1, 2, 1],
        "kind": ["view", "cart", "pay", "view", "ad", "cart", "ad", "ad", None],
        "amount": [0, 5, 5, 0, 0, 20, None, 0, 0],
    }
)


def sentences(pattern: ensue.Pattern, per: str = "partition") -> list[tuple[str, str]]:
    rows = pattern.partition_by("user").order_by("ts").why(EVENTS, per=per).to_pylist()
    return [(row["reason"], row["text"]) for row in rows]


def test_sentences_have_values() -> None:
    assert sentences(ensue.pattern("view cart pay", types="kind").within(5)) == [
        ("within", "pay: 8 after the first row, 3 more than within allows"),
        (
            "not adjacent",
            "cart: kind = 'cart': 'ad' = 'cart' is false; the next row that fits comes 1 later",
        ),
        ("no start", "view: no row of 2 fits: kind = 'view' held at 0"),
        ("no start", "view: no row of 1 fits: kind = 'view' held at 0"),
    ]
    loops = sentences(ensue.pattern("ad{3} pay", types="kind"))
    assert loops[1:3] == [
        ("repetition", "ad: 1 of at least 3; kind = 'ad': 'cart' = 'ad' is false"),
        ("end", "ad: the partition ended"),
    ]
    rises = ensue.pattern("A B").define(A="kind <> 'pay'", B="amount > A.amount")
    assert sentences(rises, per="start") == [
        (None, None),
        ("consumed", "used up by match 1, of rows 0 to 1"),
        ("no start", "A: kind <> 'pay': 'pay' <> 'pay' is false"),
        ("condition", "B: amount > A.amount: 0 > 0 is false"),
        (None, None),
        ("consumed", "used up by match 1, of rows 1 to 2"),
        ("null", "B: amount > A.amount: 0 > NULL is null"),
        ("end", "B: the partition ended"),
        ("no start", "A: kind <> 'pay': NULL <> 'pay' is null"),
    ]


def test_how_often_each_part_held() -> None:
    pattern = ensue.pattern("A B").define(A="kind = 'ad' AND amount > 10 AND COUNT(*) = 1")
    assert sentences(pattern)[2] == (
        "no start",
        "A: no row of 2 fits: kind = 'ad' held at 2, amount > 10 held at 0, COUNT(*) = 1 held at 2",
    )


def test_anchors_are_waited_for() -> None:
    ends = ensue.pattern("view $", types="kind")
    assert sentences(ends)[0] == ("condition", "$: 2 more rows follow")
    begins = ensue.pattern("^ cart", types="kind")
    assert sentences(begins, per="start")[1] == ("no start", "^: not the first row")


def test_the_kind_of_table_that_was_given() -> None:
    pattern = ensue.pattern("view pay", types="kind").partition_by("user").order_by("ts")
    names = ["user", "matched", "stopped_at", "variable", "reason", "text", "matches"]
    assert list(pattern.why(EVENTS.to_pandas()).columns) == names
    assert pattern.why(EVENTS.slice(0, 0)).schema == pattern.why(EVENTS).schema
    by_start = pattern.why(EVENTS, per="start")
    assert by_start.column_names == ["user", "row", "start", *names[1:]]
    assert by_start["row"].to_pylist() == [0, 1, 2, 0, 1, 2, 0, 1, 0]


def test_refusals() -> None:
    pattern = ensue.pattern("view pay", types="kind").order_by("ts")
    with pytest.raises(errors.QueryError, match="per='row'"):
        pattern.why(EVENTS, per="row")
    with pytest.raises(errors.DuplicateNameError, match="'reason'"):
        pattern.partition_by("reason").why(EVENTS.append_column("reason", EVENTS["kind"]))
    with pytest.raises(errors.UnsupportedError, match="allow_missing"):
        pattern.select("any").allow_missing(1).why(EVENTS)
    with pytest.raises(errors.UnknownColumnError, match="nothing"):
        pattern.define(pay="nothing > 1").why(EVENTS)
