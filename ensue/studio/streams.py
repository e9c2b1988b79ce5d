"""Running queries of the user's Spark session, for the Streams tab."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Iterable
from typing import Any

from ensue.studio.on_spark import asked


def session_of(frames: Iterable[Any]) -> Any:
    """The session of the frames, else the one that is active here; None where Spark is not used."""
    for frame in frames:
        return frame.sparkSession
    if "pyspark" not in sys.modules:
        return None
    from ensue.run.spark.session import session_here

    return session_here()


def streams(session: Any) -> dict[str, Any]:
    if session is None:
        return {"streams": []}
    from ensue.run.spark.listener import running

    with asked():
        found = running(session)
    for stream in found:
        stream["history"] = [[_moment(at), _known(i), _known(o)] for at, i, o in stream["history"]]
    return {"streams": found}


def _moment(text: Any) -> float | None:
    """Milliseconds since 1970 of Spark's `2026-01-01T00:00:00.000Z`."""
    try:
        return datetime.datetime.fromisoformat(str(text)).timestamp() * 1000
    except ValueError:
        return None


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
