"""Partitions of event patterns that come in pieces give what they give at once."""

from __future__ import annotations

import datetime
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events, Snapshot, Watermark
from ensue.query.query import Query
from ensue.run import local
from ensue.sequences.evaluator import SequencesEvaluator
from ensue.sequences.pieces import TotalsInPieces
from ensue.sequences.totals import Finish, Grouping, Totals
from tests import sequence_specs
from tests.sequence_pieces import in_pieces, prepared, totals_in_pieces


def whole(query: Query, table: pa.Table, listing: Listing | None = None) -> list[dict[str, Any]]:
    return list(local.run(query, table, listing).to_pylist())


def by_partition(found: list[dict[str, Any]], keys: tuple[str, ...]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for row in found:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def check(query: Query, table: pa.Table, cuts: list[int], listing: Listing | None = None) -> None:
    expected = by_partition(whole(query, table, listing), query.partition_by)
    for restore in (False, True):
        for marks in (False, True):
            found = in_pieces(query, table, cuts, restore, marks, listing, together=not marks)
            assert by_partition(found, query.partition_by) == expected, (cuts, restore, marks)


OTHERS = [case for case in sequence_specs.cases() if not case.name.startswith("flink")]
FLINK = [case for case in sequence_specs.cases() if case.name.startswith("flink")]


@pytest.mark.parametrize("case", OTHERS[::2] + FLINK[::8], ids=str)
def test_spec_cases(case: sequence_specs.Case) -> None:
    check(case.pattern.query, case.table, [1])
    check(case.pattern.query, case.table, [2, 3])


PATTERNS = [
    "A -> B", "A ->> B ->> C", "A -> B+ -> C", "A ->> B+ ->> C", "A -> B C", "A+ ->> B",
    "(A -> B)+ -> C", "A ->> (B | C) ->> A", "A -> PERMUTE(B, C)", "A ->> !X ->> B -> C",
    "A -> B* -> !X -> C", "A ->> B{1,2} C",
]  # fmt: skip
JOINTS = ["A -> within 3 units B ->> C", "A ->> B+ -> within 2 units C", "A ->> within 3 units B+"]
STRATEGIES = ["past last row", "to next row", "to first B", "to last B"]
CONDITIONS = ["x > A.x", "SUM(B.x) < 6", "x >= LAST(B.x, 1) OR COUNT(B.*) = 1", "x > PREV(x)",
              "x < NEXT(x)"]  # fmt: skip


def events(chooser: random.Random, keys: int = 3, length: int = 12) -> pa.Table:
    rows = []
    for key in range(keys):
        time = 0
        for _ in range(chooser.randrange(1, length)):
            time += chooser.choice([0, 1, 1, 2, 5])
            rows.append((key, time, len(rows), chooser.choice("ABCX"), chooser.randrange(5)))
    columns = list(zip(*rows, strict=True))
    names = ["key", "t", "i", "kind", "x"]
    return pa.table(dict(zip(names, map(list, columns), strict=True)))


def random_query(chooser: random.Random) -> Query:
    pattern = ensue.pattern(chooser.choice(PATTERNS), types="kind")
    pattern = pattern.partition_by("key").order_by("t", "i")
    if chooser.random() < 0.3:
        pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if chooser.random() < 0.6:
        pattern = pattern.within(chooser.choice([0, 1, 3, 6, "3 rows"]))
    if chooser.random() < 0.4:
        pattern = pattern.after_match(chooser.choice(STRATEGIES))
    if chooser.random() < 0.3:
        pattern = pattern.measures(n="COUNT(*)", m="MATCH_NUMBER()", p="PREV(A.x)", q="NEXT(A.x)")
    return pattern.query


@pytest.mark.parametrize("seed", range(30))
def test_random_patterns(seed: int) -> None:
    chooser = random.Random(seed)
    for _ in range(3):
        query, table = random_query(chooser), events(chooser)
        check(query, table, [chooser.randrange(1, 5) for _ in range(3)])


@pytest.mark.parametrize("seed", range(30))
def test_absence_and_time_outs(seed: int) -> None:
    chooser = random.Random(seed)
    text = chooser.choice(
        ["A -> !X", "A ->> B+ -> !X", "A -> B !X", "A ->> B -> !C", "A -> B -> C", *JOINTS]
    )
    pattern = ensue.pattern(text, types="kind").partition_by("key").order_by("t", "i")
    if text in JOINTS and chooser.random() < 0.5:
        pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if text not in JOINTS or chooser.random() < 0.5:
        pattern = pattern.within(chooser.choice([1, 3, 6]))
    if text not in JOINTS and chooser.random() < 0.4:
        pattern = pattern.after_match(chooser.choice(STRATEGIES[:2]))
    listing = Listing(timeouts=text in JOINTS or chooser.random() < 0.5)
    check(pattern.query, events(chooser), [1, 3, 2], listing)


ASKED = {"n": "count(*)", "s": "sum(B.x)", "a": "avg(B.x)", "m": "max(B.x)", "l": "min(A.x)"}


@pytest.mark.parametrize("seed", range(25))
def test_aggregates(seed: int) -> None:
    chooser = random.Random(seed)
    counts = chooser.random() < 0.3
    asked = {"n": "count(*)"} if counts else ASKED
    text = chooser.choice([*PATTERNS, "A ->> B -> !X"])
    pattern = ensue.pattern(text, types="kind").partition_by("key").order_by("t", "i")
    if chooser.random() < 0.3:
        pattern = pattern.define(B=chooser.choice(CONDITIONS))
    if chooser.random() < 0.5 or "!X" in text[-3:]:
        pattern = pattern.within(chooser.choice([1, 3, 6]))
    if chooser.random() < 0.3:
        pattern = pattern.after_match(chooser.choice(STRATEGIES))
    query = pattern.measures(**asked).query
    every = chooser.choice([None, 2])
    grouping = Grouping(chooser.choice([(), ("key",)]), every, 1 if every else None)
    table = events(chooser)
    planned, rows, starts = prepared(query, table)
    complete = np.ones(len(starts) - 1, np.bool_)
    partials = Totals(planned, grouping).partials(Events(rows, starts, complete))
    expected = Finish(planned, grouping, rows.schema).table([partials]).to_pylist()
    for restore in (False, True):
        for marks in (False, True):
            found = totals_in_pieces(query, table, grouping, [1, 3, 2], restore, marks)
            assert sorted(map(str, found)) == sorted(map(str, expected)), (restore, marks)


def test_counting_without_a_window_keeps_no_rows() -> None:
    table = pa.table({"t": list(range(300)), "kind": list("ABC") * 100})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("t").measures(n="count(*)")
    planned, rows, _ = prepared(pattern.query, table)
    totals = TotalsInPieces(planned, rows.schema, Grouping(as_text=True))
    found = [totals.insert(one(rows, begin, begin + 10)) for begin in range(0, 300, 10)]
    assert sum(held.length for held in totals._tails.held.values()) == 0
    assert len(totals.snapshot().keys[()]) < 5000
    found.append(totals.end())
    answer = Finish(planned, Grouping(as_text=True), rows.schema).table(found).to_pylist()
    assert list(answer[0].values()) == [str(pattern.count(table))]


# -- what is put out when, and what is held ------------------------------------------------------


def opened(pattern: ensue.Pattern, table: pa.Table, **options: Any) -> tuple[Any, pa.Table, Any]:
    planned, rows, starts = prepared(pattern.query, table)
    evaluator = SequencesEvaluator(Listing(**options))
    evaluator.open(planned, rows.schema)
    return evaluator, rows, starts


def one(rows: pa.Table, begin: int, end: int, complete: bool = False) -> Events:
    size = np.array([0, end - begin], np.int64)
    return Events(rows.slice(begin, end - begin), size, np.array([complete]))


def listed(output: Any) -> list[list[int]]:
    return [[e["row"] for e in m["events"]] for t in output.tables() for m in t.to_pylist()]


LETTERS = pa.table({"t": list(range(8)), "kind": list("ABXABXXB")})


def test_a_match_is_put_out_with_the_row_that_ends_it() -> None:
    evaluator, rows, _ = opened(ensue.pattern("A -> B", types="kind").order_by("t"), LETTERS)
    found = [listed(evaluator.insert(one(rows, i, i + 1))) for i in range(8)]
    assert found == [[], [[0, 1]], [], [], [[3, 4]], [], [], []]


def test_a_trailing_not_fires_with_the_watermark_that_proves_it() -> None:
    pattern = ensue.pattern("A -> !X", types="kind").order_by("t").within(3)
    evaluator, rows, _ = opened(pattern, LETTERS)
    assert listed(evaluator.insert(one(rows, 0, 2))) == []
    assert listed(evaluator.advance(Watermark(3))) == []  # an X at 3 may come
    assert listed(evaluator.advance(Watermark(4))) == [[0]]
    assert listed(evaluator.advance(Watermark(9))) == []
    assert listed(evaluator.end()) == []


def test_times_as_watermarks() -> None:
    day = datetime.datetime(2026, 1, 1)
    times = [day + datetime.timedelta(minutes=i) for i in range(8)]
    table = LETTERS.set_column(0, "t", pa.array(times, pa.timestamp("us")))
    pattern = ensue.pattern("A -> C", types="kind").order_by("t").within("2 minutes")
    evaluator, rows, _ = opened(pattern, table, timeouts=True)
    assert listed(evaluator.insert(one(rows, 0, 2))) == []
    assert listed(evaluator.advance(Watermark(times[2]))) == []
    assert listed(evaluator.advance(Watermark(times[3]))) == [[0]]
    listed(evaluator.insert(one(rows, 3, 4)))
    with pytest.raises(errors.ColumnTypeError, match="is not a value of the order column"):
        listed(evaluator.advance(Watermark("soon")))


def held_rows(evaluator: SequencesEvaluator) -> int:
    return sum(held.length for held in evaluator._tails.held.values())


def test_the_window_bounds_what_is_held() -> None:
    letters = [random.Random(7).choice("ABX") for _ in range(600)]
    table = pa.table({"t": list(range(600)), "kind": letters})
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("t").within(10)
    evaluator, rows, _ = opened(pattern, table)
    for begin in range(0, 600, 20):
        listed(evaluator.insert(one(rows, begin, begin + 20)))
        assert held_rows(evaluator) <= 11
    listed(evaluator.advance(Watermark(1000)))
    assert held_rows(evaluator) == 0


def test_without_partial_matches_no_row_is_held() -> None:
    table = pa.table({"t": list(range(9)), "kind": list("BXXBXABXX")})
    evaluator, rows, _ = opened(ensue.pattern("A -> B", types="kind").order_by("t"), table)
    sizes = []
    for row in range(9):
        listed(evaluator.insert(one(rows, row, row + 1)))
        sizes.append(held_rows(evaluator))
    assert sizes == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert evaluator._tails.held[()].base == 9


def test_blocks_are_rewritten_when_most_of_them_is_garbage() -> None:
    keys = 50
    table = pa.table(
        {
            "key": [k for k in range(keys) for _ in range(40)],
            "t": list(range(40)) * keys,
            "kind": ["A", "B", "X", "X"] * (10 * keys),
        }
    )
    pattern = ensue.pattern("A ->> B ->> C", types="kind").partition_by("key").order_by("t")
    evaluator, rows, starts = opened(pattern.within(6), table)
    for turn in range(40):
        chosen = [k for k in range(keys) if turn < 2 or k % 7 == turn % 7]
        part = pa.concat_tables([rows.slice(int(starts[k]) + turn, 1) for k in chosen])
        sizes = np.arange(len(chosen) + 1, dtype=np.int64)
        listed(evaluator.insert(Events(part, sizes, np.zeros(len(chosen), np.bool_))))
    blocks = {id(h.block): h.block.num_rows for h in evaluator._tails.held.values()}
    assert sum(blocks.values()) <= 4096 + 2 * held_rows(evaluator) + keys


def test_only_touched_keys_are_in_a_snapshot_and_state_of_another_query_is_refused() -> None:
    table = pa.table({"key": [1, 1, 2], "t": [0, 1, 0], "kind": list("AXA")})
    pattern = ensue.pattern("A -> B", types="kind").partition_by("key").order_by("t")
    evaluator, rows, starts = opened(pattern, table)
    listed(evaluator.insert(Events(rows, starts, np.zeros(2, np.bool_))))
    assert set(evaluator.snapshot().keys) == {(1,), (2,)}
    taken = evaluator.snapshot([(2,), (5,)])
    assert set(taken.keys) == {(2,)}
    planned, rows, _ = prepared(pattern.within(5).query, table)
    with pytest.raises(errors.StateError, match="belongs to another query"):
        SequencesEvaluator().open(planned, rows.schema, state=taken)
    with pytest.raises(errors.StateError, match="damaged"):
        SequencesEvaluator().open(planned, rows.schema, state=Snapshot({(): b"junk"}))


@pytest.mark.parametrize("keys", [[1.5, float("nan"), None], ["a", "NaN", None]])
def test_keys_that_are_not_numbers_and_state_without_rows(keys: list[Any]) -> None:
    table = pa.table({"key": keys + keys, "t": [0, 0, 0, 1, 1, 1], "kind": list("ABABBB")})
    pattern = ensue.pattern("A -> B", types="kind").partition_by("key").order_by("t")
    expected = sorted(map(str, whole(pattern.query, table)))
    for together in (False, True):
        found = in_pieces(pattern.query, table, [1], True, False, together=together)
        assert sorted(map(str, found)) == expected
    evaluator, rows, _ = opened(pattern, table)
    again = SequencesEvaluator()
    again.open(prepared(pattern.query, table)[0], rows.schema, state=evaluator.snapshot_together())
    assert not again.snapshot().keys


def test_a_sample_waits_for_the_whole_partition() -> None:
    pattern = ensue.pattern("A ->> B", types="kind").order_by("t")
    evaluator, rows, _ = opened(pattern, LETTERS, sample=4)
    assert listed(evaluator.insert(one(rows, 0, 5))) == []
    assert listed(evaluator.insert(one(rows, 5, 8))) == []
    assert len(listed(evaluator.end())) == 4
