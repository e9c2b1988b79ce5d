"""The running queries of a Spark session as numbers, out of what Spark keeps of their progress."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from ensue.run.spark.listener import counts_of, get, patterns_of

Row = dict[str, Any]


def session_here() -> Any:
    """The session of this thread; None where there is none."""
    return SparkSession.getActiveSession()


def running(session: Any) -> list[Row]:
    """A row per active query; counts and matches are of the micro-batches that Spark remembers."""
    return [_told(query) for query in session.streams.active]


def _told(query: Any) -> Row:
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
