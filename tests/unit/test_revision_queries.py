"""Event patterns by the AFA operator: the same matches as the event sequence evaluator's.

Events come in any order and are taken back; the net is what a run over the ordered events gives.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.automaton.plan import plan
from ensue.errors import StateError
from ensue.operator.buffer import AT, EVENT, KEY
from ensue.operator.match_names import EVENTS
from ensue.operator.prepare import prepare
from ensue.operator.protocol import Events
from ensue.query import rules
from ensue.query.binding import bind
from ensue.revision.query import supports
from ensue.run.revision_stage import RevisionStage
from ensue.sequences.evaluator import SequencesEvaluator

CASES = 8 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 60

QUERIES = {
    "next": ensue.pattern("A -> B -> C", types="kind").within(12),
    "any": ensue.pattern("A ->> B ->> C", types="kind").within(8),
    "strict": ensue.begin("a").where("kind = 'A'").next("b").where("kind = 'B'").within(8),
    "loop": ensue.pattern("A -> B+ -> C", types="kind").within(10),
    "optional": ensue.pattern("A -> B? -> C", types="kind").within(10),
    "either": ensue.pattern("A -> (B | C) -> A", types="kind").within(10),
    "without": ensue.pattern("A -> C", types="kind").without(X="kind = 'B'").within(10),
    "not": ensue.begin("a").where("kind = 'A'").not_followed_by("b").where("kind = 'B'")
    .followed_by("c").where("kind = 'C'").within(10),
    "trailing not": ensue.begin("a").where("kind = 'A'").not_followed_by("b").where("kind = 'B'")
    .within(5),
    "correlated": ensue.pattern("A -> B", types="kind").define(B="x > A.x").within(12),
    "correlated any": ensue.pattern("A ->> B ->> C", types="kind")
    .define(B="x >= A.x", C="x < B.x").within(8),
    "no window": ensue.pattern("A -> B", types="kind"),
}  # fmt: skip


def hidden(table: pa.Table, planned: Any) -> pa.Table:
    ready = prepare(planned, table)
    count = table.num_rows
    ready = ready.append_column(AT, table["ts"])
    ready = ready.append_column(KEY, pa.array(np.zeros(count, np.int64)))
    return ready.append_column(EVENT, table["name"])


def events(table: pa.Table, rows: list[int]) -> Events:
    part = table.take(pa.array(rows, pa.int64())).combine_chunks()
    return Events(part, np.array([0, len(rows)], np.int64), np.zeros(1, np.bool_))


def shown(table: pa.Table) -> list[Any]:
    return [tuple((e["label"], e["time"]) for e in match) for match in table[EVENTS].to_pylist()]


@pytest.mark.parametrize("name", list(QUERIES))
def test_same_matches_in_any_order(name: str) -> None:
    for seed in range(CASES):
        pick = random.Random(f"{name} {seed}")
        count = pick.randint(3, 14)
        ts = sorted(pick.sample(range(40), count))
        table = pa.table(
            {
                "ts": pa.array(ts, pa.int64()),
                "kind": [pick.choice("ABC") for _ in ts],
                "x": pa.array([pick.randint(0, 3) for _ in ts], pa.int64()),
                "name": pa.array([t * 7 + 1 for t in ts], pa.int64()),
            }
        )
        query = rules.check(bind(QUERIES[name].order_by("ts").query, table.column_names))
        planned = plan(query)
        assert supports(planned) is None
        ready = hidden(table, planned)
        sequences = SequencesEvaluator()
        sequences.open(planned, ready.schema)
        nothing = sequences.no_matches(ready.schema)
        stage = RevisionStage(planned, ready.schema, nothing)
        net: list[Any] = []

        def add(changes: Any, net: list[Any] = net) -> None:
            for match in shown(changes.went):
                net.remove(match)
            net += shown(changes.came)

        order = list(range(count))
        pick.shuffle(order)
        gone = pick.randrange(count)
        for row in order:
            add(stage.change(events(ready, [row])))
        add(stage.change(events(ready, []), events(ready, [gone])))
        add(stage.end())
        kept = [row for row in range(count) if row != gone]
        whole = events(ready, kept)
        ordered = Events(whole.table, whole.starts, np.ones(1, np.bool_))
        tables = list(sequences.insert(ordered).tables())
        assert sorted(net) == sorted(m for t in tables for m in shown(t)), seed


def keyed(count: int, pick: random.Random) -> pa.Table:
    ts = sorted(pick.sample(range(4 * count), count))
    return pa.table(
        {
            "k": [pick.choice(["u", None, "v"]) for _ in ts],
            "ts": pa.array(ts, pa.int64()),
            "kind": [pick.choice("ABC") for _ in ts],
            "x": pa.array([pick.randint(0, 3) for _ in ts], pa.int64()),
            "name": pa.array([t * 7 + 1 for t in ts], pa.int64()),
        }
    )


class Run:
    """A stage, and the net of what it put out."""

    def __init__(self, name: str, table: pa.Table) -> None:
        query = QUERIES[name].partition_by("k").order_by("ts").query
        self.planned = plan(rules.check(bind(query, table.column_names)))
        ready = hidden(table, self.planned)
        places = [["u", None, "v"].index(k) for k in table["k"].to_pylist()]
        at = ready.schema.get_field_index(KEY)
        self.ready = ready.set_column(at, KEY, pa.array(places, pa.int64()))
        self.net: list[Any] = []
        self.stage = self.fresh()

    def fresh(self) -> RevisionStage:
        sequences = SequencesEvaluator()
        sequences.open(self.planned, self.ready.schema)
        nothing = sequences.no_matches(self.ready.schema)
        return RevisionStage(self.planned, self.ready.schema, nothing)

    def stored(self) -> None:
        blob = self.stage.to_bytes()
        self.stage = self.fresh()
        self.stage.restore(blob)

    def add(self, changes: Any) -> None:
        for match in shown(changes.went):
            self.net.remove(match)
        self.net += shown(changes.came)


@pytest.mark.parametrize("name", ["any", "loop", "not", "trailing not", "correlated any"])
def test_a_stage_stored_at_every_cut_goes_on_as_if_uncut(name: str) -> None:
    for seed in range(2 if CASES == 8 else 12):
        pick = random.Random(f"stored {name} {seed}")
        table = keyed(12, pick)
        rows = list(range(12))
        order = sorted(rows, key=lambda row: row + pick.randint(0, 5))
        gone = order[pick.randrange(8)]
        uncut, cut = Run(name, table), Run(name, table)
        for step, row in enumerate(order):
            left = [table["ts"][r].as_py() for r in order[step + 1 :]]
            # What is taken back is taken back before time passes it.
            mark = min(left, default=100) if step > 8 else 0
            for run in (uncut, cut):
                run.add(run.stage.change(events(run.ready, [row])))
                if step == 8:
                    run.add(run.stage.change(events(run.ready, []), events(run.ready, [gone])))
                run.add(run.stage.advance(mark, mark))
            cut.stored()
            assert sorted(cut.net) == sorted(uncut.net), (seed, step)
            assert cut.stage.rows == uncut.stage.rows
        for run in (uncut, cut):
            run.add(run.stage.end())
        assert sorted(cut.net) == sorted(uncut.net), seed
        assert cut.stage.rows == 0


def test_state_of_another_query_is_refused() -> None:
    table = keyed(6, random.Random(0))
    one, other = Run("next", table), Run("any", table)
    one.add(one.stage.change(events(one.ready, [0])))
    with pytest.raises(StateError, match="another query"):
        other.stage.restore(one.stage.to_bytes())


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (ensue.pattern("A B"), "row semantics"),
        (ensue.pattern("A -> B").within("5 rows"), "a window in rows"),
        (ensue.pattern("A ->> B+ ->> C"), "a loop that skips anything"),
        (ensue.pattern("A -> B").after_match("past last row"), "after_match"),
        (ensue.pattern("A -> B").define(B="sum(A.x) > 1"), "aggregates over the match"),
        (ensue.pattern("A -> B").define(B="x > PREV(x)"), "PREV and NEXT"),
        (ensue.pattern("A -> B+").define(B="x > first(B.x)"), "other than the last"),
    ],
)
def test_refusals_are_declared(query: Any, reason: str) -> None:
    assert reason in str(supports(plan(query.order_by("ts").query)))
