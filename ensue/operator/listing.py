"""What a caller wants of the matches: all, some, time-outs too, or compact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ensue.operator.as_of import END

MAX_MATCHES = 10_000_000


@dataclass(frozen=True)
class Listing:
    """How much of the matches is wanted."""

    timeouts: bool = False
    limit: int | None = None  # at most so many, in order
    sample: int | None = None  # so many, each drawn uniformly at random (with replacement)
    seed: int = 0
    max_matches: int = MAX_MATCHES
    compact: bool = False  # one row per end event, with the graph of its matches
    as_of: Any = END  # until when time is known to have passed at the end of a table
    per_call: bool = False  # the limit is on what one call finds, since a stream has no last match
