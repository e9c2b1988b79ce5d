"""Lanes without Spark: any cut of a stream gives the batch answer, final or speculative."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ensue import errors
from ensue.operator.listing import Listing
from ensue.operator.prepare import finish
from ensue.query.query import Query
from ensue.run import local
from ensue.run.lanes.works import matches_work
from tests import sequence_specs, specs
from tests.generate import generated_case, query_texts, tables
from tests.lanes import streams
from tests.share import examples

CASES = [case for case in specs.cases() if case.error is None]


def answers(query: Query, table: pa.Table, seed: int, **given: Any) -> tuple[list[str], list[str]]:
    """The stream's answer and the batch's, comparable."""
    planned, ready = streams.streamed(query, table)
    work = matches_work(planned, None, ready.schema, streams.TIME, streams.settings(**given), {})
    times = table[streams.TIME].cast(pa.int64()).to_numpy()
    found = streams.drive(work, ready, streams.cut(times, seed))
    if given.get("emit") == "changes":
        rows = streams.net(found)
        columns = {f.name: [row[f.name] for row in rows] for f in work.found}
        told = pa.table(columns, schema=work.found)
    else:
        told = pa.concat_tables([work.found.empty_table(), *found])
    whole = local.run(query, table)
    got = finish(planned, told).to_pylist()
    wanted = whole.to_pylist()
    if given.get("emit") == "changes" and query.measures is None and not query.rows.all_rows:
        got = [{**row, "events": [e["label"] for e in row["events"]]} for row in got]
        for row in wanted:
            del row["match_number"]
            row["events"] = [e["label"] for e in row["events"]]
    return specs.comparable(query, got), specs.comparable(query, wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_spec_cases(case: specs.Case) -> None:
    asked = streams.timed(case.query(), case.table)
    if asked is None:
        return
    # Once the watermark is Spark's alone, once the rows of a micro-batch prove their part of it.
    for seed, delay in enumerate((None, streams.DISORDER)):
        got, wanted = answers(*asked, seed, delay=delay)
        assert got == wanted, f"delay {delay}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_speculation_nets_to_the_same(case: specs.Case) -> None:
    query = case.query()
    asked = streams.timed(query, case.table)
    if asked is None:
        return
    sigma = [None, 0, 2 * streams.SECOND][len(case.data["name"]) % 3]
    got, wanted = answers(*asked, len(case.data["name"]), emit="changes", speculation=sigma)
    assert got == wanted


def test_most_spec_cases_are_streams() -> None:
    timed = [case for case in CASES if streams.timed(case.query(), case.table) is not None]
    assert len(timed) > 0.9 * len(CASES)


@hypothesis_settings(
    max_examples=examples(120),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(query_texts(), tables(), st.integers(0, 9), st.sampled_from(["final", "changes"]))
def test_random_queries(query_text: dict[str, Any], table_text: str, seed: int, emit: str) -> None:
    case = generated_case(query_text, table_text)
    asked = streams.timed(case.query(), case.table)
    if asked is None:
        return
    try:
        local.run(*asked)
    except errors.SkipTargetError:
        return
    got, wanted = answers(*asked, seed, emit=emit)
    assert got == wanted


def event_answers(
    query: Query, table: pa.Table, seed: int, listing: Listing | None = None, **given: Any
) -> tuple[list[str], list[str]]:
    planned, ready = streams.streamed(query, table)
    chosen = streams.settings(**given)
    work = matches_work(planned, listing, ready.schema, streams.TIME, chosen, {})
    times = table[streams.TIME].cast(pa.int64()).to_numpy()
    found = streams.drive(work, ready, streams.cut(times, seed))
    wanted = local.run(query, table, listing).to_pylist()
    if given.get("emit") == "changes":
        shown = [
            {"events": [(e["label"], e["time"]) for e in r["events"]]} for r in streams.net(found)
        ]
        moments = table[streams.TIME].to_pylist()  # one partition, in order
        told = [{"events": [(e["label"], moments[e["row"]]) for e in r["events"]]} for r in wanted]
        return sorted(map(str, shown)), sorted(map(str, told))
    got = [row for part in found for row in part.to_pylist()]
    # Matches of one piece may come in another order than those of the whole.
    for row in (*got, *wanted):
        del row["match_number"]
    return sorted(map(str, got)), sorted(map(str, wanted))


@pytest.mark.parametrize("case", sequence_specs.cases(), ids=str)
def test_event_spec_cases(case: sequence_specs.Case) -> None:
    asked = streams.timed(case.pattern.query, case.table)
    assert asked is not None
    seed = len(case.name)
    emit = ("final", "changes")[seed % 2]
    delay = streams.DISORDER if seed % 4 == 0 else None
    got, wanted = event_answers(*asked, seed, emit=emit, delay=delay)
    assert got == wanted, emit


@pytest.mark.parametrize("case", sequence_specs.cases()[::4], ids=str)
def test_event_timeouts(case: sequence_specs.Case) -> None:
    asked = streams.timed(case.pattern.within(3).query, case.table)
    assert asked is not None
    listing = Listing(timeouts=True)
    got, wanted = event_answers(*asked, len(case.name), listing, delay=streams.DISORDER)
    assert got == wanted


def test_two_watermarks_are_found() -> None:
    """Spark takes the least of several; then rows of one source prove nothing."""
    case = next(c for c in CASES if c.table.num_rows > 3 and c.query().partition_by)
    asked = streams.timed(case.query(), case.table)
    assert asked is not None
    query, table = asked
    planned, ready = streams.streamed(query, table)
    chosen = streams.settings(delay=0)
    work = matches_work(planned, None, ready.schema, streams.TIME, chosen, {})
    state = streams.step(work, None, [ready], None, (), [])
    with pytest.raises(errors.WatermarkError, match="several watermarks"):
        streams.step(work, state, [ready], streams.EPOCH - streams.SECOND, (), [])
