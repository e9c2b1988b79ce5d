"""The examples, figures and theorems of the RC-ACEP paper (Li and Ge, VLDB 2016)."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from benchmarks import acep_streams
from ensue.automaton.letters import letter_graph, letter_states
from ensue.automaton.positions import EPSILON, Graph
from ensue.missing.history import full_history, learner_of, sketch_shape, sketched
from ensue.missing.kernels import agents as acep_agents
from ensue.missing.kernels import history as acep_history
from ensue.missing.kernels import select as acep_select
from ensue.missing.nodes import Buckets, choice_of
from tests.match_maps import map_bits

PATTERN = "a ->> (b | c) ->> d ->> b"


def pattern(k: int, **options: Any) -> ensue.Pattern:
    asked = ensue.pattern(PATTERN, types="kind").order_by("t").within(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return asked.allow_missing(k, **options)


def stream(text: str) -> pa.Table:
    events = re.findall(r"([a-z])(\d+)", text)
    return pa.table({"t": [int(t) for _, t in events], "kind": [kind for kind, _ in events]})


def shown(found: pa.Table, events: pa.Table) -> dict[str, tuple[int, str]]:
    kinds, times = events["kind"].to_pylist(), events["t"].to_pylist()
    return {
        "".join(f"{kinds[e['row']]}{times[e['row']]}" for e in match["events"]): (
            match["errors"],
            "".join(match["missing"]),
        )
        for match in found.to_pylist()
    }


def test_example_2() -> None:
    events = stream("a1e2e3b4c5e6a7e8e9c10d11a12e13b14d15")
    found = shown(pattern(2).matches(events), events)
    assert found["a1b4"] == (2, "db")
    assert found["c10d11b14"] == (1, "a")


def test_figure_1_two_or_more_is_two_copies() -> None:
    q1 = acep_streams.query("Q1", 100, 2)
    assert letter_states(q1.query, every_way=False).states == 1 + 32  # Q1 has 32 letters


def propagate(
    machine: Graph, costs: list[int], bound: int, state: int, error: int
) -> Iterator[tuple[int, int]]:
    """Match nodes derived from one at `state` with `error`, as (state, error): the paper's own."""
    seen = set()
    stack = [(state, error)]
    while stack:
        here, spent = stack.pop()
        for target in machine.edges[here]:
            letter = machine.letter[target]
            cost = spent + (0 if letter == EPSILON else costs[letter])
            if cost > bound or (target, cost) in seen:
                continue
            seen.add((target, cost))
            yield target, cost
            stack.append((target, cost))


def test_example_3_the_seed_propagates_to_three_nodes() -> None:
    query = pattern(2).query
    machine = letter_graph(query)
    order = machine.positions
    name = {state: f"S{index + 2}" for index, state in enumerate(order)} | {machine.start: "S1"}
    derived = propagate(machine, [1, 1, 1, 1], 2, machine.start, 0)
    assert {(name[s], error) for s, error in derived if s in order} == {
        ("S2", 1), ("S3", 2), ("S4", 2),
    }  # fmt: skip
    assert "  1 ε start -> 2\n  2 a -> 3" in machine.dump()


def test_figure_2_nodes_and_trajectories() -> None:
    events = stream("c1d2a3e4b5")
    run = acep_streams.run(pattern(2), events, None, acep_streams.Everything)
    assert run.points == [(0, 2.0), (0, 5.0)]  # c1d2 lacks two letters already
    found = shown(pattern(2).matches(events), events)
    assert found["c1d2b5"] == (1, "a")  # red
    assert found["d2b5"] == (2, "ab")  # blue


def test_example_4_two_trajectories_of_one_match_point_are_one_bundle() -> None:
    events = stream("c1d2a3e4b5")
    listed = pattern(2).matches(events)
    found = shown(listed, events)
    times = events["t"].to_pylist()
    points = {
        name: float(times[match["events"][-1]["row"]])
        for name, match in zip(found, listed.to_pylist(), strict=True)
    }
    assert points["c1d2b5"] == points["d2b5"] == 5  # red and blue
    run = acep_streams.run(pattern(2), events, None, acep_streams.Everything)
    assert {point for _, point in run.points} == set(points.values())
    assert acep_streams.bundles(run.points, 5) == [(0, 2.0, 5.0)]
    assert acep_streams.bundles([(0, point) for point in points.values()], 5) == [(0, 2.0, 5.0)]
    # Recovery: from either of the two, every trajectory of the bundle.
    for name in ("c1d2b5", "d2b5"):
        one = listed.slice(list(found).index(name), 1)
        assert shown(pattern(2).recover(events, one), events) == found


