"""RC-ACEP: what a budget leaves out, proxies, history, pieces and state."""

from __future__ import annotations

import json
import warnings
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from benchmarks import acep_streams as streams
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.automaton.letters import letter_states
from ensue.automaton.plan import plan
from ensue.missing.budget import BudgetEngine
from ensue.missing.evaluator import ApproximateEvaluator
from ensue.missing.kernels import guards as acep_guards
from ensue.missing.kernels import nodes as acep_nodes
from ensue.missing.kernels import run as acep_run
from ensue.missing.nodes import NONE, Track
from ensue.missing.warm import warm_up
from ensue.operator.arrange import arrange
from ensue.operator.budget import Bound, Bounds, Budget
from ensue.operator.protocol import Events, Metrics, Snapshot
from ensue.query.binding import bind
from ensue.run import local
from ensue.sequences.batch import EventBatch
from tests.match_maps import map_bits
from tests.unit.test_acep_exhaustive import EVENTS, PATTERNS, said

ALWAYS = ensue.Budget(work=10**9)


def events(size: int, seed: int, letters: str = "ABCX", keys: int = 2) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "stream": chance.integers(0, keys, size),
            "id": np.arange(size),
            "kind": [letters[i] for i in chance.integers(0, len(letters), size)],
            "x": chance.integers(0, 6, size),
        }
    )


def asked(text: str, k: int, window: Any = 6, define: Any = None, **options: Any) -> Pattern:
    pattern = said(text).partition_by("stream").order_by("id").within(window)
    if define:
        pattern = pattern.define(**define)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pattern.allow_missing(k, **options)


def shown(found: pa.Table) -> list[str]:
    return sorted(map(str, found.drop_columns(["match_number"]).to_pylist()))


@pytest.mark.parametrize("text", PATTERNS[::2])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_budget_above_need_gives_the_exact_answer(text: str, k: int) -> None:
    pattern = asked(text, k, 3)
    assert shown(pattern.matches(EVENTS, budget=ALWAYS)) == shown(pattern.matches(EVENTS))


@pytest.mark.parametrize("condition", ["x > A.x", "SUM(B.x) < 6", "LAST(x, 1) < x"])
def test_a_budget_above_need_with_conditions_on_other_events(condition: str) -> None:
    pattern = asked("A ->> B+ ->> C", 1, 4, {"B": condition})
    table = events(60, 3)
    assert shown(pattern.matches(table, budget=ALWAYS)) == shown(pattern.matches(table))


@pytest.mark.parametrize("define", [None, {"B": "x >= A.x"}])
def test_a_budget_costs_recall_never_precision(define: Any) -> None:
    table = events(150, 5)
    pattern = asked("A ->> B+ ->> C", 1, 6, define, history=4)
    exact = shown(pattern.matches(table))
    some = pattern.matches(table, budget=ensue.Budget(work=2))
    told = json.loads(some.schema.metadata[b"ensue"])
    assert 0 < len(some) < len(exact)
    assert set(shown(some)) <= set(exact)
    assert told["shed"] > 0 and 0 < told["recall"] < 1 and told["matches"] == len(some)
    assert len(set(shown(some))) == len(some)


def test_no_event_has_more_than_its_work() -> None:
    """After learning, extensions are at most the budget times the matching events."""
    table = table_of(streams.tweets(2_000, 3, window=40, every=120, story="Q2"))
    pattern = streams.query("Q2", 40, 1, history=2, adapt="agents")
    engine = engine_of(pattern, table, 20)  # two agents
    batch, track = whole(engine, pattern, table)
    streams.match_points(engine, batch, track)
    learnt = engine.counters[acep_nodes.WORK]
    assert engine.counters[acep_nodes.SHED] > 0
    before = int(learnt)
    matching = int((batch.words != 0).any(axis=1).sum())
    streams.match_points(engine, batch, Track())
    assert int(engine.counters[acep_nodes.WORK]) - before <= 20 * matching


def table_of(letters: list[str]) -> pa.Table:
    return streams.table_of(letters)


def engine_of(
    pattern: Pattern, table: pa.Table, work: int | None, kind: type[BudgetEngine] = BudgetEngine
) -> BudgetEngine:
    planned = plan(bind(pattern.query, table.column_names))
    states = letter_states(planned.query, every_way=planned.correlated)
    bounds = None if work is None else Bounds(work=Bound(work))
    return kind(planned, states, bounds, Metrics())


def whole(engine: BudgetEngine, pattern: Pattern, table: pa.Table) -> Any:
    planned = plan(bind(pattern.query, table.column_names))
    prepared = local.prepare(planned, table).combine_chunks()
    return EventBatch(planned, None, prepared, np.array([0, table.num_rows], np.int64)), Track()


