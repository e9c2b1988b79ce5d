"""What a stream does, for people and for monitoring: metrics out of Spark's query progress.

Lanes count what they do (`lanes.Counts`), and Spark adds the counts up per micro-batch as observed
metrics. `Metrics` is a `StreamingQueryListener` that keeps totals per query and writes them as
Prometheus text or offers them to OpenTelemetry; `progress_line` is one line about a query for a
notebook.

Counters (rows, matches, late, rejected, retracted, shed, bad_edits, extended, unextended) are
totals since the listener was added. Gauges (partials, pending, keys, state_bytes) are of the lanes
that the last micro-batch touched; what all lanes keep is Spark's own `state_memory_bytes`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ensue import errors
from ensue.spark.lane_work import Counts
from ensue.spark.stream_operator import OBSERVED

GAUGES = ("partials", "pending", "keys", "state_bytes")
COUNTERS = tuple(item.name for item in fields(Counts) if item.name not in GAUGES)
_HELP = {
    "rows": "rows that came",
    "matches": "matches told (with changes: told as +)",
    "late": "rows before the watermark",
    "rejected": "rows without an event time, and corrections of nothing",
    "retracted": "matches taken back, and rows that a correction removed",
    "shed": "rows left out because their key passed key_limit",
    "bad_edits": "edits of patterns that were refused",
    "extended": "partial matches extended under a budget",
    "unextended": "extensions of partial matches left out because the budget was spent",
    "partials": "keys with a match in the making, in the lanes last touched",
    "pending": "rows waiting for the watermark, in the lanes last touched",
    "keys": "keys with state, in the lanes last touched",
    "state_bytes": "bytes of state written in the last micro-batch",
    "state_memory_bytes": "memory of the state store, as Spark tells it",
    "recall": "estimated share of the matches that was told: 1 where nothing was shed",
    "batches": "micro-batches",
}


def counts_of(progress: Any) -> dict[str, int]:
    """Ensue's counts in a query's progress (an object or `lastProgress`); empty where none."""
    observed = _get(progress, "observedMetrics") or {}
    found = observed.get(OBSERVED)
    if found is None:
        return {}
    told = found.asDict() if hasattr(found, "asDict") else dict(found)
    return {name: int(value or 0) for name, value in told.items()}


def progress_line(query: Any) -> str:
    """One line about a running query, for a notebook or a log."""
    progress = query.lastProgress
    if progress is None:
        return "no micro-batch yet"
    counts = counts_of(progress)
    rate = _get(progress, "processedRowsPerSecond") or 0.0
    told = [f"batch {_get(progress, 'batchId')}", f"{rate:,.0f} rows/s"]
    mark = (_get(progress, "eventTime") or {}).get("watermark")
    if mark:
        told.append(f"watermark {mark}")
    told += [
        f"{name} {counts[name]:,}"
        for name in ("matches", "partials", "pending", "keys")
        if name in counts
    ]
    told += [f"{name} {counts[name]:,}" for name in COUNTERS[2:] if counts.get(name)]
    return ", ".join(told)


class Metrics(StreamingQueryListener):
    """Totals of every query of a session: `spark.streams.addListener(Metrics())`."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._queries: dict[str, dict[str, float]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        with self._lock:
            self._queries.setdefault(str(event.name or event.id), {})

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.add(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        return

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        return

    def add(self, progress: Any) -> None:
        """Take in the progress of one micro-batch."""
        counts = counts_of(progress)
        if not counts:
            return
        name = str(_get(progress, "name") or _get(progress, "id"))
        with self._lock:
            known = self._queries.setdefault(name, {})
            for counter in COUNTERS:
                known[counter] = known.get(counter, 0) + counts.get(counter, 0)
            for gauge in GAUGES:
                known[gauge] = counts.get(gauge, 0)
            operators = _get(progress, "stateOperators") or []
            memory = sum(int(_get(one, "memoryUsedBytes") or 0) for one in operators)
            known["state_memory_bytes"] = memory
            known["batches"] = known.get("batches", 0) + 1
            # A key that is shed takes its rows with it: the share of rows kept is what is known.
            known["recall"] = 1 - known["shed"] / max(known["rows"], 1)

    def totals(self) -> Mapping[str, Mapping[str, float]]:
        """By the name of the query, or its id."""
        with self._lock:
            return {name: dict(known) for name, known in self._queries.items()}

    def prometheus(self) -> str:
        """All metrics in Prometheus' text format."""
        totals = self.totals()
        lines: list[str] = []
        for name in dict.fromkeys(n for known in totals.values() for n in known):
            kind = "counter" if name in (*COUNTERS, "batches") else "gauge"
            full = f"ensue_{name}_total" if kind == "counter" else f"ensue_{name}"
            lines += [f"# HELP {full} {_HELP[name]}", f"# TYPE {full} {kind}"]
            for query, known in totals.items():
                if name in known:
                    lines.append(f'{full}{{query="{_escaped(query)}"}} {known[name]:g}')
        return "\n".join(lines) + "\n"

    def export(self, meter: Any) -> None:
        """Offer all metrics to an OpenTelemetry meter: `opentelemetry.metrics.get_meter("ensue")`.

        The meter reads them whenever its own exporter asks.
        """
        try:
            observation = import_module("opentelemetry.metrics").Observation
        except ImportError:
            raise errors.UnsupportedError(
                "OpenTelemetry is not installed",
                remedy="pip install opentelemetry-sdk, or use prometheus() or serve()",
            ) from None

        def reader(name: str) -> Callable[[Any], list[Any]]:
            def read(_: Any) -> list[Any]:
                totals = self.totals().items()
                return [observation(n[name], {"query": q}) for q, n in totals if name in n]

            return read

        for name, told in _HELP.items():
            counts = name in (*COUNTERS, "batches")
            make = meter.create_observable_counter if counts else meter.create_observable_gauge
            make(f"ensue.{name}", callbacks=[reader(name)], description=told)

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
        """Answer `GET /metrics` on a port (a free one: `server.server_port`) until shut down."""
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = metrics.prometheus().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        server = ThreadingHTTPServer((host, port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def _get(thing: Any, name: str) -> Any:
    """A field of a progress, which is an object in a listener and a dict in `lastProgress`."""
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
