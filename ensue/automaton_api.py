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
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ensue import errors
from ensue.api import _in_kind as in_kind
from ensue.api import _to_arrow as to_arrow
from ensue.automaton.register_picture import MachinePicture, text_of
from ensue.automaton.registers import FIELD, MAX_FIELDS, Arc, Expression, Field, Machine
from ensue.evaluate.arrow_kinds import from_arrow
from ensue.evaluate.cleanse import Cleanse, Released
from ensue.evaluate.revision import RevisionEvaluator, Timing, all_matches
from ensue.evaluate.revision_operator import Operator, Settings
from ensue.evaluate.state import from_bytes, to_bytes
from ensue.front.expressions import Scope, parse_condition
from ensue.pattern import condition as c
from ensue.pattern import kinds as k
from ensue.pattern.query import OrderKey

RESERVED = ("op", "match_id", "match_number", "first", "last", "until", "state")
_ZERO = {"int": 0, "float": 0.0, "boolean": False}


def register_fields(
    register: Mapping[str, object], initial: Mapping[str, Any]
) -> tuple[Field, ...]:
    """The fields of a register; numbers begin at 0, everything else at null, unless said."""
    if len(register) > MAX_FIELDS:
        raise errors.LimitError(
            f"the register has {len(register)} fields; the limit is {MAX_FIELDS}",
            remedy="keep less in it",
        )
    for name in initial:
        if name not in register:
            raise errors.UnknownRegisterError(
                f"initial= gives a value for {name!r}, which is no field of the register",
                remedy=f"the fields are {', '.join(register) or 'none'}",
            )
    found = []
    for name, text in register.items():
        if name in RESERVED:
            raise errors.ReservedNameError(
                f"the register cannot have a field {name!r}: the result has a column of that name",
                remedy=f"choose another name; {', '.join(RESERVED)} are taken",
            )
        kind = k.from_name(text) if isinstance(text, str) else None
        if kind is None:
            raise errors.ColumnTypeError(
                f"the field {name!r} of the register has the type {text!r}, which is not known",
                remedy="use a type of Spark SQL, such as int, bigint, double, string, timestamp",
            )
        found.append(Field(name, kind, initial.get(name, _ZERO.get(kind.name))))
    return tuple(found)


def parse(text: object, where: str, fields: tuple[Field, ...]) -> Expression:
    """A fence or transfer: its condition, with fields of the register told from columns."""
    if callable(text):
        return text
    if not isinstance(text, str):
        raise errors.QueryError(
            f"{where} is {text!r}", remedy="give SQL text, or a function of event and register"
        )
    return _parsed(text, where, tuple(item.name for item in fields))


@lru_cache(4096)
def _parsed(text: str, where: str, fields: tuple[str, ...]) -> c.Condition:
    """Rules that come and go are mostly ones that were seen before."""
    names = {name.lower(): name for name in fields}
    tree = parse_condition(text, Scope(("register", "event"), where=where))

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, (c.Aggregate, c.MatchNumber)):
            raise _not_local(where, text)
        if not isinstance(node, c.Navigate):
            return None
        plain = node.anchor is c.Anchor.LAST and not (node.offset or node.shift or node.final)
        if not plain or not isinstance(node.argument, c.Column):
            raise _not_local(where, text)
        column = node.argument
        if node.variable == "event":
            return column
        if node.variable == "register" or column.name.lower() in names:
            known = names.get(column.name.lower())
            if known is None:
                listed = ", ".join(names.values()) or "none"
                raise errors.UnknownRegisterError(
                    f"{where}: the register has no field {column.name!r}; it has: {listed}",
                    remedy="declare it: Automaton(register={...})",
                    place=errors.Place.at_offset(text, max(0, text.find(column.name))),
                )
            return replace(column, name=FIELD + known)
        return column

    return c.transform(tree, change)


def _not_local(where: str, text: str) -> errors.NavigationError:
    return errors.NavigationError(
        f"{where}: {text!r} reads other events; an arc sees one event and the register",
        remedy="keep what you need of earlier events in the register",
    )


