"""AFA by hand: states, arcs with a fence and a transfer function, and the register they work on.

An arc is taken where its fence holds; its transfer says the new register (§2.2, Definition 1).
Fence and transfer are conditions over the event's columns and the register's fields, or Python
functions of both (the slow tier). An ε-arc consumes no event and sees only the register; a
*closing* arc is taken when the window of a partial match ends (Appendix E).

Here everything is checked that can be checked without data: names, the graph, and, once the
columns of the events are known, types. `revision/code.py` turns it into the kernels' arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ensue import errors
from ensue.automaton import view
from ensue.query import condition as c
from ensue.query.sql import describe, row_sql
from ensue.scalar import kinds as k
from ensue.scalar.infer import infer, require_boolean

FIELD = "__register_"  # a column of this prefix is a field of the register
MAX_FIELDS = 60
Function = Callable[..., Any]
Expression = c.Condition | Function

INFINITY = (1 << 63) - 1  # the end of time, and before its beginning
MINUS_INFINITY = -(1 << 63)


@dataclass(frozen=True)
class Field:
    """A field of the register and its value before the first event (the paper's Z)."""

    name: str
    kind: k.Kind
    initial: Any = None


@dataclass(frozen=True)
class Arc:
    """The paper's a_i with fence f_i, transfer g_i and lifetime [since, till)."""

    source: str
    target: str
    when: Expression | None = None  # None: always
    set: tuple[tuple[str, Expression], ...] = ()  # fields that are not named keep their value
    transfer: Function | None = None  # a Python function that gives the whole register
    epsilon: bool = False
    closing: bool = False
    name: str = ""
    pattern: str = ""  # the named pattern that it came with
    since: int = MINUS_INFINITY
    till: int = INFINITY

    @property
    def takes(self) -> bool:
        """Whether it takes an event."""
        return not self.epsilon and not self.closing

    @property
    def ignorable(self) -> bool:
        """A self-loop that changes nothing (Appendix D); known from its form alone."""
        return self.source == self.target and not self.set and self.transfer is None and self.takes

    @property
    def text(self) -> str:
        return self.name or f"{self.source} -> {self.target}"

    @property
    def told(self) -> str:
        """When it is taken and what it sets, in words."""
        how = "at the end of the window" if self.closing else "ε" if self.epsilon else ""
        when = f"when {_text(self.when)}" if self.when is not None else ""
        changes = ", ".join(f"{name} = {_text(value)}" for name, value in self.set)
        if self.transfer is not None:
            changes = _text(self.transfer)
        changed = f"set {changes}" if changes else ""
        ignorable = "(ignorable)" if self.ignorable else ""
        return " ".join(part for part in (how, when, changed, ignorable) if part)

    def living(self, since: int, till: int) -> Arc:
        """The same arc with another lifetime; a copy of its fields, since edits can be frequent."""
        found = object.__new__(Arc)
        found.__dict__.update(self.__dict__, since=since, till=till)
        return found


def _text(value: Expression) -> str:
    """A fence or transfer as short text."""
    if isinstance(value, c.CONDITIONS):
        return row_sql(value).replace("`", "").replace(FIELD, "")
    return f"{getattr(value, '__name__', 'function')}()"


@dataclass(frozen=True)
class RegisterAutomaton(view.Shown):
    """An AFA: the paper's (Q, A, q0, F, Z, E, R), where E is known once data is."""

    fields: tuple[Field, ...] = ()
    arcs: tuple[Arc, ...] = ()
    starts: tuple[str, ...] = ()
    finals: frozenset[str] = frozenset()
    _kinds: Mapping[str, k.Kind] = field(default_factory=dict, compare=False, repr=False)

    @property
    def begins(self) -> tuple[str, ...]:
        """Start states: as said, or the source of the first arc."""
        return self.starts or tuple(arc.source for arc in self.arcs[:1])

    @property
    def states(self) -> tuple[str, ...]:
        names = [*self.begins, *(s for arc in self.arcs for s in (arc.source, arc.target))]
        return tuple(dict.fromkeys(names))

    def field(self, name: str) -> Field:
        for known in self.fields:
            if known.name == name:
                return known
        listed = ", ".join(f.name for f in self.fields) or "none"
        raise errors.UnknownRegisterError(
            f"the register has no field {name!r}; it has: {listed}",
            remedy="declare it: Automaton(register={...})",
        )

    def view(self) -> view.View:
        numbers = {name: number for number, name in enumerate(self.states)}
        states = []
        for name in numbers:
            start, end = (view.START,), (view.ACCEPT,)
            marks = start * (name in self.begins) + end * (name in self.finals)
            states.append(view.State(name, marks=marks))
        arcs = [
            view.Arc(numbers[arc.source], numbers[arc.target], arc.told, arc.epsilon or arc.closing)
            for arc in sorted(self.arcs, key=lambda arc: numbers[arc.source])
        ]
        notes = [f"register {field.name}: {field.kind}" for field in self.fields]
        return view.View(tuple(states), tuple(arcs), tuple(notes))

    # -- checks ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything about the graph; raises the first thing that is wrong."""
        if not self.arcs:
            raise errors.QueryError(
                "the automaton has no arc", remedy='add one: .arc("q0", "q1", when="price < 10")'
            )
        if not self.finals:
            raise errors.NoFinalStateError(
                "the automaton has no final state: it can never match",
                remedy='say which states end a match: .final("q1")',
            )
        self._check_states()
        self._check_silent_cycles()
        for arc in self.arcs:
            self.check_arc(arc)

    def _check_states(self) -> None:
        reached = set(self.begins) | {arc.target for arc in self.arcs}
        for arc in self.arcs:
            if arc.source not in reached:
                raise errors.UnknownStateError(
                    f"the arc {arc.text} leaves the state {arc.source!r}, which no arc leads to",
                    remedy=f"the states are {', '.join(sorted(reached))}; add an arc to "
                    f"{arc.source!r}, or make it a start state",
                )
        for name in (*self.begins, *sorted(self.finals)):
            if name not in self.states:
                raise errors.UnknownStateError(
                    f"the state {name!r} is named, but no arc leads to it or leaves it",
                    remedy=f"the states are {', '.join(self.states)}",
                )
        if not any(arc.target in self.finals for arc in self.arcs):
            raise errors.NoFinalStateError(
                f"no arc leads to a final state ({', '.join(sorted(self.finals))})",
                remedy="add an arc, or name other final states",
            )

    def _check_silent_cycles(self) -> None:
        onward: dict[str, list[Arc]] = {}
        for arc in self.arcs:
            if arc.epsilon:
                onward.setdefault(arc.source, []).append(arc)
        done: set[str] = set()

        def visit(state: str, path: tuple[str, ...]) -> None:
            if state in path:
                cycle = " -> ".join((*path[path.index(state) :], state))
                raise errors.EmptyCycleError(
                    f"the ε-arcs form a cycle: {cycle}; no event would ever end it",
                    remedy="let one of these arcs consume an event (leave epsilon=True out)",
                )
            if state in done:
                return
            for arc in onward.get(state, ()):
                visit(arc.target, (*path, state))
            done.add(state)

        for state in onward:
            visit(state, ())

    def check_arc(self, arc: Arc) -> None:
        """Names of one arc; its types are checked by `check_types`."""
        for name, _ in arc.set:
            self.field(name)
        for expression in self._expressions(arc):
            for leaf in c.walk(expression):
                if isinstance(leaf, c.Column) and leaf.name.startswith(FIELD):
                    self.field(leaf.name.removeprefix(FIELD))
        if arc.since >= arc.till:
            raise errors.LifetimeError(
                f"the arc {arc.text} would live from {arc.since} to {arc.till}: it never holds",
                remedy="give a since that is before till",
            )
        if (arc.epsilon or arc.closing) and any(
            isinstance(leaf, c.Column) and not leaf.name.startswith(FIELD)
            for expression in self._expressions(arc)
            for leaf in c.walk(expression)
        ):
            kind = "an ε-arc" if arc.epsilon else "an arc at the end of the window"
            raise errors.QueryError(
                f"the arc {arc.text} reads a column of the event, but {kind} consumes none",
                remedy="use fields of the register only",
            )

    @staticmethod
    def _expressions(arc: Arc) -> list[c.Condition]:
        given = [arc.when, *(value for _, value in arc.set)]
        return [value for value in given if isinstance(value, c.CONDITIONS)]

    def kind_of(self, events: Mapping[str, k.Kind]) -> Callable[[c.Condition], k.Kind]:
        """Kinds of the leaves of fences and transfers."""
        folded = {name.lower(): kind for name, kind in events.items()}

        def kind(leaf: c.Condition) -> k.Kind:
            assert isinstance(leaf, c.Column)
            if leaf.name.startswith(FIELD):
                return self.field(leaf.name.removeprefix(FIELD)).kind
            found = events.get(leaf.name) or folded.get(leaf.name.lower())
            if found is None:
                listed = ", ".join(events)
                raise errors.UnknownColumnError(
                    f"{leaf.name!r} is neither a column of the events ({listed}) nor a field of "
                    f"the register ({', '.join(f.name for f in self.fields) or 'none'})",
                    remedy="check the name",
                )
            for step in leaf.path:
                found = dict(found.fields).get(step, k.NULL)
            return found

        return kind

    def check_types(self, arc: Arc, events: Mapping[str, k.Kind]) -> None:
        """A fence must be boolean; a transfer must fit its field."""
        kind_of = self.kind_of(events)
        if isinstance(arc.when, c.CONDITIONS):
            require_boolean(arc.when, infer(arc.when, kind_of), f"the fence of {arc.text}")
        for name, value in arc.set:
            if not isinstance(value, c.CONDITIONS):
                continue
            wanted, given = self.field(name).kind, infer(value, kind_of)
            if given.name == "null":
                continue
            if "string" in (wanted.name, given.name):
                fits = wanted == given
            else:
                fits = k.common(given, wanted) == wanted
            if not fits:
                raise errors.ColumnTypeError(
                    f"the transfer of {arc.text} sets {name} ({wanted}) to {describe(value)}, "
                    f"which is {given}",
                    remedy=f"write CAST({describe(value)} AS {wanted}), or declare the field as "
                    f"{given}",
                )
