"""`Budget(recall=...)` of workloads: a floor that warns; what is not known is None."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.shared.kernels.layout import Sketch
from ensue.shared.options import Report
from ensue.shared.recall import estimates


def events(size: int = 600) -> pa.Table:
    chance = np.random.default_rng(4)
    kinds = chance.choice(list("ABCX"), size)
    return pa.table({"id": np.arange(size), "kind": kinds, "x": chance.integers(0, 9, size)})


def load() -> ensue.Workload:
    chain = ensue.pattern("A ->> B ->> C", types="kind").define(B="x > A.x").order_by("id")
    return ensue.workload({"short": chain.within(10), "long": chain.within(30)})


def test_a_floor_warns_of_the_patterns_below_it() -> None:
    work, table = load(), events()
    with pytest.warns(errors.BoundWarning, match="the recall of 'long' is .*asks for 0"):
        work.matches(table, ensue.Budget(work=1.0, recall=0.99))
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.BoundWarning)
        work.matches(table, ensue.Budget(work=1e6, recall=0.99))


def test_a_recall_alone_is_refused_by_name() -> None:
    with pytest.raises(errors.UnsupportedError, match="together with a bound"):
        load().matches(events(), ensue.Budget(recall=0.9))


def test_nothing_found_of_what_was_shed_is_no_recall() -> None:
    empty = {name: np.zeros((4, 2)) for name in Sketch._fields}
    sketch = Sketch(**{**empty, "bucket_seen": np.zeros(4)})
    given_up = np.array([[3.0, 0.0], [5.0, 0.0]])
    told = estimates(("lost", "quiet"), np.array([0, 0]), given_up, sketch, False)
    assert told["lost"].lost > 0
    assert (told["lost"].recall, told["lost"].low, told["lost"].high) == (None, None, None)
    assert (told["quiet"].recall, told["quiet"].low, told["quiet"].high) == (1.0, 1.0, 1.0)
    report = Report(told, 10, 1, 1, 1, 1, 0.0, 1)
    assert "?" in repr(report)
