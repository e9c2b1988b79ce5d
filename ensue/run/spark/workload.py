"""Workloads on batch DataFrames: one shuffle per group of event patterns, and of row patterns.

Spark computes the row-local conditions of all patterns once and the measures over what the workers
put out. Row patterns run one after the other over a task's rows, which were sorted once. Under a
budget row patterns have a shuffle each, and every task keeps to the bound by itself, since a bound
is per event. Rows of the past are collected and learned from once, here; every task begins with
what was learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from ensue.automaton.plan import PREFIX, Plan, plan
from ensue.automaton.share import unite
from ensue.operator.arrange import arrange
from ensue.operator.as_of import END, LATEST, time_for
from ensue.operator.budget import Bounds, Budget
from ensue.operator.listing import Listing
from ensue.operator.protocol import Events, Snapshot
from ensue.query import condition as c
from ensue.query import rules
from ensue.query.binding import bind, rename
from ensue.query.query import Query, Ties
from ensue.query.sql import row_sql
from ensue.rows.warm import warm_up as warm_rows
from ensue.run import choose
from ensue.run.spark import batch, budget_costs, prefilter
from ensue.run.spark.keyed import arrow_schema, map_sorted, quoted
from ensue.run.spark.raised import action
from ensue.shared import given
from ensue.shared.groups import Group, bounded, groups
from ensue.shared.listing import PATTERN, combined_name
from ensue.shared.options import Report, Sharing
from ensue.shared.own import joined_plan, own_table
from ensue.shared.row_budget import ROW_PATTERNS, RowBudget, check_shedding
from ensue.shared.rows import new_evaluator, teach

_KIND = f"{PREFIX}kind"


def run(
    queries: Mapping[str, Query],
    df: DataFrame,
    options: Sharing,
    budget: Budget | None,
    history: Any = None,
    observe: Observation | None = None,
    as_of: Any = LATEST,
) -> DataFrame:
    """All matches of all patterns, as a lazy DataFrame; only a history is read at once.

    `observe` receives what the budget cost of the event patterns, once an action has run.
    """
    past = None
    if history is not None:
        is_frame = isinstance(history, type(df))
        past = history if is_frame else df.sparkSession.createDataFrame(history)
        given.check_history(queries.values(), arrow_schema(df), arrow_schema(past))

    def schema(planned: Plan) -> pa.Schema:
        return arrow_schema(_prepared(planned, df))

    parts: dict[str, DataFrame] = {}
    shared: list[DataFrame] = []
    every = groups(queries, df.columns, schema, whole=True)
    for group, own, part in bounded(every, budget, options.weights):
        group.refuse_budget(own)
        options = replace(options, part=part)
        if group.rows and own is None:
            alone = {n: q for n, q in group.queries.items() if q.rows.all_rows}
            parts |= {name: batch.run(query, df) for name, query in alone.items()}
            if len(alone) < len(group.queries):
                some = {n: q for n, q in group.queries.items() if n not in alone}
                shared.append(_rows_together(some, df))
        elif group.rows:
            assert own is not None
            bounds = ROW_PATTERNS.read(own, group.queries)
            for name, query in group.queries.items():
                parts[name] = rows(name, query, df, options, bounds, len(group.queries), past)
        elif group.alone:
            (name, query), *_ = group.queries.items()
            parts[name] = batch.run(query, df, Listing(as_of=time_for((query,), as_of)[1]))
        else:
            shared.append(_shared(group, df, options, own, past, observe is not None, as_of))
    named = [found.select(F.lit(name).alias(PATTERN), "*") for name, found in parts.items()]
    found = _joined(shared + named)
    return budget_costs.observed(found, observe) if observe is not None and shared else found


def together(parts: Mapping[str, DataFrame]) -> DataFrame:
    """One DataFrame with the column `pattern`."""
    return _joined([f.select(F.lit(name).alias(PATTERN), "*") for name, f in parts.items()])


def counted(
    found: DataFrame, patterns: Sequence[str], by: Sequence[str], names: Sequence[str]
) -> DataFrame:
    """Matches per pattern and group."""
    counts = found.groupBy(PATTERN, *by).agg(F.count(F.lit(1)).alias("__ensue_n"))
    if not by:
        session = found.sparkSession
        every = session.createDataFrame([(name,) for name in patterns], f"{PATTERN} string")
        counts = every.join(counts, PATTERN, "left")
    number = F.coalesce("__ensue_n", F.lit(0)).cast("decimal(38,0)")
    return counts.select(PATTERN, *by, *(number.alias(name) for name in names))


def _joined(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def _prepared(planned: Plan, df: DataFrame) -> DataFrame:
    return df.select(*batch.input_columns(planned, df))


# -- event patterns ------------------------------------------------------------------------------


def _shared(
    group: Group,
    df: DataFrame,
    options: Sharing,
    budget: Budget | None,
    past: DataFrame | None,
    with_costs: bool,
    as_of: Any,
) -> DataFrame:
    union = unite(group.queries)
    waiting, now = time_for(group.queries.values(), as_of)
    measured = all(query.measures is not None for query in group.queries.values())
    columns = batch.input_columns(union.plan, df)  # first: it names what Spark rejects
    needed = df
    if budget is None and measured and now in (END, LATEST):
        needed = prefilter.of_patterns([member.plan for member in union.members], df)
    prepared = needed.select(*columns)
    if waiting is not None:
        prepared = batch.with_time(waiting, prepared, now, df)
    schema = arrow_schema(prepared)
    evaluator = choose.shared(union, options)
    evaluator.open(union.plan, schema, budget)
    shape = evaluator.no_matches(schema).schema
    learned = None
    if past is not None and budget is not None:
        evaluator.learn(Events(*_collected(union.plan, past)))
        learned = Snapshot(shared=evaluator.snapshot().shared)
    start = _started(group.queries, options, budget, learned)
    names = [F.col(PATTERN) == member.name for member in union.members]
    members = [*zip(names, (member.plan for member in union.members), strict=True)]
    if with_costs:
        told = budget_costs.with_costs(prepared, union.plan.query, shape, start)
        return _measured(members, told, budget_costs.NAMES)

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        yield from start(schema, pieces)[0]

    return _measured(members, map_sorted(prepared, union.plan.query, work, shape))


def _collected(
    planned: Plan, past: DataFrame
) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of the past as complete partitions."""
    query = planned.query
    prepared = _prepared(planned, past)
    with action(prepared, "reading the past"):
        rows = prepared.toArrow().combine_chunks()
    table, starts = arrange(rows, query.partition_by, query.order_by)
    return table, starts, np.ones(len(starts) - 1, np.bool_)


