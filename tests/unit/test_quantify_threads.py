"""One sequence cut into chunks answers as it does in one thread, and as the definition says."""

from __future__ import annotations

import datetime as dt
import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.quantities import chunks
from ensue.quantities.bound import Batch
from ensue.quantities.checks import check
from ensue.quantities.prefix import parallel
from ensue.quantities.run import BoundAutomaton
from ensue.quantities.stages import AutomatonQuestion
from tests.oracle_quantify import NOTHING, evaluate
from tests.unit.test_quantify_exhaustive import random_hierarchy

CASES = int(os.environ.get("ENSUE_QUANTIFY_CASES", "120"))
DAY = dt.date(2026, 1, 5)
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "x": (pa.int64(), [-2, -1, 0, 1, 2, 3, None]),
    "f": (pa.float64(), [-1.5, 0.0, 0.25, 2.0, float("inf"), None]),
    "b": (pa.bool_(), [True, False, None]),
    "w": (pa.string(), ["", "a", "b", None]),
    "d": (pa.date32(), [dt.date(2026, 1, i) for i in (1, 5, 9)] + [None]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])
NUMBERS = pa.schema([("x", pa.int64())])
# fold, identity, start, value
MONOIDS: list[tuple[Any, Any, Any, str]] = [
    ("state + value", 0, 0, "x"),
    ("state + value", 0.0, 7, "COALESCE(x, 1)"),
    ("state * value", 1, 2, "COALESCE(x, 3)"),
    ("state + value", 0.0, 0.5, "COALESCE(f, 4.0e0)"),
    ("GREATEST(state, value)", None, -1, "x"),
    ("LEAST(state, value)", None, DAY, "d"),
    ("GREATEST(state, value)", None, DAY, "d"),
    ("state AND value", True, True, "b"),
    ("state OR value", False, False, "COALESCE(b, FALSE)"),
    ("CONCAT(state, value)", "", "z", "COALESCE(w, '-')"),
    (lambda a, b: a + b, "", "z", "COALESCE(w, '-')"),
    (lambda a, b: (a + b) % 7, 0, 3, "COALESCE(x, 1) % 7 + 2"),
    ("sum", 0, 1, "x"),
    ("count", 0, 0, "x"),
    ("max", None, None, "f"),
]


def _aggregate(randomness: random.Random) -> q.Quantity:
    name = randomness.choice(["sum", "product", "min", "max", "first", "last", "count"])
    options: dict[str, Any] = {}
    if randomness.random() < 0.3:
        options["where"] = randomness.choice(["x > 0", "b", "w = 'a'"])
    if randomness.random() < 0.3:
        options["over"] = randomness.choice(["x > -2", "x IS NOT NULL OR b"])
    if randomness.random() < 0.2:
        return randomness.choice([q.any, q.all])("b", **options)
    if randomness.random() < 0.2:
        return q.mean("f", **options)
    column = randomness.choice("xf" if name in ("sum", "product") else "xfd")
    if randomness.random() < 0.4:
        start = {"x": 4, "f": 1.5, "d": DAY}[column]
        options["start"] = 3 if name == "count" else start
    return getattr(q, name)(column, **options)


def _automaton(randomness: random.Random) -> q.Quantity:
    """Two states, each event read in one way from each."""
    fold, weights = randomness.choice(
        [
            ("sum", ["x", 1, "f"]),
            ("max", ["x", "f", -1]),
            (q.monoid("state + value", 0), ["COALESCE(x, 0)", 2]),
            (q.monoid(max, -(10**9)), ["COALESCE(x, 0)", 2]),
        ]
    )
    built = q.automaton(fold).initial("p", randomness.choice([0, 5])).final("q")
    if randomness.random() < 0.5:
        built.final("p", 100)
    for source in "pq":
        targets = "qp" if source == "p" else randomness.choice(["pq", "qp", "pp"])
        for target, when in zip(targets, ("x > 0", "NOT ((x > 0) IS TRUE)"), strict=True):
            if randomness.random() < 0.3:
                built.skip(source, target, when)
            else:
                built.step(source, target, when, randomness.choice(weights))
    return built.build()


def random_query(randomness: random.Random) -> q.Quantity:
    kind = randomness.random()
    if kind < 0.4:
        fold, identity, start, value = randomness.choice(MONOIDS)
        over = randomness.choice([None, None, None, "x > -2"])
        samples = range(7) if callable(fold) and identity == 0 else ()
        monoid = q.monoid(fold, identity, samples=samples)
        return q.iter(monoid, q.event(over, value), start=start)
    return _aggregate(randomness) if kind < 0.7 else _automaton(randomness)


def random_rows(randomness: random.Random, most: int) -> list[dict[str, Any]]:
    rows = randomness.randint(0, most)
    return [
        {name: randomness.choice(values) for name, (_, values) in TYPES.items()}
        for _ in range(rows)
    ]


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # NaN is NaN


