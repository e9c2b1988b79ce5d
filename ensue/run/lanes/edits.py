"""Patterns that change while a stream runs: a stage that holds several, each in its version.

An edit is an order from the control directory (`run/spark/control.py`), carried out by all lanes in
the same micro-batch. It applies to events from the watermark of that batch on: the watermark is the
one time that all lanes agree on. (AFA §2.3 takes the newest timestamp seen where that is later;
here events that wait for the watermark already belong to the new version.) Events before it keep
the labels they had: a partial match whose parts did not change goes on, and one that was built
under the old definition of a label stays valid. Conditions over the match are read as they now
stand.

Since Spark's plan is fixed once a stream runs, rows carry all their columns and the row-local
conditions are evaluated here, on Arrow; so an edit may use any column of the stream and the
functions of docs/functions.md. Partitioning, order and the columns of the output stay.

Every lane validates an edit for itself and all come to the same result; lane 0 reports it. What an
edit says can be wrong of the data alone (`CAST(kind AS INT) = 1`): then the lane that meets such a
row stops this version, which finds nothing there any more, and reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.plan import FLAGS_PER_COLUMN, PREFIX, Plan, bits_name, plan
from ensue.operator import state
from ensue.operator.arrange import flat
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.match_names import MATCH
from ensue.operator.prepare import finish, prepare
from ensue.operator.protocol import Key, LaneEvaluator
from ensue.query import condition as c
from ensue.query import rules, stored
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.rows.flat import FlatRows
from ensue.run.lanes.orders import DROP, SQL, Edit, carried_out, check_number, reason
from ensue.run.lanes.stages import EvaluatorStage, Recipe, named, unnamed
from ensue.run.lanes.work import Settings, Stage, Work, pattern_name
from ensue.run.lanes.works import matches_recipe
from ensue.scalar.fence import check_query
from ensue.sequences.evaluator import SequencesEvaluator

KIND = state.Kind("versions")
PATTERN, VERSION = "pattern", "version"
RAW = PREFIX + "raw_"
Read = Callable[[str], Query]


@dataclass(frozen=True)
class EditsWork(Work):
    """Matches of several patterns, which may be edited."""

    first: tuple[tuple[str, str], ...]  # names and stored queries at the start of the stream
    read_sql: Read

    def stage(self, lane: int) -> Stage:
        return EditedStage(self)

    def query_of(self, edit: Edit) -> Query:
        """The pattern that an edit brings."""
        query = self.read_sql(edit.text) if edit.kind == SQL else stored.from_json(edit.text)
        check_query(query)
        if query.partition_by != self.partition_by:
            raise errors.QueryError(
                f"the edit is partitioned by {query.partition_by}, the stream by "
                f"{self.partition_by}",
                remedy="an edit keeps PARTITION BY",
            )
        if not query.order_by or query.order_by[0].column != self.time:
            raise errors.WatermarkError(
                "the edit is not ordered by the stream's event time",
                remedy="an edit keeps ORDER BY",
            )
        return query

    def check_fits(self, found: pa.Schema) -> None:
        """Of several patterns each has some of the columns; one alone has them all."""
        given = {field.name: field.type for field in found}
        wanted = {f.name: f.type for f in self.found if f.name not in (PATTERN, VERSION)}
        if len(self.first) > 1:
            wanted = {name: kind for name, kind in wanted.items() if name in given}
        if wanted != given:
            differing = [n for n in {**wanted, **given} if wanted.get(n) != given.get(n)]
            told = ", ".join(f"{n}: {wanted.get(n)} and {given.get(n)}" for n in differing)
            raise errors.QueryError(
                f"the columns of the edit are not those of the stream's output ({told})",
                remedy="an edit keeps the names and types of the measures",
            )

    def shown(self, found: pa.Table, name: str, number: int) -> pa.Table:
        """What a pattern found, as rows of the stream's output."""
        rows = found.num_rows
        found = found.append_column(PATTERN, pa.array([name] * rows, pa.string()))
        found = found.append_column(VERSION, pa.array(np.full(rows, number, np.int64)))
        for field in self.found:
            if field.name not in found.column_names:
                found = found.append_column(field, pa.nulls(rows, field.type))
        return found.select(self.found.names)


def edits_work(
    queries: Mapping[str, Query],
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
    read_sql: Read,
) -> EditsWork:
    """`schema` is that of the stream's own rows, with CONTENT (and KEY where matches are named)."""
    texts = {name: stored.to_json(query) for name, query in queries.items()}
    compiled = [compiled_query(text, schema, settings.speculative) for text in texts.values()]
    keys = next(iter(queries.values())).partition_by
    found = with_version(joined_schema([each.found for each in compiled]), keys)
    arguments = (keys, time, settings, description)
    return EditsWork(schema, found, *arguments, tuple(texts.items()), read_sql)


