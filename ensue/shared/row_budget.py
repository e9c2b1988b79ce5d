"""Row patterns under a budget: which can shed start rows, and how many a block of rows may try."""

from __future__ import annotations

from collections.abc import Mapping

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.program import ACCEPT, START
from ensue.operator.budget import EVERY, OF_MEMORY, Bounds, Form, Room, Unbounded
from ensue.query import condition as c
from ensue.query.query import Query, Rows, SkipMode
from ensue.shared.row_pace import Pace

_NO_MEMORY = (
    "they keep no partial matches between start rows, so there is nothing that it could shed"
)
ROW_PATTERNS = Room("row patterns", EVERY - OF_MEMORY, _NO_MEMORY, floors=True)
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
                remedy="leave the budget out, or use AFTER MATCH SKIP TO NEXT ROW, in Python "
                "after_match('to next row')",
            )


class RowBudget:
    """Bounds on one workload of row patterns: how many start rows a block may try."""

    def __init__(self, bounds: Bounds, names: tuple[str, ...], part: float = 1.0) -> None:
        """`part` of a bound in numbers is for these patterns, the rest for other groups."""
        bounds = bounds.part(part)
        self._work = bounds.work
        self._names = names
        self._past = dict.fromkeys(names, (0, 0))  # rows and start rows of the history
        self._left = dict.fromkeys(names, 0.0)  # of a start row
        self.paces: dict[str, Pace] = {}  # of the patterns whose time is bounded
        for name in names:
            if (bound := bounds.latency_of.get(name)) is not None:
                self.paces[name] = Pace(bound)
            elif bounds.latency is not None:
                self.paces[name] = Pace(bounds.latency.part(1 / len(names)))
        self.learning = False  # from rows of the past: every start row is tried

    def allowed(self, name: str, rows: int, candidates: int) -> int:
        """Start rows that a block of one pattern may try."""
        if self.learning:
            return candidates
        most = float(candidates)
        if (bound := self._work) is not None:
            done, starts = self._past[name]
            if bound.share:
                each = bound.amount * (starts / done * rows if done else candidates)
            else:
                each = bound.amount / len(self._names) * rows
            most = min(most, each + self._left[name])
        if (pace := self.paces.get(name)) is not None:
            most = min(most, pace.allowed(rows, candidates))
        self._left[name] = most - int(most)
        return int(most)

    @property
    def of_work(self) -> bool:
        """Whether work is all that is bounded."""
        return self._work is not None and not self.paces

    def per_row(self, starts: float) -> float:
        """Start rows of all patterns per row; a share is of the history's, else of the table's."""
        assert self._work is not None
        if any(done for done, _ in self._past.values()):
            starts = sum(starts / max(1, done) for done, starts in self._past.values())
        return self._work.of(starts)

    def unbounded(self, rows: int) -> Unbounded:
        """The rows of a table of so many before the bounds held, and why."""
        slowest = max(self.paces.values(), key=lambda pace: pace.before, default=None)
        return Unbounded() if slowest is None else Unbounded.of(slowest.before, rows, slowest.why)

    def learned(self, name: str, rows: int, tried: int) -> None:
        """Rows of the past, and how many start rows they have."""
        done, starts = self._past[name]
        self._past[name] = done + rows, starts + tried