def test_chunks_answer_as_the_whole_and_as_the_definition() -> None:
    randomness = random.Random(41)
    cut = 0
    for _ in range(CASES):
        f = random_query(randomness)
        rows = random_rows(randomness, 7)
        table = pa.Table.from_pylist(rows, SCHEMA)
        expected = f.eval(table)
        definition = evaluate(f.automaton, rows)
        definition = None if definition is NOTHING else definition
        if not isinstance(definition, float):  # whose last digits depend on the order
            assert expected == definition, (f, rows)
        for threads in (2, 3, 8):
            found = f.eval(table, threads=threads)
            assert same(found, expected), (f, rows, threads, found, expected)
        cut += len(rows) > 1
    assert cut > CASES / 2


def test_nested_queries_in_chunks_answer_as_the_whole() -> None:
    randomness = random.Random(17)
    compiled = 0
    for _ in range(CASES):
        automaton = random_hierarchy(randomness, randomness.randint(0, 2))
        try:
            report = check(automaton)
        except errors.EnsueError:
            continue
        bound = BoundAutomaton(automaton, NUMBERS, report)
        if bound.numbers is None or not report.tokens:
            continue
        compiled += 1
        for most in (3, 9, 60):
            x = [randomness.choice((2, -1, 3)) for _ in range(randomness.randint(0, most))]
            table = pa.table({"x": pa.array(x, pa.int64())})
            whole = Batch.whole(table, np.array([0, len(x)], np.int64))
            expected = bound.run(whole, bound.memory(), False)
            for threads in (2, 3, 7):
                found = parallel(AutomatonQuestion(automaton), bound, table, threads)
                assert found.ends.to_pylist() == expected.ends.to_pylist(), (automaton, x, threads)
                assert found.ends_defined.tolist() == expected.ends_defined.tolist()
    assert compiled > CASES / 8


BLOCKS = {
    "sums": q.iter("max", q.split("a", q.sum("x", over="x > 0"), q.event("x <= 0"))),
    "means": q.iter("sum", q.split("a", q.mean("x", over="x > 0"), q.event("x <= 0"))),
    "spans": q.iter(
        "min",
        q.split(
            "a", q.combine("a - b", q.max("x", over="x > 0"), q.min("x", over="x > 0")),
            q.event("x <= 0"),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("nulls", [False, True])
def test_a_chunk_of_blocks_is_summarised(name: str, nulls: bool) -> None:
    """Not only run again from its real start: cut where its first block ends, then summarised."""
    randomness = random.Random(5)
    x = [float(randomness.randint(1, 9)) if i % 20 else 0.0 for i in range(1, 2001)]
    given: list[float | None] = [None if nulls and i % 20 == 7 else v for i, v in enumerate(x)]
    f = BLOCKS[name] if not nulls else q.iter(
        "max", q.split("a", q.sum("x", over="x > 0 OR x IS NULL"), q.event("x <= 0"))
    )  # fmt: skip
    table = pa.table({"x": pa.array(given, pa.float64())})
    bound = f.stage.bind(table.schema)
    assert isinstance(bound, BoundAutomaton) and bound.numbers is not None
    every = frozenset(range(len(bound.numbers.numeric.weights))) if nulls else frozenset()
    sequence = chunks._Sequence(bound.numbers, table, every)
    sequence._code.add(sequence._read(0, 2000).letters)
    found = sequence._summary(509, 2000)
    assert found.ready < 600 and 1 <= len(found.segments) <= 4
    assert [f.eval(table, threads=n) for n in (2, 3, 8)] == [pytest.approx(f.eval(table))] * 3


def test_a_sql_monoid_starts_each_chunk_from_its_identity() -> None:
    f = q.iter(q.monoid("state + value", 0), q.event(None, "x"), start=0)
    events = pa.table({"x": [9, 1, 2, 3]})
    assert [f.eval(events, threads=n) for n in (1, 2, 3, 4, 9)] == [15] * 5


def test_a_chunk_that_fails_alone_leaves_it_to_the_whole() -> None:
    big = 2**62
    events = pa.table({"x": [-big, -big, big, big, 1]})
    assert [q.sum("x").eval(events, threads=n) for n in (1, 2, 3)] == [1] * 3
    with pytest.raises(errors.OverflowDataError, match="at row 2"):
        q.sum("x").eval(pa.table({"x": [0, big, big, big]}), threads=2)
    with pytest.raises(errors.DataError, match="failed at row 3"):
        q.sum(lambda e: 1 // e["x"]).eval(pa.table({"x": [1, 1, 1, 0]}), threads=2)


def test_an_identity_of_another_type_is_refused_by_name() -> None:
    f = q.iter(
        q.monoid("GREATEST(state, value)", -0.5, samples=(1, 2)), q.event(None, "x"), start=0
    )
    with pytest.raises(errors.OperationTypeError, match=r"identity -0\.5 .* bigint"):
        f.eval(pa.table({"x": [1, 2]}), threads=2)
