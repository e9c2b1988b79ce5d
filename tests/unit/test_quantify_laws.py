"""⊕ joins paths and ⊗ folds them: which pairs may, derived from the law; and what of it runs.

The table of distributive pairs is held to an enumeration of small values; every pair that is not
refused to the definition, with all paths enumerated; and the laws of users' functions to witnesses.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.quantities.folds import COLLECTS, DISTRIBUTIVE, DISTRIBUTIVE_WITH_NULLS, FOLDS
from ensue.quantities.model import Fold
from ensue.quantities.stages import AutomatonQuestion
from ensue.scalar import kinds as k
from ensue.scalar.kinds import Kind
from tests.oracle_quantify import NOTHING, evaluate

CASES = int(os.environ.get("ENSUE_QUANTIFY_CASES", "150"))
VALUES: dict[Kind, list[Any]] = {k.BIGINT: [-2, -1, 0, 1, 2, 3], k.BOOLEAN: [False, True]}
PAIRS = list(itertools.product(COLLECTS, (f.name for f in FOLDS.values() if f.width == 1)))


def admits(fold: Fold, kind: Kind) -> bool:
    """Whether the fold keeps values of that kind."""
    assert fold.result is not None
    try:
        return fold.result((kind,), (kind,)) == (kind,)
    except errors.OperationTypeError:
        return False


def holds(collect: str, fold: str, nulls: bool) -> bool:
    """The law on all small values of all kinds that both take."""
    join, add = COLLECTS[collect].function, FOLDS[fold].function
    kinds = [kind for kind in VALUES if admits(FOLDS[collect], kind) and admits(FOLDS[fold], kind)]
    return bool(kinds) and all(
        add(join(y, z), x) == join(add(y, x), add(z, x))
        for kind in kinds
        for y, z in itertools.product([*VALUES[kind], *([None] if nulls else [])], repeat=2)
        for x in [*VALUES[kind], None]
    )


def test_the_table_of_distributive_pairs_is_the_law() -> None:
    assert {pair for pair in PAIRS if holds(*pair, nulls=False)} == DISTRIBUTIVE
    assert {pair for pair in PAIRS if holds(*pair, nulls=True)} == DISTRIBUTIVE_WITH_NULLS


@pytest.mark.parametrize("name", COLLECTS)
def test_known_collects_are_commutative_and_associative(name: str) -> None:
    join = COLLECTS[name].function
    kinds = [kind for kind in VALUES if admits(FOLDS[name], kind)]
    for kind in kinds:
        for x, y, z in itertools.product([*VALUES[kind], None], repeat=3):
            assert join(x, y) == join(y, x)
            assert join(join(x, y), z) == join(x, join(y, z))


@pytest.mark.parametrize("name", [f.name for f in FOLDS.values() if f.associative])
def test_known_monoids_are_associative_with_null_as_identity(name: str) -> None:
    fold = FOLDS[name]
    for kind, values in VALUES.items():
        if admits(fold, kind):
            for x, y, z in itertools.product([*values, None], repeat=3):
                one = fold.function(fold.function(x, y), z)
                assert one == fold.function(x, fold.function(y, z))
                assert fold.function(x, fold.identity) == x == fold.function(fold.identity, x)


def ambiguous(randomness: random.Random, collect: str, fold: str) -> q.Quantity:
    """Two states with several ways to read an event, null among the values."""
    truth = {collect, fold} & {"any", "all"} or (
        collect != "sum" and fold in ("max", "min", "replace", "last", "first")
        and randomness.random() < 0.3
    )  # fmt: skip
    starts: list[Any] = [None, True, False] if truth else [None, 0, 1, -2]
    weights: list[Any] = ["b", "x > 0", True] if truth else ["x", "x + 1", 2, None]
    built = q.automaton(fold, collect=collect)
    built.initial("p", randomness.choice(starts)).final("q")
    if randomness.random() < 0.5:
        built.initial("q", randomness.choice(starts))
    if randomness.random() < 0.3:
        built.final("p", randomness.choice([True, False] if truth else [3, -1]))
    built.step("p", "q", None, randomness.choice(weights))
    for _ in range(randomness.randint(1, 4)):
        source, target = randomness.choice(["pp", "pq", "qp", "qq"])
        when = randomness.choice([None, "x > 0", "x <= 0 OR x IS NULL"])
        if randomness.random() < 0.3:
            built.skip(source, target, when)
        else:
            built.step(source, target, when, randomness.choice(weights))
    return built.build()


def test_every_pair_answers_as_the_definition_or_is_refused() -> None:
    randomness = random.Random(17)
    schema = pa.schema([("x", pa.int32()), ("b", pa.bool_())])
    answered: dict[tuple[str, str], int] = {}
    refused: set[tuple[str, str]] = set()
    for number in range(CASES):
        pair = PAIRS[number % len(PAIRS)]
        f = ambiguous(randomness, *pair)
        try:
            f.stage.bind(schema)
        except errors.DistributivityError:
            refused.add(pair)
            continue
        except errors.OperationTypeError:
            continue
        rows = [
            {"x": randomness.choice([-1, 0, 2, None]), "b": randomness.choice([True, False, None])}
            for _ in range(randomness.randint(0, 4))
        ]
        expected = evaluate(f.automaton, rows)
        table = pa.Table.from_pylist(rows, schema)
        plain = q.Quantity(AutomatonQuestion(f.automaton, compiled=False))
        for query in (f, plain):
            found = query.eval(table)
            assert found == (None if expected is NOTHING else expected), (pair, rows, f.automaton)
        answered[pair] = answered.get(pair, 0) + 1
    assert set(answered) >= DISTRIBUTIVE
    assert ("sum", "replace") in answered and ("sum", "sum") in refused


def replacing(*weights: Any) -> q.Quantity:
    built = q.automaton("replace", collect="sum").initial("p", 0).final("p")
    for weight in weights:
        built.step("p", "p", None, weight)
    return built.build()


def test_a_sum_over_paths_counts_each_path_that_replaces() -> None:
    events = pa.table({"x": [2, 2]})
    assert replacing("x", "x").eval(events) == 8
    assert replacing("x", "x").stream(events).to_pylist() == [4, 8]
    assert replacing("x", 1).eval(pa.table({"x": [5] * 20})) == 6 * 2**19
    with pytest.raises(errors.OverflowDataError):
        replacing("x", "x").eval(pa.table({"x": [5] * 80}))
    operator = replacing("x", "x").operator(events, output="demand")
    operator.insert(events.slice(0, 1))
    operator.open(None, events.schema, state=operator.snapshot())
    operator.insert(events.slice(1))
    assert operator.result()["value"].to_pylist() == [8]


def test_types_of_what_is_collected() -> None:
    f = replacing("x", "x")
    small = pa.table({"x": pa.array([2**31 - 1], pa.int32())})
    assert f.eval(small) == 2**32 - 2
    truth = q.automaton("sum", collect="any").initial("p", 0).final("p").skip("p", "p", None)
    with pytest.raises(errors.OperationTypeError, match=r"collect any.*booleans, not bigint"):
        truth.build().eval(small)


# -- functions of the user's ----------------------------------------------------------------------


def mean(a: float, b: float) -> float:
    return (a + b) / 2


def first(a: Any, b: Any) -> Any:
    return a


@pytest.mark.parametrize(
    ("fold", "identity", "law"),
    [
        (mean, 0.0, "identity law"),
        ("state - value", 0, "identity law"),
        ("state + value", 1, "identity law"),
        ("state * value", 0, "identity law"),
        ("sum", 5, "identity law"),
        ("replace", 0, "identity law"),
        ("state + value + state * state * value", 0, "associativity"),
        (lambda a, b: a + b if len(a) < 2 else b + a, "", "associativity"),
        (math.gcd, 0, "identity law"),
    ],
)
def test_a_fold_that_is_no_monoid_is_refused_with_values_that_show_it(
    fold: Any, identity: Any, law: str
) -> None:
    with pytest.raises(errors.LawError, match=f"not a monoid .*{law} of "):
        q.monoid(fold, identity)


@pytest.mark.parametrize(
    ("fold", "identity", "samples"),
    [
        ("state + value", 0, ()),
        ("state + value", 0.0, ()),
        ("GREATEST(state, value)", None, ()),
        ("CONCAT(state, value)", "", ()),
        (lambda a, b: a | b, frozenset(), ()),
        (lambda a, b: a + b, (), ()),
        (math.gcd, 0, (0, 1, 4, 6)),
        ("count", 0, ()),
    ],
)
def test_a_monoid_is_taken(fold: Any, identity: Any, samples: Any) -> None:
    assert q.monoid(fold, identity, samples=samples).associative


@pytest.mark.parametrize(
    ("collect", "start", "law"),
    [
        (mean, 0, "associativity"),
        (first, 0, "commutativity"),
        (lambda a, b: a - b, 0, "commutativity"),
        (lambda a, b: a + b, "", "commutativity"),
        (lambda a, b: a * b + 1, 0, "associativity"),
    ],
)
def test_a_collect_that_depends_on_the_order_is_refused(
    collect: Callable[..., Any], start: Any, law: str
) -> None:
    built = (
        q.automaton("sum", collect=collect).initial("p", start).final("p").step("p", "p", None, 1)
    )
    with pytest.raises(errors.LawError, match=f"{law} of "):
        built.build()


def test_a_function_is_not_taken_for_a_fold_of_its_name() -> None:
    def last(state: int, value: int) -> int:
        return state + value

    def count(state: int, value: int) -> int:
        return state * 10 + value

    events = pa.table({"x": [1, 2, 3]})
    assert q.iter(last, q.event(None, "x"), start=0).eval(events) == 6
    assert q.iter(count, q.event(None, "x")).eval(events) == 123

    def max(a: int, b: int) -> int:
        return a + b

    paths = q.automaton("product", collect=max).initial("p", 1).final("p")
    f = paths.step("p", "p", None, "x").step("p", "p", None, 1).build()
    assert f.check().distributive == "tested"
    assert f.eval(events) == 2 * 3 * 4


def test_what_cannot_be_tested_is_to_be_declared() -> None:
    def built(**options: Any) -> q.Quantity:
        paths = q.automaton(lambda s, v: s @ v, collect=lambda a, b: a @ b, **options)
        steps = paths.initial("p", 1).final("p").step("p", "p", None, 1).step("p", "p", None, 2)
        return steps.build()

    with pytest.raises(errors.DistributivityError, match="cannot be tested"):
        built().check()
    assert built(distributive=True).check().distributive == "declared"
