"""Why automata by hand did not match: small automata over all short streams, and by hand."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from tests.oracle_revision import INFINITY, OracleArc
from tests.oracle_why_automata import Fence, Oracle, Part, Told, best

Said = tuple[str | None, tuple[Part, ...]]


def _is(letter: str) -> Part:
    return lambda e, r: None if e is None or e["kind"] is None else e["kind"] == letter


def _more(bound: int) -> Part:
    return lambda e, r: None if e is None or e["x"] is None else e["x"] > bound


FENCES: list[Said] = [
    ("kind = 'a'", (_is("a"),)),
    ("kind = 'b'", (_is("b"),)),
    ("kind = 'b' AND n > 1", (_is("b"), lambda e, r: r[0] > 1)),
    ("x > 1", (_more(1),)),
    ("x > 2 AND kind = 'a'", (_more(2), _is("a"))),
    (None, ()),
]
SILENT: list[Said] = [("n = 1", (lambda e, r: r[0] == 1,)), ("n > 2", (lambda e, r: r[0] > 2,))]
ADD = ({"n": "n + 1"}, lambda e, r: (r[0] + 1, r[1]))
KEEP: tuple[dict[str, str], Any] = ({}, lambda e, r: r)
# Letters are events: their kind and x; of "o" nothing is known.
LETTERS = {"a": ("a", 1), "A": ("a", 3), "b": ("b", 2), "o": (None, None)}
SHORT = ["".join(s) for n in (1, 2, 3) for s in itertools.product("aAbo", repeat=n)]
LONGER = ["".join(s) for s in itertools.product("aAb", repeat=5)]
STREAMS = SHORT[::2] + random.Random(5).sample(LONGER, 24)


def _automaton(
    pick: random.Random, closing: bool, options: dict[str, Any]
) -> tuple[ensue.Automaton, list[OracleArc], set[str]]:
    states = [f"q{i}" for i in range(pick.randint(2, 4))]
    pairs = [*itertools.pairwise(states)]
    pairs += [(pick.choice(states), pick.choice(states)) for _ in range(pick.randint(0, 3))]
    machine = ensue.Automaton({"n": "bigint", "m": "bigint"}, partition_by="stream", **options)
    arcs: list[OracleArc] = []
    for number, (source, target) in enumerate(pairs):
        forward = states.index(source) < states.index(target)
        silent = forward and number > 0 and pick.random() < 0.25
        text, parts = pick.choice(SILENT if silent else FENCES)
        changed, change = pick.choice((ADD, KEEP))
        machine = machine.arc(source, target, text, changed or None, silent, name=f"a{number}")
        arcs.append(OracleArc(source, target, Fence(parts), change, silent))
    if closing:
        text, parts = SILENT[0]
        source, name = pick.choice(states[1:]), f"a{len(arcs)}"
        machine = machine.arc(source, states[-1], text, at_end_of_window=True, name=name)
        arcs.append(OracleArc(source, states[-1], Fence(parts), closing=True))
    return machine.final(states[-1]), arcs, {states[-1]}


@pytest.mark.parametrize("way", ["endless", "window", "until", "closing", "sequence"])
def test_all_short_streams(way: str) -> None:
    pick = random.Random(way)
    options: dict[str, Any] = {"within": 2} if way in ("window", "closing") else {}
    options |= {"until": "till"} if way == "until" else {}
    options |= {"sequence": "seq"} if way == "sequence" else {}
    rows = [
        {
            "stream": number, "ts": 2 * at + at // 2, "kind": LETTERS[letter][0],
            "x": LETTERS[letter][1], "seq": at + (at > 1 and number % 3 == 0),
            "till": 2 * at + 3 + at % 2,
        }
        for number, letters in enumerate(STREAMS)
        for at, letter in enumerate(letters)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    table = table.take(pa.array(random.Random(3).sample(range(len(rows)), len(rows))))
    seen = set()
    for _ in range(6):
        machine, arcs, finals = _automaton(pick, way == "closing", options)
        told = {
            per: machine.why(table, per=per).sort_by(
                [("stream", "ascending"), *([("row", "ascending")] if per == "start" else [])]
            ).to_pylist()
            for per in ("start", "partition")
        }  # fmt: skip
        counted = machine.matches(table).num_rows
        assert counted == sum(row["matches"] for row in told["partition"])
        by_start = iter(told["start"])
        near = machine.nearest(table, len(rows)).to_pylist()
        order = [(r["lacks"], -len(r["matched"]), r["stream"], r["row"]) for r in near]
        assert order == sorted(order)
        lacking = {(row["stream"], row["row"]): row["missing"] for row in near}
        assert all(row["lacks"] == len(row["missing"]) for row in near)
        for number, letters in enumerate(STREAMS):
            events = [row | _lifetime(row, options) for row in rows if row["stream"] == number]
            oracle = Oracle(events, arcs, ["q0"], finals, way == "sequence")
            expected = oracle.starts_told()
            got = [next(by_start) for _ in letters]
            where = f"{machine.machine.dump()}\non {letters}"
            assert [_shown(row, events) for row in got] == expected, where
            assert _shown(told["partition"][number], events) == best(expected), where
            for at, one in enumerate(expected):
                lacks = None if one.reason is None else oracle.lacks(at)
                assert lacking.pop((number, at), None) == lacks, where
            seen |= {one.reason for one in expected}
            for row in got:
                assert (row["text"] is None) == (row["reason"] is None)
        assert not lacking
    reasons = {
        "endless": {"end", "condition", "null"}, "window": {"within"}, "until": {"within"},
        "closing": {"forbidden", "condition"}, "sequence": {"not adjacent"},
    }  # fmt: skip
    assert seen >= {None, "no start", *reasons[way]}


def _lifetime(row: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    end = row["ts"] + options["within"] + 1 if "within" in options else INFINITY
    return {"le": row["ts"], "re": row["till"] if "until" in options else end}


def _shown(row: dict[str, Any], events: list[dict[str, Any]]) -> Told:
    order = [event["ts"] for event in events]
    stopped = None if row["stopped_at"] is None else order.index(row["stopped_at"])
    matched = row["matched"] or []
    return Told(matched, stopped, row["variable"], row["reason"], row["matches"])


EVENTS = pa.table(
    {
        "k": [1, 1, 1, 2, 2, 2, 3, 3, 4],
        "ts": [1, 2, 3, 1, 2, 200, 1, 2, 1],
        "kind": list("aabaababc"),
    }
)
PAIRS = (
    ensue.Automaton({"n": "bigint"}, partition_by="k", within=100)
    .arc("q0", "q1", when="kind = 'a'", set={"n": "n + 1"})
    .arc("q1", "q1", when="kind = 'a'", set={"n": "n + 1"})
    .arc("q1", "q2", when="kind = 'b'", set={"n": "n - 1"})
    .arc("q2", "q2", when="kind = 'b' AND n > 0", set={"n": "n - 1"})
    .arc("q2", "even", when="n = 0", epsilon=True)
    .final("even")
)


def test_sentences_have_values() -> None:
    told = {row["k"]: (row["reason"], row["text"]) for row in PAIRS.why(EVENTS).to_pylist()}
    assert told == {
        1: ("end", "q2 -> even: the partition ended; n = 0: 1 = 0 is false"),
        2: ("within", "q1 -> q2: 199 after the first row, 99 more than within allows"),
        3: ("no start", "q0 -> q1: no row of 1 fits: kind = 'a' held at 0"),
        4: ("no start", "q0 -> q1: no row of 1 fits: kind = 'a' held at 0"),
    }


def test_the_funnel_and_the_steps() -> None:
    told = PAIRS.funnel_of_attempts(EVENTS).to_pylist()
    assert [tuple(row.values())[1:] for row in told] == [
        ("q0 -> q1", 5, "no start", 4),
        ("q1 -> q1", 2, None, 0),
        ("q1 -> q2", 3, "within", 2),
        ("q2 -> q2", 0, None, 0),
        ("q2 -> even", 0, "end", 1),
        (None, 2, None, 0),
    ]
    steps = PAIRS.trace(EVENTS, key=3).to_pylist()
    assert [(s["row"], s["start"], s["action"], s["variable"], s["text"]) for s in steps] == [
        (0, 0, "ask", "q0 -> q1", "q0 -> q1: kind = 'a': 'a' = 'a' is true"),
        (0, 0, "take", "q0 -> q1", "n = 1"),
        (1, 0, "ask", "q1 -> q1", "q1 -> q1: kind = 'a': 'b' = 'a' is false"),
        (1, 0, "ask", "q1 -> q2", "q1 -> q2: kind = 'b': 'b' = 'b' is true"),
        (1, 0, "take", "q1 -> q2", "n = 0"),
        (1, 0, "match", None, "n = 0"),
        (2, 0, "drop", None, "the partition ended"),
        (2, 0, "drop", None, "the partition ended"),
        (1, 1, "ask", "q0 -> q1", "q0 -> q1: kind = 'a': 'b' = 'a' is false"),
    ]
    with pytest.raises(errors.QueryError, match="key"):
        PAIRS.trace(EVENTS)


def test_what_python_functions_say() -> None:
    def large(event: dict[str, Any], register: dict[str, Any]) -> bool:
        return bool(event["ts"] > 100 / event["ts"])

    asked = ensue.Automaton({}).arc("p", "q", "kind = 'a'").arc("q", "r", when=large).final("r")
    row, _ = asked.why(EVENTS.slice(0, 2), per="start").to_pylist()
    assert row["text"] == "q -> r: when large() does not hold"
    broken = EVENTS.slice(0, 2).set_column(1, "ts", pa.array([-1, 0]))
    with pytest.raises(errors.DataError, match="q -> r: ZeroDivisionError"):
        asked.why(broken)


def test_what_has_no_answer() -> None:
    with pytest.raises(errors.QueryError, match="per='row'"):
        PAIRS.why(EVENTS, per="row")
    with pytest.raises(errors.DataError, match="1 rows have no event time"):
        PAIRS.why(EVENTS.slice(0, 1).set_column(1, "ts", pa.array([None], pa.int64())))
    with pytest.raises(errors.UnknownColumnError, match="'k'"):
        PAIRS.why(EVENTS.drop_columns(["k"]))
    assert PAIRS.why(EVENTS.slice(0, 0)).schema == PAIRS.why(EVENTS).schema
    with pytest.raises(errors.NoFinalStateError):
        ensue.Automaton({}).arc("p", "q").why(EVENTS)
