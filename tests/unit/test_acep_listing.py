"""Patterns with events missing under a budget where all matches can be counted: exact first."""

from __future__ import annotations

import json
import random
import re
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from benchmarks import acep_streams as streams
from ensue import errors
from tests.unit.test_acep_budget import asked, driven, events, shown


def told(found: pa.Table) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(found.schema.metadata[b"ensue"])
    return known


def crowded(size: int = 500) -> pa.Table:
    """Few letters, so that windows hold many matches, and stretches without any."""
    chance = np.random.default_rng(8)
    kinds = chance.choice(list("ABC"), size)
    kinds[np.arange(size) // 40 % 3 == 2] = "X"
    return pa.table(
        {
            "stream": chance.integers(0, 2, size),
            "id": np.arange(size),
            "kind": kinds,
            "x": [0] * size,
        }
    )


@pytest.mark.parametrize("work", [1, 3, 10, 50, "5%", "50%", "100%", 10**9])
def test_what_is_listed_is_true_and_its_recall_is_exact(work: Any) -> None:
    table = crowded()
    pattern = asked("A ->> B+ ->> C", 1, 12)
    exact = shown(pattern.matches(table))
    some = pattern.matches(table, budget=ensue.Budget(work=work))
    known, got = told(some), shown(some)
    assert set(got) <= set(exact) and len(set(got)) == len(got)
    assert known["recall"] == known["low"] == known["high"] == len(got) / len(exact)
    assert known["shed"] == len(exact) - len(got)
    events_listed = sum(len(match["events"]) for match in some.to_pylist())
    assert known["partials"] == events_listed
    if isinstance(work, int):
        longest = max(len(match["events"]) for match in pattern.matches(table).to_pylist())
        assert events_listed <= work * table.num_rows + longest
    if work in ("100%", 10**9):
        assert got == exact
    for stream in (0, 1):
        ends = [match["last"] for match in some.to_pylist() if match["stream"] == stream]
        assert ends == sorted(ends)


def test_a_match_of_every_bundle_comes_first() -> None:
    table = crowded()
    pattern = asked("A ->> B+ ->> C", 1, 12)
    points = [(m["stream"], float(m["last"])) for m in pattern.matches(table).to_pylist()]
    truth = streams.bundles(points, 12)
    some = pattern.matches(table, budget=ensue.Budget(work=1))
    known = told(some)
    assert known["bundles"] == known["bundles_found"] == len(truth) > 5
    found = [(m["stream"], float(m["last"])) for m in some.to_pylist()]
    assert streams.fraction(truth, found) == 1.0
    # the others are spread over the match points
    assert len(set(found)) > 0.5 * len(found)


@pytest.mark.parametrize("goal", [0.01, 0.3, 0.9, 1.0])
def test_a_recall_alone_is_the_goal(goal: float) -> None:
    table = crowded()
    pattern = asked("A ->> B+ ->> C", 1, 12)
    recall = told(pattern.matches(table, budget=ensue.Budget(recall=goal)))["recall"]
    assert goal <= recall <= min(1.0, goal + 0.02)


def test_a_recall_beside_a_bound_is_the_floor_that_warns() -> None:
    pattern, table = asked("A ->> B+ ->> C", 1, 12), crowded()
    with pytest.warns(errors.BoundWarning, match=r"the recall is about 0\.1.*asks for 0\.5"):
        pattern.matches(table, budget=ensue.Budget(work=1, recall=0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pattern.matches(table, budget=ensue.Budget(work="60%", recall=0.5))
    with pytest.raises(errors.QueryError, match=r"recall=1\.5 is not a share"):
        pattern.matches(table, budget=ensue.Budget(work=1, recall=1.5))
    with pytest.raises(errors.UnsupportedError, match="together with a bound"):
        asked("A ->> B", 1, 5, history=4).matches(table, budget=ensue.Budget(recall=0.5))


def test_bounds_on_time_list_true_matches_of_every_bundle() -> None:
    table, pattern = crowded(), asked("A ->> B+ ->> C", 1, 12)
    exact = set(shown(pattern.matches(table)))
    for latency in ("10%", "50%", "1 ms", "0.4 us"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            some = pattern.matches(table, budget=ensue.Budget(latency=latency))
        got, known = shown(some), told(some)
        assert set(got) <= exact and len(set(got)) == len(got)
        assert known["bundles_found"] == known["bundles"] > 0
        assert known["recall"] in (None, len(got) / len(exact))


@pytest.mark.parametrize("latency", ["50%", "1%", "1 ms"])
def test_few_matches_are_all_listed_since_choosing_among_them_would_cost_more(
    latency: str,
) -> None:
    kinds = ["X"] * 3000
    for row in range(20, 3000, 150):
        kinds[row : row + 3] = "ABC"
    table = pa.table({"stream": [0] * 3000, "id": range(3000), "kind": kinds, "x": [0] * 3000})
    pattern = asked("A ->> B+ ->> C", 1, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = pattern.matches(table, budget=ensue.Budget(latency=latency))
    assert some.equals(pattern.matches(table)) and some.num_rows > 50
    assert told(some)["recall"] == 1.0


def test_pieces_and_restarts_list_the_same() -> None:
    pattern, table = asked("A ->> B+ ->> C", 1), events(90, 11, keys=1)
    cuts = [7, 33, 34, 71]
    once = driven(pattern, ensue.Budget(work=2), table, cuts, False)
    assert once == driven(pattern, ensue.Budget(work=2), table, cuts, True)
    exact = driven(pattern, None, table, [], False)
    unnumbered = [re.sub("'match_number': [0-9]+, ", "", match) for match in once]
    assert 0 < len(once) < len(exact)
    assert set(unnumbered) <= {re.sub("'match_number': [0-9]+, ", "", match) for match in exact}


def test_what_a_quiet_time_leaves_is_there_for_a_busy_one() -> None:
    quiet = pa.table({"stream": [0] * 900, "id": range(900), "kind": ["X"] * 900, "x": [0] * 900})
    rush = random.Random(1).choices("ABC", k=60)
    busy = pa.table({"stream": [0] * 60, "id": range(900, 960), "kind": rush, "x": [0] * 60})
    pattern = asked("A ->> B+ ->> C", 1, 12)
    alone = driven(pattern, ensue.Budget(work=1), busy, [20, 40], False)
    both = pa.concat_tables([quiet, busy])
    saved = driven(pattern, ensue.Budget(work=1), both, [300, 900, 920, 940], False)
    assert 0 < len(alone) < len(saved)
    assert len(saved) < len(driven(pattern, None, busy, [], False))


def test_sample_and_compact_are_refused() -> None:
    pattern = asked("A ->> B", 1, 5)
    for option in ({"sample": 3}, {"compact": True}):
        with pytest.raises(errors.UnsupportedError, match="a budget lists only some"):
            pattern.matches(crowded(), budget=ensue.Budget(work=3), **option)
