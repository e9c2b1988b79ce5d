"""Patterns built step by step, in FlinkCEP's words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Never, Self

from ensue import errors
from ensue.api.pattern import Pattern
from ensue.front import builder
from ensue.front.steps import FIRST_AND_LAST, PREVIOUS_AND_CURRENT, Steps, Vocabulary, begin_steps
from ensue.query.options import known_options
from ensue.scalar.fence import fence_of


@known_options
def begin(step: object, after_match: str | None = None, *, trust: str = "all") -> Chain:
    """A pattern step by step, in FlinkCEP's words: `begin("a").where("x > 1").followed_by("b")`.

    `trust` is that of `pattern`.

    Examples:
        >>> q = ensue.begin("a").where("x > 1").followed_by("b").where("x < a.x").order_by("ts")
        >>> q.count(pa.table({"ts": [1, 2, 3], "x": [5, 7, 3]}))
        2
    """
    steps = begin_steps(step)
    draft = builder.Draft(steps.node(), define=steps.define(), events=True, fence=fence_of(trust))
    chain = Chain(draft, steps)
    return chain if after_match is None else chain.after_match(after_match)


class Chain(Vocabulary, Pattern):
    """A pattern built step by step; see `begin`."""

    def __init__(self, draft: builder.Draft, steps: Steps) -> None:
        super().__init__(draft)
        self._chain = steps

    @property
    def _steps(self) -> Steps:
        return self._chain

    def _said(self, steps: Steps) -> Self:
        own = dict(self._chain.define())
        others = tuple(item for item in self._draft.define if item[0] not in own)
        draft = replace(self._draft, pattern=steps.node(), define=others + steps.define())
        return type(self)(draft, steps)

    def _with(self, **changes: Any) -> Self:
        return type(self)(replace(self._draft, **changes), self._chain)

    @known_options
    def after_match(self, text: str, required: bool = False) -> Self:
        """As for every pattern; the step it names may be added later."""
        return self._with(skip_text=(text, required))

    def define(self, *unnamed: Never, **conditions: object) -> Self:
        """As for every pattern; a step that has a condition of its own keeps it."""
        self._draft.by_name("define", unnamed)
        for name in conditions:
            if name in dict(self._chain.define()):
                raise errors.DuplicateNameError(
                    f"{name!r} is defined by where(...) of its step, and by define(...)",
                    remedy="write both with where(...), which joins conditions with AND",
                )
        return self._with(define=self._draft.defined(conditions))

    @known_options
    def within(self, size: str | int | float | timedelta, between: str = FIRST_AND_LAST) -> Self:
        """A bound on the whole match (the smallest one given), or on the time since the last event.

        `between="previous and current"` bounds only the last step.
        """
        if between == PREVIOUS_AND_CURRENT:
            return self._bound_last(size)
        if between != FIRST_AND_LAST:
            raise errors.QueryError(
                f"within(between={between!r}) is not known",
                remedy=f"use {FIRST_AND_LAST!r} or {PREVIOUS_AND_CURRENT!r}",
            )
        window = builder.window(size)
        known = self._draft.within
        if known is not None and known.kind is window.kind and known.size < window.size:
            window = known
        return self._with(within=window)
