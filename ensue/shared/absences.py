"""Matches of complete partitions that end with an absence which time has not proved (`as_of=`).

The kernels settle at the end of a partition whatever still waits. Where the time is known by which
the table is to be judged, what is open by it is taken out here: a match whose window, or the bound
of whose last joint, was not over then. Every pattern is judged by its own window, since patterns of
one workload share chains of events and not windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.share import Member, Union
from ensue.operator.as_of import AS_OF, proves_absence
from ensue.query import nodes
from ensue.query.query import Query
from ensue.sequences.batch import EventBatch
from ensue.shared.engine import Chains


def hidden_bound(query: Query) -> bool:
    """Whether the absence is inside a part of the pattern, where a bound of its own may tell."""
    if not proves_absence(query) or _absent(query.pattern):
        return False
    return any(gap.within is not None for gap in nodes.gaps(query.pattern))


def _absent(pattern: nodes.Node) -> bool:
    return isinstance(pattern, nodes.Concatenation) and isinstance(
        pattern.parts[-1], nodes.Negation
    )


def _last_bound(pattern: nodes.Node) -> int | None:
    """The bound of the joint before the negated step that ends the pattern."""
    if not isinstance(pattern, nodes.Concatenation) or not _absent(pattern):
        return None
    return pattern.gaps[-1].within


def proved(
    found: Iterable[Chains], union: Union, table: pa.Table, starts: NDArray[np.int64]
) -> Iterator[Chains]:
    """The chains without those matches that are open by the time in the table."""
    if AS_OF not in table.column_names:
        yield from found
        return
    judges = {
        index: _Judge(member, table, starts)
        for index, member in enumerate(union.members)
        if proves_absence(member.plan.query)
    }
    for chains in found:
        keep = np.ones(len(chains.chain), np.bool_)
        for index, judge in judges.items():
            mine = np.flatnonzero(chains.pattern == index)
            keep[mine] = judge.proved(chains, chains.chain[mine])
        if keep.any():
            yield replace(chains, pattern=chains.pattern[keep], chain=chains.chain[keep])


class _Judge:
    """One pattern over one batch."""

    def __init__(self, member: Member, table: pa.Table, starts: NDArray[np.int64]) -> None:
        self._batch = EventBatch(member.plan, member.subsets, table, starts)
        self._starts = starts
        self._bound = _last_bound(member.plan.query.pattern)
        self._windowed = member.plan.query.within is not None

    def proved(self, chains: Chains, chain: NDArray[np.int64]) -> NDArray[np.bool_]:
        first, last = chains.rows[chains.offset[chain]], chains.rows[chains.offset[chain + 1] - 1]
        partition = np.searchsorted(self._starts, first, side="right") - 1
        over = chains.settled[chain] <= last  # by its last event
        if self._windowed:
            over |= first < self._batch.edges[partition]
        if self._bound is not None:
            order, now = self._batch.order, self._batch.now
            assert order is not None
            until = order[self._starts[partition + 1] - 1]
            until = until if now is None else np.maximum(until, now)
            over |= until - order[last] > self._bound
        return np.asarray(over)
