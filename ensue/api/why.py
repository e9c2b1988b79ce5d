"""Why it did not match: questions about the attempts of a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ensue import errors
from ensue.api.order import check_order
from ensue.api.tables import in_kind, index_names, is_spark, to_arrow
from ensue.api.wording import Wording
from ensue.query.depth import roomy
from ensue.query.timeout import Timeout, timed
from ensue.run import why as attempts
from ensue.run.asked_rows import Expected
from ensue.run.partition import EVERY
from ensue.why.trace import MOST_STEPS


class Why(Wording):
    """Questions about a pattern's attempts that failed."""

    @roomy
    @timed
    def why(
        self,
        data: Any,
        per: str = "partition",
        *,
        rows: Any = None,
        events: Any = None,
        key: Any = EVERY,
        timeout: Timeout | None = None,
    ) -> Any:
        """Why it did not match: one row per partition, about the attempt that got farthest.

        With `per="start"` one row per start row. Columns: the partition columns, `matched` (the
        labels it matched), `stopped_at` (the order value where it stopped), `variable` (what it
        waited for), `reason`, `text`, and `matches`, the number of matches (docs/why.md).

        "I expected these rows to match": `rows={"A": 0, "B": [1, 2]}` names rows by their number in
        the partition, `events={"A": ts}` by their order value, and lists name rows without saying
        which variables they are; `key` is the partition's. One row then, with the first rule that
        they break; from a DataFrame in Arrow.

        Examples:
            >>> shop = pa.table({"ts": [1, 2], "kind": ["view", "cart"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.why(shop).select(["variable", "reason", "text"]).to_pylist()
            [{'variable': 'pay', 'reason': 'end', 'text': 'pay: the partition ended'}]
        """
        query = self._draft.build()
        if rows is not None or events is not None:
            return self._why_not(data, Expected.of(query, per, rows, events), key)
        if key is not EVERY:
            raise errors.QueryError(
                "why(key=...) names the partition of rows that were expected to match",
                remedy="give rows={...} or events={...} too, or filter the data",
            )
        with self._placed(data):
            if is_spark(data):
                from ensue.run.spark import why as on_spark

                check_order(self._draft, data, self._notices)
                return on_spark.run(query, data, per)
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            return in_kind(attempts.run(query, table, per, self._notices), data)

    def _why_not(self, data: Any, expected: Expected, key: Any) -> Any:
        query = self._draft.build()
        with self._placed(data):
            if is_spark(data):
                from ensue.run.spark import why as on_spark

                check_order(self._draft, data, self._notices)
                return on_spark.run_expected(query, data, expected, key, self._notices)
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            found = attempts.run_expected(query, table, expected, key, self._notices)
            return in_kind(found, data)

    @roomy
    @timed
    def funnel_of_attempts(self, data: Any, *, timeout: Timeout | None = None) -> Any:
        """How many attempts matched each variable (`reached`), and where and why they stopped.

        One row per variable (`place` is its number in the pattern) and reason, `stopped` of them;
        the last row, with no variable, is of those that matched (docs/why.md).

        Examples:
            >>> shop = pa.table({"ts": [1, 2], "kind": ["view", "cart"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.funnel_of_attempts(shop).column("reached").to_pylist()
            [1, 0, 0]
        """
        query = self._draft.build()
        with self._placed(data):
            if is_spark(data):
                from ensue.run.spark import why as on_spark

                check_order(self._draft, data, self._notices)
                return on_spark.run_funnel(query, data)
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            return in_kind(attempts.run_funnel(query, table, self._notices), data)

    @roomy
    @timed
    def nearest(self, data: Any, n: int = 10, *, timeout: Timeout | None = None) -> Any:
        """The `n` attempts that lack least, the nearest first, with the labels that are `missing`.

        An attempt is a start row at which no match begins; it lacks what `why(per="start")` says
        it waits for, and what must follow that (docs/why.md).

        Examples:
            >>> shop = pa.table({"ts": [1, 2], "kind": ["view", "cart"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.nearest(shop, 1).column("missing").to_pylist()
            [['pay']]
        """
        query = self._draft.build()
        with self._placed(data):
            if is_spark(data):
                from ensue.run.spark import why as on_spark

                check_order(self._draft, data, self._notices)
                return on_spark.run_nearest(query, data, n)
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            return in_kind(attempts.run_nearest(query, table, n, self._notices), data)

    @roomy
    @timed
    def trace(
        self,
        data: Any,
        key: Any = EVERY,
        *,
        limit: int = MOST_STEPS,
        timeout: Timeout | None = None,
    ) -> Any:
        """The search through one partition, step by step: what was tested, and with what result.

        `key` is the value of the partition column, a tuple of several, or a mapping. A table of the
        first `limit` steps (docs/why.md); of a DataFrame, whose partition is collected, in Arrow.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> q = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> q.trace(shop).num_rows > 0
            True
        """
        query = self._draft.build()
        with self._placed(data):
            if is_spark(data):
                from ensue.run.spark import why as on_spark

                check_order(self._draft, data, self._notices)
                return on_spark.run_trace(query, data, key, limit, self._notices)
            table = to_arrow(data)
            check_order(self._draft, table, self._notices)
            return in_kind(attempts.run_trace(query, table, key, limit, self._notices), data)

    @contextmanager
    def _placed(self, data: Any) -> Iterator[None]:
        """Errors that point to the place in the user's text."""
        try:
            yield
        except (errors.UnknownColumnError, errors.UnknownVariableError) as problem:
            raise self._draft.placed(problem, index_names(data)) from None
