"""The fluent object users hold: a draft of a query, and what can be done with it.

Each call returns a new object; nothing is changed in place and nothing runs until `matches`,
`count` or another verb is called. Which runner works is decided by what is given: a Spark
DataFrame goes to Spark and comes back as one, an Arrow, pandas or Polars table is matched in
process and comes back in kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from ensue import errors
from ensue.api.look import check_frame, data_lines, show, timeline
from ensue.api.matching import LATE, asked_totals, can_observe, matcher_of, summary_of
from ensue.api.order import check_order, key_hint
from ensue.api.row_ids import with_row_ids
from ensue.api.tables import Frame, in_kind, index_names, is_spark, no_stream_options, to_arrow
from ensue.api.tune import settings_lines
from ensue.api.why import Why
from ensue.automaton.plan import Plan, plan
from ensue.automaton.view import Shown, View
from ensue.draw.diagram import Picture
from ensue.draw.table import Explanation
from ensue.draw.timeline import Timeline
from ensue.front import builder
from ensue.front.grammar import parse_pattern
from ensue.front.sase import parse_sase
from ensue.missing.explain import explain_missing
from ensue.operator.as_of import END, asked
from ensue.operator.budget import Budget
from ensue.operator.listing import MAX_MATCHES, Listing
from ensue.query import nodes
from ensue.query.binding import bind
from ensue.query.depth import roomy
from ensue.query.query import Query, Rows
from ensue.query.sql import definitions_sql, query_sql
from ensue.query.words import clauses
from ensue.rows.engine_choice import choose_row_engine
from ensue.rows.engines import AutomatonEngine, Engine
from ensue.rows.explain import explain
from ensue.run import choose, local
from ensue.run.branch import MatcherOptions
from ensue.run.diff import compared, listings
from ensue.run.matcher import Matcher
from ensue.run.timeouts import run as timed_out_rows
from ensue.scalar.fence import fence_of
from ensue.sequences.explain import explain_sequence
from ensue.sequences.limits import check_listing
from ensue.summary.options import SummaryOptions


def pattern(text: str, *, types: str | None = None, trust: str = "all") -> Pattern:
    """A pattern from its text: `ensue.pattern("A B+ C+")`.

    A blank means "the next row". With `types`, a symbol means `types = 'symbol'`, and `define`
    adds to that. Symbols keep their spelling. With `trust="pattern"`, this and all that is said
    later may call the functions of docs/functions.md only (docs/security.md).
    """
    node = parse_pattern(builder.as_text(text, "pattern"))
    return Pattern(builder.Draft(node, types=types, fence=fence_of(trust)))


def sase(text: str, *, types: str = "type", trust: str = "all") -> Pattern:
    """A pattern from SASE text: `SEQ(A a, B+ b[], C c) WHERE [id] AND ... WITHIN 10 minutes`."""
    return Pattern(replace(parse_sase(text, types), fence=fence_of(trust)))


class Pattern(Why):
    """A query in the making; see the module."""

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

    # -- looking at it ---------------------------------------------------------------------------

    @cached_property
    def query(self) -> Query:
        """The frozen query; raises where the parts do not fit together."""
        return self._draft.build()

    @cached_property
    def plan(self) -> Plan:
        return plan(self.query)

    @property
    def program(self) -> Shown:
        """The automaton that recognises the pattern; `.dump()` prints it."""
        return self.plan.automaton

    @roomy
    def sql(self, dialect: str = "spark") -> str:
        """The query as SQL with MATCH_RECOGNIZE."""
        return query_sql(self.query, dialect=dialect)

    @roomy
    def explain(self, data: Any = None) -> str:
        """What would run, where each condition is evaluated, and why; exact with the data given."""
        told = self._explained(data)
        if data is not None:
            told += data_lines(self.query, data) + key_hint(self._draft, data)
        return Explanation(told)

    def _explained(self, data: Any) -> str:
        keys = ", ".join(self.query.partition_by)
        order = ", ".join(key.column for key in self.query.order_by) or "the order of arrival"
        grouped = f"shuffled by {keys}" if keys else "one partition (no partition_by)"
        told = (
            f"{grouped}, sorted by {order} in the worker",
            choose.for_matches(self.query).reason,
        )
        if self.query.missing is not None:
            return explain_missing(self.plan, *told) + settings_lines(data)
        if not self.query.row_semantics:
            return explain_sequence(self.plan, *told) + settings_lines(data)
        engine: Engine | None = None
        planned = self.plan
        if not planned.correlated:
            engine = AutomatonEngine(planned)
        elif data is not None:
            planned, schema = self._prepared(data)
            engine = choose_row_engine(planned, schema)
        return explain(planned, engine, *told) + settings_lines(data)

    def _prepared(self, data: Any) -> tuple[Plan, pa.Schema]:
        if is_spark(data):
            from ensue.run.spark import batch

            return batch.prepared_schema(self.query, data)
        table = to_arrow(data)
        bound = plan(bind(self.query, table.column_names))
        return bound, local.prepare(bound, table.slice(0, 0)).schema

    @roomy
    def plot(self) -> Picture:
        """The automaton as a picture: `.svg`, `.dot`, `.save(path)`."""
        return Picture(self._view())

    def _view(self) -> View:
        return self.program.view().with_conditions(definitions_sql(self.query))

    def show(self, data: Any, rows: int = 20, **options: Any) -> None:
        """Print the matches as a table, in a notebook as HTML; options are those of `matches`."""
        show(self.matches(data, **options), rows)

    def timeline(self, data: Any, value: str | None = None) -> Timeline:
        """The matches drawn over the data: `.svg`, `.save(path)`; `value` is drawn as a line."""
        return timeline(self, data, value)

    def studio(self, data: Any = None, **options: Any) -> Any:
        """The pattern and the data in the studio (docs/studio.md).

        A widget in Jupyter and marimo. Elsewhere a page in the browser, `port=` and `browser=`
        say how, until `.stop()`.
        """
        # A layer above this one, so found by name when it is asked for.
        return import_module("ensue.studio.widget").open_studio(self, data, **options)

    def with_row_ids(self, data: Any, name: str = "row") -> Any:
        """The data with the number of each row in its partition: what `events.row` says."""
        return with_row_ids(self.query, data, name)

    def _repr_svg_(self) -> str:
        return self.plot().svg

    def __repr__(self) -> str:
        try:
            said = clauses(self.query)
        except errors.EnsueError:  # its parts do not fit together (yet)
            said = [nodes.pattern_text(self._draft.meant, folds=False)]
        return f"<ensue pattern: {'; '.join(said)}>"

    @roomy
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.query == other.query

    @roomy
    def __hash__(self) -> int:
        return hash(self.query)

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
        self,
        data: str | Path,
        budget: Budget | None = None,
        timeouts: bool = False,
        **options: Any,
    ) -> pa.Table: ...
    @overload
    def matches(
        self, data: Any, budget: Budget | None = None, timeouts: bool = False, **options: Any
    ) -> Any: ...
    @roomy
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
        **stream: Any,
    ) -> Any:
        """All matches in `data`, in the kind of table that was given.

        A streaming DataFrame takes further options (`emit`, `speculation`, `late`, `changes`,
        `lanes`, `control`, ...): docs/streaming.md. `timeouts` adds partial matches that ran out of
        time, or are still open at `as_of` (docs/sequences.md). Of an event pattern: the first
        `limit`, or `sample` of them drawn uniformly at random (with replacement). More than
        `max_matches` in one task is an error that says how many there are. `compact` gives one row
        per end event with the graph of its matches, which `ensue.expand` lists.

        `observe`, a `pyspark.sql.Observation`, is told what a budget gave up on Spark.
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
                        "sample= draws from all matches, and a stream has no last one",
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
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            if query.row_semantics and timeouts:
                return in_kind(timed_out_rows(query, table, now, self._notices), data)
            return in_kind(local.run(query, table, listing, budget, self._notices), data)
        except (errors.UnknownColumnError, errors.UnknownVariableError) as problem:
            raise self._draft.placed(problem, index_names(data)) from None

    def recover(self, data: Any, found: Any) -> Any:
        """All matches around those that a budget found: of the match bundles in which they lie.

        `found` is what `matches(data, budget=...)` gave, in process; only the stretches of `data`
        around these matches are matched again, without a budget.
        """
        if is_spark(data):
            raise errors.UnsupportedError(
                "recover() runs in process",
                remedy="collect the keys in question with toArrow(), and recover those",
            )
        return in_kind(local.recover(self.query, to_arrow(data), to_arrow(found)), data)

    def count(self, data: Any) -> int:
        """The number of matches over all partitions, exact at any size."""
        if self.query.row_semantics:
            listing = self._plain()
            listing._notices = self._notices
            if not is_spark(data):
                return len(listing.matches(to_arrow(data)))
            found = listing.matches(data)
            from ensue.run.spark.raised import count

            return self._checked(count(found), data)
        counted = self.aggregate(data, big="text", n="count(*)")
        if is_spark(data):
            from ensue.run.spark.raised import first

            return self._checked(int(first(counted)["n"]), data)
        return int(to_arrow(counted).column("n")[0].as_py())

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
        **aggregates: object,
    ) -> Frame: ...
    @overload
    def aggregate(self, data: str | Path, **options: Any) -> pa.Table: ...
    @overload
    def aggregate(self, data: Any, **options: Any) -> Any: ...
    @roomy
    def aggregate(
        self,
        data: Any,
        *,
        by: str | Sequence[str] = (),
        every: str | int | None = None,
        slide: str | int | None = None,
        big: str | None = None,
        **aggregates: object,
    ) -> Any:
        """Aggregates over all matches, never listing them: `n="count(*)", total="sum(B.x)"`.

        One row, or one per group: `by` partition columns, and windows of time (`every`, and every
        `slide`) over the end of a match. Counts and sums of integers are exact: decimal(38,0), or
        text of any size with `big="text"`. On a stream, its options go beside (docs/streaming.md).
        """
        stream: dict[str, Any] = {}
        if is_spark(data) and data.isStreaming:
            from ensue.run.spark.stream_options import StreamOptions

            stream = {n: aggregates.pop(n) for n in StreamOptions.names() if n in aggregates}
        query, grouping = asked_totals(self._draft, aggregates, by, every, slide, big)
        try:
            if is_spark(data):
                from ensue.run.spark import batch

                if data.isStreaming:
                    from ensue.run.spark import stream as streams

                    return streams.totals(query, data, grouping, StreamOptions.of(stream))
                check_order(self._draft, data, self._notices)
                return batch.totals(query, data, grouping)
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            return in_kind(local.totals(query, table, grouping, self._notices), data)
        except (errors.UnknownColumnError, errors.UnknownVariableError) as problem:
            raise self._draft.placed(problem, index_names(data)) from None

    @roomy
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
        **stream: Any,
    ) -> Any:
        """Aggregates over all matches from at most `size` retained events (docs/summaries.md).

        Without data a `Summary` to insert into; with a table a `Summary` of it; with a Spark
        DataFrame a DataFrame of one row per key. A streaming one takes further options
        (docs/streaming.md). In process, `speculation`, `delay` or `id` make it take events in any
        order, and corrections; they mean what they mean to `matcher`.
        """
        query = self.query
        if query.missing is not None:
            raise errors.UnsupportedError(
                "summarize() does not go with allow_missing: it counts exact matches",
                remedy="use aggregate(...) or matches(...), or leave allow_missing out",
            )
        asked = None if total is None else self._draft.total(total, query)
        options = SummaryOptions(
            size, select, asked, total, probabilities, equal, budget, seed, detect, counts
        )
        if is_spark(data):
            from ensue.run.spark import summary as on_spark

            if data.isStreaming:
                from ensue.run.spark import stream as streams
                from ensue.run.spark.stream_options import StreamOptions

                return streams.summaries(query, options, data, StreamOptions.of(stream))
            no_stream_options(stream, self.summarize)
            check_order(self._draft, data, self._notices)
            return on_spark.run(query, options, data)
        how = {name: stream.pop(name) for name in LATE if name in stream}
        no_stream_options(stream, self.summarize)
        summary = summary_of(query, options, how)
        return summary if data is None else summary.insert(data)

    @roomy
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
    ) -> Matcher:
        """The pattern over events as they come, in any order, with corrections (docs/matcher.md).

        `speculation` (σ): 0 answers when the watermark has passed and never takes anything back,
        `math.inf` at once, a length of time in between. The watermark comes from `advance`, or
        follows the newest event at a `delay`. `id` is a column that names an event, `history` how
        long events stay known behind the watermark. `settle` holds changes back until the watermark
        is that near to the events that decided them. Under a `budget`, matches may be missing.

        `aggregate={"n": "count(*)"}` gives changes of totals in place of matches; `by`, `every`,
        `slide` and `big` are those of `aggregate`.
        """
        options = MatcherOptions(speculation, delay, id, history, settle, budget)
        groups = (by, every, slide, big)
        return matcher_of(self._draft, self.query, options, aggregate, groups, name, schema)

    def diff(self, new: Pattern, data: Any) -> Any:
        """Matches that would appear ('+') and disappear ('-') if `new` replaced this pattern.

        A dry run on given data: nothing is changed. Measures are left out of the comparison.
        """
        before, after = listings(self.query, new.query)
        if is_spark(data):
            from ensue.run.spark import diff as on_spark

            check_order(self._draft, data, self._notices)
            check_order(new._draft, data, self._notices)
            return on_spark.run(before, after, data)
        table = to_arrow(data)
        return in_kind(compared(local.run(before, table), local.run(after, table)), data)
