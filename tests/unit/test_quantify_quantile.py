"""Quantiles: within the error stated, however the data is spread, cut, merged or stored.

The definition is that of a sorted list: the value at place floor(p (n - 1)), -infinity first, NaN
last. `ENSUE_CASES` multiplies the random cases.
"""

from __future__ import annotations

import itertools
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.operator.protocol import Snapshot
from ensue.quantities.operator import QuantifyOperator
from ensue.quantities.sketch import Sketch

CASES = int(os.environ.get("ENSUE_CASES", "1"))
PARTS = (0, 0.01, 0.1, 0.5, 0.9, 0.99, 1)
STORED = Path(__file__).parents[1] / "state" / "quantile_v1.arrow"
SPREADS: dict[str, Any] = {
    "uniform": lambda chance, n: chance.uniform(0, 1000, n),
    "thirteen decades": lambda chance, n: 10 ** chance.uniform(0, 13, n),
    "six hundred decades": lambda chance, n: 10 ** chance.uniform(-300, 300, n),
    "heavy tail": lambda chance, n: chance.pareto(0.3, n) + 1e-3,
    "constant": lambda chance, n: np.full(n, chance.normal(0, 1e6)),
    "negative": lambda chance, n: -(10 ** chance.uniform(-5, 8, n)),
    "mixed signs": lambda chance, n: chance.choice([-1, 0, 1], n) * 10 ** chance.uniform(-9, 9, n),
    "odd ones": lambda chance, n: np.where(
        chance.random(n) < 0.5,
        chance.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.7976931348623157e308], n),
        chance.normal(0, 1, n),
    ),
    "whole numbers": lambda chance, n: chance.integers(-(2**62), 2**62, n),
}


def true_value(values: list[Any], part: float) -> float | None:
    known = [v for v in values if v is not None]
    if not known:
        return None
    ordered = sorted(known, key=lambda v: (math.isnan(v), 0 if math.isnan(v) else v))
    return float(ordered[math.floor(part * (len(known) - 1))])


def within(found: float | None, true: float | None, error: float) -> bool:
    if found is None or true is None or math.isnan(true) or math.isinf(true) or true == 0:
        return found == true or (found is not None and math.isnan(found) and math.isnan(true or 0))
    return abs(found - true) <= error * abs(true)


def table(values: Any) -> pa.Table:
    return pa.table({"x": values})


def in_pieces(f: q.Quantity, events: pa.Table, cuts: list[int]) -> Any:
    """Each piece goes to an operator restored from the snapshot of the one before."""
    operator = f.operator(events.schema, output="demand")
    for begin, end in itertools.pairwise([0, *cuts, events.num_rows]):
        operator.insert(events.slice(begin, end - begin))
        state = operator.snapshot()
        operator = QuantifyOperator(f.stage, (), "demand")
        operator.open(None, events.schema, state=state)
    return operator.result()["value"].to_pylist()[0]


def same(left: Any, right: Any) -> bool:
    return left == right or bool(left and right and math.isnan(left) and math.isnan(right))


@pytest.mark.parametrize("name", sorted(SPREADS))
def test_within_the_error_on_every_spread(name: str) -> None:
    for seed in range(CASES):
        chance = np.random.default_rng(seed)
        values = SPREADS[name](chance, 3000).tolist()
        for part in PARTS:
            found = q.quantile("x", part).eval(table(values))
            assert within(found, true_value(values, part), 0.01), (seed, part)


def test_small_inputs_whole_and_in_pieces_and_restored() -> None:
    names = sorted(SPREADS)
    for seed in range(40 * CASES):
        chance = np.random.default_rng(seed)
        count = int(chance.integers(1, 30))
        values = SPREADS[names[seed % len(names)]](chance, count).tolist()
        values = [None if chance.random() < 0.1 else v for v in values]
        part = float(chance.choice(PARTS))
        error = float(chance.choice([0.3, 0.01, 0.001]))
        kind = pa.int64() if isinstance(next(filter(None, values), 0.0), int) else pa.float64()
        events = table(pa.array(values, kind))
        f = q.quantile("x", part, error=error)
        whole = f.eval(events)
        assert within(whole, true_value(values, part), error), (seed, values)
        cuts = sorted(chance.integers(0, count, 3).tolist())
        assert same(in_pieces(f, events, cuts), whole), (seed, values)
        assert same(f.stream(events).to_pylist()[-1], whole), (seed, values)


