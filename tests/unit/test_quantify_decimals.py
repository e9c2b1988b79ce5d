"""Decimals in quantitative queries: typed as Spark types them, exact, and decided by the solver.

The definitions are written here once more, in fractions. `ENSUE_CASES` multiplies the random cases.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.quantify.reading import read_predicate
from ensue.quantities.predicates import alphabet
from ensue.scalar import kinds as k
from tests.unit.test_quantify_quantile import in_pieces

CASES = int(os.environ.get("ENSUE_CASES", "1"))
TOO_LARGE = "too large"


def decimal(units: int, scale: int) -> Decimal:
    """Exactly: Python's own arithmetic keeps 28 digits."""
    return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))


def rounded(value: Fraction, precision: int, scale: int) -> Any:
    """Half up, away from zero; or that the type has too few digits."""
    units = abs(value) * 10**scale
    whole = int(units + Fraction(1, 2))
    if whole >= 10**precision:
        return TOO_LARGE
    return decimal(whole if value >= 0 else -whole, scale)


def quotient_type(p1: int, s1: int, p2: int, s2: int) -> tuple[int, int]:
    scale = max(6, s1 + p2 + 1)
    precision = p1 - s1 + s2 + scale
    if precision <= 38:
        return precision, scale
    return 38, max(38 - (precision - scale), min(scale, 6))


def column(chance: np.random.Generator, precision: int, scale: int, count: int) -> list[Any]:
    values: list[Any] = []
    for _ in range(count):
        digits = int(chance.integers(1, precision + 1))
        units = int("".join(map(str, chance.integers(0, 10, digits))))
        sign = int(chance.choice([-1, 1]))
        values.append(None if chance.random() < 0.15 else decimal(sign * units, scale))
    return values


def expected(name: str, xs: list[Any], p: int, s: int) -> Any:
    """The value of an aggregate and, where the type depends on the column, its type."""
    known = [Fraction(x) for x in xs if x is not None]
    wide = min(38, p + 10)
    match name:
        case "sum":
            return (rounded(sum(known), wide, s) if known else None), (wide, s)
        case "mean":
            kind = min(38, p + 4), min(38, s + 4)
            return (rounded(sum(known) / len(known), *kind) if known else None), kind
        case "max" | "min":
            best = {"max": max, "min": min}[name]
            return (rounded(best(known), p, s) if known else None), (p, s)
        case "first" | "last":
            at = 0 if name == "first" else -1
            return (rounded(known[at], p, s) if known else None), (p, s)
        case "count":
            return len(known), None
        case _:
            product = 1.0
            for value in known:
                product *= float(value)
            return (product if known else None), None


def answer(run: Callable[..., Any], *given: Any, **options: Any) -> Any:
    try:
        return run(*given, **options)
    except errors.OverflowDataError as problem:
        assert "does not fit decimal(" in str(problem)
        return TOO_LARGE


NAMES = ("sum", "mean", "max", "min", "first", "last", "count", "product")


def test_every_fold_of_random_decimals() -> None:
    for seed in range(60 * CASES):
        chance = np.random.default_rng(seed)
        p = int(chance.integers(1, 39))
        s = int(chance.integers(0, p + 1))
        xs = column(chance, p, s, int(chance.integers(1, 9)))
        events = pa.table({"x": pa.array(xs, pa.decimal128(p, s))})
        cuts = sorted(chance.integers(0, len(xs), 2).tolist())
        for name in NAMES if CASES > 1 else chance.choice(NAMES, 3, replace=False).tolist():
            f = getattr(q, name)("x")
            value, kind = expected(name, xs, p, s)
            where = (seed, name, p, s, xs)
            found = answer(f.eval, events)
            if name == "product":
                assert found == value or abs(found - value) <= 1e-12 * abs(value), where
                assert found == answer(in_pieces, f, events, cuts), where
                continue
            assert found == value and str(found) == str(value), where
            assert value == answer(in_pieces, f, events, cuts), where
            assert value == answer(f.eval, events, threads=3), where
            if kind is not None:
                got = f.operator(events.schema, output="demand").schema.field("value").type
                assert got == pa.decimal128(*kind), where


