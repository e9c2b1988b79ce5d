"""Looking at a workload: what its patterns share, as text and as a picture, and its matches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ensue.api.look import data_lines
from ensue.api.tables import is_spark, to_arrow
from ensue.api.workload_run import grouped
from ensue.api.workload_why import WorkloadWhy
from ensue.automaton.share import unite
from ensue.automaton.share_plan import SharingPlan, sharing_plan
from ensue.automaton.view import View
from ensue.draw.diagram import Picture
from ensue.draw.table import Explanation
from ensue.query.query import Query
from ensue.query.timeout import Timeout, timed
from ensue.shared.options import Sharing


class WorkloadLooking(WorkloadWhy):
    """Ways to look at a workload, which change nothing."""

    options: Sharing

    def _queries(self) -> dict[str, Query]:
        return {name: pattern.query for name, pattern in self.patterns.items()}

    @property
    def plans(self) -> list[SharingPlan]:
        """The shared plan of each group of event patterns.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> len(load.plans)
            1
        """
        return [
            sharing_plan(unite(group.queries), self.options.share)
            for group in grouped(self._queries(), None)
            if not group.rows
        ]

    def plot(self) -> Picture:
        """The shared plans as a picture, row patterns each by its own: `.svg`, `.save(path)`.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> load.plot().svg[:4]
            '<svg'
        """
        parts = [shared.view() for shared in self.plans]
        for name, pattern in self.patterns.items():
            if pattern.query.row_semantics:
                parts.append(replace(pattern.program.view(), title=name))
        return Picture(parts[0] if len(parts) == 1 else View(parts=tuple(parts)))

    def _repr_svg_(self) -> str:
        return self.plot().svg

    @timed
    def explain(self, data: Any = None, *, timeout: Timeout | None = None) -> str:
        """Groups, what they share, the pattern-sharing degrees, and what cannot be shared.

        Examples:
            >>> shop = pa.table({"ts": [1, 2, 3], "kind": ["view", "cart", "pay"]})
            >>> bought = ensue.pattern("view -> pay", types="kind").order_by("ts")
            >>> kept = ensue.pattern("view -> cart", types="kind").order_by("ts")
            >>> load = ensue.workload(bought=bought, kept=kept)
            >>> print(load.explain().splitlines()[0])
            group 1: bought, kept
        """
        from ensue.shared.explain import explain_group

        table = None if data is None or is_spark(data) else to_arrow(data)
        lines = []
        for number, group in enumerate(grouped(self._queries(), table), 1):
            lines.append(f"group {number}: " + ", ".join(group.queries))
            lines.extend(
                "  " + line for line in explain_group(group.queries, group.rows, group.alone)
            )
        if table is not None:
            for name, query in self._queries().items():
                lines.append(f"{name}: " + data_lines(query, table).rstrip())
        return Explanation("\n".join(lines) + "\n")