def _started(
    queries: Mapping[str, Query],
    options: Sharing,
    budget: Budget | None,
    learned: Snapshot | None,
) -> budget_costs.Start:
    def start(schema: pa.Schema, pieces: Iterator[Events]) -> budget_costs.Run:
        union = unite(queries)
        evaluator = choose.shared(union, options)
        evaluator.open(union.plan, schema, budget, learned)

        def tables() -> Iterator[pa.Table]:
            for events in pieces:
                yield from evaluator.insert(events).matches
            yield from evaluator.end().matches

        return tables(), lambda: _costs(evaluator.report())

    return start


def _costs(told: Report) -> budget_costs.Costs:
    found = sum(each.found for each in told.patterns.values())
    lost = sum(each.lost for each in told.patterns.values())
    counts = (told.rows, found, told.created, told.shed, told.unbounded)
    return budget_costs.Costs(*counts, found + lost, float(found), told.reason or None)


def _measured(
    members: Sequence[tuple[Column, Plan]], matched: DataFrame, costs: Sequence[str] = ()
) -> DataFrame:
    """Measures of each plan over its own values, in the rows that are its own; null elsewhere.

    A measure may have the name of a column that another pattern lists, such as `first`.
    """
    keep = [name for name in matched.columns if name in costs or not name.startswith(PREFIX)]
    cases: dict[str, list[Column]] = {name: [F.col(quoted(name))] for name in keep}
    for index, (own, planned) in enumerate(members):
        for measure in planned.outer:
            text = row_sql(_over_combined(measure.value, index))
            batch.analysed(matched, text, f"the measure {measure.name}")
            case = F.when(own, F.expr(text))
            cases.setdefault(measure.name, []).append(case)
    return matched.select(*(F.coalesce(*found).alias(name) for name, found in cases.items()))


def _over_combined(value: c.Condition, index: int) -> c.Condition:
    return c.transform(
        value,
        lambda node: (
            c.Column(combined_name(index, node.name), node.path)
            if isinstance(node, c.Column)
            else None
        ),
    )


