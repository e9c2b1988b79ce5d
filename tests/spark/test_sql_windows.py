"""Row patterns in windows (R020) on Spark, against a search written out frame by frame."""

from __future__ import annotations

import random
from typing import Any

import pytest

import ensue
from ensue import errors

VALUES = "(VALUES (1, 90), (2, 80), (3, 70), (4, 80), (5, 70), (6, 100)) t(id, v)"
UNBOUNDED = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"


def rows(spark: Any, text: str, dialect: str = "spark") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in ensue.sql(text, spark=spark, dialect=dialect).collect()]


def window(body: str, frame: str = UNBOUNDED, options: str = "") -> str:
    return f"""(ORDER BY id
        MEASURES LAST(v) AS val, CLASSIFIER() AS label, PREV(v, 2) AS back, NEXT(v) AS ahead
        {frame} {options} {body})"""


# Exclusion is allowed in a window and has no effect.
VALLEY = "PATTERN (A {- B+ -} C+) DEFINE B AS v < PREV(v), C AS v > PREV(v)"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [(1, 80, "C"), (2, None, None), (3, None, None), (4, None, None), (5, None, None),
              (6, None, None)]),
        ("AFTER MATCH SKIP TO NEXT ROW",
         [(1, 80, "C"), (2, 80, "C"), (3, None, None), (4, 100, "C"), (5, None, None),
          (6, None, None)]),
        ("AFTER MATCH SKIP TO LAST B SEEK",
         [(1, 80, "C"), (2, None, None), (3, 100, "C"), (4, None, None), (5, None, None),
          (6, None, None)]),
    ],
)  # fmt: skip
def test_measures_over_a_named_window(spark: Any, options: str, expected: Any) -> None:
    text = f"""SELECT id, val OVER w, label OVER w FROM {VALUES}
        WINDOW w AS {window(VALLEY, options=options)} ORDER BY id"""
    assert rows(spark, text, "trino") == expected


def test_functions_over_a_pattern_window(spark: Any) -> None:
    text = f"""SELECT t.id, row_number() OVER w AS n, array_agg(v) OVER w AS vs,
          count(*) OVER w AS c, first_value(v) OVER w AS f, max(v) OVER (ORDER BY id) AS plain
        FROM {VALUES} WINDOW w AS {window(VALLEY)} ORDER BY t.id"""
    found = rows(spark, text)
    assert found[0] == (1, 1, [90, 80, 70, 80], 4, 90, 90)
    assert found[1] == (2, 2, None, 0, None, 90)
    assert [row[1] for row in found] == [1, 2, 3, 4, 5, 6]


def test_the_frame_bounds_what_can_be_read(spark: Any) -> None:
    body = "PATTERN (A B) DEFINE A AS v > NEXT(v)"
    text = f"""SELECT id, label OVER w, back OVER w, ahead OVER w FROM {VALUES}
        WINDOW w AS {window(body, frame="ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING")} ORDER BY id"""
    found = rows(spark, text)
    assert found[0] == (1, "B", None, None)
    wide = text.replace("1 FOLLOWING", "2 FOLLOWING")
    assert rows(spark, wide)[0] == (1, "B", None, 70)
    seeking = text.replace("1 FOLLOWING", "id + 3 FOLLOWING SEEK").replace(
        "v > NEXT(v)", "v < NEXT(v)"
    )
    assert rows(spark, seeking)[0] == (1, "B", 80, 70)


def test_over_a_join_in_order_by_and_inline(spark: Any) -> None:
    text = f"""SELECT u.k, t.id, label OVER (
          PARTITION BY u.k ORDER BY t.id MEASURES CLASSIFIER() AS label
          {UNBOUNDED} AFTER MATCH SKIP TO NEXT ROW PATTERN (A B?) DEFINE B AS v < PREV(v)) AS l
        FROM {VALUES} JOIN (VALUES (1), (2)) u(k) ON u.k = 1 OR t.id < 3
        ORDER BY u.k, t.id"""
    found = rows(spark, text)
    assert [row[2] for row in found if row[0] == 1] == ["B", "B", "A", "B", "A", "A"]
    assert [row[1:] for row in found if row[0] == 2] == [(1, "B"), (2, "A")]


