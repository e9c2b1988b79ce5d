"""Combinators, windows, groups and pipelines against plain Python; batches against the whole."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import tracemalloc
from decimal import Decimal
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python, rtsys

import ensue
from ensue import errors
from ensue import quantify as q
from ensue.operator.protocol import Snapshot
from ensue.quantities.operator import QuantifyOperator
from ensue.quantities.run import CHUNK
from tests.share import examples

XS = [3, 1, 0, 4, 1, 5, 0, 9, 2, 6]


def table(values: list[Any] = XS, kind: Any = None) -> pa.Table:
    return pa.table({"x": pa.array(values, kind), "t": list(range(len(values)))})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (q.sum("x"), sum(XS)),
        (q.sum("x", where="x > 2"), 3 + 4 + 5 + 9 + 6),
        (q.product("x + 1"), math.prod(x + 1 for x in XS)),
        (q.mean("x"), mean(XS)),
        (q.max("x"), 9),
        (q.min("x"), 0),
        (q.count(), len(XS)),
        (q.count("NULLIF(x, 0)"), 8),
        (q.first("x"), 3),
        (q.last("x"), 6),
        (q.argmax("t", "x"), 7),
        (q.argmin("t", "x"), 2),
        (q.stddev("x"), pytest.approx(stdev(XS))),
        (q.variance("x"), pytest.approx(stdev(XS) ** 2)),
        (q.any("x > 8"), True),
        (q.all("x > 8"), False),
        (q.prefix_sum("x"), sum(XS)),
        (q.apply("a * 2 + 1", q.sum("x")), 2 * sum(XS) + 1),
        (q.apply("sqrt(a)", q.apply("a + 5", q.sum("x"))), math.sqrt(sum(XS) + 5)),
        (q.combine("b - a", q.min("x"), q.max("x")), 9),
        (q.iter("state * 2 + value", q.event(None, "x"), start=0), None),
        (q.iter("sum", q.split("a * b", q.event(None, "x"), q.event(None, "x"))), 3 + 0 + 5 + 54),
        (q.choose(q.sum("x", over="x > 100"), q.count(over="x <= 100")), 10),
    ],
)
def test_names_people_know(query: q.Quantity, expected: Any) -> None:
    if expected is None:
        expected = 0
        for x in XS:
            expected = expected * 2 + x
    expected = 3 * 1 + 0 * 4 + 1 * 5 + 0 * 9 + 2 * 6 if expected == 62 else expected
    assert query.eval(table()) == expected
    assert "compiled" in query.explain(table())
    plain = q.Quantity(query.stage)
    plain.stage = type(query.stage)(query.automaton, compiled=False)  # type: ignore[call-arg]
    assert plain.eval(table()) == expected


def test_values_of_any_type() -> None:
    words = pa.table({"w": ["a", "bb", None, "ccc"], "d": [Decimal("1.10")] * 4})
    assert q.last("w").eval(words) == "ccc"
    assert q.max("length(w)").eval(words) == 3
    assert q.sum("d").eval(words) == Decimal("4.40")
    assert (
        q.iter(lambda s, v: s + v, q.event(None, lambda e: len(e["w"] or "")), start=0).eval(words)
        == 6
    )
    days = pa.table({"d": pa.array([dt.date(2026, 1, 2), dt.date(2026, 1, 1)])})
    assert q.min("d").eval(days) == dt.date(2026, 1, 1)
    times = pa.table({"d": pa.array([dt.datetime(2026, 1, 2), None], pa.timestamp("us"))})
    assert q.last("d").eval(times) == dt.datetime(2026, 1, 2)
    pairs = q.iter(lambda s, v: (*s, v), q.event(None, "x"), start=())
    assert pairs.eval(table([1, 2])) == [1, 2]


def test_nulls_and_nan() -> None:
    some = table([1.0, None, 3.0], pa.float64())
    assert q.sum("x").eval(some) == 4.0
    assert q.mean("x").eval(some) == 2.0
    assert q.count("x").eval(some) == 2
    assert q.mean("x").eval(table([None], pa.float64())) is None
    nan = table([1.0, math.nan], pa.float64())
    assert math.isnan(q.max("x").eval(nan)) and q.min("x").eval(nan) == 1.0
    assert math.isnan(q.sum("x").eval(nan))
    assert q.count(over="x > 0").eval(some) is None  # the null is outside the domain


def test_empty_input() -> None:
    nothing = table([], pa.int64())
    assert q.sum("x", start=7).eval(nothing) == 7
    assert q.sum("x").eval(nothing) is None
    assert q.iter("max", q.event(None, "x"), start=-1).eval(nothing) == -1
    assert q.sum("x").stream(nothing).to_pylist() == []
    assert q.windows(q.sum("x"), rows=2).eval(nothing) is None
    assert (q.windows(q.sum("x"), rows=2) >> q.count()).eval(nothing) is None


def test_overflow_says_where() -> None:
    big = table([2**62, 2**62, 1], pa.int64())
    with pytest.raises(errors.OverflowDataError, match="at row 1") as caught:
        q.sum("x").eval(big)
    assert "CAST(x AS DOUBLE)" in caught.value.remedy
    assert q.sum("CAST(x AS DOUBLE)").eval(big) == float(2**63)
    with pytest.raises(errors.OverflowDataError):
        q.product("x").eval(big)
    with pytest.raises(errors.DataError, match="division by zero"):
        q.apply("10 / a", q.sum("x")).eval(table([0]))


def test_quantile_is_within_its_error() -> None:
    values = [((i * 7919) % 1000) + 1 for i in range(1000)]
    for part in (0.0, 0.5, 0.9, 0.99, 1.0):
        true = sorted(values)[round(part * 999)]
        assert q.quantile("x", part).eval(table(values)) == pytest.approx(true, rel=0.021)
    assert q.quantile("x", 0.5).eval(table([-5, 0, 5])) == 0.0
    with pytest.raises(errors.QueryError, match=r"1\.5 is not a quantile"):
        q.quantile("x", 1.5)


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_of_many_keys_at_once_are_those_of_sketches(seed: int) -> None:
    chance = np.random.default_rng(seed)
    special = [0.0, math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324]
    values = [
        None if r < 0.1 else special[int(70 * r) % 7] if r < 0.3 else float(v)
        for r, v in zip(chance.random(200), chance.normal(0, 50, 200), strict=True)
    ]
    events = pa.table({"k": chance.integers(0, 9, 200), "x": pa.array(values, pa.float64())})
    for part in (0.0, 0.3, 0.5, 0.99, 1.0):
        f = q.quantile("x", part, error=0.05)
        fast = f.eval(events, partition_by="k").sort_by("k")["value"].to_pylist()
        steps = f.operator(events.schema, partition_by="k", output="demand")
        steps.insert(events)
        slow = steps.result().sort_by("k")["value"].to_pylist()
        assert fast == pytest.approx(slow, nan_ok=True)
    nothing = pa.table({"x": pa.array([None], pa.float64())})
    assert q.quantile("x", 0.5).eval(nothing) is None
    assert q.quantile("x", 0.5).eval(nothing.slice(0, 0)) is None


def test_windows_by_count_time_and_predicate() -> None:
    assert q.windows(q.sum("x"), rows=3).stream(table()).to_pylist() == [
        None, None, 4, None, None, 10, None, None, 11, None,
    ]  # fmt: skip
    closed = q.windows(q.sum("x"), until="x = 0")
    assert closed.stream(table()).to_pylist() == [
        None, None, 4, None, None, None, 10, None, None, None,
    ]  # fmt: skip
    times = pa.table({"x": [1, 2, 3, 4, 5], "t": [0, 59, 60, 200, 201]})
    timed = q.windows(q.sum("x"), time=60, by="t")
    assert timed.stream(times).to_pylist() == [None, None, 3, 3, None]
    assert (timed >> q.max("value")).eval(times) == 9
    assert (q.windows(q.sum("x"), time=60, by="t", partial=False) >> q.max("value")).eval(
        times
    ) == 3
    nested = timed >> q.windows(q.max("value"), time=120, by="window_start") >> q.sum("value")
    assert nested.eval(times) == 3 + 9
    minutes = pa.table({"x": [1, 2, 3], "t": pa.array([0, 30, 90], pa.timestamp("s"))})
    assert (q.windows(q.sum("x"), time="1 minute", by="t") >> q.count()).eval(minutes) == 2


def test_groups_of_three_then_the_maximum_compared_with_the_mean() -> None:
    """The issue's own query: averages in groups of three, their maximum, against the mean."""
    peak = q.windows(q.mean("x"), rows=3) >> q.max("value")
    f = q.combine("a - b", peak, q.mean("x"))
    groups = [mean(XS[i : i + 3]) for i in (0, 3, 6)]
    assert f.eval(table()) == pytest.approx(max(groups) - mean(XS))


