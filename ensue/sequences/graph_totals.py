"""Counts and aggregates of all matches, read off the match graph: compiled, and exact at any size.

The graph is the one that `matches` lists (row-local or of classes); `kernels/graph_totals.py` gives
the numbers of its roots modulo several primes. Here rows get weights (a double is an integer times
a power of two, so sums of doubles are exact too), roots are added up per partition and window of
time, and the numbers are put together. A bound in doubles says how many primes that takes; where
too few were taken, the stretch is worked out again with more. A bound beyond the doubles (10^308)
is left to plain Python.

Without a window a stretch is followed by `keep`: the graph is cut down to the nodes of open partial
matches, with their numbers, so that memory does not grow with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.sequences.aggregates import Aggregates, Part, Slot, Total
from ensue.sequences.batch import EventBatch
from ensue.sequences.kernels import graph_totals as kernels
from ensue.sequences.kernels.graph_totals import KEPT, NO_ROW, UNKNOWN, Numbers, Weights
from ensue.sequences.kernels.match_graph import NOTHING, Nodes
from ensue.sequences.machine import sorting
from ensue.sequences.match_graph import Graph
from ensue.stopping import look

PRIMES = 2  # at first
_SLACK = 4  # bits: the sign, and what doubles lose in adding up a bound
_INFINITE, _NEGATIVE, _NAN = 1, 2, 4
Rows = NDArray[np.int64]
# Of the rows that end matches: places among them, and the window of time that each lies in.
Windows = Callable[[Rows], tuple[Rows, list[int | None]]]


class TooLargeError(Exception):
    """A number beyond the doubles: plain Python adds it up."""


@cache
def _primes(amount: int) -> tuple[int, ...]:
    """The largest primes below 2^31."""
    found: list[int] = []
    small = [p for p in range(3, 46_342, 2) if all(p % d for d in range(3, math.isqrt(p) + 1, 2))]
    for number in count(2**31 - 1, -2):
        if len(found) == amount:
            break
        if all(number % prime for prime in small):
            found.append(number)
    return tuple(found)


# -- weights of rows ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """One number per row, as a multiple of 1 / `scale`."""

    sizes: NDArray[np.float64]
    modulo: Callable[[int], Rows]
    scale: int = 1
    odd: NDArray[np.uint8] | None = None


def _indicator(slot: Slot, rows: int) -> _Column:
    """1 for the rows that the slot counts."""
    valid = np.ones(rows, np.int64)
    if slot.column is not None:
        valid = slot.column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return _Column(valid.astype(np.float64), lambda prime: valid)


def _summed(slot: Slot, rows: int) -> _Column:
    column = slot.column
    if column is None:
        return _indicator(slot, rows)
    if pa.types.is_floating(column.type):
        return _of_doubles(column)
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        whole: Rows = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
        return _Column(np.abs(whole.astype(np.float64)), lambda prime: whole % prime)
    values = [Fraction(value or 0) for value in column.to_pylist()]
    scale = math.lcm(*{value.denominator for value in values}) if values else 1
    numbers = [int(value * scale) for value in values]
    sizes = np.array([abs(number) for number in numbers], np.float64)
    return _Column(sizes, lambda p: np.array([n % p for n in numbers], np.int64), scale)


def _of_doubles(column: pa.Array) -> _Column:
    values: NDArray[np.float64] = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
    finite = np.isfinite(values)
    odd = np.where(np.isnan(values), _NAN, np.where(values > 0, _INFINITE, _NEGATIVE))
    odd = np.where(finite, 0, odd).astype(np.uint8)
    halves, exponents = np.frexp(np.where(finite, values, 0.0))
    digits = (halves * 2.0**53).astype(np.int64)
    some = digits != 0
    least = int(exponents[some].min()) if some.any() else 53
    shifts = np.where(some, exponents - least, 0).astype(np.int64)
    beyond = least - 53  # each value is digits · 2^(shift + beyond)
    if beyond > 0:
        shifts, beyond = np.where(some, shifts + beyond, 0), 0
    with np.errstate(over="ignore"):
        sizes = np.ldexp(np.abs(digits).astype(np.float64), shifts.astype(np.int32))

    def modulo(prime: int) -> Rows:
        powers = np.ones(int(shifts.max(initial=0)) + 1, np.int64)
        for index in range(1, len(powers)):
            powers[index] = powers[index - 1] * 2 % prime
        return (digits % prime) * powers[shifts] % prime

    return _Column(sizes, modulo, 1 << -beyond, odd)


def _keys(slot: Slot) -> Rows:
    """Numbers that sort as the values do; the greatest is what the slot looks for."""
    assert slot.column is not None
    if pa.types.is_floating(slot.column.type):
        values = pc.fill_null(slot.column.cast(pa.float64()), 0.0).to_numpy()
        keys = sorting(values)
    else:
        keys = pc.rank(slot.column, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return keys if slot.function == "max" else -keys


class _Plan:
    """Which term or extreme each slot of the aggregates is, and the weights for so many primes."""

    def __init__(self, aggregates: Aggregates, labels: int, rows: int) -> None:
        self._aggregates = aggregates
        self.columns: list[_Column] = []
        takes: list[list[bool]] = []
        looks: list[list[bool]] = []
        keys: list[Rows] = []
        known: list[NDArray[np.bool_]] = []
        self.places: list[tuple[int, int, int]] = []  # per slot: count, sum and extreme, or -1
        for index, slot in enumerate(aggregates.slots):
            counted = summed = extreme = -1
            mine = [label in slot.labels for label in range(labels)]
            if not aggregates.counts_matches(index):
                counted = len(self.columns)
                self.columns.append(_indicator(slot, rows))
                takes.append(mine)
            if slot.function in ("sum", "avg"):
                summed = len(self.columns)
                self.columns.append(_summed(slot, rows))
                takes.append(mine)
            if slot.function in ("min", "max"):
                assert slot.column is not None
                extreme = len(keys)
                keys.append(_keys(slot))
                known.append(slot.column.is_valid().to_numpy(zero_copy_only=False))
                looks.append(mine)
            self.places.append((counted, summed, extreme))
        terms = len(self.columns)
        odd = np.zeros((terms, rows), np.uint8)
        for place, column in enumerate(self.columns):
            if column.odd is not None:
                odd[place] = column.odd
        self._unscaled = Weights(
            np.zeros(0, np.int64),
            np.array(takes, np.bool_).reshape(terms, labels),
            np.arange(terms, dtype=np.int64),
            np.zeros((terms, 0, rows), np.int64),
            np.array([c.sizes for c in self.columns], np.float64).reshape(terms, rows),
            odd,
            np.array(looks, np.bool_).reshape(len(keys), labels),
            np.array(keys, np.int64).reshape(len(keys), rows),
            np.array(known, np.bool_).reshape(len(keys), rows),
        )

    def weights(self, primes: Sequence[int]) -> Weights:
        rows = self._unscaled.sizes.shape[1]
        residues = np.empty((len(self.columns), len(primes), rows), np.int64)
        for place, column in enumerate(self.columns):
            for k, prime in enumerate(primes):
                residues[place, k] = column.modulo(prime)
        return self._unscaled._replace(primes=np.array(primes, np.int64), residues=residues)

    def numbers(self, amount: int, primes: int) -> Numbers:
        terms, extremes = len(self.columns), len(self._unscaled.keys)
        return Numbers(
            np.full(amount, UNKNOWN, np.int64),
            np.empty((amount, terms + 1, primes), np.int64),
            np.empty((amount, terms + 1), np.float64),
            np.empty((amount, terms), np.uint8),
            np.empty((amount, extremes), np.int64),
        )

    def total(self, numbers: list[int], odd: Sequence[int], best: Sequence[int]) -> Total:
        parts: list[Part] = []
        for slot, (counted, summed, extreme) in zip(
            self._aggregates.slots, self.places, strict=True
        ):
            occurrences = numbers[counted + 1] if counted >= 0 else 0
            value: Any = None
            strange = 0.0
            if summed >= 0 and occurrences:
                scale, strange = self.columns[summed].scale, _strange(odd[summed])
                value = Fraction(numbers[summed + 1], scale)
                value = value if scale > 1 else value.numerator
            if extreme >= 0 and best[extreme] != NO_ROW:
                assert slot.values is not None
                value = slot.values[best[extreme]]
            parts.append((occurrences, value, strange))
        return numbers[0], tuple(parts)


def _strange(bits: int) -> float:
    if bits & _NAN or (bits & _INFINITE and bits & _NEGATIVE):
        return math.nan
    return math.inf if bits & _INFINITE else -math.inf if bits & _NEGATIVE else 0.0


# -- numbers of a graph ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """What the lister of a graph gives: nothing that counts as listed."""

    lengths: Rows


_NONE = _Step(np.zeros(0, np.int64))


class GraphTotals:
    """Totals per partition and window of time, of one batch."""

    def __init__(self, batch: EventBatch, aggregates: Aggregates, windows: Windows) -> None:
        self._batch, self._aggregates, self._windows = batch, aggregates, windows
        labels = max(1, len(batch.plan.marks.labels))
        self._plan = _Plan(aggregates, labels, batch.table.num_rows)
        self._use(PRIMES)
        self._kept = self._plan.numbers(0, PRIMES)
        self.totals: list[dict[int | None, Total]] = [{} for _ in batch.reach.begins]

    def _use(self, amount: int) -> None:
        self._primes = _primes(amount)
        self._weights = self._plan.weights(self._primes)
        self._modulus = math.prod(self._primes)
        self._parts = [
            (self._modulus // prime) * pow(self._modulus // prime, -1, prime)
            for prime in self._primes
        ]

    def run(self, graph: Graph) -> None:
        """Adds up the matches of a graph, stretch by stretch."""
        if self._batch.low is None:
            graph.before_compacting = self._keep
        for _ in graph.stretches(1, self._lister):
            pass

    def _lister(self, nodes: Nodes, roots: Rows, found: int, most: int) -> Iterator[_Step]:
        if found:
            self._add(roots[:found, 0], self._worked_out(nodes, roots[:found]))
        yield _NONE

    def _worked_out(self, nodes: Nodes, wanted: Rows) -> Numbers:
        """The numbers of nodes, with primes enough for their sum."""
        used = int(wanted[:, 1].max(initial=-1)) + 1
        while True:
            amount = len(self._primes)
            numbers, out = self._plan.numbers(used, amount), self._plan.numbers(len(wanted), amount)
            kernels.add_up(nodes, used, wanted, self._weights, numbers, self._kept, out)
            look()
            most = float(out.sizes.sum(axis=0).max(initial=0.0))
            if not math.isfinite(most):
                raise TooLargeError
            bits = math.frexp(most)[1] + _SLACK
            if bits < self._modulus.bit_length():
                return out
            kept = [self._whole(row) for row in self._kept.residues.tolist()]
            self._use(bits // 30 + 1)
            again = self._plan.numbers(len(kept), len(self._primes))
            for name in ("since", "sizes", "odd", "best"):
                getattr(again, name)[:] = getattr(self._kept, name)
            for place, values in enumerate(kept):
                again.residues[place] = [[v % prime for prime in self._primes] for v in values]
            self._kept = again

    def _keep(self, nodes: Nodes, current: NDArray[np.int32]) -> None:
        """Cuts the graph below the nodes that partial matches are at."""
        places = np.unique(current[current != NOTHING]).astype(np.int64)
        wanted = np.zeros((len(places), 3), np.int64)
        wanted[:, 1] = places
        self._kept = self._worked_out(nodes, wanted)
        nodes.rows[places] = KEPT
        nodes.labels[places] = np.arange(len(places))
        nodes.lefts[places] = NOTHING

    def _whole(self, residues: list[list[int]]) -> list[int]:
        """Numbers from what they are modulo each prime."""
        found = []
        for each in residues:
            number = sum(r * part for r, part in zip(each, self._parts, strict=True))
            number %= self._modulus
            found.append(number - self._modulus if 2 * number > self._modulus else number)
        return found

    def _add(self, rows: Rows, out: Numbers) -> None:
        """Adds the numbers of roots to the totals of their partitions and windows of time."""
        places, windows = self._windows(rows)
        if not len(places):
            return
        partition = np.searchsorted(self._batch.starts, rows[places], "right") - 1
        numbered: dict[int | None, int] = {}
        window = np.array([numbered.setdefault(w, len(numbered)) for w in windows], np.int64)
        names = list(numbered)
        group = partition * len(names) + window
        order = np.argsort(group, kind="stable")
        places, group = places[order], group[order]
        begins = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        residues = np.add.reduceat(out.residues[places], begins, axis=0).tolist()
        odd = np.bitwise_or.reduceat(out.odd[places], begins, axis=0).tolist()
        best = self._best(out.best[places], begins, len(places)).tolist()
        for index, where in enumerate(group[begins].tolist()):
            totals, name = self.totals[where // len(names)], names[where % len(names)]
            total = self._plan.total(self._whole(residues[index]), odd[index], best[index])
            known = totals.get(name)
            totals[name] = total if known is None else self._aggregates.join(known, total)

    def _best(self, rows: Rows, begins: Rows, amount: int) -> Rows:
        """Per group and extreme the row of the greatest key."""
        best = np.full((len(begins), rows.shape[1]), NO_ROW, np.int64)
        group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, amount)))
        for extreme in range(rows.shape[1]):
            mine = rows[:, extreme]
            some = np.flatnonzero(mine != NO_ROW)
            keys = self._weights.keys[extreme][mine[some]]
            ordered = some[np.lexsort((keys, group[some]))]
            best[group[ordered], extreme] = mine[ordered]  # the last one of a group stays
        return best
