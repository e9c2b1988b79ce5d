"""Automata by hand in the lanes of a stream: what all events at once give."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.identity import row_hashes
from ensue.operator.status import STATUS
from ensue.run.lanes.work import Work
from ensue.run.lanes.works import AskedAutomaton, automaton_work
from tests.lanes import streams


def automata() -> dict[str, ensue.Automaton]:
    common: dict[str, Any] = {"order_by": "at", "partition_by": "k"}
    counting = ensue.Automaton({"n": "bigint"}, within="20 seconds", **common)
    alone = ensue.Automaton({"x": "bigint"}, within="10 seconds", **common)
    return {
        "as many b as a": counting.arc("s", "a", when="kind = 'a'", set={"n": "n + 1"})
        .arc("a", "a", when="kind = 'a'", set={"n": "n + 1"})
        .arc("a", "b", when="kind = 'b'", set={"n": "n - 1"})
        .arc("b", "b", when="kind = 'b' AND n > 0", set={"n": "n - 1"})
        .arc("b", "even", when="n = 0", epsilon=True)
        .final("even"),
        "an a that no b follows": alone.arc("s", "a", when="kind = 'a'", set={"x": "v"})
        .arc("a", "a", when="kind <> 'b'")
        .arc("a", "missed", at_end_of_window=True)
        .final("missed"),
        "for ever": ensue.Automaton({"x": "double"}, **common)
        .arc("s", "a", when="kind = 'a'", set={"x": "v / 2"})
        .arc("a", "b", when="kind = 'b' AND v > x", set={"x": "x + v"})
        .final("b"),
    }


def events(count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = streams.EPOCH + np.cumsum(chance.integers(1, 8, count)) * streams.SECOND
    return pa.table(
        {
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array(chance.choice(["x", "y", None], count)),
            "kind": pa.array(chance.choice(list("abc"), count)),
            "v": chance.integers(0, 9, count),
        }
    )


def asked_of(automaton: ensue.Automaton) -> AskedAutomaton:
    return AskedAutomaton(
        automaton.machine,
        automaton.timing,
        automaton.partition_by,
        automaton._settings(keep_rows=False),
    )


def work_of(automaton: ensue.Automaton, table: pa.Table, **settings: Any) -> Work:
    return automaton_work(asked_of(automaton), table.schema, "at", streams.settings(**settings), {})


def ready(table: pa.Table) -> pa.Table:
    content = row_hashes(table, table.column_names).view(np.int64)
    table = table.append_column(CONTENT, pa.array(content))
    return table.append_column(KEY, pa.array(row_hashes(table, ["k"]).view(np.int64)))


def rows(tables: list[pa.Table]) -> list[str]:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("name", sorted(automata()))
@pytest.mark.parametrize("seed", range(6))
def test_a_lane_gives_what_all_events_give(name: str, emit: str, seed: int) -> None:
    automaton, table = automata()[name], events(25, seed)
    batches = streams.cut(table["at"].cast(pa.int64()).to_numpy(), seed)
    lane = work_of(automaton, ready(table), emit=emit)
    found = streams.drive(lane, ready(table), batches)
    if emit == "changes":
        found = [pa.Table.from_pylist(streams.net(found), lane.found)]
    expected = automaton.matches(table).drop_columns(["match_number"])
    assert rows(found) == rows([expected])


def test_state_leaves_with_the_window() -> None:
    automaton, table = automata()["an a that no b follows"], events(400, 1)
    lane = work_of(automaton, ready(table))
    times = table["at"].cast(pa.int64()).to_numpy()
    state, sizes = None, []
    for begin in range(0, 400, 10):
        part = ready(table).slice(begin, 10)
        state = streams.step(lane, state, [part], int(times[begin]) - 1, (), [])
        sizes.append(len(state or b""))
    assert max(sizes[10:]) < 1.3 * max(sizes[:10])


def test_a_silent_key_is_complete() -> None:
    automaton = automata()["for ever"]
    table = ready(events(60, 4))
    lane = work_of(automaton, table, forget=30 * streams.SECOND)
    mark = int(table["at"].cast(pa.int64())[-1].as_py())
    found: list[pa.Table] = []
    state = streams.step(lane, None, [table], None, (), found)
    state = streams.step(lane, state, [], mark + 1, (), found)
    held = len(state or b"")
    state = streams.step(lane, state, [], mark + 31 * streams.SECOND, (), found)
    assert len(state or b"") < held / 2
    expected = automaton.matches(table.drop_columns([CONTENT, KEY]))
    assert rows(found) == rows([expected.drop_columns(["match_number"])])


def test_a_row_that_cannot_be_used_is_told() -> None:
    numbered = ensue.Automaton(order_by="at", partition_by="k", sequence="v")
    numbered = numbered.arc("s", "a", when="kind = 'a'").final("a")
    times = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
    twice = {"at": times, "k": ["x"] * 3, "kind": ["a"] * 3, "v": [1, 1, 2]}
    table = ready(pa.table(twice))
    shown = table.append_column("__ensue_text", pa.array(["{}"] * 3))
    lane = work_of(numbered, table, late=True)
    found: list[pa.Table] = []
    streams.step(lane, None, [shown.select(table.column_names)], None, (streams.CLOSE,), found)
    told = [row for part in found for row in part.to_pylist()]
    refused = [row for row in told if row[STATUS] == "rejected"]
    assert len(told) == 3 and len(refused) == 1
    assert "sequence number" in json.loads(refused[0]["event"])["reason"]


def test_a_lane_meets_the_limit_of_partial_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    table = events(200, 1)
    monkeypatch.setattr("ensue.revision.limits.MAX_PARTIALS", 50)
    lane = work_of(automata()["for ever"], ready(table))
    with pytest.raises(errors.LimitError, match="more than 50 partial matches are held"):
        streams.step(lane, None, [ready(table)], None, (streams.CLOSE,), [])
