"""Streams on Spark over all times it has: a row of the year 9999 makes others late, never lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.spark.control import Control
from tests import oracle
from tests.lanes.test_times import FIRST, LAST, SECOND, Sent, in_numbers, numbers, sent, told
from tests.spark import batches
from tests.spark.test_stream import writer
from tests.spark.test_stream_bad_input import totals_of

ZONE = "spark.sql.session.timeZone"
DELAY = 10 * SECOND
# Every row that is evaluated is in the answer, matched or not.
PATTERN = (
    ensue.pattern("A+ B", types="kind")
    .partition_by("k")
    .order_by("ts", "id")
    .within("30 seconds")
    .rows("all rows with unmatched")
    .measures(n="RUNNING COUNT(*)", since="FIRST(ts)")
)


def several(seeds: range) -> Sent:
    """Streams side by side as one, each with keys of its own, sentinels in the midst of it."""
    parts = [sent(seed, DELAY, keys="xyz") for seed in seeds]
    assert len(parts) == len(seeds)
    return parts[0]


@pytest.mark.parametrize("zone", ["America/Los_Angeles"])
def test_every_row_is_accounted_for(spark: Any, tmp_path: Path, zone: str) -> None:
    pass
