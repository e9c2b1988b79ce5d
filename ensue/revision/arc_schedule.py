"""Edits of arcs that come along with a batch of events: the second input of AFA (§2.3) as columns.

Each edit says after how many events of the batch it comes, which arcs end and which one begins.
Its lifetime is the default one: it applies to events after max(newest timestamp, watermark), where
the newest is that of the events before it. Since no event that came earlier lies in it, all edits
of a batch can be written before the first event is looked at: the batch is not cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.registers import Arc
from ensue.revision.kernels.layout import NONE, Numbers


@dataclass(frozen=True, eq=False)
class Palette:
    """Arcs that edits may add, by name; what was worked out for one of them is known again."""

    arcs: tuple[Arc, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)

    def with_arcs(self, arcs: Mapping[str, Arc]) -> Palette:
        known = dict(zip(self.places, self.arcs, strict=True)) | dict(arcs)
        return Palette(tuple(known.values()), {name: i for i, name in enumerate(known)})


@dataclass(frozen=True, eq=False)
class ArcSchedule:
    """Edits in the order of their coming; those at one place are one edit, which removes first."""

    palette: Palette
    names: tuple[str, ...]
    at: Numbers  # per edit: how many events come before it
    add: Numbers  # per edit: a place among the palette's arcs, or NONE
    remove: Numbers  # per edit: a place in `names`, or NONE

    @staticmethod
    def of(palette: Palette, at: Any, add: Any = None, remove: Any = None) -> ArcSchedule:
        """From names; null: nothing is added or removed."""
        places = np.asarray(at)
        if places.ndim != 1 or (len(places) and places.dtype.kind not in "iu"):
            raise errors.QueryError(
                "at= is not a list of whole numbers",
                remedy="say for each edit how many events of the batch come before it",
            )
        added, new = _encoded(add, len(places), "add")
        removed, old = _encoded(remove, len(places), "remove")
        for name in new:
            if name not in palette.places:
                raise errors.UnknownArcError(
                    f"there is no arc {name!r} to add",
                    remedy=f"prepare({{{name!r}: dict(source=..., target=..., when=...)}}) first",
                )
        steps = places[1:] - places[:-1]
        if len(steps) and steps.min() < 0:
            raise errors.QueryError(
                "at= decreases: edits are listed in the order in which they apply",
                remedy="sort the edits by at",
            )
        places = places.astype(np.int64)
        added = np.array([*(palette.places[name] for name in new), NONE], np.int64)[added]
        if len(steps) and steps.min() == 0:
            places, added, removed = _removing_first(places, added, removed)
        return ArcSchedule(palette, old, places, added, removed)

    def check(self, events: int) -> None:
        if len(self.at) and not (self.at[0] >= 0 and self.at[-1] <= events):
            raise errors.QueryError(
                f"at= goes from {self.at[0]} to {self.at[-1]}, with {events} events in the batch",
                remedy="let it be between 0 and the number of events",
            )

    def edits(self) -> Iterable[tuple[int, list[str], list[Arc]]]:
        """One edit after the other: the first of its rows, the names that end, arcs that begin."""
        firsts = np.flatnonzero(np.diff(self.at, prepend=-1)).tolist()
        for place, begin in enumerate(firsts):
            rows = slice(begin, firsts[place + 1] if place + 1 < len(firsts) else len(self.at))
            names = [self.names[place] for place in self.remove[rows] if place != NONE]
            arcs = [self.palette.arcs[place] for place in self.add[rows] if place != NONE]
            yield begin, list(dict.fromkeys(names)), arcs


def _removing_first(at: Numbers, add: Numbers, remove: Numbers) -> tuple[Numbers, ...]:
    """Rows of one place, those that remove before those that add."""
    nothing = np.full(len(at), NONE, np.int64)
    order = np.argsort(np.concatenate((2 * at, 2 * at + 1)), kind="stable")
    columns = ((at, at), (nothing, add), (remove, nothing))
    return tuple(np.concatenate(pair)[order] for pair in columns)


def _encoded(given: Any, count: int, what: str) -> tuple[Numbers, tuple[str, ...]]:
    """Names as places in the list of different ones."""
    if given is None:
        return np.full(count, NONE, np.int64), ()
    column = given if isinstance(given, pa.Array | pa.ChunkedArray) else _strings(given, what)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) != count:
        raise errors.QueryError(
            f"{what}= has {len(column)} names for {count} edits",
            remedy="give one per edit, None where it has none",
        )
    known = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    indices = known.indices.fill_null(NONE) if known.null_count else known.indices
    codes = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, tuple(known.dictionary.to_pylist())


def _strings(given: Sequence[str | None], what: str) -> pa.Array:
    try:
        return pa.array(given, pa.string())
    except (pa.ArrowException, TypeError) as problem:
        raise errors.QueryError(
            f"{what}= is not a list of names: {problem}", remedy="give names of arcs, or None"
        ) from None
