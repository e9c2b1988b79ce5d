"""Aggregates over all matches on lanes without Spark: the batch answer, by group and window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.run import local
from ensue.run.lanes.works import totals_work
from ensue.scalar.columns import Rows, evaluate
from ensue.sequences.totals import Grouping
from tests.lanes import streams

ASKED = {"n": "count(*)", "s": "sum(B.x)", "m": "max(C.x)", "a": "avg(B.x)"}


def events(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    count = 40
    return pa.table(
        {
            "user": [f"u{i}" for i in chance.integers(0, 3, count)],
            "ts": pa.array(
                streams.EPOCH + np.arange(count) * streams.SECOND, pa.timestamp("us", "UTC")
            ),
            "kind": [str(k) for k in chance.choice(list("ABCX"), count)],
            "x": pa.array(chance.integers(0, 50, count)),
        }
    )


def query_of(pattern: Any) -> Any:
    from dataclasses import replace

    from ensue.front import builder

    asked = builder.expression_texts(ASKED, "measure")
    return replace(pattern._draft, measures=asked).build()


GROUPINGS = {
    "all": Grouping(),
    "by user": Grouping(("user",)),
    "windows": Grouping((), 5 * streams.SECOND),
    "sliding": Grouping(("user",), 6 * streams.SECOND, 2 * streams.SECOND),
}


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("within", [None, "4 seconds"])
@pytest.mark.parametrize("name", GROUPINGS)
def test_the_batch_answer(name: str, within: str | None, emit: str) -> None:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("ts")
    if within:
        pattern = pattern.within(within)
    query = query_of(pattern)
    for seed in range(3):
        table = events(seed)
        planned, ready = streams.streamed(query, table)
        settings = streams.settings(emit=emit)
        work = totals_work(planned, GROUPINGS[name], ready.schema, "ts", settings, {})
        times = table["ts"].cast(pa.int64()).to_numpy()
        found = streams.drive(work, ready, streams.cut(times, seed, most=9))
        if emit == "changes":
            told = pa.Table.from_pylist(streams.net(found), schema=work.found)
        else:
            told = pa.concat_tables([work.found.empty_table(), *found])
        columns = {n: told[n].combine_chunks() for n in told.column_names}
        rows = Rows(columns, told.num_rows, None)
        shown = {n: told[n] for n in told.column_names if not n.startswith("__")}
        shown |= {m.name: evaluate(m.value, rows) for m in planned.outer}
        wanted = local.totals(query, table, GROUPINGS[name])
        got = pa.table(shown).to_pylist()
        assert sorted(map(str, got)) == sorted(map(str, wanted.to_pylist())), f"seed {seed}"


def test_windows_are_told_when_the_watermark_has_passed_them() -> None:
    pattern = ensue.pattern("A ->> C", types="kind").partition_by("user").order_by("ts")
    query = query_of(
        ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("ts")
    )
    assert pattern.query.partition_by == query.partition_by
    table = events(1)
    planned, ready = streams.streamed(query, table)
    grouping = GROUPINGS["windows"]
    work = totals_work(planned, grouping, ready.schema, "ts", streams.settings(), {})
    times = table["ts"].cast(pa.int64()).to_numpy()
    found = streams.drive(work, ready, streams.cut(times, 1, most=9), end=False)
    assert sum(part.num_rows for part in found) >= 3
