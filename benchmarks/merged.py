"""Exact answers on merged states beside the shared plan, and under bounds: `./dev bench merged`.

Q3 and Q4 of SHARP over DS1 on seeds that chose nothing (200 to 204; constants were chosen on 100 to
103). Every line is of one process: CPU seconds of the whole call, and of matching alone, over those
of the run that follows every partial match by itself.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from benchmarks import sharp_data as data
from benchmarks.harness import Target, say
from benchmarks.sharp_baselines import Matches, identities
from ensue.api.pattern import Pattern
from ensue.api.workload import Workload
from ensue.shared.options import Sharing

SEEDS = (200, 201, 202, 203, 204)
EVENTS = 10_000
WINDOWS = (1500, 2500)
BOUNDS: tuple[dict[str, Any], ...] = (
    {"latency": "50%"}, {"latency": "20%"}, {"latency": "10%"}, {"work": "50%"}, {"work": "10%"},
)  # fmt: skip


def ds2_queries(window: int) -> dict[str, Pattern]:
    """Sums over pairs of earlier events, as Q1 and Q2 have them, over DS2."""
    asked = {"c": "a.X + b.X < X", "d": "b.X + c.X < X", "e": "a.X + b.X < X"}
    return {"Q1": data.chain("abcd", window, asked), "Q2": data.chain("abef", window, asked)}


def unselective(window: int) -> dict[str, Pattern]:
    """Two patterns whose tails take every event: what sheds finds little of them."""
    return {
        "T1": data.chain("abcde", window, {"b": "V > a.V", "c": "V > b.V"}),
        "T2": data.chain("abcfg", window, {"b": "V > a.V", "c": "V > b.V"}),
    }


def run_merged(settings: Any) -> bool:
    """merged: exact answers on merged states, and how often they fit into a bound"""
    targets: list[Target] = []
    for window in WINDOWS:
        targets += _held(f"DS1, window {window}", data.q3_q4(window), data.ds1, window == 2500)
    targets += _held("unselective tails, window 600", unselective(600), data.ds1, False)
    targets += _held("DS2, window 1000", ds2_queries(1000), data.ds2, False)
    for target in targets:
        say(str(target))
    return all(target.met for target in targets)


def _held(name: str, patterns: Mapping[str, Pattern], make: Any, in_total: bool) -> list[Target]:
    """`in_total`: the run is long enough that its fixed costs do not decide."""
    cost: dict[str, list[float]] = {}
    recall: dict[str, list[float]] = {}
    wrong = 0
    for seed in SEEDS:
        table = make(EVENTS, seed)
        apart = Workload(patterns, Sharing(merge=False))
        whole, found = _timed(apart, table, {})
        matching = apart.report.seconds if apart.report else 0.0
        for bound in ({}, *BOUNDS):
            load = ensue.workload(patterns)
            spent, mine = _timed(load, table, bound)
            assert load.report is not None
            key = ", ".join(f"{k} {v}" for k, v in bound.items()) or "no bound"
            cost.setdefault(key, []).append(spent / whole)
            cost.setdefault(f"{key}: matching", []).append(load.report.seconds / matching)
            recall.setdefault(key, []).append(len(mine & found) / max(1, len(found)))
            wrong += len(mine - found)
    for key, got in recall.items():
        say(
            f"{name}, {key}: recall {np.mean(got):.3f} (least {min(got):.3f}), CPU "
            f"{np.mean(cost[key]):.2f} of the unbounded run, matching "
            f"{np.mean(cost[f'{key}: matching']):.2f}"
        )
    targets = [
        Target(f"{name}: false matches", float(wrong), 0.0),
        Target(f"{name}, latency 50%: recall", min(recall["latency 50%"]), 0.97, False),
        Target(f"{name}: matching without a bound", max(cost["no bound: matching"]), 0.6),
    ]
    if in_total:
        targets.append(Target(f"{name}, latency 50%: CPU in all", max(cost["latency 50%"]), 0.55))
    return targets


def _timed(load: Workload, table: pa.Table, bound: dict[str, Any]) -> tuple[float, Matches]:
    """CPU seconds of the faster one of two runs behind a first one, and the matches."""
    budget = ensue.Budget(**bound) if bound else None
    best = float("inf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ensue.errors.BoundWarning)
        found = load.matches(table, budget)
        for _ in range(2):
            began = time.process_time()
            load.matches(table, budget)
            best = min(best, time.process_time() - began)
    return best, identities(found)


COMMANDS = {"merged": run_merged}
