"""`allow_missing`: which events of a pattern may be missing, what each costs, and the bound.

Weights are exact fractions (0.1 + 0.2 is 0.3 here), counted by the evaluator in whole *units*: the
least common denominator of the bound and all weights. The rules are those of approximate matching
(Li and Ge, RC-ACEP, VLDB 2016, Definition 1): only skip-till-any joints, no negation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ensue import errors
from ensue.query import nodes
from ensue.query.nodes import Policy

if TYPE_CHECKING:
    from ensue.query.query import Query

COLUMNS = ("errors", "missing", "missing_at")  # of the output, beside the usual ones
MAX_UNITS = 1 << 20
HISTORY = 512  # match bundles that a history tells apart
LEARNING_ROWS = 200_000  # after which learning ends even if the bundles are fewer


class NearlyEverythingMatchesWarning(UserWarning):
    """As many events may be missing as the shortest match has."""


@dataclass(frozen=True)
class Effort:
    """How a budget is spent: the options of RC-ACEP (docs/missing.md)."""

    proxy: bool = False  # keep the latest start per state and error level only (§3.3)
    history: int = HISTORY  # m: match bundles, that is bits of a match map
    sketch: int | None = None  # c: cells of the history sketch (§4); None: the full history
    adapt: str = "agents"  # "frozen", "secondary" maps (§5), or those and Q-learning "agents"
    learn: int = LEARNING_ROWS  # rows after which learning ends, whatever was seen


@dataclass(frozen=True)
class Missing:
    """At most `bound` in total may be missing, an event costing 1 or its weight."""

    bound: Fraction
    weights: tuple[tuple[str, Fraction], ...] = ()
    required: tuple[str, ...] = ()
    effort: Effort = Effort()

    @property
    def scale(self) -> int:
        """Units in one."""
        return math.lcm(self.bound.denominator, *(w.denominator for _, w in self.weights))

    @property
    def units(self) -> int:
        """The bound in units."""
        return int(self.bound * self.scale)

    def cost(self, label: str) -> int | None:
        """Units that a missing event of the label costs; None where it must not be missing."""
        if label in self.required:
            return None
        return int(dict(self.weights).get(label, Fraction(1)) * self.scale)


def as_missing(
    bound: Any, weights: Mapping[str, Any] | None, required: Iterable[str], effort: Effort
) -> Missing:
    """What was given to `allow_missing`, checked; labels are resolved by the caller."""
    total = _number(bound, "allow_missing(k)")
    if weights is None and total.denominator != 1:
        raise errors.QueryError(
            f"allow_missing({bound!r}): without weights the bound counts events",
            remedy="give a whole number, or weights with missing={...}",
        )
    priced = tuple(
        (label, _number(weight, f"allow_missing(missing={{{label!r}: ...}})"))
        for label, weight in (weights or {}).items()
    )
    forbidden = tuple(required)
    for label, _ in priced:
        if label in forbidden:
            raise errors.QueryError(
                f"allow_missing: {label!r} has a weight for being missing and is required",
                remedy="name it in one of missing= and required=",
            )
    _effort(effort)
    found = Missing(total, priced, forbidden, effort)
    if found.units > MAX_UNITS:
        raise errors.LimitError(
            f"allow_missing: the bound is {found.units:,} times the greatest common part of bound "
            f"and weights; the limit is {MAX_UNITS:,}",
            remedy="round the weights",
        )
    return found


def _number(value: Any, where: str) -> Fraction:
    wrong = isinstance(value, bool) or not isinstance(value, (int, float, Fraction))
    if wrong or (isinstance(value, float) and not math.isfinite(value)):
        raise errors.QueryError(
            f"{where} takes a number, not {value!r}",
            remedy="give a number of 0 or more; required=[...] names what must not be missing",
        )
    if value < 0:
        raise errors.QueryError(
            f"{where} is {value!r}: a number of missing events, or their weight, is not negative",
            remedy="give 0 or more",
        )
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def _effort(effort: Effort) -> None:
    if effort.adapt not in ("frozen", "secondary", "agents"):
        raise errors.QueryError(
            f"allow_missing(adapt={effort.adapt!r}) is not known",
            remedy="use 'frozen', 'secondary' or 'agents'",
        )
    for name, least in (("history", 1), ("learn", 1), ("sketch", 2)):
        value = getattr(effort, name)
        if name == "sketch" and value is None:
            continue  # the full history
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise errors.QueryError(
                f"allow_missing({name}={value!r}) must be a whole number of {least} or more",
                remedy=f"leave {name} out for the default",
            )


# -- rules ----------------------------------------------------------------------------------------


def check_missing(query: Query) -> None:
    """Raises where the query cannot be asked with events missing."""
    missing = query.missing
    if missing is None:
        return
    hidden = query.unseen
    named = (*(label for label, _ in missing.weights), *missing.required)
    for label in named:
        if label in hidden:
            raise errors.QueryError(
                f"allow_missing names {label!r}, which is negated: it is missing in every match",
                remedy="name only events that a match has",
            )
    if hidden:
        raise errors.QueryError(
            f"allow_missing does not go with negated steps, until or without ({_some(hidden)}): "
            "it would be unclear whether a forbidden or a wanted event is missing",
            remedy="leave the negated step or allow_missing out",
        )
    if query.row_semantics:
        raise _joint("the blanks between its steps are strict")
    _joints(query.pattern)
    if query.skip.mode.name != "NONE":
        raise errors.UnsupportedError(
            "allow_missing lists all matches and takes no after-match strategy",
            remedy="leave after_match(...) out",
        )
    taken = [m.name for m in query.measures or ()] + list(query.partition_by)
    for name in taken:
        if name.casefold() in COLUMNS:
            raise errors.ReservedNameError(
                f"{name!r} is a column that allow_missing adds to the output",
                remedy="choose another name",
            )


def _joints(pattern: nodes.Node) -> None:
    for node in nodes.walk(pattern):
        gaps: list[tuple[nodes.Gap, nodes.Node]] = []
        if isinstance(node, nodes.Concatenation):
            gaps = list(zip(node.gaps, node.parts[1:], strict=True))
        elif isinstance(node, nodes.Repetition):
            if node.exhaust:
                text = nodes.pattern_text(node, folds=False)
                raise errors.UnsupportedError(
                    f"allow_missing does not go with the greedy loop {text}",
                    remedy="leave greedy() out",
                )
            if node.most != 1:
                gaps = [(node.gap, node)]
        elif isinstance(node, nodes.Permutation):
            gaps = [(node.gap, node)]
        for gap, part in gaps:
            text = nodes.pattern_text(part, folds=False)
            if gap.policy is not Policy.ANY:
                arrow = "->" if gap.policy is Policy.NEXT else "a blank"
                raise _joint(f"the step {text} is joined by {arrow} ({gap.policy.value})")
            if gap.within is not None:
                raise errors.UnsupportedError(
                    f"allow_missing does not go with the bounded joint before {text}: the event it "
                    "is measured from may be missing",
                    remedy="bound the whole match with within(...)",
                )


def _joint(problem: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(
        f"allow_missing needs skip-till-any joints: {problem}",
        remedy='join the steps by ->>, or say select("any")',
    )


def _some(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# -- the shortest serialisation -------------------------------------------------------------------


def least_cost(node: nodes.Node, missing: Missing) -> int | None:
    """Units that a match costs of which every event is missing; None where one is required."""
    match node:
        case nodes.Label(name=name):
            return missing.cost(name)
        case nodes.Concatenation(parts=parts) | nodes.Permutation(parts=parts):
            costs = [least_cost(part, missing) for part in parts]
            return None if None in costs else sum(cost for cost in costs if cost is not None)
        case nodes.Alternation(options=options):
            known = [
                c for c in (least_cost(option, missing) for option in options) if c is not None
            ]
            return min(known) if known else None
        case nodes.Repetition(part=part, least=least):
            cost = least_cost(part, missing) if least else 0
            return None if cost is None else cost * least
        case nodes.Exclusion(part=part):
            return least_cost(part, missing)
        case _:
            return 0


def too_generous(pattern: nodes.Node, missing: Missing) -> str | None:
    """A warning where all events of a shortest match may be missing."""
    cost = least_cost(pattern, missing)
    if cost is None or cost > missing.units or missing.units == 0:
        return None
    return (
        f"allow_missing({_shown(missing.bound)}): the shortest match costs "
        f"{_shown(Fraction(cost, missing.scale))} if all of it is missing, so nearly everything "
        "matches; the empty match is never reported"
    )


def _shown(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else str(float(value))