def test_figure_2_a_node_is_made_from_a_skipped_letter() -> None:
    """When c arrives, (S4, 1) is made from (S2, 1): the link from the start costs one letter."""
    states = letter_states(pattern(2).query, every_way=False)
    c_state = 3  # S4
    costs = {link.target: (link.cost, link.skipped) for link in states.links[0]}
    assert costs[c_state] == (1, (0,))
    assert costs[4] == (2, (0, 1))  # d: a and the first of b, c are skipped
    assert 5 not in costs  # the last b would lack three letters


def history_of(maps: list[list[int]], counts: list[int], bits: int = 8) -> acep_history.History:
    """A full history whose vector i has these bundles and visits."""
    history = full_history(len(maps), bits, len(maps))
    for vector, (bundle, count) in enumerate(zip(maps, counts, strict=True)):
        for _ in range(count):
            acep_history.visit(history, 0, vector)
        for bit in bundle:
            acep_history.credit(history, 0, vector, bit)
    acep_history.rescore_all(history)
    return history


def test_figure_3_match_maps() -> None:
    history = history_of([[1, 2, 4]], [42], bits=6)
    words = np.zeros(1, np.uint64)
    assert acep_history.look(history, 0, words) == 42
    assert "".join(str(int(bit in map_bits(words))) for bit in range(6)) == "011010"


def test_example_5_a_history_of_vectors_and_bundles() -> None:
    """Vectors with visits and edges to bundles, which are numbered in the order of the stream."""
    events = stream("a1b2d3b4a21e22c41d42b43a61c62")
    run = acep_streams.run(pattern(1), events, 1000)
    assert acep_streams.bundles(run.points, 5) == [(0, 3.0, 4.0), (0, 43.0, 43.0)]
    learned = run.engine.learned
    history, buckets = learned.history, learned.buckets
    assert history.registers[acep_history.BUNDLES] == 2
    edges: dict[tuple[int, ...], list[int]] = {}
    visits: dict[tuple[int, ...], int] = {}
    for vector in np.flatnonzero(history.slots >= 0).tolist():
        shape = (buckets.states, buckets.windows, buckets.levels, buckets.times)
        vertex = tuple(int(part) for part in np.unravel_index(vector, shape))
        words = np.zeros(history.maps.shape[2], np.uint64)
        visits[vertex] = acep_history.look(history, vector, words)
        edges[vertex] = map_bits(words)
    first_a = (1, buckets.windows - 1, 0, 0)  # the whole window left, no error, just matched
    assert visits[first_a] == events["kind"].to_pylist().count("a")
    # No edge: the nodes of the last two events expired without a match.
    assert [] in edges.values()
    # A bundle with edges from several vectors: the nodes whose matches lie in it are correlated.
    for bundle in (0, 1):
        assert sum(bundle in found for found in edges.values()) > 1
    # A vector that led to both.
    assert [0, 1] in edges.values()
    assert all(visits[vertex] >= len(found) for vertex, found in edges.items())


def ready(history: acep_history.History, groups: int) -> acep_select.Choice:
    """One candidate of each vector, its map and weight looked up."""
    choice = choice_of(groups, groups, 64 * history.maps.shape[2])
    choice.vectors[:] = np.arange(groups)
    for group in range(groups):
        choice.maps[group] = history.maps[0, history.slots[group]]
        choice.weight[group] = 1.0 / history.counts[0, history.slots[group]]
    return choice


def test_multiplicities_remove_the_bias_of_visits() -> None:
    """v1 (29 visits) covers b1 and b3 1.45 times, v2 (42 visits) b2, b3 and b5 once."""
    choice = ready(history_of([[1, 3], [2, 3, 5]], [29, 42]), 2)
    assert 42 * acep_select.gain(choice, 0) == pytest.approx(2 * 42 / 29)
    assert acep_select.cover(choice, 0, 1)
    assert 42 * choice.covered[3] == pytest.approx(42 / 29)
    assert 42 * acep_select.gain(choice, 1) == pytest.approx(2)  # b3 is covered more than once
    assert acep_select.cover(choice, 1, 2)
    assert 42 * choice.covered[3] == pytest.approx(42 / 29)


