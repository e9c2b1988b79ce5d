"""Generated data: seeded, typed, and shaped like what it stands for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ensue.demo import data


@pytest.mark.parametrize("make", [data.funnel, data.ticks])
def test_the_seed_decides(make: object) -> None:
    assert callable(make)
    assert make(20, 2_000, seed=1).equals(make(20, 2_000, seed=1))
    assert not make(20, 2_000, seed=1).equals(make(20, 2_000, seed=2))


@pytest.mark.parametrize("size", [(1, 0), (1, 1), (5, 3), (1, 500)])
def test_any_size(size: tuple[int, int]) -> None:
    assert data.funnel(*size).num_rows == data.ticks(*size).num_rows == size[1]


def test_funnel_has_visits_with_payments_and_refunds() -> None:
    table = data.funnel(200, 50_000)
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert table.schema.names == ["user_id", "ts", "kind", "amount"]
    kinds = {
        entry["values"]: entry["counts"] for entry in pc.value_counts(table["kind"]).to_pylist()
    }
    assert set(kinds) == set(data.KINDS)
    assert kinds["view"] > kinds["cart"] > kinds["pay"] > kinds["refund"] > 500
    priced = pc.is_in(table["kind"], pa.array(["cart", "pay", "refund"]))
    assert pc.equal(pc.is_valid(table["amount"]), priced).to_numpy().all()
    assert (np.diff(table["ts"].cast(pa.int64()).to_numpy()) >= 0).all()


def test_a_payment_follows_its_cart_within_minutes() -> None:
    table = data.funnel(1, 20_000)
    kind = np.array(table["kind"].to_pylist())
    pause = np.diff(table["ts"].cast(pa.int64()).to_numpy()) / 60e6
    assert np.median(pause[(kind[:-1] == "cart") & (kind[1:] == "pay")]) < 2
    assert np.median(pause[kind[:-1] == "logout"]) > 300


def test_times_of_a_key_differ() -> None:
    for table, key in ((data.funnel(50, 20_000), "user_id"), (data.ticks(50, 20_000), "symbol")):
        assert table.group_by([key, "ts"]).aggregate([]).num_rows == table.num_rows


def test_ticks_walk_in_cents() -> None:
    table = data.ticks(30, 30_000)
    assert table.schema.names == ["symbol", "ts", "price", "volume"]
    price = table["price"].to_numpy()
    assert price.min() >= 0.01
    assert np.allclose(price * 100, np.round(price * 100))
    one = table.filter(pc.equal(table["symbol"], "AAAA"))["price"].to_numpy()
    steps = np.diff(one)
    assert (steps < 0).mean() == pytest.approx((steps > 0).mean(), abs=0.1)
    assert np.abs(steps).max() < 10


def test_symbol_names_are_distinct() -> None:
    names = data.symbol_names(30_000)
    assert len(set(names)) == 30_000
    assert names[:2] == ["AAAA", "BAAA"]
