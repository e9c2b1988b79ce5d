"""How a workload is evaluated, and what a run says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.share import Union
from ensue.draw.table import PrintedTable
from ensue.operator.budget import Unbounded
from ensue.operator.notices import Notices
from ensue.query.query import SkipMode
from ensue.shared.recall import Estimate

MAX_MATCHES = 10_000_000
_REMEDY = "give an amount, such as work=1000, rows of the past (history=...), or more rows"
Rank = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # rates of nodes to their priorities


@dataclass(frozen=True)
class Sharing:
    """How a workload is evaluated."""

    weights: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    max_matches: int = MAX_MATCHES
    part: float = 1.0  # of bounds in numbers: the rest is for other groups of the workload
    # For comparisons: no merged states, no sharing; the order in which partial matches are kept.
    merge: bool = True
    share: bool = True
    by_ratio: bool = True  # matches per overhead, else matches alone
    rank: Rank | None = None  # in place of learned quality


DEFAULT = Sharing()


@dataclass(frozen=True, repr=False)
class Report:
    """What a run did and gave up; prints as a table."""

    patterns: Mapping[str, Estimate]
    rows: int
    work: int
    shed: int
    selections: int
    created: int
    seconds: float
    most_records: int
    unbounded: int = 0  # rows before the bound held
    reason: str = ""  # why it did not hold for them

    def _printed(self) -> PrintedTable:
        names = ("pattern", "found", "lost (estimate)", "recall", "between", "and")
        rows = [
            (name, e.found, round(e.lost, 1), *map(_rounded, (e.recall, e.low, e.high)))
            for name, e in self.patterns.items()
        ]
        note = (
            f"{self.rows:,} rows in {self.seconds:.2f} s of CPU, {self.work:,} units of work; "
            f"{self.shed:,} of {self.created:,} partial matches shed in {self.selections:,} "
            f"selections, at most {self.most_records:,} kept"
        )
        if self.reason:
            note += f"; {self.reason}"
        return PrintedTable(names, rows, note)

    def warn(self, floor: float | None = None) -> None:
        """Say why the bound did not hold, where that concerns many rows; and of which patterns the
        recall is estimated to be below a floor."""
        warning = Unbounded(self.unbounded, self.reason).warning(self.rows, _REMEDY)
        if warning is not None:
            Notices().warn(warning)
        for name, told in self.patterns.items():
            if floor is not None and (told.recall is None or told.recall < floor):
                known = "is not known" if told.recall is None else f"is about {told.recall:.2f}"
                Notices().warn(
                    errors.BoundWarning(
                        f"the recall of {name!r} {known}, and the budget asks for {floor:g}\n"
                        "What to do: give a larger bound, or a lower recall"
                    )
                )

    def __repr__(self) -> str:
        return str(self._printed())

    def _repr_html_(self) -> str:
        return self._printed()._repr_html_()


def _rounded(share: float | None) -> float | str:
    return "?" if share is None else round(share, 4)


def joined_report(reports: Sequence[Report | None]) -> Report | None:
    """One report of several groups of patterns."""
    known = [report for report in reports if report is not None]
    if not known:
        return None
    patterns = {name: e for report in known for name, e in report.patterns.items()}
    sums = {
        name: sum(getattr(report, name) for report in known)
        for name in ("rows", "work", "shed", "selections", "created", "seconds", "most_records")
    }
    sums["rows"] = max(report.rows for report in known)  # every group reads the same ones
    reasons = "; ".join(dict.fromkeys(report.reason for report in known if report.reason))
    return Report(patterns, **sums, unbounded=max(r.unbounded for r in known), reason=reasons)


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