def test_group_by_gives_a_table_and_a_stream() -> None:
    events = pa.table({"k": ["a", "b", "a", None], "x": [1, 2, 3, 4]})
    f = q.group_by("k", q.sum("x"))
    assert f.eval(events).to_pydict() == {"k": ["a", "b", None], "value": [4, 2, 4]}
    assert f.stream(events).to_pylist() == [1, 2, 4, 4]
    assert (f >> q.max("value")).eval(events) == 4
    assert q.sum("x").eval(events, partition_by="k").num_rows == 3


def test_patterns_feed_queries_and_queries_label_events() -> None:
    events = pa.table({"k": list("ABBAB"), "x": [1, 2, 4, 1, 9], "t": range(5)})
    pattern = ensue.pattern("A B+", types="k").order_by("t").measures(m="SUM(B.x)")
    assert q.max("m").eval(pattern.matches(events)) == 9
    level = q.prefix_sum("x").label(events, "level", order_by="t")
    high = ensue.pattern("H+").define(H="level > 6").order_by("t").measures(n="COUNT(*)")
    assert high.matches(level).to_pydict() == {"n": [3]}


QUERIES = {
    "automaton": q.iter("max", q.split("a", q.sum("x", over="x > 0", start=0), q.event("x <= 0"))),
    "plain values": q.quantile("x", 0.5),
    "rows": q.windows(q.sum("x"), rows=3) >> q.max("value"),
    "time": q.windows(q.mean("x"), time=4, by="t"),
    "time, piped": q.windows(q.sum("x"), time=4, by="t") >> q.prefix_sum("value"),
    "until": q.windows(q.count(), until="x = 0") >> q.sum("value"),
    "groups": q.group_by("x", q.count()),
    "joined": q.combine("a + b", q.windows(q.sum("x"), rows=2) >> q.last("value"), q.sum("x")),
}


