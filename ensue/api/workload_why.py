"""Why the patterns of a workload did not match: each on its own, in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ensue import errors
from ensue.api.pattern import Pattern
from ensue.api.tables import in_kind, is_spark, to_arrow
from ensue.api.together import together
from ensue.query.depth import roomy
from ensue.query.timeout import Timeout, timed
from ensue.run.partition import EVERY
from ensue.why.trace import MOST_STEPS


class WorkloadWhy:
    """Questions about a workload's attempts that failed."""

    patterns: dict[str, Pattern]

    @roomy
    @timed
    def why(self, data: Any, per: str = "partition", *, timeout: Timeout | None = None) -> Any:
        """Why each pattern did not match: the rows of its `why`, with the column `pattern`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.why(shop.slice(0, 1)).column("variable").to_pylist()
            ['pay', 'cart']
        """
        return self._each(data, lambda pattern, rows: pattern.why(rows, per))

    @roomy
    @timed
    def funnel_of_attempts(self, data: Any, *, timeout: Timeout | None = None) -> Any:
        """How far the attempts of each pattern get, with the column `pattern`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.funnel_of_attempts(shop).column("pattern").to_pylist()
            ['bought', 'bought', 'bought', 'kept', 'kept', 'kept']
        """
        return self._each(data, lambda pattern, rows: pattern.funnel_of_attempts(rows))

    @roomy
    @timed
    def nearest(self, data: Any, n: int = 10, *, timeout: Timeout | None = None) -> Any:
        """The `n` attempts of each pattern that lack least, with the column `pattern`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.nearest(shop.slice(0, 2), 1).select(["pattern", "missing"]).to_pylist()
            [{'pattern': 'bought', 'missing': ['pay']}]
        """
        return self._each(data, lambda pattern, rows: pattern.nearest(rows, n))

    @roomy
    @timed
    def trace(
        self,
        data: Any,
        pattern: str,
        key: Any = EVERY,
        *,
        limit: int = MOST_STEPS,
        timeout: Timeout | None = None,
    ) -> Any:
        """The search for one of the patterns through one partition, step by step.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.trace(shop, "bought").num_rows > 0
            True
        """
        if pattern not in self.patterns:
            raise errors.QueryError(
                f"there is no pattern {pattern!r} to trace",
                remedy=f"patterns are: {', '.join(self.patterns)}",
            )
        return self.patterns[pattern].trace(data, key, limit=limit)

    def _each(self, data: Any, asked: Callable[[Pattern, Any], Any]) -> Any:
        if is_spark(data):
            from ensue.run.spark import workload as on_spark

            return on_spark.together({n: asked(p, data) for n, p in self.patterns.items()})
        table = to_arrow(data)
        return in_kind(together({n: asked(p, table) for n, p in self.patterns.items()}), data)