# -- history --------------------------------------------------------------------------------------


def test_history_counts_and_maps_are_those_of_all_trajectories() -> None:
    """Visits and bits against nodes kept one by one, in plain Python."""
    chance = np.random.default_rng(4)
    letters = [str(x) for x in chance.choice(list("abcd" + 30 * "x"), 500)]
    table = table_of(letters)
    pattern = ensue.pattern("a ->> (b | c) ->> d", types="kind").order_by("t").within(12)
    pattern = pattern.allow_missing(1, history=64)
    engine = engine_of(pattern, table, None)
    batch, track = whole(engine, pattern, table)
    streams.match_points(engine, batch, track)
    history = engine.learned.history
    states = letter_states(pattern.query, every_way=False)
    machine = engine._inputs(batch).machine
    nodes: list[tuple[int, int, int, int]] = []  # state, row, error, first
    links: dict[tuple[int, int, int, int], set[tuple[Any, int]]] = defaultdict(set)
    visits: Counter[int] = Counter()
    bits: dict[int, set[int]] = defaultdict(set)
    last, bundle = -100.0, -1
    for row, letter in enumerate(letters):
        fresh: dict[tuple[int, int, int, int], None] = {}
        for state in range(1, states.states):
            if states.labels[states.letter[state]] != letter:
                continue
            for source, costs in enumerate(states.links):
                for link in costs:
                    if link.target != state:
                        continue
                    for node in [None] if source == 0 else [n for n in nodes if n[0] == source]:
                        error = link.cost + (0 if node is None else node[2])
                        first = row if node is None else node[3]
                        if error > 1 or row - first > 12:
                            continue
                        idle = 0 if node is None else row - node[1]
                        vector = acep_nodes.vector_of(
                            machine, state, error, float(row - first), float(idle), 12.0
                        )
                        visits[vector] += 1
                        made = (state, row, error, first)
                        fresh[made] = None
                        links[made].add((node, vector))
        nodes += list(fresh)
        ended = [n for n in fresh if n[2] + (states.final_cost(n[0]) or 0) <= 1
                 and states.final_cost(n[0]) is not None]  # fmt: skip
        if ended:
            bundle += row - last > 12
            last = row
            seen, stack = set(ended), list(ended)
            while stack:
                for before, vector in links[stack.pop()]:
                    bits[vector].add(bundle)
                    if before is not None and before not in seen:
                        seen.add(before)
                        stack.append(before)
    assert bundle >= 3
    assert engine.counters[acep_nodes.BUNDLES] == bundle + 1
    for vector in range(engine.learned.buckets.vectors):
        entry = history.slots[vector]
        count = int(history.counts[0, entry]) if entry >= 0 else 0
        assert count == visits[vector]
        known = set(map_bits(history.maps[0, entry])) if entry >= 0 else set()
        assert known == bits[vector]
    assert engine.counters[acep_nodes.WORK] == sum(visits.values())


def test_learning_ends_with_the_bundles_or_the_rows() -> None:
    table = table_of(streams.tweets(3_000, 3, window=40, every=120, story="Q2"))
    few = streams.query("Q2", 40, 1, history=4)
    engine = engine_of(few, table, 10**6)
    streams.match_points(engine, *whole(engine, few, table))
    assert not engine.learned.learning
    many = streams.query("Q2", 40, 1, history=512, learn=1_000)
    engine = engine_of(many, table, 10**6)
    streams.match_points(engine, *whole(engine, many, table))
    assert not engine.learned.learning
    at_once = streams.query("Q2", 40, 1, learn=7)
    engine = engine_of(at_once, table.slice(0, 8), 10**6)
    streams.match_points(engine, *whole(engine, at_once, table.slice(0, 8)))
    assert not engine.learned.learning, "the number of rows is kept to"
    never = streams.query("Q2", 40, 1)
    engine = engine_of(never, table, 10**6)
    streams.match_points(engine, *whole(engine, never, table))
    assert engine.learned.learning


# -- proxies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", PATTERNS)
def test_a_proxy_finds_a_shortest_match_wherever_there_is_one(text: str) -> None:
    for k, window in ((0, 3), (1, 3), (2, "3 rows")):
        exact = asked(text, k, window).matches(EVENTS).to_pylist()
        proxies = asked(text, k, window, proxy=True).matches(EVENTS, budget=ALWAYS).to_pylist()
        known = defaultdict(list)
        for match in proxies:
            known[match["stream"]].append((match["first"], match["last"]))
        for match in exact:
            first, last = match["first"], match["last"]
            inside = [(f, e) for f, e in known[match["stream"]] if first <= f and e <= last]
            assert inside, f"{text}: no proxy inside {first}..{last}"
        every = {str((m["stream"], m["events"])) for m in exact}
        assert all(str((m["stream"], m["events"])) in every for m in proxies)