def joined_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all patterns: what a pattern does not have is null."""
    try:
        return pa.unify_schemas(list(schemas))
    except pa.ArrowException as problem:
        raise errors.ColumnTypeError(
            f"the matches of the patterns do not fit into one table: {problem}",
            remedy="give measures of one name one type",
        ) from None


def with_version(found: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """What is found, with the pattern and its version behind the key."""
    keys = [found.field(name) for name in partition_by]
    rest = [item for item in found if item.name not in partition_by]
    added = [pa.field(PATTERN, pa.string()), pa.field(VERSION, pa.int64())]
    return pa.schema([*keys, *added, *rest])


def counted(found: pa.Table) -> dict[str, int]:
    """Rows of each pattern in its version."""
    counts = found.group_by([PATTERN, VERSION]).aggregate([([], "count_all")]).to_pylist()
    return {pattern_name(row[PATTERN], row[VERSION]): row["count_all"] for row in counts}


@dataclass(frozen=True)
class Compiled:
    """A query ready to run on the stream's own rows."""

    planned: Plan
    recipe: Recipe
    found: pa.Schema


@lru_cache(maxsize=256)
def compiled_query(text: str, schema: pa.Schema, identified: bool) -> Compiled:
    own = [name for name in schema.names if not name.startswith(PREFIX)]
    query = rules.check(bind(stored.from_json(text), own))
    planned = _own_flags(plan(query))
    empty = schema.empty_table()
    try:
        ready = read_rows(planned, empty)
        recipe = matches_recipe(planned, None, ready.schema, identified)
        found = finish(planned, recipe.found.empty_table()).schema
    except errors.EnsueError as problem:
        raise arrow_rule(planned.readable(problem)) from None
    return Compiled(planned, recipe, found)


def arrow_rule(problem: errors.EnsueError) -> errors.EnsueError:
    """A function that is not known here, refused with the rule and what takes it."""
    if not isinstance(problem, errors.UnsupportedFunctionError):
        return problem
    return errors.UnsupportedFunctionError(
        f"{problem.problem}: on a stream the conditions of workloads, and of patterns that may be "
        f"edited, are evaluated on Arrow, with the functions of {errors.DOCS}/functions.md",
        remedy="compute it as a column of the stream first; q.matches(stream) of one pattern, "
        "without edits=True, takes any Spark function",
        place=problem.place,
    )


def _own_flags(planned: Plan) -> Plan:
    """A flag for each label: two labels that mean the same today need not tomorrow."""
    flags: list[c.Condition] = []
    tests = []
    for test in planned.tests:
        flag = None
        if test.flag is not None:
            flag = len(flags)
            flags.append(planned.flags[test.flag])
        tests.append(replace(test, flag=flag))
    return replace(planned, flags=tuple(flags), tests=tuple(tests))


def read_rows(planned: Plan, rows: pa.Table) -> pa.Table:
    """The stream's rows as the plan reads them, with their own columns beside."""
    own = [name for name in rows.column_names if not name.startswith(PREFIX)]
    ready = prepare(planned, rows.select(own))
    for name in own:
        if name not in ready.column_names:
            ready = ready.append_column(RAW + name, rows.column(name))
    for name in (CONTENT, KEY):
        if name in rows.column_names:
            ready = ready.append_column(name, rows.column(name))
    return ready


@dataclass
class Version:
    """One pattern in its version, with the partial matches it has."""

    name: str
    number: int
    text: str
    compiled: Compiled
    stage: EvaluatorStage
    stopped: str = ""  # by an error of the data: the reason


