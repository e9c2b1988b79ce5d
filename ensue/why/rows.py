"""Why the starts of a row pattern failed.

An *attempt* is a start row that the search reaches: not one that an earlier match has used up. It
gets as far as the longest run of rows that any way through the pattern takes; where it stops, it
waits for what would bring it nearest to a match (then for what the pattern prefers).

The engine finds the matches as ever, and one backward pass says how far each start gets, so that
only the best attempt of a partition is walked again, in plain Python, for its reason. Conditions
over the match so far make that number an upper bound; attempts are then walked in its order until
none can be better. Cost: that of the matches, O(rows · arcs), and the walks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton import conditions
from ensue.automaton.plan import Plan
from ensue.automaton.program import ACCEPT, AT_START
from ensue.guards.reader import Lists, Reader
from ensue.kernels.measures import FIRST_ROW, LENGTH, NUMBER, OFFSET, PARTITION
from ensue.operator.arrange import arrays_of
from ensue.operator.batch import Batch, as_mask, check_types
from ensue.operator.protocol import Events
from ensue.query import condition as c
from ensue.query.query import WindowKind
from ensue.rows import evaluator, python_engine
from ensue.rows.engine_choice import choose_row_engine
from ensue.rows.engines import skip_arguments
from ensue.rows.python_engine import PythonEngine, Search
from ensue.scalar.columns import evaluate
from ensue.stopping import look
from ensue.why import account as a
from ensue.why import words
from ensue.why.account import Account, Attempt
from ensue.why.kernels import consumers, depths
from ensue.why.rounds import compile_rounds, completions, remaining

_NOWHERE = -1  # in place of a state: nothing can come next


class RowAttempts:
    """The attempts in whole partitions; the plan is one with its `parts`."""

    def __init__(self, plan: Plan, schema: pa.Schema, per: str) -> None:
        self.plan, self.per = plan, per
        self.per_start = per != a.PARTITION
        try:
            check_types(plan, schema)
            self._engine = choose_row_engine(plan, schema)
            program, self.begun = compile_rounds(plan.query)
            self.walked = replace(plan, marks=program)
            self.reader = PythonEngine(self.walked, schema, "").reader
        except errors.EnsueError as problem:
            raise plan.readable(problem) from None
        self.remaining = remaining(program)
        self.completion = completions(program, self.remaining)
        tests = [plan.tests[label] for label in program.label[1:]]
        self.guarded = [False, *(bool(test.correlated) for test in tests)]
        self.arcs = [  # by state, those on which an end of the pattern can be reached
            [(t, f) for t, f in program.arcs_of(s) if t == ACCEPT or self.remaining[t]]
            for s in range(program.states)
        ]

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """The answer for no rows: its columns and types."""
        return Account(self.per).table(self.plan.query, arrays_of(schema.empty_table()))

    def tables(self, events: Events) -> Iterator[pa.Table]:
        per_row = 4 * self.walked.program.states
        longest = int(np.diff(events.starts).max(initial=0))
        if longest * per_row > evaluator.MAX_BYTES:
            raise errors.LimitError(
                f"why() matches a partition in one piece, and one of {longest:,} rows needs "
                f"{longest * per_row >> 20:,} MB; the limit is {evaluator.MAX_BYTES >> 20:,} MB",
                remedy="partition the rows further, or ask about a part of them",
            )
        rows = max(1024, evaluator.WORK_BYTES // per_row)
        for begin, end in evaluator.groups(events.starts, rows):
            first, last = int(events.starts[begin]), int(events.starts[end])
            starts = events.starts[begin : end + 1] - first
            try:
                yield self._explained(events.table.slice(first, last - first), starts)
            except errors.EnsueError as problem:
                raise self.plan.readable(problem) from None

    def _explained(self, table: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        batch = self.batch(table, starts)
        return _Batch(self, batch).account().table(self.plan.query, batch.columns)

    def batch(self, table: pa.Table, starts: NDArray[np.int64]) -> Batch:
        """Complete partitions."""
        count = len(starts) - 1
        return Batch(
            self.plan,
            arrays_of(table),
            starts,
            np.zeros(count, np.bool_),
            np.ones(count, np.bool_),
            np.zeros(count, np.int64),
            np.stack([starts[:-1], np.zeros(count, np.int64), starts[:-1]], axis=1),
        )

    def found(
        self, batch: Batch
    ) -> tuple[NDArray[np.int64], list[tuple[str, ...]], NDArray[np.int64]]:
        """All matches as entries, their labels where asked for, and per row the entry it is in."""
        by = np.full(batch.length, -1, np.int64)
        entries, labels, base = [np.zeros((0, 5), np.int64)], [], 0
        program = self.plan.program
        names = np.array([*program.labels, ""], object)
        mode, states, _ = skip_arguments(self.plan)
        for matches in self._engine.find(batch):
            consumers(matches.match, matches.positions, mode, states, by, base)
            entries.append(matches.match)
            base += len(matches.match)
            if self.per_start:
                for length, offset in matches.match[:, [LENGTH, OFFSET]].tolist():
                    taken = matches.positions[offset : offset + length]
                    labels.append(tuple(names[program.label[taken]]))
        return np.concatenate(entries), labels, by


class _Cells(Lists):
    """Columns whose values are converted one at a time."""

    def __missing__(self, name: str) -> list[Any]:
        self[name] = values = cast(list[Any], _Column(self._columns[name]))
        return values


@dataclass(frozen=True)
class _Column:
    column: pa.Array

    def __getitem__(self, row: int) -> Any:
        return self.column[row].as_py()


class _Batch:
    """The attempts of one batch."""

    def __init__(self, room: RowAttempts, batch: Batch) -> None:
        self._room, self._batch, self._plan = room, batch, room.walked
        self._bits = batch.label_bits()
        self._limits = batch.window_limits()
        # Few values are read where only the best attempts are walked, and none of them often.
        many = room.per_start or room.plan.correlated
        lists = Lists(batch.columns) if many else _Cells(batch.columns)
        self._walk = Walk(room, batch, self._bits, self._limits, lists) if batch.length else None
        self._held: dict[tuple[int, int], NDArray[np.bool_] | None] = {}

    def account(self) -> Account:
        batch, account, walk = self._batch, Account(self._room.per), self._walk
        if walk is None:
            return account
        entries, labels, by = self._room.found(batch)
        failed = by < 0
        # The number that a match from each row would have.
        began = np.zeros(batch.length, np.int64)
        began[entries[:, FIRST_ROW]] = 1
        before = np.cumsum(began) - began
        numbers = before - np.repeat(before[batch.starts[:-1]], np.diff(batch.starts)) + 1
        if not self._room.per_start:
            matches = np.bincount(entries[:, PARTITION], minlength=len(batch.ends))
            for partition, best in enumerate(self._best(failed, numbers)):
                start = int(batch.starts[partition])
                account.add(best, start, 0, int(matches[partition]))
            return account
        for partition, (begin, end) in enumerate(pairwise(batch.starts.tolist())):
            walk.enter(partition)
            for start in range(begin, end):
                entry = int(by[start])
                if entry < 0:
                    attempt = walk.attempt(start, int(numbers[start]))
                elif began[start]:
                    attempt = Attempt(labels[entry])
                else:
                    attempt = consumed(entries[entry], start, begin)
                account.add(attempt, start, start - begin, int(began[start]))
        return account

    def _best(self, failed: NDArray[np.bool_], numbers: NDArray[np.int64]) -> Iterator[Attempt]:
        batch, program, walk = self._batch, self._plan.program, self._walk
        assert walk is not None
        bound = depths(
            self._bits,
            batch.starts,
            program.label,
            program.arc_offset,
            program.arc_target,
            program.arc_flags,
            self._room.remaining > 0,
        )
        look()
        if len(self._limits):
            bound = np.minimum(bound, self._limits - np.arange(batch.length))
        for partition, (begin, end) in enumerate(pairwise(batch.starts.tolist())):
            starts = begin + np.flatnonzero(failed[begin:end])
            if not len(starts):
                yield a.MATCHED
                continue
            walk.enter(partition)
            if not self._plan.correlated:
                farthest = starts[len(starts) - 1 - np.argmax(bound[starts][::-1])]
                best, depth = int(farthest), int(bound[farthest])
            else:
                best, depth = self._farthest(walk, starts, bound, numbers)
            if depth:
                yield walk.attempt(best, int(numbers[best]))
            else:
                yield self._no_start(walk, starts, numbers)

    @staticmethod
    def _farthest(
        walk: Walk,
        starts: NDArray[np.int64],
        bound: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> tuple[int, int]:
        """The start that gets farthest, of several the latest, and how far."""
        best = (0, int(starts[-1]))
        for index in np.lexsort((starts, bound[starts]))[::-1]:
            start = int(starts[index])
            if (int(bound[start]), start) < best:
                break
            path, _ = walk.deepest(start, int(numbers[start]))
            best = max(best, (len(path), start))
        return best[1], best[0]

    def _no_start(
        self, walk: Walk, starts: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> Attempt:
        """No row can start: how often each part of the condition held."""
        last = int(starts[-1])
        attempt = walk.attempt(last, int(numbers[last]))
        if attempt.variable not in self._plan.program.labels:
            return attempt
        label = self._plan.program.labels.index(attempt.variable)
        counts = []
        for number, (written, part) in enumerate(self._plan.parts[label]):
            held = self._everywhere(label, number, part)
            if held is None:
                told = (walk.part_holds(s, int(numbers[s]), label, part) for s in starts.tolist())
                counts.append((written, sum(told)))
            else:
                counts.append((written, int(held[starts].sum())))
        return replace(attempt, text=f"{attempt.variable}: {words.counted(counts, len(starts))}")

    def _everywhere(self, label: int, number: int, part: c.Condition) -> NDArray[np.bool_] | None:
        """Where a part holds, on Arrow columns; None: it needs the match, or fails on some row."""
        key = (label, number)
        if key not in self._held:
            self._held[key] = None
            if all(conditions.is_neighbour(atom) for atom in c.atoms(part)):
                with suppress(errors.EnsueError):
                    self._held[key] = as_mask(evaluate(part, self._batch.rows()))
        return self._held[key]


def consumed(entry: NDArray[np.int64], start: int, begin: int) -> Attempt:
    first, last = int(entry[FIRST_ROW]) - begin, int(entry[FIRST_ROW] + entry[LENGTH]) - 1 - begin
    told = f"used up by match {entry[NUMBER]}, of rows {first} to {last}"
    return Attempt((), start, None, a.CONSUMED, told)


class Walk(Search):
    """The attempts of one partition after the other."""

    def __init__(
        self,
        room: RowAttempts,
        batch: Batch,
        bits: NDArray[np.uint64],
        limits: NDArray[np.int32],
        lists: Lists,
    ) -> None:
        reader: Reader = room.reader
        super().__init__(room.walked, reader, lists, batch, 0, np.zeros((0, 0), np.int32))
        self._room, self._bits, self._limits = room, bits, limits
        self._starts: list[int] = batch.starts.tolist()

    def enter(self, partition: int) -> None:
        self._begin, self._end = self._starts[partition : partition + 2]
        self._physical_end = self._end

    def deepest(self, start: int, number: int) -> tuple[list[int], int]:
        """States of the path that gets farthest, and the state (or ACCEPT) that it waits for."""
        self._start, self.number, self._path = start, number, []
        last, guarded = min(self._end, self._limit(start)), self._room.guarded
        best: tuple[int, int] = (0, int(python_engine.MAX_STEPS))
        found: tuple[list[int], int] = ([], _NOWHERE)
        failed: set[Hashable] = set()
        stack = [iter(self._room.arcs[0])]
        steps = 0
        while stack:
            steps += 1
            if steps > python_engine.MAX_STEPS:
                raise errors.LimitError(
                    f"more than {python_engine.MAX_STEPS:,} steps for the attempt at row "
                    f"{start - self._begin} of its partition",
                    remedy="bound the pattern with within(...), or raise "
                    "ensue.rows.python_engine.MAX_STEPS",
                )
            row = start + len(self._path)
            arc = next(stack[-1], None)
            if arc is None:
                failed.add(self._place(row))
                stack.pop()
                if self._path:
                    self._path.pop()
                continue
            target, flags = arc
            if flags & AT_START and start != self._begin:
                continue
            if target != ACCEPT and row < last and self._fits(target, row):
                self._path.append(target)
                if not guarded[target] or self._holds(target, row):
                    if self._place(row + 1) not in failed:
                        stack.append(iter(self._room.arcs[target]))
                    else:
                        self._path.pop()
                    continue
                self._path.pop()
            lacks = 0 if target == ACCEPT else int(self._room.remaining[target])
            if (-len(self._path), lacks) < best:
                best, found = (-len(self._path), lacks), (list(self._path), target)
        return found

    def _limit(self, start: int) -> int:
        return int(self._limits[start]) if len(self._limits) else self._end + 1

    def _fits(self, state: int, row: int) -> bool:
        label = int(self._program.label[state])
        return bool((int(self._bits[row, label >> 6]) >> (label & 63)) & 1)

    # -- the reason ------------------------------------------------------------------------------

    def attempt(self, start: int, number: int) -> Attempt:
        """Where the attempt at a start stopped, and why."""
        path, state = self.deepest(start, number)
        self._path = path
        row = start + len(path)
        matched = tuple(self._program.labels[self._program.label[s]] for s in path)
        stopped = min(row, self._end - 1)
        if state == _NOWHERE:
            anchored = any(flags & AT_START for _, flags in self._room.arcs[0])
            told = "^: not the first row" if anchored else "the pattern can match no row"
            return Attempt(matched, stopped, "^" if anchored else None, a.NO_START, told)
        if state == ACCEPT:
            told = f"$: {self._end - row:,} more rows follow"
            return Attempt(matched, stopped, "$", a.CONDITION, told, ())
        label = self._program.labels[self._program.label[state]]
        reason, told = self._reason(state, row)
        reason = reason if path else a.NO_START
        missing = self._room.completion[state] if path else None
        return Attempt(matched, stopped, label, reason, f"{label}: {told}", missing)

    def _reason(self, state: int, row: int) -> tuple[str, str]:
        if row == self._end:
            return a.END, "the partition ended"
        if row >= self._limit(self._start):
            return self.outside(row)
        reason, told = self.failed(state, row)
        if state in self._room.begun:
            done, least = self._room.begun[state]
            return a.REPETITION, f"{done} of at least {least}; {told}"
        later = self._later(state, row) if self._path else None
        if later is not None:
            away = f"the next row that fits comes {later - row:,} later"
            return a.NOT_ADJACENT, f"{told}; {away}"
        return reason, told

    def failed(self, state: int, row: int) -> tuple[str, str]:
        """What part of a state's condition does not hold of the next row."""
        self._path.append(state)
        label = int(self._program.label[state])
        found = words.failure(self._plan.parts[label], self._reader, self.leaf(row))
        self._path.pop()
        return found

    def outside(self, row: int) -> tuple[str, str]:
        window = self._plan.query.within
        assert window is not None
        if window.kind is WindowKind.ROWS:
            return a.WITHIN, words.beyond(window, None, None, row - self._start + 1)
        name = self._plan.query.order_by[0].column
        first, last = self._lists[name][self._start], self._lists[name][row]
        if first is None or last is None:
            return a.NULL, f"{name} is null, and the row is in no window"
        return a.WITHIN, words.beyond(window, first, last, 0)

    def _later(self, state: int, row: int) -> int | None:
        """The next row in the window that fits, of a label that reads its own row alone."""
        label = int(self._program.label[state])
        tier = self._plan.tiers[label]
        if tier.neighbour or tier.correlated:
            return None
        end = min(self._end, self._limit(self._start))
        mask = np.uint64(1 << (label & 63))
        fits = self._bits[row + 1 : end, label >> 6] & mask
        index = int(np.argmax(fits != 0)) if len(fits) else 0
        return row + 1 + index if len(fits) and fits[index] else None

    def part_holds(self, start: int, number: int, label: int, part: c.Condition) -> bool:
        """Whether a part of a label's condition holds of the first row of a match."""
        state = int(np.flatnonzero(self._program.label == label)[0])
        self._start, self.number, self._path = start, number, [state]
        try:
            return self._reader.compiled(part)(self.leaf(start)) is True
        except errors.DataError:
            return False
