"""The slow tier: conditions that only plain Python can evaluate.

A depth-first search in order of preference. A place (row, state, what the conditions ahead can
read of the match) that failed once is not tried again, so the search is polynomial wherever the
conditions do not tell its paths apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import aggregate, errors
from ensue.aggregate.base import Aggregate
from ensue.automaton.plan import Plan
from ensue.automaton.program import AT_END, AT_START
from ensue.automaton.walks import gathered
from ensue.guards.reader import Lists, Match, Reader
from ensue.kernels import automaton
from ensue.operator.batch import Batch
from ensue.quantities.measures import Matches
from ensue.query import condition as c
from ensue.rows.engines import skip_arguments, skip_error
from ensue.scalar import kinds
from ensue.scalar.infer import infer, require_boolean
from ensue.stopping import look

# Per start row. A place that is remembered counts as many steps as it holds rows, so that the
# memory of failures stays near 100 MB too.
MAX_STEPS = 10_000_000
_FLUSH = 4096


@dataclass(frozen=True)
class PythonEngine:
    plan: Plan
    schema: pa.Schema
    reason: str
    name: str = "python"

    @cached_property
    def reader(self) -> Reader:
        return Reader(self.plan, lambda name: self.schema.field(name).type, self._zone)

    def check_types(self) -> None:
        """Every correlated condition has types that fit and is boolean."""
        for test in self.plan.tests:
            for part in test.correlated:
                require_boolean(
                    part, infer(part, self.reader.kind, self._zone), f"a condition of {test.label}"
                )

    @cached_property
    def _zone(self) -> str:
        """The session's zone: timestamps carry it."""
        zones = (f.type.tz for f in self.schema if pa.types.is_timestamp(f.type) and f.type.tz)
        return next(zones, kinds.DEFAULT_ZONE)

    def find(self, batch: Batch) -> Iterator[Matches]:
        least = batch.viability()
        limits = batch.window_limits()
        skip_mode, skip_states, unmatched = skip_arguments(self.plan)
        lists = Lists(batch.columns)
        entries: list[list[int]] = []
        positions: list[int] = []
        for partition in range(len(batch.ends)):
            end = int(batch.ends[partition])
            cursor = batch.cursor[partition]
            search = Search(self.plan, self.reader, lists, batch, partition, least)
            while cursor[0] < end:
                start = int(cursor[0])
                limit = int(limits[start]) if len(limits) else int(automaton.NEVER)
                path = search.preferred(
                    start, min(limit, int(automaton.NEVER) - 1), int(cursor[1]) + 1
                )
                if path is UNDECIDED:
                    break
                if path is None:
                    if unmatched and start >= cursor[2]:
                        entries.append([partition, start, 1, 0, len(positions)])
                        positions.append(0)
                    cursor[0] += 1
                    continue
                cursor[1] += 1
                entries.append([partition, start, len(path), int(cursor[1]), len(positions)])
                following = automaton.next_start(
                    start, len(path), skip_mode, skip_states, np.array(path, np.int32), 0
                )
                if following < 0:
                    raise skip_error(-following, batch, partition)
                positions.extend(path)
                cursor[2] = max(int(cursor[2]), start + len(path))
                cursor[0] = following
                if len(entries) >= _FLUSH:
                    yield _matches(entries, positions)
                    entries, positions = [], []
        if entries:
            yield _matches(entries, positions)


def _matches(entries: list[list[int]], positions: list[int]) -> Matches:
    return Matches(np.array(entries, np.int64), np.array(positions, np.int32))


UNDECIDED: list[int] = []  # distinguished by identity


class Path(list[int]):
    """States of the rows of a match; `kept` of them were never taken back since it was set."""

    kept = 0

    def pop(self, index: SupportsIndex = -1) -> int:
        self.kept = min(self.kept, len(self) - 1)
        return super().pop(index)


