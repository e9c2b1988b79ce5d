"""Streams on Spark over all times it has: a row of the year 9999 makes others late, never lost."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.operator.status import LATE, MATCHED, REJECTED
from ensue.spark.control import Control
from tests import oracle
from tests.lanes import times
from tests.spark import batches
from tests.spark.test_stream import writer
from tests.spark.test_stream_bad_input import totals_of

ZONE = "spark.sql.session.timeZone"
DELAY = 10 * times.SECOND
SIZE = 40  # rows of a micro-batch
# Every row that is evaluated is in the answer, matched or not.
PATTERN = (
    ensue.pattern("A+ B", types="kind")
    .partition_by("k")
    .order_by("ts", "id")
    .within("30 seconds")
    .rows_per_match("all rows with unmatched")
    .measures(n="RUNNING COUNT(*)")
)


def sent(seed: int) -> times.Sent:
    """Forward through all times; then the sentinels; then rows that came too late for them."""
    chance = random.Random(seed)
    moments = times.moments(chance, 2 * SIZE)
    moments += [times.LAST, times.FIRST, times.LAST - 1, None]
    moments += [chance.choice(moments) for _ in range(SIZE)]
    count = len(moments)
    cuts = [0, SIZE, 2 * SIZE, 2 * SIZE + 4, count]
    parts = [list(range(*ends)) for ends in pairwise(cuts)]
    keys = pa.array([chance.choice("uvwxyz") for _ in moments])
    return times.judged(moments, keys, parts, DELAY, "UTC", chance)


@pytest.mark.parametrize("zone", ["America/Los_Angeles"])
def test_every_row_is_accounted_for(spark: Any, tmp_path: Path, zone: str) -> None:
    given = sent(len(zone))
    batches.write(tmp_path / "in", (given.table.take(part) for part in given.batches))
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, zone)
    try:
        schema = spark.read.parquet(str(tmp_path / "in")).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        stream = reader.parquet(str(tmp_path / "in")).withWatermark("ts", "10 seconds")
        control = Control(tmp_path / "control")
        found = PATTERN.matches(stream, control=str(control.folder), lanes=3, late=True)
        told: list[dict[str, Any]] = []

        def sink(part: Any, _: int) -> None:
            # Python has no date for some of the times.
            rows = part.drop("ts").collect()
            told.extend(row.asDict() for row in rows)

        query = writer(found, tmp_path, sink).start()
        control.finish(query)
    finally:
        spark.conf.set(ZONE, before)
    _, counted = totals_of(list(query.recentProgress))
    assert counted["rows"] == given.table.num_rows
    by_status = {status: [r for r in told if r["status"] == status] for status in (LATE, REJECTED)}
    for status, rows in ((LATE, given.late), (REJECTED, given.rejected)):
        assert {json.loads(row["event"])["id"] for row in by_status[status]} == rows
        assert counted[status] == len(by_status[status]) == len(rows)
    assert given.late and len(given.late) < SIZE, "some are late and some are not"
    used = times.numbers(given.used)
    wanted = oracle.run(times.in_numbers(PATTERN.query), used.to_pylist(), used.column_names).rows
    matched = [row for row in told if row["status"] == MATCHED]
    names = [name for name in wanted[0] if name != "ts"]
    shown = [times.told([{n: row[n] for n in names} for row in part]) for part in (matched, wanted)]
    assert shown[0] == shown[1]
    assert counted["pending"] == 0 and len(matched) == len(wanted) == used.num_rows