def test_example_6_lazy_greedy_and_the_version_table() -> None:
    history = history_of([[0], [1, 2], [1, 2, 3]], [168, 168, 168])
    choice = ready(history, 3)
    assert [168 * acep_select.gain(choice, g) for g in range(3)] == pytest.approx([1, 2, 3])
    acep_select.cover(choice, 2, 1)  # μ3 is processed first
    assert 168 * choice.covered[:4] == pytest.approx([0, 1, 1, 1])
    assert acep_select.covered_since(choice, 1, 1)  # μ2's score is out of date
    assert acep_select.gain(choice, 1) == 0
    assert not acep_select.covered_since(choice, 0, 1)  # μ1's is exact
    acep_select.cover(choice, 0, 2)
    assert 168 * choice.covered[:4] == pytest.approx([1, 1, 1, 1])
    choice.version[1] = 1
    assert not acep_select.covered_since(choice, 1, 2)  # since version 1 only bit 0 changed
    fresh = ready(history, 3)
    assert acep_select.choose(fresh, history, 3, 1, 2) == 2
    assert fresh.order[:2].tolist() == [2, 0]


def test_the_version_table_is_that_of_the_paper() -> None:
    """Against one bitmap per version, updated at every version."""
    chance = np.random.default_rng(1)
    maps = [sorted(set(chance.integers(0, 64, 5).tolist())) for _ in range(40)]
    choice = ready(history_of(maps, [1] * 40, 64), 40)
    since: list[set[int]] = [set()]
    latest = 0
    for group in range(0, 40, 2):
        before = choice.covered.copy()
        if acep_select.cover(choice, group, latest + 1):
            latest += 1
            changed = set(np.flatnonzero(choice.covered != before).tolist())
            for version in since:
                version.update(changed)
            since.append(set())
        for other in range(1, 40, 2):
            for version in range(latest + 1):
                choice.version[other] = version
                expected = bool(since[version] & set(maps[other]))
                assert acep_select.covered_since(choice, other, latest) == expected


def covered(maps: list[list[int]], counts: list[int], chosen: tuple[int, ...]) -> float:
    """Total multiplicity with which the bundles are covered."""
    best: dict[int, float] = {}
    for vector in chosen:
        for bit in maps[vector]:
            best[bit] = max(best.get(bit, 0.0), 1 / counts[vector])
    return sum(best.values())


def test_theorem_1_competitive_ratio() -> None:
    """Whenever it is interrupted, greedy selection has 1 - 1/e of the optimum, at the least."""
    chance = np.random.default_rng(7)
    worst = 1.0
    for _ in range(60):
        size = int(chance.integers(4, 9))
        maps = [
            sorted(set(chance.integers(0, 10, chance.integers(1, 6)).tolist())) for _ in range(size)
        ]
        counts = chance.integers(1, 6, size).tolist()
        history = history_of(maps, counts, 16)
        for budget in range(1, size):
            choice = ready(history, size)
            assert acep_select.choose(choice, history, size, 1, budget) == budget
            ours = covered(maps, counts, tuple(choice.order[:budget].tolist()))
            every = itertools.combinations(range(size), budget)
            best = max(covered(maps, counts, chosen) for chosen in every)
            worst = min(worst, ours / best)
            assert ours >= (1 - 1 / math.e) * best - 1e-9
            # what lazy evaluation finds is what working out every gain anew would find
            least, most = plain_greedy(maps, counts, budget)
            assert least - 1e-9 <= ours <= most + 1e-9
    assert worst < 1.0  # the instances are not all easy


def plain_greedy(maps: list[list[int]], counts: list[int], budget: int) -> tuple[float, float]:
    """Least and greatest coverage of always choosing the greatest gain, over all ways to tie."""
    frontier: set[tuple[int, ...]] = {()}
    for _ in range(budget):
        following = set()
        for known in frontier:
            gains = {
                v: covered(maps, counts, (*known, v)) - covered(maps, counts, known)
                for v in range(len(maps))
                if v not in known
            }
            top = max(gains.values())
            following |= {tuple(sorted((*known, v))) for v, g in gains.items() if g >= top - 1e-12}
        frontier = following
    totals = [covered(maps, counts, known) for known in frontier]
    return min(totals), max(totals)


# -- the sketch -----------------------------------------------------------------------------------


