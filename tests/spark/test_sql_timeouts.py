"""SHOW TIMEOUT MATCHES: partial matches whose window ended, against a search written out."""

from __future__ import annotations

import random
from typing import Any

import pytest

import ensue
from ensue import errors


def statement(skip: str, within: str, table: str = "visits") -> str:
    return f"""SELECT * FROM {table} MATCH_RECOGNIZE (
        PARTITION BY u ORDER BY t
        MEASURES FIRST(t) AS first, LAST(t) AS last, COUNT(*) AS n, MATCH_NUMBER() AS m
        ONE ROW PER MATCH SHOW TIMEOUT MATCHES AFTER MATCH SKIP {skip}
        PATTERN (V C* P) WITHIN {within}
        DEFINE V AS k = 'v', C AS k = 'c', P AS k = 'p')"""


def by_hand(
    kinds: str, times: list[int], size: int, to_next: bool, latest: int
) -> list[tuple[Any, ...]]:
    """`v c* p`: at each start, a match, a partial match cut by the window, or neither."""
    result: list[tuple[Any, ...]] = []
    start = number = 0
    while start < len(kinds):
        following = start + 1
        end = start
        if kinds[start] == "v":
            while True:
                end += 1
                if end == len(kinds):  # the time of the whole table says whether it is over
                    status = "timeout" if latest - times[start] > size else "open"
                    result.append((times[start], times[end - 1], end - start, None, status))
                    break
                if times[end] - times[start] > size:
                    result.append((times[start], times[end - 1], end - start, None, "timeout"))
                    break
                if kinds[end] == "p":
                    number += 1
                    span = (times[start], times[end], end - start + 1, number, "matched")
                    result.append(span)
                    following = start + 1 if to_next else end + 1
                    break
                if kinds[end] != "c":
                    break
        start = following
    return result


def test_against_a_search_by_hand(spark: Any) -> None:
    chance = random.Random(11)
    data, expected = [], {True: [], False: []}
    drawn = []
    for user in ("a", "b", None):
        kinds = "".join(chance.choice("vvccccp") for _ in range(60))
        times = sorted(chance.sample(range(200), 60))
        if user == "a":  # its last attempt is open
            kinds, times = kinds[:-1] + "v", [*times[:-1], 199]
        drawn.append((user, kinds, times))
        data += [(user, t, k) for t, k in zip(times, kinds, strict=True)]
    for user, kinds, times in drawn:
        for to_next in (True, False):
            found = by_hand(kinds, times, 7, to_next, max(t for _, t, _ in data))
            expected[to_next] += [(user, *row) for row in found]
    assert {row[-1] for row in expected[True]} == {"matched", "timeout", "open"}
    frame = spark.createDataFrame(data, "u STRING, t INT, k STRING")
    frame.createOrReplaceTempView("visits")
    frame.selectExpr("u", "timestamp_seconds(t) AS t", "k").createOrReplaceTempView("timed")
    for to_next, skip in ((True, "TO NEXT ROW"), (False, "PAST LAST ROW")):
        found = ensue.sql(statement(skip, "7"), spark=spark)
        assert found.columns == ["u", "first", "last", "n", "m", "status"]
        assert sorted(map(tuple, found.collect()), key=str) == sorted(expected[to_next], key=str)
    timed = ensue.sql(statement("PAST LAST ROW", "INTERVAL '7' SECOND", "timed"), spark=spark)
    counts = {row.status: row["count"] for row in timed.groupBy("status").count().collect()}
    assert counts == {
        kind: sum(row[-1] == kind for row in expected[False])
        for kind in ("matched", "timeout", "open")
    }


def test_refused_without_a_window_or_with_all_rows(spark: Any) -> None:
    spark.createDataFrame([("a", 1, "v")], "u STRING, t INT, k STRING").createOrReplaceTempView(
        "visits"
    )
    text = statement("TO NEXT ROW", "7")
    for changed, words in [
        (text.replace("WITHIN 7", ""), "need WITHIN"),
        (text.replace("ONE ROW", "ALL ROWS"), "one row for each"),
    ]:
        with pytest.raises(errors.EnsueError, match=words):
            ensue.sql(changed, spark=spark)
