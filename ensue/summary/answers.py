"""The exact answer of one key: from its retained events, on demand."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ensue.summary.exact import Exact, measure
from ensue.summary.groups import GroupedStore
from ensue.summary.reading import Scale
from ensue.summary.store import Selection, Store


@dataclass(frozen=True)
class Answer:
    """COUNT and SUM over all matches; least and greatest value of an event in any match."""

    count: int
    total: int  # in units of the scale
    least: int | None
    greatest: int | None
    contribution: list[int]
    scale: Scale

    def as_dict(self, valued: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"count": self.count}
        if valued:
            found["sum"] = self.scale.back(self.total)
            found["avg"] = None
            if self.count:
                found["avg"] = float(Fraction(self.total, self.scale.denominator * self.count))
            found["min"] = None if self.least is None else self.scale.back(self.least)
            found["max"] = None if self.greatest is None else self.scale.back(self.greatest)
        return found


def answer(selection: Selection, store: Store | None, scale: Scale, shares: bool) -> Answer:
    """Contributions are computed where asked for, and where a least and greatest are."""
    if store is None:
        return Answer(0, 0, None, None, [], scale)
    shares = shares or bool(selection.machine.valued)
    if isinstance(store, GroupedStore):
        exact = _grouped(selection, store, scale, shares)
    else:
        exact = measure(
            selection.machine,
            store.times.tolist(),
            store.classes.tolist(),
            scale.integers,
            selection.window,
            shares,
        )
    valued = selection.machine.valued
    taking = [
        value for value, used in zip(scale.integers, exact.used, strict=True) if used & valued
    ]
    return Answer(
        exact.count,
        exact.total,
        min(taking, default=None),
        max(taking, default=None),
        exact.contribution,
        scale,
    )


def _grouped(selection: Selection, store: GroupedStore, scale: Scale, shares: bool) -> Exact:
    """Over the values: the matches with each, less those with none, and these once."""
    times = store.times.tolist()

    def of(value: int) -> tuple[list[int], Exact]:
        places, classes = store.reading(value)
        chosen = places.tolist()
        return chosen, measure(
            selection.machine,
            [times[i] for i in chosen],
            classes.tolist(),
            [scale.integers[i] for i in chosen],
            selection.window,
            shares,
        )

    values = sorted({group for group in store.group if group >= 0})
    count = total = 0
    contribution = [0] * store.count
    used: list[frozenset[int]] = [frozenset()] * store.count
    for value, sign in [*((v, 1) for v in values), (-1, 1 - len(values))]:
        chosen, exact = of(value)
        count += sign * exact.count
        total += sign * exact.total
        for place, share, labels in zip(chosen, exact.contribution, exact.used, strict=True):
            contribution[place] += sign * share
            used[place] |= labels
    return Exact(count, total, contribution, used)
