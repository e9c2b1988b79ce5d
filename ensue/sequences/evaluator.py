"""Event patterns behind the operator protocol: all matches under their selection policies.

The pattern is an automaton of waiting places (`automaton/sequence.py`) made deterministic over what
a match does with each event (`automaton/subsets.py`), so that every match is one path. Partial
matches that behave alike are followed as one class and share their events in a graph
(`runs.py`): the work per event does not depend on how many partial matches there are, and
memory is that of the events, not of the matches. Matches are read off the graph at the end, lazily:
each costs its own length.

A partition may come in pieces: a match is reported with the piece that settles it, and the columns
are those of the whole (`match_number` goes on, rows are counted from the partition's start). What
is held in between, and how, is said in `operator/hold.py`. `advance` settles what only time can
settle (a trailing "not", time-outs) and lets go of rows that have left the window. Any cutting into
pieces, through snapshots or not, gives the rows of one run.

Aggregates over all matches come in pieces too: `sequence_pieces.TotalsInPieces` gives partials per
piece, in the form that `sequence_totals.Finish` adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.subsets import Subsets
from ensue.operator.hold import Carried, Piece, cut_piece
from ensue.operator.listing import Listing
from ensue.operator.pieces import InPieces
from ensue.operator.protocol import Capabilities, Events, Metrics, Output, Snapshot
from ensue.operator.status import MATCHED, OPEN, TIMEOUT
from ensue.query.query import Query, Rows, SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.compact import Subgraphs, compact_table, subgraphs
from ensue.sequences.counts import count_partitions, countable
from ensue.sequences.guards import Guards
from ensue.sequences.limits import check_unbounded
from ensue.sequences.listing import Collector, drawn, listed, too_many, total
from ensue.sequences.machine import EventMachine, GuardOverflowError, event_machine
from ensue.sequences.match_graph import (
    Effort,
    Graph,
    Stretch,
    list_roots,
    list_with_timeouts,
    list_within,
    row_local_graph,
)
from ensue.sequences.output import Found
from ensue.sequences.output import Output as Columns
from ensue.sequences.runs import GraphAlgebra, Node, Runs
from ensue.sequences.samples import draw
from ensue.sequences.strategy import Chosen, all_matches

COMPACT = "the compact match graph"
CHUNK = 1 << 14  # matches per output table
STATUSES = np.array([MATCHED, TIMEOUT, TIMEOUT, OPEN], object)  # by the kind of root
MANY = 1 << 18  # once so many are listed, all are counted, to know early whether they are too many


def supports(query: Query) -> str | None:
    """Why this evaluator cannot run the query; None where it can."""
    if query.row_semantics:
        return "a pattern without arrows and select() has row semantics"
    if query.rows is Rows.ALL_WITH_UNMATCHED:
        return "events between two steps are not unmatched rows: they are left out on purpose"
    return None


def keeps_first(query: Query) -> bool:
    """Whether classes are distinguished by their first row."""
    return query.within is not None or query.skip.mode is not SkipMode.NONE


class SequencesEvaluator(InPieces):
    """See the module; one instance per task."""

    name = "the event sequence evaluator"
    capabilities = Capabilities(ordered_input=True)
    no_budget = (
        "the event sequence evaluator is exact and takes no budget",
        "leave the budget out; q.aggregate and q.count never list the matches",
    )

    def __init__(
        self,
        listing: Listing | None = None,
        carried: tuple[str, ...] = (),
        seed: int | str | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._carried = carried
        self._seed = seed
        self.drawn_from = 0  # matches that the last sample was drawn from
        self._listing = listing or Listing()
        self._reported = 0
        self._timed_out = 0
        self.effort: Effort | None = None  # where it is to be noted

    @property
    def compiled(self) -> bool:
        """Whether kernels follow the partial matches, and not plain Python."""
        return self._machine is not None or (
            self.engine == COMPACT and not self._subsets.automaton.absences
        )

    @property
    def thinnable(self) -> bool:
        """Whether its graphs can leave out rows at which matches begin."""
        return self._machine is not None and self._machine.start_labels != 0

    def _begin(self, plan: Plan, schema: pa.Schema, state: Snapshot | None) -> None:
        reason = supports(plan.query)
        if reason:
            raise errors.UnsupportedError(reason, remedy="see q.explain()")
        self._subsets = Subsets(compile_sequence(plan.query))
        bounded = plan.query.within is not None or self._subsets.automaton.bounds
        if self._listing.timeouts and not bounded:
            raise errors.QueryError(
                "timeouts=True asks for partial matches that ran out of time, but there is no "
                "within(...)",
                remedy="add within('1 hour'), or leave timeouts out",
            )
        chooses = (self._listing.limit, self._listing.sample, self._listing.compact or None)
        if plan.query.rows.all_rows and any(choice is not None for choice in chooses):
            raise errors.QueryError(
                "limit, sample and compact choose matches, and ALL ROWS PER MATCH lists their rows",
                remedy='leave them out, or leave rows_per_match("all rows") out',
            )
        if self._listing.compact and plan.query.measures is not None:
            raise errors.QueryError(
                "compact=True keeps the matches of an end event together, and measures belong to "
                "a single one",
                remedy="leave measures out, or expand the rows with ensue.expand(row['graph'])",
            )
        self._open(plan, schema, state)
        self._machine: EventMachine | None = None
        self._lister: EventMachine | None = None  # of the matches that a strategy chooses from
        self.engine = COMPACT
        if not countable(plan, self._subsets) or self._listing.timeouts:
            found = event_machine(plan, self._subsets, schema, self._listing.timeouts)
            if isinstance(found, str):
                self.engine = found
            elif self._listing.timeouts and self._listing.compact:
                self.engine = "a graph of matches has no time-outs"
            elif self._listing.timeouts and plan.query.skip.mode is not SkipMode.NONE:
                self.engine = "an after-match strategy beside time-outs goes by starts"
            elif plan.query.skip.mode is SkipMode.NONE:
                self._machine, self.engine = found, "compiled classes"
            else:
                self._lister, self.engine = found, "an after-match strategy goes by starts"
        self._columns = Columns(plan, self._listing.timeouts, carried=self._carried)

    def copy(self) -> Self:
        made = type(self)(self._listing, self._carried, self._seed)
        made.open(self._plan, self._schema)
        made._tails.held.update(self._tails.held)
        return made

    def take_over(self, other: SequencesEvaluator, change: Callable[[pa.Table], pa.Table]) -> None:
        """Read the rows that another pattern holds: its partial matches begin again here.

        What these rows alone would match was emitted by the other pattern, or came before this one.
        """
        before = {key: held for key, held in other.tails.held.items() if held.length}
        if not before:
            return
        events = other.tails.packed(list(before))
        rows = change(events.table).select(self._schema.names)
        for _ in self._insert(replace(events, table=rows)):
            pass
        for key, held in self._tails.held.items():
            held.base += before[key].base
            held.matches = before[key].matches

    # -- protocol --------------------------------------------------------------------------------

    def no_matches(self, schema: pa.Schema) -> pa.Table:
        """The output of no matches: its columns and types."""
        batch = EventBatch(self._plan, self._subsets, schema.empty_table(), np.zeros(1, np.int64))
        if self._listing.compact:
            return compact_table(self._plan, batch, [])
        return self._columns.table(batch, Found())

    def insert_cut(
        self, events: Events, fresh: NDArray[np.int64], base: NDArray[np.int64]
    ) -> Output:
        """Stretches of one long sequence, each with the rows of the window before it.

        `fresh` is the first row of each that is its own: matches that end before it belong to the
        stretch before. `base` numbers the first row of each inside the sequence.
        """
        self.metrics.rows += events.table.num_rows
        return Output(self._run(cut_piece(events, fresh, base)))

    # -- work ------------------------------------------------------------------------------------

    def _run(self, piece: Piece, time: float | None = None) -> Iterator[pa.Table]:
        """Matches what can be decided of a piece, and holds what cannot."""
        floors = None if time is None else self._clock.floors(piece, time, self._plan.lookahead)
        reach = piece.reach(self._plan.lookahead, floors)
        if self._listing.per_call:
            self._reported = self._timed_out = 0
        if self._listing.sample is not None:  # drawn from all matches of a partition at once
            stops = np.where(piece.complete, reach.stops, reach.begins)
            reach = replace(reach, stops=stops, floors=np.minimum(reach.floors, stops))
        batch = EventBatch(self._plan, self._subsets, piece.table, piece.starts, reach)
        live = reach.stops.copy()
        matches = piece.matches.copy()
        carried = None
        if self._plan.query.skip.mode is not SkipMode.NONE:
            carried = [piece.carried(index) for index in range(len(piece.complete))]
        yield from self._match(batch, live, matches, carried)
        self._tails.keep(piece, reach, live, matches, carried)

    def _match(
        self,
        batch: EventBatch,
        live: NDArray[np.int64],
        matches: NDArray[np.int64],
        carried: list[Carried] | None,
    ) -> Iterator[pa.Table]:
        """Tables of matches; `live`, `matches` and `carried` are brought up to date."""
        if self._listing.sample is not None:
            yield from self._sampled(batch, self._listing.sample)
            return
        try:
            graph = self._graph_of(batch, live)
            if graph is not None and self.effort is not None:
                graph.effort = self.effort
                self.effort.follow(graph, batch)
            if graph is not None and self._listing.compact:
                yield from self._graphs(batch, graph.stretches(self._most(), subgraphs))
                return
            if graph is not None:
                lister = list_within if self._listing.limit is None else list_roots
                lister = list_with_timeouts if self._listing.timeouts else lister
                yield from self._compact(batch, graph.stretches(self._most(), lister), matches)
                return
        except GuardOverflowError as problem:
            self._machine = None  # numbers beyond 64 bits: plain Python from here on
            batch = _from(batch, problem.partition, problem.row)
        if self._listing.compact:
            raise errors.UnsupportedError(
                "compact=True needs the compiled engines, and here matches are followed in plain "
                f"Python: {self.engine}",
                remedy="leave compact out; q.explain() says which engine runs",
            )
        every = None
        if self._lister is not None:
            check_unbounded(self._plan, int(np.diff(batch.starts).max(initial=0)))
            every = all_matches(self._plan.query, self._lister, batch)
        if every is not None:
            yield from self._chosen(batch, every, matches, carried)
            return
        yield from self._by_classes(batch, live, matches, carried)

    def _graph_of(self, batch: EventBatch, live: NDArray[np.int64]) -> Graph | None:
        """The compiled graph that lists the batch; None: plain Python does."""
        if not self._listing.timeouts and countable(self._plan, self._subsets):
            return row_local_graph(batch, self._subsets, live)
        if self._machine is None or not len(batch.reach.begins):
            return None
        return self._machine.graph(batch, live)

    def _chosen(
        self,
        batch: EventBatch,
        every: Chosen,
        matches: NDArray[np.int64],
        carried: list[Carried] | None,
    ) -> Iterator[pa.Table]:
        """Tables of the matches that an after-match strategy takes."""
        limit, most = self._listing.limit, self._listing.max_matches
        strategies = carried or [Carried() for _ in matches]
        picks: list[int] = []
        for partition, strategy in enumerate(strategies):
            for match in every.of(partition, strategy):
                if limit is not None and self._reported + len(picks) >= limit:
                    break
                picks.append(match)
        if self._reported + len(picks) > most:
            raise self._too_many(batch, self._reported, 0)
        self._reported += len(picks)
        self.metrics.matches += len(picks)
        for begin in range(0, len(picks), CHUNK):
            stretch = every.stretch(np.array(picks[begin : begin + CHUNK], np.int64))
            yield self._columns.table(batch, _joined([stretch], batch, matches))

    def _by_classes(
        self,
        batch: EventBatch,
        live: NDArray[np.int64],
        matches: NDArray[np.int64],
        carried: list[Carried] | None,
    ) -> Iterator[pa.Table]:
        """In plain Python: absences, strategies in pieces, and what is too hard."""
        found = Found()
        query, most = self._plan.query, self._listing.max_matches
        counts = query.skip.mode is SkipMode.NONE and self._listing.limit is None
        before, timed_out = self._reported, self._timed_out
        for partition, collected in enumerate(self.collect(batch)):
            strategy = None if carried is None else carried[partition]
            number = int(matches[partition])
            if counts and self._listed() + total(query, collected, None) > most:
                raise self._too_many(batch, before, timed_out)  # before any of them is listed
            for pairs, status in listed(query, collected, strategy):
                limit = self._listing.limit
                if limit is not None and self._listed() >= limit:
                    break
                if self._listed() >= most:
                    raise self._too_many(batch, before, timed_out)
                if status == MATCHED:
                    self._reported += 1
                else:
                    self._timed_out += 1
                number += 1
                found.add(partition, number, pairs, status)
                if len(found) >= CHUNK:
                    yield self._columns.table(batch, found)
                    found = Found()
            self.metrics.matches += number - int(matches[partition])
            matches[partition] = number
            if strategy is not None:
                live[partition] = live[partition] if strategy.head < 0 else strategy.head
            elif collected.oldest is not None:
                live[partition] = collected.oldest
        if len(found):
            yield self._columns.table(batch, found)

    def _listed(self) -> int:
        return self._reported + self._timed_out

    def _too_many(self, batch: EventBatch, before: int, timed_out: int) -> errors.LimitError:
        query = self._plan.query
        if self._listing.timeouts:
            timed_out += sum(total(query, each, complete=False) for each in self.collect(batch))
        return too_many(before + self._exact(batch), self._listing.max_matches, timed_out)

    def _most(self) -> int:
        """How many more matches can be listed: one beyond the limit tells that it is passed."""
        most = self._listing.max_matches + 1 - self._listed()
        if self._listing.limit is not None:
            most = min(most, self._listing.limit - self._listed())
        return most

    def _compact(
        self, batch: EventBatch, found: Iterable[Stretch], matches: NDArray[np.int64]
    ) -> Iterator[pa.Table]:
        """Tables of what the kernels list."""
        check_unbounded(self._plan, int(np.diff(batch.starts).max(initial=0)))
        before, timed_out = self._reported, self._timed_out
        held: list[Stretch] = []
        waiting = 0
        overflow: GuardOverflowError | None = None
        try:
            for stretch in found:
                size = len(stretch.lengths)
                asked = (
                    self._reported <= MANY < self._reported + size
                    and self._listing.limit is None
                    and not self._listing.timeouts
                )
                late = 0 if stretch.roots is None else int((stretch.roots[:, 2] < 0).sum())
                self._reported += size - late
                self._timed_out += late
                self.metrics.matches += size
                if self.effort is not None:
                    self.effort.matched(stretch.lengths, stretch.rows)
                if asked and self._counts_fast(batch):
                    everything = before + self._exact(batch)
                    if everything > self._listing.max_matches:
                        raise too_many(everything, self._listing.max_matches)
                if self._listed() > self._listing.max_matches:
                    raise self._too_many(batch, before, timed_out)
                held.append(stretch)
                waiting += size
                if waiting >= CHUNK:
                    yield self._columns.table(batch, _joined(held, batch, matches))
                    held, waiting = [], 0
        except GuardOverflowError as problem:
            overflow = problem  # plain Python goes on behind what was found until here
        if held:
            yield self._columns.table(batch, _joined(held, batch, matches))
        if overflow is not None:
            raise overflow

    def _graphs(self, batch: EventBatch, found: Iterable[Subgraphs]) -> Iterator[pa.Table]:
        """Tables of graphs, one per end event."""
        check_unbounded(self._plan, int(np.diff(batch.starts).max(initial=0)))
        held: list[Subgraphs] = []
        size = 0
        for part in found:
            self._reported += len(part.lengths)
            held.append(part)
            size += int(part.lengths.sum())
            if size >= CHUNK:
                yield compact_table(self._plan, batch, held)
                held, size = [], 0
        if held:
            yield compact_table(self._plan, batch, held)

    def _sampled(self, batch: EventBatch, size: int) -> Iterator[pa.Table]:
        found = Found()
        seed = self._listing.seed if self._seed is None else self._seed
        taken = None
        if not self._listing.timeouts and len(batch.reach.begins):
            check_unbounded(self._plan, int(np.diff(batch.starts).max(initial=0)))
            taken = draw(batch, self._graph_of, self._lister, size, seed)
        if taken is None:
            taken = drawn(self._plan.query, list(self.collect(batch)), size, seed)
        sample, self.drawn_from = taken
        for number, (partition, pairs) in enumerate(sample, 1):
            found.add(partition, number, pairs)
        if len(found):
            yield self._columns.table(batch, found)

    def collect(self, batch: EventBatch) -> Iterator[Collector]:
        """The match graph of each partition."""
        guards = Guards(self._plan, self._subsets, batch.columns)
        query = self._plan.query
        for part in batch.partitions():
            check_unbounded(self._plan, part.end - part.begin)
            collector = Collector(query.skip, self._listing.timeouts, part.fresh)
            runs: Runs[Node] = Runs(
                self._subsets,
                guards,
                GraphAlgebra(),
                collector,
                keeps_first(query),
                self._listing.timeouts,
            )
            runs.run(part)
            ended = not part.is_open
            left = (
                (first, node)
                for (state, first, _), node in runs.classes.items()
                if not ended or part.low is not None or guards.bounded(state)
            )
            collector.left(left, part.end if ended else None)
            yield collector

    def _exact(self, batch: EventBatch) -> int:
        """The number of matches that the batch settles; of pieces, counted on the graph."""
        counts = count_partitions(batch, self._subsets) if self._counts_fast(batch) else None
        if counts is not None:
            return sum(counts)
        return sum(total(self._plan.query, collected) for collected in self.collect(batch))

    def _counts_fast(self, batch: EventBatch) -> bool:
        whole = not (batch.reach.is_open.any() or batch.reach.base.any())
        return whole and countable(self._plan, self._subsets)


def _from(batch: EventBatch, partition: int, row: int) -> EventBatch:
    """The batch with everything before a row of a partition reported."""
    reach = batch.reach
    fresh = reach.fresh.copy()
    fresh[:partition] = reach.stops[:partition] + 1  # what their ends settle too
    fresh[partition] = max(fresh[partition], row)
    return replace(batch, pieces=replace(reach, fresh=fresh))


def _joined(held: list[Stretch], batch: EventBatch, matches: NDArray[np.int64]) -> Found:
    """Stretches of matches as one; `matches` counts those of each partition."""
    lengths = np.concatenate([stretch.lengths for stretch in held])
    rows = np.concatenate([stretch.rows for stretch in held])
    partition = np.searchsorted(batch.starts, rows[np.cumsum(lengths) - lengths], "right") - 1
    here = np.bincount(partition, minlength=len(matches))
    before = matches - (np.cumsum(here) - here)
    number = before[partition] + np.arange(1, len(partition) + 1)
    matches += here
    status = None
    if held[0].roots is not None:
        ends = np.concatenate(
            [stretch.roots[:, 2] for stretch in held if stretch.roots is not None]
        )
        status = STATUSES[-ends.clip(max=0)]
    return Found(
        partition,
        number,
        status,
        lengths,
        np.concatenate([stretch.labels for stretch in held]),
        rows,
    )
