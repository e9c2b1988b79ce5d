"""Arcs of an automaton that change while its stream runs: from the watermark of the edit on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api.automaton_text import read_edit
from ensue.run.lanes.arcs import arcs_work
from ensue.run.lanes.edits import PATTERN, VERSION
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import Work
from ensue.spark.control import Control
from tests.lanes import streams
from tests.lanes.test_automaton import asked_of, events, ready, work_of

COMMON: dict[str, Any] = {"order_by": "at", "partition_by": "k", "within": "25 seconds"}
BASE = (
    ensue.Automaton({"n": "bigint"}, **COMMON)
    .arc("s", "a", when="kind = 'a'", set={"n": "v"}, name="first")
    .arc("a", "end", when="kind = 'b'", set={"n": "n + v"}, name="ends")
    .final("end")
)
EDITS: list[dict[str, Any]] = [
    {"add": {"loop": {"source": "a", "target": "a", "when": "kind = 'c'", "set": {"n": "n + 1"}}}},
    {"remove": ["ends"], "add": {"ends": {"source": "a", "target": "end", "when": "v > 5"}}},
    {"add": {"other": {"source": "a", "target": "new", "when": "kind = 'a'", "final": True}}},
    {"add": {"late": {"source": "a", "target": "end", "at_end_of_window": True}},
     "remove": ["loop"]},
]  # fmt: skip


def edited(table: pa.Table, **settings: Any) -> Work:
    asked = replace(asked_of(BASE), read=read_edit)
    return arcs_work(asked, table.schema, "at", streams.settings(name="pairs", **settings), {})


def order(number: int, edit: dict[str, Any], name: str = "pairs", kind: str = "json") -> str:
    text = json.dumps({"ensue arcs": 1, **edit})
    return f"{number:08d}-{name}.{kind}\n{text}"


def plain(rows: list[dict[str, Any]]) -> list[str]:
    dropped = ("op", "match_id", PATTERN, VERSION)
    return sorted(repr({n: v for n, v in row.items() if n not in dropped}) for row in rows)


def net(table: pa.Table, standing: dict[str, dict[str, Any]]) -> None:
    for row in table.to_pylist():
        if row["op"] == "+":
            standing[row["match_id"]] = row
        else:
            del standing[row["match_id"]]


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("seed", range(12))
def test_an_edit_holds_from_the_watermark_on(seed: int, emit: str) -> None:
    """As if all events were there and the past were matched again under each edit's lifetime."""
    table = events(40, seed)
    work = edited(ready(table), emit=emit)
    times = table["at"].cast(pa.int64()).to_numpy()
    cuts = streams.cut(times, seed)
    chance = np.random.default_rng(seed)
    batches = sorted(chance.choice(range(2, len(cuts.rows)), len(EDITS), replace=False).tolist())
    blob: bytes | None = None
    found: list[pa.Table] = []
    carried: list[tuple[int, dict[str, Any]]] = []
    for place, (rows, mark) in enumerate(zip(cuts.rows, cuts.watermarks, strict=True)):
        orders = ()
        if place in batches and mark is not None:
            edit = EDITS[len(carried)]
            carried.append((mark, edit))
            orders = (order(len(carried), edit),)
        given = [ready(table).take(pa.array(rows, pa.int64()))]
        blob = streams.step(work, blob, given, mark, orders, found)
    streams.step(work, blob, [], cuts.last, (streams.CLOSE,), found)
    matcher = BASE.matcher(table.schema, arc_watermark=True)
    standing: dict[str, dict[str, Any]] = {}
    net(matcher.insert(table), standing)
    for mark, edit in carried:
        moment = pa.scalar(mark, pa.timestamp("us", "UTC")).as_py()
        net(matcher.revise(**edit, since=moment).changes, standing)
    net(matcher.end(), standing)
    told = streams.net(found) if emit == "changes" else [r for t in found for r in t.to_pylist()]
    assert carried and plain(told) == plain(list(standing.values()))
    assert all(row[PATTERN] == "pairs" for row in told)
    assert {row[VERSION] for row in told} <= set(range(len(EDITS) + 1))


