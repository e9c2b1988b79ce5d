"""Event patterns under a budget on a stream: a shared group (`run/shared_group.py`) in every lane.

Every lane keeps to the bound by itself, since a bound is per event. Rows carry all their columns,
so that patterns may come and go (`edits.py`): an added pattern sees rows from the watermark of its
edit on. Nothing is ever taken back: under a budget `emit="changes"` is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import Plan
from ensue.operator import state
from ensue.operator.arrange import arrange
from ensue.operator.budget import Budget
from ensue.operator.prepare import finish, prepare
from ensue.operator.protocol import Events, Key, Snapshot, Watermark, key_table, keys_in
from ensue.query import stored
from ensue.query.query import Query
from ensue.run.lanes.edits import (
    EditsWork,
    Read,
    arrow_rule,
    counted,
    joined_schema,
    with_version,
)
from ensue.run.lanes.orders import DROP, Edit, carried_out, check_number
from ensue.run.lanes.stages import ordered
from ensue.run.lanes.work import Settings, Stage
from ensue.run.lanes.works import refuse_corrections
from ensue.run.shared_group import SharedGroup, Terms, own_columns
from ensue.shared import given
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.options import Sharing

KIND = state.Kind("shared lane")


@dataclass(frozen=True)
class SharedWork(EditsWork):
    """Matches of event patterns under one budget."""

    terms: Terms
    learned: bytes = b""  # from a history: what partial matches are worth

    def stage(self, lane: int) -> Stage:
        return SharedStage(self)

    def group(self, texts: Mapping[str, str], saved: Snapshot | None = None) -> SharedGroup:
        queries = {name: stored.from_json(text) for name, text in texts.items()}
        try:
            return SharedGroup(queries, self.terms, saved)
        except errors.UnsupportedFunctionError as problem:
            raise arrow_rule(problem) from None


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
    refuse_corrections(settings)
    texts = {name: stored.to_json(query) for name, query in queries.items()}
    first = next(iter(queries.values()))
    arguments = (first.partition_by, time, settings, description, tuple(texts.items()), read_sql)
    work = SharedWork(schema, schema, *arguments, Terms(schema, _read, budget, sharing))
    group = work.group(texts)
    learned = b""
    if history is not None:
        own = pa.schema(map(schema.field, own_columns(schema)))
        given.check_history(queries.values(), own, history.schema)
        group.evaluator.learn(_past(history, first))
        learned = group.evaluator.snapshot().shared
    found = with_version(joined_schema(_found(group)), first.partition_by)
    return replace(work, found=found, learned=learned)


class SharedStage(Stage):
    """See the module."""

    def __init__(self, work: SharedWork) -> None:
        self._work = work
        self._texts = dict(work.first)
        self._numbers = dict.fromkeys(self._texts, 0)  # versions
        learned = Snapshot(shared=work.learned) if work.learned else None
        self._group = work.group(self._texts, learned)
        self._spent = self._so_far()

    @property
    def _evaluator(self) -> SharedEvaluator:
        return self._group.evaluator

    @property
    def evaluators(self) -> Sequence[SharedEvaluator]:
        return [self._evaluator]

    # -- events ----------------------------------------------------------------------------------

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        query = self._evaluator.union.plan.query
        events = ordered(rows, query.partition_by, query.order_by)
        return self._shown(self._evaluator.found(events))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return self._shown(self._evaluator.advanced(Watermark(horizon)))

    def end(self, keys: Collection[Key] | None = None) -> Iterator[pa.Table]:
        return self._shown(self._evaluator.finished(keys))

    def _shown(self, matches: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.Table]:
        for index, table in matches:
            member = self._evaluator.union.members[index]
            found = finish(member.plan, table)
            yield self._work.shown(found, member.name, self._numbers[member.name])

    def by_pattern(self, found: pa.Table) -> Mapping[str, int]:
        return counted(found)

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
        return carried_out(orders, self._edit, self)

    def _edit(self, edit: Edit) -> None:
        check_number(edit, self._numbers)
        texts = {name: text for name, text in self._texts.items() if name != edit.name}
        if edit.kind == DROP:
            self._group.revise({}, [edit.name])
        else:
            query = self._work.query_of(edit)
            texts[edit.name] = stored.to_json(query)
            trial = self._work.group({edit.name: texts[edit.name]})
            self._work.check_fits(_found(trial)[0])
            self._group.revise({edit.name: query}, [])
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
        self._group = self._work.group(self._texts, saved)
        self._spent = self._so_far()


def _read(planned: Plan, rows: pa.Table) -> pa.Table:
    """The stream's rows as the plan reads them."""
    return prepare(planned, rows.select(own_columns(rows.schema)))


def _found(group: SharedGroup) -> list[pa.Schema]:
    """The columns of each pattern's matches."""
    members = group.evaluator.union.members
    pairs = zip(members, group.shapes(), strict=True)
    return [finish(member.plan, own).schema for member, own in pairs]


def _past(history: pa.Table, query: Query) -> Events:
    """Rows of the past as complete partitions."""
    table, starts = arrange(history, query.partition_by, query.order_by)
    return Events(table, starts, np.ones(len(starts) - 1, np.bool_))
