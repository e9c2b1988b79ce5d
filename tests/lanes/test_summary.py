"""Summaries on a lane without Spark: each key's answer is that of a summary of its events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.front.expressions import Scope, parse_condition
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.identity import row_hashes
from ensue.run.lanes.works import summary_work
from ensue.summary.options import SummaryOptions
from tests.lanes import streams

PATTERN = (
    ensue.pattern("A ->> B ->> C", types="kind")
    .partition_by("k")
    .order_by("ts")
    .within("20 seconds")
)


def events(seed: int, count: int = 60) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = streams.EPOCH + np.arange(count) * streams.SECOND
    return pa.table(
        {
            "k": [f"k{i}" for i in chance.integers(0, 3, count)],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": [str(kind) for kind in chance.choice(list("ABCX"), count)],
            "x": pa.array(chance.integers(0, 9, count)),
        }
    )


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("size", [4, 100])
def test_the_answer_of_each_key(size: int, emit: str) -> None:
    table = events(size)
    total = parse_condition("sum(B.x)", Scope(PATTERN.query.variables, "total"))
    options = SummaryOptions(
        size, "benefit", total, "sum(B.x)", None, None, None, 0, False, "decimal"
    )
    ready = table.append_column(
        CONTENT, pa.array(row_hashes(table, table.column_names).view(np.int64))
    )
    ready = ready.append_column(KEY, pa.array(row_hashes(table, ["k"]).view(np.int64)))
    settings = streams.settings(emit=emit)
    work = summary_work(PATTERN.query, options, ready.schema, "ts", settings, {})
    times = table["ts"].cast(pa.int64()).to_numpy()
    found = streams.drive(work, ready, streams.cut(times, 1, most=20))
    rows = streams.net(found) if emit == "changes" else [r for t in found for r in t.to_pylist()]
    whole = PATTERN.summarize(table, size=size, total="sum(B.x)")
    got = {row["k"]: (row["count"], row["sum"], row["avg"]) for row in rows}
    wanted = {k: (v["count"], v["sum"], v["avg"]) for k, v in whole.result().items()}
    assert got == wanted
    kept = sorted(str(event) for row in rows for event in row["events"])
    assert kept == sorted(map(str, whole.events().to_pylist()))
