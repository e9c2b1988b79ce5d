"""Event patterns under a budget on a stream: one shared evaluator in every lane.

The patterns share their partial matches and one bound, which every lane keeps to by itself, since a
bound is per event. Rows carry all their columns, so that patterns may come and go (`edits.py`): an
added pattern sees rows from the watermark of its edit on, and one that is replaced begins anew,
since what was learned and kept of the old one says nothing of the new. Nothing is ever taken back:
under a budget `emit="changes"` is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import PREFIX, Plan
from ensue.automaton.share import unite
from ensue.operator import state
from ensue.operator.arrange import arrange
from ensue.operator.budget import Budget
from ensue.operator.prepare import finish, prepare
from ensue.operator.protocol import (
    Events,
    Key,
    PatternChange,
    Snapshot,
    Watermark,
    key_table,
    keys_in,
)
from ensue.query import rules, stored
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.run import choose
from ensue.run.lanes.edits import (
    DROP,
    Edit,
    EditsWork,
    Read,
    arrow_rule,
    carried_out,
    check_number,
    counted,
    joined_schema,
    with_version,
)
from ensue.run.lanes.stages import ordered
from ensue.run.lanes.work import Settings, Stage
from ensue.shared import given
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.groups import groups
from ensue.shared.options import Sharing

KIND = state.Kind("shared lane")


@dataclass(frozen=True)
class SharedWork(EditsWork):
    """Matches of event patterns under one budget."""

    budget: Budget
    sharing: Sharing
    learned: bytes = b""  # from a history: what partial matches are worth

    def stage(self, lane: int) -> Stage:
        return SharedStage(self)

    def queries(self, texts: Mapping[str, str]) -> dict[str, Query]:
        own = _own(self.schema)
        return {
            name: rules.check(bind(stored.from_json(text), own)) for name, text in texts.items()
        }

    def opened(self, texts: Mapping[str, str], saved: Snapshot | None) -> SharedEvaluator:
        union = unite(check_group(self.queries(texts), self.schema))
        evaluator = choose.shared(union, self.sharing, _prepared)
        evaluator.open(union.plan, self.schema, self.budget, saved)
        return evaluator


def shared_work(
    queries: Mapping[str, Query],
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
    read_sql: Read,
    budget: Budget,
    sharing: Sharing,
    history: pa.Table | None = None,
) -> SharedWork:
    """`schema` is that of the stream's own rows, with CONTENT."""
    if settings.speculative or settings.corrections:
        raise errors.UnsupportedError(
            "under a budget nothing can be taken back: what was learnt and shed since cannot be "
            "undone",
            remedy="leave emit='changes' and changes= out, or the budget",
        )
    texts = {name: stored.to_json(query) for name, query in queries.items()}
    first = next(iter(queries.values()))
    arguments = (first.partition_by, time, settings, description, tuple(texts.items()), read_sql)
    work = SharedWork(schema, schema, *arguments, budget, sharing)
    evaluator = work.opened(texts, None)
    learned = b""
    if history is not None:
        given.check_history(queries.values(), pa.schema(map(schema.field, _own(schema))),
                            history.schema)  # fmt: skip
        evaluator.learn(_past(history, first))
        learned = evaluator.snapshot().shared
    found = with_version(joined_schema(_found(evaluator, schema)), first.partition_by)
    return SharedWork(schema, found, *arguments, budget, sharing, learned)


def check_group(queries: Mapping[str, Query], schema: pa.Schema) -> Mapping[str, Query]:
    """Refuse patterns that cannot share a budget."""
    empty = schema.empty_table()
    try:
        parts = groups(queries, _own(schema), lambda planned: _prepared(planned, empty).schema)
    except errors.UnsupportedFunctionError as problem:
        raise arrow_rule(problem) from None
    for group in parts:
        name = next(iter(group.queries))
        if group.rows:
            raise errors.UnsupportedError(
                f"the pattern {name!r} takes no budget on a stream: it is a row pattern, whose "
                "matches depend on each other",
                remedy="leave the budget out, or write an event pattern, with arrows or select()",
            )
        if group.alone:
            raise errors.UnsupportedError(
                f"the pattern {name!r} runs by an evaluator that cannot shed: {group.alone}",
                remedy="leave the budget out, or simplify the condition",
            )
    if len(parts) > 1:
        told = "; ".join(", ".join(group.queries) for group in parts)
        raise errors.UnsupportedError(
            f"on a stream a budget is for patterns that share one group, and these are "
            f"{len(parts)}: {told}",
            remedy="give them one partition and order, and all or none of them a window of time; "
            "or start a stream for each group",
        )
    return parts[0].queries