def step(work: Work, blob: bytes | None, *orders: str) -> tuple[list[Any], bytes, Lane]:
    lane = Lane(work, 0)
    if blob is not None:
        lane.load(blob)
    rows = [row for part in lane.step([], streams.EPOCH, orders) for row in part.to_pylist()]
    saved = lane.save(always=True)
    assert saved is not None
    return rows, saved, lane


BAD: dict[str, tuple[str, str]] = {
    "another name": (order(1, EDITS[0], "other"), "has this one pattern"),
    "sql": (order(1, EDITS[0], kind="sql"), "has this one pattern"),
    "drop": (order(1, EDITS[0], kind="drop"), "has this one pattern"),
    "no json": ("00000001-pairs.json\n{", "is not JSON"),
    "a query": ('00000001-pairs.json\n{"ensue query": 1}', "does not change arcs"),
    "nothing": (order(1, {}), "adds no arcs"),
    "no target": (order(1, {"add": {"x": {"source": "a"}}}), "give source and target"),
    "unknown key": (
        order(1, {"add": {"x": {"source": "a", "target": "end", "were": "v > 1"}}}),
        "give source and target",
    ),
    "a column": (
        order(1, {"add": {"x": {"source": "a", "target": "end", "when": "w > 1"}}}),
        "neither a column of the events",
    ),
    "a type": (
        order(1, {"add": {"x": {"source": "a", "target": "end", "when": "v + 1"}}}),
        "fence",
    ),
    "a field": (
        order(1, {"add": {"x": {"source": "a", "target": "end", "set": {"m": "1"}}}}),
        "not a field of the register",
    ),
    "a state": (order(1, {"add": {"x": {"source": "q", "target": "end"}}}), "which no arc leads"),
    "an arc": (order(1, {"remove": ["x"]}), "no arc or pattern 'x'"),
    "the last": (order(1, {"remove": ["ends"]}), "last arc to a final state"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_edit_is_reported_and_changes_nothing(name: str) -> None:
    given, words = BAD[name]
    work = edited(ready(events(3, 1)), late=True)
    before = step(work, None)[1]
    rows, after, lane = step(work, before, given)
    (row,) = rows
    assert row["status"] == "refused edit" and words in json.loads(row["event"])["error"]
    assert lane.counts.bad_edits == 1 and after == before


def test_an_edit_is_never_carried_out_twice_and_is_counted() -> None:
    table = ready(events(30, 2))
    work = edited(table, late=True)
    _, blob, _ = step(work, None, order(3, EDITS[0]))
    rows, blob, _ = step(work, blob, order(3, EDITS[0]))
    assert "is in version 3" in json.loads(rows[0]["event"])["error"]
    lane = Lane(work, 0)
    lane.load(blob)
    told = [
        row
        for part in lane.step([table], streams.EPOCH, (streams.CLOSE,))
        for row in part.to_pylist()
    ]
    assert told and {row[VERSION] for row in told} == {3}
    assert lane.patterns == {"pairs@3 matches": len(told)}


def test_control_writes_edits_of_arcs(tmp_path: Path) -> None:
    control = Control(tmp_path)
    path = control.arcs("pairs", add={"x": dict(source="a", target="end")}, remove="ends")
    assert path.name == "00000001-pairs.json"
    arcs, gone, finals = read_edit(path.read_text(), BASE.machine.fields)
    assert [arc.name for arc in arcs] == ["x"] and gone == ["ends"] and finals == []
    with pytest.raises(errors.QueryError, match="cannot be written down"):
        control.arcs("pairs", add={"x": dict(source="a", target="end", when=lambda e, r: True)})


def test_without_edits_orders_are_refused() -> None:
    work = work_of(BASE, ready(events(3, 1)), late=True)
    rows, _, _ = step(work, None, order(1, EDITS[0], "pattern"))
    assert "without edits=True" in json.loads(rows[0]["event"])["error"]
