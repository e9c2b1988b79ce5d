"""Changes of matches upserted into a PostgreSQL server, as `examples/stream_postgres.py` does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensue.demo import data
from examples import stream_postgres as example
from tests.spark import postgres

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def by_psql(server: postgres.Server) -> Callable[[Any, int], None]:
    """The statements of the example without its driver."""

    def upsert(frame: Any, number: int) -> None:
        rows = ["\t".join(map(str, row)) for row in example.rows_of(frame)]
        before, after = (example.TABLE, example.STAGE), (example.DELETE, example.UPSERT)
        script = [*(f"{text};" for text in before), f"{example.COPY};", *rows, "\\."]
        server.psql("\n".join([*script, *(f"{text};" for text in after), ""]))

    return upsert


@pytest.mark.parametrize("driver", ["psql", "psycopg"])
def test_changes_upserted_into_postgres(spark: Any, tmp_path: Path, driver: str) -> None:
    """Each micro-batch comes twice, as Spark may send it: the second time changes nothing."""
    if driver == "psycopg":
        pytest.importorskip("psycopg")
    with postgres.server() as server:
        sink = by_psql(server) if driver == "psql" else example.Upsert(server.connection)
        sizes: list[int] = []

        def twice(frame: Any, number: int) -> None:
            rows = frame.persist()
            sink(rows, number)
            first = server.psql("SELECT * FROM falls ORDER BY match_id;")
            sink(rows, number)
            assert server.psql("SELECT * FROM falls ORDER BY match_id;") == first
            sizes.append(first.count("\n"))
            rows.unpersist()

        count = example.stream(spark, tmp_path, twice)
        text = "SELECT symbol, (extract(epoch FROM at) * 1000000)::bigint, bottom FROM falls;"
        kept = [line.split("|") for line in server.psql(text).splitlines()]
    ticks = data.ticks(symbols=20, rows=2_000)
    told = sorted(
        (row["symbol"], str((row["at"] - EPOCH) // dt.timedelta(microseconds=1)), row["bottom"])
        for row in example.FALL.matches(ticks).to_pylist()
    )
    assert sorted((symbol, at, float(bottom)) for symbol, at, bottom in kept) == told
    assert len(told) == count > 100
    assert len(sizes) > 1
