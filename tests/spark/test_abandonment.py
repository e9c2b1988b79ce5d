"""The abandonment question on Spark, with all keys in one task and in many."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

import ensue
from tests.unit.test_abandonment import ABSENT, BOUGHT, LEFT, ROWS, SQL, by_hand, visits


@pytest.mark.parametrize("tasks", [1, 8])
def test_every_way_gives_the_carts_counted_by_hand(spark: Any, tasks: int) -> None:
    rows = visits(7, users=75)
    frame = spark.createDataFrame(rows, "u INT, t INT, k STRING").repartition(tasks, "u")
    frame.createOrReplaceTempView("carts")
    expected = by_hand(rows, max(t for _, t, _ in rows))
    assert set(Counter(s for *_, s in expected)) == {"matched", "timeout", "open"}
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    try:
        found = BOUGHT.matches(frame, timeouts=True)
        assert told(found) == expected
        assert told(ensue.sql(SQL, spark=spark)) == expected
        left = [row for row in told(LEFT.matches(frame, timeouts=True))]
        turned = {"timeout": "matched", "open": "open"}
        assert left == [(u, t, turned[s]) for u, t, s in expected if s != "matched"]
        for as_of, known in (("end", None), (300, 300)):
            given = BOUGHT.matches(frame, timeouts=True, as_of=as_of)
            assert told(given) == by_hand(rows, known)
            given = ensue.sql(SQL, spark=spark, as_of=as_of)
            assert told(given) == by_hand(rows, known)
        assert told(ROWS.matches(frame, timeouts=True)) == expected
        # Nobody asks for what is open: views, which are left out of the shuffle, tell the time.
        for as_of in (None, "end", 300):
            known = {None: max(t for _, t, _ in rows), "end": None}.get(as_of, as_of)
            proved = [(u, t) for u, t, s in by_hand(rows, known) if s == "timeout"]
            for left in (LEFT, LEFT.measures(first="FIRST(t)")):
                found = left.matches(frame, as_of=as_of).select("u", "first").collect()
                assert sorted(map(tuple, found)) == proved
            assert LEFT.count(frame, as_of=as_of) == len(proved)
            load = ensue.workload(left=LEFT.measures(first="FIRST(t)"), bought=BOUGHT)
            there = load.matches(frame, as_of=as_of).where("pattern = 'left'")
            assert sorted((row.u, row.first) for row in there.collect()) == proved
            clause = ensue.sql(ABSENT, spark=spark, as_of=as_of).collect()
            assert sum(int(row.n) for row in clause) == len(proved)
        known = {(u, t) for u, t, s in expected if s == "timeout"}
        counted = LEFT.why(frame).groupBy().sum("matches").first()
        assert counted is not None and counted[0] == len(known)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_time_without_a_zone_is_of_the_session(spark: Any, kind: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.sql(f"SELECT 1 AS u, 'cart' AS k, {kind} '2026-05-01 10:00:00' AS t")
        asked = BOUGHT.within("1 hour")
        for minute, status in ((59, "open"), (61, "timeout")):
            now = datetime(2026, 5, 1, 10) + timedelta(minutes=minute)
            found = asked.matches(frame, timeouts=True, as_of=now)
            assert [row.status for row in found.collect()] == [status]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def told(found: Any) -> list[tuple[int, int, str]]:
    return sorted(tuple(row) for row in found.select("u", "first", "status").collect())
