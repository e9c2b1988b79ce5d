"""The studio on a DataFrame: whole partitions to look at, and totals of all rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ensue
from ensue.studio import on_spark
from ensue.studio.desk import Desk
from ensue.studio.server import serve
from ensue.studio.session import Session, error_message
from ensue.studio.streams import session_of, streams
from tests.studio import browser as browsers
from tests.studio.browser import Tab

EVENTS = pa.table(
    {
        "k": [key for key in range(6) for _ in range(5)] + [None] * 5,
        "ts": list(range(5)) * 7,
        "x": [(3 * i) % 7 for i in range(35)],
    }
)
QUERY = {
    "language": "pattern",
    "text": "A B+",
    "options": {
        "define": "B: x > PREV(x)", "partition_by": "k", "order_by": "ts",
        "measures": "top: LAST(B.x)",
    },
}  # fmt: skip


def test_a_frame_behind_the_same_calls(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "SAMPLE_ROWS", 22)
    frame = spark.createDataFrame(EVENTS).repartition(3)
    local, there = Session({"e": EVENTS}), Session({"e": frame})
    about = {"source": "e", "query": QUERY}
    assert there.call("open", {"source": "e"})["suggested"]["order_by"] == "ts"
    found, expected = (s.call("run", about) for s in (there, local))
    assert found["matches"] == expected["matches"]
    assert sorted(map(str, (r[2:] for r in found["rows"]))) == sorted(
        map(str, (r[2:] for r in expected["rows"]))
    )
    assert "the lanes show 4 of 7 keys" in found["cut"]
    labels = [k["label"] for k in there.call("keys", about)["keys"]]
    assert labels == ["null", "0", "1", "2"]
    shown = there.call("lanes", {**about, "keys": [0, 1, 2, 3], "width": 100})["lanes"]
    every = local.call("lanes", {**about, "keys": list(range(7)), "width": 100})["lanes"]
    by_label = {lane["label"]: lane for lane in every}
    for lane in shown:
        assert {**lane, "key": 0} == {**by_label[lane["label"]], "key": 0}
    assert there.call("funnel", about) == local.call("funnel", about)
    reasons = [dict(s.call("why", about)["reasons"]) for s in (there, local)]
    assert reasons[0] == reasons[1]


def test_a_spark_that_is_gone_says_so(spark: Any) -> None:
    class Gone:
        columns = ("k", "t", "x")

        def groupBy(self, *_: Any) -> Any:
            raise ConnectionRefusedError("Connection refused")

    with pytest.raises(ensue.EnsueError) as caught:
        on_spark.answer_of(ensue.pattern("A").partition_by("k").order_by("t"), Gone())
    assert "no longer answers" in error_message(caught.value)["message"]

    frame = spark.range(3).selectExpr("id AS t", "id AS x")
    desk, answers = Desk({"e": frame}), []
    try:
        query = {"language": "pattern", "text": "A B", "options": {"order_by": "t"}}
        params = {"source": "e", "query": query}
        desk.take({"id": "1", "method": "run", "params": params}, answers.append)
        end = time.monotonic() + 100
        while not [a for a in answers if "progress" not in a] and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        desk.close()
    assert answers[-1]["result"]["matches"] == 1


@contextmanager
def running(spark: Any, folder: Path) -> Iterator[Any]:
    """A query over eight rows that were read."""
    times = pa.array([1_000_000 * i for i in range(8)]).cast(pa.timestamp("us", "UTC"))
    (folder / "in").mkdir()
    table = pa.table({"k": ["a", "b"] * 4, "ts": times, "x": [1, 2, 3, 3, 2, 4, 5, 5]})
    pq.write_table(table, folder / "in" / "1.parquet")
    reader = spark.readStream.schema("k string, ts timestamp, x bigint")
    frame = reader.parquet(str(folder / "in")).withWatermark("ts", "1 second")
    pattern = ensue.pattern("A -> B").define(B="x > A.x").partition_by("k").order_by("ts")
    writer = pattern.within("1 minute").matches(frame, lanes=1).writeStream.format("memory")
    query = writer.queryName("studio").start()
    try:
        query.processAllAvailable()
        yield query
    finally:
        query.stop()


def test_running_streams_are_told(spark: Any, tmp_path: Path) -> None:
    with running(spark, tmp_path):
        assert session_of([]) is not None
        (told,) = [s for s in streams(spark)["streams"] if s["name"] == "studio"]
        matches = spark.table("studio").count()
    assert sum(told["matches"].values()) == matches > 0
    assert told["history"][0][0] > 1.7e12 and told["state_bytes"] > 0 and told["late"] == 0
    assert streams(None) == {"streams": []}


def test_the_page_shows_running_streams(spark: Any, tmp_path: Path) -> None:
    browsers.need()
    frame = spark.createDataFrame(EVENTS)
    with (
        running(spark, tmp_path),
        serve({"events": frame}, port=0) as server,
        browsers.browsing() as browser,
    ):
        tab = Tab(browser).open(server.url)
        tab.page.get_by_text("3 columns").wait_for()
        tab.tab("Streams")
        shown = tab.page.locator(".streams li", has=tab.page.get_by_role("heading", name="studio"))
        shown.wait_for()
        tiles = shown.locator(".tiles div").all_inner_texts()
        figures = {name: value for name, value in (tile.splitlines() for tile in tiles)}
        tab.close()
    assert {"rows in / s", "watermark", "late", "state rows"} <= figures.keys()
    assert any(name.startswith("matches") and int(figures[name]) > 0 for name in figures)
    assert not tab.faults