def test_figure_4_a_lookup_takes_the_least_count_and_the_common_bits() -> None:
    sketch = sketched(history_of([[0], [2]], [168, 30], bits=4), 12)
    words = np.zeros(1, np.uint64)
    assert acep_history.look(sketch, 0, words) >= 168
    assert 0 in map_bits(words)


@pytest.mark.parametrize("seed", range(5))
def test_theorem_3_errors_are_one_sided_and_a_false_bit_implies_a_false_count(seed: int) -> None:
    chance = np.random.default_rng(seed)
    size = 60
    maps = [sorted(set(chance.integers(0, 32, 3).tolist())) for _ in range(size)]
    counts = chance.integers(1, 20, size).tolist()
    history = history_of(maps, counts, 32)
    sketch = sketched(history, 40, seed)
    words = np.zeros(sketch.maps.shape[2], np.uint64)
    false_bits = exact = 0
    for vector in range(size):
        count = acep_history.look(sketch, vector, words)
        found = set(map_bits(words))
        assert count >= counts[vector]
        assert found >= set(maps[vector])
        if found != set(maps[vector]):
            false_bits += 1
            assert count > counts[vector]
        exact += count == counts[vector]
    assert false_bits  # the sketch is small enough to err


def test_theorem_4_shape() -> None:
    depth, length = sketch_shape(800, 50)
    assert length == round(50 / math.log(2)) and depth == 800 // length

    def error(depth: int, length: int, vectors: int) -> float:
        return (1 - (1 - 1 / length) ** vectors) ** depth

    best = min(((d, 800 // d) for d in range(1, 100)), key=lambda shape: error(*shape, vectors=50))
    assert error(depth, length, 50) <= 1.1 * error(*best, 50)  # whole numbers


def test_a_sketch_can_be_built_or_hashed_afterwards() -> None:
    maps, counts = [[0, 3], [1], [2, 3]], [4, 2, 7]
    later = sketched(history_of(maps, counts, 8), 30)
    direct = later._replace(counts=np.zeros_like(later.counts), maps=np.zeros_like(later.maps))
    for vector, (bits, count) in enumerate(zip(maps, counts, strict=True)):
        for _ in range(count):
            acep_history.visit(direct, 0, vector)
        for bit in bits:
            acep_history.credit(direct, 0, vector, bit)
    assert (direct.counts == later.counts).all() and (direct.maps == later.maps).all()


# -- adaptation -----------------------------------------------------------------------------------


def test_secondary_maps_take_over_when_they_are_full() -> None:
    history = history_of([[0, 1], [2]], [3, 5], bits=2)
    history.registers[acep_history.PHASE] = acep_history.RUNNING
    for expected in (0, 1):
        assert acep_history.new_bundle(history, True) == expected
        acep_history.visit(history, 1, 1)
        acep_history.credit(history, 1, 1, expected)
    words = np.zeros(1, np.uint64)
    assert acep_history.look(history, 0, words) == 3  # the old copy still decides
    assert acep_history.new_bundle(history, True) == 0  # the third bundle: the copies change
    assert acep_history.look(history, 0, words) == 0
    assert acep_history.look(history, 1, words) == 2 and map_bits(words) == [0, 1]
    assert not history.counts[1].any()


def test_algorithm_5_following_states_and_distances() -> None:
    query = pattern(2).query
    states = letter_states(query, every_way=False)
    learner = learner_of(states, Buckets.of(states), True)
    posts = [learner.following[learner.posts[s] : learner.posts[s + 1]].tolist() for s in range(6)]
    assert posts == [[1], [2, 3], [4], [4], [5], []]
    assert learner.distance.tolist() == [4, 3, 2, 2, 1, 0]
    assert not learner.values.any()
    # stay put, and advance or skip to each of at most two states
    assert learner.values.shape[1] == 2 * 2 + 1


def test_the_learning_rate_is_that_of_the_paper() -> None:
    assert acep_agents.learning_rate(1) == 1.0
    assert acep_agents.learning_rate(61) == pytest.approx(0.5)


def test_back_edges_are_left_out() -> None:
    loop = ensue.pattern("a ->> b+", types="kind").order_by("t").within(5).allow_missing(1)
    states = letter_states(loop.query, every_way=False)
    learner = learner_of(states, Buckets.of(states), True)
    assert learner.following.tolist() == [1, 2]
