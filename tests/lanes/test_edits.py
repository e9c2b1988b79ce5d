"""Patterns that change while a stream runs, on lanes without Spark."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.front.sql import read_order
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.identity import row_hashes
from ensue.query import stored
from ensue.query.binding import bind
from ensue.run.lanes.edits import EditsWork, edits_work
from ensue.run.lanes.lane import Lane
from tests.lanes import streams

SECOND = streams.SECOND


def rows(kinds: str, key: str = "k", x: list[int] | None = None) -> pa.Table:
    times = [streams.EPOCH + i * SECOND for i in range(len(kinds))]
    table = pa.table(
        {
            "k": [key] * len(kinds),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": list(kinds),
            "x": pa.array(x or list(range(len(kinds))), pa.int64()),
        }
    )
    return hashed(table)


def hashed(table: pa.Table) -> pa.Table:
    content = row_hashes(table, table.column_names).view(np.int64)
    keys = row_hashes(table, ["k"]).view(np.int64)
    table = table.append_column(CONTENT, pa.array(content))
    return table.append_column(KEY, pa.array(keys))


def asked(pattern: Any) -> Any:
    return pattern.partition_by("k").order_by("ts").measures(n="COUNT(*)", at="FIRST(ts)")


FALL = asked(ensue.pattern("A B+ C", types="kind"))


def work_of(pattern: Any, **given: Any) -> EditsWork:
    table = rows("A")
    query = bind(pattern.query, ["k", "ts", "kind", "x"])
    settings = streams.settings(**given)
    return edits_work({"fall": query}, table.schema, "ts", settings, {}, read_order)


class Stream:
    def __init__(self, work: EditsWork) -> None:
        self.work, self.state = work, None
        self.found: list[dict[str, Any]] = []
        self.bad = 0

    def step(self, table: pa.Table | None, mark: int | None, *orders: str) -> Stream:
        """`mark` in seconds; the state is written and read with every step."""
        lane = Lane(self.work, 0)
        if self.state is not None:
            lane.load(self.state)
        moment = None if mark is None else streams.EPOCH + mark * SECOND
        tables = [] if table is None else [table]
        for part in lane.step(tables, moment, orders):
            self.found += part.to_pylist()
        self.bad += lane.counts.bad_edits
        self.state = lane.save() or self.state
        return self


def sql(define: str, pattern: str = "A B+ C", **changes: str) -> str:
    parts = {"keys": "k", "order": "ts", "measures": "COUNT(*) AS n, FIRST(ts) AS at"} | changes
    return (
        f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY {parts['keys']} ORDER BY {parts['order']} "
        f"MEASURES {parts['measures']} ONE ROW PER MATCH PATTERN ({pattern}) DEFINE {define})"
    )


PLAIN = "A AS kind = 'A', B AS kind = 'B', C AS kind = 'C'"


def test_a_new_definition_applies_from_the_watermark_and_partial_matches_stay() -> None:
    table = rows("ABBDABC")
    stream = Stream(work_of(FALL))
    stream.step(table.slice(0, 3), 0)
    edit = "00000001-fall.sql\n" + sql(PLAIN.replace("kind = 'C'", "kind = 'D'"))
    stream.step(None, 3, edit)  # A B B were read under version 0
    stream.step(table.slice(3), 3).step(None, 3, streams.CLOSE)
    assert [(r["pattern"], r["version"], r["n"]) for r in stream.found] == [("fall", 1, 4)]
    assert stream.bad == 0


def test_old_rows_keep_the_label_they_had() -> None:
    table = rows("ABXXC")
    stream = Stream(work_of(FALL)).step(table, None)
    # B is X from second 2 on; the B of second 1 stays one.
    edit = "00000001-fall.sql\n" + sql(PLAIN.replace("kind = 'B'", "kind = 'X'"))
    stream.step(None, 2, edit).step(None, 2, streams.CLOSE)
    assert [(r["version"], r["n"]) for r in stream.found] == [(1, 5)]


def test_patterns_are_added_and_dropped() -> None:
    table = rows("ABCABC")
    stream = Stream(work_of(FALL)).step(table.slice(0, 3), 0)
    other = stored.to_json(asked(ensue.pattern("A B", types="kind")).query)
    stream.step(None, 3, "00000001-pair.json\n" + other, "00000002-fall.drop\n")
    stream.step(table.slice(3), 3).step(None, 6, streams.CLOSE)
    got = [(r["pattern"], r["version"], r["n"]) for r in stream.found]
    assert got == [("fall", 0, 3), ("pair", 1, 2)]


def test_edits_of_one_batch_are_carried_out_in_order() -> None:
    table = rows("ABCABD")
    first = "9-fall.sql\n" + sql(PLAIN.replace("'C'", "'E'"))
    second = "10-fall.sql\n" + sql(PLAIN.replace("'C'", "'D'"))
    stream = Stream(work_of(FALL)).step(None, 0, second, first)
    stream.step(table, 0).step(None, 0, streams.CLOSE)
    assert [(r["version"], r["at"].second - 20) for r in stream.found] == [(10, 3)]


STORED = stored.to_json(FALL.query)
MISTYPED = json.loads(STORED)
MISTYPED["query"]["measures"] = ["total"]
BAD = {
    "does not name an edit": "fall.txt\nanything",
    "MATCH_RECOGNIZE": "00000001-fall.sql\nSELECT nonsense",
    "partitioned by": "00000001-fall.sql\n" + sql(PLAIN, keys="kind"),
    "event time": "00000001-fall.sql\n" + sql(PLAIN, order="x"),
    "not those of the stream's output": "00000001-fall.sql\n" + sql(PLAIN, measures="1 AS n"),
    "no column": "00000001-fall.sql\n" + sql("A AS nowhere > 1"),
    "not a stored query": "00000001-fall.json\n{}",
    "there is no pattern 'other'": "00000001-other.drop\n",
    "nests deeper": "00000001-fall.json\n" + "[" * 100_000,
    "does not name": f"{10**20}-fall.sql\n" + sql(PLAIN),
    "'111111111": "1" * 5000 + "-fall.sql\n" + sql(PLAIN),
    "line 1, column": "00000001-fall.sql\n"
    + sql("A AS " + "abs(" * 2000 + "x" + ")" * 2000 + " > 1"),
    "the limit is": "00000001-fall.sql\n" + " " * 5_000_000,
    "the literal 17": "00000001-fall.json\n" + STORED.replace('"B"', "17"),
    "AttributeError": "00000001-fall.json\n" + json.dumps(MISTYPED),
    "'reflect'": "00000001-fall.sql\n" + sql("A AS reflect('a', kind) = 'b'"),
    "sub-query": "00000001-fall.sql\n" + sql("A AS x > (SELECT max(x) FROM other)"),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_edit_is_reported_and_the_old_pattern_goes_on(reason: str) -> None:
    table = hashed(rows("ABC").select(["k", "ts", "kind", "x"])).append_column(
        "__ensue_text", pa.array(["{}"] * 3)
    )
    work = work_of(FALL, late=True)
    stream = Stream(EditsWork(**{**vars(work), "schema": table.schema}))
    stream.step(table.slice(0, 2), 0, BAD[reason]).step(table.slice(2), 0)
    stream.step(None, 0, streams.CLOSE)
    assert [r["n"] for r in stream.found if r["status"] == "matched"] == [3]
    told = [json.loads(r["event"]) for r in stream.found if r["status"] == "refused edit"]
    assert len(told) == stream.bad == 1
    assert reason in told[0]["error"] and told[0]["order"] in BAD[reason]


def test_an_edit_that_the_data_prove_wrong_is_stopped_and_the_stream_goes_on() -> None:
    edits = [
        "1-fall.sql\n" + sql(PLAIN.replace("kind = 'A'", "CAST(kind AS INT) = 1")),
        "2-pair.sql\n" + sql("A AS kind = 'A', B AS kind = 'B'", "A B"),
    ]
    table = rows("ABCABC")
    stream = Stream(work_of(FALL)).step(None, 0, *edits).step(table.slice(0, 3), 0)
    stream.step(table.slice(3), 3).step(None, 6, "3-fall.sql\n" + sql(PLAIN))
    assert stream.bad == 1
    assert [(r["pattern"], r["version"]) for r in stream.found] == [("pair", 2)] * 2
    stream.step(rows("ABCABCABC").slice(6), 6).step(None, 9, streams.CLOSE)
    assert [r["version"] for r in stream.found if r["pattern"] == "fall"] == [3]


def test_an_edit_is_never_carried_out_twice() -> None:
    edit = "00000001-fall.sql\n" + sql(PLAIN)
    stream = Stream(work_of(FALL)).step(rows("ABC"), 0, edit).step(None, 0, edit)
    assert stream.bad == 1


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("text", ["A B+ C", "A ->> B+ ->> C"])
@pytest.mark.parametrize("seed", range(8))
def test_random_edits_are_labels_by_time(text: str, seed: int, emit: str) -> None:
    """The oracle: each row labelled by the version of its time, matched at once."""
    chance = random.Random(seed)
    pattern = ensue.pattern(text).within("6 seconds")
    count = 24
    table = rows("".join(chance.choice("ABCD") for _ in range(count)))
    letters = [{"A": "A", "B": "B", "C": "C"}]
    marks = sorted(chance.sample(range(1, count), 3))
    for _ in marks:
        letters.append({**letters[-1], chance.choice("ABC"): chance.choice("ABCD")})

    def defined(meaning: dict[str, str]) -> Any:
        return asked(pattern.define(**{n: f"kind = '{k}'" for n, k in meaning.items()}))

    stream = Stream(work_of(defined(letters[0]), emit=emit))
    stream.step(table.take(pa.array(chance.sample(range(count), count))), None)
    for number, mark in enumerate(marks, 1):
        text_of = stored.to_json(defined(letters[number]).query)
        stream.step(None, mark, f"{number:08d}-fall.json\n{text_of}")
    stream.step(None, marks[-1], streams.CLOSE)
    versions = np.searchsorted(marks, np.arange(count), side="right")
    kinds = table["kind"].to_pylist()
    labelled = {
        f"is_{label}": [kinds[i] == letters[v][label] for i, v in enumerate(versions)]
        for label in "ABC"
    }
    whole = pa.table({"k": table["k"], "ts": table["ts"], **labelled})
    oracle = asked(pattern.define(**{label: f"is_{label}" for label in "ABC"})).matches(whole)
    wanted = sorted((r["at"], r["n"]) for r in oracle.to_pylist())
    if emit == "changes":
        told = streams.net([pa.Table.from_pylist(stream.found)]) if stream.found else []
        assert sorted((r["at"], r["n"]) for r in told) == wanted
    else:
        assert sorted((r["at"], r["n"]) for r in stream.found) == wanted
