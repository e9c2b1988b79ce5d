"""Counts, sums and contributions of a summary in integers of any size.

Every window [s, s + τ] that starts in a *block* holds the block's pivot, the last event in the
window of the block's first start; so a match splits there. Left of the pivot, `tail[i][z]` is the
vector "from z after event i to each state at the pivot"; right of it, `done[j][q]` is the number of
ways to complete from state q at the pivot with events up to j. A start s then has
Σ_q tail[s][target][q] · done[end of s][q] matches: the work does not depend on how many starts are
open. The matches through an event come from the same two tables with the starts summed up on
the other side. Cost: O(events · states · arcs of an event) additions, against open starts in place
of states when every start is followed on its own.

A vector holds the counts by state, and behind them, where sums are asked for, the sums by state:
(a, x)(b, y) = (ab, ay + bx). Python integers, so nothing is ever rounded; values are integers of
one common scale (`reading.Scale`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ensue.summary.machine import Arc, ClassedAutomaton

Vector = list[int]


@dataclass(frozen=True)
class Exact:
    """Over all matches: their number, the sum of their values, and by event and arc their share."""

    count: int
    total: int
    contribution: list[int]  # matches that each event takes part in
    used: list[frozenset[int]]  # labels under which each event takes part in a match


def measure(
    machine: ClassedAutomaton,
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
        machine: ClassedAutomaton,
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
        self._nothing: Vector = [0] * (self._states * (1 + self._sums))
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
        states, first, last = self._states, starts[0], self._ends[starts[-1]]
        tails = self._tails(first, pivot)
        ways = self._ways(pivot, last)
        done = [self._completed(columns) for columns in ways]
        reach: dict[int, Vector] = {}
        for s in starts:
            found = self._nothing
            for p, q, label in self._arcs[s]:
                if p == 0:
                    found = _sum(found, self._valued_by(s, label, tails[s - first][q]))
            reach[s] = found
            right = done[self._ends[s] - pivot]
            self.count += _dot(found, right[:states])
            self.total += _dot(found, right[states:]) + _dot(found[states:], right)
        if shares:
            self._left_shares(set(starts), first, pivot, tails, done)
            self._right_shares(starts, pivot, last, ways, reach)

    def _valued_by(self, event: int, label: int, vector: Vector) -> Vector:
        """The vector with the value of the event, by this label, once per way."""
        value = self._values[event] if self._sums and label in self._valued else 0
        if not value:
            return vector
        counts, sums = vector[: self._states], vector[self._states :]
        return counts + [x + value * y for x, y in zip(sums, counts, strict=True)]

    def _staying(self, event: int, vectors: list[Vector]) -> list[Vector]:
        """By state what is there after the event without taking it."""
        kept = list(vectors)
        if not self._fork:
            for p, _, _ in self._arcs[event]:
                if p != 0:
                    kept[p] = [0] * len(vectors[p])
        return kept

    def _units(self) -> list[Vector]:
        return [[int(z == q) for q in range(len(self._nothing))] for z in range(self._states)]

    def _tails(self, first: int, pivot: int) -> list[list[Vector]]:
        """By event of the block: from each state after it, ways to each state at the pivot."""
        rows = self._units()
        found = [rows]
        for i in range(pivot, first, -1):
            new = self._staying(i, rows)
            for p, q, label in self._arcs[i]:
                if p != 0:
                    new[p] = _sum(new[p], self._valued_by(i, label, rows[q]))
            rows = new
            found.append(rows)
        found.reverse()
        return found

    def _ways(self, pivot: int, last: int) -> list[list[Vector]]:
        """By event from the pivot on, and by state after it: ways from each state at the pivot."""
        columns = self._units()
        found = [columns]
        for i in range(pivot + 1, last + 1):
            new = self._staying(i, columns)
            for p, q, label in self._arcs[i]:
                if p != 0:
                    new[q] = _sum(new[q], self._valued_by(i, label, columns[p]))
            columns = new
            found.append(columns)
        return found

    def _completed(self, columns: list[Vector]) -> Vector:
        found = self._nothing
        for z in self._final:
            found = _sum(found, columns[z])
        return found

    def _left_shares(
        self,
        starts: set[int],
        first: int,
        pivot: int,
        tails: list[list[Vector]],
        done: list[Vector],
    ) -> None:
        # ahead[z][q]: over the starts so far, (ways to z now) · (ways to complete from q in time).
        states = self._states
        ahead = [[0] * states] * states
        for i in range(first, pivot + 1):
            new = self._staying(i, ahead)
            for p, q, label in self._arcs[i]:
                if p != 0 or i in starts:
                    source = ahead[p] if p != 0 else done[self._ends[i] - pivot][:states]
                    self._share(i, label, _dot(source, tails[i - first][q]))
                    new[q] = _sum(new[q], source)
            ahead = new

    def _right_shares(
        self,
        starts: list[int],
        pivot: int,
        last: int,
        ways: list[list[Vector]],
        reach: dict[int, Vector],
    ) -> None:
        # behind[z][q]: over open starts, (ways from start to q) · (ways to complete from z).
        states = self._states
        behind = [[0] * states] * states
        opened = len(starts)
        for i in range(last, pivot, -1):
            while opened and self._ends[starts[opened - 1]] >= i:
                opened -= 1
                for z in self._final:
                    behind[z] = _sum(behind[z], reach[starts[opened]][:states])
            new = self._staying(i, behind)
            for p, q, label in self._arcs[i]:
                if p != 0:
                    self._share(i, label, _dot(behind[q], ways[i - pivot - 1][p]))
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


def _dot(left: Vector, right: Vector) -> int:
    """Over the states that both have: of one of them it is the counts, or the sums."""
    return sum(x * y for x, y in zip(left, right, strict=False) if x and y)
