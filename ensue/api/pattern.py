"""The fluent object users hold: a draft of a query, and what can be done with it.

Each call returns a new object; nothing is changed in place and nothing runs until `matches`,
`count` or another verb is called. Which runner works is decided by what is given: a Spark
DataFrame goes to Spark and comes back as one, an Arrow, pandas or Polars table is matched in
process and comes back in kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from ensue import errors
from ensue.api.files import parquet_path
from ensue.api.look import check_frame, show, timeline
from ensue.api.looking import Looking
from ensue.api.matching import LATE, asked_totals, can_observe, filled, matcher_of, summary_of
from ensue.api.order import check_order
from ensue.api.tables import Frame, in_kind, index_names, is_spark, no_stream_options, to_arrow
from ensue.draw.timeline import Timeline
from ensue.front import builder
from ensue.front.grammar import parse_pattern
from ensue.front.sase import parse_sase
from ensue.operator.as_of import END, asked, unsaid
from ensue.operator.budget import Budget
from ensue.operator.digits import number_of
from ensue.operator.listing import MAX_MATCHES, Listing
from ensue.query.depth import roomy
from ensue.query.options import known_options
from ensue.query.query import Query, Rows
from ensue.query.timeout import Timeout, timed
from ensue.run import local, streamed
from ensue.run.branch import MatcherOptions
from ensue.run.diff import compared, listings
from ensue.run.matcher import Matcher
from ensue.run.timeouts import run as timed_out_rows
from ensue.scalar.fence import fence_of
from ensue.sequences.limits import check_listing
from ensue.summary.options import SummaryOptions


@known_options
def pattern(text: str, *, types: str | None = None, trust: str = "all") -> Pattern:
    """A pattern from its text: `ensue.pattern("A B+ C+")`.

    A blank means "the next row". With `types`, a symbol means `types = 'symbol'`, and `define`
    adds to that. Symbols keep their spelling. With `trust="pattern"`, this text and all later ones
    may call only the functions of docs/functions.md (docs/security.md).

    Examples:
        >>> import ensue, pyarrow as pa
        >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
        >>> ensue.pattern("view -> pay", types="kind").order_by("ts").count(shop)
        1
    """
    node = parse_pattern(builder.as_text(text, "pattern"))
    return Pattern(builder.Draft(node, types=types, fence=fence_of(trust)))


@known_options
def sase(text: str, *, types: str = "type", trust: str = "all") -> Pattern:
    """A pattern from SASE text: `SEQ(A a, B+ b[], C c) WHERE [id] AND ... WITHIN 10 minutes`.

    Examples:
        >>> shop = pa.table({"ts": [1, 2], "type": ["view", "pay"], "user": [7, 7]})
        >>> ensue.sase("SEQ(view v, pay p) WHERE [user] WITHIN 10").order_by("ts").count(shop)
        1
    """
    return Pattern(replace(parse_sase(text, types), fence=fence_of(trust)))


class Pattern(Looking):
    """A query in the making; see the module.

    Examples:
        >>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [9, 8, 7, 8]})
        >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
        >>> falls.measures(low="LAST(down.price)").matches(ticks).to_pylist()
        [{'low': 7}]
    """

    def _plain(self) -> Pattern:
        """The same pattern without measures: its matches are listed."""
        return Pattern(replace(self._draft, measures=None, rows=Rows.ONE))

    @classmethod
    def _of(cls, query: Query) -> Pattern:
        """A query that was read elsewhere (SQL), to look at."""
        found = cls(
            builder.Draft(query.pattern, partition_by=query.partition_by, order_by=query.order_by)
        )
        found.query = query
        return found

    @roomy
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.query == other.query

    @roomy
    def __hash__(self) -> int:
        return hash(self.query)

    def show(self, data: Any, rows: int = 20, **options: Any) -> None:
        """Print the matches as a table, in a notebook as HTML; options are those of `matches`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.measures(took="LAST(ts) - FIRST(ts)").show(shop)
             took
             ────
                2
            1 row
        """
        show(self.matches(data, **options), rows)

    @timed
    def timeline(
        self, data: Any, value: str | None = None, *, timeout: Timeout | None = None
    ) -> Timeline:
        """The matches drawn over the data: `.svg`, `.save(path)`; `value` is drawn as a line.

        Examples:
            >>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [9, 8, 7, 8]})
            >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
            >>> falls.timeline(ticks, value="price").svg[:4]
            '<?xm'
        """
        return timeline(self, data, value)

    # -- running it ------------------------------------------------------------------------------

    @overload
    def matches(
        self,
        data: Frame,
        budget: Budget | None = None,
        timeouts: bool = False,
        *,
        limit: int | None = None,
        sample: int | None = None,
        seed: int = 0,
        max_matches: int = MAX_MATCHES,
        compact: bool = False,
        observe: Any = None,
        as_of: Any = None,
        **stream: Any,
    ) -> Frame: ...
    @overload
    def matches(
        self, data: str | Path, budget: Budget | None = None, timeouts: bool = False, **options: Any
    ) -> pa.Table: ...
    @overload
    def matches(
        self, data: Any, budget: Budget | None = None, timeouts: bool = False, **options: Any
    ) -> Any: ...
    @roomy
    @timed
    def matches(
        self,
        data: Any,
        budget: Budget | None = None,
        timeouts: bool = False,
        *,
        limit: int | None = None,
        sample: int | None = None,
        seed: int = 0,
        max_matches: int = MAX_MATCHES,
        compact: bool = False,
        observe: Any = None,
        as_of: Any = None,
        timeout: Timeout | None = None,
        **stream: Any,
    ) -> Any:
        """All matches in `data`, as the same kind of table.

        A streaming DataFrame takes further options (`emit`, `speculation`, `late`, `changes`,
        `lanes`, `control`, ...): docs/streaming.md. `timeouts` adds partial matches that ran out of
        time, or are still open at `as_of` (docs/sequences.md). Of an event pattern: the first
        `limit`, or `sample` of them drawn uniformly at random (with replacement). More than
        `max_matches` in one task is an error that says how many there are. `compact` gives one row
        per end event with the graph of its matches, which `ensue.expand` lists.

        `observe`, a `pyspark.sql.Observation`, receives what a budget gave up on Spark. A run that
        takes longer than `timeout` ("30 s", a timedelta or seconds) ends with a `TimeLimitError`;
        on Spark that is the time of one task.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.matches(shop).select(["first", "last"]).to_pylist()
            [{'first': 1, 'last': 3}]
        """
        query = self.query
        if observe is not None:
            can_observe(data, (query,), budget)
        now = asked(query, timeouts, as_of, is_spark(data) and data.isStreaming)
        listing = Listing(timeouts, limit, sample, seed, max_matches, compact, now)
        check_listing(listing)
        if budget is not None and query.missing is None:
            from ensue.api.workload import matches_of_one

            told = {} if observe is None else {"observe": observe}
            return matches_of_one(self, data, budget, listing, stream | told)
        if query.row_semantics and replace(listing, timeouts=False, as_of=END) != Listing(
            seed=seed, max_matches=max_matches
        ):
            raise errors.UnsupportedError(
                "row patterns have no limit, sample or compact form",
                remedy="leave limit, sample and compact out, or write an event pattern (->)",
            )
        try:
            if is_spark(data):
                from ensue.run.spark import batch

                if sample is not None and data.isStreaming:
                    raise errors.UnsupportedError(
                        "sample= draws from all matches, and a stream never ends",
                        remedy="use limit=..., or q.aggregate(...) on the DataFrame",
                    )
                if data.isStreaming:
                    from ensue.front.sql import read_order
                    from ensue.run.spark import stream as streams
                    from ensue.run.spark.stream_options import StreamOptions

                    options = StreamOptions.of(stream)
                    return streams.run(query, data, options, listing, read_order, budget)
                no_stream_options(stream, self.matches)
                check_order(self._draft, data, self._notices)
                if query.row_semantics and timeouts:
                    from ensue.run.spark.timeouts import run as timed_out

                    return timed_out(query, data, now)
                found = batch.run(query, data, listing, budget, observe)
                return found if limit is None else found.limit(limit)
            no_stream_options(stream, self.matches)
            if not timeouts and (path := parquet_path(data)) is not None:
                read = streamed.run(query, path, self._notices, to_arrow)
                if read is not None:
                    return read
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            if query.row_semantics and timeouts:
                return in_kind(timed_out_rows(query, table, now, self._notices), data)
            return in_kind(local.run(query, table, listing, budget, self._notices), data)
        except (errors.UnknownColumnError, errors.UnknownVariableError) as problem:
            raise self._draft.placed(problem, index_names(data)) from None

    @timed
    def recover(self, data: Any, found: Any, *, timeout: Timeout | None = None) -> Any:
        """All matches around those that a budget found: those in the same match bundles.

        `found` is what `matches(data, budget=...)` gave, in process; only the stretches of `data`
        around these matches are matched again, without a budget.

        Examples:
            >>> many = pa.table({"ts": range(6), "kind": list("aaabbb")})
            >>> q = ensue.pattern("a ->> b", types="kind").order_by("ts").within(9).allow_missing(0)
            >>> few = q.matches(many, ensue.Budget(work=2))
            >>> q.recover(many, few).num_rows
            9
        """
        if is_spark(data):
            raise errors.UnsupportedError(
                "recover() runs in process",
                remedy="collect the keys in question with toArrow(), and recover those",
            )
        return in_kind(local.recover(self.query, to_arrow(data), to_arrow(found)), data)

    @timed
    def count(self, data: Any, *, as_of: Any = None, timeout: Timeout | None = None) -> int:
        """The number of matches over all partitions, exact at any size.

        `as_of` is the time that is known to have passed, for a final `!x` that waits for it.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.count(shop)
            1
        """
        if self.query.row_semantics:
            name = "n" + "_" * max(map(len, self.query.partition_by), default=0)  # none of theirs
            listing = self._plain().measures(**{name: "1"})  # nothing of a match is kept
            listing._notices = self._notices
            if not is_spark(data):
                return len(listing.matches(to_arrow(data), as_of=as_of))
            from ensue.run.spark.raised import count

            return self._checked(count(listing.matches(data, as_of=as_of)), data)
        counted = self.aggregate(data, big="text", as_of=as_of, n="count(*)")
        if is_spark(data):
            from ensue.run.spark.raised import first

            return self._checked(number_of(first(counted)["n"]), data)
        return number_of(to_arrow(counted).column("n")[0].as_py())

    def _checked(self, number: int, data: Any) -> int:
        """Warn where a DataFrame has no match and one aggregate over it says why."""
        if number == 0 and not data.isStreaming:
            check_frame(self.query, data, self._notices)
        return number

    @overload
    def aggregate(
        self,
        data: Frame,
        *,
        by: str | Sequence[str] = (),
        every: str | int | None = None,
        slide: str | int | None = None,
        big: str | None = None,
        as_of: Any = None,
        timeout: Timeout | None = None,
        **aggregates: object,
    ) -> Frame: ...
    @overload
    def aggregate(self, data: str | Path, **options: Any) -> pa.Table: ...
    @overload
    def aggregate(self, data: Any, **options: Any) -> Any: ...
    @roomy
    @timed
    def aggregate(
        self,
        data: Any,
        *,
        by: str | Sequence[str] = (),
        every: str | int | None = None,
        slide: str | int | None = None,
        big: str | None = None,
        as_of: Any = None,
        timeout: Timeout | None = None,
        **aggregates: object,
    ) -> Any:
        """Aggregates over all matches, never listing them: `n="count(*)", total="sum(B.x)"`.

        One row, or one per group: `by` partition columns, and windows of time (`every`, and every
        `slide`) over the end of a match. Counts and sums of integers are exact: decimal(38,0), or
        text of any size with `big="text"`. A stream takes its own options as well
        (docs/streaming.md). `as_of` is that of `count`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.aggregate(shop, n="count(*)", total="sum(pay.ts)").to_pylist()
            [{'n': Decimal('1'), 'total': Decimal('3')}]
        """
        stream: dict[str, Any] = {}
        if is_spark(data) and data.isStreaming:
            from ensue.run.spark.stream_options import StreamOptions

            stream = {n: aggregates.pop(n) for n in StreamOptions.names() if n in aggregates}
        query, grouping = asked_totals(self._draft, aggregates, by, every, slide, big)
        now = asked(query, False, as_of, is_spark(data) and data.isStreaming)
        try:
            if is_spark(data):
                from ensue.run.spark import batch

                if data.isStreaming:
                    from ensue.run.spark import stream as streams

                    return streams.totals(query, data, grouping, StreamOptions.of(stream))
                check_order(self._draft, data, self._notices)
                return batch.totals(query, data, grouping, now)
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            return in_kind(local.totals(query, table, grouping, self._notices, now), data)
        except (errors.UnknownColumnError, errors.UnknownVariableError) as problem:
            raise self._draft.placed(problem, index_names(data)) from None

    @roomy
    @timed
    def summarize(
        self,
        data: Any = None,
        *,
        size: int,
        select: str = "benefit",
        total: str | None = None,
        probabilities: Mapping[str, float] | None = None,
        equal: Mapping[str, Sequence[str]] | None = None,
        budget: int | None = None,
        seed: int = 0,
        detect: bool = False,
        counts: str = "decimal",
        timeout: Timeout | None = None,
        **stream: Any,
    ) -> Any:
        """Aggregates over all matches from at most `size` retained events (docs/summaries.md).

        Without data a `Summary` to insert into; with a table a `Summary` of it; with a Spark
        DataFrame a DataFrame of one row per key. A streaming one takes further options
        (docs/streaming.md). In process, `speculation`, `delay` or `id` make it take events in any
        order, and corrections; they mean the same as for `matcher`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view ->> pay", types="kind").order_by("ts").within(10)
            >>> summary = q.summarize(size=100)
            >>> _ = summary.insert(shop)
            >>> summary.count()
            1
        """
        query = self.query
        if query.missing is not None:
            raise errors.UnsupportedError(
                "summarize() does not go with allow_missing: it counts exact matches",
                remedy="use aggregate(...) or matches(...), or leave allow_missing out",
            )
        of = None if total is None else self._draft.total(total, query)
        how = (probabilities, equal, budget, seed, detect, counts)
        options = SummaryOptions(size, select, of, total, *how)
        if is_spark(data):
            from ensue.run.spark import summary as on_spark

            if data.isStreaming:
                from ensue.run.spark import stream as streams
                from ensue.run.spark.stream_options import StreamOptions

                return streams.summaries(query, options, data, StreamOptions.of(stream))
            no_stream_options(stream, self.summarize)
            check_order(self._draft, data, self._notices)
            return on_spark.run(query, options, data)
        late = {name: stream.pop(name) for name in LATE if name in stream}
        no_stream_options(stream, self.summarize)
        summary = summary_of(query, options, late)
        return summary if data is None else filled(summary, self._draft, data, self._notices)

    @roomy
    @known_options
    def matcher(
        self,
        *,
        aggregate: Mapping[str, object] | None = None,
        by: str | Sequence[str] = (),
        every: str | int | None = None,
        slide: str | int | None = None,
        big: str | None = None,
        speculation: Any = 0,
        delay: Any = None,
        id: str | None = None,
        history: Any = 0,
        settle: Any = None,
        name: str | None = None,
        schema: pa.Schema | None = None,
        budget: Budget | None = None,
        timeouts: bool = False,
    ) -> Matcher:
        """The pattern over events as they come, in any order, with corrections (docs/matcher.md).

        `speculation` (σ): 0 answers once the watermark has passed and never withdraws anything,
        `math.inf` at once, a length of time in between. The watermark comes from `advance`, or
        follows the newest event at a `delay`. `id` is a column that names an event, `history` how
        long events stay known behind the watermark. `settle` holds changes back until the watermark
        is that close to the events that decided them. Under a `budget`, matches may be missing.
        `timeouts` adds partial ones that ran out of time, with a `status`.

        `aggregate={"n": "count(*)"}` gives changes of totals in place of matches; `by`, `every`,
        `slide` and `big` are those of `aggregate`.

        Examples:
            >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
            >>> matcher = ensue.pattern("a ->> b", types="kind").order_by("ts").within(9).matcher()
            >>> _ = matcher.insert(events)
            >>> matcher.advance(3).column("op").to_pylist()
            ['+']
        """
        options = MatcherOptions(speculation, delay, id, history, settle, budget, timeouts)
        groups = (by, every, slide, big)
        return matcher_of(self._draft, self.query, options, aggregate, groups, name, schema)

    @timed
    def diff(self, new: Pattern, data: Any, *, timeout: Timeout | None = None) -> Any:
        """Matches that would appear ('+') and disappear ('-') if `new` replaced this pattern.

        A dry run on given data: nothing is changed. Measures are left out of the comparison.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> soon = q.within(1)
            >>> q.diff(soon, shop).column("op").to_pylist()
            ['-']
        """
        before, after = listings(self.query, new.query)
        if is_spark(data):
            from ensue.run.spark import batch

            check_order(self._draft, data, self._notices)
            check_order(new._draft, data, self._notices)
            return batch.difference(before, after, data)
        table = to_arrow(data)
        found = [local.run(q, table, Listing(as_of=unsaid(q))) for q in (before, after)]
        return in_kind(compared(*found), data)
