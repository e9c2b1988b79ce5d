"""Patterns with events missing under a budget, in the lanes of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator.prepare import finish
from ensue.run import local
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.works import matches_work
from tests.lanes import streams

_CHANCE = np.random.default_rng(3)
EVENTS = pa.table(
    {
        "user": _CHANCE.integers(0, 3, 90),
        "id": np.arange(90),
        "kind": _CHANCE.choice(list("ABCX"), 90),
        "x": _CHANCE.integers(0, 6, 90),
    }
)
ALWAYS = ensue.Budget(work=10**9)


def asked(define: dict[str, str], **options: Any) -> Any:
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").partition_by("user").order_by("id")
    return pattern.within(30).define(**define).allow_missing(1, **options)


def work_of(pattern: Any, budget: Any, **settings: Any) -> tuple[Any, ...]:
    case = streams.timed(pattern.query, EVENTS)
    assert case is not None
    query, table = case
    planned, ready = streams.streamed(query, table)
    given = streams.settings(**settings)
    work = matches_work(planned, None, ready.schema, streams.TIME, given, {}, budget)
    times = table[streams.TIME].cast(pa.int64()).to_numpy()
    return work, ready, streams.cut(times, 5), query, table, planned


def told(found: Any) -> list[str]:
    names = ("user", "errors", "missing", "missing_at", "first", "last")
    return sorted(map(str, found.select(names).to_pylist()))


@pytest.mark.parametrize("define", [{}, {"B": "x >= A.x"}, {"C": "SUM(B.x) > x"}], ids=str)
def test_a_budget_above_need_gives_what_a_table_gives(define: dict[str, str]) -> None:
    """State is written and read between any two micro-batches, registers of conditions too."""
    work, ready, cuts, query, table, planned = work_of(asked(define), ALWAYS)
    found = pa.concat_tables([work.found.empty_table(), *streams.drive(work, ready, cuts)])
    assert told(finish(planned, found)) == told(local.run(query, table))
    assert found.num_rows


def test_a_small_budget_goes_on_with_what_it_learnt() -> None:
    """One lane that is never stopped, and one whose state is written after every micro-batch."""
    given = work_of(asked({}, history=2), ensue.Budget(work=2))
    work, ready, cuts, query, table, planned = given
    pieces = pa.concat_tables([work.found.empty_table(), *streams.drive(work, ready, cuts)])
    lane = Lane(work, 0)
    whole: list[pa.Table] = []
    extended = unextended = 0
    for rows, watermark in zip(cuts.rows, cuts.watermarks, strict=True):
        whole.extend(lane.step([ready.take(pa.array(rows, pa.int64()))], watermark))
        extended += lane.counts.extended
        unextended += lane.counts.unextended
    whole.extend(lane.step([], cuts.last, (streams.CLOSE,)))
    assert pieces.equals(pa.concat_tables([work.found.empty_table(), *whole]))
    exact = told(local.run(query, table))
    some = told(finish(planned, pieces))
    assert 0 < len(some) < len(exact) and set(some) <= set(exact)
    assert extended > 0 and unextended > 0


def test_what_a_stage_answers_a_lane() -> None:
    work, ready, *_ = work_of(asked({}, history=2), ensue.Budget(work=2))
    stage = work.stage(0)
    assert stage.keys == 0 and not stage.sizes()

    def drained(tables: Iterator[pa.Table]) -> int:
        return sum(table.num_rows for table in tables)

    ordered = ready.take(pa.array(np.argsort(ready["id"].to_numpy())))
    assert drained(stage.insert(ordered)) > 0
    assert stage.keys == stage.partials == 3 and stage.next_time() is None
    made, left, promised, followed = stage.spent()
    assert made > 0 and left > 0 and 0 < followed < promised
    assert stage.spent() == (0, 0, 0, 0)
    largest = stage.sizes()
    again = stage.copy()
    assert again.sizes() == largest and again.spent() == (0, 0, 0, 0)
    again.drop(set(largest))
    assert again.keys == 3 - len(largest)
    assert drained(stage.end(stage.known())) == 0 and stage.keys == 0


def test_refusals() -> None:
    with pytest.raises(errors.UnsupportedError, match="taken back"):
        work_of(asked({}), ALWAYS, emit="changes")
    with pytest.raises(errors.QueryError, match="leaves nothing"):
        work_of(asked({}), ensue.Budget(work=0))
    work, *_ = work_of(asked({}), ALWAYS)
    other, *_ = work_of(asked({"B": "x > 2"}), ALWAYS)
    with pytest.raises(errors.StateError):
        other.stage(0).load(work.stage(0).save())
