"""A quantitative query as an object: its calls, and where they run.

Which runner works is decided by what is given: a Spark DataFrame goes to Spark and comes back as
one, any other table is evaluated in process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.api.tables import in_kind, is_spark, to_arrow
from ensue.automaton.plan import PREFIX
from ensue.draw.diagram import Picture
from ensue.draw.table import Explanation
from ensue.front.builder import order_key
from ensue.operator.arrange import arrange
from ensue.operator.protocol import Events
from ensue.quantities.bound import Batch
from ensue.quantities.checks import Report
from ensue.quantities.groups import BoundGroups
from ensue.quantities.model import Automaton
from ensue.quantities.operator import QuantifyOperator
from ensue.quantities.picture import view_of
from ensue.quantities.pipes import Pipe
from ensue.quantities.prefix import parallel
from ensue.quantities.stages import VALUE, AutomatonQuestion, Question
from ensue.query.query import OrderKey
from ensue.query.timeout import Timeout, timed
from ensue.run import choose

Names = str | tuple[str, ...] | list[str]
_STREAM = PREFIX + "stream"


class Quantity:
    """A quantitative query; see `ensue.quantify`.

    Examples:
        >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
        >>> block = q.sum("x", over="x > 0")
        >>> f = q.iter("max", q.split("a", block, q.event("x = 0")))
        >>> f.eval(x)
        5
    """

    def __init__(self, stage: Question) -> None:
        self.stage = stage

    @staticmethod
    def of(automaton: Automaton) -> Quantity:
        """A query made from an existing automaton.

        Examples:
            >>> same = q.Quantity.of(q.sum("x").automaton)
            >>> same.eval(pa.table({"x": [1, 2]}))
            3
        """
        return Quantity(AutomatonQuestion(automaton))

    # -- looking at it ---------------------------------------------------------------------------

    @timed
    def check(
        self,
        table: Any = None,
        *,
        allow: str | None = None,
        assume: str | None = None,
        timeout: Timeout | None = None,
    ) -> Report:
        """What the query costs and why; raises, with a witness, where it cannot run.

        With a table (also of Spark's) or a schema, predicates are decided with the types of its
        columns. Without, for all types they may have: where those differ, UndecidedError says so.

        Examples:
            >>> print(q.sum("x").check())
            rank 0, size 4, 1 kinds of event
            constant space: unambiguous and parallel-consistent (Theorem 4)
        """
        schema = None if table is None else _schema(table)
        reports = self.allowing(allow, assume).stage.reports(schema)
        return max(reports, key=lambda report: report.rank)

    @timed
    def checked(self, *, timeout: Timeout | None = None) -> Quantity:
        """The query itself, checked now as far as that is possible without its columns' types.

        Examples:
            >>> q.sum("x").checked()
            <quantitative query: sum(x)>
        """
        # Types may decide what is undecided, and so may a declaration: `eval` will ask again. What
        # is refused here is refused for all types.
        with contextlib.suppress(errors.UndecidedError):
            self.stage.reports(None)
        return self

    def allowing(self, allow: str | None = None, assume: str | None = None) -> Quantity:
        """The query with a cost accepted, or a declaration made.

        Examples:
            >>> vague = q.choose(q.event("k LIKE 'a%'", 1), q.event("k LIKE 'b%'", 2))
            >>> vague.allowing(assume="unambiguous").eval(pa.table({"k": ["boat"]}))
            2
        """
        if allow is None and assume is None:
            return self
        return Quantity(self.stage.allowing(allow, assume))

    @timed
    def explain(self, table: Any, *, timeout: Timeout | None = None) -> str:
        """How each part will be evaluated, and why.

        Examples:
            >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
            >>> print(q.sum("x").explain(x).splitlines()[0])
            sum(x): compiled: machine code of its own
        """
        return Explanation("\n".join(self.stage.bind(_schema(table)).explain()))

    def plot(self) -> Picture:
        """The query as a picture with everything inside it: `.svg`, `.dot`, `.save(path)`.

        Examples:
            >>> q.sum("x").plot().svg[:4]
            '<svg'
        """
        return Picture(view_of(self.stage))

    def _repr_svg_(self) -> str:
        return self.plot().svg

    @property
    def automaton(self) -> Automaton:
        """The streaming automaton of the query; a pipeline (`>>`) has several, and is refused.

        Examples:
            >>> q.sum("x").automaton.states
            ('none', 'some')
        """
        if not isinstance(self.stage, AutomatonQuestion):
            raise errors.UnsupportedError(
                "this query is a pipeline of several automata", remedy="inspect its parts"
            )
        return self.stage.automaton

    def __rshift__(self, other: Quantity) -> Quantity:
        """Each defined value of this query is an event (column `value`) of the other."""
        if not isinstance(other, Quantity):
            raise errors.QueryError(
                f">> leads to a {type(other).__name__}", remedy="put a query on both sides of >>"
            )
        return Quantity(Pipe(self.stage, other.stage))

    def __repr__(self) -> str:
        if isinstance(self.stage, AutomatonQuestion):
            return f"<quantitative query: {self.stage.automaton.name}>"
        return f"<quantitative query: {type(self.stage).__name__.lower()}>"

    # -- running it ------------------------------------------------------------------------------

    # `eval` is the paper's word for the value of a query; nothing is executed from text.
    @timed
    def eval(
        self,
        table: Any,
        *,
        partition_by: Names = (),
        order_by: Names = (),
        threads: int = 1,
        allow: str | None = None,
        assume: str | None = None,
        timeout: Timeout | None = None,
        **stream: Any,
    ) -> Any:
        """The value of the table, None where undefined.

        With partition columns, a table of them and `value`. With threads, one long sequence is cut
        and put together again where the folds are associative.

        Examples:
            >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
            >>> q.sum("x").eval(x)
            8
        """
        stage, keys = self.allowing(allow, assume).stage, _names(partition_by)
        if not isinstance(threads, int) or threads < 1:
            raise errors.QueryError(
                f"threads={threads!r} is not a number of threads",
                remedy="give a whole number above 0",
            )
        if threads > 1 and (keys or is_spark(table)):
            raise errors.UnsupportedError(
                "threads= cuts one long sequence, and this is "
                + ("many partitions" if keys else "a Spark DataFrame"),
                remedy="leave threads out",
            )
        options = _taken(table, stream)
        if is_spark(table):
            from ensue.run.spark import quantify as spark

            return spark.evaluate(stage, table, keys, _orders(order_by), options)
        arranged, starts = _arranged(table, keys, order_by)
        bound = stage.bind(arranged.schema)
        _free(VALUE, keys)
        if threads > 1:
            return parallel(stage, bound, arranged, threads).ends[0].as_py()
        batch = Batch.whole(arranged, starts)
        if isinstance(bound, BoundGroups) and not keys:
            _free(VALUE, bound.keys)
            return in_kind(bound.per_group(batch, bound.inner.memory()), table)
        ends = bound.run(batch, bound.memory(), False).ends
        if not keys:
            return ends[0].as_py() if len(ends) else None
        firsts = arranged.select(list(keys)).take(pa.array(starts[:-1]))
        return in_kind(firsts.append_column(VALUE, ends), table)

    def stream(self, table: Any, **how: Any) -> Any:
        """One value per event: that of the stream up to it; null where undefined.

        An Arrow array in the order given (with keys or order: in the arranged order, see `label`),
        and what `label` gives where the table is a Spark DataFrame. Takes what `label` takes.

        Examples:
            >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
            >>> q.sum("x").stream(x).to_pylist()
            [1, 3, 3, 8, 8]
        """
        if is_spark(table):
            return self.label(table, **how)
        return self.label(to_arrow(table), _STREAM, **how).column(_STREAM).combine_chunks()

    @timed
    def label(
        self,
        table: Any,
        name: str = VALUE,
        *,
        partition_by: Names = (),
        order_by: Names = (),
        allow: str | None = None,
        assume: str | None = None,
        timeout: Timeout | None = None,
        **stream: Any,
    ) -> Any:
        """The events, arranged, with the value of the stream up to each in a column.

        A pattern can then be sought in it: `q.matches(f.label(table, "level"))`.

        Examples:
            >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
            >>> q.sum("x").label(x, "so_far").column("so_far").to_pylist()
            [1, 3, 3, 8, 8]
        """
        stage, keys = self.allowing(allow, assume).stage, _names(partition_by)
        options = _taken(table, stream)
        if is_spark(table):
            from ensue.run.spark import quantify as spark

            return spark.run(stage, table, keys, _orders(order_by), "every", name, options)
        arranged, starts = _arranged(table, keys, order_by)
        bound = stage.bind(arranged.schema)
        _free(name, arranged.column_names)
        values = bound.run(Batch.whole(arranged, starts), bound.memory(), True).values
        return in_kind(arranged.append_column(name, values), table)

    @timed
    def values(
        self,
        table: Any,
        *,
        partition_by: Names = (),
        order_by: Names = (),
        allow: str | None = None,
        assume: str | None = None,
        timeout: Timeout | None = None,
        **stream: Any,
    ) -> Any:
        """One row per value: the ends of blocks and windows, as `>>` would pass them on.

        A row has the columns of the event that ends the block; of a window of time, whose end no
        event marks, the partition columns and `window_start`.

        Examples:
            >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
            >>> q.windows(q.sum("x"), until="x = 0").values(x).column("value").to_pylist()
            [3, 5]
        """
        stage, keys = self.allowing(allow, assume).stage, _names(partition_by)
        options = _taken(table, stream)
        if is_spark(table):
            from ensue.run.spark import quantify as spark

            return spark.run(stage, table, keys, _orders(order_by), "defined", VALUE, options)
        operator = choose.quantities(stage, keys, "defined")
        arranged, starts = _arranged(table, operator.partition_by, order_by)
        operator.open(None, arranged.schema)
        every = np.ones(len(starts) - 1, np.bool_)
        found = list(operator.insert(Events(arranged, starts, every)).tables())
        return in_kind(pa.concat_tables(found or [operator.schema.empty_table()]), table)

    def operator(
        self, schema: Any, *, partition_by: Names = (), output: str = "every"
    ) -> QuantifyOperator:
        """The in-process incremental operator: insert, result, snapshot, end.

        `output` is "every" (a row per event), "defined" (per event where the query is defined: the
        ends of blocks) or "demand" (nothing until `result()`).

        Examples:
            >>> x = pa.table({"x": [1, 2, 0, 5, 0]})
            >>> running = q.sum("x").operator(x, output="demand")
        """
        operator = choose.quantities(self.stage, _names(partition_by), output)
        operator.open(None, _schema(schema))
        return operator


def _schema(given: Any) -> pa.Schema:
    """The columns of a table, or a schema itself; no rows are read."""
    if isinstance(given, pa.Schema):
        return given
    if is_spark(given):
        from ensue.run.spark.versions import worker_schema

        return worker_schema(given)
    return to_arrow(given).schema


def _taken(table: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options of streams (docs/streaming.md), which only a streaming DataFrame takes."""
    if options and not (is_spark(table) and table.isStreaming):
        raise errors.QueryError(
            f"{next(iter(options))}= is for streams, and this is not a streaming DataFrame",
            remedy="leave it out",
        )
    return options


def _free(name: str, taken: Sequence[str]) -> None:
    """The name of the values must differ from the other columns."""
    if name in taken:
        raise errors.DuplicateNameError(
            f"the values would go into a column {name!r}, and the table already has one",
            remedy="rename the column, or label(table, 'another name')",
        )


def _names(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _orders(given: Names) -> tuple[OrderKey, ...]:
    return tuple(order_key(key) for key in _names(given))


def _arranged(table: Any, keys: tuple[str, ...], order_by: Names) -> tuple[pa.Table, Any]:
    given = to_arrow(table)
    orders = _orders(order_by)
    named = (*keys, *(order.column for order in orders))
    errors.UnknownColumnError.check(named, given.column_names, "the table has")
    if keys or orders:
        arranged, starts = arrange(given.combine_chunks(), keys, orders)
        return arranged, starts if keys else np.array([0, arranged.num_rows], np.int64)
    return given.combine_chunks(), np.array([0, given.num_rows], np.int64)
