"""Windows, groups, pipelines and operations nested at random, against their definition.

In every case the answer must be the same at once, in pieces, from restored state (key by key or
all keys together), and with a watermark that closes windows before the next event.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.operator.protocol import Events, Snapshot, Watermark
from ensue.quantities.groups import Groups
from ensue.quantities.operator import QuantifyOperator
from tests.oracle_quantify import NOTHING
from tests.oracle_stages import final, told

CASES = int(os.environ.get("ENSUE_QUANTIFY_CASES", "30"))
SCHEMA = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("x", pa.int64()), ("t", pa.int64())])


def leaf(randomness: random.Random, column: str) -> q.Quantity:
    return randomness.choice(
        [
            q.sum(column),
            q.max(column),
            q.count(),
            q.count(start=0),
            q.last(column),
            q.mean(column),
            q.sum(column, over=f"{column} > 0"),
            q.iter("max", q.split("a", q.count(over=f"{column} > 0"), q.event(f"{column} <= 0"))),
        ]
    )


def nested(
    randomness: random.Random, depth: int, columns: tuple[str, ...]
) -> tuple[q.Quantity, tuple[str, ...]]:
    """A random query over integer columns, and those that its values carry."""
    column = "value" if "value" in columns else "x"
    kind = randomness.choice(["leaf", "rows", "time", "until", "pipe", "group", "apply", "combine"])
    if depth == 0 or kind == "leaf":
        return leaf(randomness, column), columns
    if kind == "pipe":
        first, carried = nested(randomness, depth - 1, columns)
        after = (*(name for name in carried if name != "value"), "value")
        second, onward = nested(randomness, depth - 1, after)
        return first >> second, tuple(name for name in onward if name != "value")
    inner, carried = nested(randomness, depth - 1, columns)
    by = [name for name in ("t", "window_start") if name in columns]
    if kind == "rows":
        partial = randomness.random() < 0.3
        rows = randomness.randint(1, 3)
        return q.windows(inner, rows=rows, partial=partial), () if partial else columns
    if kind == "until":
        return q.windows(inner, until=f"{column} <= 0"), columns
    if kind == "time" and by:
        partial = randomness.random() < 0.6
        size = randomness.choice([3, 5, 10])
        window = q.windows(inner, time=size, by=randomness.choice(by), partial=partial)
        return window, ("window_start",)
    if kind == "group" and "g" in columns:
        # Windows of several groups end out of order.
        return q.group_by("g", inner), tuple(name for name in carried if name != "window_start")
    if kind == "combine":
        other, more = nested(randomness, depth - 1, columns)
        on_events = carried == columns and more == columns
        joined = q.combine("a + 10 * b", inner, other)
        return joined, columns if on_events else ()
    return q.apply("a * 2", inner), carried


def random_query(randomness: random.Random) -> q.Quantity:
    while True:
        try:
            f, _ = nested(randomness, randomness.randint(1, 3), ("g", "x", "t"))
            f.stage.bind(SCHEMA)
        except (errors.InconsistentError, errors.AmbiguousError, errors.UnknownColumnError):
            continue  # parts with different domains, or a column that is not carried
        return f


def random_events(randomness: random.Random) -> list[dict[str, int]]:
    time, events = 0, []
    for _ in range(randomness.randint(0, 14)):
        time += randomness.choice([0, 0, 1, 1, 2, 9])
        events.append(
            {
                "k": randomness.randint(0, 1),
                "g": randomness.randint(0, 2),
                "x": randomness.randint(-1, 4),
                "t": time,
            }
        )
    return events


def table(events: list[dict[str, int]]) -> pa.Table:
    return pa.Table.from_pylist(events, SCHEMA)


def plain(value: Any) -> Any:
    return None if value is NOTHING else value


def by_key(tables: list[pa.Table]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {0: [], 1: []}
    for piece in tables:
        for row in piece.to_pylist():
            shown = (row.get("window_start"), row["value"])
            found[row["k"]].append(shown)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_whole_tables_equal_the_definition(seed: int) -> None:
    randomness = random.Random(seed)
    for _ in range(25):
        f, events = random_query(randomness), random_events(randomness)
        keys = sorted({e["k"] for e in events})
        streams = {key: [e for e in events if e["k"] == key] for key in keys}
        found = f.eval(table(events), partition_by="k").sort_by("k").to_pydict()
        assert found["k"] == keys
        assert found["value"] == [plain(final(f.stage, streams[key])) for key in keys]
        for key in keys:
            at = {t.at: t.value for t in told(f.stage, streams[key])}
            expected = [at.get(i) for i in range(len(streams[key]))]
            assert f.stream(table(streams[key])).to_pylist() == expected
            values = f.values(table(streams[key]))["value"].to_pylist()
            expected = [t.value for t in told(f.stage, streams[key])]
            if isinstance(f.stage, Groups):
                assert sorted(values) == sorted(expected)  # group after group
                continue
            assert values == expected
            assert f.eval(table(streams[key])) == plain(final(f.stage, streams[key]))


@pytest.mark.parametrize("seed", range(5))
def test_pieces_watermarks_and_restored_state_equal_the_definition(seed: int) -> None:
    randomness = random.Random(100 + seed)
    for _ in range(20):
        in_pieces(random_query(randomness), random_events(randomness), randomness)


def test_windows_equal_the_definition_whatever_the_cuts_and_watermarks() -> None:
    """Windows alone and one in another, with or without the last, by rows, time and `until`."""
    randomness = random.Random(73)
    for _ in range(CASES):
        f, columns = random_windows(randomness, q.sum("x"), ("x", "t"))
        if randomness.random() < 0.5:
            inner = randomness.choice([q.sum("value"), q.count(), q.last("value")])
            second, _ = random_windows(randomness, inner, (*columns, "value"))
            f = f >> (second if randomness.random() < 0.7 else inner)
        events = random_events(randomness)
        for key in {e["k"] for e in events}:
            stream = [e for e in events if e["k"] == key]
            assert f.eval(table(stream)) == plain(final(f.stage, stream))
            expected = [t.value for t in told(f.stage, stream)]
            assert f.values(table(stream))["value"].to_pylist() == expected
        in_pieces(f, events, randomness)


def random_windows(
    randomness: random.Random, inner: q.Quantity, columns: tuple[str, ...]
) -> tuple[q.Quantity, tuple[str, ...]]:
    partial = randomness.random() < 0.5
    by = [name for name in ("t", "window_start") if name in columns]
    kind = randomness.choice(["rows", "until", "time", "time", "time"] if by else ["rows"])
    if kind == "time":
        size = randomness.choice([1, 2, 3, 5, 10])
        window = q.windows(inner, time=size, by=randomness.choice(by), partial=partial)
        return window, ("window_start",)
    column = "value" if "value" in columns else "x"
    after = () if partial else tuple(name for name in columns if name != "value")
    if kind == "until":
        return q.windows(inner, until=f"{column} <= 0", partial=partial), after
    return q.windows(inner, rows=randomness.randint(1, 3), partial=partial), after


def in_pieces(f: q.Quantity, events: list[dict[str, int]], randomness: random.Random) -> None:
    output = randomness.choice(["every", "defined", "defined", "demand"])
    operator = QuantifyOperator(f.stage, ("k",), output)
    operator.open(None, SCHEMA)
    cuts = sorted({0, len(events), *(randomness.randint(0, len(events)) for _ in range(4))})
    told_tables: list[pa.Table] = []
    for begin, end in itertools.pairwise(cuts):
        told_tables += operator.insert(table(events[begin:end])).tables()
        if randomness.random() < 0.5:
            later = [e["t"] for e in events[end:]]
            mark = min(later, default=events[end - 1]["t"] + randomness.randint(0, 12))
            due = operator.next_time()
            found = list(operator.advance(Watermark(mark)).tables())
            assert (due is not None and due <= mark) or not sum(map(len, found))
            assert (operator.next_time() or mark + 1) > mark
            told_tables += found
        so_far = events[:end]
        here = operator.result().sort_by("k").to_pydict()
        keys = sorted({e["k"] for e in so_far})
        expected = [plain(final(f.stage, [e for e in so_far if e["k"] == k])) for k in keys]
        assert here == {"k": keys, "value": expected}, output
        if randomness.random() < 0.5:
            operator = restored(f, output, operator, randomness)
    told_tables += operator.end().tables()
    for key, values in by_key(told_tables).items():
        stream = [e for e in events if e["k"] == key]
        known = told(f.stage, stream)
        if output == "every":
            at = {t.at: t.value for t in known}
            assert [v for _, v in values] == [at.get(i) for i in range(len(stream))]
        elif output == "defined":
            expected = [(t.carried.get("window_start"), t.value) for t in known]
            assert values == expected
        elif stream:
            assert [v for _, v in values] == [plain(final(f.stage, stream))]


def restored(
    f: q.Quantity, output: str, operator: QuantifyOperator, randomness: random.Random
) -> QuantifyOperator:
    """Another operator from the state of this one: all keys together, or key by key."""
    state = operator.snapshot_together()
    if randomness.random() < 0.5:
        state = operator.snapshot()
        assert set(state.keys) == set(operator._places) and not state.shared
    made = QuantifyOperator(f.stage, ("k",), output)
    made.open(None, SCHEMA, state=state)
    return made


def test_state_is_per_key_and_goes_with_the_key() -> None:
    f = q.group_by("g", q.windows(q.sum("x"), rows=2) >> q.sum("value"))
    events = [{"k": i % 2, "g": i % 3, "x": i, "t": i} for i in range(12)]
    one = QuantifyOperator(f.stage, ("k",))
    one.open(None, SCHEMA)
    one.insert(table(events[:7]))
    state = one.snapshot([(1,)])
    assert set(state.keys) == {(1,)} and not state.shared
    other = QuantifyOperator(f.stage, ("k",))
    other.open(None, SCHEMA, state=state)
    rest = table([e for e in events[7:] if e["k"] == 1])
    (here,), (there,) = one.insert(rest).tables(), other.insert(rest).tables()
    assert here.equals(there)
    one.end([(1,)])
    assert set(one.snapshot().keys) == {(0,)}
    assert one.snapshot([(1,)]).keys == {}


def test_keys_that_are_null_or_nan_are_one_key_each() -> None:
    schema = pa.schema([("k", pa.float64()), ("x", pa.int64())])
    operator = q.sum("x").operator(schema, partition_by="k", output="demand")
    for value in (1, 2):
        keys = pa.array([None, float("nan"), 0.0, -0.0])
        operator.insert(pa.table({"k": keys, "x": [value] * 4}))
    found = operator.result()
    assert found["value"].to_pylist() == [3, 3, 6]
    assert str(found["k"].to_pylist()) == "[None, nan, 0.0]"
    again = q.sum("x").operator(schema, partition_by="k", output="demand")
    again.open(None, schema, state=operator.snapshot())
    assert again.result()["value"].to_pylist() == [3, 3, 6]


def test_a_window_closes_with_the_watermark_not_only_with_the_next_event() -> None:
    f = q.windows(q.sum("x"), time=10, by="t") >> q.windows(
        q.max("value"), time=20, by="window_start"
    )
    operator = f.operator(SCHEMA, output="defined")
    operator.insert(table([{"k": 0, "g": 0, "x": 4, "t": 3}, {"k": 0, "g": 0, "x": 5, "t": 12}]))
    assert operator.next_time() == 20
    assert list(operator.advance(Watermark(19)).tables()) == []
    (found,) = operator.advance(Watermark(20)).tables()
    assert found.to_pydict() == {"window_start": [0], "value": [5]}
    assert operator.next_time() is None
    with pytest.raises(errors.DataError, match="goes back at row 0"):
        operator.insert(table([{"k": 0, "g": 0, "x": 1, "t": 13}]))


def test_complete_partitions_of_a_batch_end_with_it() -> None:
    f = q.windows(q.sum("x"), time=10, by="t")
    operator = f.operator(SCHEMA, partition_by="k", output="defined")
    events = table([{"k": 0, "g": 0, "x": 4, "t": 3}, {"k": 1, "g": 0, "x": 5, "t": 4}])
    batch = Events(events, np.array([0, 1, 2]), np.array([False, True]))
    found = pa.concat_tables(operator.insert(batch).tables())
    assert found.to_pydict() == {"k": [1], "window_start": [0], "value": [5]}
    assert operator.open_keys == 1


def test_state_of_another_query_or_of_other_columns_is_refused() -> None:
    held = q.windows(q.sum("x"), rows=3).operator(SCHEMA, partition_by="k")
    held.insert(table(random_events(random.Random(1))))
    state = held.snapshot()
    for other in (q.windows(q.sum("x"), rows=4), q.windows(q.max("x"), rows=3)):
        with pytest.raises(errors.StateError, match="another query"):
            QuantifyOperator(other.stage, ("k",)).open(None, SCHEMA, state=state)
    floats = SCHEMA.set(2, pa.field("x", pa.float64()))
    with pytest.raises(errors.StateError, match="another query"):
        QuantifyOperator(q.windows(q.sum("x"), rows=3).stage, ("k",)).open(
            None, floats, state=state
        )
    with pytest.raises(errors.StateError, match="not Ensue's, or is damaged"):
        held.open(None, SCHEMA, state=Snapshot(shared=b"junk"))