def test_theorem_2_monotonicity() -> None:
    """w_0 ≤ w_1 ≤ ... at every state, and a state that comes before has no earlier start."""
    table = table_of([str(x) for x in np.random.default_rng(2).choice(list("abcdx"), 300)])
    pattern = ensue.pattern("a ->> b ->> c ->> d", types="kind").order_by("t").within(30)
    pattern = pattern.allow_missing(2, proxy=True)
    engine = engine_of(pattern, table, None, streams.Everything)
    planned = plan(bind(pattern.query, table.column_names))
    prepared = local.prepare(planned, table).combine_chunks()
    track = Track()
    checked = 0
    for row in range(table.num_rows):
        batch = EventBatch(planned, None, prepared, np.array([0, table.num_rows], np.int64))
        for store in engine._advance(batch, 0, row, row + 1, table.num_rows, track):
            store.nodes.registers[acep_nodes.ENDS] = 0
        nodes = track.kept.nodes
        starts = np.full((5, 3), -np.inf)
        starts[0] = np.inf  # the seed has not begun
        for state in range(1, 5):
            for level in range(3):
                node = nodes.best[state, level]
                if node != NONE:
                    assert nodes.error[node] <= level
                    starts[state, level] = nodes.first[node]
        assert (starts[1:, 1:] >= starts[1:, :-1]).all()
        # with the nodes that propagation leaves at skipped states (one letter each here)
        for state in range(1, 5):
            for level in range(1, 3):
                starts[state, level] = max(starts[state, level], starts[state - 1, level - 1])
        assert (starts[1:] <= starts[:-1]).all()
        checked += int(np.isfinite(starts[1:]).sum())
    assert checked > 1_000
    assert len(np.unique(track.kept.nodes.best)) <= 4 * 3 + 1


def test_a_proxy_is_refused_where_conditions_read_other_events() -> None:
    pattern = asked("A ->> B", 1, 4, {"B": "x > A.x"}, proxy=True)
    with pytest.raises(errors.UnsupportedError, match="an earlier start could match"):
        pattern.matches(EVENTS, budget=ALWAYS)


# -- bundles --------------------------------------------------------------------------------------


def test_the_matches_of_a_bundle_are_recovered_from_one_of_them() -> None:
    table = events(400, 8, "ABCXXXXXXXX", keys=2)
    pattern = asked("A ->> B ->> C", 1, 8, history=2)
    exact = pattern.matches(table)
    some = pattern.matches(table, budget=ensue.Budget(work=1))
    assert len(some) < len(exact)
    points = [(match["stream"], float(match["last"])) for match in exact.to_pylist()]
    hit = {
        (stream, (first, last))
        for stream, first, last in streams.bundles(points, 8)
        for match in some.to_pylist()
        if match["stream"] == stream and first <= match["last"] <= last
    }
    expected = [
        match
        for match in exact.drop_columns(["match_number"]).to_pylist()
        if any(s == match["stream"] and b[0] <= match["last"] <= b[1] for s, b in hit)
    ]
    assert len(expected) > 0
    assert shown(pattern.recover(table, some)) == sorted(map(str, expected))


# -- pieces and state -----------------------------------------------------------------------------

VARIANTS = {
    "exact": (asked("A ->> B+ ->> C", 1), None),
    "conditions": (asked("A ->> B+ ->> C", 1, define={"B": "x >= A.x"}), None),
    "neighbours": (
        asked("A ->> B ->> C", 1, define={"B": "x >= PREV(x) AND x > A.x", "C": "NEXT(x) > 1"}),
        None,
    ),
    "budget": (asked("A ->> B+ ->> C", 1, history=2, adapt="secondary"), Budget(work=3)),
    "agents": (asked("A ->> B+ ->> C", 1, 12, history=2), Budget(work=10)),
    "proxy": (asked("A ->> B+ ->> C", 2, history=4, proxy=True), Budget(work=3)),
    "sketch": (asked("A ->> B+ ->> C", 2, history=4, sketch=40), Budget(work=3)),
    "budget and conditions": (
        asked("A ->> B+ ->> C", 1, define={"B": "x >= A.x"}, history=4, adapt="secondary"),
        Budget(work=3),
    ),
}