def merge(a: Sketch, b: Sketch) -> Sketch:
    """The sketch of the values of both."""
    buckets, where = np.unique(np.concatenate([a.buckets, b.buckets]), return_inverse=True)
    counts = np.zeros(len(buckets), np.int64)
    np.add.at(counts, where, np.concatenate([a.counts, b.counts]))
    return Sketch(a.error, buckets, counts)


def test_merging_in_any_order_and_any_cut_gives_the_same() -> None:
    for seed in range(20 * CASES):
        chance = np.random.default_rng(seed)
        values = np.concatenate([make(chance, 60).astype(float) for make in SPREADS.values()])
        whole = Sketch.of(values, 0.01)
        chance.shuffle(values)
        pieces = np.split(values, np.sort(chance.integers(0, 500, 4)))
        parts = [Sketch.of(piece, 0.01) for piece in pieces]
        while len(parts) > 1:
            i, j = chance.choice(len(parts), 2, replace=False).tolist()
            merged = merge(parts[i], parts[j])
            parts = [p for at, p in enumerate(parts) if at not in (i, j)] + [merged]
        assert parts[0].buckets.tolist() == whole.buckets.tolist()
        assert parts[0].counts.tolist() == whole.counts.tolist()
        one_by_one = Sketch(0.01)
        for value in values[:80].tolist():
            one_by_one = one_by_one.add(value)
        assert one_by_one.buckets.tolist() == Sketch.of(values[:80], 0.01).buckets.tolist()
        assert one_by_one.counts.tolist() == Sketch.of(values[:80], 0.01).counts.tolist()


def test_decimals_and_the_bounds_of_buckets() -> None:
    """Where a value falls hangs on its last bit: both ways to fold agree there too."""
    bounds = [float(2 ** (j / 35)) for j in range(36)]
    close = [step for b in bounds for step in (math.nextafter(b, 0), b, math.nextafter(b, 9))]
    decimals = [Decimal(repr(v)).quantize(Decimal("1e-16")) for v in close]
    events = table(pa.array(decimals, pa.decimal128(38, 16)))
    for part in (0, 0.3, 0.5, 0.77, 1):
        f = q.quantile("x", part)
        assert in_pieces(f, events, [50]) == f.eval(events)
        assert within(f.eval(events), true_value([float(d) for d in decimals], part), 0.01)


def test_the_size_is_bounded_by_the_range_of_doubles() -> None:
    chance = np.random.default_rng(0)
    decades = Sketch.of(10 ** chance.uniform(0, 13, 200_000), 0.01)
    assert len(decades.buckets) <= 13 * math.log2(10) * 35 + 2
    everything = chance.integers(0, 2**64, 400_000, dtype=np.uint64).view(np.float64)
    assert len(Sketch.of(everything, 0.01).buckets) <= 146_865


def test_the_sketch_of_another_version_or_error_is_refused() -> None:
    schema = pa.schema({"k": pa.string(), "x": pa.float64()})
    operator = QuantifyOperator(q.quantile("x", 0.5).stage, ("k",), "demand")
    with pytest.raises(errors.StateError, match="of version 1; this Ensue reads version 2"):
        operator.open(None, schema, state=Snapshot({("a",): STORED.read_bytes()}))
    events = table([1.0, 2.0])
    coarse = q.quantile("x", 0.5, error=0.2).operator(events.schema, output="demand")
    coarse.insert(events)
    fine = QuantifyOperator(q.quantile("x", 0.5).stage, (), "demand")
    fine.open(None, events.schema, state=coarse.snapshot())
    with pytest.raises(errors.StateError, match=r"the error 0\.2, and the query asks for 0\.01"):
        fine.insert(events)
    with pytest.raises(errors.QueryError, match="1e-05 is not an error of a quantile"):
        q.quantile("x", 0.5, error=1e-5)
