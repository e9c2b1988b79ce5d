"""Metrics out of the progress of micro-batches, as totals, Prometheus text and OpenTelemetry."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ensue import errors
from ensue.run.lanes.work import GAUGES
from ensue.spark.listener import Metrics


def metrics() -> Metrics:
    made = Metrics()
    for rows, late, keys in ((10, 1, 4), (5, 0, 3)):
        counts = {"rows": rows, "late": late, "keys": keys, "shed": 3}
        made.add({"name": "funnel", "observedMetrics": {"ensue": counts}})
    return made


def test_counters_add_up_and_gauges_stand() -> None:
    text = metrics().prometheus()
    assert 'ensue_rows_total{query="funnel"} 15' in text
    assert 'ensue_keys{query="funnel"} 3' in text
    assert 'ensue_recall{query="funnel"} 0.6' in text
    assert "# TYPE ensue_late_total counter" in text


def progress(lanes: dict[str, list[int]], patterns: dict[str, int], id: str = "1") -> Any:
    counts = {"rows": 1_234_567, "promised": 4.0, "followed": 3.0}
    observed = {**counts, "lanes": lanes, "patterns": patterns, "recall": 0.75}
    return {"name": "q", "id": id, "observedMetrics": {"ensue": observed}}


def test_patterns_add_up_and_lanes_that_were_not_called_stay() -> None:
    made = Metrics()
    made.add(progress({"0": [1, 2, 3, 100], "1": [1, 1, 1, 50]}, {"a@0 matches": 2}))
    made.add(
        progress({"0": [0, 0, 2, 90]}, {"a@0 matches": 1, "a@0 retracted": 1, "b@7 matches": 4})
    )
    totals = made.totals()["q"]
    assert [totals[name] for name in GAUGES] == [1, 1, 3, 140]
    assert totals["recall"] == 0.75
    assert made.patterns()["q"] == {
        ("a", 0): {"matches": 3, "retracted": 1},
        ("b", 7): {"matches": 4, "retracted": 0},
    }
    text = made.prometheus()
    assert 'ensue_rows_total{query="q"} 2469134\n' in text  # not rounded
    assert 'ensue_pattern_matches_total{query="q",pattern="b",version="7"} 4' in text
    made.add(progress({"1": [0, 0, 1, 10]}, {}, id="2"))  # another checkpoint
    assert made.totals()["q"]["state_bytes"] == 10


def test_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: dict[str, tuple[str, Any]] = {}

    def offering(kind: str) -> Any:
        def create(name: str, callbacks: list[Any], description: str) -> None:
            assert description
            offered[name] = kind, callbacks[0]

        return create

    meter = SimpleNamespace(
        create_observable_counter=offering("counter"), create_observable_gauge=offering("gauge")
    )
    package = SimpleNamespace(Observation=lambda value, labels: (value, labels))
    monkeypatch.setitem(sys.modules, "opentelemetry", SimpleNamespace(metrics=package))
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", package)
    made = metrics()
    made.export(meter)
    kind, read = offered["ensue.rows"]
    assert kind == "counter" and read(None) == [(15, {"query": "funnel"})]
    made.add(progress({}, {"a@2 matches": 5}))
    kind, read = offered["ensue.pattern.matches"]
    assert (kind, read(None)) == ("counter", [(5, {"query": "q", "pattern": "a", "version": 2})])
    kind, read = offered["ensue.keys"]
    assert kind == "gauge" and (3, {"query": "funnel"}) in read(None)


def test_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(errors.UnsupportedError, match="not installed"):
        metrics().export(None)
