"""NEXMark-style bids and auctions: a stream gives what a batch gives, in lanes and on Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ensue import quantify as q
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.identity import row_hashes
from ensue.query.query import OrderKey
from ensue.run.lanes.works import Asked, quantify_work
from tests.lanes import streams


def bids(count: int = 200, seed: int = 3) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = streams.EPOCH + np.cumsum(chance.choice([1, 1, 2, 30], count)) * streams.SECOND
    return pa.table(
        {
            "auction": chance.integers(0, 5, count),
            "bidder": chance.integers(0, 15, count),
            "price": chance.integers(1, 1000, count),
            "channel": pa.array(chance.choice(["web", "app"], count)),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


MINUTES = q.windows(q.count(), time="1 minute", by="at")
QUERIES: dict[str, q.Quantity] = {
    "highest bid": q.max("price"),  # NEXMark Q7, per auction
    "winning bidder": q.argmax("bidder", "price"),  # Q9
    "average of the last ten": q.windows(q.mean("price"), rows=10),  # Q6
    "bids per minute": MINUTES,  # Q5
    "minutes that an event ends": q.windows(q.count(), time="1 minute", by="at", partial=False),
    "busiest minute": MINUTES >> q.argmax("window_start", "value"),
    "minutes, the best of five": MINUTES
    >> q.windows(q.max("value"), time="5 minutes", by="window_start"),
    "dollars, web only": q.sum("price * 0.908e0", where="channel = 'web'"),  # Q1, Q2
    "longest run below 700": q.iter(
        "max", q.split("a", q.count(over="price < 700"), q.event("price >= 700"))
    ),
    "session budget": q.windows(q.sum("price"), until="price > 900") >> q.max("value"),
    "median": q.quantile("price", 0.5),
    "low end, nine decades": q.quantile("price * price * price - 1000000", 0.1),
}
HOW = {"every": "label", "defined": "values", "demand": "eval"}


def whole(f: q.Quantity, events: pa.Table, output: str) -> pa.Table:
    found: pa.Table = getattr(f, HOW[output])(events, partition_by="auction", order_by="at")
    return found


def rows(tables: list[pa.Table]) -> list[str]:
    return sorted(str(row) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("output", sorted(HOW))
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_lane_gives_what_the_batch_gives(name: str, output: str, emit: str) -> None:
    f, events = QUERIES[name], bids(90)
    ready = events.append_column(
        CONTENT, pa.array(row_hashes(events, events.column_names).view(np.int64))
    )
    ready = ready.append_column(KEY, pa.array(row_hashes(events, ["auction"]).view(np.int64)))
    order = (OrderKey("at"),)
    asked = Asked(f.stage, order, output, "value", tuple(events.column_names))
    work = quantify_work(
        asked, ("auction",), ready.schema, "at", streams.settings(emit=emit), {"pattern": name}
    )
    cut = streams.cut(events["at"].cast(pa.int64()).to_numpy(), 5, most=20)
    found = streams.drive(work, ready, cut)
    expected = whole(f, events, output)
    if emit == "changes":
        assert sorted(map(str, streams.net(found))) == rows([expected])
    else:
        assert rows(found) == rows([expected])


def test_windows_are_told_when_the_watermark_has_passed_them() -> None:
    f, events = MINUTES, bids(40)
    ready = events.append_column(CONTENT, pa.array(np.arange(40)))
    asked = Asked(f.stage, (OrderKey("at"),), "defined", "value", tuple(events.column_names))
    work = quantify_work(asked, ("auction",), ready.schema, "at", streams.settings(), {})
    found: list[pa.Table] = []
    state = streams.step(work, None, [ready], None, (), found)
    assert not found
    far = int(events["at"].cast(pa.int64()).to_numpy().max()) + 120 * streams.SECOND
    state = streams.step(work, state, [], far, (), found)
    assert rows(found) == rows([whole(f, events, "defined")])
    streams.step(work, state, [], far, (streams.CLOSE,), found)
    assert rows(found) == rows([whole(f, events, "defined")])


def test_silent_keys_are_ended() -> None:
    f, events = q.sum("price"), bids(40)
    ready = events.append_column(CONTENT, pa.array(np.arange(40)))
    asked = Asked(f.stage, (OrderKey("at"),), "demand", "value", tuple(events.column_names))
    settings = streams.settings(forget=60 * streams.SECOND)
    work = quantify_work(asked, ("auction",), ready.schema, "at", settings, {})
    found: list[pa.Table] = []
    last = int(events["at"].cast(pa.int64()).to_numpy().max())
    state = streams.step(work, None, [ready], None, (), found)
    state = streams.step(work, state, [], last + 1, (), found)
    early = {row["auction"] for table in found for row in table.to_pylist()}
    state = streams.step(work, state, [], last + 120 * streams.SECOND, (), found)
    assert rows(found) == rows([whole(f, events, "demand")])
    assert early < set(events["auction"].to_pylist()), "a key with a recent event stays"
