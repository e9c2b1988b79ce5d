"""Workloads on lanes without Spark: what `workload.matches` gives on all rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.front.sql import read_query
from ensue.query import stored
from ensue.query.binding import bind
from ensue.run.lanes.edits import EditsWork, edits_work
from ensue.run.lanes.shared import shared_work
from ensue.shared.options import Sharing
from tests.lanes import streams
from tests.lanes.test_edits import Stream, hashed

COLUMNS = ["k", "ts", "kind", "x"]
AMPLE = ensue.Budget(work=10**9)  # never spent: the answer is the exact one


def events(count: int, seed: int, keys: Any = ("a", "b", None)) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = streams.EPOCH + np.cumsum(chance.integers(1, 4, count)) * streams.SECOND
    return pa.table(
        {
            "k": pa.array(chance.choice(list(keys), count)),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": pa.array(chance.choice(list("ABCD"), count)),
            "x": chance.integers(0, 9, count),
        }
    )


def asked(text: str, **measures: str) -> Any:
    made = ensue.pattern(text, types="kind").partition_by("k").order_by("ts")
    return made.measures(**measures) if measures else made


SHARED = {
    "pairs": asked("A ->> B", n="COUNT(*)", first="FIRST(A.x)").within("20 seconds"),
    "threes": asked("A ->> B ->> C", n="COUNT(*)", most="MAX(B.x)").within("12 seconds"),
    "guarded": asked("A ->> D", n="COUNT(*)").define(D="D.x > A.x").within("15 seconds"),
    "not followed": asked("A ->> !C ->> B", n="COUNT(*)").within("9 seconds"),
}
MIXED = SHARED | {"rows": asked("A B+", n="COUNT(*)", last="LAST(B.x)")}


def work_of(patterns: Any, budget: Any = None, history: Any = None, **given: Any) -> EditsWork:
    queries = {name: bind(pattern.query, COLUMNS) for name, pattern in patterns.items()}
    arguments = (queries, hashed(events(1, 0)).schema, "ts", streams.settings(**given), {})
    if budget is None:
        return edits_work(*arguments, read_query)
    return shared_work(*arguments, read_query, budget, Sharing(), history)


def plain(rows: list[dict[str, Any]]) -> list[str]:
    dropped = ("version", "op", "match_id")
    told = ({n: v for n, v in row.items() if n not in dropped} for row in rows)
    return sorted(str(sorted(row.items())) for row in told)


def run(work: EditsWork, table: pa.Table, seed: int) -> list[dict[str, Any]]:
    cuts = streams.cut(table["ts"].cast(pa.int64()).to_numpy(), seed)
    found = streams.drive(work, hashed(table), cuts)
    if work.settings.speculative:
        return streams.net(found)
    return [row for part in found for row in part.to_pylist()]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("emit", ["final", "changes"])
def test_patterns_of_all_kinds_give_what_a_table_gives(seed: int, emit: str) -> None:
    table = events(60, seed)
    wanted = ensue.workload(MIXED).matches(table).to_pylist()
    assert plain(run(work_of(MIXED, emit=emit), table, seed)) == plain(wanted) != []


@pytest.mark.parametrize("seed", range(8))
def test_a_budget_that_is_never_spent_gives_all_matches(seed: int) -> None:
    table = events(80, seed)
    wanted = ensue.workload(SHARED).matches(table).to_pylist()
    assert plain(run(work_of(SHARED, AMPLE), table, seed)) == plain(wanted) != []


def test_a_small_budget_gives_some_matches_and_no_false_one() -> None:
    table = events(400, 1, keys="a")
    exact = plain(ensue.workload(SHARED).matches(table).to_pylist())
    some = plain(run(work_of(SHARED, ensue.Budget(work=2)), table, 1))
    assert 0 < len(some) < len(exact) and set(some) <= set(exact)


def test_a_history_teaches_every_lane() -> None:
    past, table = events(300, 2), events(300, 3)
    budget = ensue.Budget(work=3)
    taught, untaught = (work_of(SHARED, budget, history) for history in (past, None))
    assert isinstance(taught.stage(0).save(), bytes) and taught.learned and not untaught.learned
    exact = set(plain(ensue.workload(SHARED).matches(table).to_pylist()))
    assert set(plain(run(taught, table, 3))) <= exact


@pytest.mark.parametrize("budget", [None, AMPLE], ids=["exact", "budget"])
def test_patterns_come_and_go(budget: Any) -> None:
    table = events(60, 5)
    first = {name: SHARED[name] for name in ("pairs", "threes")}
    stream = Stream(work_of(first, budget))
    ready = hashed(table)
    seconds = (table["ts"].cast(pa.int64()).to_numpy() - streams.EPOCH) // streams.SECOND
    middle = int(seconds[30])
    stream.step(ready.slice(0, 30), None)
    added = stored.to_json(bind(asked("B ->> D", n="COUNT(*)").within("9 seconds").query, COLUMNS))
    stream.step(None, middle, "00000001-late.json\n" + added, "00000002-threes.drop\n")
    stream.step(ready.slice(30), middle).step(None, int(seconds[-1]) + 1, streams.CLOSE)
    assert stream.bad == 0
    before, after = table.slice(0, 30), table.slice(30)
    wanted = first["pairs"].matches(table).num_rows
    assert sum(row["pattern"] == "pairs" for row in stream.found) == wanted > 0
    late = [row for row in stream.found if row["pattern"] == "late"]
    new = asked("B ->> D", n="COUNT(*)").within("9 seconds")
    assert len(late) == new.matches(after).num_rows > 0 and {r["version"] for r in late} == {1}
    gone = sum(row["pattern"] == "threes" for row in stream.found)
    assert gone == first["threes"].matches(before).num_rows


def test_edits_that_cannot_be_shared_are_refused_and_the_rest_goes_on() -> None:
    table = events(40, 6)
    stream = Stream(work_of({"pairs": SHARED["pairs"], "threes": SHARED["threes"]}, AMPLE))
    rows = stored.to_json(bind(asked("A B", n="COUNT(*)").query, COLUMNS))
    unknown = stored.to_json(bind(asked("A ->> B", other="COUNT(*)").within("9 s").query, COLUMNS))
    orders = ("00000001-rows.json\n" + rows, "00000002-other.json\n" + unknown, "00000003-x.drop\n")
    stream.step(hashed(table), None, *orders).step(None, 0, streams.CLOSE)
    assert stream.bad == 3
    assert len(stream.found) == sum(
        SHARED[name].matches(table).num_rows for name in ("pairs", "threes")
    )


def test_refusals() -> None:
    for given in ({"emit": "changes"}, {"corrections": "content"}):
        with pytest.raises(errors.UnsupportedError, match="taken back"):
            work_of(SHARED, AMPLE, **given)
    with pytest.raises(errors.UnsupportedError, match="row pattern"):
        work_of(MIXED, AMPLE)
    untimed = SHARED | {"untimed": asked("A ->> B", n="COUNT(*)").within("5 rows")}
    with pytest.raises(errors.UnsupportedError, match="one group"):
        work_of(untimed, AMPLE)
    clash = {"a": asked("A B", n="COUNT(*)"), "b": asked("A B", n="FIRST(kind)")}
    with pytest.raises(errors.ColumnTypeError, match="one type"):
        work_of(clash)


@pytest.mark.parametrize("budget", [None, AMPLE], ids=["exact", "budget"])
def test_a_function_that_only_spark_knows_is_refused_with_the_rule(budget: Any) -> None:
    only = {"sounds": asked("A ->> B").define(B="soundex(kind) = 'B000'")}
    with pytest.raises(errors.UnsupportedFunctionError, match=r"soundex.*evaluated on Arrow"):
        work_of(only, budget)
