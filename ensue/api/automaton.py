"""AFA by hand: `ensue.Automaton`, an automaton whose arcs carry conditions and change a register.

    (ensue.Automaton(register={"n": "bigint"}, order_by="ts", within=100)
        .arc("q0", "q1", when="price < 10", set={"n": "n + 1"})
        .arc("q1", "q2", when="price > 20")
        .final("q2")
        .matches(table))

Each call returns a new object. A fence (`when`) and a transfer (`set`) are SQL expressions over the
event's columns and the register's fields (`register.x` and `event.x` where both have an x), or
Python functions of an event and a register, each a dict. See docs/revision.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.api.automaton_matcher import KIND, AutomatonMatcher
from ensue.api.automaton_text import make_arc, read_edit, register_fields
from ensue.api.automaton_why import AutomatonWhy
from ensue.api.tables import in_kind, is_spark, no_stream_options, to_arrow
from ensue.automaton.registers import RegisterAutomaton
from ensue.capabilities import Task, Way, refusal
from ensue.draw.diagram import Picture
from ensue.draw.table import Explanation
from ensue.operator.state import restoring, unpack
from ensue.query.timeout import Timeout, timed
from ensue.revision.matches import all_matches
from ensue.revision.operator import Operator
from ensue.revision.parts import Settings
from ensue.revision.timing import Timing
from ensue.scalar import kinds as k
from ensue.scalar.arrow_kinds import from_arrow


class Automaton(AutomatonWhy):
    """An augmented finite automaton; see the module.

    Examples:
        >>> pair = (
        ...     ensue.Automaton({"n": "bigint"}, order_by="ts", within=100)
        ...     .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"})
        ...     .arc("q1", "q2", when="kind = 'b'")
        ...     .final("q2")
        ... )
        >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
        >>> pair.matches(events).select(["first", "last", "n"]).to_pylist()
        [{'first': 1, 'last': 2, 'n': 1}]
    """

    def __init__(
        self,
        register: Mapping[str, str] | None = None,
        *,
        initial: Mapping[str, Any] | None = None,
        order_by: str = "ts",
        partition_by: str | Iterable[str] = (),
        within: Any = None,
        until: str | None = None,
        sequence: str | None = None,
        tie: str | None = None,
        events: Mapping[str, str] | pa.Schema | None = None,
    ) -> None:
        self._machine = RegisterAutomaton(register_fields(register or {}, initial or {}))
        names = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.partition_by = names
        self.timing = Timing(order_by, tie, within, until, sequence)
        self._events = _kinds(events)

    # -- saying it -------------------------------------------------------------------------------

    def arc(
        self,
        source: str,
        target: str,
        when: object = None,
        set: Mapping[str, object] | Callable[..., Any] | None = None,
        epsilon: bool = False,
        *,
        at_end_of_window: bool = False,
        name: str = "",
    ) -> Automaton:
        """An arc: taken if `when` holds; `set` then changes the register.

        An arc with `epsilon` consumes no event; one `at_end_of_window` is taken when the window of
        a partial match ends before anything else has ended it.

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> pair.arc("q1", "q2", when="kind = 'c'", name="or c").explain().count("->")
            3
        """
        made = make_arc(
            self._machine.fields, source, target, when, set, epsilon, at_end_of_window, name
        )
        self._machine.check_arc(made)
        if self._events is not None:
            self._machine.check_types(made, self._events)
        return self._with(replace(self._machine, arcs=(*self._machine.arcs, made)))

    def start(self, *states: str) -> Automaton:
        """Start states; without this, the source of the first arc.

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> late = pair.start("q0", "q1")
            >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
            >>> late.matches(events).select(["first", "last"]).to_pylist()
            [{'first': 1, 'last': 2}, {'first': 2, 'last': 2}, {'first': 3, 'last': 3}]
        """
        return self._with(replace(self._machine, starts=states))

    def final(self, *states: str) -> Automaton:
        """States that end a match, one or several.

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
            >>> pair.final("q1").matches(events).num_rows
            2
        """
        return self._with(replace(self._machine, finals=self._machine.finals | frozenset(states)))

    def _with(self, machine: RegisterAutomaton) -> Automaton:
        made = Automaton.__new__(Automaton)
        made.__dict__.update(self.__dict__)
        made._machine = machine
        return made

    # -- looking at it ---------------------------------------------------------------------------

    @property
    def machine(self) -> RegisterAutomaton:
        """The automaton as it runs: states, arcs and registers; `.dump()` prints it.

        Examples:
            >>> pair = (
            ...     ensue.Automaton({"n": "bigint"}, order_by="ts", within=100)
            ...     .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"})
            ...     .arc("q1", "q2", when="kind = 'b'")
            ...     .final("q2")
            ... )
            >>> print(pair.machine.dump())
            states 3, arcs 2
            register n: bigint
             q0 start -> q1 when kind = 'a' set n = n + 1
             q1 -> q2 when kind = 'b'
             q2 accept
        """
        return self._machine

    def plot(self) -> Picture:
        """The automaton as a picture: `.svg`, `.dot`, `.save(path)`.

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> pair.plot().svg[:4]
            '<svg'
        """
        return Picture(self._machine.view())

    def _repr_svg_(self) -> str:
        return self.plot().svg

    def __repr__(self) -> str:
        return (
            f"<ensue automaton: {len(self._machine.states)} states, {len(self._machine.arcs)} arcs>"
        )

    @timed
    def explain(self, data: Any = None, *, timeout: Timeout | None = None) -> str:
        """States and arcs, where each fence is evaluated, and which tier runs.

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
            >>> print(pair.explain(events).splitlines()[-2])
            runs: compiled
        """
        machine = self._machine
        lines = machine.dump().splitlines()
        kinds = self._events
        if data is not None:
            kinds = {f.name: from_arrow(f.type) for f in to_arrow(data).schema}
        if kinds is not None:
            operator = Operator(machine, dict(kinds), self._settings())
            tier = operator.tier
            runs = "compiled" if tier == "compiled" else f"plain Python: {tier}"
            lines.append(f"runs: {runs}")
            lines.append(
                f"tests answered on columns: {len(operator.code.tests)}, values read of an event: "
                f"{len(operator.code.inputs)}"
            )
        else:
            lines.append("runs: known once the columns are; give events= or data")
        return Explanation("\n".join(lines))

    # -- running it ------------------------------------------------------------------------------

    @timed
    def matches(self, data: Any, *, timeout: Timeout | None = None, **stream: Any) -> Any:
        """All matches in a table, as the same kind of table.

        A Spark DataFrame gives a DataFrame; a streaming one takes the options of streams
        (docs/streaming.md).

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
            >>> pair.matches(events).select(["first", "last"]).to_pylist()
            [{'first': 1, 'last': 2}]
        """
        if "budget" in stream:
            raise refusal(Task.AUTOMATON, Way.BUDGET)
        settings = self._settings(keep_rows=False)
        if is_spark(data):
            from ensue.run.lanes.works import AskedAutomaton
            from ensue.run.spark import automaton as on_spark

            self._machine.check()
            if not data.isStreaming:
                no_stream_options(stream, self.matches)
            asked = AskedAutomaton(
                self._machine, self.timing, self.partition_by, settings, read_edit
            )
            return on_spark.matches(asked, data, stream)
        no_stream_options(stream, self.matches)
        table = to_arrow(data).combine_chunks()
        found = all_matches(self._machine, self.timing, table, self.partition_by, settings)
        return in_kind(found, data)

    def matcher(
        self,
        schema: pa.Schema | None = None,
        *,
        speculation: Any = math.inf,
        ignorable_intervals: bool = True,
        equal_times: str = "content",
        keep_rows: bool = True,
        arc_watermark: bool = False,
        debug: bool = False,
    ) -> AutomatonMatcher:
        """The incremental operator: insert, retract, advance, revise, end, snapshot.

        `speculation` is σ: events are held until the watermark comes within σ of them. At 0
        nothing is ever withdrawn; at infinity every answer comes at once.
        `equal_times="reject"` refuses an event with an existing timestamp; otherwise `tie=`, and
        then the content of rows, orders them. `keep_rows=False` keeps events as their triggering
        sets only. With `arc_watermark=True`, arcs may come late: `advance(t, on="patterns")`.

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
            >>> matcher = pair.matcher(events.schema)
            >>> matcher.insert(events).column("op").to_pylist()
            ['+']
            >>> matcher.retract(events.slice(0, 1)).column("op").to_pylist()
            ['-']
        """
        if equal_times not in ("content", "reject"):
            raise errors.QueryError(
                f"equal_times={equal_times!r} is not known", remedy='use "content" or "reject"'
            )
        settings = self._settings(
            ignoring=ignorable_intervals,
            unique=equal_times == "reject",
            keep_rows=keep_rows,
            arc_watermark=arc_watermark,
            debug=debug,
        )
        self._machine.check()
        return AutomatonMatcher(self, settings, schema, speculation)

    def restore(self, state: bytes, **options: Any) -> AutomatonMatcher:
        """Restore a matcher from a snapshot; options as for `matcher`.

        Examples:
            >>> pair = ensue.Automaton(order_by="ts").arc("q0", "q1", when="kind = 'a'")
            >>> pair = pair.arc("q1", "q2", when="kind = 'b'").final("q2")
            >>> events = pa.table({"ts": [1, 2, 3], "kind": ["a", "b", "b"]})
            >>> matcher = pair.matcher(events.schema)
            >>> _ = matcher.insert(events.slice(0, 1))
            >>> again = pair.restore(matcher.snapshot())
            >>> again.insert(events.slice(1)).num_rows
            1
        """
        with restoring():
            parts = unpack(KIND, state)
            schema = parts.schema("schema")
        matcher = self.matcher(schema, **options)
        with restoring():
            matcher.take_over(parts.state("evaluator"), parts.state("held"))
        return matcher

    def _settings(self, **given: Any) -> Settings:
        return Settings(sequenced=self.timing.sequence is not None, **given)


def _kinds(events: Mapping[str, str] | pa.Schema | None) -> dict[str, k.Kind] | None:
    if events is None:
        return None
    if isinstance(events, pa.Schema):
        return {column.name: from_arrow(column.type) for column in events}
    found = {}
    for name, text in events.items():
        kind = k.from_name(text)
        if kind is None:
            raise errors.ColumnTypeError(
                f"the column {name!r} of the events has the type {text!r}, which is not known",
                remedy="use a type of Spark SQL, such as int, bigint, double, string, timestamp",
            )
        found[name] = kind
    return found