class SharedStage:
    """See the module."""

    def __init__(self, work: SharedWork) -> None:
        self._work = work
        self._texts = dict(work.first)
        self._numbers = dict.fromkeys(self._texts, 0)  # versions
        learned = Snapshot(shared=work.learned) if work.learned else None
        self._evaluator = work.opened(self._texts, learned)
        self._spent = self._so_far()

    # -- events ----------------------------------------------------------------------------------

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        query = self._evaluator.union.plan.query
        events = ordered(rows, query.partition_by, query.order_by)
        return self._shown(self._evaluator.found(events))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return self._shown(self._evaluator.advanced(Watermark(horizon)))

    def end(self, keys: Collection[Key] | None = None) -> Iterator[pa.Table]:
        return self._shown(self._evaluator.finished(keys))

    def standing(self) -> Iterator[pa.Table]:
        return iter(())

    def _shown(self, matches: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.Table]:
        for index, table in matches:
            member = self._evaluator.union.members[index]
            found = finish(member.plan, table)
            yield self._work.shown(found, member.name, self._numbers[member.name])

    def by_pattern(self, found: pa.Table) -> Mapping[str, int]:
        return counted(found)

    def refused(self) -> pa.Table | None:
        return None

    def spent(self) -> tuple[int, int, float, float]:
        before, self._spent = self._spent, self._so_far()
        made, left, promised, followed = self._spent
        return made - before[0], left - before[1], promised - before[2], followed - before[3]

    def _so_far(self) -> tuple[int, int, float, float]:
        report = self._evaluator.report()
        found = float(sum(told.found for told in report.patterns.values()))
        lost = sum(told.lost for told in report.patterns.values())
        return report.created, report.shed, found + lost, found

    # -- edits -----------------------------------------------------------------------------------

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return carried_out(orders, self._edit)

    def _edit(self, edit: Edit) -> None:
        check_number(edit, self._numbers)
        gone = (edit.name,) if edit.name in self._numbers else ()
        texts = {name: text for name, text in self._texts.items() if name != edit.name}
        if edit.kind != DROP:
            texts[edit.name] = stored.to_json(self._work.query_of(edit))
            queries = check_group(self._work.queries(texts), self._work.schema)
            trial = self._work.opened({edit.name: texts[edit.name]}, None)
            self._work.check_fits(_found(trial, self._work.schema)[0])
            change = PatternChange({edit.name: queries[edit.name]}, gone)
        else:
            change = PatternChange(remove=gone)
        self._evaluator.revise(change)
        self._texts = texts
        self._numbers = {name: self._numbers.get(name, 0) for name in texts}
        if edit.kind != DROP:
            self._numbers[edit.name] = edit.number

    # -- state -----------------------------------------------------------------------------------

    def copy(self) -> SharedStage:
        made = SharedStage(self._work)
        made.load(self.save())
        return made

    def save(self) -> bytes:
        snapshot = self._evaluator.snapshot()
        fields = [self._work.schema.field(name) for name in self._work.partition_by]
        parts = {
            "patterns": {n: [self._numbers[n], text] for n, text in self._texts.items()},
            "model": snapshot.shared,
            "keys": key_table(snapshot.keys, fields),
            "states": tuple(snapshot.keys.values()),
        }
        return state.pack(KIND, parts)

    def load(self, blob: bytes) -> None:
        parts = state.unpack(KIND, blob)
        patterns = parts.json("patterns")
        self._texts = {name: text for name, (_, text) in patterns.items()}
        self._numbers = {name: number for name, (number, _) in patterns.items()}
        states = parts.states("states")
        names = self._work.partition_by
        keys = keys_in(parts.table("keys"), names) if names else [()] * len(states)
        saved = Snapshot(dict(zip(keys, states, strict=True)), parts.state("model"))
        self._evaluator = self._work.opened(self._texts, saved)
        self._spent = self._so_far()

    # -- what is held ----------------------------------------------------------------------------

    def next_time(self) -> int | None:
        return self._evaluator.next_time()

    def drop(self, keys: Collection[Key]) -> None:
        self._evaluator.drop(keys)

    def sizes(self) -> Mapping[Key, int]:
        return self._evaluator.sizes()

    def known(self) -> list[Key]:
        return self._evaluator.known()

    @property
    def partials(self) -> int:
        return self._evaluator.partials

    @property
    def keys(self) -> int:
        return self._evaluator.open_keys


def _own(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if not name.startswith(PREFIX)]


def _prepared(planned: Plan, rows: pa.Table) -> pa.Table:
    """The stream's rows as the plan reads them."""
    return prepare(planned, rows.select(_own(rows.schema)))


def _found(evaluator: SharedEvaluator, schema: pa.Schema) -> list[pa.Schema]:
    """The columns of each pattern's matches."""
    plans = [member.plan for member in evaluator.union.members]
    ready = _prepared(evaluator.union.plan, schema.empty_table()).schema
    empties = [own.empty_table() for own in evaluator.own_schemas(ready)]
    return [finish(own, empty).schema for own, empty in zip(plans, empties, strict=True)]


def _past(history: pa.Table, query: Query) -> Events:
    """Rows of the past as complete partitions."""
    table, starts = arrange(history, query.partition_by, query.order_by)
    return Events(table, starts, np.ones(len(starts) - 1, np.bool_))
