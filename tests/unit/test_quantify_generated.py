"""Machine code of queries at its edges: many predicates or configurations, late nulls, strings."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.quantities.bound import Batch
from ensue.quantities.memory import Memory
from ensue.quantities.numbers import CHUNK
from ensue.quantities.run import BoundAutomaton


def ways(f: q.Quantity, table: pa.Table) -> tuple[BoundAutomaton, BoundAutomaton]:
    """Compiled, and on plain values."""
    bound = f.stage.bind(table.schema)
    assert isinstance(bound, BoundAutomaton) and bound.numbers is not None
    return bound, BoundAutomaton(bound.automaton, table.schema, bound.report, compiled=False)


def answers(bound: BoundAutomaton, table: pa.Table) -> tuple[list[Any], list[Any]]:
    whole = Batch.whole(table, np.array([0, table.num_rows], np.int64))
    found = bound.run(whole, bound.memory(), True)
    assert found.values is not None
    return found.ends.to_pylist(), found.values.to_pylist()


def in_pieces(bound: BoundAutomaton, table: pa.Table, size: int) -> list[Any]:
    """The value at the end of each piece, with the state kept in between."""
    memory, told = Memory(kept=bound.kept()), []
    for begin in range(0, table.num_rows, size):
        piece = table.slice(begin, size)
        starts, fresh = np.array([0, piece.num_rows], np.int64), np.array([begin == 0])
        batch = Batch(piece, starts, np.zeros(1, np.int64), fresh, np.ones(1, np.bool_))
        told += bound.run(batch, memory, False).ends.to_pylist()
    return told


def of_kinds(count: int) -> q.Quantity:
    """A stretch of each kind, one after the other, each with a predicate of its own."""
    parts = [q.sum("x", over=f"k = {kind}") for kind in range(count)]
    return q.split(" + ".join("abcdefghijklmnopqrst"[:count]), *parts)


@pytest.mark.parametrize(("kinds", "refusal"), [(7, ""), (9, ""), (18, "more than 16 predicates")])
def test_letters_of_any_width(kinds: int, refusal: str) -> None:
    k = [kind for kind in range(kinds) for _ in range(3)]
    table = pa.table({"k": k, "x": [i % 5 for i in range(len(k))]})
    bound, plain = ways(of_kinds(kinds), table)
    assert answers(bound, table) == answers(plain, table)
    assert bound.numbers is not None and refusal in bound.numbers.refusal
    assert bool(refusal) == bool(bound.numbers.refusal)
    assert in_pieces(bound, table, 4) == in_pieces(plain, table, 4)


def from_the_end(place: int) -> q.Quantity:
    """The sum of the last so many events, where the first of them has x > 0: 2^place subsets."""
    built = q.automaton("sum", name="from the end").initial("0", 0).skip("0", "0", None)
    built = built.step("0", "1", "x > 0", "x")
    for state in range(1, place):
        built = built.step(str(state), str(state + 1), None, "x")
    return built.final(str(place)).build()


@pytest.mark.parametrize(("place", "refused"), [(3, False), (9, True)])
def test_too_many_configurations_are_interpreted(place: int, refused: bool) -> None:
    numbers = random.Random(2)
    table = pa.table({"x": [numbers.randint(-2, 2) for _ in range(60)]})
    bound, plain = ways(from_the_end(place), table)
    assert answers(bound, table) == answers(plain, table)
    assert bound.numbers is not None and bool(bound.numbers.refusal) == refused
    fresh, _ = ways(from_the_end(place), table)
    for size in (1, 7):
        assert in_pieces(fresh, table, size) == in_pieces(plain, table, size)


def test_letters_that_come_late_are_interpreted_where_they_are_too_many() -> None:
    """Before the first x > 0 there is one configuration; state that was kept goes on."""
    table = pa.table({"x": [-1] * 20 + [random.Random(4).randint(-2, 2) for _ in range(40)]})
    bound, plain = ways(from_the_end(9), table)
    assert in_pieces(bound, table, 5) == in_pieces(plain, table, 5)
    assert bound.numbers is not None and bound.numbers.refusal


def test_nulls_that_begin_in_a_later_chunk() -> None:
    """The code for inputs with nulls has other nodes than that for those without."""
    x: list[float | None] = [1.0 + i % 3 for i in range(CHUNK)]
    x += [float(i % 20) for i in range(CHUNK)]
    for row in range(CHUNK + 7, 2 * CHUNK, 11):
        x[row] = None
    x += [4.0, 0.0]
    table = pa.table({"x": pa.array(x, pa.float64())})
    blocks: list[list[float]] = [[]]
    for value in x:
        blocks[-1].append(value or 0.0)
        if value == 0.0:
            blocks.append([])
    inner = q.combine("a - b", q.sum("x", over=OVER, start=0.0), q.count("x", over=OVER, start=0))
    f = q.iter("sum", q.split("a", inner, q.event("x <= 0")))
    bound, plain = ways(f, table.slice(0, 10))
    expected = sum(map(sum, blocks)) - sum(v is not None and v != 0.0 for v in x)
    assert f.eval(table) == f.eval(table, threads=2) == expected
    few = pa.concat_tables([table.slice(CHUNK - 40, 90), table.slice(2 * CHUNK)])
    assert answers(bound, few) == answers(plain, few)


OVER = "x > 0 OR x IS NULL"


def test_faults_name_their_row() -> None:
    big = 2**62
    table = pa.table({"x": [1] * 70_000 + [big, big]})
    with pytest.raises(errors.OverflowDataError, match="at row 70001"):
        q.sum("x").eval(table)
    f = q.iter("max", q.split("a", q.combine("a / b", q.sum("x", over="x > 0"),
        q.sum("x - 1", over="x > 0")), q.event("x <= 0")))  # fmt: skip
    with pytest.raises(errors.DataError, match="division by zero at row 3"):
        f.eval(pa.table({"x": [2, 3, 0, 1, 0, 5]}))


STRINGS = {
    "argmax": q.argmax("w", "x"),
    "argmin by name": q.argmin("x", "w"),
    "first": q.first("w"),
    "last": q.last("w"),
    "max": q.max("w"),
    "min": q.min("w"),
    "blocks": q.iter("max", q.split("a", q.max("w", over="x > 0"), q.event("x <= 0"))),
    "count": q.count("w"),
}


@pytest.mark.parametrize("name", STRINGS)
def test_strings_as_ranks(name: str) -> None:
    numbers = random.Random(9)
    words = ["", "a", "ab", "b", "Z", "é", "日本", "\U0001f600", None]
    for rows in (0, 1, 5, 60):
        w = [numbers.choice(words) for _ in range(rows)]
        x = [numbers.randint(-1, 3) for _ in range(rows)]
        table = pa.table({"w": pa.array(w, pa.string()), "x": pa.array(x, pa.int64())})
        bound, plain = ways(STRINGS[name], table)
        assert answers(bound, table) == answers(plain, table)
        assert in_pieces(bound, table, 7) == in_pieces(plain, table, 7)
