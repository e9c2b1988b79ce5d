"""The laws that ⊗ and ⊕ must keep, tried out on sample values.

⊕ joins paths in any order, so it must be commutative and associative; ⊗ must distribute over it
from the left where paths meet; a fold that is cut into chunks must be a monoid. Nobody can decide
that of a user's function, so it is tested when a query is built, and the values that break a law
are shown. Samples are of the type of the values at hand (`samples_like`), or the user's own.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from ensue import errors
from ensue.quantities.folds import (
    COLLECTS,
    DISTRIBUTIVE,
    DISTRIBUTIVE_WITH_NULLS,
    FOLDS,
    MERGED,
    REPLACE,
    is_known,
)
from ensue.quantities.model import Action, Automaton, Collect, Constant, Fold

_NUMBERS = (-3, -2, -1, 0, 1, 2, 3, 5)
_DAY = dt.datetime(2026, 1, 1)
_FAMILIES: dict[type, tuple[Any, ...]] = {
    bool: (False, True),
    int: _NUMBERS,
    float: (-2.5, -1.0, 0.0, 0.5, 1.0, 3.0),
    Decimal: tuple(map(Decimal, ("-2.5", "-1", "0", "0.5", "3"))),
    str: ("", "a", "b", "ab", "1"),
    bytes: (b"", b"a", b"b"),
    dt.datetime: tuple(_DAY + dt.timedelta(days=i) for i in range(3)),
    dt.date: tuple(_DAY.date() + dt.timedelta(days=i) for i in range(3)),
    tuple: ((), (1,), (2, 3)),
    list: ([], [1], [2, 3]),
    frozenset: (frozenset(), frozenset({1}), frozenset({1, 2})),
}
Refuse = Callable[[str, tuple[Any, ...], Any, Any], None]
_TRIALS = 200  # where a value has several slots, and its combinations are too many
_FAILURES = (errors.EnsueError, ArithmeticError, TypeError, ValueError, AttributeError, LookupError)
_SAMPLES = "give the values that occur, as in samples=(1, 2, 6), if these never do"


def samples_like(alike: Iterable[Any]) -> tuple[Any, ...]:
    """Values of the types of the examples, and themselves; of numbers where there are none."""
    known = [value for value in alike if value is not None]
    found: list[Any] = []
    for kind in dict.fromkeys(map(type, known)):
        found += _FAMILIES.get(kind, ())
    return tuple(found + [v for v in known if v not in found]) or _NUMBERS


def require_monoid(fold: Fold, identity: Any, samples: Sequence[Any] = ()) -> None:
    """Refuse a fold that is not associative, or whose identity changes a value."""
    operation = fold.function
    if is_known(fold):  # where chunks are put together by another fold, that one must be a monoid
        operation = FOLDS[MERGED.get(fold.name, fold.name)].function
    chosen = tuple(samples) or samples_like([identity])

    refuse = _refusal(
        f"the fold {fold} is not a monoid with the identity {identity!r}: ",
        f"leave monoid out, and the fold runs in one thread; or {_SAMPLES}",
    )
    for x in chosen:
        for pair in ((identity, x), (x, identity)):
            found = _tried(operation, *pair)
            if found is not _FAILED and not same(found, x):
                refuse("the identity law", (x,), found, x)
    _associative(operation, chosen, refuse)


def require_collect(collect: Collect | None, alike: Iterable[Any]) -> None:
    """Refuse a collect operation that depends on the order of the paths it joins."""
    if collect is None or is_known(collect):
        return
    chosen = collect.samples or samples_like(alike)

    refuse = _refusal(
        f"the collect operation {collect} must not depend on the order of paths, and ",
        f"use one of {', '.join(COLLECTS)}; or {_SAMPLES}",
    )
    for x, y in itertools.combinations(chosen, 2):
        one, other = _tried(collect.function, x, y), _tried(collect.function, y, x)
        if _FAILED not in (one, other) and not same(one, other):
            refuse("commutativity", (x, y), one, other)
    _associative(collect.function, chosen, refuse)


def _refusal(rule: str, remedy: str) -> Refuse:
    def refuse(law: str, values: tuple[Any, ...], one: Any, other: Any) -> None:
        shown = ", ".join(map(repr, values))
        raise errors.LawError(
            f"{rule}{law} of ({shown}) gives {one!r} and {other!r}", remedy=remedy
        )

    return refuse


def _associative(operation: Callable[..., Any], samples: tuple[Any, ...], refuse: Refuse) -> None:
    for x, y, z in itertools.product(samples, repeat=3):
        first, last = _tried(operation, x, y), _tried(operation, y, z)
        if first is _FAILED or last is _FAILED:
            continue
        one, other = _tried(operation, first, z), _tried(operation, x, last)
        if one is not _FAILED and other is not _FAILED and not same(one, other):
            refuse("associativity", (x, y, z), one, other)


def distributes(automaton: Automaton) -> str:
    """How it is known that ⊗ distributes over ⊕: "known", "tested" or "declared"."""
    collect = automaton.collect
    assert collect is not None
    require_collect(collect, examples(automaton))
    if collect.distributive:
        return "declared"
    doubtful = [a for a in automaton.actions() if not _is_distributive(automaton, a)]
    for action in doubtful:
        _require_distributive(automaton, action)
    return "tested" if doubtful else "known"


def examples(automaton: Automaton) -> list[Any]:
    """Values that the query itself names, for their types."""
    slots = [value for slots in automaton.initial.values() for value in slots]
    weights = [w for action in automaton.actions() for w in action.weights]
    return slots + [w.value for w in weights if isinstance(w, Constant)]


def _is_distributive(automaton: Automaton, action: Action) -> bool:
    if automaton.width > 1:
        return False
    if action.fold is REPLACE:
        return True  # paths are counted where that matters, see `general.py`
    collect = automaton.collect
    assert collect is not None
    pair = (collect.name, action.fold.name)
    return is_known(collect) and is_known(action.fold) and pair in DISTRIBUTIVE


def joined_in_place(automaton: Automaton) -> str:
    """Why paths that meet cannot be one value, with null for "nothing yet"; empty: they can."""
    collect = automaton.collect
    if collect is None or not is_known(collect) or collect.name not in COLLECTS:
        return f"the collect operation {collect} is not a known one"
    actions = list(automaton.actions())
    begins = any(value is None for slots in automaton.initial.values() for value in slots)
    nulls = begins or any(a.fold is REPLACE for a in actions)
    for action in actions:
        pair = (collect.name, action.fold.name)
        if action.fold is REPLACE and pair not in DISTRIBUTIVE_WITH_NULLS:
            return f"paths are counted where {collect} joins what a fold replaces"
        if not is_known(action.fold):
            if any(_tried(action.fold.function, None, x) is not None for x in _NUMBERS):
                return f"the fold {action.fold} turns null into a value"
        elif nulls and pair not in DISTRIBUTIVE_WITH_NULLS:
            return "paths with nothing yet are kept apart"
    return ""


def _require_distributive(automaton: Automaton, action: Action) -> None:
    collect = automaton.collect
    assert collect is not None
    tried = 0
    for y, z, weights in _trials(automaton, action):
        try:
            one = action.apply(_join(collect, y, z), weights)
            two = _join(collect, action.apply(y, weights), action.apply(z, weights))
        except _FAILURES:
            continue
        tried += 1
        if not same(one, two):
            raise errors.DistributivityError(
                f"{automaton.name}: the fold {action.fold} does not distribute over the "
                f"collect {collect}: with y={y}, z={z}, x={weights}, (y ⊕ z) ⊗ x is {one} and "
                f"(y ⊗ x) ⊕ (z ⊗ x) is {two}",
                remedy="use a fold and a collect that form a semiring, such as sum and max, or "
                "declare distributive=True if such values never occur",
            )
    if not tried:
        raise errors.DistributivityError(
            f"{automaton.name}: whether the fold {action.fold} distributes over the collect "
            f"{collect} cannot be tested: they fail on every sample",
            remedy="give samples=(...), values that occur, or declare distributive=True",
        )


def _trials(
    automaton: Automaton, action: Action
) -> Iterable[tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]]:
    assert automaton.collect is not None
    values = automaton.collect.samples or samples_like(examples(automaton))
    # What is folded need not be of the type it is folded into.
    weights = [
        (w.value,)
        if isinstance(w, Constant)
        else (*values, *(n for n in _NUMBERS if n not in values))
        for w in action.weights
    ]
    if automaton.width == 1:
        for y, z in itertools.product(values, repeat=2):
            for chosen in itertools.product(*weights):
                yield (y,), (z,), chosen
        return
    chance = random.Random(7)
    for _ in range(_TRIALS):
        y, z = (tuple(chance.choice(values) for _ in range(automaton.width)) for _ in range(2))
        yield y, z, tuple(chance.choice(choices) for choices in weights)


def _join(collect: Collect, y: tuple[Any, ...], z: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(y) == 1:
        return (collect.function(y[0], z[0]),)
    return tuple(collect.function(y, z))


_FAILED = object()


def _tried(operation: Callable[..., Any], *values: Any) -> Any:
    try:
        return operation(*values)
    except _FAILURES:
        return _FAILED


def same(one: Any, two: Any) -> bool:
    """Equal values, floats up to their rounding."""
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, (int, float)) and isinstance(two, (int, float)):
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) and math.isnan(two)
        return one == two or abs(one - two) <= 1e-9 * max(1.0, abs(one), abs(two))
    return bool(one == two)
