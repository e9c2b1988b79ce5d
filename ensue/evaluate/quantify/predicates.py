"""What predicates can hold together, decided by z3 over the event's columns.

A set of predicates divides the events into *letters*: the combinations of truth that some event
has. Automata over letters are finite automata, so every check of `language.py` works on them.

Soundness first: what z3 calls impossible is impossible (`encoding.py`). What it calls possible is
tried out on a concrete event; only if that fails is the letter *uncertain*, and a check that
depends on it says so and asks for a declaration. Predicates that share no column divide events
independently, so the solver is asked about each such family alone and letters are combined.
Letters are at most `MAX_LETTERS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ensue import errors
from ensue.evaluate.quantify.encoding import Encoder, flat
from ensue.evaluate.quantify.model import Event, Expression, Function, Predicate
from ensue.evaluate.values import compile_value
from ensue.pattern import condition as c
from ensue.pattern import kinds as k
from ensue.pattern.infer import infer
from ensue.pattern.kinds import Kind

MAX_LETTERS = 4096
MILLISECONDS = 2_000  # per question to the solver


@dataclass(frozen=True)
class Letter:
    """A combination of truth: bit i says whether predicate i holds; and an event that has it."""

    holds: int
    event: Event | None  # None: made of Python predicates, or not confirmed
    certain: bool

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

    def bit(self, predicate: Predicate) -> int:
        return 1 << self.predicates.index(predicate)


def alphabet(predicates: Sequence[Predicate], kinds: Mapping[str, Kind] | None = None) -> Alphabet:
    """All letters of a set of predicates; `kinds` are those of the columns where known."""
    known = {name.lower(): kind for name, kind in (kinds or {}).items()}
    return _alphabet(tuple(dict.fromkeys(predicates)), tuple(sorted(known.items(), key=str)))


@lru_cache(maxsize=256)
def _alphabet(distinct: tuple[Predicate, ...], kinds: tuple[tuple[str, Kind], ...]) -> Alphabet:
    """Each part of a query is checked when it is built: the same question comes again and again."""
    known = {**_guessed(distinct), **dict(kinds)}
    families = _families(distinct)
    divided = []
    total = 1
    for family in families:
        letters = _Division(tuple(distinct[i] for i in family), known, len(distinct)).letters()
        total *= len(letters)
        if total > MAX_LETTERS:
            raise too_many(len(distinct))
        divided.append(letters)
    combined = [
        _combined(families, choice) for choice in itertools.product(*divided)
    ]  # one letter, without predicates, where there are none
    return Alphabet(distinct, tuple(combined))


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
    return Letter(holds, event, all(letter.certain for letter in letters))


class _Division:
    """The letters of one family of predicates; `of` is the number of all predicates."""

    def __init__(
        self, predicates: tuple[Predicate, ...], kinds: Mapping[str, Kind], of: int
    ) -> None:
        self._z3 = _solver_library()
        self._predicates = predicates
        self._of = of
        self._kinds = kinds
        self._encoder = Encoder(self._z3, self._kind)
        self._truths = [self._truth(i, p) for i, p in enumerate(predicates)]
        self._tests = [self._test(p) for p in predicates]

    def _kind(self, leaf: c.Condition) -> Kind:
        assert isinstance(leaf, c.Column)
        return k.DOUBLE if leaf.path else self._kinds.get(leaf.name.lower(), k.DOUBLE)

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
            return compiled(lambda leaf: by_name[leaf.name.lower()]) is True  # type: ignore[union-attr]

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
                model = solver.model() if verdict == z3.sat else None
                found.append(self._letter(holds, model))
                return
            for truth in (True, False):
                solver.push()
                said = self._truths[index]
                solver.add(said if truth else z3.Not(said))
                divide(index + 1, holds | (int(truth) << index))
                solver.pop()

        divide(0, 0)
        return found

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


def _solver_library() -> Any:
    try:
        import z3  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise errors.UnsupportedError(
            "the checks of quantitative queries need z3, which is not installed",
            remedy="pip install z3-solver",
        ) from None
    return z3


def _guessed(predicates: Sequence[Predicate]) -> dict[str, Kind]:
    """Kinds of columns from what they are compared with, for checks before any table is seen."""
    found: dict[str, Kind] = {}

    def literal_kind(node: Any) -> Kind | None:
        if not isinstance(node, c.Condition) or any(True for _ in c.columns(node)):
            return None
        try:
            kind = infer(node, lambda leaf: k.NULL)
        except errors.EnsueError:
            return None
        return kind if kind.name in ("string", "boolean", "date", "timestamp") else None

    for predicate in predicates:
        if not isinstance(predicate, Expression):
            continue
        if isinstance(predicate.tree, c.Column):
            found[predicate.tree.name.lower()] = k.BOOLEAN
        for node in c.walk(predicate.tree):
            if not isinstance(node, c.Call):
                continue
            parts = [v for _, value in node.arguments for v in flat(value)]
            kinds = [kind for kind in map(literal_kind, parts) if kind is not None]
            boolean = node.function in ("and", "or", "not")
            like = node.function in ("like", "rlike", "upper", "lower", "length", "regexplike")
            for part in parts:
                if isinstance(part, c.Column):
                    guess = k.BOOLEAN if boolean else k.STRING if like else None
                    guess = kinds[0] if kinds else guess
                    if guess is not None:
                        found.setdefault(part.name.lower(), guess)
    return found
