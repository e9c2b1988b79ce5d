"""Lanes over all times that Spark has, from the year 1 to 9999: every row is accounted for.

The answer is that of a batch over all rows that are neither late nor without a time (`times.py`):
of the brute-force references where there are some, else of the same verb in process.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ensue
from ensue import quantify as q
from ensue.automaton.plan import plan
from ensue.front.expressions import Scope, parse_condition
from ensue.front.sql import read_query
from ensue.operator.arrange import flat
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.identity import row_hashes
from ensue.operator.prepare import finish
from ensue.operator.status import LATE, MATCHED, REJECTED, STATUS
from ensue.query import rules
from ensue.query.binding import bind
from ensue.query.query import OrderKey, Query
from ensue.run import local
from ensue.run.lanes.edits import edits_work
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import BEHIND, SHOWN, TEXT, Settings, Work
from ensue.run.lanes.works import (
    Asked,
    AskedAutomaton,
    automaton_work,
    matches_work,
    quantify_work,
    summary_work,
    totals_work,
)
from ensue.scalar.columns import Rows, evaluate
from ensue.sequences.totals import Grouping
from ensue.summary.options import SummaryOptions
from tests import oracle, oracle_sequences
from tests.lanes import streams
from tests.lanes.times import DAY, DELAYS, LAST, SECOND, Row, Sent, in_numbers, numbers, sent, told

CASES = int(os.environ.get("ENSUE_TIMES_CASES", "4"))  # of each verb; many by hand


def driven(work: Work, rows: pa.Table, given: Sent) -> list[pa.Table]:
    """A lane over the micro-batches and the end; after each, all rows that came are somewhere."""
    blob: bytes | None = None
    found: list[pa.Table] = []
    came = gone = 0
    batches = [*zip(given.batches, given.watermarks, strict=True), ([], given.last)]
    for number, (part, watermark) in enumerate(batches):
        lane = Lane(work, 0)
        if blob is not None:
            lane.load(blob)
        inserted = _spied(lane)
        orders = () if part else (streams.CLOSE,)
        found.extend(lane.step([rows.take(pa.array(part, pa.int64()))], watermark, orders))
        blob = lane.save() or blob
        counts = lane.counts
        came += counts.rows
        gone += counts.late + counts.rejected + sum(inserted)
        assert came == gone + counts.pending, f"micro-batch {number}"
    assert gone == rows.num_rows
    return found


def _spied(lane: Lane) -> list[int]:
    """How many rows the evaluator is given."""
    inserted: list[int] = []
    inner = lane._stage.insert

    def insert(rows: pa.Table) -> Any:
        inserted.append(rows.num_rows)
        return inner(rows)

    lane._stage.insert = insert  # type: ignore[method-assign]
    return inserted


def ready(table: pa.Table) -> pa.Table:
    """The rows as lanes get them where no plan prepares them."""
    content = row_hashes(table, table.column_names).view(np.int64)
    keys = row_hashes(table, ["k"]).view(np.int64)
    table = table.append_column(CONTENT, pa.array(content)).append_column(KEY, pa.array(keys))
    return table.append_column(TEXT, pa.array([str(i) for i in table["id"].to_pylist()]))


# -- verbs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verb:
    """The work of a lane with the rows it is given, and the answer over rows by definition."""

    ask: Callable[[pa.Table, Settings], tuple[Work, pa.Table]]
    wanted: Callable[[pa.Table], list[Row]]
    finish: Callable[[pa.Table], pa.Table] = lambda found: found
    emits: tuple[str, ...] = ("final", "changes")


def by_key(table: pa.Table) -> list[list[Row]]:
    rows = sorted(numbers(table).to_pylist(), key=lambda row: (row["ts"], row["id"]))
    return [[row for row in rows if row["k"] == key] for key in {row["k"] for row in rows}]


def _matches(query: Query, wanted: Callable[[pa.Table], list[Row]]) -> Verb:
    planned, _ = streams.streamed(query, sent(0, 0).table)

    def ask(table: pa.Table, settings: Settings) -> tuple[Work, pa.Table]:
        planned, rows = streams.streamed(query, table)
        rows = rows.append_column(TEXT, ready(table)[TEXT])
        return matches_work(planned, None, rows.schema, "ts", settings, {}), rows

    return Verb(ask, wanted, lambda found: finish(planned, found))


def row_matches(query: Query) -> Verb:
    def wanted(table: pa.Table) -> list[Row]:
        rows = numbers(table)
        return oracle.run(in_numbers(query), rows.to_pylist(), rows.column_names).rows

    return _matches(query, wanted)


def edited_matches(query: Query) -> Verb:
    def ask(table: pa.Table, settings: Settings) -> tuple[Work, pa.Table]:
        rows = ready(table)
        bound = bind(query, table.column_names)
        return edits_work({"p": bound}, rows.schema, "ts", settings, {}, read_query), rows

    def wanted(table: pa.Table) -> list[Row]:
        rows = row_matches(query).wanted(table)
        return [{**row, "pattern": "p", "version": 0} for row in rows]

    return Verb(ask, wanted)


def event_matches(query: Query) -> Verb:
    def wanted(table: pa.Table) -> list[Row]:
        found = []
        for part in by_key(table):
            for pairs in oracle_sequences.matches(in_numbers(query), part):
                seen = {label: part[row] for label, row in pairs}
                first = seen["A"]
                row = {"k": first["k"], "at": first["ts"], "a": first["id"]}
                if "B" in seen:
                    row |= {"till": seen["B"]["ts"], "b": seen["B"]["id"]}
                found.append(row)
        return found

    return _matches(query, wanted)


def missing_matches() -> Verb:
    """A budget that is never spent: what a table gives without one."""
    pattern = ANY.allow_missing(1)
    planned, _ = streams.streamed(pattern.query, sent(0, 0).table)
    names = ["k", "errors", "missing", "missing_at", "first", "last"]

    def ask(table: pa.Table, settings: Settings) -> tuple[Work, pa.Table]:
        _, rows = streams.streamed(pattern.query, table)
        rows = rows.append_column(TEXT, ready(table)[TEXT])
        budget = ensue.Budget(work=10**9)
        return matches_work(planned, None, rows.schema, "ts", settings, {}, budget), rows

    def shown(found: pa.Table) -> pa.Table:
        return finish(planned, found).select(names)

    def wanted(table: pa.Table) -> list[Row]:
        found: list[Row] = numbers(local.run(pattern.query, table)).select(names).to_pylist()
        return found

    return Verb(ask, wanted, shown, emits=("final",))


def pairs(table: pa.Table, size: int) -> Iterator[tuple[Row, Row]]:
    """A ->> B within a time, one by one."""
    for part in by_key(table):
        for place, first in enumerate(part):
            for last in part[place + 1 :]:
                near = last["ts"] - first["ts"] <= size
                if near and (first["kind"], last["kind"]) == ("A", "B"):
                    yield first, last


def pair_totals(every: int, slide: int) -> Verb:
    planned = plan(rules.check(bind(TOTALS, COLUMNS)))

    def ask(table: pa.Table, settings: Settings) -> tuple[Work, pa.Table]:
        _, rows = streams.streamed(TOTALS, table)
        rows = rows.append_column(TEXT, ready(table)[TEXT])
        grouping = Grouping(("k",), every, slide)
        return totals_work(planned, grouping, rows.schema, "ts", settings, {}), rows

    def shown(found: pa.Table) -> pa.Table:
        columns = Rows({n: flat(found, n) for n in found.column_names}, found.num_rows, None)
        kept = {n: found[n] for n in found.column_names if not n.startswith("__")}
        return pa.table(kept | {m.name: evaluate(m.value, columns) for m in planned.outer})

    def wanted(table: pa.Table) -> list[Row]:
        groups: dict[tuple[Any, int], list[Row]] = {}
        for first, last in pairs(table, WITHIN):
            newest = last["ts"] // slide * slide
            for start in range(newest, last["ts"] - every, -slide):
                groups.setdefault((first["k"], start), []).append(last)
        return [
            {
                "k": k,
                "window_start": start,
                "window_end": start + every,
                "n": len(rows),
                "s": sum(row["x"] for row in rows),
                "newest": max(row["ts"] for row in rows),
            }
            for (k, start), rows in groups.items()
        ]

    return Verb(ask, wanted, shown)


def pair_summary() -> Verb:
    total = parse_condition("sum(B.x)", Scope(ANY.query.variables, "total"))
    options = SummaryOptions(
        200, "benefit", total, "sum(B.x)", None, None, None, 0, False, "decimal"
    )

    def ask(table: pa.Table, settings: Settings) -> tuple[Work, pa.Table]:
        rows = ready(table)
        return summary_work(ANY.query, options, rows.schema, "ts", settings, {}), rows

    def shown(found: pa.Table) -> pa.Table:
        kept = {"k": found["k"], "n": found["count"].cast(pa.int64())}
        values = pc.coalesce(found["sum"], pa.scalar(0, found["sum"].type))
        return pa.table(kept | {"s": values.cast(pa.int64())})

    def wanted(table: pa.Table) -> list[Row]:
        sums: dict[Any, list[int]] = {row["k"]: [] for part in by_key(table) for row in part}
        for first, last in pairs(table, WITHIN):
            sums[first["k"]].append(last["x"])
        return [{"k": k, "n": len(x), "s": sum(x)} for k, x in sums.items()]

    return Verb(ask, wanted, shown)


def time_windows(output: str, size: int) -> Verb:
    counted = q.windows(q.sum("x"), time=f"{size} microseconds", by="ts")
    asked = Asked(counted.stage, (OrderKey("ts"), OrderKey("id")), output, "value", COLUMNS)

    def ask(table: pa.Table, settings: Settings) -> tuple[Work, pa.Table]:
        rows = ready(table)
        return quantify_work(asked, ("k",), rows.schema, "ts", settings, {}), rows

    def wanted(table: pa.Table) -> list[Row]:
        sums: dict[tuple[Any, int], int] = {}
        for part in by_key(table):
            for row in part:
                window = (row["k"], row["ts"] // size * size)
                sums[window] = sums.get(window, 0) + row["x"]
        return [
            {"k": k, "window_start": start, "value": value} for (k, start), value in sums.items()
        ]

    return Verb(ask, wanted)


def automaton() -> Verb:
    common: dict[str, Any] = {"order_by": "ts", "partition_by": "k"}
    machine = (
        ensue.Automaton({"a": "bigint"}, within="30 seconds", tie="id", **common)
        .arc("s", "a", when="kind = 'A'", set={"a": "id"})
        .arc("a", "a", when="kind <> 'B'")
        .arc("a", "missed", at_end_of_window=True)
        .final("missed")
    )
    asked = AskedAutomaton(
        machine.machine, machine.timing, machine.partition_by, machine._settings(keep_rows=False)
    )

    def ask(table: pa.Table, settings: Settings) -> tuple[Work, pa.Table]:
        rows = ready(table)
        return automaton_work(asked, rows.schema, "ts", settings, {}), rows

    def shown(found: pa.Table) -> pa.Table:
        return found.select(["k", "a"])

    def wanted(table: pa.Table) -> list[Row]:
        followed = {first["id"] for first, _ in pairs(table, WITHIN)}
        rows = (row for part in by_key(table) for row in part if row["kind"] == "A")
        return [{"k": row["k"], "a": row["id"]} for row in rows if row["id"] not in followed]

    return Verb(ask, wanted, shown)


WITHIN = 30 * SECOND
COLUMNS = ("id", "k", "ts", "kind", "x")
A_B = ensue.pattern("A+ B", types="kind").partition_by("k").order_by("ts", "id")
A_B = A_B.measures(first="FIRST(A.ts)", last="B.ts", n="COUNT(*)")
THEN = ensue.pattern("A -> B", types="kind").partition_by("k").order_by("ts", "id")
THEN = THEN.measures(at="A.ts", till="B.ts", a="A.id", b="B.id")
NEVER = ensue.pattern("A -> !B", types="kind").partition_by("k").order_by("ts", "id")
NEVER = NEVER.within("30 seconds").measures(at="A.ts", a="A.id")
ANY = ensue.pattern("A ->> B", types="kind").partition_by("k").order_by("ts", "id")
ANY = ANY.within("30 seconds")
TOTALS = ANY.measures(n="count(*)", s="sum(B.x)", newest="max(B.ts)").query
VERBS = {
    "rows": row_matches(A_B.query),
    "rows in a window": row_matches(A_B.within("30 seconds").query),
    "rows in the longest window": row_matches(A_B.within("520000 weeks").query),
    "edited rows": edited_matches(A_B.within("30 seconds").query),
    "events": event_matches(THEN.query),
    "events in a window": event_matches(THEN.within("30 seconds").query),
    "an event that does not come": event_matches(NEVER.query),
    "totals": pair_totals(60 * SECOND, 60 * SECOND),
    "sliding totals of weeks": pair_totals(7 * DAY, 3 * DAY),
    "summary": pair_summary(),
    "windows": time_windows("defined", 60 * SECOND),
    "windows of weeks": time_windows("defined", 7 * DAY),
    "automaton": automaton(),
    "missing events under a budget": missing_matches(),
}


def check(name: str, seed: int, emit: str) -> None:
    verb, chance = VERBS[name], random.Random(seed)
    delay = chance.choice(DELAYS)
    given = sent(seed, delay)
    by_rows = emit == "final" and chance.random() < 0.5
    sigma = chance.choice((None, 0, 15 * SECOND)) if emit == "changes" else None
    settings = streams.settings(
        emit=emit, late=True, delay=delay if by_rows else None, speculation=sigma
    )
    work, rows = verb.ask(given.table, settings)
    found = [numbers(table) for table in driven(work, rows, given)]
    every = [row for table in found for row in table.to_pylist()]
    for status, expected in ((LATE, given.late), (REJECTED, given.rejected)):
        assert {int(row[SHOWN]) for row in every if row[STATUS] == status} == expected, status
    matched = [table.filter(pc.equal(table[STATUS], MATCHED)) for table in found]
    matched = [table.drop_columns(list(BEHIND)) for table in matched]
    if emit == "changes":
        schema = numbers(work.found.empty_table()).schema
        matched = [pa.Table.from_pylist(streams.net(matched), schema)]
    answer = [row for table in matched for row in verb.finish(table).to_pylist()]
    assert told(answer) == told(verb.wanted(given.used))


def test_the_edge_of_a_window_is_exact() -> None:
    """Microseconds of the year 9999 are more than a float tells apart."""
    edge = (LAST + 1) // (60 * SECOND) * 60 * SECOND
    for time in (edge - 1, edge, edge + 1, 1 - edge, -edge, -edge - 1):
        table = pa.table(
            {
                "id": [0, 1],
                "k": ["x", "x"],
                "ts": pa.array([time, time], pa.timestamp("us", "Asia/Tokyo")),
                "kind": ["A", "B"],
                "x": [1, 1],
            }
        )
        found = numbers(ANY.aggregate(table, every="1 minute", n="count(*)")).to_pylist()
        start = time // (60 * SECOND) * 60 * SECOND
        assert [row["window_start"] for row in found] == [start]
        assert [row["window_end"] for row in found] == [start + 60 * SECOND]


@pytest.mark.parametrize(("name", "emit"), [(n, e) for n, v in VERBS.items() for e in v.emits])
def test_every_row_is_accounted_for(name: str, emit: str) -> None:
    for seed in range(CASES):
        try:
            check(name, seed, emit)
        except Exception as problem:
            raise AssertionError(f"{name}, {emit}, seed {seed}: {problem!r}") from problem
