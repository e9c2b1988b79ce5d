"""How a workload is evaluated, and what a run says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ensue import errors
from ensue.automaton.share import Union
from ensue.query.query import SkipMode
from ensue.shared.controller import Rank
from ensue.shared.recall import Estimate

MAX_MATCHES = 10_000_000


@dataclass(frozen=True)
class Options:
    """How a workload is evaluated."""

    weights: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    max_matches: int = MAX_MATCHES
    part: float = 1.0  # of bounds in numbers: the rest is for other groups of the workload
    # For comparisons: no sharing; the order in which partial matches are kept.
    share: bool = True
    by_ratio: bool = True  # matches per overhead, else matches alone
    rank: Rank | None = None


@dataclass(frozen=True)
class Report:
    """What a run did and gave up."""

    patterns: Mapping[str, Estimate]
    rows: int
    work: int
    shed: int
    selections: int
    created: int
    seconds: float
    most_records: int


def check_shedding(union: Union) -> None:
    """Raises where a pattern cannot run under a budget."""
    for member in union.members:
        query = member.plan.query
        if not query.row_semantics and query.skip.mode is not SkipMode.NONE:
            raise errors.UnsupportedError(
                f"the pattern {member.name!r} cannot run under a budget: after_match makes "
                "matches depend on each other: without one that was shed, another would be "
                "reported falsely",
                remedy="leave the budget out, or drop after_match from this pattern",
            )
