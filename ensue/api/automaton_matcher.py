"""The incremental operator of an automaton by hand, with the interface of `q.matcher()`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from ensue import errors
from ensue.api.automaton_text import make_arc, parse
from ensue.api.tables import schema_of, to_arrow
from ensue.automaton.registers import Arc, RegisterAutomaton
from ensue.operator import state
from ensue.operator.cleanse import Cleanse, Released
from ensue.operator.protocol import Metrics
from ensue.operator.turns import Turns
from ensue.query import condition as c
from ensue.query.timeout import Timeout
from ensue.revision.arc_schedule import ArcSchedule, Palette
from ensue.revision.evaluator import RevisionEvaluator
from ensue.revision.parts import Settings
from ensue.revision.timing import Timing
from ensue.run import choose
from ensue.run.branch import Lifetime

KIND = state.Kind("automaton", version=2, oldest=2)


@dataclass(frozen=True)
class Revised:
    """The effect of an edit: the lifetime it resolved to, and the changes it made at once."""

    lifetime: Lifetime
    changes: pa.Table


@dataclass(frozen=True)
class RevisedDuring:
    """The effect of edits among events: the time from which each applies (null: always), one per
    place that has edits, and all changes of the answer."""

    begins: pa.Array
    changes: pa.Table


class Described(Protocol):
    """What a matcher asks of its automaton."""

    @property
    def machine(self) -> RegisterAutomaton: ...

    @property
    def timing(self) -> Timing: ...

    @property
    def partition_by(self) -> tuple[str, ...]: ...


class AutomatonMatcher(Turns):
    """The in-process operator of an automaton, with the interface of `q.matcher()`."""

    capabilities = RevisionEvaluator.capabilities

    def __init__(
        self,
        automaton: Described,
        settings: Settings,
        schema: pa.Schema | None,
        speculation: Any = math.inf,
    ) -> None:
        self._automaton = automaton
        self._settings = settings
        self._speculation = speculation
        self._cleanse: Cleanse | None = None
        self._palette = Palette()
        self._evaluator: RevisionEvaluator | None = None
        if schema is not None:
            self._open(schema_of(schema))

    def insert(self, events: Any, *, timeout: Timeout | None = None) -> pa.Table:
        """Insert events, in any order, and return the changes."""
        table = to_arrow(events).combine_chunks()
        evaluator = self._known(table.schema)
        if self._cleanse is None:
            return evaluator.insert(table)
        return self._passed(self._cleanse.insert(table))

    def retract(self, events: Any, *, timeout: Timeout | None = None) -> pa.Table:
        """Retract events: give the rows as they came."""
        table = to_arrow(events).combine_chunks()
        evaluator = self._known(table.schema)
        if self._cleanse is None:
            return evaluator.retract(table)
        return self._passed(self._cleanse.retract(table))

    def _passed(self, released: Released) -> pa.Table:
        """What Cleanse lets through."""
        evaluator = self._known()
        names = evaluator.schema.names
        evaluator.take_in(released.late, released.rejected)
        found = []
        if released.withdrawn.table.num_rows:
            found.append(evaluator.retract(released.withdrawn.table.select(names)))
        if released.events.table.num_rows:
            found.append(evaluator.insert(released.events.table.select(names)))
        return pa.concat_tables(found) if found else evaluator.nothing

    def advance(
        self,
        time: Any,
        on: str = "events",
        where: str | None = None,
        *,
        timeout: Timeout | None = None,
    ) -> pa.Table:
        """A watermark: no event (or, on="patterns", no arc) before `time` will come.

        With `where`, the promise is only about events for which it holds (Appendix F.2).
        """
        evaluator = self._known()
        if on not in ("events", "patterns"):
            raise errors.QueryError(
                f"on={on!r} is not an input", remedy='use "events" or "patterns"'
            )
        if where is None and on == "patterns":
            return evaluator.advance(time, on_arcs=True)
        if where is None:
            found = [] if self._cleanse is None else [self._passed(self._cleanse.advance(time))]
            return pa.concat_tables([*found, evaluator.advance(time)])
        condition = parse(where, "the predicate of the watermark", ())
        assert isinstance(condition, c.CONDITIONS)
        evaluator.promise(time, condition)
        return evaluator.nothing

    def revise(
        self,
        add: Mapping[str, Any] | None = None,
        remove: Iterable[str] | str = (),
        *,
        since: Any = None,
        till: Any = None,
        timeout: Timeout | None = None,
    ) -> Revised:
        """Add and remove arcs or whole patterns while events flow.

        `add={"name": dict(source=..., target=..., when=..., set=...)}` adds an arc (with
        `final=True`, one to a final state), `add={"name": automaton}` a pattern of its own.
        Without `since` it applies to events after the newest one seen and the watermark; with it,
        past events are matched again.
        """
        evaluator = self._known()
        arcs: list[Arc] = []
        finals: list[str] = []
        starts: list[str] = []
        fields = evaluator.machine.fields
        for name, given in (add or {}).items():
            part = getattr(given, "machine", None)
            if isinstance(part, RegisterAutomaton):
                part.check()
                for arc in part.arcs:
                    for field, _ in arc.set:
                        evaluator.machine.field(field)
                    arcs.append(
                        replace(
                            arc,
                            source=f"{name}.{arc.source}",
                            target=f"{name}.{arc.target}",
                            name=f"{name}.{arc.text}",
                            pattern=name,
                        )
                    )
                finals += [f"{name}.{state}" for state in part.finals]
                starts += [f"{name}.{state}" for state in part.begins]
                continue
            told = dict(given)
            final = told.pop("final", False)
            made = make_arc(fields, **told, name=name)
            arcs.append(made)
            finals += [made.target] if final else []
        names = (remove,) if isinstance(remove, str) else tuple(remove)
        begin, end, changes = evaluator.revise(arcs, names, since, till, finals, starts)
        return Revised(Lifetime(begin, end), changes)

    def prepare(self, arcs: Mapping[str, Any]) -> None:
        """Arcs, by name, that `revise_during` may add; parsed and compiled once.

        Each is given as for `revise`, except for whole patterns and arcs to new final states.
        """
        fields = self._known().machine.fields
        made = {}
        for name, given in arcs.items():
            if not isinstance(given, Mapping) or given.get("final"):
                raise errors.UnsupportedError(
                    f"prepare: {name!r} is not a single arc between states that are there",
                    remedy="add patterns and final states with revise(add=...)",
                )
            made[name] = make_arc(fields, **dict(given), name=name)
        self._palette = self._palette.with_arcs(made)

    def revise_during(
        self,
        events: Any,
        at: Any,
        add: Any = None,
        remove: Any = None,
        *,
        timeout: Timeout | None = None,
    ) -> RevisedDuring:
        """Events with edits of arcs between them, without a call per edit.

        Row i comes after `at[i]` of the events; it ends the arcs or patterns named `remove[i]` and
        begins `add[i]`, an arc of the automaton or a prepared one (None: none). Rows at one place
        are one edit, which removes first. Lifetimes are the default ones, and the answer is that of
        `insert` and `revise` in turn. An edit that does not fit is an error and changes nothing.
        """
        table = to_arrow(events).combine_chunks()
        evaluator = self._known(table.schema)
        if self._cleanse is not None:
            raise errors.UnsupportedError(
                "where events wait (speculation=...), no edit stands between them",
                remedy="use insert and revise in turn, or leave speculation out",
            )
        edits = ArcSchedule.of(self._palette, at, add, remove)
        begins, changes = evaluator.change_with_edits(table, edits)
        return RevisedDuring(begins, changes)

    def end(self, *, timeout: Timeout | None = None) -> pa.Table:
        """All partitions are complete: open windows end here, and nothing is kept."""
        evaluator = self._known()
        if self._cleanse is None:
            return evaluator.end()
        held = self._cleanse.end(None).table.select(evaluator.schema.names)
        return pa.concat_tables([evaluator.insert(held), evaluator.end()])

    @property
    def late(self) -> pa.Table:
        """Events that came after the watermark had passed them."""
        return self._known().late

    @property
    def rejected(self) -> pa.Table:
        """Rows that could not be used, each with a `reason`."""
        return self._known().rejected

    @property
    def metrics(self) -> Metrics:
        return Metrics() if self._evaluator is None else self._evaluator.metrics

    @property
    def partials(self) -> int:
        """Partial matches held now."""
        return 0 if self._evaluator is None else self._evaluator.partials

    @property
    def nbytes(self) -> int:
        """Bytes of all state."""
        held = 0 if self._cleanse is None else self._cleanse.nbytes
        return held + (0 if self._evaluator is None else self._evaluator.nbytes)

    @property
    def evaluator(self) -> RevisionEvaluator:
        return self._known()

    def snapshot(self) -> bytes:
        """The whole state as Arrow IPC bytes; `automaton.restore(...)` continues from it."""
        evaluator = self._known()
        held = b"" if self._cleanse is None else self._cleanse.to_bytes()
        parts = {"evaluator": evaluator.snapshot(), "schema": evaluator.schema, "held": held}
        return state.pack(KIND, parts)

    def _rewind(self) -> Callable[[], None]:
        fields = dict(vars(self))
        if self._evaluator is None:
            return lambda: vars(self).update(fields)
        schema, kept = self._evaluator.schema, self._evaluator.snapshot()
        held = b"" if self._cleanse is None else self._cleanse.to_bytes()

        def back() -> None:
            self._open(schema)
            self._palette = fields["_palette"]
            self.take_over(kept, held)

        return back

    def take_over(self, evaluator: bytes, held: bytes) -> None:
        """Parts of a snapshot."""
        self._known().restore(evaluator)
        if self._cleanse is not None:
            self._cleanse.restore(held)

    def _known(self, schema: pa.Schema | None = None) -> RevisionEvaluator:
        if self._evaluator is None:
            if schema is None:
                raise errors.QueryError(
                    "the columns are not known before the first event",
                    remedy="insert events first, or give schema=... to matcher()",
                )
            self._open(schema)
        assert self._evaluator is not None
        return self._evaluator

    def _open(self, schema: pa.Schema) -> None:
        automaton = self._automaton
        self._palette = Palette().with_arcs(
            {arc.name: arc for arc in automaton.machine.arcs if arc.name}
        )
        self._evaluator = choose.revisions(
            automaton.machine,
            automaton.timing,
            schema.remove_metadata(),
            automaton.partition_by,
            self._settings,
        )
        if self._speculation != math.inf:
            by, order = automaton.partition_by, automaton.timing.order
            self._cleanse = Cleanse(schema.remove_metadata(), by, order, self._speculation)
