"""Rules of event patterns: where a "not" may stand, and what can be asked of it."""

from __future__ import annotations

from ensue import errors
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.nodes import Policy
from ensue.query.query import Query


def check_events(query: Query) -> None:
    """Raises where an event pattern breaks a rule."""
    _negations(query.pattern)
    _trailing(query)
    _unseen(query)


def _negations(pattern: nodes.Node) -> None:
    if isinstance(pattern, nodes.Negation):
        raise errors.QueryError(
            f"the pattern is only the absence of {pattern.part.name!r}",
            remedy="say after what it must be absent: A -> !B",
        )
    for node in nodes.walk(pattern):
        if isinstance(node, nodes.Concatenation):
            first = node.parts[0]
            if isinstance(first, nodes.Negation):
                raise errors.QueryError(
                    f"a pattern or group cannot begin with the absence of {first.part.name!r}",
                    remedy="put the negated step after the event that begins its absence",
                )
            continue
        inside = [n for n in nodes.children(node) if isinstance(n, nodes.Negation)]
        if inside:
            raise errors.QueryError(
                f"!{inside[0].part.name} stands alone in a loop, an alternative or PERMUTE",
                remedy="write it between two steps",
            )


def trailing_negation(pattern: nodes.Node) -> str | None:
    """The label whose absence ends the pattern, where only a window can prove it."""
    if isinstance(pattern, nodes.Concatenation):
        last, gap = pattern.parts[-1], pattern.gaps[-1]
        if isinstance(last, nodes.Negation):
            proved = gap.policy is Policy.STRICT or gap.within is not None
            return None if proved else last.part.name
        return trailing_negation(last)
    if isinstance(pattern, (nodes.Alternation, nodes.Permutation, nodes.Repetition)):
        # Any alternative, any part of PERMUTE and the last round of a loop may come last.
        found = map(trailing_negation, nodes.children(pattern))
        return next((name for name in found if name is not None), None)
    return None


def _trailing(query: Query) -> None:
    name = trailing_negation(query.pattern)
    if name is not None and query.within is None:
        raise errors.QueryError(
            f"the pattern ends with the absence of {name!r} but has no window, so its absence "
            "could never be known",
            remedy="add within('1 hour'), a bound (A -> within 1 hour !B), or a step after it",
        )


def _unseen(query: Query) -> None:
    unseen = query.unseen
    for measure in query.measures or ():
        for node in c.walk(measure.value):
            if isinstance(node, (c.Navigate, c.Aggregate)) and node.variable in unseen:
                raise errors.QueryError(
                    f"the measure {measure.name!r} reads {node.variable!r}, and no match has "
                    "an event for it: it is negated, ends a loop or is forbidden",
                    remedy="read a step that is part of the match",
                )
    if query.skip.variable in unseen:
        raise errors.QueryError(
            f"AFTER MATCH SKIP TO {query.skip.variable}: no match has such an event",
            remedy="skip to a step that is part of the match",
        )