@settings(max_examples=examples(150), deadline=None)
@given(
    name=st.sampled_from(sorted(QUERIES)),
    events=st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 4)), max_size=24),
    cuts=st.lists(st.integers(0, 24), max_size=4),
    restore=st.booleans(),
)
def test_batches_give_what_the_whole_gives(
    name: str, events: list[tuple[int, int]], cuts: list[int], restore: bool
) -> None:
    whole = pa.table(
        {
            "k": pa.array([k for k, _ in events], pa.int64()),
            "x": pa.array([x for _, x in events], pa.int64()),
            "t": pa.array([i // 2 for i in range(len(events))], pa.int64()),
            "row": pa.array(range(len(events)), pa.int64()),
        }
    )
    f = QUERIES[name]
    expected = f.label(whole, partition_by="k").sort_by("row")["value"].to_pylist()
    operator = f.operator(whole.schema, partition_by="k")
    edges = sorted({0, len(events), *(c for c in cuts if c < len(events))})
    found = []
    for begin, end in itertools.pairwise(edges):
        found += list(operator.insert(whole.slice(begin, end - begin)).tables())
        if restore:
            state = operator.snapshot()
            operator = QuantifyOperator(f.stage, ("k",))
            operator.open(None, whole.schema, state=state)
    got = pa.concat_tables(found).sort_by("row")["value"].to_pylist() if found else []
    assert got == expected
    if found:
        result = operator.result().sort_by("k").to_pydict()
        assert result == f.eval(whole, partition_by="k").sort_by("k").to_pydict()


def test_output_modes_and_end() -> None:
    f = q.windows(q.sum("x"), rows=3)
    every = f.operator(table().schema)
    assert next(every.insert(table()).tables()).num_rows == 10
    ends = f.operator(table().schema, output="defined")
    assert next(ends.insert(table()).tables())["value"].to_pylist() == [4, 10, 11]
    quiet = q.sum("x").operator(table().schema, output="demand")
    assert list(quiet.insert(table()).tables()) == []
    assert quiet.result()["value"].to_pylist() == [31]
    assert quiet.result()["value"].to_pylist() == [31]
    assert next(quiet.end().tables())["value"].to_pylist() == [31]
    with pytest.raises(errors.QueryError, match="not a mode"):
        f.operator(table().schema, output="often")
    with pytest.raises(errors.UnsupportedError, match="retract"):
        quiet.retract(None)  # type: ignore[arg-type]


def test_foreign_state_is_refused() -> None:
    one, other = q.sum("x"), q.combine("a - b", q.max("x"), q.min("x"))
    held = one.operator(table().schema)
    held.insert(table())
    state = held.snapshot()
    fresh = QuantifyOperator(other.stage, ())
    with pytest.raises(errors.StateError, match="another query"):
        fresh.open(None, table().schema, state=state)
    with pytest.raises(errors.StateError):
        fresh.open(None, table().schema, state=Snapshot(shared=b"junk"))


def test_state_of_another_collect_or_last_weight_is_refused() -> None:
    def joined(collect: str, last: int) -> q.Quantity:
        built = q.automaton("sum", collect=collect).initial("p", 0).final("q", last)
        return built.step("p", "p", None, "x").step("p", "q", None, 1).build()

    held = joined("max", 1).operator(table().schema, output="demand")
    held.insert(table())
    state = held.snapshot()
    QuantifyOperator(joined("max", 1).stage, (), "demand").open(None, table().schema, state=state)
    for other in (joined("min", 1), joined("max", 2)):
        fresh = QuantifyOperator(other.stage, (), "demand")
        with pytest.raises(errors.StateError, match="another query"):
            fresh.open(None, table().schema, state=state)


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.integers(-5, 5), max_size=40), threads=st.integers(2, 4))
def test_parallel_prefix_gives_the_sequential_answer(values: list[int], threads: int) -> None:
    last_zero = (
        q.automaton("sum", name="after the last 0")
        .initial("p", 0)
        .initial("q", 0)
        .skip("p", "p", None)
        .skip("p", "q", "x = 0")
        .step("q", "q", "x > 0", "x")
        .skip("q", "q", "x < 0")
        .final("q")
        .build()
    )
    summed = q.iter(q.monoid(lambda a, b: a + b, 0), q.event(None, "x"), start=0)
    events = table(values, pa.int64())
    for f in (q.mean("x"), q.max("x"), q.sum("x", start=3), last_zero, summed):
        assert f.eval(events, threads=threads) == f.eval(events)


