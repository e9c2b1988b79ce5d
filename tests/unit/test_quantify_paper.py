"""Every example of the paper: Figures 1 to 5, Examples 1 and 2 step by step, Theorem 5."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ensue import errors
from ensue import quantify as q
from ensue.quantities.run import BoundAutomaton
from ensue.quantities.tokens import Configuration
from tests.oracle_quantify import NOTHING, evaluate, value_of


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def max_block_sum() -> q.Quantity:
    """M1 of Figure 1: guess a block, sum it; max over the guesses."""
    return (
        q.automaton("sum", collect="max", name="M1")
        .initial("q0", 0)
        .initial("q1", 0)
        .step("q0", "q0", None, 0)
        .step("q0", "q1", "x = 0", 0)
        .step("q1", "q1", "x > 0", "x")
        .step("q1", "q2", "x = 0", 0)
        .step("q2", "q2", None, 0)
        .final("q1")
        .final("q2")
        .build()
    )


def max_suffix_sum() -> q.Quantity:
    """M2 of Figure 1."""
    return (
        q.automaton("sum", collect="max", name="M2")
        .initial("q0", 0)
        .initial("q1", 0)
        .step("q0", "q0", None, 0)
        .step("q0", "q1", None, 0)
        .step("q1", "q1", None, "x")
        .final("q1")
        .build()
    )


def block_sum() -> q.Quantity:
    """S of Figure 2: the sum of a nonempty block."""
    return q.sum("x", over="x > 0")


def hierarchical_max_block_sum() -> q.Quantity:
    """M3 of Figure 2: parse into blocks, call S on each, fold with max."""
    return (
        q.automaton("max", name="M3")
        .initial("q0", 0)
        .skip("q0", "q0", "x = 0")
        .call("q0", "q1", None, block_sum())
        .skip("q1", "q0", "x = 0")
        .final("q0")
        .final("q1")
        .build()
    )


def average_of_last_block() -> q.Quantity:
    """M4 of Figure 3: guess the last block, call div(S, C) on it."""
    return (
        q.automaton("replace", name="M4")
        .initial("q0", None)
        .initial("q1", None)
        .skip("q0", "q0", None)
        .skip("q0", "q1", "x = 0")
        .call("q1", "q2", "a / b", block_sum(), q.count(over="x > 0"))
        .final("q2")
        .build()
    )


STREAMS = [(), (0,), (3,), (0, 0), (1, 2, 0, 3), (5, 0, 2, 2, 0), (1, 0, 0, 4, 1), (7, 0, 1, 1, 1)]


@pytest.mark.parametrize("stream", STREAMS)
def test_max_block_sum_flat_and_nested(stream: tuple[int, ...]) -> None:
    blocks = " ".join(map(str, stream)).split("0")
    best = max(sum(map(int, block.split())) for block in blocks)
    assert max_block_sum().eval(numbers(*stream)) == best
    assert hierarchical_max_block_sum().eval(numbers(*stream)) == best


@pytest.mark.parametrize("stream", [(1,), (-1,), (2, -3, 4), (-1, -2), (3, -1, -1), ()])
def test_max_suffix_sum(stream: tuple[int, ...]) -> None:
    suffixes = [sum(stream[i:]) for i in range(len(stream) + 1)]
    assert max_suffix_sum().eval(numbers(*stream)) == max(suffixes)


def test_average_of_the_last_block() -> None:
    f = average_of_last_block()
    assert f.eval(numbers(9, 0, 1, 2)) == 1.5
    assert f.eval(numbers(4, 4)) == 4.0
    assert f.eval(numbers(4, 0)) is None  # the last block is empty
    report = f.check(numbers(1))
    assert report.tokens and report.rank == 1


def test_ambiguity_is_reported_where_paths_are_joined() -> None:
    report = max_block_sum().check()
    assert report.rank == 0 and report.ambiguity is not None and report.constant_space
    assert report.distributive == "known"
    assert "compiled" in max_block_sum().explain(numbers(1))
    assert hierarchical_max_block_sum().check().tokens


def step(configuration: Configuration, x: int) -> None:
    automaton, event = configuration.automaton, {"x": x}
    configuration.next(
        {p: value_of(p, event) is True for p in automaton.predicates()},
        {w: value_of(w, event) for w in automaton.weights()},
    )


def test_example_1_step_by_step() -> None:
    """Figure 4: the sum of the positive numbers after the last 0, on the context stack [9]."""
    f = (
        q.automaton("sum", name="A")
        .initial("p", 0)
        .initial("q", 0)
        .step("p", "p", None, 0)
        .step("p", "q", "x = 0", 0)
        .step("q", "q", "x > 0", "x")
        .step("q", "q", "x < 0", 0)
        .final("q")
        .build()
    )
    configuration = Configuration(f.automaton)
    configuration.start(((9,),))
    stack = ((9,), (0,))
    assert configuration.tokens == {"p": stack, "q": stack}
    seen = []
    for x in (3, -5, 2, 0, 4, 1):
        step(configuration, x)
        assert all(token[0] == (9,) for token in configuration.tokens.values())
        seen.append(configuration.tokens["q"][-1][0])
    assert seen == [3, 3, 5, 0, 4, 5]
    assert configuration.output() == 5
    assert f.stream(numbers(3, -5, 2, 0, 4, 1)).to_pylist() == seen
    assert f.check().tokens


def test_example_2_on_three_input_threads() -> None:
    """Figure 5: positive numbers summed while there are exactly two 0s; a thread after each 0."""
    f = (
        q.automaton("sum", name="A")
        .initial("z0", 0)
        .step("z0", "z0", "x > 0", "x")
        .step("z0", "z0", "x < 0", 0)
        .step("z0", "z1", "x = 0", 0)
        .step("z1", "z1", "x > 0", "x")
        .step("z1", "z1", "x < 0", 0)
        .step("z1", "z2", "x = 0", 0)
        .step("z2", "z2", "x > 0", "x")
        .step("z2", "z2", "x < 0", 0)
        .final("z2")
        .build()
    )
    configuration = Configuration(f.automaton)
    configuration.start(((1,),))
    for x in (2, 0):
        step(configuration, x)
    configuration.start(((2,),))
    for x in (3, 0):
        step(configuration, x)
    configuration.start(((3,),))
    assert configuration.tokens == {
        "z2": ((1,), (5,)),
        "z1": ((2,), (3,)),
        "z0": ((3,), (0,)),
    }
    assert configuration.ended() == ((1,), (5,))
    step(configuration, 4)
    assert configuration.ended() == ((1,), (9,))
    step(configuration, 0)
    # The first thread has seen a third 0 and is gone; the second ends now.
    assert configuration.ended() == ((2,), (7,))
    assert set(configuration.tokens) == {"z2", "z1"}


def min_average_suffix() -> q.Quantity:
    """MINAVGSUFFIX of section 4: guess the suffix, average it, min over the guesses."""
    average = q.combine("a / b", q.sum("x"), q.count())
    return (
        q.automaton("replace", collect="min", name="MINAVGSUFFIX")
        .initial("q0", None)
        .skip("q0", "q0", None)
        .call("q0", "q1", None, average)
        .final("q1")
        .build()
    )


def test_min_average_suffix_is_refused_with_the_lower_bound() -> None:
    f = min_average_suffix()
    with pytest.raises(errors.AmbiguousError, match=r"two ways.*length of the stream .Theorem 5"):
        f.check()
    with pytest.raises(errors.AmbiguousError, match="allow='linear space'"):
        f.eval(numbers(1, 2))
    for stream in ((4,), (1, 5, 3), (9, 1, 1, 7)):
        averages = [sum(stream[i:]) / len(stream[i:]) for i in range(len(stream))]
        assert f.eval(numbers(*stream), allow="linear space") == min(averages)


def slots(configuration: Any) -> int:
    """Values held, over all invocations in flight."""
    flights = [flight for flights in configuration.flights.values() for flight in flights]
    held = [*configuration.values.values(), *(flight.paths for flight in flights)]
    own = sum(len(paths.value or ()) + (paths.nulls > 0) for paths in held)
    return own + sum(slots(below) for flight in flights for below in flight.below)


def test_linear_space_is_what_it_says() -> None:
    f = min_average_suffix().allowing("linear space")
    sizes = []
    for length in (10, 20, 40):
        table = numbers(*range(length))
        engine = f.stage.bind(table.schema)
        assert isinstance(engine, BoundAutomaton)
        configuration = engine._configuration()
        for holds, weights in engine._events(table, 0):
            configuration.next(holds, weights)
        sizes.append(slots(configuration))
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


def test_unsynchronised_parallel_parts_are_refused_by_theorem_6() -> None:
    odd = q.split("a", q.count(over="x > 0"), q.event("x = 0"))
    even = q.split("a", q.count(over="x <> 0"), q.event("x = 0"))
    with pytest.raises(errors.InconsistentError, match="Theorem 6") as caught:
        q.combine("a + b", odd, even)
    assert "only split" in str(caught.value) and "exponential space" in caught.value.remedy
    f = q.combine("a + b", odd, even, allow="exponential space")
    assert f.eval(numbers(1, 2, 0)) == 4
    assert f.eval(numbers(1, -2, 0)) is None
    events = [{"x": 1}, {"x": 2}, {"x": 0}]
    assert evaluate(f.automaton, events) == 4
    assert evaluate(f.automaton, events[:2]) is NOTHING