def make_arc(
    fields: tuple[Field, ...],
    source: str,
    target: str,
    when: object = None,
    set: Mapping[str, object] | Callable[..., Any] | None = None,
    epsilon: bool = False,
    at_end_of_window: bool = False,
    name: str = "",
) -> Arc:
    """An arc, parsed and with its fields known."""
    place = name or f"{source} -> {target}"
    fence = None if when is None else parse(when, f"the fence of {place}", fields)
    changes: list[tuple[str, Expression]] = []
    transfer = set if callable(set) else None
    if isinstance(set, Mapping):
        known = {item.name for item in fields}
        for field, value in set.items():
            if field not in known:
                raise errors.UnknownRegisterError(
                    f"the transfer of {place} sets {field!r}, which is no field of the register",
                    remedy=f"the fields are {', '.join(sorted(known)) or 'none'}",
                )
            given = str(value) if isinstance(value, (int, float)) else value
            changes.append((field, parse(given, f"the transfer of {place} to {field}", fields)))
    elif set is not None and transfer is None:
        raise errors.QueryError(
            f"the transfer of {place} is {set!r}",
            remedy='give set={"field": "expression"}, or a function that returns a dict',
        )
    return Arc(
        source, target, fence, tuple(changes), transfer, epsilon, at_end_of_window, name or place
    )


@dataclass(frozen=True)
class Lifetime:
    """Times of the events that a change applies to: from `begin` on, before `end`; None: open."""

    begin: Any
    end: Any


@dataclass(frozen=True)
class Revised:
    """What an edit came to: the lifetime it resolved to, and the changes it made at once."""

    lifetime: Lifetime
    changes: pa.Table


class Automaton:
    """An augmented finite automaton; see the module."""

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
        self._machine = Machine(register_fields(register or {}, initial or {}))
        names = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self._partition_by = names
        self._timing = Timing(order_by, tie, within, until, sequence)
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
        """An arc: taken where `when` holds, leaving the register as `set` says.

        An arc with `epsilon` consumes no event; one `at_end_of_window` is taken when the window of
        a partial match ends with nothing in it that ended the match.
        """
        made = make_arc(
            self._machine.fields, source, target, when, set, epsilon, at_end_of_window, name
        )
        self._machine.check_arc(made)
        if self._events is not None:
            self._machine.check_types(made, self._events)
        return self._with(replace(self._machine, arcs=(*self._machine.arcs, made)))

    def start(self, *states: str) -> Automaton:
        """Start states; without this, the source of the first arc."""
        return self._with(replace(self._machine, starts=states))

    def final(self, *states: str) -> Automaton:
        """States that end a match; several may be."""
        return self._with(replace(self._machine, finals=self._machine.finals | frozenset(states)))

    def _with(self, machine: Machine) -> Automaton:
        made = Automaton.__new__(Automaton)
        made.__dict__.update(self.__dict__)
        made._machine = machine
        return made

    # -- looking at it ---------------------------------------------------------------------------

    @property
    def machine(self) -> Machine:
        return self._machine

    def plot(self) -> MachinePicture:
        """The automaton as a picture: `.svg`, `.dot`, `.save(path)`."""
        return MachinePicture(self._machine)

    def _repr_svg_(self) -> str:
        return self.plot().svg

    def __repr__(self) -> str:
        return (
            f"<ensue automaton: {len(self._machine.states)} states, {len(self._machine.arcs)} arcs>"
        )

    def explain(self, data: Any = None) -> str:
        """States and arcs, where each fence is answered, and which tier runs."""
        machine = self._machine
        lines = [f"states {', '.join(machine.states)}; start {', '.join(machine.begins)}; "
                 f"final {', '.join(sorted(machine.finals)) or 'none'}"]  # fmt: skip
        lines += [text_of(arc) for arc in machine.arcs]
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
        return "\n".join(lines)

    # -- running it ------------------------------------------------------------------------------

    def matches(self, data: Any) -> Any:
        """All matches in a table, in the kind of table that was given."""
        table = to_arrow(data).combine_chunks()
        settings = self._settings(keep_rows=False)
        found = all_matches(self._machine, self._timing, table, self._partition_by, settings)
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
        nothing is ever withdrawn, at infinity everything is answered at once.
        `equal_times="reject"` refuses an event whose timestamp is taken; otherwise `tie=` and then
        the content of rows orders them. `keep_rows=False` keeps events as their triggering sets
        only. With `arc_watermark=True`, arcs may come late: `advance(t, on="patterns")`.
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
        """The matcher that `snapshot()` was taken of, ready to go on; options as for `matcher`."""
        blobs = from_bytes("automaton", state)[0].column("state").to_pylist()
        matcher = self.matcher(pa.ipc.read_schema(pa.py_buffer(blobs[1])), **options)
        matcher.take_over(blobs[0], blobs[2])
        return matcher

    def _settings(self, **given: Any) -> Settings:
        return Settings(sequenced=self._timing.sequence is not None, **given)


