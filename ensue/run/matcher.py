"""The in-process operator: events come one batch at a time, changes of the answer go out.

    Cleanse (disorder, copies, corrections, σ)  →  a branch per pattern (replay)  →  changes

Cleanse is shared: it knows every event once, and lets it through to every pattern whose lifetime it
falls into. At σ = 0 patterns see order and nothing is ever withdrawn; at σ > 0 each keeps what may
still be corrected (`operator/replay.py`). Whatever the order in which the events come, the net of
all changes is what a run over the ordered, corrected events gives (SEMANTICS, disorder 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.capabilities import Task, Way, refusal
from ensue.operator import state
from ensue.operator.budget import Budget
from ensue.operator.cleanse import Released
from ensue.operator.clock import LOWEST
from ensue.operator.protocol import Capabilities, Events
from ensue.query.query import Query
from ensue.query.timeout import Timeout, timed
from ensue.run.asked import Asked
from ensue.run.branch import MATCH_ID, NEW, OP, PATTERN, WITHDRAWN, Branch, Lifetime, MatcherOptions
from ensue.run.cleansed import Cleansed, CleansedCounts
from ensue.run.edits import Edits, at_the_watermark
from ensue.run.keys import as_key
from ensue.run.pattern_branch import PatternBranch, TotalsBranch
from ensue.run.shared_branch import SharedBranch
from ensue.shared.options import Report, joined_report

KIND = state.Kind(
    "matcher", version=2, order=("told", "cleanse", "schema", "late", "rejected", "lanes")
)
_NOTHING = pa.schema([(name, pa.string()) for name in (OP, MATCH_ID, PATTERN)]).empty_table()
Reader = Callable[[Any], pa.Table]


@dataclass
class MatcherMetrics(CleansedCounts):
    """Counted since the start; what is held, as of now."""

    matches: int = 0
    withdrawn: int = 0
    partitions: int = 0  # open partitions, over all patterns
    settling: int = 0  # changes held back
    bytes: int = 0
    # under a budget, over all patterns: extensions of partial matches made, and not made, and the
    # least recall, with its interval; None where nothing is known
    partials: int = 0
    shed: int = 0
    recall: float | None = 1.0
    low: float | None = 1.0
    high: float | None = 1.0


@dataclass(frozen=True)
class Revised:
    """The effect of an edit: the lifetime of each named pattern, and the immediate changes."""

    lifetimes: dict[str, Lifetime]
    changes: pa.Table


class Matcher(Cleansed):
    """See the module and docs/matcher.md."""

    def __init__(
        self,
        asked: Asked,
        options: MatcherOptions,
        schema: pa.Schema | None = None,
        reader: Reader | None = None,
    ) -> None:
        super().__init__(asked.first, options)
        totals = asked.totals is not None
        self.capabilities = Capabilities(
            ordered_input=False,
            retraction=True,
            revision=not totals,
            shedding=options.budget is not None,
            result_on_demand=totals,
        )
        self._asked, self._named = asked, asked.named
        self._read = reader or _as_table
        self._branches: list[Branch] = []
        self._passed_to = LOWEST  # the watermark that the patterns know
        self._owed: list[pa.Table] = []  # changes of a call that failed in another pattern
        self._counted = MatcherMetrics()
        if schema is not None:
            self._open(schema)

    # -- calls -----------------------------------------------------------------------------------

    def insert(self, events: Any, *, timeout: Timeout | None = None) -> pa.Table:
        """Insert events, in any order, and return the changes."""
        table = self._read(events)
        if self._cleanse is None:
            opened = self._open(table.schema)
            return self._shown([*opened, *self._passed(self._known.insert(table))])
        return self._shown(self._passed(self._cleanse.insert(table)))

    def retract(self, events: Any, *, timeout: Timeout | None = None) -> pa.Table:
        """Retract events: whole rows, or the partition columns and the id where there is one."""
        table = self._read(events)
        if self._cleanse is None:
            raise errors.DataError(
                "there is nothing to retract: no event has come yet",
                remedy="insert events first, or give schema=... to matcher()",
            )
        return self._shown(self._passed(self._cleanse.retract(table)))

    def advance(self, time: Any, *, timeout: Timeout | None = None) -> pa.Table:
        """A watermark: no event before `time` will come. What it settles becomes final."""
        if isinstance(time, float) and math.isinf(time):
            raise errors.QueryError(
                "a watermark is a moment, not the end of time",
                remedy="say that the stream is complete with end()",
            )
        if self._cleanse is None:
            self._mark = time
            return self._shown([])
        return self._shown(self._passed(self._cleanse.advance(time)))

    def end(self, keys: Iterable[Any] | None = None, *, timeout: Timeout | None = None) -> pa.Table:
        """These keys (or all) are complete; a key that comes again starts afresh."""
        if self._cleanse is None:
            return self._shown([])
        columns = self._cleanse.partition_by
        listed = None if keys is None else [as_key(key, columns) for key in keys]
        events = self._cleanse.end(listed)
        names = None if listed is None else self._cleanse.key_hashes(listed)
        return self._shown(
            self._through(lambda branch: branch.change(events) + branch.end(listed, names))
        )

    def revise(
        self,
        add: Mapping[str, Any] | None = None,
        remove: Mapping[str, Any] | Iterable[str] = (),
        *,
        timeout: Timeout | None = None,
    ) -> Revised:
        """Add and remove patterns while events flow.

        `add={"name": query}` applies to events after the newest one seen (and the watermark);
        `(query, begin)` and `(query, begin, end)` set the lifetime, and past events are matched
        again. `remove=["name"]` ends a pattern likewise, `{"name": end}` at a time. An edit
        that does not fit is refused as a whole and nothing changes.
        """
        if self._cleanse is None:
            raise errors.QueryError(
                "the columns are not known before the first event, so an edit cannot be checked",
                remedy="insert events first, or give schema=... to matcher()",
            )
        if self._asked.totals is not None:
            what = "the matcher of aggregates does not support a pattern that changes (revise)"
            raise refusal(Task.AGGREGATE, Way.EDITS, what)
        shared = [branch for branch in self._branches if isinstance(branch, SharedBranch)]
        if shared:
            lifetimes = at_the_watermark(shared, add or {}, remove, self._time)
            return Revised(lifetimes, self._shown([]))
        edit = self._edits.checked(add or {}, remove)
        found: list[pa.Table] = []
        for branch, end in edit.ends:
            events = self._cleanse.between(end, branch.end_at)
            found += branch.change(_no_events(events.table), events)
            branch.end_at = end
        for branch in edit.begins:
            found += branch.change(self._cleanse.between(branch.begin, branch.end_at))
            if self._cleanse.watermark > LOWEST:
                found += branch.advance(self._cleanse.watermark, self._time, self._limit)
        self._branches += edit.begins
        self._named = True
        found += self._over()
        changed = [branch for branch, _ in edit.ends] + edit.begins
        lifetimes = {branch.name: self._lifetime(branch) for branch in changed}
        return Revised(lifetimes, self._shown(found))

    @timed
    def result(self, *, timeout: Timeout | None = None) -> pa.Table:
        """The totals as they stand, in groups that are not final; after `end()`, the last ones."""
        if self._asked.totals is None:
            raise errors.UnsupportedError(
                "the matcher of patterns does not support a result on demand (result)",
                remedy="start another matcher, or give aggregate={...} for totals",
            )
        assert self._known is self._cleanse
        (branch,) = self._branches
        assert isinstance(branch, TotalsBranch)
        return branch.result()

    def snapshot(self) -> bytes:
        """The whole state, patterns included; `ensue.restore` continues from it."""
        told = {
            **self._asked.stored(),
            "options": asdict(self._options),
            "named": self._named,
            "counted": asdict(self._counted),
            "lanes": [self._asked.saved(branch) for branch in self._branches],
        }
        parts = {
            "told": told,
            **self._saved(),
            "lanes": tuple(blob for branch in self._branches for blob in branch.to_bytes()),
        }
        return state.pack(KIND, parts)

    def _rewind(self) -> Callable[[], None]:
        """A call that is stopped is taken back: from a snapshot, once there is anything to keep."""
        fields = dict(vars(self))
        if self._cleanse is None:
            return lambda: self._become(fields)
        kept, owed = self.snapshot(), list(self._owed)

        def back() -> None:
            fields = vars(restored(kept, self._read))
            self._become(fields | {"_owed": owed, "_turn": self._turn})

        return back

    def _go_on(self, told: dict[str, Any], parts: state.Parts) -> None:
        """Take over the parts of a snapshot."""
        schema, states = parts.schema("schema"), parts.states("lanes")
        cleanse = self._cleanse = self._cleanse_of(schema)
        self._resume(parts)
        self._named = told["named"]
        self._counted = MatcherMetrics(**told["counted"])
        self._passed_to = cleanse.watermark
        self._branches = []
        for index, saved in enumerate(told["lanes"]):
            branch = self._asked.restored(saved, schema, self._options)
            blobs = states[2 * index : 2 * index + 2]
            branch.restore(blobs, cleanse.watermark, self._time, self._limit)
            self._branches.append(branch)

    # -- looking at it ---------------------------------------------------------------------------

    @property
    def metrics(self) -> MatcherMetrics:
        if self._cleanse is not None:
            self._count_into(self._counted)
            self._counted.partitions = sum(branch.partitions for branch in self._branches)
            self._counted.settling = sum(branch.settling for branch in self._branches)
            self._counted.bytes = self.nbytes
            under = [branch.metrics for branch in self._branches if branch.metrics is not None]
            if under:
                self._counted.partials = sum(known.partials for known in under)
                self._counted.shed = sum(known.shed for known in under)
                least = min(under, key=lambda known: -1.0 if known.recall is None else known.recall)
                for name in ("recall", "low", "high"):
                    setattr(self._counted, name, getattr(least, name))
        return replace(self._counted)

    def _shed(self) -> int:
        return self.metrics.shed

    @property
    def nbytes(self) -> int:
        """Of the events that wait or may be corrected, and of what patterns hold of them."""
        waiting = 0 if self._cleanse is None else self._cleanse.nbytes
        return waiting + sum(branch.nbytes for branch in self._branches)

    @property
    def patterns(self) -> dict[str, Lifetime]:
        """The patterns in force, with the times of the events they apply to."""
        if self._cleanse is None:
            return {name: Lifetime(None, None) for name in self._asked.queries}
        return {name: self._lifetime(branch) for branch in self._branches for name in branch.names}

    @property
    def report(self) -> Report | None:
        """What a budget gave up of the patterns that share it; None without one."""
        shared = [b.report for b in self._branches if isinstance(b, SharedBranch)]
        return joined_report(shared)

    def explain(self) -> str:
        """What runs, and why."""
        sigma = self._options.speculation
        how = (
            "answers when the watermark has passed; nothing is withdrawn"
            if sigma == 0
            else (
                "answers at once, and withdraws what later events disprove"
                if sigma == math.inf
                else f"answers for events up to {sigma} beyond the watermark, and may withdraw"
            )
        )
        lines = [f"cleanse: speculation {sigma}: {how}"]
        lines += [f"{branch.name}: {branch.reason}" for branch in self._branches]
        return "\n".join(lines)

    def __repr__(self) -> str:
        held = f"{self.metrics.partitions:,} open, watermark {self.watermark}"
        return f"<ensue matcher of {', '.join(self.patterns)}; partitions: {held}>"

    # -- inside ----------------------------------------------------------------------------------

    def _open(self, schema: pa.Schema) -> list[pa.Table]:
        """The columns are known: types are checked, and evaluators made."""
        schema = schema.remove_metadata()
        cleanse = self._cleanse_of(schema)
        self._branches = self._asked.branches(schema, self._options)
        self._cleanse = cleanse
        if self._mark is None:
            return []
        return self._passed(self._cleanse.advance(self._mark))

    @property
    def _limit(self) -> int:
        """Changes decided before this time go out, where changes are held back."""
        if self._options.settle is None:
            return LOWEST
        clock = self._known.clock
        return clock.later(self._known.watermark, clock.amount(self._options.settle, "settle"))

    def _passed(self, released: Released) -> list[pa.Table]:
        """What Cleanse lets through, and time, through every pattern."""
        cleanse = self._known
        self._aside.add(released.late, released.rejected)
        passed = cleanse.watermark > self._passed_to
        self._passed_to = cleanse.watermark

        def through(branch: Branch) -> list[pa.Table]:
            found = branch.change(released.events, released.withdrawn)
            if not passed:
                return found
            return found + branch.advance(cleanse.watermark, self._time, self._limit)

        return self._through(through) + (self._over() if passed else [])

    def _through(self, run: Callable[[Branch], list[pa.Table]]) -> list[pa.Table]:
        """Every pattern's changes. One that fails is named; what the others changed is not lost."""
        found, self._owed = self._owed, []
        failed: tuple[Branch, errors.EnsueError] | None = None
        for branch in self._branches:
            try:
                found = found + run(branch)
            except errors.EnsueError as problem:
                failed = failed or (branch, problem)
        if failed is None:
            return found
        self._owed = found
        stopped, reason = failed
        raise type(reason)(
            f"the pattern {stopped.name!r} failed and was stopped: {reason.problem}",
            remedy=f"{reason.remedy}; the events were taken, other patterns go on, and "
            f"revise(remove=[{stopped.name!r}]) lets go of this one",
            place=reason.place,
        ) from None

    def _over(self) -> list[pa.Table]:
        """Patterns whose lifetime the watermark has passed are complete."""
        mark = self._known.watermark
        over = [branch for branch in self._branches if branch.end_at <= mark]
        self._branches = [branch for branch in self._branches if branch.end_at > mark]
        return [table for branch in over for table in branch.end()]

    def _shown(self, tables: list[pa.Table]) -> pa.Table:
        shapes = [branch.nothing for branch in self._branches] or [_NOTHING]
        joined = pa.concat_tables([*shapes, *tables], promote_options="default").combine_chunks()
        ops = joined.column(OP).to_pylist() if joined.num_rows else []
        self._counted.matches += ops.count(NEW)
        self._counted.withdrawn += ops.count(WITHDRAWN)
        return joined if self._named else joined.drop_columns([PATTERN])

    @property
    def _edits(self) -> Edits:
        def make(name: str, query: Query, schema: pa.Schema, *life: int) -> PatternBranch:
            return PatternBranch(name, query, schema, self._options, *life)

        return Edits(self._known, self._branches, make)

    def _lifetime(self, branch: Branch) -> Lifetime:
        clock = self._known.clock
        return Lifetime(clock.time(branch.begin), clock.time(branch.end_at))


def restored(blob: bytes, reader: Reader | None = None) -> Matcher:
    """The matcher that continues from a snapshot."""
    parts = state.unpack(KIND, blob)
    told = parts.json("told")
    options = MatcherOptions(**told["options"])
    if options.budget is not None:
        options = replace(options, budget=Budget(**told["options"]["budget"]))
    matcher = Matcher(Asked.of_stored(told), options, None, reader)
    matcher._go_on(told, parts)
    return matcher


def _no_events(table: pa.Table) -> Events:
    return Events(table.slice(0, 0), np.zeros(1, np.int64), np.zeros(0, np.bool_))


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    raise errors.UnsupportedInputError(
        f"{type(data).__name__} is not a table of events", remedy="give a pyarrow Table"
    )
