"""Watermarks with a predicate let partial matches go (Appendix F.2), where nothing is retracted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ensue import errors
from ensue.automaton.registers import INFINITY, MINUS_INFINITY
from ensue.query import condition as c
from ensue.revision.events import EventOperator
from ensue.revision.kernels import layout
from ensue.revision.kernels.layout import NONE
from ensue.revision.promise_paths import arc_punctuation, path_punctuations


def keep(operator: EventOperator, promises: Mapping[c.Condition, int]) -> int:
    """No events for which a condition holds come before its time: partial matches that only such an
    event could lead to a match go. The number that went."""
    if (
        operator.may_ignore
        or operator.settings.sequenced
        or any(arc.epsilon or arc.closing for arc in operator.arcs)
    ):
        raise errors.UnsupportedError(
            "a watermark with a predicate needs an automaton without intervals, ε-arcs, "
            "arcs at the end of the window and sequence numbers",
            remedy="use plain watermarks, or matcher(ignorable_intervals=False)",
        )
    arcs = operator.arcs

    def punctuation(index: int) -> int:
        return arc_punctuation(arcs[index], operator.watermark, promises)

    def earliest(index: int, time: int) -> int:
        """The first event from a time on that the row-local fence of an arc accepts."""
        found = operator.code.compiled(arcs[index])
        events = operator.store.events[: int(operator.store.control[layout.HIGH_EVENT])]
        fits = (
            (events[:, layout.IDENTITY] >= 0)
            & (events[:, layout.LE] >= time)
            & (events[:, layout.BITS] & found.mask == found.value)
        )
        return int(events[fits, layout.LE].min()) if fits.any() else INFINITY

    starts = path_punctuations(
        arcs, operator.machine.finals, punctuation, earliest, operator.arc_watermark
    )
    covers = np.full(len(operator.code.states), NONE, np.int64)
    for state, limit in starts.items():
        if limit != MINUS_INFINITY:
            covers[operator.code.state(state)] = operator.kernels.at_or_before(
                operator.store, limit - 1, INFINITY, INFINITY
            )
    return int(operator.kernels.clean_states(operator.store, covers))