class AutomatonMatcher:
    """The in-process operator of an automaton; the face is that of `q.matcher()`."""

    def __init__(
        self,
        automaton: Automaton,
        settings: Settings,
        schema: pa.Schema | None,
        speculation: Any = math.inf,
    ) -> None:
        self._automaton = automaton
        self._settings = settings
        self._speculation = speculation
        self._cleanse: Cleanse | None = None
        self._evaluator: RevisionEvaluator | None = None
        if schema is not None:
            self._open(schema)

    def insert(self, events: Any) -> pa.Table:
        """Take events in, in any order; the changes they make."""
        table = to_arrow(events).combine_chunks()
        evaluator = self._known(table.schema)
        if self._cleanse is None:
            return evaluator.insert(table)
        return self._passed(self._cleanse.insert(table))

    def retract(self, events: Any) -> pa.Table:
        """Take events back: the rows as they came."""
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

    def advance(self, time: Any, on: str = "events", where: str | None = None) -> pa.Table:
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
    ) -> Revised:
        """Arcs and whole patterns come and go while events flow.

        `add={"name": dict(source=..., target=..., when=..., set=...)}` adds an arc (with
        `final=True`, one to a final state), `add={"name": automaton}` a pattern of its own.
        Without `since` it applies to events after the newest one seen and the watermark; with it,
        events of the past are matched again.
        """
        evaluator = self._known()
        arcs: list[Arc] = []
        finals: list[str] = []
        starts: list[str] = []
        fields = evaluator.machine.fields
        for name, given in (add or {}).items():
            if isinstance(given, Automaton):
                part = given.machine
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

    def end(self) -> pa.Table:
        """No event comes any more; windows that are still open end here."""
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
    def metrics(self) -> Any:
        return self._known().metrics

    @property
    def partials(self) -> int:
        """Partial matches held now."""
        return self._known().partials

    @property
    def nbytes(self) -> int:
        """Bytes of all state."""
        return self._known().nbytes

    @property
    def evaluator(self) -> RevisionEvaluator:
        return self._known()

    def snapshot(self) -> bytes:
        """The whole state as Arrow IPC bytes; `automaton.restore(...)` goes on from it."""
        evaluator = self._known()
        held = b"" if self._cleanse is None else self._cleanse.to_bytes()
        blobs = [evaluator.snapshot(), evaluator.schema.serialize().to_pybytes(), held]
        table = pa.table({"state": pa.array(blobs, pa.large_binary())})
        return to_bytes("automaton", table, {})

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
        self._evaluator = RevisionEvaluator(
            automaton.machine,
            automaton._timing,
            schema.remove_metadata(),
            automaton._partition_by,
            self._settings,
        )
        if self._speculation != math.inf:
            keys = [OrderKey.of(automaton._timing.order_by)]
            if automaton._timing.tie is not None:
                keys.append(OrderKey.of(automaton._timing.tie))
            self._cleanse = Cleanse(
                schema.remove_metadata(), automaton._partition_by, keys, self._speculation
            )


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
