"""Running queries of the Spark session in this process, for the Streams tab."""

from __future__ import annotations

from typing import Any


def streams() -> dict[str, Any]:
    return {"streams": []}
