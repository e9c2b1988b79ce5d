"""Row patterns under a budget: which can shed start rows, and how many a block of rows may try."""

from __future__ import annotations

from collections.abc import Mapping

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.program import ACCEPT, START
from ensue.operator.budget import EVERY, OF_MEMORY, Bounds, Form, Room
from ensue.query import condition as c
from ensue.query.query import Query, Rows, SkipMode

BLOCK = 2048
CALIBRATION = 2 * BLOCK
_NO_MEMORY = (
    "they keep no partial matches between start rows, so there is nothing that it could shed"
)
ROW_PATTERNS = Room("row patterns", EVERY - OF_MEMORY, _NO_MEMORY)
STATEMENTS = Room(
    "row patterns of a statement",
    EVERY - OF_MEMORY - {Form.LATENCY_EACH},
    _NO_MEMORY,
    optional=True,
)


def cannot_shed(query: Query, planned: Plan) -> str | None:
    """Why start rows of the pattern cannot be shed; None where they can."""
    if query.skip.mode is not SkipMode.TO_NEXT_ROW:
        return (
            "its matches depend on each other: without one that was shed, another would be "
            "reported falsely"
        )
    if query.rows is Rows.ALL_WITH_UNMATCHED:
        return "a row whose match was shed would be reported as unmatched"
    if any(target == ACCEPT for target, _ in planned.program.arcs_of(START)):
        return "it can match no row at all, and would then do so falsely"
    if any(isinstance(n, c.MatchNumber) for v in query.conditions() for n in c.walk(v)):
        return "MATCH_NUMBER counts matches that were shed"
    return None


def check_shedding(queries: Mapping[str, Query], plans: Mapping[str, Plan]) -> None:
    """Raises where start rows of a pattern cannot be shed."""
    for name, query in queries.items():
        reason = cannot_shed(query, plans[name])
        if reason:
            raise errors.UnsupportedError(
                f"the row pattern {name!r} cannot run under a budget: {reason}",
                remedy="leave the budget out, or use AFTER MATCH SKIP TO NEXT ROW",
            )


class RowBudget:
    """Bounds on one workload of row patterns: how many start rows a block may try."""

    def __init__(self, bounds: Bounds, names: tuple[str, ...], part: float = 1.0) -> None:
        """`part` of a bound in numbers is for these patterns, the rest for other groups."""
        bounds = bounds.part(part)
        self._work, self._seconds, self._single = bounds.work, bounds.latency, bounds.latency_of
        self._names = names
        self._known = dict.fromkeys(names, 0.0)  # seconds per start row, faded
        self._unbounded = dict.fromkeys(names, (0, 0, 0.0))  # rows, starts, seconds of calibration
        self._left = dict.fromkeys(names, 0.0)
        self.learning = False  # from rows of the past: every start row is tried

    def allowed(self, name: str, rows: int, candidates: int) -> int:
        """Start rows that a block of one pattern may try."""
        if self.learning:
            return candidates
        share = 1.0 / len(self._names)
        most = float(candidates)
        done, starts, _seconds = self._unbounded[name]
        bounds = [(self._work, True), (self._seconds, False), (self._single.get(name), False)]
        for bound, counted in bounds:
            if bound is None:
                continue
            if bound.share:
                if done < CALIBRATION:
                    continue
                most = min(most, bound.amount * (starts / done) * rows + self._left[name])
            elif counted:
                most = min(most, bound.amount * share * rows + self._left[name])
            elif self._known[name] > 0.0:
                part = 1.0 if name in self._single else share
                most = min(most, bound.amount * part * rows / self._known[name])
        return max(0, int(most))

    def per_row(self, taught: bool) -> float | None:
        """Start rows of all patterns per row, where work alone is bounded and it is known how."""
        if self._work is None or self._seconds is not None or self._single:
            return None
        if not self._work.share:
            return self._work.amount
        if not taught:
            return None
        known = [starts / max(1, done) for done, starts, _ in self._unbounded.values()]
        return self._work.amount * sum(known)

    def measured(self, name: str, rows: int, tried: int, allowed: int, seconds: float) -> None:
        done, starts, spent = self._unbounded[name]
        if done < CALIBRATION or self.learning:
            self._unbounded[name] = (done + rows, starts + tried, spent + seconds)
        self._left[name] = float(min(max(0, allowed - tried), BLOCK // 2))
        if tried:
            unit = seconds / tried
            known = self._known[name]
            self._known[name] = unit if known == 0.0 else 0.7 * known + 0.3 * unit