def driven(
    pattern: Pattern, budget: Budget | None, table: pa.Table, cuts: list[int], restores: bool
) -> list[str]:
    """The matches of a table whose partitions come in pieces, with a restart after each."""
    planned = plan(bind(pattern.query, table.column_names))
    evaluator = ApproximateEvaluator()
    prepared = local.prepare(planned, table)
    evaluator.open(planned, prepared.schema, budget)
    pieces: list[pa.Table] = []
    for begin, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        part, starts = arrange(
            prepared.slice(begin, end - begin), pattern.query.partition_by, pattern.query.order_by
        )
        open_ones = np.zeros(len(starts) - 1, np.bool_)
        pieces += list(evaluator.insert(Events(part, starts, open_ones)).tables())
        if restores:
            state = evaluator.snapshot()
            state = Snapshot(dict(state.keys), bytes(state.shared))
            evaluator = ApproximateEvaluator()
            evaluator.open(planned, prepared.schema, budget, state)
    pieces += list(evaluator.end().tables())
    found = local.finish(planned, pa.concat_tables(pieces))
    return sorted(map(str, found.to_pylist()))


@pytest.mark.parametrize("name", VARIANTS)
def test_pieces_and_restarts_change_nothing(name: str) -> None:
    pattern, budget = VARIANTS[name]
    if budget is not None:  # one key: with several, the history learns in another order
        table = events(90, 11, keys=1)
    else:
        table = events(90, 11)
    once = driven(pattern, budget, table, [], False)
    assert once
    assert driven(pattern, budget, table, [1, 2, 30, 31, 60], False) == once
    assert driven(pattern, budget, table, [7, 33, 34, 71], True) == once


def test_rows_count_from_the_beginning_of_the_partition() -> None:
    pattern, _ = VARIANTS["conditions"]
    table = events(90, 11)
    cut = driven(pattern, None, table, [20, 50], True)
    assert cut == sorted(map(str, pattern.matches(table).to_pylist()))


def test_state_of_another_pattern_is_refused() -> None:
    table = events(60, 1, keys=1)
    prepared: dict[str, Any] = {}
    for name, text in (("one", "A ->> B ->> C"), ("other", "A ->> C ->> B")):
        planned = plan(bind(asked(text, 1, history=2).query, table.column_names))
        evaluator = ApproximateEvaluator()
        rows = local.prepare(planned, table)
        evaluator.open(planned, rows.schema, Budget(work=5))
        whole_table = Events(rows, np.array([0, 60], np.int64), np.zeros(1, np.bool_))
        list(evaluator.insert(whole_table).tables())
        prepared[name] = planned, rows.schema, evaluator.snapshot()
    planned, schema, _ = prepared["one"]
    foreign: Snapshot = prepared["other"][2]
    for state in (Snapshot({}, foreign.shared), Snapshot(dict(foreign.keys))):
        with pytest.raises(errors.StateError, match="belongs to another query"):
            ApproximateEvaluator().open(planned, schema, Budget(work=5), state)
    with pytest.raises(errors.StateError):
        ApproximateEvaluator().open(planned, schema, Budget(work=5), Snapshot({}, b"nothing"))


def test_another_bound_is_another_query() -> None:
    table = events(10, 1)
    one = plan(bind(asked("A ->> B ->> C", 1).query, table.column_names))
    two = plan(bind(asked("A ->> B ->> C", 2).query, table.column_names))
    assert one.fingerprint != two.fingerprint
    none = replace(asked("A ->> B ->> C", 1).query, missing=None)
    assert plan(bind(none, table.column_names)).fingerprint != one.fingerprint


def test_budgets_in_time_and_per_cent_run() -> None:
    table = table_of(streams.tweets(1_500, 3, window=40, every=120, story="Q2"))
    pattern = streams.query("Q2", 40, 1, history=2)
    exact = set(shown(pattern.matches(table)))
    for budget in (Budget(latency="1 ms"), Budget(latency="20%"), Budget(work="20%")):
        found = pattern.matches(table, budget=budget)
        assert 0 < len(found) <= len(exact)
        assert set(shown(found)) <= exact


# -- what is promised, small and on fixed seeds ---------------------------------------------------


