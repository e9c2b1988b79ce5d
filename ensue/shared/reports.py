"""One report of several groups of patterns."""

from __future__ import annotations

from collections.abc import Sequence

from ensue.shared.options import Report


def joined_report(reports: Sequence[Report | None]) -> Report | None:
    known = [report for report in reports if report is not None]
    if not known:
        return None
    patterns = {name: e for report in known for name, e in report.patterns.items()}
    sums = {
        name: sum(getattr(report, name) for report in known)
        for name in ("rows", "work", "shed", "selections", "created", "seconds", "most_records")
    }
    sums["rows"] = max(report.rows for report in known)  # every group reads the same ones
    return Report(patterns, **sums)
