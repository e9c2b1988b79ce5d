"""Recall from a sample of starts: the interval holds the truth, and None says nothing is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.missing import audit
from ensue.operator.sampled import Sample
from ensue.shared.row_sample import drawn_of, ranked
from ensue.shared.row_sketch import StartSketch
from ensue.shared.row_turns import best
from ensue.shared.rows import RowPattern

KINDS = ("even", "heavy", "of single starts")


def drawn(kind: str, share: float, rate: float, seed: int) -> tuple[float, Any]:
    """The true recall of a stream of 2,000 starts, and what a sample says of it."""
    chance = np.random.default_rng(seed)
    there = chance.poisson(1.0, 2_000)
    if kind != "even":
        there = (chance.pareto(1.5, 2_000) * chance.integers(0, 2, 2_000)).astype(int).clip(0, 200)
    found = np.where(chance.random(2_000) < share, there, 0)
    if kind != "of single starts":
        found = chance.binomial(there, np.clip(share + 0.1 * chance.normal(size=2_000), 0, 1))
    sample, kept = Sample(), (chance.random(2_000) < rate) & (there > 0)
    for f, t in zip(found[kept].tolist(), there[kept].tolist(), strict=True):
        sample.add(f, t, rate)
    return float(found.sum() / there.sum()), sample.recall(0, int(found.sum()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_the_interval_holds_the_truth_in_95_of_100_runs(
    kind: str, share: float, rate: float
) -> None:
    runs = [drawn(kind, share, rate, seed) for seed in range(200)]
    inside = [low - 1e-9 <= truth <= high + 1e-9 for truth, (_, low, high) in runs]
    assert sum(inside) >= (185 if kind != "of single starts" else 175)
    assert all(low <= recall <= high for _, (recall, low, high) in runs)
    middle = float(np.mean([recall for _, (recall, _, _) in runs]))
    assert middle == pytest.approx(float(np.mean([truth for truth, _ in runs])), abs=0.05)


def test_a_large_sample_is_narrow_and_a_whole_one_exact() -> None:
    wide = [high - low for _, (_, low, high) in (drawn("even", 0.5, 0.2, s) for s in range(20))]
    assert max(wide) < 0.2
    truth, told = drawn("heavy", 0.3, 1.0, 5)
    assert told == pytest.approx((truth, truth, truth))


def test_what_is_not_known_is_none() -> None:
    assert Sample().recall(0, 0) == Sample().recall(4, 7) == (None, None, None)
    lost = Sample()
    lost.add(0, 5, 0.5)
    assert lost.recall(0, 0) == (0.0, 0.0, 0.0)
    recall, low, high = lost.recall(0, 3)
    assert low < 1e-9 < recall <= high < 1


def stream(seed: int, size: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    kinds = chance.choice(list("ABCXXXX"), size)
    return pa.table({"t": np.arange(size), "kind": kinds, "x": chance.integers(0, 100, size)})


def asked(**options: Any) -> Any:
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("t").within(60)
    pattern = pattern.define(B="x > A.x", C="x > B.x")
    return pattern.allow_missing(1, required=["A"], learn=300, history=16, **options)


def recalls(seed: int, size: int, work: Any) -> tuple[float, dict[str, Any]]:
    table = stream(seed, size)
    found = asked().matches(table, budget=ensue.Budget(work=work))
    truth = found.num_rows / asked().matches(table).num_rows
    return truth, json.loads(found.schema.metadata[b"ensue"])


@pytest.mark.parametrize("work", ["20%", 1, 4])
def test_a_short_table_is_audited_in_full(work: Any) -> None:
    truth, told = recalls(1, 450, work)
    assert 0 < truth < 1 and told["shed"] > 0
    assert told["recall"] == told["low"] == told["high"] == pytest.approx(truth)


@pytest.mark.compiled
def test_the_recall_of_what_a_history_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FREE", 1_500.0)
    runs = [recalls(seed, 4_000, "25%") for seed in range(12)]
    assert sum(told["low"] <= truth <= told["high"] for truth, told in runs) >= 11
    assert np.mean([told["high"] - told["low"] for _, told in runs]) < 0.3
    assert all(told["low"] < told["high"] for _, told in runs)


def test_the_recall_goes_on_after_a_restart() -> None:
    table = stream(3, 1_200)
    pattern = asked()
    schema = table.schema
    budget = ensue.Budget(work=2)
    matcher = pattern.matcher(schema=schema, budget=budget)
    found = 0
    for begin in range(0, 1_200, 100):
        found += matcher.insert(table.slice(begin, 100)).num_rows
        if begin == 600:
            matcher = ensue.restore(matcher.snapshot())
    found += matcher.end().num_rows
    truth = found / pattern.matches(table).num_rows
    metrics = matcher.metrics
    assert metrics.low <= metrics.recall <= metrics.high
    assert metrics.recall == pytest.approx(truth, abs=0.08)


def test_intervals_of_shed_start_rows_hold_what_was_lost() -> None:
    """Whatever the rates were: right, far too low, or of the wrong rows."""
    inside = []
    for seed in range(150):
        chance = np.random.default_rng(seed)
        own = chance.random(4000) ** 3
        matched = chance.random(4000) < own
        rates = (own, 0.2 * own, chance.permutation(own))[seed % 3]
        pattern = RowPattern("p", None, StartSketch(), 1.0)  # type: ignore[arg-type]
        rows, found = np.arange(4000), 0
        for begin in range(0, 4000, 500):
            part = slice(begin, begin + 500)
            order = ranked(rates[part], np.ones(500, np.bool_), 100, chance)
            (taken,) = best([order.order()], 100)
            pattern.decided(500, int(taken.sum()), rates[part][~taken])
            pattern.explored(drawn_of(order, rows[part], taken), matched)
            found += int(matched[part][taken].sum())
        lost, off = matched.sum() - found, 1.96 * pattern.spread**0.5
        inside.append(abs(pattern.lost - lost) <= off)
    assert np.mean(inside) >= 0.9
