"""Random lives of a matcher, and what their net must be: a driver that tests share.

A *life* is events in any order, copies, late ones, retractions, watermarks, restarts from a
snapshot and edits of the pattern. The model beside it is a plain dictionary of the events that
count; the net of all changes must be what the oracle or the batch run gives on them.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ensue.query.query import Query
from ensue.run import local
from ensue.run.asked import one
from ensue.run.matcher import Matcher, MatcherOptions, restored
from tests import oracle, oracle_sequences, specs

Row = dict[str, Any]


@dataclass
class Life:
    """One matcher and its model. `time` is the event-time column, unique inside a partition."""

    query: Query
    table: pa.Table
    chooser: random.Random
    sigma: Any = 0
    identity: str | None = None
    edits: dict[str, Query] = field(default_factory=dict)
    chaos: bool = True
    settle: Any = None

    def __post_init__(self) -> None:
        self.time = self.query.order_by[0].column
        self.options = MatcherOptions(self.sigma, None, self.identity, 0, self.settle)
        self.matcher = Matcher(one(self.query, "first"), self.options, self.table.schema)
        self.counted: dict[int, Row] = {}  # row number -> event
        self.watermark: Any = None
        self.net: Counter[str] = Counter()
        self.ids: dict[str, str] = {}
        self.withdrawn = 0
        self.late = 0
        self.rejected = 0
        # name, query, first and last row times it applies to (None: open), both included
        self.patterns: list[list[Any]] = [["first", self.query, None, None]]

    # -- what happens ----------------------------------------------------------------------------

    def live(self) -> None:
        waiting = list(range(self.table.num_rows))
        self.chooser.shuffle(waiting)
        while waiting:
            size = self.chooser.choice([1, 1, 2, 3, 5])
            batch, waiting = waiting[:size], waiting[size:]
            if self.chaos and self.identity is not None and self.chooser.random() < 0.3:
                batch = [*batch, self.chooser.choice(batch)]
            self.insert(batch)
            for _ in range(3):
                self.something([self.at(row) for row in waiting])
        self.take(self.matcher.end())

    def at(self, row: int) -> Any:
        return self.table.column(self.time)[row].as_py()

    def something(self, times: list[Any]) -> None:
        kind = self.chooser.random()
        if kind < 0.2:
            known = sorted(self.at(row) for row in range(self.table.num_rows))
            mark = self.chooser.choice(known)
            if not self.chaos or self.chooser.random() < 0.9:
                mark = min([mark, *times])  # nothing that is still to come will be late
            if self.watermark is None or mark > self.watermark:
                self.watermark = mark
                self.take(self.matcher.advance(mark))
        elif kind < 0.32 and self.chaos and self.table.num_rows:
            self.retract(self.chooser.randrange(self.table.num_rows))
        elif kind < 0.42:
            self.matcher = restored(self.matcher.snapshot())
        elif kind < 0.58 and self.edits:
            self.revise()

    def is_late(self, row: int) -> bool:
        return self.watermark is not None and self.at(row) < self.watermark

    def insert(self, rows: list[int]) -> None:
        for row in rows:
            if self.is_late(row):
                self.late += 1
            else:
                self.counted[row] = self.table.slice(row, 1).to_pylist()[0]
        self.take(self.matcher.insert(self.table.take(rows)))
        assert self.matcher.metrics.late == self.late

    def retract(self, row: int) -> None:
        if row in self.counted and not self.is_late(row):
            del self.counted[row]
            again = self.chooser.random() < 0.5
        else:
            self.rejected += 1
            again = False
        self.take(self.matcher.retract(self.table.take([row])))
        assert self.matcher.metrics.rejected == self.rejected, self.matcher.rejected.to_pylist()
        if again:
            if self.chooser.random() < 0.5:
                self.correct(row)
            self.insert([row])

    def correct(self, row: int) -> None:
        """The event has another value when it comes again, under the id it had."""
        values = self.table.column("x").to_pylist()
        values[row] = self.chooser.randrange(4)
        column = pa.array(values, self.table.schema.field("x").type)
        place = self.table.schema.get_field_index("x")
        self.table = self.table.set_column(place, "x", column)

    def revise(self) -> None:
        now = self.now()
        name = self.chooser.choice(list(self.edits))
        query = self.edits[name]
        active = [p for p in self.patterns if p[0] == name and p[3] is None]
        if active and self.chooser.random() < 0.5:
            self.take(self.matcher.revise(remove=[name]).changes)
            active[0][3] = now
            return
        begin = None
        if self.chooser.random() < 0.5:
            known = sorted(self.at(row) for row in range(self.table.num_rows))
            begin = self.chooser.choice(known)
            if self.watermark is not None and begin < self.watermark:
                begin = self.watermark
        added = query if begin is None else (query, begin)
        for pattern in active:
            pattern[3] = now
        self.take(self.matcher.revise(add={name: added}).changes)
        self.patterns.append(
            [name, query, ("from", begin) if begin is not None else ("after", now), None]
        )

    def now(self) -> Any:
        """max(newest time seen, watermark)."""
        seen = [time for time in (self.newest, self.watermark) if time is not None]
        return max(seen) if seen else None

    newest: Any = None

    # -- what comes out --------------------------------------------------------------------------

    def take(self, changes: pa.Table) -> None:
        times = [event[self.time] for event in self.counted.values()]
        self.newest = max([t for t in (self.newest, *times) if t is not None], default=None)
        for row in changes.to_pylist():
            op, match, pattern = row.pop("op"), row.pop("match_id"), row.pop("pattern")
            text = f"{match} {pattern} {self.shown(row)}"
            if op == "+":
                self.net[text] += 1
            else:
                self.withdrawn += 1
                assert self.net[text] > 0, f"withdrawn, but never reported: {text}"
                self.net[text] -= 1
        if self.sigma == 0 or self.settle == 0:
            assert self.withdrawn == 0

    def shown(self, row: Row) -> str:
        if "events" in row and row["events"] is not None:
            row["events"] = [(e["label"], e["time"]) for e in row["events"]]
        return specs.comparable(self.query, [{k: v for k, v in row.items() if v is not None}])[0]

    def found(self) -> list[str]:
        return sorted(
            text.split(" ", 1)[1] for text, count in self.net.items() for _ in range(count)
        )

    # -- what must come out ----------------------------------------------------------------------

    def expected(self) -> list[str]:
        found = []
        for name, query, begin, end in self.patterns:
            rows = [
                row for row in self.counted.values() if self.applies(row[self.time], begin, end)
            ]
            table = pa.Table.from_pylist(rows, schema=self.table.schema)
            for row in answer(query, table):
                found.append(f"{name} {self.shown(listed(query, table, row, self.time))}")
        return sorted(found)

    def applies(self, time: Any, begin: Any, end: Any) -> bool:
        if begin is not None:
            kind, since = begin
            if since is not None and (time < since if kind == "from" else time <= since):
                return False
        return end is None or time <= end

    def check(self) -> None:
        self.live()
        assert self.found() == self.expected()


def answer(query: Query, table: pa.Table) -> list[Row]:
    """What the oracle says, or the batch run where the oracle has no patience or no measures."""
    rows = table.to_pylist()
    if query.row_semantics:
        try:
            return oracle.run(query, rows, table.column_names, patience=20_000).rows
        except oracle.TooLongError:
            return list(local.run(query, table).to_pylist())
    if query.measures is not None:
        return list(local.run(query, table).to_pylist())
    time = query.order_by[0].column
    found = []
    for key in {tuple(row[name] for name in query.partition_by) for row in rows}:
        part = [row for row in rows if tuple(row[name] for name in query.partition_by) == key]
        part.sort(key=lambda row: row[time])
        for pairs in oracle_sequences.matches(query, part):
            events = [{"label": label, "row": place} for label, place in pairs]
            first, last = (part[events[end]["row"]][time] for end in (0, -1))
            told = {"match_number": 0, "first": first, "last": last, "events": events}
            found.append(dict(zip(query.partition_by, key, strict=True)) | told)
    return found


def listed(query: Query, table: pa.Table, row: Row, time: str) -> Row:
    """A row of the batch's answer with times in place of numbers of rows."""
    if query.measures is not None or query.rows.all_rows:
        return row
    key = {name: row[name] for name in query.partition_by}
    same = [r for r in table.to_pylist() if all(r[name] == value for name, value in key.items())]
    times = sorted(r[time] for r in same)
    row = dict(row)
    del row["match_number"]
    row["events"] = [{"label": e["label"], "time": times[e["row"]]} for e in row["events"]]
    return row


SIGMAS = (0, 0, 1, 4, math.inf, math.inf, math.inf)
