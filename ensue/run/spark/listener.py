"""What a stream does, for people and for monitoring: metrics out of Spark's query progress.

Lanes count what they do (`run/lanes/work.py`), and Spark adds the counts up per micro-batch as
observed metrics. `Metrics` is a `StreamingQueryListener` that keeps totals per query and writes
them as Prometheus text or offers them to OpenTelemetry; `progress_line` is one line about a query
for a notebook, `running` a row about each, out of what Spark keeps of their progress.

Counters (rows, matches, ...) are totals since the listener was added, those of matches also by
pattern and version. Gauges (partials, pending, keys, state_bytes) are of all lanes that were called
since then: a lane that a micro-batch does not call stays as it is, so each lane's latest value
counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ensue import errors
from ensue.run.lanes.work import GAUGES, Counts
from ensue.run.spark.stream_operator import LANES, OBSERVED, PATTERNS, RECALL

COUNTERS = tuple(item.name for item in fields(Counts) if item.name not in GAUGES)
_HELP = {
    "rows": "rows that came",
    "matches": "matches emitted (with changes: as +)",
    "late": "rows before the watermark",
    "rejected": "rows without an event time, and corrections of unknown rows",
    "retracted": "matches taken back (with changes: as -)",
    "corrected": "rows that a correction removed or replaced",
    "shed": "rows left out because their key passed key_limit",
    "within": "partial matches emitted because their window ran out (timeouts=True)",
    "bad_edits": "edits of patterns that were refused",
    "extended": "partial matches extended under a budget",
    "unextended": "extensions of partial matches left out because the budget was spent",
    "promised": "estimated number of all matches under a budget",
    "followed": "matches among them that were found",
    "partials": "keys with a match in the making (of automata: partial matches)",
    "pending": "rows waiting for the watermark",
    "keys": "keys with state",
    "state_bytes": "bytes of state",
    "state_memory_bytes": "memory of the state store, as Spark reports it",
    "recall": "estimated share of the matches that was emitted: 1 where nothing was left out",
    "batches": "micro-batches",
}
_BY_PATTERN = {
    "matches": "matches emitted, by pattern and version",
    "retracted": "matches taken back, by pattern and version",
}
Pattern = tuple[str, int]  # its name and version


def counts_of(progress: Any) -> dict[str, float]:
    """Ensue's counts in a query's progress (an object or `lastProgress`); empty where none.

    Gauges are of the lanes that this micro-batch called.
    """
    return {
        name: value if isinstance(value, float) else int(value or 0)
        for name, value in _observed(progress).items()
        if name not in (PATTERNS, LANES)
    }


def patterns_of(progress: Any) -> dict[Pattern, dict[str, int]]:
    """What a micro-batch emitted of each pattern in its version: `matches` and `retracted`."""
    found: dict[Pattern, dict[str, int]] = {}
    for told, count in (_observed(progress).get(PATTERNS) or {}).items():
        named, _, what = told.rpartition(" ")
        name, _, version = named.rpartition("@")
        found.setdefault((name, int(version)), {})[what] = int(count)
    return found


def _observed(progress: Any) -> dict[str, Any]:
    found = (get(progress, "observedMetrics") or {}).get(OBSERVED)
    if found is None:
        return {}
    return dict(found.asDict()) if hasattr(found, "asDict") else dict(found)


@dataclass
class _Query:
    """What is known of a query."""

    id: str = ""
    totals: dict[str, float] = field(default_factory=dict)
    patterns: dict[Pattern, dict[str, int]] = field(default_factory=dict)
    lanes: dict[str, list[int]] = field(default_factory=dict)  # the gauges of each, when last seen

    def add(self, progress: Any, counts: Mapping[str, float]) -> None:
        told = self.totals
        for counter in COUNTERS:
            told[counter] = told.get(counter, 0) + counts.get(counter, 0)
        for pattern, found in patterns_of(progress).items():
            known = self.patterns.setdefault(pattern, dict.fromkeys(_BY_PATTERN, 0))
            for what, count in found.items():
                known[what] += count
        id = str(get(progress, "id") or "")
        if id != self.id:  # of a checkpoint: lanes of another one are gone
            self.id, self.lanes = id, {}
        lanes = _observed(progress).get(LANES)
        self.lanes.update({str(lane): list(values) for lane, values in (lanes or {}).items()})
        for place, gauge in enumerate(GAUGES):
            values = [lane[place] for lane in self.lanes.values()]
            told[gauge] = sum(values) if lanes is not None else counts.get(gauge, 0)
        operators = get(progress, "stateOperators") or []
        memory = sum(int(get(one, "memoryUsedBytes") or 0) for one in operators)
        told["state_memory_bytes"] = memory
        told["batches"] = told.get("batches", 0) + 1
        # A key that is shed takes its rows with it: the share of rows kept is what is known. Under
        # a budget, the evaluator tells what it expected of the extensions it did not make.
        kept = 1 - told["shed"] / max(told["rows"], told["shed"], 1)
        promised = told["promised"]
        told[RECALL] = kept * (told["followed"] / promised if promised else 1)


def progress_line(query: Any) -> str:
    """One line about a running query, for a notebook or a log."""
    progress = query.lastProgress
    if progress is None:
        return "no micro-batch yet"
    counts = counts_of(progress)
    rate = get(progress, "processedRowsPerSecond") or 0.0
    told = [f"batch {get(progress, 'batchId')}", f"{rate:,.0f} rows/s"]
    mark = (get(progress, "eventTime") or {}).get("watermark")
    if mark:
        told.append(f"watermark {mark}")
    told += [
        f"{name} {counts[name]:,}"
        for name in ("matches", "partials", "pending", "keys")
        if name in counts
    ]
    told += [f"{name} {counts[name]:,}" for name in COUNTERS[2:] if counts.get(name)]
    if counts.get(RECALL, 1) < 1:
        told.append(f"recall about {counts[RECALL]:.0%}")
    patterns = patterns_of(progress)
    if len(patterns) > 1:
        told += [f"{n} v{v}: {found.get('matches', 0):,}" for (n, v), found in patterns.items()]
    return ", ".join(told)


def running(session: Any) -> list[dict[str, Any]]:
    """A row per active query; counts and matches are of the micro-batches that Spark remembers."""
    return [_told(query) for query in session.streams.active]


def _told(query: Any) -> dict[str, Any]:
    recent = list(query.recentProgress)
    last = recent[-1] if recent else None
    counts: list[dict[str, float]] = [counts_of(progress) for progress in recent]
    matches: dict[str, int] = {}
    for progress in recent:
        for (name, version), found in patterns_of(progress).items():
            shown = name if version <= 1 else f"{name} v{version}"
            matches[shown] = matches.get(shown, 0) + found.get("matches", 0)
    if not matches and any("matches" in one for one in counts):
        matches["matches"] = int(sum(one.get("matches", 0) for one in counts))
    operators = get(last, "stateOperators") or []
    return {
        "id": str(query.id),
        "name": query.name or str(query.id)[:8],
        "status": query.status.get("message", ""),
        "rows_in_per_second": float(get(last, "inputRowsPerSecond") or 0.0),
        "rows_out_per_second": float(get(last, "processedRowsPerSecond") or 0.0),
        "trigger_ms": int((get(last, "durationMs") or {}).get("triggerExecution", 0)),
        "watermark": (get(last, "eventTime") or {}).get("watermark"),
        "late": int(sum(one.get("late", 0) for one in counts)),
        "state_rows": int(sum(get(one, "numRowsTotal") or 0 for one in operators)),
        "state_bytes": int(sum(get(one, "memoryUsedBytes") or 0 for one in operators)),
        "matches": matches,
        "history": [
            [
                get(progress, "timestamp"),
                float(get(progress, "inputRowsPerSecond") or 0.0),
                float(get(progress, "processedRowsPerSecond") or 0.0),
            ]
            for progress in recent
        ],
    }


class Metrics(StreamingQueryListener):
    """Totals of every query of a session: `spark.streams.addListener(Metrics())`."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        with self._lock:
            self._queries.setdefault(str(event.name or event.id), _Query())

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
        name = str(get(progress, "name") or get(progress, "id"))
        with self._lock:
            self._queries.setdefault(name, _Query()).add(progress, counts)

    def totals(self) -> Mapping[str, Mapping[str, float]]:
        """By the name of the query, or its id."""
        with self._lock:
            return {name: dict(known.totals) for name, known in self._queries.items()}

    def patterns(self) -> Mapping[str, Mapping[Pattern, Mapping[str, int]]]:
        """By query, then by name and version of the pattern: `matches` and `retracted`."""
        with self._lock:
            return {
                name: {pattern: dict(found) for pattern, found in known.patterns.items()}
                for name, known in self._queries.items()
            }

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
                    lines.append(f'{full}{{query="{_escaped(query)}"}} {_number(known[name])}')
        patterns = self.patterns()
        for name, told in _BY_PATTERN.items():
            full = f"ensue_pattern_{name}_total"
            lines += [f"# HELP {full} {told}", f"# TYPE {full} counter"]
            for query, known_patterns in patterns.items():
                for (pattern, version), found in known_patterns.items():
                    labels = f'query="{_escaped(query)}",pattern="{pattern}",version="{version}"'
                    lines.append(f"{full}{{{labels}}} {found[name]}")
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

        def by_pattern(name: str) -> Callable[[Any], list[Any]]:
            def read(_: Any) -> list[Any]:
                return [
                    observation(found[name], {"query": q, "pattern": pattern, "version": version})
                    for q, known in self.patterns().items()
                    for (pattern, version), found in known.items()
                ]

            return read

        for name, told in _BY_PATTERN.items():
            meter.create_observable_counter(
                f"ensue.pattern.{name}", callbacks=[by_pattern(name)], description=told
            )

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


def get(thing: Any, name: str) -> Any:
    """A field of a progress, which is an object in a listener and a dict in `lastProgress`."""
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def _number(value: float) -> str:
    """A whole number in full: `%g` would round what is larger than six digits."""
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
