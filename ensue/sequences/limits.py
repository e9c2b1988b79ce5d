"""Limits: on what an event pattern without a window may hold, and on what may be asked for."""

from __future__ import annotations

import warnings

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.operator.listing import Listing
from ensue.query import nodes
from ensue.query.nodes import Policy

WARN_ROWS = 1_000_000  # of one partition, listed without a window
MAX_ROWS = 20_000_000
NODE_BYTES = 120  # of the match graph, per event and joint


class UnboundedPatternWarning(UserWarning):
    """A pattern without a window keeps every event of a long partition."""


def check_listing(listing: Listing) -> None:
    """Refuses numbers that are none, and wishes that exclude each other."""
    for name in ("limit", "sample", "max_matches"):
        value = getattr(listing, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        missing_is_fine = value is None and name != "max_matches"
        if not missing_is_fine and not (whole and value >= 0):
            raise errors.QueryError(
                f"{name}={value!r} is not a number of matches",
                remedy=f"give a whole number, 0 or more: {name}=100",
            )
    if listing.sample is None:
        return
    for name in ("limit", "timeouts", "compact"):
        if getattr(listing, name) not in (None, False):
            raise errors.QueryError(
                f"sample= draws single, complete matches from all there are, and {name}= asks for "
                "something else",
                remedy=f"leave out sample= or {name}=",
            )


def check_unbounded(plan: Plan, rows: int) -> None:
    """Warns, and above a limit refuses, where listing would keep too much."""
    query = plan.query
    if query.within is not None or rows < WARN_ROWS:
        return
    if all(gap.policy is not Policy.ANY for gap in nodes.gaps(query.pattern)):
        return  # events become useless as matches move on
    estimate = rows * NODE_BYTES * max(1, len(query.labels) - len(query.unseen))
    what = (
        f"the pattern skips anything (->>) and has no window, so the match graph of a partition of "
        f"{rows:,} rows may hold every row: about {estimate >> 20:,} MB"
    )
    if rows > MAX_ROWS:
        raise errors.LimitError(
            f"{what}; the limit is {MAX_ROWS:,} rows",
            remedy="bound the pattern with within(...), partition it, count or aggregate instead, "
            "or raise ensue.sequences.limits.MAX_ROWS",
        )
    warnings.warn(f"{what}; add within(...) to bound it", UnboundedPatternWarning, stacklevel=2)
