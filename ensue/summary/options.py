"""What `summarize` was asked, its rules, and the policy that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real

from ensue import errors
from ensue.automaton.counting import counting_automaton
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, WindowKind
from ensue.summary import reading
from ensue.summary.machine import ClassedAutomaton
from ensue.summary.store import MODES, NO_WINDOW, Selection


@dataclass(frozen=True)
class SummaryOptions:
    """What `summarize` was asked, besides the query."""

    size: int
    select: str = "benefit"
    total: c.Condition | None = None
    total_text: str | None = None
    probabilities: Mapping[str, float] | None = None
    equal: Mapping[str, Sequence[str]] | None = None
    budget: int | None = None
    seed: int = 0
    detect: bool = False
    counts: str = "decimal"  # in tables; or "text", digits of any length


def check_options(query: Query, options: SummaryOptions) -> None:
    """The rules of `summarize`."""
    size = options.size
    if not _whole(size) or size < 1:
        raise errors.QueryError(
            f"size={size!r}: a summary keeps a positive number of events",
            remedy="give size=500, or as much as you can afford",
        )
    if options.select not in MODES:
        raise errors.QueryError(
            f"select={options.select!r} is not a way to choose events",
            remedy=f"use one of: {', '.join(MODES)}",
        )
    if query.within is not None and query.within.size == 0:
        raise errors.QueryError(
            "a window of 0 holds only events of one moment", remedy="give a window above 0"
        )
    if options.counts not in ("decimal", "text"):
        raise errors.QueryError(
            f"counts={options.counts!r} is not a way to write counts in a table",
            remedy="use 'decimal' (38 digits) or 'text'",
        )
    budget = options.budget
    if budget is not None and not (_whole(budget) and budget >= 1):
        raise errors.QueryError(
            f"budget={budget!r}: the events over all keys must be a whole number, at least 1",
            remedy="give the number of events all keys together may keep",
        )
    if not (_whole(options.seed) and abs(options.seed) < 1 << 63):
        raise errors.QueryError(
            f"seed={options.seed!r} is not a whole number of 64 bits", remedy="give seed=1"
        )


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def selection_of(query: Query, options: SummaryOptions, total: reading.Total | None) -> Selection:
    """The machine and the policy of a checked query."""
    policy = reading.policy_of(query)
    automaton = counting_automaton(query.pattern, query.labels)
    if options.size < automaton.shortest:
        raise errors.QueryError(
            f"size={options.size} is below the shortest match of {automaton.shortest} events, so "
            "the summary could never hold a match",
            remedy=f"give a size of at least {automaton.shortest}",
        )
    if options.budget is not None and options.budget < automaton.shortest:
        raise errors.QueryError(
            f"budget={options.budget} is below the shortest match of {automaton.shortest} events",
            remedy=f"give a budget of at least {automaton.shortest}",
        )
    window: int | float = NO_WINDOW
    counted = True
    if query.within is not None:
        counted = query.within.kind is WindowKind.ROWS
        window = query.within.size - 1 if counted else query.within.size
    if counted and window + 1 < automaton.shortest:
        raise errors.QueryError(
            f"within {window + 1} rows is below the shortest match of {automaton.shortest} events",
            remedy="give a larger window",
        )
    valued = total.labels if total is not None else frozenset()
    return Selection(
        machine=ClassedAutomaton(automaton, policy is nodes.Policy.ANY, valued),
        size=options.size,
        mode=MODES[options.select],
        window=window,
        counted=counted,
        sums=total is not None and total.function in ("sum", "avg"),
        given=_probabilities(options.probabilities, query.labels),
        seed=options.seed,
        detect=options.detect,
    )


def _probabilities(
    given: Mapping[str, float] | None, labels: tuple[str, ...]
) -> dict[int, float] | None:
    if given is None:
        return None
    unknown = [name for name in given if name not in labels and name != "*"]
    if unknown:
        raise errors.UnknownVariableError(
            f"probabilities name {unknown[0]!r}, which the pattern does not have",
            remedy=f"use {', '.join(labels)}, and '*' for all other events together",
        )
    for name, share in given.items():
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= share <= 1:
            raise errors.QueryError(
                f"the probability of {name!r} is {share!r}, not a number from 0 to 1",
                remedy="give each label its share of the stream",
            )
    total = sum(given.values())
    if abs(total - 1) > 1e-6:
        raise errors.QueryError(
            f"the probabilities sum to {total:.6g}, not to 1",
            remedy="give each label its share of the stream, and '*' the share of other events; "
            "or leave them out to have them learned",
        )
    return {labels.index(name): float(p) for name, p in given.items() if name != "*"}


def asked_total(
    query: Query, options: SummaryOptions, names: Sequence[str]
) -> reading.Total | None:
    """What `total=` asks for, with the input's own spelling of its columns."""
    if options.total is None:
        return None
    asked = reading.total_of(options.total, query, options.total_text or "")
    return bound_total(asked, names)


def bound_total(total: reading.Total | None, names: Sequence[str]) -> reading.Total | None:
    """The total with the input's own spelling of its columns."""
    if total is None:
        return None
    folded = {name.casefold(): name for name in names}
    for name in c.columns(total.value):
        if name.casefold() not in folded:
            raise errors.UnknownColumnError(
                f"total: the input has no column {name!r}",
                remedy=f"columns are: {', '.join(names)}",
            )

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, c.Column):
            return c.Column(folded[node.name.casefold()], node.path)
        return None

    return replace(total, value=c.transform(total.value, change))
