"""Budgets: how bounds are written, what they mean, and which of them a room takes.

A bound is an amount (seconds, bytes, units of work) or a share of the unbounded run. There is one
reader for all rooms: a text means the same wherever it is given, and what cannot be read is refused
in the same words. What a room can keep to is declared (`Room`) and anything else refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from ensue import errors
from ensue.query.duration import exact_duration
from ensue.query.options import made_with_options


@made_with_options
@dataclass(frozen=True)
class Budget:
    """Bounds under which a best-effort evaluator works.

    `latency` is processing time per event, of the whole workload or (a mapping) per pattern;
    `work` counts partial matches tested against an event. A share such as "50%" is of the unbounded
    run. `recall` beside a bound is a floor: where the matches found are estimated to be less than
    that share of all, a warning says so. Alone it is the goal, where matches can be counted.

    Examples:
        >>> shop = pa.table({"ts": range(6), "kind": ["a", "a", "a", "b", "b", "b"]})
        >>> q = ensue.pattern("a ->> b", types="kind").order_by("ts").within(100)
        >>> ensue.Budget(latency="50 ms", memory="256 MB")
        Budget(latency='50 ms', memory='256 MB', work=None, recall=None)
        >>> q.matches(shop, ensue.Budget(work=1000)).num_rows
        9
    """

    latency: str | Mapping[str, str] | None = None
    memory: str | None = None
    work: float | str | None = None
    recall: float | None = None


class Form(Enum):
    """The ways to write a bound, each with an example."""

    LATENCY = 'latency="50 ms"'
    LATENCY_SHARE = 'latency="50%"'
    LATENCY_EACH = 'latency={"a": "50 ms"}'
    MEMORY = 'memory="256 MB"'
    MEMORY_SHARE = 'memory="50%"'
    WORK = "work=1000"
    WORK_SHARE = 'work="50%"'


EVERY = frozenset(Form)
OF_MEMORY = frozenset({Form.MEMORY, Form.MEMORY_SHARE})


@dataclass(frozen=True)
class Bound:
    """An amount (seconds, bytes or units of work), or a share of the unbounded run."""

    amount: float
    share: bool = False

    def of(self, needed: float) -> float:
        """The amount, where the unbounded run needs `needed`."""
        return self.amount * needed if self.share else self.amount

    def part(self, part: float) -> Bound:
        """Of an amount so much; a share is of what these patterns need, whatever others do."""
        return self if self.share else replace(self, amount=self.amount * part)


@dataclass(frozen=True)
class Bounds:
    """A budget as a room reads it."""

    latency: Bound | None = None
    memory: Bound | None = None
    work: Bound | None = None
    latency_of: Mapping[str, Bound] = field(default_factory=dict)  # by pattern
    recall: float | None = None  # the goal where it is alone, else a floor

    def part(self, part: float) -> Bounds:
        """`part` of the amounts for these patterns, the rest for others; not of each one's own."""
        return replace(
            self,
            latency=self.latency and self.latency.part(part),
            memory=self.memory and self.memory.part(part),
            work=self.work and self.work.part(part),
        )


NOTABLE = 0.1  # of the rows: where a bound did not hold for more of them, a warning says why


class Unbounded(NamedTuple):
    """Rows that were matched before the bounds held, and why; none and "" where there are none."""

    rows: int = 0
    reason: str = ""

    @classmethod
    def of(cls, before: int, rows: int, why: str) -> Unbounded:
        """The first `before` of `rows` rows."""
        if not before:
            return cls()
        held = f"from row {before + 1:,} of {rows:,} on" if before < rows else "for no row"
        return cls(before, f"the bound held {held}: {why}")

    def warning(self, rows: int, remedy: str) -> errors.BoundWarning | None:
        """What to say of a run over so many rows; None where the bound held for most of them."""
        if self.rows <= NOTABLE * rows:
            return None
        return errors.BoundWarning(f"{self.reason}\nWhat to do: {remedy}")


