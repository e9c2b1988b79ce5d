"""Workloads while rows arrive under a bound: what is refused, what is kept, what is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api import Pattern


def q(text: str, **define: str) -> Pattern:
    found = ensue.pattern(text, types="kind").order_by("id").within(30)
    return found.define(**define) if define else found


def stream(count: int = 60, seed: int = 0, kinds: str = "ABCX") -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "kind": rng.choice(list(kinds), count),
            "x": rng.integers(0, 50, count),
        }
    )


def listed(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(
        (m["pattern"], tuple((e["label"], e["row"]) for e in m["events"]))
        for m in found.to_pylist()
    )


def test_a_pattern_that_comes_is_held_to_the_rules_of_the_budget() -> None:
    table = stream()
    live = ensue.workload(a=q("A ->> B")).live(table.schema, ensue.Budget(work=2))
    with pytest.raises(errors.UnsupportedError, match="'k' cannot run under a budget"):
        live.revise(add={"k": q("A ->> C").after_match("past last row")})


def test_the_end_settles_a_trailing_negation_under_a_budget() -> None:
    table = stream(40, kinds="ABC")
    load = ensue.workload(no=q("A ->> B ->> !X"), ab=q("A ->> B"))
    ends = []
    for budget in (None, ensue.Budget(work=1e9)):
        live = load.live(table.schema, budget)
        pieces = [live.insert(table.slice(0, 25)), live.insert(table.slice(25)), live.end()]
        assert listed(pa.concat_tables(pieces)) == listed(load.matches(table))
        ends.append(listed(pieces[-1]))
    assert ends[0] == ends[1] and len(ends[0]) > 5