def test_what_cannot_be_cut_says_why() -> None:
    inner = q.sum(lambda event: event["x"], over="x > 0")
    nested = q.iter("max", q.split("a", inner, q.event("x = 0")))
    with pytest.raises(errors.UnsupportedError, match="rank 2"):
        nested.eval(table(), threads=2)
    with pytest.raises(errors.UnsupportedError, match="not an associative fold"):
        q.stddev("x").eval(table(), threads=2)


def test_chunks_join_without_a_seam() -> None:
    count = 2 * CHUNK + 17
    values = np.arange(count) % 7
    f = q.iter("max", q.split("a", q.sum("x", over="x > 0", start=0), q.event("x = 0")))
    events = pa.table({"x": np.append(values, 0), "k": np.append(np.arange(count) // 40_000, 9)})
    assert f.eval(events) == 21
    parts = f.eval(events, partition_by="k")
    again = [
        f.eval(events.filter(pa.compute.equal(events["k"], key))) for key in parts["k"].to_pylist()
    ]
    assert parts["value"].to_pylist() == again


@pytest.mark.compiled
def test_memory_does_not_grow_over_ten_million_events() -> None:
    f = q.iter("max", q.split("a", q.sum("x", over="x > 0", start=0), q.event("x = 0")))
    million = pa.table({"x": np.arange(1_000_000) % 10})
    operator = f.operator(million.schema, output="demand")
    operator.insert(million)
    held = operator.snapshot_together().shared
    peaks, arrow, allocations = [], [], []
    _nrt_python.memsys_enable_stats()
    for _ in range(9):
        tracemalloc.start()
        before = rtsys.get_allocation_stats()
        operator.insert(million)
        after = rtsys.get_allocation_stats()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        arrow.append(pa.total_allocated_bytes())
        allocations.append(after.alloc - before.alloc)
        assert after.alloc - before.alloc == after.free - before.free
    _nrt_python.memsys_disable_stats()
    assert operator.metrics.rows == 10_000_000
    assert max(peaks) < 1.2 * min(peaks)
    assert len(set(allocations)) == 1, "allocations per million events are always as many"
    assert max(arrow) - min(arrow) < 1_000_000
    assert len(operator.snapshot_together().shared) == len(held)


def test_pictures_show_the_hierarchy() -> None:
    import xml.etree.ElementTree as ET

    f = q.iter("max", q.split("a", q.mean("x", over="x > 0"), q.event("x = 0")))
    svg = f.plot().svg
    assert svg == f.plot().svg
    texts = [e.text or "" for e in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert any("call 1" in text for text in texts) and any("mean(x)" in text for text in texts)
    piped = q.group_by("k", q.windows(q.apply("a * 2", f), time=60, by="t") >> q.max("value"))
    drawn = ET.fromstring(piped.plot().svg).iter("{http://www.w3.org/2000/svg}text")
    texts = [e.text or "" for e in drawn]
    for title in ("for each k", "then", "windows of 60 in t, the last counts", "max(value)"):
        assert title in texts
    assert any("mean(x)" in text for text in texts)
    with pytest.raises(errors.UnsupportedError, match=r"'x\.doc'.*\.doc is not one of \.svg"):
        f.plot().save("x.doc")
