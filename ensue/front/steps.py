"""FlinkCEP's vocabulary, step by step, to pattern nodes and conditions.

`Steps` is what has been said so far; `Vocabulary` are the words. Each word returns a new chain, so
that a beginning can be continued in two ways. A step is a label with a condition, or a group (a
chain of its own); quantifiers speak of the last step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

from ensue import errors
from ensue.front.builder import expression_text
from ensue.query import nodes
from ensue.query.duration import parse_duration, spelled
from ensue.query.nodes import Gap, Policy

RELAXED = Gap(Policy.NEXT)
FIRST_AND_LAST, PREVIOUS_AND_CURRENT = "first and last", "previous and current"


@dataclass(frozen=True)
class Step:
    """One step: how it is reached, what it is and how often it comes."""

    part: str | Steps
    gap: Gap = nodes.STRICT_GAP
    negative: bool = False
    where: str | None = None
    least: int = 1
    most: int | None = 1
    quantified: bool = False
    optional: bool = False
    inner: Gap = RELAXED
    exhaust: bool = False
    until: str | None = None

    @property
    def name(self) -> str:
        return self.part if isinstance(self.part, str) else "the group"

    @property
    def until_label(self) -> str:
        if isinstance(self.part, str):
            return f"{self.part} until"
        return f"{' '.join(self.part.names())} until"

    def node(self, policy: Policy) -> nodes.Node:
        """The step, at a place where a loop has that policy unless it says another."""
        part: nodes.Node
        part = nodes.Label(self.part) if isinstance(self.part, str) else self.part.node()
        if self.negative:
            assert isinstance(part, nodes.Label)
            return nodes.Negation(part)
        if not self.quantified:
            if not self.optional:
                return part
            return nodes.Repetition(part, 0, 1, gap=Gap(policy))
        until = nodes.Label(self.until_label) if self.until is not None else None
        least = 0 if self.optional and self.least == 1 else self.least
        loop = nodes.Repetition(part, least, self.most, True, self.inner, self.exhaust, until)
        if self.optional and self.least > 1:
            return nodes.Repetition(loop, 0, 1, gap=self.inner)
        return loop


@dataclass(frozen=True)
class Steps:
    """A chain of steps, in order."""

    steps: tuple[Step, ...]

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def names(self) -> tuple[str, ...]:
        found: list[str] = []
        for step in self.steps:
            if isinstance(step.part, str):
                found.append(step.part)
            else:
                found.extend(step.part.names())
            if step.until is not None:
                found.append(step.until_label)
        return tuple(found)

    def node(self) -> nodes.Node:
        gaps = [step.gap for step in self.steps[1:]]
        policies = nodes.loop_policies(gaps) if gaps else [self.last.gap.policy]
        return nodes.concatenate(list(map(Step.node, self.steps, policies)), gaps)

    def define(self) -> tuple[tuple[str, str], ...]:
        """(label, condition) of every step that has one."""
        found: list[tuple[str, str]] = []
        for step in self.steps:
            if isinstance(step.part, str):
                if step.where is not None:
                    found.append((step.part, step.where))
            else:
                found.extend(step.part.define())
            if step.until is not None:
                found.append((step.until_label, step.until))
        return tuple(found)

    def add(self, step: Step) -> Steps:
        new = step.part if isinstance(step.part, str) else None
        names = (new,) if new is not None else step.part.names()  # type: ignore[union-attr]
        for name in names:
            if name in self.names():
                raise errors.DuplicateNameError(
                    f"two steps are called {name!r}", remedy="give each step a name of its own"
                )
        return Steps((*self.steps, step))

    def change(self, **changes: Any) -> Steps:
        return Steps((*self.steps[:-1], replace(self.last, **changes)))


class Vocabulary(ABC):
    """The words of a chain; the class that has them keeps the steps."""

    @property
    @abstractmethod
    def _steps(self) -> Steps: ...

    @abstractmethod
    def _said(self, steps: Steps) -> Self: ...

    # -- conditions ------------------------------------------------------------------------------

    def where(self, condition: object) -> Self:
        """What the event of this step must satisfy; said twice, both must hold."""
        return self._condition(condition, "AND", "where")

    def or_where(self, condition: object) -> Self:
        """Another way to satisfy this step."""
        return self._condition(condition, "OR", "or_where")

    def _condition(self, condition: object, join: str, word: str) -> Self:
        step = self._steps.last
        if not isinstance(step.part, str):
            raise errors.QueryError(
                f"{word}() applies to one step, not to a group",
                remedy="put the condition on a step inside the group",
            )
        text = expression_text(condition, f"DEFINE {step.name}")
        if step.where is not None:
            text = f"({step.where}) {join} ({text})"
        return self._said(self._steps.change(where=text))

    # -- the next step ---------------------------------------------------------------------------

    def next(self, step: object) -> Self:
        """The very next event."""
        return self._follow(step, Policy.STRICT)

    def followed_by(self, step: object) -> Self:
        """The next event that fits; what does not fit is skipped."""
        return self._follow(step, Policy.NEXT)

    def followed_by_any(self, step: object) -> Self:
        """Any later event that fits, each giving a match of its own."""
        return self._follow(step, Policy.ANY)

    def not_next(self, name: str) -> Self:
        """The very next event is not such an event."""
        return self._negative(name, Policy.STRICT)

    def not_followed_by(self, name: str) -> Self:
        """No such event until the next step; at the end, none within the window."""
        return self._negative(name, Policy.NEXT)

    def _follow(self, step: object, policy: Policy) -> Self:
        return self._said(self._steps.add(Step(part_of(step), Gap(policy))))

    def _negative(self, name: str, policy: Policy) -> Self:
        if not isinstance(name, str):
            raise errors.QueryError(
                "a group of steps cannot be negated", remedy="negate a single step by its name"
            )
        return self._said(self._steps.add(Step(name, Gap(policy), negative=True)))

    # -- how often -------------------------------------------------------------------------------

    def one_or_more(self, within: str | int | timedelta | None = None) -> Self:
        return self._quantify("one_or_more", 1, None, within)

    def times(
        self, least: int, most: int | None = None, within: str | int | timedelta | None = None
    ) -> Self:
        """Exactly `least` times, or from `least` to `most`."""
        most = least if most is None else most
        _whole("times", least)
        _whole("times", most)
        if least < 0 or most < max(least, 1):
            raise errors.QueryError(
                f"times({least}, {most}) cannot come true",
                remedy="give a positive number, or a range with the smaller number first",
            )
        chain = self._quantify("times", max(least, 1), most, within)
        return chain._said(chain._steps.change(optional=True)) if least == 0 else chain

    def times_or_more(self, least: int, within: str | int | timedelta | None = None) -> Self:
        _whole("times_or_more", least)
        if least < 1:
            raise errors.QueryError(
                f"times_or_more({least}) needs a positive number",
                remedy="write one_or_more().optional() for zero or more",
            )
        return self._quantify("times_or_more", least, None, within)

    def _quantify(
        self, word: str, least: int, most: int | None, within: str | int | timedelta | None
    ) -> Self:
        step = self._positive(word)
        if step.quantified:
            raise errors.QueryError(
                f"{word}(): {step.name!r} already says how often it comes",
                remedy="say it once, or put the step into a group",
            )
        gap = bounded(step.inner, within)
        return self._said(self._steps.change(least=least, most=most, quantified=True, inner=gap))

    def optional(self) -> Self:
        step = self._positive("optional")
        if step.optional:
            raise errors.QueryError(
                f"{step.name!r} is optional already", remedy="say optional() once"
            )
        return self._said(self._steps.change(optional=True))

    def greedy(self) -> Self:
        """The loop takes every event it can before what follows may."""
        step = self._loop("greedy")
        if not isinstance(step.part, str):
            raise errors.QueryError(
                "greedy() is not defined for a group of steps",
                remedy="make a loop inside the group greedy",
            )
        return self._said(self._steps.change(exhaust=True))

    def consecutive(self) -> Self:
        """Nothing lies between two events of the loop."""
        return self._inner("consecutive", Policy.STRICT)

    def allow_combinations(self) -> Self:
        """Anything may lie between two events of the loop, other fitting events too."""
        return self._inner("allow_combinations", Policy.ANY)

    def _inner(self, word: str, policy: Policy) -> Self:
        step = self._loop(word)
        return self._said(self._steps.change(inner=replace(step.inner, policy=policy)))

    def until(self, condition: object) -> Self:
        """The loop ends before an event that satisfies this."""
        step = self._positive("until")
        if not step.quantified or step.most is not None:
            raise errors.QueryError(
                f"until() ends a loop, and {step.name!r} is not one",
                remedy="say one_or_more() or times_or_more(n) first",
            )
        if step.until is not None:
            raise errors.QueryError(
                f"{step.name!r} has an until() already", remedy="join the two conditions with OR"
            )
        text = expression_text(condition, f"DEFINE {step.until_label}")
        return self._said(self._steps.change(until=text))

    def _positive(self, word: str) -> Step:
        step = self._steps.last
        if step.negative:
            raise errors.QueryError(
                f"{word}() cannot be used on the negated step {step.name!r}",
                remedy="use it on the step before or after",
            )
        return step

    def _loop(self, word: str) -> Step:
        step = self._positive(word)
        if not step.quantified:
            raise errors.QueryError(
                f"{word}() applies to a loop, and {step.name!r} is not one",
                remedy="say one_or_more(), times(...) or times_or_more(n) first",
            )
        return step

    def _bound_last(self, size: str | int | float | timedelta) -> Self:
        step = self._steps.last
        changes: dict[str, Any] = {"inner": bounded(step.inner, size)}
        if len(self._steps.steps) > 1:
            changes["gap"] = bounded(step.gap, size)
        return self._said(self._steps.change(**changes))


def _whole(word: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise errors.QueryError(
            f"{word}({number!r}) is not a number of events",
            remedy=f"give a whole number: {word}(2)",
        )


def begin_steps(step: object) -> Steps:
    return Steps((Step(part_of(step)),))


def part_of(step: object) -> str | Steps:
    if isinstance(step, str):
        if not step.strip():
            raise errors.QueryError("a step has an empty name", remedy="give it a name")
        return step
    if isinstance(step, Vocabulary):
        return step._steps
    raise errors.QueryError(
        f"a step is a name or a group, not {step!r}",
        remedy='write followed_by("b"), or followed_by(ensue.begin("b")...) for a group',
    )


def bounded(gap: Gap, within: str | int | float | timedelta | None) -> Gap:
    """The joint with a bound: a duration, or units of a numeric order column."""
    within = spelled(within)
    timed = within is None or (isinstance(within, str) and not within.strip().isdigit())
    return Gap(gap.policy, gap_bound(within), timed)


def gap_bound(within: str | int | float | timedelta | None) -> int | None:
    """A span of time: microseconds of a duration, or units of a numeric order column."""
    within = spelled(within)
    if within is None:
        return None
    if isinstance(within, str) and not within.strip().isdigit():
        return parse_duration(within)
    if isinstance(within, bool) or not isinstance(within, (int, str)) or int(within) < 0:
        raise errors.QueryError(
            f"{within!r} is not a bound on time",
            remedy="write a duration such as '5 minutes', or a whole number of order units",
        )
    return int(within)
