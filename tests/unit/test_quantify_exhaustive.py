"""Small automata × short streams: all evaluators equal the definition with paths enumerated."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba.core import config

from ensue import errors
from ensue import quantify as q
from ensue.quantities.bound import Batch
from ensue.quantities.checks import check
from ensue.quantities.folds import COLLECTS, FOLDS
from ensue.quantities.model import (
    ALWAYS,
    RESULT,
    Action,
    Automaton,
    Constant,
    Expression,
    Invocation,
    Operation,
    Silent,
    Step,
)
from ensue.quantities.run import BoundAutomaton
from ensue.quantities.tokens import UNDEFINED
from ensue.query import condition as c
from tests.oracle_quantify import NOTHING, evaluate, outputs
from tests.share import part

X = Expression(c.Column("x"))
A = Expression(c.binary("gt", c.Column("x"), c.Literal("int", 0)))
B = Expression(c.binary("lte", c.Column("x"), c.Literal("int", 0)))
SUM = FOLDS["sum"]
SCHEMA = pa.schema([("x", pa.int64())])
STREAMS = [s for n in range(4) for s in itertools.product((2, -1), repeat=n)]


def add(weight: Any) -> tuple[Action, ...]:
    return (Action(SUM, (weight,)),)


def two_state_automata() -> Iterator[Automaton]:
    """All automata with two states: each pair of states has no arc, one on A, B, both or either."""
    labels: list[tuple[Expression, ...]] = [(), (A,), (B,), (ALWAYS,)]
    for arcs in itertools.product(labels, repeat=4):
        steps: list[Any] = []
        for (source, target), predicates in zip(
            itertools.product("pq", repeat=2), arcs, strict=True
        ):
            for index, predicate in enumerate(predicates):
                weight = X if source == target else Constant(10 + index)
                steps.append(Step(source, target, predicate, add(weight)))
        for initial in ("p", "pq"):
            for final in ("q", "pq"):
                for silent in (False, True):
                    extra = [Silent("p", "q", add(Constant(100)))] if silent else []
                    yield Automaton(
                        ("p", "q"),
                        (*steps, *extra),
                        {s: (i,) for i, s in enumerate(initial)},
                        {s: () for s in final},
                        collect=COLLECTS["max"],
                    )


def compare(automaton: Automaton, streams: list[tuple[int, ...]] = STREAMS) -> str:
    """Which way the automaton ran; asserts that the answers are those of the definition."""
    try:
        report = check(automaton, allow="linear space")
    except errors.UnsatisfiableError:
        return "not trim"
    except errors.EmptyCycleError:
        return "empty cycle"
    except errors.DistributivityError:
        return "not distributive"
    engine = BoundAutomaton(automaton, SCHEMA, report)
    plain = BoundAutomaton(automaton, SCHEMA, report, compiled=False)
    events = [[{"x": x} for x in stream] for stream in streams]
    expected = [evaluate(automaton, stream) for stream in events]
    twice = any(len(outputs(automaton, stream)) > 1 for stream in events)
    # All streams are partitions of one table.
    table = pa.table({"x": pa.array([x for stream in streams for x in stream], pa.int64())})
    starts = np.cumsum([0, *map(len, streams)], dtype=np.int64)
    interpreted = BoundAutomaton(automaton, SCHEMA, report)
    if interpreted.numbers is not None:
        interpreted.numbers.refusal = "asked for"
    for evaluator in (engine, interpreted, plain):
        found = evaluator.run(Batch.whole(table, starts), evaluator.memory(), False)
        for stream, value, end, defined in zip(
            streams, expected, found.ends.to_pylist(), found.ends_defined, strict=True
        ):
            assert bool(defined) == (value is not NOTHING), (stream, automaton)
            assert value is NOTHING or end == value, (stream, automaton)
    if report.ambiguity is None:
        assert not twice, "two paths, and no ambiguity was reported"
    if report.inconsistency is not None:
        return "inconsistent"
    if report.ambiguity is not None:
        return "ambiguous"
    assert engine.numbers is not None, engine.reason
    return "constant"


def test_all_automata_of_two_states() -> None:
    """All of them in a full run with compiled loops; every fourth otherwise."""
    chosen = list(two_state_automata())
    assert len(chosen) == 2048
    whole = part() == 1 and not config.DISABLE_JIT
    seen = [compare(automaton) for automaton in chosen[:: 1 if whole else 4]]
    assert {"constant", "ambiguous", "not trim"} <= set(seen)
    if whole:
        counts = {way: seen.count(way) for way in set(seen)}
        assert counts == {"constant": 181, "ambiguous": 1675, "not trim": 192}


def test_witness_of_ambiguity_is_ambiguous() -> None:
    """Where a report says ambiguous, a short stream has two paths (and the other way round)."""
    streams = [s for n in range(6) for s in itertools.product((2, -1), repeat=n)]
    chosen = list(two_state_automata())
    random.Random(12).shuffle(chosen)
    checked = 0
    for automaton in chosen[:150]:
        try:
            report = check(automaton, allow="linear space")
        except errors.AutomatonError:
            continue
        two = any(len(outputs(automaton, [{"x": x} for x in s])) > 1 for s in streams)
        assert two == (report.ambiguity is not None)
        checked += 1
    assert checked > 20


def random_hierarchy(randomness: random.Random, rank: int) -> Automaton:
    """A small automaton that invokes others, with silent moves, final weights and empty words."""
    states = tuple("pqr"[: randomness.randint(2, 3)])
    pairs = list(itertools.pairwise(states))
    pairs += [
        (randomness.choice(states), randomness.choice(states))
        for _ in range(randomness.randint(0, 2))
    ]
    transitions: list[Any] = []
    for source, target in pairs:
        kind = randomness.random()
        if rank and kind < 0.6:
            below = random_hierarchy(randomness, rank - 1)
            parts: tuple[Automaton, ...] = (below,)
            operation = Operation.identity()
            if randomness.random() < 0.4:
                other = below if randomness.random() < 0.7 else random_hierarchy(randomness, 0)
                tree = c.binary("sub", c.Column("a"), c.Column("b"))
                parts, operation = (below, other), Operation(("a", "b"), tree=tree, text="a - b")
            transitions.append(Invocation(source, target, operation, parts, add(RESULT)))
        elif kind < 0.7 and source < target:
            transitions.append(Silent(source, target, add(Constant(7))))
        else:
            predicate = randomness.choice([A, B, A, B, A, B, ALWAYS])
            weight = randomness.choice([X, Constant(randomness.randint(-5, 5))])
            transitions.append(Step(source, target, predicate, add(weight)))
    final = {
        s: add(Constant(1000)) if randomness.random() < 0.2 else ()
        for s in states[-randomness.choice([1, 1, 1, 2]) :]
    }
    doubled = Operation(
        ("a",), tree=c.binary("mul", c.Column("a"), c.Literal("int", 2)), text="a * 2"
    )
    finish = doubled if randomness.random() < 0.3 else None
    return Automaton(
        states,
        tuple(transitions),
        {states[0]: (randomness.randint(0, 3),)},
        final,
        finish=finish,
        collect=COLLECTS["max"],
    )


@pytest.mark.parametrize("seed", range(6))
def test_hierarchies_equal_the_definition(seed: int) -> None:
    randomness = random.Random(seed)
    ways: dict[str, int] = {}
    streams = [s for n in range(4) for s in itertools.product((2, -1), repeat=n)]
    for _ in range(45):
        automaton = random_hierarchy(randomness, randomness.randint(1, 2))
        way = compare(automaton, streams)
        ways[way] = ways.get(way, 0) + 1
    assert ways.get("constant", 0) >= 8


def test_streaming_gives_the_value_of_every_prefix() -> None:
    f = q.iter("max", q.split("a", q.mean("x", over="x > 0"), q.event("x = 0")))
    stream = [1, 2, 0, 5, 5, 0, 0, 3, 0]
    found = f.stream(pa.table({"x": stream})).to_pylist()
    for end in range(1, len(stream) + 1):
        expected = evaluate(f.automaton, [{"x": x} for x in stream[:end]])
        assert found[end - 1] == (None if expected is NOTHING else expected)


def test_undefined_is_not_null() -> None:
    assert repr(UNDEFINED) == "undefined" and not UNDEFINED
