"""Changes of matches upserted into a PostgreSQL server, as `examples/stream_postgres.py` does."""

from __future__ import annotations

import datetime as dt
import importlib.util
from collections.abc import Callable
from contextlib import ExitStack
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


DRIVERS = ("psql", "psycopg")


@pytest.fixture(scope="module")
def kept(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, ...]]:
    """By each driver that is installed: the rows of its server, its sizes, matches of the stream.

    Each micro-batch comes twice, as Spark may send it: the second time changes nothing.
    """
    asked = "SELECT * FROM falls ORDER BY match_id;"
    installed = [name for name in DRIVERS if name == "psql" or importlib.util.find_spec(name)]
    with ExitStack() as stack:
        servers = {name: stack.enter_context(postgres.server()) for name in installed}
        sizes: dict[str, list[int]] = {name: [] for name in installed}
        sinks = {
            name: by_psql(server) if name == "psql" else example.Upsert(server.connection)
            for name, server in servers.items()
        }

        def twice(frame: Any, number: int) -> None:
            rows = frame.persist()
            for name, sink in sinks.items():
                sink(rows, number)
                first = servers[name].psql(asked)
                sink(rows, number)
                assert servers[name].psql(asked) == first
                sizes[name].append(first.count("\n"))
            rows.unpersist()

        count = example.stream(spark, tmp_path_factory.mktemp("falls"), twice)
        text = "SELECT symbol, (extract(epoch FROM at) * 1000000)::bigint, bottom FROM falls;"
        return {
            name: ([line.split("|") for line in server.psql(text).splitlines()], sizes[name], count)
            for name, server in servers.items()
        }


@pytest.mark.parametrize("driver", DRIVERS)
def test_changes_upserted_into_postgres(kept: dict[str, tuple[Any, ...]], driver: str) -> None:
    if driver != "psql":
        pytest.importorskip(driver)
    rows, sizes, count = kept[driver]
    ticks = data.ticks(symbols=20, rows=2_000)
    told = sorted(
        (row["symbol"], str((row["at"] - EPOCH) // dt.timedelta(microseconds=1)), row["bottom"])
        for row in example.FALL.matches(ticks).to_pylist()
    )
    assert sorted((symbol, at, float(bottom)) for symbol, at, bottom in rows) == told
    assert len(told) == count > 100
    assert len(sizes) > 1
