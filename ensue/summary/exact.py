"""Counts, sums and contributions of a summary in integers of any size.

Every window [s, s + τ] that starts in a *block* holds the block's pivot, the last event in the
window of the block's first start; so a match splits there. Left of the pivot, `tail[i][z]` is the
vector "from z after event i to each state at the pivot"; right of it, `done[j][q]` is the number of
ways to complete from state q at the pivot with events up to j. A start s then has
Σ_q tail[s][target][q] · done[end of s][q] matches: the work does not depend on how many starts are
open. The matches through an event come from the same two tables with the starts summed up on
the other side. Cost: O(events · states · arcs of an event) additions, against open starts in place
of states when every start is followed on its own.

Numbers are pairs (count, sum) with (a, x)(b, y) = (ab, ay + bx), Python integers, so nothing is
ever rounded; values are integers of one common scale (`reading.Scale`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ensue.summary.machine import Arc, Machine

Vector = list[int]


@dataclass(frozen=True)
class Exact:
    """Over all matches: their number, the sum of their values, and by event and arc their share."""

    count: int
    total: int
    contribution: list[int]  # matches that each event takes part in
    used: list[frozenset[int]]  # labels under which each event takes part in a match


def measure(
    machine: Machine,
    times: Sequence[int | float],
    classes: Sequence[int],
    values: Sequence[int],
    window: int | float,
    shares: bool = False,
) -> Exact:
    """All of it; contributions only where `shares` (they cost about as much again)."""
    run = _Run(machine, times, classes, values, window)
    run.all_blocks(shares)
    return Exact(run.count, run.total, run.contribution, [frozenset(u) for u in run.used])


class _Run:
    def __init__(
        self,
        machine: Machine,
        times: Sequence[int | float],
        classes: Sequence[int],
        values: Sequence[int],
        window: int | float,
    ) -> None:
        self._fork = machine.fork
        self._states = machine.states
        self._final = [z for z, end in enumerate(machine.automaton.final) if end]
        self._valued = machine.valued
        self._arcs: list[list[Arc]] = [machine.arcs[c] for c in classes]
        self._values = values
        self._sums = bool(machine.valued) and any(values)
        self._ends = _window_ends(times, window)
        self.count = 0
        self.total = 0
        self.contribution = [0] * len(times)
        self.used: list[set[int]] = [set() for _ in times]

    def all_blocks(self, shares: bool) -> None:
        starts = [i for i, arcs in enumerate(self._arcs) if any(p == 0 for p, _, _ in arcs)]
        at = 0
        while at < len(starts):
            pivot = self._ends[starts[at]]
            block = at
            while block < len(starts) and starts[block] <= pivot:
                block += 1
            self._block(starts[at:block], pivot, shares)
            at = block

    def _block(self, starts: list[int], pivot: int, shares: bool) -> None:
        first, last = starts[0], self._ends[starts[-1]]
        tails = self._tails(first, pivot)
        ways, done = self._completions(pivot, last)
        reach: dict[int, tuple[Vector, Vector]] = {}
        for s in starts:
            counts, sums = [0] * self._states, [0] * self._states
            rows, row_sums = tails[s - first]
            for p, q, label in self._arcs[s]:
                if p == 0:
                    value = self._values[s] if label in self._valued else 0
                    _add(counts, rows[q])
                    if self._sums:
                        _add(sums, row_sums[q])
                        _add_times(sums, rows[q], value)
            reach[s] = counts, sums
            right, right_sum = done[self._ends[s] - pivot]
            self.count += _dot(counts, right)
            if self._sums:
                self.total += _dot(counts, right_sum) + _dot(sums, right)
        if shares:
            self._left_shares(starts, first, pivot, tails, done)
            self._right_shares(starts, pivot, last, ways, reach)

    def _tails(self, first: int, pivot: int) -> list[tuple[list[Vector], list[Vector]]]:
        """By event of the block: from each state after it, ways to each state at the pivot."""
        states = self._states
        rows = [[int(z == q) for q in range(states)] for z in range(states)]
        sums = [[0] * states for _ in range(states)]
        found = [(rows, sums)]
        for i in range(pivot, first, -1):
            new_rows, new_sums = list(rows), list(sums)
            moved: set[int] = set()
            for p, q, label in self._arcs[i]:
                if p == 0:
                    continue
                if not self._fork and p not in moved:
                    moved.add(p)
                    new_rows[p], new_sums[p] = [0] * states, [0] * states
                new_rows[p] = _sum(new_rows[p], rows[q])
                if self._sums:
                    value = self._values[i] if label in self._valued else 0
                    new_sums[p] = _sum(new_sums[p], sums[q])
                    if value:
                        new_sums[p] = [
                            x + value * y for x, y in zip(new_sums[p], rows[q], strict=True)
                        ]
            rows, sums = new_rows, new_sums
            found.append((rows, sums))
        found.reverse()
        return found

    def _completions(
        self, pivot: int, last: int
    ) -> tuple[list[list[Vector]], list[tuple[Vector, Vector]]]:
        """Ways from each state at the pivot: to each state (transposed), and to complete."""
        states = self._states
        # columns[z][q]: ways from q at the pivot to z now.
        columns = [[int(z == q) for q in range(states)] for z in range(states)]
        sums = [[0] * states for _ in range(states)]
        ways, done = [columns], [self._completed(columns, sums)]
        for i in range(pivot + 1, last + 1):
            new, new_sums = list(columns), list(sums)
            if not self._fork:
                for p, _, _ in self._arcs[i]:
                    if p != 0:
                        new[p], new_sums[p] = [0] * states, [0] * states
            for p, q, label in self._arcs[i]:
                if p == 0:
                    continue
                new[q] = _sum(new[q], columns[p])
                if self._sums:
                    value = self._values[i] if label in self._valued else 0
                    new_sums[q] = _sum(new_sums[q], sums[p])
                    if value:
                        new_sums[q] = [
                            x + value * y for x, y in zip(new_sums[q], columns[p], strict=True)
                        ]
            columns, sums = new, new_sums
            ways.append(columns)
            done.append(self._completed(columns, sums))
        return ways, done

    def _completed(self, columns: list[Vector], sums: list[Vector]) -> tuple[Vector, Vector]:
        counts, totals = [0] * self._states, [0] * self._states
        for z in self._final:
            _add(counts, columns[z])
            if self._sums:
                _add(totals, sums[z])
        return counts, totals

    def _left_shares(
        self,
        starts: list[int],
        first: int,
        pivot: int,
        tails: list[tuple[list[Vector], list[Vector]]],
        done: list[tuple[Vector, Vector]],
    ) -> None:
        # ahead[z][q]: over the starts so far, (ways to z now) · (ways to complete from q in time).
        states = self._states
        opening = set(starts)
        ahead = [[0] * states for _ in range(states)]
        for i in range(first, pivot + 1):
            rows = tails[i - first][0]
            new = list(ahead)
            if not self._fork:
                for p, _, _ in self._arcs[i]:
                    if p != 0:
                        new[p] = [0] * states
            for p, q, label in self._arcs[i]:
                if p == 0:
                    source = done[self._ends[i] - pivot][0] if i in opening else None
                else:
                    source = ahead[p]
                if source is not None:
                    self._share(i, label, _dot(source, rows[q]))
                    new[q] = _sum(new[q], source)
            ahead = new

    def _right_shares(
        self,
        starts: list[int],
        pivot: int,
        last: int,
        ways: list[list[Vector]],
        reach: dict[int, tuple[Vector, Vector]],
    ) -> None:
        # behind[z][q]: over open starts, (ways from start to q) · (ways to complete from z).
        states = self._states
        behind = [[0] * states for _ in range(states)]
        opened = len(starts)
        for i in range(last, pivot, -1):
            while opened and self._ends[starts[opened - 1]] >= i:
                opened -= 1
                for z in self._final:
                    behind[z] = _sum(behind[z], reach[starts[opened]][0])
            before = ways[i - pivot - 1]
            new = list(behind)
            if not self._fork:
                for p, _, _ in self._arcs[i]:
                    if p != 0:
                        new[p] = [0] * states
            for p, q, label in self._arcs[i]:
                if p != 0:
                    self._share(i, label, _dot(before[p], behind[q]))
                    new[p] = _sum(new[p], behind[q])
            behind = new

    def _share(self, event: int, label: int, matches: int) -> None:
        if matches:
            self.contribution[event] += matches
            self.used[event].add(label)


def _window_ends(times: Sequence[int | float], window: int | float) -> list[int]:
    """The last event in the window of each."""
    ends, end = [], 0
    for i, time in enumerate(times):
        end = max(end, i)
        while end + 1 < len(times) and times[end + 1] - time <= window:
            end += 1
        ends.append(end)
    return ends


def _sum(left: Vector, right: Vector) -> Vector:
    return [x + y for x, y in zip(left, right, strict=True)]


def _add(left: Vector, right: Vector) -> None:
    for i, value in enumerate(right):
        left[i] += value


def _add_times(left: Vector, right: Vector, factor: int) -> None:
    if factor:
        for i, value in enumerate(right):
            left[i] += factor * value


def _dot(left: Vector, right: Vector) -> int:
    return sum(x * y for x, y in zip(left, right, strict=True) if x and y)
