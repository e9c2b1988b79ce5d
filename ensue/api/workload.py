"""`ensue.workload`: many patterns as one, shared where they agree, inside a bound where one is set.

Patterns that agree on partition and order (and on whether a window of time bounds them) are one
group and share their partial matches; other groups run beside them. Row patterns of one table and
order are a group of their own kind. A pattern that the shared evaluator cannot take (a condition
that needs plain Python) runs by itself, exactly, and `explain()` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from ensue import errors
from ensue.api.look import show
from ensue.api.matching import can_observe, opened
from ensue.api.order import check_order
from ensue.api.pattern import Pattern
from ensue.api.tables import Frame, in_kind, is_spark, no_stream_options, schema_of, to_arrow
from ensue.api.together import together
from ensue.api.workload_looking import WorkloadLooking
from ensue.api.workload_run import grouped, run_group
from ensue.operator.as_of import proves_absence
from ensue.operator.budget import Budget
from ensue.operator.listing import Listing
from ensue.operator.notices import Notices
from ensue.operator.protocol import Snapshot
from ensue.query import rules
from ensue.query.options import known_options
from ensue.query.timeout import Timeout, timed
from ensue.run import nothing
from ensue.run.asked import Asked
from ensue.run.branch import MatcherOptions as Running
from ensue.run.matcher import Matcher
from ensue.shared import given
from ensue.shared.controller import ALONE, WORKLOADS
from ensue.shared.groups import bounded
from ensue.shared.listing import PATTERN
from ensue.shared.options import MAX_MATCHES, Report, Sharing, joined_report

_ONE = "the pattern"
_SHOWN = 10  # patterns of which repr says more than their number


def workload(
    patterns: Mapping[str, Pattern] | Iterable[tuple[str, Pattern]] = (),
    *,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    **named: Pattern,
) -> Workload:
    """Patterns to run together: `ensue.workload(drops=q1, peaks=q2, weights={"peaks": 2})`.

    Pass a mapping, or pairs, when a name is not a valid Python identifier. `weights` say how much a
    match of a pattern is worth when something has to be shed (1 by default).

    Examples:
        >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
        >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
        >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
        >>> load = ensue.workload(bought=bought, kept=kept)
        >>> load.count(shop)
        {'bought': 1, 'kept': 1}
    """
    if not isinstance(patterns, Iterable):
        raise errors.QueryError(
            f"{patterns!r} is not a set of patterns with names",
            remedy="give a mapping, pairs of name and pattern, or keywords: workload(a=q1, b=q2)",
        )
    pairs = list(patterns.items() if isinstance(patterns, Mapping) else patterns)
    found: dict[str, Pattern] = {}
    for name, pattern in map(given.name_and_pattern, [*pairs, *named.items()]):
        if not isinstance(pattern, Pattern):
            raise errors.QueryError(
                f"{name}={pattern!r} is not a pattern",
                remedy="give what ensue.pattern(...), begin(...) or sase(...) returns",
            )
        if name in found:
            raise errors.DuplicateNameError(
                f"two patterns are called {name!r}", remedy="give each pattern a name of its own"
            )
        found[name] = pattern
    if not found:
        raise errors.QueryError("the workload has no pattern", remedy="give at least one")
    given.check_weights({} if weights is None else weights, found)
    given.check_seed(seed)
    return Workload(found, Sharing(dict(weights or {}), seed))


class Workload(WorkloadLooking):
    """See `workload`; nothing runs until a verb is called.

    Examples:
        >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
        >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
        >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
        >>> load = ensue.workload(bought=bought, kept=kept)
        >>> load.matches(shop).column("pattern").to_pylist()
        ['bought', 'kept']
    """

    def __init__(self, patterns: Mapping[str, Pattern], options: Sharing) -> None:
        self.patterns = dict(patterns)
        self.options = options
        self.report: Report | None = None  # of the last run in process
        self._notices = Notices()

    def __repr__(self) -> str:
        shown = [f"{name}={pattern!r}" for name, pattern in islice(self.patterns.items(), _SHOWN)]
        if len(self.patterns) > _SHOWN:
            shown.append(f"and {len(self.patterns) - _SHOWN:,} more")
        return f"<ensue workload: {', '.join(shown)}>"

    # -- running ---------------------------------------------------------------------------------

    @overload
    def matches(
        self,
        data: Frame,
        budget: Budget | None = None,
        *,
        history: Any = None,
        max_matches: int = MAX_MATCHES,
        as_of: Any = None,
        **stream: Any,
    ) -> Frame: ...
    @overload
    def matches(
        self, data: str | Path, budget: Budget | None = None, **options: Any
    ) -> pa.Table: ...
    @overload
    def matches(self, data: Any, budget: Budget | None = None, **options: Any) -> Any: ...
    @timed
    def matches(
        self,
        data: Any,
        budget: Budget | None = None,
        *,
        history: Any = None,
        max_matches: int = MAX_MATCHES,
        observe: Any = None,
        as_of: Any = None,
        timeout: Timeout | None = None,
        **stream: Any,
    ) -> Any:
        """All matches of all patterns, with the column `pattern`, as the same kind of table.

        A streaming DataFrame takes further options (`emit`, `late`, `control`, `edits`, ...):
        docs/streaming.md.

        Under a budget partial matches are shed: `report` says what that cost. `history` are rows of
        the past: they are matched in this process without the bound, to learn what partial matches
        are worth (and what "50%" refers to), before `data` is matched under it. Their matches are
        not reported. `observe`, a `pyspark.sql.Observation`, receives what the budget cost on
        Spark. `as_of` is the time that is known to have passed, for patterns that end with `!x`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.matches(shop).select(["pattern", "last"]).to_pylist()
            [{'pattern': 'bought', 'last': 3}, {'pattern': 'kept', 'last': 2}]
        """
        if observe is not None:
            can_observe(data, self._queries().values(), budget)
        if budget is not None:
            WORKLOADS.read(budget, self.patterns)
        past = _history(history, budget, data)
        if is_spark(data) and data.isStreaming:
            if as_of is not None:
                raise errors.UnsupportedError(
                    "as_of= is the time at the end of a table, and this is a stream",
                    remedy="leave as_of out; of a stream, the watermark is the time",
                )
            return self._streamed(data, budget, past, max_matches, stream)
        no_stream_options(stream, self.matches)
        options = replace(self.options, max_matches=max_matches)
        if is_spark(data):
            from ensue.run.spark import workload as on_spark

            self._check_order(data)
            return on_spark.run(self._queries(), data, options, budget, past, observe, as_of)
        table = to_arrow(data).combine_chunks()
        self._check_order(table)
        rules.duplicates(table.column_names, "column of the input")
        found: dict[str, pa.Table] = {}
        reports = []
        groups = grouped(self._queries(), table, whole=True)
        for group, own, part in bounded(groups, budget, options.weights):
            shared = replace(options, part=part)
            tables, report = run_group(group, table, shared, own, past, self._notices, as_of)
            found.update(tables)
            reports.append(report)
        self.report = joined_report(reports)
        nothing.check_all(self._queries(), table, found, self._notices)
        if self.report is not None:
            self.report.warn(budget.recall if budget is not None else None)
        return in_kind(together({name: found[name] for name in self.patterns}), data)

    def _check_order(self, data: Any) -> None:
        for pattern in self.patterns.values():
            check_order(pattern._draft, data, self._notices)

    def _streamed(
        self, data: Any, budget: Budget | None, past: Any, max_matches: int, stream: dict[str, Any]
    ) -> Any:
        from ensue.front.sql import read_order
        from ensue.run.spark import stream_workload
        from ensue.run.spark.stream_options import StreamOptions

        if "name" in stream:
            raise errors.QueryError(
                "name= names the only pattern of a stream, and the patterns of a workload "
                "already have names",
                remedy="leave name= out",
            )
        history = past.toArrow().combine_chunks() if is_spark(past) else past
        sharing = replace(self.options, max_matches=max_matches)
        asked = stream_workload.Asked(self._queries(), sharing, read_order, budget, history)
        return stream_workload.run(asked, data, StreamOptions.of(stream))

    @timed
    def aggregate(
        self,
        data: Any,
        budget: Budget | None = None,
        *,
        by: str | Sequence[str] = (),
        big: str | None = None,
        as_of: Any = None,
        timeout: Timeout | None = None,
        **aggregates: Any,
    ) -> Any:
        """Aggregates over the matches of each pattern: one row per pattern (and group).

        Without a budget exact, listing no match; with one, over the matches found.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.aggregate(shop, n="count(*)").column("pattern").to_pylist()
            ['bought', 'kept']
        """
        if budget is not None:
            return self._aggregate_found(data, budget, by, as_of, aggregates)
        rows = data if is_spark(data) else to_arrow(data)
        parts = {
            name: pattern.aggregate(rows, by=by, big=big, as_of=now, **aggregates)
            for (name, pattern), now in zip(self.patterns.items(), self._times(as_of), strict=True)
        }
        if is_spark(data):
            from ensue.run.spark import workload as on_spark

            return on_spark.together(parts)
        return in_kind(together(parts), data)

    @timed
    def count(
        self, data: Any, *, as_of: Any = None, timeout: Timeout | None = None
    ) -> dict[str, int]:
        """The number of matches of each pattern, exact at any size; `as_of` is that of `matches`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.count(shop)
            {'bought': 1, 'kept': 1}
        """
        rows = data if is_spark(data) else to_arrow(data)
        return {
            name: pattern.count(rows, as_of=now)
            for (name, pattern), now in zip(self.patterns.items(), self._times(as_of), strict=True)
        }

    def _times(self, as_of: Any) -> list[Any]:
        """Of each pattern: a time is for those that wait for one."""
        return [as_of if proves_absence(p.query) else None for p in self.patterns.values()]

    def show(self, data: Any, rows: int = 20, **options: Any) -> None:
        """Print the matches as a table, in a notebook as HTML; options are those of `matches`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.show(shop)
             pattern   match_number   first   last   events
             ───────────────────────────────────────────────────────
             bought               1       1      3   view 0 · pay 2
             kept                 1       1      2   view 0 · cart 1
            2 rows
        """
        show(self.matches(data, **options), rows)

    def _aggregate_found(
        self,
        data: Any,
        budget: Budget,
        by: str | Sequence[str],
        as_of: Any,
        aggregates: Mapping[str, object],
    ) -> Any:
        names = (by,) if isinstance(by, str) else tuple(by)
        asked = {name: str(text).replace(" ", "").lower() for name, text in aggregates.items()}
        if any(text != "count(*)" for text in asked.values()):
            raise errors.UnsupportedError(
                "under a budget only count(*) is aggregated: sums over the matches that were kept "
                "would not say what is missing",
                remedy="leave the budget out, or aggregate the result of matches(...)",
            )
        listing = {name: pattern._with(measures=None) for name, pattern in self.patterns.items()}
        bare = Workload(listing, self.options)
        found = bare.matches(data, budget, as_of=as_of)
        if is_spark(data):
            from ensue.run.spark import workload as on_spark

            _check_by(names, found.columns)
            return on_spark.counted(found, list(self.patterns), names, list(asked))
        self.report = bare.report
        table = to_arrow(found)
        _check_by(names, table.column_names)
        counts = table.group_by([PATTERN, *names]).aggregate([([], "count_all")])
        known = counts.to_pylist()
        if not names:
            got = {row[PATTERN]: row["count_all"] for row in known}
            known = [{PATTERN: n, "count_all": got.get(n, 0)} for n in self.patterns]
        columns = {n: [row[n] for row in known] for n in (PATTERN, *names)}
        kind = pa.decimal128(38, 0)
        columns |= {n: pa.array([row["count_all"] for row in known]).cast(kind) for n in asked}
        return in_kind(pa.table(columns), data)

    def live(
        self,
        schema: Any,
        budget: Budget | None = None,
        state: Snapshot | None = None,
        *,
        history: Any = None,
    ) -> Any:
        """An in-process operator over rows that arrive in order; patterns can be added and removed.

        `history` teaches it as in `matches`. Rows out of order, and corrections: `matcher`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> live = load.live(shop.schema)
        """
        if budget is not None:
            WORKLOADS.read(budget, self.patterns)
        given.check_state(state)
        kinds = schema_of(schema)
        rules.duplicates(kinds.names, "column of the schema")
        from ensue.api.live import Live

        return Live(self, kinds, budget, state, _history(history, budget, None))

    @known_options
    def matcher(
        self,
        *,
        speculation: Any = 0,
        delay: Any = None,
        id: str | None = None,
        history: Any = 0,
        settle: Any = None,
        schema: pa.Schema | None = None,
        budget: Budget | None = None,
    ) -> Matcher:
        """The patterns over events as they come, in any order, with corrections (docs/matcher.md).

        Options are those of a pattern's `matcher`. Under a `budget` the patterns share their
        partial matches and what is shed of them; `report` says what that cost.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> matcher = load.matcher()
            >>> _ = matcher.insert(shop)
            >>> matcher.advance(10).column("pattern").to_pylist()
            ['bought', 'kept']
        """
        if budget is not None:
            WORKLOADS.read(budget, self.patterns)
        how = Running(speculation, delay, id, history, settle, budget)
        return opened(Asked(self._queries(), sharing=self.options), how, schema)

    def revise(
        self, add: Mapping[str, Pattern] | None = None, remove: Sequence[str] = ()
    ) -> Workload:
        """The workload with patterns added or removed.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> list(load.revise(remove=["kept"]).patterns)
            ['bought']
        """
        for name in remove:
            if name not in self.patterns:
                raise errors.QueryError(
                    f"there is no pattern {name!r} to remove",
                    remedy=f"patterns are: {', '.join(self.patterns)}",
                )
        kept = [(name, p) for name, p in self.patterns.items() if name not in remove]
        weights = {n: w for n, w in self.options.weights.items() if n not in remove}
        return workload([*kept, *(add or {}).items()], weights=weights, seed=self.options.seed)


def _check_by(names: Sequence[str], columns: Sequence[str]) -> None:
    for name in names:
        if name not in columns:
            raise errors.UnknownColumnError(
                f"by names the column {name!r}, which the matches do not have",
                remedy="use columns of partition_by(...)",
            )


def matches_of_one(
    pattern: Pattern, data: Any, budget: Budget, listing: Listing, stream: dict[str, Any]
) -> Any:
    """A pattern by itself under a budget: a workload of one, without the column `pattern`."""
    plain = Listing(seed=listing.seed, max_matches=listing.max_matches, as_of=listing.as_of)
    if listing != plain:
        raise errors.UnsupportedError(
            "timeouts, limit and sample need all matches, and a budget gives only some",
            remedy="leave the budget out, or these options",
        )
    ALONE.read(budget)
    streaming = is_spark(data) and data.isStreaming
    name = stream.pop("name", "pattern") if streaming else _ONE
    if not streaming:
        stream = {"as_of": listing.as_of, **stream}
    found = workload({name: pattern}, seed=listing.seed).matches(
        data, budget, max_matches=listing.max_matches, **stream
    )
    if is_spark(data):
        return found if stream.get("edits") else found.drop(PATTERN)
    return found.drop(columns=[PATTERN]) if hasattr(found, "iloc") else _dropped(found)


def _history(history: Any, budget: Budget | None, data: Any) -> Any:
    """Rows of the past as a table; a DataFrame stays one where the rows to match are one."""
    if history is None:
        return None
    if budget is None:
        raise errors.QueryError(
            "a history teaches what to keep under a budget, and no budget is given",
            remedy="give budget=..., or leave history out",
        )
    if not is_spark(history):
        try:
            return to_arrow(history).combine_chunks()
        except errors.EnsueError as problem:
            raise type(problem)(f"the history: {problem.problem}", remedy=problem.remedy) from None
    return history if is_spark(data) else history.toArrow().combine_chunks()


def _dropped(found: Any) -> Any:
    return found.drop_columns([PATTERN]) if isinstance(found, pa.Table) else found.drop(PATTERN)