# -- row patterns --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Together:
    """Row patterns over one shuffle. Those whose matches have the same columns share these."""

    joined: Plan  # what Spark prepares, once for all
    plans: Mapping[str, Plan]
    kinds: Mapping[str, int]  # of each pattern: which columns its matches have
    shape: pa.Schema  # the pattern, the kind, and the columns of every kind

    @staticmethod
    def of(queries: Mapping[str, Query], df: DataFrame) -> tuple[_Together, DataFrame]:
        plans = {name: plan(query) for name, query in queries.items()}
        joined = joined_plan(list(plans.values()))
        ties = min((query.ties for query in queries.values()), key=list(Ties).index)
        first = replace(joined.query, ties=ties)
        joined = replace(joined, marks=replace(joined.program, query=first))
        prepared = _prepared(joined, df)
        schema = arrow_schema(prepared)
        numbers: dict[object, int] = {}
        kinds: dict[str, int] = {}
        fields: dict[str, pa.Field] = {}
        for name, planned in plans.items():
            own = _own_schema(joined, planned, schema)
            evaluator = choose.for_matches(planned.query).evaluator
            evaluator.open(planned, own)
            found = evaluator.no_matches(own).schema
            kind = numbers.setdefault((planned.outer, found), len(numbers))
            kinds[name] = kind
            for item in found:
                fields.setdefault(combined_name(kind, item.name), item)
        columns = [pa.field(name, item.type) for name, item in fields.items()]
        head = [pa.field(PATTERN, pa.string()), pa.field(_KIND, pa.int32())]
        return _Together(joined, plans, kinds, pa.schema(head + columns)), prepared

    def work(self, schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        evaluators = {}
        for name, planned in self.plans.items():
            evaluators[name] = choose.for_matches(planned.query).evaluator
            evaluators[name].open(planned, _own_schema(self.joined, planned, schema))
        for events in pieces:
            for name, evaluator in evaluators.items():
                own = replace(events, table=own_table(self.joined, self.plans[name], events.table))
                for table in evaluator.insert(own).matches:
                    if table.num_rows:
                        yield self._combined(name, table)

    def _combined(self, name: str, table: pa.Table) -> pa.Table:
        kind, rows = self.kinds[name], table.num_rows
        known = {combined_name(kind, n): table.column(n) for n in table.column_names}
        known[PATTERN] = pa.chunked_array([pa.repeat(name, rows)])
        known[_KIND] = pa.chunked_array([pa.repeat(pa.scalar(kind, pa.int32()), rows)])
        columns = [
            known[item.name] if item.name in known else pa.nulls(rows, item.type)
            for item in self.shape
        ]
        return pa.table(columns, schema=self.shape)

    def measured(self, matched: DataFrame) -> DataFrame:
        first = {kind: self.plans[name] for name, kind in self.kinds.items()}
        members = [(F.col(_KIND) == kind, first[kind]) for kind in sorted(first)]
        return _measured(members, matched)


def _own_schema(joined: Plan, planned: Plan, schema: pa.Schema) -> pa.Schema:
    return own_table(joined, planned, schema.empty_table()).schema


def _rows_together(queries: Mapping[str, Query], df: DataFrame) -> DataFrame:
    """Row patterns of one partition and order: one shuffle, one sort, one pass of each."""
    plain = batch.plain_names(df.columns)
    if plain:
        queries = {name: rename(query, plain) for name, query in queries.items()}
        df = df.toDF(*(plain.get(name, name) for name in df.columns))
    together, prepared = _Together.of(queries, df)
    warm_rows(any(planned.correlated for planned in together.plans.values()))
    matched = map_sorted(prepared, together.joined.query, together.work, together.shape)
    found = together.measured(matched)
    written = {safe: name for name, safe in plain.items()}
    return found.toDF(*(written.get(name, name) for name in found.columns))


def rows(
    name: str,
    query: Query,
    df: DataFrame,
    options: Sharing,
    bounds: Bounds,
    among: int = 1,
    past: DataFrame | None = None,
) -> DataFrame:
    """One row pattern under a budget: start rows are shed in every task."""
    query = rules.check(bind(query, df.columns))
    planned = plan(query)
    check_shedding({name: query}, {name: planned})
    prepared = _prepared(planned, df)
    schema = arrow_schema(prepared)
    plain = choose.for_matches(query).evaluator
    plain.open(planned, schema)
    shape = plain.no_matches(schema).schema
    names = (name, *(f"{name} {i}" for i in range(1, among)))
    budget = RowBudget(bounds, names, options.part)
    pattern, teacher = new_evaluator(name, planned, budget, options)
    if past is not None:
        table, starts, _ = _collected(planned, past)
        teacher.open(planned, table.schema)
        teach(pattern, teacher, budget, table, starts)
    sketch = pattern.sketch

    def work(schema: pa.Schema, pieces: Iterator[Events]) -> Iterator[pa.Table]:
        _, evaluator = new_evaluator(name, planned, budget, options, sketch)
        evaluator.open(planned, schema)
        for events in pieces:
            yield from evaluator.insert(events).matches

    return batch.with_measures(planned, map_sorted(prepared, query, work, shape))