@pytest.mark.compiled
def test_a_fifth_of_the_work_finds_most_bundles() -> None:
    window, bits = 60, 32
    table = table_of(streams.tweets(20_000, 0, window=window, every=4 * window, story="Q2"))
    full = streams.run(streams.query("Q2", window, 2), table, None, streams.Everything)
    truth = streams.bundles(full.points, window)
    learnt = truth[bits - 1][2] + window
    budget = int(0.2 * full.work / full.events)

    def found(kind: type[BudgetEngine] = BudgetEngine, **options: Any) -> tuple[float, Any]:
        pattern = streams.query("Q2", window, 2, history=bits, **options)
        run = streams.run(pattern, table, budget, kind)
        return streams.fraction(truth, run.points, after=learnt), run

    ours, run = found(adapt="frozen")
    plain = max(found(streams.TimeOut)[0], found(streams.LateStatesFirst)[0])
    assert ours >= 0.7 and ours >= min(2 * plain, 0.9)
    assert found(adapt="frozen", proxy=True)[0] >= 0.85
    assert found(adapt="agents")[0] >= ours - 0.03  # no drift: exploring costs little
    sketched, small = found(adapt="frozen", sketch=120)
    assert sketched >= ours - 0.05
    assert small.history_bytes < run.history_bytes


@pytest.mark.compiled
def test_agents_find_what_the_history_does_not_know_after_a_drift() -> None:
    window, bits, before, after = 60, 32, 16_000, 10_000
    told = {"window": window, "every": 4 * window}
    letters = streams.tweets(before, 0, bull="bdw", news="g", **told)
    letters += streams.tweets(after, 1, bull="htc", news="eu", **told)
    table = table_of(letters)
    full = streams.run(streams.query("Q1", window, 1), table, None, streams.Everything)
    truth = streams.bundles(full.points, window)
    budget = int(0.1 * full.work / full.events)
    found = {}
    for adapt in ("frozen", "secondary", "agents"):
        pattern = streams.query("Q1", window, 1, history=bits, adapt=adapt)
        points = streams.run(pattern, table, budget).points
        learnt = truth[bits - 1][2] + window
        found[adapt] = (
            streams.fraction(truth, points, learnt, before),
            streams.fraction(truth, points, before + window),
        )
    assert found["agents"][0] >= found["secondary"][0] - 0.03  # exploring costs little
    assert found["agents"][1] > 2 * max(found["frozen"][1], found["secondary"][1])


def test_algorithm_6_every_seed_that_an_event_moves_begins_an_agent() -> None:
    """Seeds that have skipped letters, too."""
    table = table_of(list("BXB"))
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("t").within(6)
    engine = engine_of(pattern.allow_missing(1, learn=1), table, 20)  # four agents
    batch, track = whole(engine, pattern.allow_missing(1, learn=1), table)
    streams.match_points(engine, batch, track)
    agents = track.kept.agents
    begun = agents.node != NONE
    assert begun.sum() == 1  # the first B is read while learning
    assert agents.error[begun].tolist() == [1] and agents.state[begun].tolist() == [2]


def test_what_an_agent_has_extended_is_not_extended_again() -> None:
    table = table_of(streams.tweets(1_500, 3, window=40, every=120, story="Q2"))
    pattern = streams.query("Q2", 40, 1, history=2, learn=200, adapt="agents")
    engine = engine_of(pattern, table, 40)
    batch, track = whole(engine, pattern, table)
    streams.match_points(engine, batch, track)
    nodes = track.kept.nodes
    used = int(nodes.registers[acep_nodes.USED])
    assert (nodes.agent[:used] != NONE).any()
    for node in range(used):
        ways, link = [], int(nodes.head[node])
        while link != NONE:
            ways.append((int(nodes.before[link]), int(nodes.vector[link])))
            link = int(nodes.more[link])
        assert len(ways) == len(set(ways))


@pytest.mark.compiled
def test_the_driver_compiles_what_workers_run() -> None:
    """After the warm-up, queries under a budget of any kind bring no new signature."""
    warm_up()
    compiled = (
        acep_run.run, acep_run.prepare, acep_nodes.trajectories, acep_guards.rebuild,
    )  # fmt: skip
    before = [set(kernel.signatures) for kernel in compiled]
    assert before[0] and all(before[2:])
    table = pa.table({"ts": pa.array(range(60), pa.timestamp("us")), "kind": list("ABC") * 20})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").select("any").order_by("ts")
    for window in ("20 us", "9 rows"):
        for options in ({}, {"proxy": True}, {"sketch": 16}, {"adapt": "frozen"}):
            asked = pattern.within(window).allow_missing(1, learn=10, **options)
            assert len(asked.matches(table, budget=ensue.Budget(work=3)))
    others = pattern.define(C="ts > A.ts AND COUNT(B.*) < 3").within("20 us").allow_missing(1)
    for budget in (None, ensue.Budget(work=3)):
        assert len(others.matches(table, budget=budget))
    assert [set(kernel.signatures) for kernel in compiled] == before
