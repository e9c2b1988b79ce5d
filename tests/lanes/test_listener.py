"""Metrics out of the progress of micro-batches, as totals, Prometheus text and OpenTelemetry."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ensue import errors
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
    kind, read = offered["ensue.keys"]
    assert kind == "gauge" and read(None) == [(3, {"query": "funnel"})]


def test_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(errors.UnsupportedError, match="not installed"):
        metrics().export(None)
