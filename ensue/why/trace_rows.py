"""The search for the matches of a row pattern, row by row.

From a start row, all ways through the pattern are followed at once, the preferred first: at each
row every partial match asks the conditions of the states that may come next. One that is complete
ends those that are less preferred; when none is left that is preferred to it, it is the match.
Of partial matches that the conditions ahead do not tell apart, only the preferred one goes on.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.automaton.program import ACCEPT, AT_END, AT_START
from ensue.guards.reader import Lists
from ensue.kernels.automaton import next_start
from ensue.operator.batch import Batch
from ensue.operator.protocol import Events
from ensue.rows.engines import skip_arguments, skip_error
from ensue.rows.python_engine import PythonEngine, Search
from ensue.why import account as a
from ensue.why import words
from ensue.why.rounds import remaining
from ensue.why.rows import RowAttempts
from ensue.why.trace import ASK, COMPLETE, CONSUMED, DROP, MATCH, MERGE, TAKE, Trace


def follow(room: RowAttempts, events: Events, trace: Trace) -> None:
    """Adds the steps of one complete partition."""
    plan = room.plan
    batch = room.batch(events.table, events.starts)
    search = _Search(plan, batch, trace)
    mode, states, _ = skip_arguments(plan)
    start, number = 0, 0
    while start < batch.length:
        path = search.attempt(start, number + 1)
        if path is None:
            start += 1
            continue
        number += 1
        pairs = search.pairs(start, path)
        places = [str(state) for state in path[-1:]]
        told = f"match {number}" + (f", of rows {start} to {pairs[-1][1]}" if pairs else ", empty")
        trace.add(search.reached, MATCH, pairs, start=start, text=told, places=places)
        onward = next_start(start, len(path), mode, states, np.array(path, np.int32), 0)
        if onward < 0:
            raise skip_error(-onward, batch, 0)
        if onward > start + 1:
            rows = (
                f"as row {start + 1}"
                if onward == start + 2
                else f"as rows {start + 1} to {onward - 1}"
            )
            text = f"used up by match {number}, {rows}"
            trace.add(start + 1, CONSUMED, (), start=start + 1, reason=a.CONSUMED, text=text)
        start = onward


@dataclass
class _Way:
    state: int
    path: list[int]  # states of its rows


class _Search(Search):
    """The attempts of one partition."""

    def __init__(self, plan: Plan, batch: Batch, trace: Trace) -> None:
        schema = pa.schema([(name, column.type) for name, column in batch.columns.items()])
        reader = PythonEngine(plan, schema, "").reader
        none = np.zeros((0, 0), np.int32)
        super().__init__(plan, reader, Lists(batch.columns), batch, 0, none)
        self._trace, self._bits = trace, batch.label_bits()
        self._limits: NDArray[np.int32] = batch.window_limits()
        self.reached = 0  # the row at which the last attempt was settled
        left = remaining(plan.program)
        self._arcs = [
            [(t, f) for t, f in plan.program.arcs_of(s) if t == ACCEPT or left[t]]
            for s in range(plan.program.states)
        ]

    def pairs(self, start: int, path: list[int]) -> list[tuple[str, int]]:
        names, label = self._program.labels, self._program.label
        return [(names[label[state]], start + index) for index, state in enumerate(path)]

    def attempt(self, start: int, number: int) -> list[int] | None:
        """States of the match from a start; None: there is none."""
        self._start, self.number = start, number
        ways: list[_Way] = [_Way(0, [])]
        found: list[int] | None = None
        row = start
        while ways:
            self.reached = row
            ways, complete = self._row(ways, row)
            found = complete if complete is not None else found
            row += 1
        return found

    def _row(self, ways: list[_Way], row: int) -> tuple[list[_Way], list[int] | None]:
        """The ways that go on after a row, up to one that is complete without it."""
        onward: list[_Way] = []
        known: dict[Hashable, _Way] = {}
        for way in ways:
            asked: dict[int, bool] = {}
            kept = False
            for target, flags in self._arcs[way.state]:
                if flags & AT_START and not self._anchored("^", way, row, flags):
                    continue
                if target == ACCEPT:
                    if flags & AT_END and not self._anchored("$", way, row, flags):
                        continue
                    self._add(row, COMPLETE, way, text=_also(onward))
                    return onward, way.path
                if row >= min(self._end, self._limit()):
                    continue
                label = int(self._program.label[target])
                if label not in asked:
                    asked[label] = self._ask(way, target, row)
                if asked[label]:
                    kept = True
                    self._taken(_Way(target, [*way.path, target]), row, onward, known)
            if not kept:
                reason, told = self._ended(asked, row)
                self._add(row, DROP, way, reason=reason, text=told)
        return onward, None

    def _limit(self) -> int:
        return int(self._limits[self._start]) if len(self._limits) else self._end + 1

    def _anchored(self, anchor: str, way: _Way, row: int, flags: int) -> bool:
        held = row == (self._begin if anchor == "^" else self._end)
        told = f"{self._end - row:,} more rows follow" if anchor == "$" else "not the first row"
        text = f"{anchor}: " + ("true" if held else told)
        self._add(row, ASK, way, variable=anchor, held=held, text=text)
        return held

    def _ask(self, way: _Way, target: int, row: int) -> bool:
        label = int(self._program.label[target])
        name = self._program.labels[label]
        self._path = [*way.path, target]
        fits = bool((int(self._bits[row, label >> 6]) >> (label & 63)) & 1)
        fits = fits and self._holds(target, row)
        value, told = words.asked(self._plan.parts[label], self._reader, self.leaf(row))
        if fits != (value is True):
            value, told = fits, f"{told}; the row has no order value, and is in no window"
        self._add(row, ASK, way, variable=name, held=value, text=f"{name}: {told}")
        return fits

    def _taken(self, way: _Way, row: int, onward: list[_Way], known: dict[Hashable, _Way]) -> None:
        self._path = way.path
        place = self._place(row + 1)
        name = self._program.labels[self._program.label[way.state]]
        if place in known:
            better = " ".join(label for label, _ in self.pairs(self._start, known[place].path))
            self._add(row, MERGE, way, variable=name, text=f"as {better}, which is preferred")
            return
        known[place] = way
        onward.append(way)
        self._add(row, TAKE, way, variable=name)

    def _ended(self, asked: dict[int, bool], row: int) -> tuple[str, str]:
        if row >= self._end:
            return a.END, "the partition ended"
        if row >= self._limit():
            return a.WITHIN, "the row lies outside the window"
        return (a.CONDITION, "nothing fits") if asked else (a.CONDITION, "no row may follow")

    def _add(self, row: int, action: str, way: _Way, **told: object) -> None:
        pairs = self.pairs(self._start, way.path)
        self._trace.add(row, action, pairs, start=self._start, places=[str(way.state)], **told)  # type: ignore[arg-type]


def _also(preferred: list[_Way]) -> str:
    return "unless a match that is preferred follows" if preferred else "nothing preferred is open"
