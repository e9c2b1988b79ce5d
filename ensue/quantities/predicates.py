"""What predicates can hold together, decided by z3 over the event's columns.

A set of predicates divides the events into *letters*: the combinations of truth that some event
has. Automata over letters are finite automata, so every check of `language.py` works on them.

Soundness first: what z3 calls impossible is impossible (`encoding.py`). What it calls possible is
tried out on a concrete event; only if that fails is the letter *uncertain*, and a check that
depends on it says so and asks for a declaration. Predicates that share no column divide events
independently, so the solver is asked about each such family alone and letters are combined.
Letters are at most `MAX_LETTERS`.

`n > 0 AND n < 1` has an event if n is a double and none if it is an integer. Before a table is seen
the question is asked for each type that the text allows (`_candidates`): what none of them has is
impossible, what all of them have is certain, and a letter in between is certain of no type.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ensue import errors
from ensue.extras import needed
from ensue.quantities.encoding import Encoder, dotted, flat
from ensue.quantities.model import Event, Expression, Function, Predicate
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.infer import Typed, typed
from ensue.scalar.kinds import Kind
from ensue.scalar.values import compile_value

MAX_LETTERS = 4096
MILLISECONDS = 2_000  # per question to the solver


@dataclass(frozen=True)
class Letter:
    """A combination of truth: bit i says whether predicate i holds; and an event that has it."""

    holds: int
    event: Event | None  # None: made of Python predicates, or not confirmed
    certain: bool
    by_type: bool = False  # some types of columns not known yet have it, others have not

    def shown(self, predicates: Sequence[Predicate]) -> str:
        if self.event is not None:
            inside = ", ".join(f"{name}={value!r}" for name, value in self.event.items())
            return "{" + inside + "}"
        names = [str(p) for i, p in enumerate(predicates) if self.holds >> i & 1]
        return "an event with " + (" and ".join(names) if names else "none of the predicates")


@dataclass(frozen=True)
class Alphabet:
    predicates: tuple[Predicate, ...]
    letters: tuple[Letter, ...]
    untyped: tuple[str, ...] = ()  # columns of several possible types

    def bit(self, predicate: Predicate) -> int:
        return 1 << self.predicates.index(predicate)


def alphabet(predicates: Sequence[Predicate], kinds: Mapping[str, Kind] | None = None) -> Alphabet:
    """All letters of a set of predicates; `kinds` are those of the columns where known."""
    known = {name.lower(): kind for name, kind in (kinds or {}).items()}
    return _alphabet(tuple(dict.fromkeys(predicates)), tuple(sorted(known.items(), key=str)))


@lru_cache(maxsize=256)
def _alphabet(distinct: tuple[Predicate, ...], kinds: tuple[tuple[str, Kind], ...]) -> Alphabet:
    """Each part of a query is checked when it is built: the same question comes again and again."""
    known = dict(kinds)
    candidates = _candidates(distinct, known)
    families = _families(distinct)
    divided = []
    total = 1
    for family in families:
        letters = _divided(tuple(distinct[i] for i in family), known, candidates, len(distinct))
        total *= len(letters)
        if total > MAX_LETTERS:
            raise too_many(len(distinct))
        divided.append(letters)
    combined = [
        _combined(families, choice) for choice in itertools.product(*divided)
    ]  # one letter, without predicates, where there are none
    untyped = tuple(name for name, possible in candidates.items() if len(possible) > 1)
    return Alphabet(distinct, tuple(combined), untyped)


def _divided(
    predicates: tuple[Predicate, ...],
    known: Mapping[str, Kind],
    candidates: Mapping[str, tuple[Kind, ...]],
    of: int,
) -> list[Letter]:
    """The letters of one family, whatever the types of its columns turn out to be.

    Columns with the same candidates are of one type here. That is enough for numbers: what holds
    of whole numbers holds of any mixture, and what is impossible of reals is impossible of all.
    """
    columns = {name for p in predicates for name in _dotted(p) if name in candidates}
    sorts = sorted({candidates[name] for name in columns}, key=str)
    found: list[dict[int, Letter]] = []
    for choice in itertools.product(*sorts):
        chosen = dict(zip(sorts, choice, strict=True))
        kinds = {name: chosen[candidates[name]] for name in columns}
        letters = _Division(predicates, {**known, **kinds}, of).letters()
        found.append({letter.holds: letter for letter in letters})
    merged = []
    for holds in dict.fromkeys(holds for letters in found for holds in letters):
        ways = [letters[holds] for letters in found if holds in letters]
        certain = [letter for letter in ways if letter.certain]
        everywhere = len(certain) == len(found)
        first = (certain or ways)[0]
        by_type = bool(certain) and not everywhere
        merged.append(replace(first, certain=everywhere, by_type=by_type))
    return merged


def too_many(predicates: int) -> errors.LimitError:
    return errors.LimitError(
        f"the {predicates} predicates of the query divide events in more than {MAX_LETTERS} ways",
        remedy="use fewer independent predicates, or declare which are disjoint",
    )


def _families(predicates: tuple[Predicate, ...]) -> list[list[int]]:
    """Indices of predicates that share columns, or a declaration, directly or through others."""
    families: list[tuple[set[str], list[int]]] = []
    for index, predicate in enumerate(predicates):
        names = {f"group {predicate.group}"} if predicate.group else set()
        if isinstance(predicate, Expression):
            names |= {name.lower() for name in c.columns(predicate.tree)}
        else:
            names |= {f"python {index}"}
        members = [index]
        apart = []
        for shared, others in families:
            if shared & names:
                names, members = names | shared, others + members
            else:
                apart.append((shared, others))
        families = [*apart, (names, members)]
    return [sorted(members) for _, members in families]


def _combined(families: list[list[int]], letters: tuple[Letter, ...]) -> Letter:
    holds = 0
    event: dict[str, Any] | None = {}
    for family, letter in zip(families, letters, strict=True):
        for position, index in enumerate(family):
            holds |= (letter.holds >> position & 1) << index
        event = None if event is None or letter.event is None else {**event, **letter.event}
    return Letter(
        holds,
        event,
        all(letter.certain for letter in letters),
        any(letter.by_type for letter in letters),
    )


class _Division:
    """The letters of one family of predicates; `of` is the number of all predicates."""

    def __init__(
        self, predicates: tuple[Predicate, ...], kinds: Mapping[str, Kind], of: int
    ) -> None:
        self._z3 = needed("z3", "checking a quantitative query")
        self._predicates = predicates
        self._of = of
        self._kinds = kinds
        self._encoder = Encoder(self._z3, self._kind)
        self._truths = [self._truth(i, p) for i, p in enumerate(predicates)]
        self._tests = [self._test(p) for p in predicates]

    def _kind(self, leaf: c.Condition) -> Kind:
        assert isinstance(leaf, c.Column)
        return column_kind(leaf, self._kinds) or self._kinds.get(dotted(leaf).lower(), k.DOUBLE)

    def _truth(self, index: int, predicate: Predicate) -> Any:
        if isinstance(predicate, Function):
            return self._z3.Bool(f"python {index}")
        return self._encoder.truth(predicate.tree)

    def _test(self, predicate: Predicate) -> Callable[[Event], bool] | None:
        if isinstance(predicate, Function):
            return None
        try:
            compiled = compile_value(predicate.tree, self._kind)
        except errors.EnsueError:
            return None

        def test(event: Event) -> bool:
            by_name = {name.lower(): value for name, value in event.items()}
            return compiled(lambda leaf: by_name[dotted(leaf).lower()]) is True  # type: ignore[arg-type]

        return test

    def _declared(self) -> list[Any]:
        """Predicates of one group: at most one holds, exactly one where that was declared too."""
        groups: dict[int, list[int]] = {}
        for index, predicate in enumerate(self._predicates):
            if predicate.group:
                groups.setdefault(predicate.group, []).append(index)
        said = []
        for members in groups.values():
            bools = [self._truths[m] for m in members]
            said.append(self._z3.AtMost(*bools, 1))
            if self._predicates[members[0]].complete:
                said.append(self._z3.Or(*bools))
        return said

    def letters(self) -> list[Letter]:
        z3 = self._z3
        solver = z3.Solver()
        solver.set("timeout", MILLISECONDS)
        solver.add(*self._declared(), *self._encoder.facts)
        found: list[Letter] = []

        def divide(index: int, holds: int) -> None:
            verdict = solver.check()
            if verdict == z3.unsat:
                return
            if index == len(self._predicates):
                if len(found) == MAX_LETTERS:
                    raise too_many(self._of)
                found.append(self._letter(holds, self._model(solver, verdict)))
                return
            for truth in (True, False):
                solver.push()
                said = self._truths[index]
                solver.add(said if truth else z3.Not(said))
                divide(index + 1, holds | (int(truth) << index))
                solver.pop()

        divide(0, 0)
        return found

    def _model(self, solver: Any, verdict: Any) -> Any:
        """What the solver found, by choice an event that is easily confirmed; or None."""
        if verdict != self._z3.sat:
            return None
        model, encoder = solver.model(), self._encoder
        for wanted in ([*encoder.preferred, *encoder.handy], encoder.preferred):
            if wanted:
                solver.push()
                solver.add(*wanted)
                better = solver.model() if solver.check() == self._z3.sat else None
                solver.pop()
                if better is not None:
                    return better
        return model

    def _letter(self, holds: int, model: Any) -> Letter:
        python = [p for p in self._predicates if isinstance(p, Function)]
        event = None if model is None else self._encoder.event(model)
        confirmed = event is not None and all(
            isinstance(predicate, Function)
            or (test is not None and _tried(test, event) == bool(holds >> i & 1))
            for i, (predicate, test) in enumerate(zip(self._predicates, self._tests, strict=True))
        )
        # A Python predicate alone is a proposition of its own: true and false are both possible.
        alone = self._of == 1 or not [p for p in python if not p.group]
        return Letter(holds, event if confirmed and not python else None, confirmed and alone)


def _tried(test: Callable[[Event], bool], event: Event) -> bool | None:
    try:
        return test(event)
    except (errors.EnsueError, ArithmeticError, TypeError, KeyError):
        return None


def column_kind(column: c.Column, kinds: Mapping[str, Kind]) -> Kind | None:
    """The kind of a column, or of a part of it; None where it is not known."""
    kind = kinds.get(column.name.lower())
    for step in column.path:
        fields = {} if kind is None else {name.lower(): part for name, part in kind.fields}
        kind = fields.get(step.lower())
    return kind


def _columns(predicate: Predicate) -> list[c.Column]:
    if not isinstance(predicate, Expression):
        return []
    return [node for node in c.walk(predicate.tree) if isinstance(node, c.Column)]


def _dotted(predicate: Predicate) -> list[str]:
    return [dotted(column).lower() for column in _columns(predicate)]


_NUMBERS = (k.BIGINT, k.DOUBLE)


def _candidates(
    predicates: Sequence[Predicate], known: Mapping[str, Kind]
) -> dict[str, tuple[Kind, ...]]:
    """The kinds that a column without a known one may have, by what it is compared with."""
    compared = _compared(predicates)
    found: dict[str, tuple[Kind, ...]] = {}
    for predicate in predicates:
        for column in _columns(predicate):
            name = dotted(column).lower()
            if column_kind(column, known) is None and name not in found:
                found[name] = _possible(compared.get(name, []))
    return found


def _possible(compared: list[Typed]) -> tuple[Kind, ...]:
    if not compared:
        return _NUMBERS
    kind = compared[0].kind
    if kind == k.DATE:
        return (k.DATE, k.TIMESTAMP)
    if kind.name == "timestamp":
        return (kind, k.DATE)
    if kind != k.STRING:
        return (kind,)
    # Text is compared with a date or a number by reading it as one.
    texts = [node.value for node in compared if node.kind == k.STRING]
    read = [other for other in (k.DATE, k.TIMESTAMP, *_NUMBERS) if _all_read(texts, other)]
    return (k.STRING, *read)


def _all_read(texts: list[Any], kind: Kind) -> bool:
    try:
        nodes = [
            typed(c.binary("eq", c.Column("a"), c.Literal("string", text)), lambda _leaf: kind)
            for text in texts
            if text is not None
        ]
    except errors.EnsueError:
        return False
    return bool(nodes) and all(node.operands[1].operation == "literal" for node in nodes)


def _compared(predicates: Sequence[Predicate]) -> dict[str, list[Typed]]:
    """By column: the constants that are no numbers and stand beside it, which tell its kind."""
    found: dict[str, list[Typed]] = {}

    def constant(node: Any) -> Typed | None:
        if not isinstance(node, c.Condition) or any(True for _ in c.columns(node)):
            return None
        try:
            read = typed(node, lambda leaf: k.NULL)
        except errors.EnsueError:
            return None
        telling = read.kind.name in ("string", "boolean", "date", "timestamp")
        return read if telling else None

    def tell(column: c.Column, node: Typed) -> None:
        found.setdefault(dotted(column).lower(), []).append(node)

    boolean = Typed("literal", k.BOOLEAN, c.TRUE)
    text = Typed("literal", k.STRING, c.TRUE)
    for predicate in predicates:
        if not isinstance(predicate, Expression):
            continue
        if isinstance(predicate.tree, c.Column):
            tell(predicate.tree, boolean)
        for node in c.walk(predicate.tree):
            if not isinstance(node, c.Call):
                continue
            parts = [v for _, value in node.arguments for v in flat(value)]
            constants = [read for read in map(constant, parts) if read is not None]
            if node.function in ("and", "or", "not"):
                constants = constants or [boolean]
            elif node.function in ("like", "rlike", "upper", "lower", "length", "regexplike"):
                constants = [text]
            for part in parts:
                if isinstance(part, c.Column):
                    for read in constants:
                        tell(part, read)
    return found
