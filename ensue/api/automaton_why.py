"""Why an automaton by hand did not match: questions about its attempts."""

from __future__ import annotations

from typing import Any

from ensue.api.tables import in_kind, is_spark, to_arrow
from ensue.automaton.registers import RegisterAutomaton
from ensue.operator.notices import Notices
from ensue.query.timeout import Timeout, timed
from ensue.revision.timing import Timing
from ensue.run import why_automata
from ensue.run.partition import EVERY
from ensue.why.account import NEAREST
from ensue.why.trace import MOST_STEPS


class AutomatonWhy:
    """Questions about an automaton's attempts that failed."""

    _machine: RegisterAutomaton
    timing: Timing
    partition_by: tuple[str, ...]

    @timed
    def why(self, data: Any, per: str = "partition", *, timeout: Timeout | None = None) -> Any:
        """Why it did not match: one row per partition, about the attempt that got farthest.

        With `per="start"` one row per start row. `matched` are the arcs that took a row, `variable`
        is the arc that it waited for; the other columns are those of a pattern's `why`
        (docs/why.md).

        Examples:
            >>> pair = ensue.Automaton({"n": "int"}).arc("q0", "q1", "kind = 'a'", {"n": "n + 1"})
            >>> pair = pair.arc("q1", "q2", when="kind = 'b' AND n > 1").final("q2")
            >>> events = pa.table({"ts": [1, 2], "kind": ["a", "b"]})
            >>> pair.why(events).select(["reason", "text"]).to_pylist()
            [{'reason': 'condition', 'text': 'q1 -> q2: n > 1: 1 > 1 is false'}]
        """
        asked = why_automata.Asked(self._machine, self.timing, self.partition_by, per)
        if is_spark(data):
            from ensue.run.spark import automaton as on_spark

            return on_spark.why(asked, data)
        return in_kind(why_automata.run(asked, to_arrow(data)), data)

    @timed
    def funnel_of_attempts(self, data: Any, *, timeout: Timeout | None = None) -> Any:
        """How many attempts took each arc (`reached`), and where and why they stopped.

        One row per arc and reason, `stopped` of them; the last row, with no variable, is of those
        that matched (docs/why.md).

        Examples:
            >>> pair = ensue.Automaton({"n": "int"}).arc("q0", "q1", "kind = 'a'", {"n": "n + 1"})
            >>> pair = pair.arc("q1", "q2", when="kind = 'b' AND n > 1").final("q2")
            >>> events = pa.table({"ts": [1, 2], "kind": ["a", "b"]})
            >>> pair.funnel_of_attempts(events).select(["variable", "reached"]).to_pylist()[0]
            {'variable': 'q0 -> q1', 'reached': 1}
        """
        asked = why_automata.Asked(self._machine, self.timing, self.partition_by, "start")
        if is_spark(data):
            from ensue.run.spark import automaton as on_spark

            return on_spark.why_funnel(asked, data)
        return in_kind(why_automata.run_funnel(asked, to_arrow(data)), data)

    @timed
    def nearest(self, data: Any, n: int = 10, *, timeout: Timeout | None = None) -> Any:
        """The `n` attempts that lack least, the nearest first, with the arcs that are `missing`.

        An attempt is a start row at which no match begins, and that an arc takes; it lacks the
        fewest events that lead to a final state (docs/why.md).

        Examples:
            >>> pair = ensue.Automaton({"n": "int"}).arc("q0", "q1", "kind = 'a'", {"n": "n + 1"})
            >>> pair = pair.arc("q1", "q2", when="kind = 'b' AND n > 1").final("q2")
            >>> events = pa.table({"ts": [1, 2], "kind": ["a", "b"]})
            >>> pair.nearest(events, 1).column("missing").to_pylist()
            [['q1 -> q2']]
        """
        asked = why_automata.Asked(self._machine, self.timing, self.partition_by, NEAREST)
        if is_spark(data):
            from ensue.run.spark import automaton as on_spark

            return on_spark.why_nearest(asked, data, n)
        return in_kind(why_automata.run_nearest(asked, to_arrow(data), n), data)

    @timed
    def trace(
        self,
        data: Any,
        key: Any = EVERY,
        *,
        limit: int = MOST_STEPS,
        timeout: Timeout | None = None,
    ) -> Any:
        """The search through one partition, step by step: arcs tested and taken, and the register.

        `key` is the value of the partition column, a tuple of several, or a mapping. A table of the
        first `limit` steps (docs/why.md); of a DataFrame, whose partition is collected, in Arrow.

        Examples:
            >>> pair = ensue.Automaton({"n": "int"}).arc("q0", "q1", "kind = 'a'", {"n": "n + 1"})
            >>> pair = pair.arc("q1", "q2", when="kind = 'b' AND n > 1").final("q2")
            >>> events = pa.table({"ts": [1, 2], "kind": ["a", "b"]})
            >>> pair.trace(events).column("action").to_pylist()
            ['ask', 'take', 'ask', 'drop', 'ask']
        """
        asked = why_automata.Asked(self._machine, self.timing, self.partition_by)
        if is_spark(data):
            from ensue.run.spark import automaton as on_spark

            return on_spark.why_trace(asked, data, key, limit, Notices())
        return in_kind(why_automata.run_trace(asked, to_arrow(data), key, limit, Notices()), data)
