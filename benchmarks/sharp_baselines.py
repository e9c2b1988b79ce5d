"""What SHARP is compared with (§6.1): each keeps to the same bound on work.

- RI, random input: events are dropped at random; the share is found by bisection.
- RS, random state: partial matches are dropped at random when the bound is exceeded.
- SS, selectivity: those whose node is asked least often are kept.
- DARLING-like: events are dropped by their utility (matches that events of this type and binned
  values were part of, learned on a first stretch), the least useful first.
- ICDE'20-like: a hybrid for single patterns: half of the reduction drops events by utility, the
  rest drops partial matches by contribution per class (state and age), without sharing and without
  attributes.

Matches that are not in the exact answer (an event that forbids a match may have been dropped) do
not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import ensue
from ensue.api.pattern import Pattern
from ensue.api.workload import Workload
from ensue.shared import features
from ensue.shared.kernels.sketch import LEVELS, MIDDLE
from ensue.shared.options import Rank, Report, Sharing

TRAINING = 0.2  # of the stream teaches utilities
_BINS = 8
RECORDS = 4096  # that have a random priority of their own
Matches = set[tuple[object, ...]]


@dataclass(frozen=True)
class Outcome:
    matches: Matches
    report: Report


def run(
    patterns: Mapping[str, Pattern],
    table: pa.Table,
    work: float | None,
    rank: Rank | None = None,
    merge: bool = False,
    share: bool = True,
    by_ratio: bool = True,
    seed: int = 0,
    history: pa.Table | None = None,
) -> Outcome:
    """The workload by the shared plan (or what is cheaper); matches as (pattern, identities)."""
    options = Sharing(seed=seed, merge=merge, share=share, by_ratio=by_ratio, rank=rank)
    load = Workload(patterns, options)
    budget = None if work is None else ensue.Budget(work=work)
    found = load.matches(table, budget, history=history if budget is not None else None)
    assert load.report is not None
    return Outcome(identities(found), load.report)


def identities(found: pa.Table) -> Matches:
    """Matches as the identities of their events, which survive dropping rows."""
    columns = [found.column(name).to_pylist() for name in ("pattern", "ids")]
    return {(name, *ids) for name, ids in zip(*columns, strict=True)}


def _bisected(
    table: pa.Table, work: float, keep: Callable[[float], np.ndarray],
    patterns: Mapping[str, Pattern], **how: object,
) -> Outcome:  # fmt: skip
    """The largest share of events whose exact evaluation keeps to the bound per original event."""
    low, high = 0.0, 1.0
    best: Outcome | None = None
    for _ in range(7):
        share = (low + high) / 2
        outcome = run(patterns, table.filter(pa.array(keep(share))), None, **how)  # type: ignore[arg-type]
        if outcome.report.work / table.num_rows <= work:
            best, low = outcome, share
        else:
            high = share
    return best if best is not None else Outcome(set(), outcome.report)


def random_input(patterns: Mapping[str, Pattern], table: pa.Table, work: float) -> Outcome:
    draws = np.random.default_rng(1).random(table.num_rows)
    return _bisected(table, work, lambda share: draws < share, patterns)


def random_state(patterns: Mapping[str, Pattern], table: pa.Table, work: float) -> Outcome:
    draw = np.random.default_rng(3)

    def levels(rates: np.ndarray) -> np.ndarray:
        """Any level, whatever the node; a record has another in the next selection."""
        return 2.0 ** ((draw.integers(1, LEVELS - 1, (len(rates), RECORDS)) - MIDDLE + 0.5) / 8.0)

    return run(patterns, table, work, levels)


def selectivity(patterns: Mapping[str, Pattern], table: pa.Table, work: float) -> Outcome:
    return run(patterns, table, work, lambda rates: 1.0 / (1e-9 + rates[:, None]))


def utilities(patterns: Mapping[str, Pattern], table: pa.Table) -> np.ndarray:
    """Per event: how often events like it were in matches of a first stretch."""
    size = int(table.num_rows * TRAINING)
    codes = np.unique(table.column("type").to_numpy(zero_copy_only=False), return_inverse=True)[1]
    value = "V" if "V" in table.column_names else "X"
    numbers = table.column(value).to_numpy()
    edges = np.quantile(numbers, np.arange(1, _BINS) / _BINS)
    key = codes * _BINS + np.searchsorted(edges, numbers)
    exact = run(patterns, table.slice(0, size), None)
    used = np.zeros(key.max() + 1)
    place = {ident: index for index, ident in enumerate(table.column("t").to_pylist()[:size])}
    for match in exact.matches:
        for ident in match[1:]:
            used[key[place[ident]]] += 1
    seen = np.bincount(key[:size], minlength=len(used))
    worth: np.ndarray = (used / np.maximum(seen, 1))[key]
    return worth + np.random.default_rng(2).random(len(key)) * 1e-9


def darling(patterns: Mapping[str, Pattern], table: pa.Table, work: float) -> Outcome:
    worth = utilities(patterns, table)
    order = np.argsort(np.argsort(-worth)) / len(worth)
    return _bisected(table, work, lambda share: order < share, patterns)


def hybrid(patterns: Mapping[str, Pattern], table: pa.Table, work: float) -> Outcome:
    """ICDE'20-like."""
    worth = utilities(patterns, table)
    order = np.argsort(np.argsort(-worth)) / len(worth)
    exact = run(patterns, table, None, share=False)
    needed = exact.report.work / table.num_rows
    share = min(1.0, 0.5 + work / needed / 2)
    kept = table.filter(pa.array(order < share))
    most, features.MOST_FEATURES = features.MOST_FEATURES, 0
    try:
        return run(
            patterns, kept, work * table.num_rows / kept.num_rows, share=False, by_ratio=False
        )
    finally:
        features.MOST_FEATURES = most


BASELINES: dict[str, Callable[[Mapping[str, Pattern], pa.Table, float], Outcome]] = {
    "ICDE'20": hybrid,
    "DARLING": darling,
    "SS": selectivity,
    "RS": random_state,
    "RI": random_input,
}