def test_random_windows_against_a_search_frame_by_frame(spark: Any) -> None:
    """`A B*` with B below its PREV: found by hand in every frame, INITIAL and SEEK."""
    chance = random.Random(3)
    data = [(p, i, chance.randint(0, 5)) for p in "pq" for i in range(12)]
    spark.createDataFrame(data, "p STRING, id INT, v INT").createOrReplaceTempView("walk")
    for mode, end in [("INITIAL", None), ("SEEK", None), ("INITIAL", 2), ("SEEK", 3)]:
        bound = "UNBOUNDED" if end is None else str(end)
        text = f"""SELECT p, id, n OVER w FROM walk WINDOW w AS (
            PARTITION BY p ORDER BY id MEASURES COUNT(*) AS n
            ROWS BETWEEN CURRENT ROW AND {bound} FOLLOWING
            AFTER MATCH SKIP PAST LAST ROW {mode}
            PATTERN (A B+) DEFINE A AS v > 2, B AS v < PREV(v))"""
        expected = [
            (p, i, n)
            for p in "pq"
            for i, n in enumerate(_by_hand([v for k, _, v in data if k == p], mode, end))
        ]
        assert sorted(rows(spark, text)) == sorted(expected), (mode, end)


def _by_hand(values: list[int], mode: str, end: int | None) -> list[int | None]:
    result: list[int | None] = []
    resume = 0
    for current in range(len(values)):
        last = len(values) - 1 if end is None else min(len(values) - 1, current + end)
        result.append(None)
        if current < resume:
            continue
        for start in range(current, last + 1) if mode == "SEEK" else [current]:
            length = 1
            while start + length <= last and values[start + length] < values[start + length - 1]:
                length += 1
            if values[start] > 2 and length > 1:
                result[-1], resume = length, start + length
                break
    return result


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("PATTERN (^A)", "anchor"),
        ("PATTERN (A $)", "anchor"),
        ("PATTERN (A) DEFINE A AS MATCH_NUMBER() > 1", "MATCH_NUMBER"),
    ],
)
def test_refused_in_windows(spark: Any, body: str, words: str) -> None:
    with pytest.raises(errors.QueryError, match=words) as caught:
        ensue.sql(f"SELECT val OVER w FROM {VALUES} WINDOW w AS {window(body)}", spark=spark)
    assert caught.value.place is not None


def test_more_refusals_in_windows(spark: Any) -> None:
    good = window("PATTERN (A)")
    for text, words in [
        (f"SELECT nope OVER w FROM {VALUES} WINDOW w AS {good}", "no measure"),
        (f"SELECT v OVER w FROM {VALUES} WINDOW w AS (ORDER BY id), u AS {good}", "no row pattern"),
        (f"SELECT v, val OVER w FROM {VALUES} GROUP BY id WINDOW w AS {good}", "GROUP BY"),
        (
            f"SELECT val OVER w FROM {VALUES} WINDOW w AS "
            + window("PATTERN (A)", frame="ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
            "CURRENT ROW",
        ),
        (
            f"SELECT val OVER w FROM {VALUES} WINDOW w AS " + window("PATTERN (A)", frame=""),
            "frame",
        ),
    ]:
        with pytest.raises(errors.EnsueError, match=words):
            ensue.sql(text, spark=spark)


def test_a_window_over_groups_and_windows_that_build_on_each_other(spark: Any) -> None:
    text = f"""SELECT v % 20 AS rest, count(*) AS n, sum(v) AS total, low OVER w AS low,
          sum(count(*)) OVER (base ROWS UNBOUNDED PRECEDING) AS running
        FROM {VALUES} WHERE id < 6 GROUP BY v % 20, v HAVING sum(v) > 80
        WINDOW base AS (ORDER BY v DESC),
          w AS (base MEASURES LAST(B.v) AS low {UNBOUNDED} PATTERN (A B+) DEFINE B AS v < PREV(v))
        ORDER BY total"""
    assert rows(spark, text) == [(10, 1, 90, 70, 1), (10, 2, 140, None, 5), (0, 2, 160, None, 3)]


def test_final_outside_a_clause_is_refused_before_spark_sees_it(spark: Any) -> None:
    with pytest.raises(errors.NavigationError, match="line 1, column 8: FINAL"):
        rows(spark, f"SELECT FINAL avg(v) FROM {VALUES}")
