"""Sub-patterns that patterns share at different places (SHARP §3.1, Figure 14).

`X ->> A ->> B ->> E` and `A ->> B ->> C` share A, B, but not at the same place: partial matches of
the first begin with X. Where nothing in `A ->> B ->> E` reads X, the first pattern is cut there:
its *tail* shares partial matches with the other pattern, its *head* is matched by itself, and each
match of the tail is joined with the matches of the head that lie before it, inside the window. That
holds for chains of single events that may skip anything; it is done where no bound is set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan, plan
from ensue.automaton.sequence import compile_sequence
from ensue.automaton.share import Identity, Union, identities, unite
from ensue.automaton.subsets import Subsets
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, SkipMode
from ensue.sequences.batch import EventBatch
from ensue.sequences.output import Found, Output
from ensue.shared.own import own_table

LEAST_SHARED = 2
_HEAD, _TAIL = "head of ", "tail of "


@dataclass(frozen=True)
class Cut:
    """A pattern in two parts; `place` labels belong to the head."""

    name: str
    planned: Plan  # of the whole pattern
    place: int

    @property
    def parts(self) -> dict[str, Query]:
        labels = self.planned.query.labels
        halves = labels[: self.place], labels[self.place :]
        return {
            prefix + self.name: _part(self.planned.query, half)
            for prefix, half in zip((_HEAD, _TAIL), halves, strict=True)
        }


def _part(query: Query, labels: Sequence[str]) -> Query:
    parts = tuple(nodes.Label(label) for label in labels)
    gaps = (nodes.Gap(nodes.Policy.ANY),) * (len(parts) - 1)
    return replace(
        query,
        pattern=parts[0] if len(parts) == 1 else nodes.Concatenation(parts, gaps),
        define=tuple((label, value) for label, value in query.define if label in labels),
        measures=None,
        all_matches=True,
    )


def cuts(queries: Mapping[str, Query]) -> dict[str, Cut]:
    """Patterns that share more when they are cut."""
    known = {name: _known(query) for name, query in queries.items() if _is_chain(query)}
    found: dict[str, Cut] = {}
    for name, mine in known.items():
        others = [other for n, other in known.items() if n != name and n not in found]
        if max((_common(mine, other) for other in others), default=0) >= LEAST_SHARED:
            continue
        best, place = LEAST_SHARED - 1, 0
        query = queries[name]
        for cut in range(1, len(mine) - 1):
            if not _independent(query, cut):
                continue
            tail = _known(_part(query, query.labels[cut:]))
            shared = max((_common(tail, other) for other in others), default=0)
            if shared > best:
                best, place = shared, cut
        if place:
            found[name] = Cut(name, plan(query), place)
    return found


def _known(query: Query) -> tuple[Identity, ...]:
    return tuple(identities(query, id(query)))


def _common(left: Sequence[Identity], right: Sequence[Identity]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _is_chain(query: Query) -> bool:
    pattern = query.pattern
    return (
        isinstance(pattern, nodes.Concatenation)
        and all(isinstance(part, nodes.Label) for part in pattern.parts)
        and all(gap == nodes.Gap(nodes.Policy.ANY) for gap in pattern.gaps)
        and len(set(query.labels)) == len(pattern.parts)
        and query.skip.mode is SkipMode.NONE
        and not query.without
        and not query.subsets
    )


def _independent(query: Query, place: int) -> bool:
    """Whether the labels from `place` on read none before it."""
    tail = query.labels[place:]
    for label in tail:
        for node in c.walk(query.definition(label)):
            if isinstance(node, (c.MatchNumber, c.Classifier)):
                return False
            if isinstance(node, c.Aggregate) and node.variable not in tail:
                return False
            if isinstance(node, c.Navigate) and node.variable not in tail:
                under_test = node.variable is None and node.anchor is c.Anchor.LAST
                if not under_test or node.offset:
                    return False
    return True


def unite_parts(queries: Mapping[str, Query], found: Mapping[str, Cut]) -> Union:
    """The union in which the parts stand for the patterns that were cut."""
    asked: dict[str, Query] = {}
    for name, query in queries.items():
        asked.update(found[name].parts if name in found else {name: query})
    union = unite(asked)
    inputs = dict.fromkeys(union.plan.inputs)
    for cut in found.values():
        inputs.update(dict.fromkeys(cut.planned.inputs))
    return replace(union, plan=replace(union.plan, inputs=tuple(inputs)))


def joined(
    cut: Cut,
    collected: Mapping[str, Sequence[Found]],
    joint: Plan,
    table: pa.Table,
    starts: NDArray[np.int64],
) -> tuple[pa.Table, int]:
    """Matches of a pattern that was cut: every tail with the heads before it, inside the window."""
    width = len(cut.planned.query.labels)
    heads = _rows(collected.get(_HEAD + cut.name, ()), cut.place)
    tails = _rows(collected.get(_TAIL + cut.name, ()), width - cut.place)
    heads = heads[np.argsort(heads[:, -1], kind="stable")]
    own = own_table(joint, cut.planned, table, flags=False)
    batch = EventBatch(cut.planned, Subsets(compile_sequence(cut.planned.query)), own, starts)
    begins = starts[np.searchsorted(starts, tails[:, 0], side="right") - 1]
    low = begins if batch.low is None else np.maximum(begins, batch.low[tails[:, -1]])
    first = np.searchsorted(heads[:, -1], low, side="left")
    last = np.searchsorted(heads[:, -1], tails[:, 0], side="left")
    counts = np.maximum(last - first, 0)
    shift = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    chosen = np.arange(int(counts.sum())) + shift
    pairs = np.concatenate([heads[chosen], np.repeat(tails, counts, axis=0)], axis=1)
    pairs = pairs[pairs[:, 0] >= np.repeat(low, counts)]
    partition = np.searchsorted(starts, pairs[:, 0], side="right") - 1
    order = np.lexsort((pairs[:, 0], pairs[:, -1], partition))
    pairs, partition = pairs[order], partition[order]
    edges = np.searchsorted(partition, np.arange(len(starts)))
    found = Found(
        partition,
        np.arange(len(pairs)) - edges[partition] + 1,
        np.ones(len(pairs), np.bool_),
        np.full(len(pairs), width, np.int64),
        np.tile(np.arange(width, dtype=np.int32), len(pairs)),
        pairs.ravel(),
    )
    return Output(cut.planned, False).table(batch, found), len(pairs)


def _rows(found: Sequence[Found], width: int) -> NDArray[np.int64]:
    """One line of rows per match, in the order of the chain's labels."""
    if not found:
        return np.zeros((0, width), np.int64)
    return np.concatenate([np.asarray(f.rows, np.int64) for f in found]).reshape(-1, width)