def test_operations_go_by_the_types_and_not_by_the_values() -> None:
    for seed in range(60 * CASES):
        chance = np.random.default_rng(seed)
        p1, p2 = chance.integers(1, 28, 2).tolist()
        s1, s2 = int(chance.integers(0, p1 + 1)), int(chance.integers(0, p2 + 1))
        count = int(chance.integers(1, 6))
        xs, ys = column(chance, p1, s1, count), column(chance, p2, s2, count)
        ys[0] = decimal(10**p2 - 1, s2)
        types = pa.decimal128(p1, s1), pa.decimal128(p2, s2)
        events = pa.table({"x": pa.array(xs, types[0]), "y": pa.array(ys, types[1])})
        f = q.combine("a / b", q.sum("x"), q.max("y"))
        kind = quotient_type(min(38, p1 + 10), s1, p2, s2)
        known = [Fraction(x) for x in xs if x is not None]
        value = None
        if known:
            value = rounded(sum(known) / max(Fraction(y) for y in ys if y is not None), *kind)
        found = answer(f.eval, events)
        if TOO_LARGE in (found, value):
            assert found == value, (seed, xs, ys)
            continue
        assert str(found) == str(value), (seed, xs, ys)
        assert value == in_pieces(f, events, [count // 2]), (seed, xs, ys)


def test_the_sum_of_the_report() -> None:
    events = pa.table({"x": pa.array([Decimal("99.99")] * 2, pa.decimal128(4, 2))})
    assert q.sum("x").eval(events) == Decimal("199.98")
    assert q.windows(q.sum("x"), rows=2).stream(events).to_pylist() == [None, Decimal("199.98")]
    assert (q.windows(q.sum("x"), rows=1) >> q.mean("value")).eval(events) == Decimal("99.99")
    assert q.sum("x", start=0.5).eval(events) == 200.48
    assert q.sum("x", start=1).eval(events) == Decimal("200.98")
    largest = pa.table({"x": pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0))})
    with pytest.raises(errors.OverflowDataError, match=r"does not fit decimal\(38,0\)") as caught:
        q.sum("x").eval(largest)
    assert "double" in caught.value.remedy
    back = pa.table({"x": pa.array([10**38 - 1, 5, -7], pa.decimal128(38, 0))})
    assert q.sum("x").eval(back) == Decimal(10**38 - 3)  # past 38 digits only on the way
    assert in_pieces(q.sum("x"), back, [1, 2]) == Decimal(10**38 - 3)
    assert q.sum("x").eval(back, threads=2) == Decimal(10**38 - 3)
    with pytest.raises(errors.OverflowDataError):
        q.sum("x").stream(back)


Truth = Callable[[Decimal | None], bool | None]
ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ORDERS |= {"=": operator.eq, "<>": operator.ne}


def predicate(chance: np.random.Generator) -> tuple[str, Truth]:
    """A condition on x, and what it says by the definition."""

    def number() -> Decimal:
        scale = int(chance.integers(0, 4))
        return decimal(int(chance.integers(-99, 100)), scale)

    order = str(chance.choice(list(ORDERS)))
    a, b = number(), number()
    compare = ORDERS[order]
    match int(chance.integers(0, 7)):
        case 0:
            return f"x {order} {a}", lambda x: None if x is None else compare(x, a)
        case 1:
            return f"x + {a} {order} {b}", lambda x: None if x is None else compare(x + a, b)
        case 2:
            return f"x * {a} {order} {b}", lambda x: None if x is None else compare(x * a, b)
        case 3:
            return f"-x {order} {a}", lambda x: None if x is None else compare(-x, a)
        case 4:
            return f"x BETWEEN {a} AND {b}", lambda x: None if x is None else a <= x <= b
        case 5:
            return f"x IN ({a}, {b})", lambda x: None if x is None else x in (a, b)
        case _:
            return "x IS NULL", lambda x: x is None


def test_conditions_are_decided_exactly_as_all_values_say() -> None:
    for seed in range(12 * CASES):
        chance = np.random.default_rng(seed)
        precision = int(chance.integers(1, 4))
        scale = int(chance.integers(0, precision + 1))
        made = [predicate(chance) for _ in range(int(chance.integers(1, 4)))]
        distinct = dict(made)
        units = range(-(10**precision) + 1, 10**precision)
        every = [None, *(decimal(n, scale) for n in units)]
        true = {tuple(truth(x) is True for truth in distinct.values()) for x in every}
        read = {read_predicate(text): truth for text, truth in made}
        found = alphabet(list(read), {"x": k.decimal(precision, scale)})
        told = {
            tuple(bool(letter.holds >> i & 1) for i in range(len(read))) for letter in found.letters
        }
        if len(read) == len(distinct):
            assert told == true, (seed, precision, scale, list(distinct))
        for letter in found.letters:
            assert letter.certain and letter.event is not None, (seed, list(distinct))
            x = letter.event.get("x")
            assert x is None or x in every
            for i, truth in enumerate(read.values()):
                assert (truth(x) is True) == bool(letter.holds >> i & 1), (seed, x, list(distinct))


def test_queries_over_decimals_are_decided() -> None:
    values = [Decimal("0.10"), Decimal("2.55"), Decimal("0.11"), Decimal("0.10")]
    events = pa.table({"x": pa.array(values, pa.decimal128(4, 2))})
    f = q.iter("max", q.split("a", q.sum("x", over="x > 0.1", start=0), q.event("x <= 0.1")))
    assert f.eval(events) == Decimal("2.66")
    # Where both sides become doubles, the same value is the same on both sides.
    mixed = pa.table({"x": events["x"], "t": ["0.1", "0.1", "0.1", "9"]})
    f = q.iter("sum", q.choose(q.event("x > t", 1), q.event("x <= t", 10)))
    assert f.eval(mixed, assume="unambiguous") == 22
