"""Limits: on what automata may hold and put out, met while the kernels make room."""

from __future__ import annotations

import numpy as np

from ensue import errors
from ensue.operator import listing
from ensue.revision.kernels import layout
from ensue.revision.kernels.layout import Numbers

MAX_PARTIALS = 3_000_000  # of all partitions, at the events held: some 160 bytes each
MAX_OF_START = 16_384  # of one first event, at one event
MAX_DERIVATIONS = 16_000_000  # of one partition, 24 bytes each; only with ignorable arcs
_BOUND = (
    "bound the automaton with within=..., let fewer arcs take the same event, keep less in the "
    "register (ways to one register are one partial match)"
)


class OverfullError(errors.LimitError):
    """More partial matches are held than there may be: those of fewer events may be few enough."""


def counts(elsewhere: int) -> Numbers:
    """What a kernel counts, and how far; `elsewhere`: partial matches of other partitions."""
    made = np.zeros(layout.COUNTS, np.int64)
    made[layout.MOST_NODES] = max(0, MAX_PARTIALS - elsewhere)
    made[layout.MOST_OF_START] = MAX_OF_START
    made[layout.MOST_EDGES] = MAX_DERIVATIONS
    made[layout.MOST_ROWS] = listing.MAX_MATCHES
    return made


def check(counted: Numbers) -> None:
    """Raises where a kernel left off because there was more than may be."""
    match int(counted[layout.EXCEEDED]):
        case layout.MOST_NODES:
            raise OverfullError(
                f"more than {MAX_PARTIALS:,} partial matches are held",
                remedy=f"{_BOUND}, advance the watermark of a matcher more often, partition the "
                "events, or raise ensue.revision.limits.MAX_PARTIALS",
            )
        case layout.MOST_EDGES:
            raise OverfullError(
                f"more than {MAX_DERIVATIONS:,} ways from one partial match to another are held",
                remedy=f"{_BOUND}, run a matcher with ignorable_intervals=False, or raise "
                "ensue.revision.limits.MAX_DERIVATIONS",
            )
        case layout.MOST_OF_START:
            raise errors.LimitError(
                f"more than {MAX_OF_START:,} partial matches that begin with one event are alive "
                "at another",
                remedy=f"{_BOUND}, or raise ensue.revision.limits.MAX_OF_START",
            )
        case layout.MOST_ROWS:
            check_matches(int(counted[layout.ROWS]))


def check_matches(count: int) -> None:
    """Refuses more matches than one call may put out."""
    if count > listing.MAX_MATCHES:
        raise errors.LimitError(
            f"more than {listing.MAX_MATCHES:,} matches come of one call",
            remedy=f"{_BOUND}, give fewer events at a time, or raise "
            "ensue.operator.listing.MAX_MATCHES",
        )
