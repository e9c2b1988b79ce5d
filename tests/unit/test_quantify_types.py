"""Checks that depend on the types of columns, against all events of a small domain.

Literals are whole or half, columns are compared two at a time: the domain holds a point of every
interval that such predicates can tell apart, for each type.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.quantify.reading import read_predicate
from ensue.quantities.predicates import alphabet
from ensue.quantities.run import column_kinds
from ensue.scalar.columns import Rows, predicate

CASES = int(os.environ.get("ENSUE_QUANTIFY_CASES", "60"))
DOMAIN: dict[pa.DataType, list[Any]] = {
    pa.int64(): [*range(-4, 5), None],
    pa.int8(): [*range(-4, 5), None],
    pa.float64(): [*(i / 8 for i in range(-36, 37)), None],
    pa.float32(): [*(i / 8 for i in range(-36, 37)), None],
    pa.decimal128(4, 1): [*(Decimal(i) / 10 for i in range(-45, 46)), None],
    pa.decimal128(4, 0): [*map(Decimal, range(-4, 5)), None],
}


def events(kinds: tuple[pa.DataType, pa.DataType]) -> pa.Table:
    pairs = list(itertools.product(*(DOMAIN[kind] for kind in kinds)))
    return pa.table(
        {
            "n": pa.array([n for n, _ in pairs], kinds[0]),
            "m": pa.array([m for _, m in pairs], kinds[1]),
        }
    )


def random_predicate(randomness: random.Random, depth: int = 2) -> str:
    kind = randomness.random()
    if depth and kind < 0.3:
        parts = [random_predicate(randomness, depth - 1) for _ in range(2)]
        return f"({parts[0]} {randomness.choice(['AND', 'OR'])} {parts[1]})"
    if depth and kind < 0.4:
        return f"NOT ({random_predicate(randomness, depth - 1)})"
    column = randomness.choice("nm")
    literal = randomness.choice(["-1", "0", "1", "2", "0.5", "-1.5", "1.5e0", "1e0"])
    if kind < 0.5:
        return f"{column} IS {randomness.choice(['', 'NOT '])}NULL"
    if kind < 0.6:
        return f"{column} BETWEEN {literal} AND 2"
    if kind < 0.65:
        return f"{column} IN (0, 1, 2)"
    order = randomness.choice(["<", "<=", ">", ">=", "=", "<>", "<=>"])
    return f"n {order} m" if kind < 0.75 else f"{column} {order} {literal}"


def combinations(texts: list[str], table: pa.Table) -> set[int]:
    """What holds together of some event, by trying all of them."""
    rows = Rows.of(table)
    truths = [
        predicate(read_predicate(text).tree, rows).to_numpy(zero_copy_only=False)  # type: ignore[union-attr]
        for text in texts
    ]
    return set(np.unique(sum(truth.astype(int) << i for i, truth in enumerate(truths))).tolist())


def types() -> Iterator[tuple[pa.DataType, pa.DataType]]:
    return itertools.product(DOMAIN, repeat=2)


TABLES = {kinds: events(kinds) for kinds in types()}
NUMBERS = {
    kinds: table
    for kinds, table in TABLES.items()
    if set(kinds) <= {pa.int64(), pa.float64(), pa.decimal128(4, 1)}
}


def test_what_predicates_hold_together_of_each_type() -> None:
    randomness = random.Random(5)
    chosen = list(TABLES)
    for _ in range(CASES):
        texts = [random_predicate(randomness) for _ in range(2)]
        kinds = randomness.choice(chosen)
        table = TABLES[kinds]
        expected = combinations(texts, table)
        letters = alphabet([*map(read_predicate, texts)], column_kinds(table.schema)).letters
        shown = [(letter.holds, letter.certain, letter.event) for letter in letters]
        if read_predicate(texts[0]) == read_predicate(texts[1]):
            continue
        assert {letter.holds for letter in letters} == expected, (texts, kinds, shown)
        assert all(letter.certain for letter in letters), (texts, kinds, shown)


def test_verdicts_without_types_hold_for_every_type() -> None:
    """Refused when built: ambiguous of every type. Passed: of none. Undecided: it differs."""
    randomness = random.Random(6)
    seen = {"refused": 0, "passed": 0, "undecided": 0, "impossible": 0}
    for _ in range(CASES):
        one, two = (random_predicate(randomness, 1) for _ in range(2))
        options = [q.event(one, 1), q.event(two, 2)]
        found = {kinds: combinations([one, two], NUMBERS[kinds]) for kinds in NUMBERS}
        together = {kinds: 3 in letters for kinds, letters in found.items()}
        possible = [bool(letters & {1, 3}) and bool(letters & {2, 3}) for letters in found.values()]
        case = (one, two)
        try:
            f = q.choose(*options)
        except errors.AmbiguousError:
            assert all(together.values()), case
            seen["refused"] += 1
            continue
        except errors.UnsatisfiableError:
            assert not any(possible), case
            seen["impossible"] += 1
            continue
        try:
            f.check()
            assert not any(together.values()), case
            seen["passed"] += 1
        except errors.UndecidedError as problem:
            assert "depends on the types" in str(problem)
            assert len(set(together.values())) == 2, case
            seen["undecided"] += 1
        kinds = randomness.choice(list(NUMBERS))
        try:
            f.check(NUMBERS[kinds])
            assert not together[kinds], (case, kinds)
        except errors.AmbiguousError:
            assert together[kinds], (case, kinds)
        except errors.UnsatisfiableError:
            assert not found[kinds] & {1, 3} or not found[kinds] & {2, 3}, (case, kinds)
    assert min(seen["refused"], seen["passed"]) > CASES / 20 and seen["undecided"], seen


def test_one_predicate_twice_is_ambiguous_of_the_types_that_can_hold_it() -> None:
    f = q.choose(q.event("n <=> 1.5e0", 1), q.event("n <=> 1.5e0", 2))
    with pytest.raises(errors.UndecidedError, match="depends on the types"):
        f.check()
    with pytest.raises(errors.AmbiguousError):
        f.check(pa.schema([("n", pa.float64())]))
    with pytest.raises(errors.UnsatisfiableError):
        f.check(pa.schema([("n", pa.int64())]))


def test_whole_numbers_exclude_what_numbers_in_between_would_share() -> None:
    f = q.choose(q.event("n > 0", 1), q.event("n < 1", 2))
    assert f.eval(pa.table({"n": [1]})) == 1 and f.eval(pa.table({"n": [0]})) == 2
    with pytest.raises(errors.UndecidedError, match=r"types of the columns \(n\).*\{n=0\.5\}"):
        f.check()
    assert f.check(pa.schema([("n", pa.int32())])).tokens
    assert f.check(pa.schema([("n", pa.decimal128(9, 0))])).tokens
    for kind in (pa.float64(), pa.float32(), pa.decimal128(9, 1)):
        with pytest.raises(errors.AmbiguousError, match=r"\{n="):
            f.check(pa.schema([("n", kind)]))
    with pytest.raises(errors.AmbiguousError, match=r"\{n=0\.5\}"):
        f.eval(pa.table({"n": [0.25]}))
    with pytest.raises(errors.UnknownColumnError, match="'n'"):
        f.eval(pa.table({"m": [0.25]}))


@pytest.mark.parametrize(
    ("one", "two", "apart", "together"),
    [
        ("d > '2026-01-01'", "d < '2026-01-02'", pa.date32(), pa.timestamp("us")),
        ("d > DATE '2026-01-01'", "d < DATE '2026-01-02'", pa.date32(), pa.timestamp("us")),
        ("d = '1'", "d = '01'", pa.string(), pa.int64()),
        ("d > 1e0", "d < 2e0", pa.int64(), pa.float32()),
        ("d + 1 > 5", "d < 5 AND d <> 4", pa.int64(), None),
        ("d.n > 0", "d.n < 1", pa.struct([("n", pa.int32())]), pa.struct([("n", pa.float64())])),
    ],
)
def test_other_types_decide_too(
    one: str, two: str, apart: pa.DataType, together: pa.DataType | None
) -> None:
    f = q.choose(q.event(one, 1), q.event(two, 2))
    assert f.check(pa.schema([("d", apart)])).tokens
    if together is not None:
        with pytest.raises(errors.AmbiguousError):
            f.check(pa.schema([("d", together)]))


def test_a_type_bounds_what_its_column_holds() -> None:
    f = q.event("d > 127", 1)
    assert f.check(pa.schema([("d", pa.int16())])).tokens
    with pytest.raises(errors.UnsatisfiableError, match="d > 127"):
        f.check(pa.schema([("d", pa.int8())]))
    with pytest.raises(errors.UnsatisfiableError, match=r"d > 99\.95"):
        q.event("d > 99.95", 1).check(pa.schema([("d", pa.decimal128(3, 1))]))


def test_casts_that_types_put_in_are_told_apart() -> None:
    """Both sides are cast to double, and are not the same for that."""
    schema = pa.schema([("n", pa.int64()), ("f", pa.float32())])
    assert q.event("n > f", 1).check(schema).tokens
    assert q.choose(q.event("n > f", 1), q.event("n <= f", 2)).check(schema).tokens


def test_the_values_of_a_pipeline_have_their_types() -> None:
    chosen = q.choose(q.event("value > 0", 1), q.event("value < 1", 2))
    f = q.windows(q.count(), rows=2) >> chosen
    assert f.check(pa.schema([("x", pa.float64())])).tokens
    with pytest.raises(errors.AmbiguousError):
        (q.windows(q.mean("x"), rows=2) >> chosen).check(pa.schema([("x", pa.float64())]))