class Search(Match):
    """The matches of one partition.

    Rows of a variable and states of aggregates are kept along the path, so that a row costs what it
    adds. A state is that of all rows but the last one, which may be taken back.
    """

    def __init__(
        self,
        plan: Plan,
        reader: Reader,
        lists: Lists,
        batch: Batch,
        partition: int,
        least: NDArray[np.int32],
    ) -> None:
        super().__init__(reader, lists)
        self._plan = plan
        self._program = plan.program
        self._begin = int(batch.starts[partition])
        self._end = int(batch.ends[partition])
        self._physical_end = int(batch.starts[partition + 1])
        self._base = int(batch.base[partition])
        self._head = bool(batch.heads[partition])
        self._open = bool(batch.is_open[partition])
        self._least = least
        self._path = []
        self._start = 0

    @property
    def _path(self) -> list[int]:
        return self._walked

    @_path.setter
    def _path(self, states: list[int]) -> None:
        self._walked, self._known = Path(states), 0
        self._rows: dict[str | None, tuple[list[int], int]] = {}  # and how far along the path
        self._folded: dict[int, tuple[c.Aggregate, Any, int]] = {}  # by id: state, rows in it

    def preferred(self, start: int, limit: int, number: int) -> list[int] | None:
        """States of the preferred match from `start`; None: no match; or `UNDECIDED`."""
        self._start, self.number, self._path = start, number, []
        failed: set[Hashable] = set()
        stack = [iter(self._program.arcs_of(0))]
        steps = 0
        while stack:
            steps += 1
            look()
            if steps > MAX_STEPS:
                raise errors.LimitError(
                    f"more than {MAX_STEPS:,} steps for the match that starts at row "
                    f"{start - self._begin} of its partition: its conditions distinguish too many "
                    "ways to label the rows",
                    remedy="bound the pattern with within(...), or raise "
                    "ensue.rows.python_engine.MAX_STEPS",
                )
            row = start + len(self._path)
            arc = next(stack[-1], None)
            if arc is None:
                place = self._place(row)
                failed.add(place)
                steps += sum(len(part) for part in place[2:])
                stack.pop()
                if self._path:
                    self._path.pop()
                continue
            target, flags = arc
            if flags & AT_START and not (self._head and start == self._begin):
                continue
            if target == 0:
                if flags & AT_END and row < self._end:
                    continue
                if flags & AT_END and self._open:
                    return UNDECIDED
                return self._path
            if row == self._end:
                if self._open and self._end + 1 <= limit:
                    return UNDECIDED
                continue
            if self._least[row, target] > limit:
                continue
            self._path.append(target)
            if not self._holds(target, row) or (failed and self._place(row + 1) in failed):
                self._path.pop()
                continue
            stack.append(iter(self._program.arcs_of(target)))
        return None

    def _holds(self, state: int, row: int) -> bool:
        label = int(self._program.label[state])
        try:
            return self.holds(self._reader.tests[label], row)
        except errors.DataError as problem:
            first = self._start - self._begin + self._base
            raise type(problem)(
                f"DEFINE {self._plan.tests[label].label}: {problem.problem}, for the match that "
                f"starts at row {first} (counted from 0) of its partition",
                remedy=problem.remedy,
            ) from None

    # -- what a condition reads ------------------------------------------------------------------

    def label_at(self, row: int) -> str | None:
        index = row - self._start
        if 0 <= index < len(self._path):
            return self._program.labels[self._program.label[self._path[index]]]
        return None

    def inside(self, row: int) -> bool:
        return self._begin <= row < self._physical_end

    def rows_read(self, node: c.Navigate | c.Aggregate) -> list[int]:
        return self._rows_of(node.variable)

    def aggregate(self, node: c.Aggregate) -> Any:
        function = aggregate.get(node.function, node.distinct)
        rows = self.rows_read(node)
        _, state, used = self._folded.get(id(node), (node, function.identity(), 0))
        if used == len(rows):
            return function.finish(state)
        for place in range(used, len(rows) - 1):
            state = self._absorbed(function, state, node, rows[place])
        self._folded[id(node)] = node, state, len(rows) - 1
        return function.finish(self._absorbed(function, copy(state), node, rows[-1]))

    def _absorbed(self, function: Aggregate, state: Any, node: c.Aggregate, row: int) -> Any:
        if node.where is not None and self.value(node.where, row) is not True:
            return state
        return function.absorb(state, *(self.value(a, row) for a in node.arguments))

    def _rows_of(self, variable: str | None) -> list[int]:
        """Not to be changed: it is kept."""
        path = self._walked
        if path.kept < self._known:
            self._take_back(path.kept)
        path.kept = self._known = len(path)
        rows, covered = self._rows.get(variable, ([], 0))
        members = self._members(variable)
        for place in range(covered, len(path)):
            if members[path[place]]:
                rows.append(self._start + place)
        self._rows[variable] = rows, len(path)
        return rows

    def _take_back(self, kept: int) -> None:
        """Forgets what was kept of the rows beyond."""
        end = self._start + kept
        for variable, (rows, covered) in self._rows.items():
            while rows and rows[-1] >= end:
                rows.pop()
            self._rows[variable] = rows, min(covered, kept)
        for known, (node, _, used) in list(self._folded.items()):
            if used > len(self._rows[node.variable][0]):
                del self._folded[known]

    def _members(self, variable: str | None) -> list[bool]:
        found = self._member_cache.get(variable)
        if found is None:
            found = self._member_cache[variable] = self._program.members(variable).tolist()
        return found

    @cached_property
    def _member_cache(self) -> dict[str | None, list[bool]]:
        return {}

    # -- memory of failures ----------------------------------------------------------------------

    def _place(self, row: int) -> tuple[Any, ...]:
        state = self._path[-1] if self._path else 0
        seen: list[Any] = [row, state]
        for kind, variable, count in self._reads[state]:
            if kind == "labels":
                seen.append(tuple(self._path))
            else:
                rows = self._rows_of(variable)
                first = rows[:count] if kind == "first" else rows[-count:] if count else rows
                seen.append(tuple(first))
        return tuple(seen)

    @cached_property
    def _reads(self) -> list[tuple[tuple[str, str | None, int], ...]]:
        """Per state: what conditions on some way ahead read of the match."""
        own = [self._reads_of(test.correlated) for test in self._plan.tests]
        program = self._program
        onward = [program.followers(state) for state in range(program.states)]
        tested = [set().union(*(own[program.label[t]] for t in targets)) for targets in onward]
        return [tuple(sorted(reads, key=str)) for reads in gathered(tested, onward)]

    @staticmethod
    def _reads_of(parts: tuple[c.Condition, ...]) -> set[tuple[str, str | None, int]]:
        found: set[tuple[str, str | None, int]] = set()
        for part in parts:
            for node in c.walk(part):
                if isinstance(node, c.Classifier):
                    found.add(("labels", None, 0))
                elif isinstance(node, c.Aggregate) and node.variable is not None:
                    found.add(("all", node.variable, 0))
                elif isinstance(node, c.Navigate) and node.variable is not None:
                    kind = "first" if node.anchor is c.Anchor.FIRST else "last"
                    found.add((kind, node.variable, node.offset + 1))
        return found
