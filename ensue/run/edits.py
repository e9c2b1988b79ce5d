"""Edits of the patterns in a matcher: checked as a whole, with their lifetimes, before they apply.

Without a lifetime, a pattern that is added begins after t_curr = max(newest time, watermark), and
one that is removed ends there (AFA §2.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.operator.cleanse import Cleanse
from ensue.operator.clock import HIGHEST, LOWEST
from ensue.query.query import Query
from ensue.run.branch import Branch, Lifetime
from ensue.run.pattern_branch import PatternBranch
from ensue.run.shared_branch import SharedBranch


@dataclass
class Edit:
    """An edit that has been checked."""

    begins: list[PatternBranch] = field(default_factory=list)
    ends: list[tuple[Branch, int]] = field(default_factory=list)


class Edits:
    """What may be changed about the patterns of a stream."""

    def __init__(
        self, cleanse: Cleanse, branches: Sequence[Branch], make: Callable[..., PatternBranch]
    ) -> None:
        self._cleanse, self._branches, self._make = cleanse, branches, make

    @property
    def _now(self) -> int:
        """max(newest time, watermark), the paper's t_curr."""
        return max(self._cleanse.newest, self._cleanse.watermark)

    def checked(self, add: Mapping[str, Any], remove: Mapping[str, Any] | Iterable[str]) -> Edit:
        """The edit with its lifetimes, or an error before anything has changed."""
        ends = dict(remove) if isinstance(remove, Mapping) else dict.fromkeys(remove)
        edit = Edit()
        for name in [*ends, *(name for name in add if name not in ends)]:
            branches = [branch for branch in self._branches if branch.name == name]
            if not branches and name in ends:
                known = ", ".join(branch.name for branch in self._branches) or "none"
                raise errors.QueryError(
                    f"remove: there is no pattern {name!r}", remedy=f"patterns are: {known}"
                )
            for branch in branches:
                end = self._end_of(branch, ends.get(name))
                if end < branch.end_at:
                    edit.ends.append((branch, end))
        for name, given in add.items():
            edit.begins.append(self._new_branch(name, given))
        kept = [branch.nothing.schema for branch in [*self._branches, *edit.begins]]
        try:
            pa.unify_schemas(kept)
        except pa.ArrowException as problem:
            raise errors.ColumnTypeError(
                f"the changes of the patterns do not fit into one table: {problem}",
                remedy="give measures of one name one type",
            ) from None
        return edit

    def _end_of(self, branch: Branch, given: Any) -> int:
        cleanse = self._cleanse
        if given is None:
            return max(branch.begin, _after(self._now))
        end = cleanse.clock.code(given)
        if end <= branch.begin:
            raise _empty_lifetime(branch.name, cleanse.clock.time(branch.begin), given)
        if end < cleanse.watermark:
            raise errors.QueryError(
                f"remove: the pattern {branch.name!r} cannot end at {given!r}: what is before the "
                f"watermark {cleanse.clock.time(cleanse.watermark)!r} is final",
                remedy="end it at the watermark or later, or leave the time out",
            )
        return end

    def _new_branch(self, name: str, given: Any) -> PatternBranch:
        cleanse = self._cleanse
        query, begin_at, end_at = _parts_of(name, given)
        begin = _after(self._now) if begin_at is None else cleanse.clock.code(begin_at)
        end = HIGHEST if end_at is None else cleanse.clock.code(end_at)
        if begin >= end:
            raise _empty_lifetime(name, cleanse.clock.time(begin), end_at)
        if begin < cleanse.remembered_from:
            raise errors.QueryError(
                f"add: the pattern {name!r} cannot begin at {begin_at!r}: events before "
                f"{cleanse.clock.time(cleanse.remembered_from)!r} are no longer known",
                remedy="begin later, or keep events longer: matcher(history=...)",
            )
        branch = self._make(name, query, cleanse.schema, begin, end)
        bound = branch.plan.query
        if (bound.partition_by, bound.order_by) != (
            tuple(cleanse.partition_by),
            tuple(cleanse.order_by),
        ):
            raise errors.QueryError(
                f"add: the pattern {name!r} is partitioned or ordered in another way than the "
                "stream",
                remedy=f"partition by {list(cleanse.partition_by)} and order by "
                f"{[key.column for key in cleanse.order_by]}",
            )
        return branch


def at_the_watermark(
    shared: Sequence[SharedBranch],
    add: Mapping[str, Any],
    remove: Mapping[str, Any] | Iterable[str],
    time: Any,
) -> dict[str, Lifetime]:
    """An edit of patterns that share a budget: it applies to what the watermark has not passed."""
    added = {name: _parts_of(name, given) for name, given in add.items()}
    explicit = any(begin is not None or end is not None for _, begin, end in added.values())
    if explicit or (isinstance(remove, Mapping) and any(v is not None for v in remove.values())):
        raise errors.UnsupportedError(
            "patterns that share a budget are added and removed at the watermark: what was shed "
            "before it "
            "cannot be matched again",
            remedy="leave the times out, or the budget",
        )
    gone = list(remove)
    branches = [b for b in shared if any(name in b.queries for name in gone)] or list(shared)
    if len(branches) != 1 or any(name not in branches[0].queries for name in gone):
        known = ", ".join(name for branch in shared for name in branch.queries)
        raise errors.QueryError(
            f"the edit (add {list(add)}, remove {gone}) is not of one group of patterns",
            remedy=f"edit one group at a time; patterns are: {known}",
        )
    branches[0].revise({name: query for name, (query, _, _) in added.items()}, gone)
    ended = {name: Lifetime(None, time) for name in gone if name not in added}
    return ended | {name: Lifetime(time, None) for name in added}


def _after(code: int) -> int:
    """The next moment; before the first event, the first."""
    return code if code in (LOWEST, HIGHEST) else code + 1


def _parts_of(name: str, given: Any) -> tuple[Query, Any, Any]:
    parts = given if isinstance(given, tuple) else (given,)
    query = getattr(parts[0], "query", parts[0]) if parts else None
    if not isinstance(query, Query) or len(parts) > 3:
        raise errors.QueryError(
            f"add: {name!r} is given as {given!r}",
            remedy="give a pattern, (pattern, begin) or (pattern, begin, end)",
        )
    begin, end = (*parts[1:], None, None)[:2]
    return query, begin, end


def _empty_lifetime(name: str, begin: Any, end: Any) -> errors.QueryError:
    return errors.QueryError(
        f"the lifetime of {name!r} is empty: it begins at {begin!r} and ends at {end!r}",
        remedy="let it end after it begins",
    )
