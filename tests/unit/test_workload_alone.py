"""Random workloads against each pattern alone: equal without a bound, a part of it under one.

`ENSUE_WORKLOAD_CASES=10000` runs so many cases of each test by hand; `ENSUE_WORKLOAD_FIRST` is the
first seed.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.api.pattern import Pattern
from ensue.api.workload import Workload
from ensue.query.query import SkipMode
from ensue.shared.options import Sharing
from tests.workload_cases import Case, Matches, alone, case, listed, row_case

BLOCKS = 4
FIRST = int(os.environ.get("ENSUE_WORKLOAD_FIRST", "0"))
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
PER_BLOCK = int(os.environ.get("ENSUE_WORKLOAD_CASES", "8" if INTERPRETED else "24")) // BLOCKS
SHARING = (True, True, True, False)
BOUNDS = (
    {"work": 1}, {"work": 3}, {"work": 12}, {"work": "10%"}, {"work": "50%"}, {"memory": "1 KB"},
    {"memory": "4 KB"}, {"memory": "10%"}, {"memory": "50%"}, {"latency": "1 us"},
    {"latency": "20 us"}, {"latency": "30%"}, {"latency": "50%", "memory": "50%"},
    {"work": 5, "memory": "2 KB"}, {"latency": {"q0": "1 us"}}, {"latency": {"q0": "20%"}},
)  # fmt: skip


def seeds(block: int) -> range:
    return range(FIRST + block * PER_BLOCK, FIRST + (block + 1) * PER_BLOCK)


def check_exact(seed: int, of: Callable[..., Case] = case) -> None:
    asked, rng = of(seed), np.random.default_rng([seed, 1])
    exact = asked.exact()
    for patterns in (asked.patterns, asked.shuffled(rng)):
        load = Workload(patterns, Sharing(share=bool(rng.choice(SHARING))))
        _same(listed(load.matches(asked.table, as_of="end")), exact, asked, seed)


def check_bounded(seed: int, of: Callable[..., Case] = case) -> int:
    """How many matches the bound has cost; what is left are true ones."""
    asked, rng = of(seed, rows=22, streams=3, budget=True), np.random.default_rng([seed, 2])
    exact = {name: alone(name, p, asked.table) for name, p in asked.patterns.items()}
    lost = 0
    given = [b for b in BOUNDS if of is case or "memory" not in b]  # no bound of row patterns
    chosen = list(rng.choice(np.array(given, object), 2, replace=False))
    if of is not case:
        chosen[0] = {"work": 1}  # few rows are read within any time
    for bounds in chosen:
        patterns, share = asked.shuffled(rng), bool(rng.choice(SHARING))
        by_ratio = bool(rng.choice((True, True, False)))
        weights = {name: float(rng.integers(1, 9)) for name in asked.patterns}
        load = Workload(patterns, Sharing(weights, seed, share=share, by_ratio=by_ratio))
        past = of(seed + 1, rows=22, streams=3).table if rng.random() < 0.5 else None
        budget = ensue.Budget(**bounds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = listed(load.matches(asked.table, budget, history=past, as_of="end"))
            _part(found, exact, asked, seed)
            if of is case and rng.random() < 0.5 and _one_group(asked):
                found = _in_pieces(load, asked.table, rng, budget, past)
                _part(found, exact, asked, seed)
        lost += sum(map(len, exact.values())) - sum(map(len, found.values()))
    return lost


def check_live(seed: int) -> None:
    asked, rng = case(seed), np.random.default_rng([seed, 3])
    if not _one_group(asked):
        return
    load = Workload(asked.shuffled(rng), Sharing(share=bool(rng.choice(SHARING))))
    _same(_in_pieces(load, asked.table, rng), asked.exact(), asked, seed)
    check_changed(asked, rng, seed)


def check_changed(asked: Case, rng: np.random.Generator, seed: int) -> None:
    """Patterns that stay are found as alone; those that come as alone in the rows from then on."""
    table = asked.table
    names = list(asked.patterns)
    cut = int(rng.integers(0, table.num_rows + 1))
    first = {name: asked.patterns[name] for name in names[: max(1, len(names) // 2)]}
    added = {name: p for name, p in asked.patterns.items() if name not in first}
    removed = [name for name in first if rng.random() < 0.4]
    if not added or _skips(added):
        return
    again = removed[:1] if rng.random() < 0.5 else []
    added |= {name: asked.patterns[names[-1]] for name in again}
    live = ensue.workload(first).live(table.schema)
    pieces = [live.insert(table.slice(0, cut))]
    live.revise(add=added, remove=removed)
    later = [live.insert(table.slice(cut)), live.end()]
    before, after = listed(pa.concat_tables(pieces)), listed(pa.concat_tables(later))
    exact = asked.exact()
    seen = table.slice(0, cut).column("u").to_pylist()
    for name in first:
        if name not in removed:
            found = sorted(before.get(name, []) + after.get(name, []))
            assert found == exact[name], (seed, name, str(asked))
    for name, pattern in added.items():
        whole = [
            (u, tuple((label, row + seen.count(u)) for label, row in pairs))
            for u, pairs in alone(name, pattern, table.slice(cut))
        ]
        assert after.get(name, []) == whole, (seed, name, str(asked))


def _skips(patterns: dict[str, Pattern]) -> bool:
    return any(p.query.skip.mode is not SkipMode.NONE for p in patterns.values())


def _one_group(asked: Case) -> bool:
    return ensue.workload(asked.patterns).explain(asked.table).count("group ") == 1


def _in_pieces(
    load: ensue.Workload,
    table: pa.Table,
    rng: np.random.Generator,
    budget: ensue.Budget | None = None,
    past: pa.Table | None = None,
) -> Matches:
    live, pieces, begin = load.live(table.schema, budget, history=past), [], 0
    while begin < table.num_rows:
        size = int(rng.integers(1, max(6, table.num_rows // 6)))
        pieces.append(live.insert(table.slice(begin, size)))
        begin += size
        if rng.random() < 0.3:
            live = load.live(table.schema, budget, live.snapshot())
    pieces.append(live.end())
    return listed(pa.concat_tables(pieces))


def _same(found: Matches, exact: Matches, asked: Case, seed: int) -> None:
    for name, matches in exact.items():
        assert found.get(name, []) == matches, (seed, name, str(asked))


def _part(found: Matches, exact: Matches, asked: Case, seed: int) -> None:
    for name, matches in found.items():
        false = Counter(matches) - Counter(exact[name])
        assert not false, (seed, name, str(asked), false)


def test_labels_of_one_definition_are_told_apart_by_what_reads_them() -> None:
    def q(text: str, d: str) -> Pattern:
        plain = {label: "x > 0" for label in "abc" if label in text}
        return ensue.pattern(text).define(**plain, d=d).order_by("t").within(10)

    p = q("a ->> b ->> d", "x > 0 AND x > a.x")
    other = q("a ->> b ->> c ->> d", "x > 0 AND x > c.x")
    same = q("a ->> b ->> c ->> d", "a.x < x AND x > 0")
    table = pa.table({"t": [1, 2, 3, 4], "u": [0] * 4, "x": [1, 2, 9, 5]})
    for patterns in ({"p": p, "q": other, "r": same}, {"r": same, "q": other, "p": p}):
        found = ensue.workload(patterns).matches(table).column("pattern").to_pylist()
        assert Counter(found) == {"p": p.count(table), "r": same.count(table)}
        # a, b, c and the two conditions on d: that of p is that of r
        assert "11 of the patterns, 5 different" in ensue.workload(patterns).explain()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_without_a_bound_as_alone_in_any_order(block: int) -> None:
    for seed in seeds(block):
        check_exact(seed)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_row_patterns_as_alone_in_any_order(block: int) -> None:
    for seed in seeds(block):
        check_exact(seed, row_case)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_rows_that_arrive_and_patterns_that_change(block: int) -> None:
    for seed in seeds(block):
        check_live(seed)


@pytest.mark.compiled
@pytest.mark.parametrize("block", range(BLOCKS))
def test_under_a_bound_only_true_matches(block: int) -> None:
    assert sum(map(check_bounded, seeds(block))) > 0


@pytest.mark.compiled
def test_row_patterns_under_a_bound_give_only_true_matches() -> None:
    every = [seed for block in range(BLOCKS) for seed in seeds(block)]
    assert sum(check_bounded(seed, row_case) for seed in every) > 0