class EditedStage(Stage):
    """See the module."""

    def __init__(self, work: EditsWork) -> None:
        self.work = work
        self._versions = {name: self._version(name, 0, text) for name, text in self.work.first}
        self._stops: list[dict[str, str]] = []  # not reported yet

    def _version(self, name: str, number: int, text: str) -> Version:
        compiled = compiled_query(text, self.work.schema, self.work.settings.speculative)
        return Version(name, number, text, compiled, EvaluatorStage(compiled.recipe))

    # -- events ----------------------------------------------------------------------------------

    def insert(self, rows: pa.Table) -> Iterator[pa.Table]:
        return self._each(lambda v: v.stage.insert(read_rows(v.compiled.planned, rows)))

    def advance(self, horizon: int) -> Iterator[pa.Table]:
        return self._each(lambda v: v.stage.advance(horizon))

    def end(self, keys: Collection[Key] | None = None) -> Iterator[pa.Table]:
        return self._each(lambda v: v.stage.end(keys))

    def _each(self, run: Callable[[Version], Iterator[pa.Table]]) -> Iterator[pa.Table]:
        for version in self._versions.values():
            if version.stopped:
                continue
            if not version.number:  # what the stream was started with stops it, as on a batch
                yield from self._found(version, run(version))
                continue
            try:
                tables = list(self._found(version, run(version)))
            except Exception as problem:
                version.stopped = reason(problem)
                version.stage = EvaluatorStage(version.compiled.recipe)
                name = f"{version.number:08d}-{version.name}"
                self._stops.append({"order": name, "error": version.stopped})
                continue
            yield from tables

    def stops(self) -> list[dict[str, str]]:
        stops, self._stops = self._stops, []
        return stops

    def _found(self, version: Version, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            found = finish(version.compiled.planned, table)
            shown = self.work.shown(found, version.name, version.number)
            if MATCH in table.column_names:
                ids = [f"{version.name}-{name}" for name in table[MATCH].to_pylist()]
                shown = shown.append_column(MATCH, pa.array(ids, pa.string()))
            yield shown

    def by_pattern(self, found: pa.Table) -> Mapping[str, int]:
        return counted(found)

    # -- edits -----------------------------------------------------------------------------------

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, Any]]:
        """Carry out edits in the order of their numbers; those that cannot be, with the reason."""
        return carried_out(orders, self._edit, self)

    def _edit(self, edit: Edit) -> None:
        current = self._versions.get(edit.name)
        check_number(edit, {name: v.number for name, v in self._versions.items()})
        if edit.kind == DROP:
            del self._versions[edit.name]
            return
        made = self._version(edit.name, edit.number, stored.to_json(self.work.query_of(edit)))
        self.work.check_fits(made.compiled.found)
        if current is not None and not current.stopped:
            _take_over(made, current)
        self._versions[edit.name] = made

    # -- state -----------------------------------------------------------------------------------

    @property
    def evaluators(self) -> Sequence[LaneEvaluator]:
        return [version.stage.evaluator for version in self._versions.values()]

    def copy(self) -> EditedStage:
        made = EditedStage(self.work)
        made._versions = {
            name: replace(v, stage=v.stage.copy()) for name, v in self._versions.items()
        }
        return made

    def save(self) -> bytes:
        versions = list(self._versions.values())
        columns = {
            "name": pa.array([v.name for v in versions], pa.string()),
            "number": pa.array([v.number for v in versions], pa.int64()),
            "query": pa.array([v.text for v in versions], pa.string()),
            "state": pa.array([v.stage.save() for v in versions], pa.binary()),
        }
        if any(v.stopped for v in versions):
            columns["stopped"] = pa.array([v.stopped for v in versions], pa.string())
        return state.to_bytes(KIND, pa.table(columns))

    def load(self, blob: bytes) -> None:
        table, _ = state.from_bytes(KIND, blob)
        self._versions = {}
        for row in table.to_pylist():
            version = self._version(row["name"], row["number"], row["query"])
            version.stage.load(row["state"])
            version.stopped = row.get("stopped", "")
            self._versions[version.name] = version


def _take_over(made: Version, before: Version) -> None:
    """Partial matches of the version before, as far as the new one can read them."""
    same = before.compiled.planned.fingerprint == made.compiled.planned.fingerprint
    if same:
        made.stage.load(before.stage.save())
        return

    def change(rows: pa.Table) -> pa.Table:
        changed = _relabelled(made, before, unnamed(rows))
        return named(changed) if made.stage.recipe.named else changed

    old, new = before.stage.evaluator, made.stage.evaluator
    # From rows to events, or back, there is nothing that both could mean.
    if isinstance(old, FlatRows) and isinstance(new, FlatRows):  # noqa: SIM114
        new.take_over(old, change)
    elif isinstance(old, SequencesEvaluator) and isinstance(new, SequencesEvaluator):
        new.take_over(old, change)


def _relabelled(made: Version, before: Version, rows: pa.Table) -> pa.Table:
    """Rows held by the old version as the new one reads them, under the labels they had."""
    own = {}
    for name in rows.column_names:
        if name.startswith(RAW):
            own[name.removeprefix(RAW)] = rows.column(name)
        elif not name.startswith(PREFIX) or name in (CONTENT, KEY):
            own[name] = rows.column(name)
    ready = read_rows(made.compiled.planned, pa.table(own))
    return _with_labels(ready, made.compiled.planned, rows, before.compiled.planned)


def _with_labels(ready: pa.Table, new: Plan, rows: pa.Table, old: Plan) -> pa.Table:
    """`ready` under the labels that its rows had before; a new label is on none of them."""
    earlier = {test.label: test.flag for test in old.tests}
    bits = {
        column: flat(ready, bits_name(column)).to_numpy().copy()
        for column in range(-(-len(new.flags) // FLAGS_PER_COLUMN))
    }
    for test in new.tests:
        if test.flag is None:
            continue
        column, bit = divmod(test.flag, FLAGS_PER_COLUMN)
        held = np.zeros(rows.num_rows, np.bool_)
        if test.label in earlier:
            flag = earlier[test.label]
            held[:] = True
            if flag is not None:
                packed = flat(rows, bits_name(flag // FLAGS_PER_COLUMN)).to_numpy()
                held = (packed >> (flag % FLAGS_PER_COLUMN)) & 1 == 1
        bits[column] = np.where(held, bits[column] | (1 << bit), bits[column] & ~(1 << bit))
    for column, values in bits.items():
        place = ready.schema.get_field_index(bits_name(column))
        ready = ready.set_column(place, bits_name(column), pa.array(values))
    return ready