@dataclass(frozen=True)
class Room:
    """What runs under a budget, and the bounds it can keep to."""

    name: str  # in the plural
    takes: frozenset[Form]
    no_memory: str = ""  # why, where it takes no bound on memory
    together: bool = True  # takes several bounds at once
    floors: bool = False  # takes a recall beside a bound
    goal: bool = False  # takes a recall alone
    optional: bool = False  # takes a budget without a bound, which leaves nothing out
    zero: bool = False  # an amount of nothing leaves something to answer
    least_work: float = 0.0

    def read(self, budget: Budget, patterns: Collection[str] = ()) -> Bounds:
        """The bounds, where they can be read and kept; `patterns` may have their own."""
        if not isinstance(budget, Budget):
            raise errors.QueryError(
                f"{budget!r} is not a budget", remedy="write ensue.Budget(work=1000)"
            )
        memory, work = self._one("memory", budget.memory), self._one("work", budget.work)
        if isinstance(budget.latency, Mapping):
            bounds = Bounds(None, memory, work, self._each(budget.latency, patterns))
        else:
            bounds = Bounds(self._one("latency", budget.latency), memory, work)
        bounds = replace(bounds, recall=self._floor(budget.recall))
        bounding = {name: value for name, value in vars(budget).items() if name != "recall"}
        given = [f"{name}={value!r}" for name, value in bounding.items() if value is not None]
        if bounds.recall is not None and not self.floors:
            raise self._refusal(f"recall={budget.recall!r}", "no recall")
        if not given and bounds.recall is not None and not self.goal:
            raise errors.UnsupportedError(
                f"recall={budget.recall!r}: {self.name} take a recall only together with a "
                "bound, as a "
                "floor that warns; its cost as a goal is not known",
                remedy=self._remedy(),
            )
        if not given and bounds.recall is None and not self.optional:
            raise errors.QueryError(
                "the budget has no bound", remedy=f"{self._remedy()}, or leave the budget out"
            )
        if len(given) > 1 and not self.together:
            raise errors.QueryError(
                f"{', '.join(given)}: {self.name} take one bound at a time", remedy="leave one out"
            )
        return bounds

    def _floor(self, value: object) -> float | None:
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1:
            return float(value)
        raise errors.QueryError(
            f"recall={value!r} is not a share of the matches", remedy="write for example recall=0.9"
        )

    def _one(self, name: str, value: object) -> Bound | None:
        return None if value is None else self._kept(name, value, name)

    def _each(self, values: Mapping[str, object], patterns: Collection[str]) -> dict[str, Bound]:
        if Form.LATENCY_EACH not in self.takes:
            raise self._refusal(f"latency={values!r}", "one latency, not one per pattern")
        if not values:
            raise errors.QueryError(
                "latency={} names no pattern", remedy="name one, or leave latency out"
            )
        for pattern in values:
            if pattern not in patterns:
                raise errors.QueryError(
                    f"the budget names the pattern {pattern!r}, which the workload does not have",
                    remedy=f"use one of: {', '.join(patterns)}",
                )
        return {
            pattern: self._kept("latency", value, f"latency of {pattern!r}")
            for pattern, value in values.items()
        }

    def _kept(self, name: str, value: object, said: str) -> Bound:
        """One bound, where the room can keep to it; `said` is how errors call it."""
        bound, given = read_bound(name, value, said), f"{said}={value!r}"
        amount, share = Form[name.upper()], Form[f"{name.upper()}_SHARE"]
        if not self.takes & {amount, share}:
            why = f": {self.no_memory}" if name == "memory" and self.no_memory else ""
            raise self._refusal(given, f"no bound on {name}{why}")
        if (share if bound.share else amount) not in self.takes:
            raise self._refusal(given, f"an amount of {name}, not a share of the unbounded run")
        least = self.least_work if name == "work" and not bound.share else 0.0
        if bound.amount < least or not (bound.amount or self.zero):
            raise errors.QueryError(
                f"{given} leaves nothing to match with",
                remedy=f"give at least {least:g}" if least else "give more than 0",
            )
        return bound

    def _refusal(self, given: str, takes: str) -> errors.UnsupportedError:
        return errors.UnsupportedError(f"{given}: {self.name} take {takes}", remedy=self._remedy())

    def _remedy(self) -> str:
        *most, last = [form.value for form in Form if form in self.takes]
        return f"give {', '.join(most)} or {last}"


def budget_of(budget: Budget | None, names: Collection[str]) -> Budget | None:
    """The bounds that concern some patterns of a workload; None where none does."""
    if budget is None or not isinstance(budget.latency, Mapping):
        return budget
    own = {name: value for name, value in budget.latency.items() if name in names}
    if not own and budget.memory is None and budget.work is None:
        return None
    return replace(budget, latency=own or None)


# -- the reader ----------------------------------------------------------------------------------


def read_bound(name: str, value: object, said: str = "") -> Bound:
    """A bound on latency (in seconds), memory (in bytes) or work; `said` is what errors call it."""
    given = f"{said or name}={value!r}"
    if isinstance(value, str) and value.strip().endswith("%"):
        return Bound(_share(value, given), share=True)
    try:
        return Bound(_READERS[name](value, given))
    except OverflowError:
        raise errors.QueryError(
            f"{given} is too large a number", remedy="give a smaller bound, or leave it out"
        ) from None


def read_size(text: object, given: str) -> int:
    """Bytes of "256 MB" and the like, in powers of 1,024; `given` is what errors call it."""
    size = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if size is None:
        raise errors.QueryError(
            f"{given} is not a size in bytes", remedy='write for example "256 MB"'
        )
    return int(Fraction(size[1]) * 1024 ** " KMGT".index(size[2].upper() or " "))


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", re.IGNORECASE)


def _share(text: str, given: str) -> float:
    try:
        percent = float(text.strip()[:-1])
    except ValueError:
        percent = math.nan
    if not 0 < percent <= 100:
        raise errors.QueryError(
            f"{given} is not a share of the unbounded run",
            remedy='write a share above 0% and up to 100%, such as "50%"',
        )
    return percent / 100


def _seconds(value: object, given: str) -> float:
    """Fractions of a microsecond too: an event may well take less than one."""
    microseconds = exact_duration(value) if isinstance(value, str) else None
    if microseconds is None:
        raise errors.QueryError(
            f"{given} is not a duration",
            remedy='write a number and a unit, such as "50 ms" or "0.5 us"',
        )
    return float(microseconds / 1_000_000)


def _bytes(value: object, given: str) -> float:
    return float(read_size(value, given))


def _units(value: object, given: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise errors.QueryError(f"{given} is not an amount of work", remedy="write work=1000")


_READERS = {"latency": _seconds, "memory": _bytes, "work": _units}
