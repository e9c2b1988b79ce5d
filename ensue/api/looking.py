"""Looking at a pattern: SQL, plan and automaton, and its matches as tables and pictures."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.api.look import data_lines
from ensue.api.order import key_hint
from ensue.api.row_ids import with_row_ids
from ensue.api.tables import is_spark, to_arrow
from ensue.api.tune import settings_lines
from ensue.api.why import Why
from ensue.automaton.plan import Plan, plan
from ensue.automaton.view import Shown, View
from ensue.draw.diagram import Picture
from ensue.draw.table import Explanation
from ensue.missing.explain import explain_missing
from ensue.query import nodes
from ensue.query.binding import bind
from ensue.query.depth import roomy
from ensue.query.query import Query
from ensue.query.sql import definitions_sql, query_sql
from ensue.query.timeout import Timeout, timed
from ensue.query.words import clauses
from ensue.rows.engine_choice import choose_row_engine
from ensue.rows.engines import AutomatonEngine, Engine
from ensue.rows.explain import explain
from ensue.run import choose, local
from ensue.sequences.explain import explain_sequence


class Looking(Why):
    """Ways to look at a pattern, which change nothing."""

    @cached_property
    def query(self) -> Query:
        """The frozen query; raises where the parts do not fit together.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.query.order_by[0].column
            'ts'
        """
        return self._draft.build()

    @cached_property
    def plan(self) -> Plan:
        """How the query is split: what columns answer, and what reads the match so far.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.plan.correlated
            False
        """
        return plan(self.query)

    @property
    def program(self) -> Shown:
        """The automaton that recognises the pattern; `.dump()` prints it.

        Examples:
            >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
            >>> print(falls.program.dump())
            states 3, arcs 4
            label a: True
            label down: lt(price, shift(price, -1))
              0 start -> 1
              1 a -> 2
              2 down -> 2 accept
        """
        return self.plan.automaton

    @roomy
    def sql(self, dialect: str = "spark") -> str:
        """The query as SQL with MATCH_RECOGNIZE.

        Examples:
            >>> falls = ensue.pattern("a down+").define(down="price < PREV(price)").order_by("ts")
            >>> lines = falls.sql("trino").splitlines()
            >>> print(lines[0], lines[-2].strip())
            SELECT * FROM input MATCH_RECOGNIZE ( DEFINE "down" AS price < PREV(price)
        """
        return query_sql(self.query, dialect=dialect)

    @roomy
    @timed
    def explain(self, data: Any = None, *, timeout: Timeout | None = None) -> str:
        """What would run, where each condition is evaluated, and why; with data, exactly.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> print(q.explain().splitlines()[0])
            Event pattern: all matches; a match is the set of its (label, event) pairs
        """
        told = self._explained(data)
        if data is not None:
            told += data_lines(self.query, data) + key_hint(self._draft, data)
        return Explanation(told)

    def _explained(self, data: Any) -> str:
        keys = ", ".join(self.query.partition_by)
        order = ", ".join(key.column for key in self.query.order_by) or "the order of arrival"
        grouped = f"shuffled by {keys}" if keys else "one partition (no partition_by)"
        told = (
            f"{grouped}, sorted by {order} in the worker{self._left_out(data)}",
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

    def _left_out(self, data: Any) -> str:
        """What of a DataFrame is not shuffled, or why all of it is."""
        if not is_spark(data):
            return ""
        from ensue.run.spark import prefilter

        return "".join(f"\n    {line}" for line in prefilter.lines(self.query, data))

    def _prepared(self, data: Any) -> tuple[Plan, pa.Schema]:
        if is_spark(data):
            from ensue.run.spark import batch

            return batch.prepared_schema(self.query, data)
        table = to_arrow(data)
        bound = plan(bind(self.query, table.column_names))
        return bound, local.prepare(bound, table.slice(0, 0)).schema

    @roomy
    def plot(self) -> Picture:
        """The automaton as a picture: `.svg`, `.dot`, `.save(path)`.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.plot().svg[:4]
            '<svg'
        """
        return Picture(self._view())

    def _view(self) -> View:
        return self.program.view().with_conditions(definitions_sql(self.query))

    def studio(self, data: Any = None, **options: Any) -> Any:
        """The pattern and the data in the studio (docs/studio.md).

        A widget in Jupyter and marimo. Elsewhere a page in the browser (see `port=` and
        `browser=`), until `.stop()`.

        Examples:
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> page = q.studio(port=0, browser=False)  # doctest: +SKIP
            >>> page.stop()  # doctest: +SKIP
        """
        # A layer above this one, so found by name when it is asked for.
        return import_module("ensue.studio.widget").open_studio(self, data, **options)

    def with_row_ids(self, data: Any, name: str = "row") -> Any:
        """The data with the number of each row in its partition, which is what `events.row` means.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.with_row_ids(shop).column("row").to_pylist()
            [0, 1, 2]
        """
        return with_row_ids(self.query, data, name)

    def _repr_svg_(self) -> str:
        return self.plot().svg

    @roomy
    def __repr__(self) -> str:
        try:
            said = clauses(self.query)
        except errors.EnsueError:  # its parts do not fit together (yet)
            said = [nodes.pattern_text(self._draft.meant, folds=False)]
        return f"<ensue pattern: {'; '.join(said)}>"
