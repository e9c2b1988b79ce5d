"""Random automata, streams, disorder, corrections and edits for the AFA operator's tests."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.api.automaton_text import make_arc, register_fields
from ensue.automaton.registers import INFINITY, Arc, RegisterAutomaton
from ensue.revision.kernels import layout
from ensue.revision.operator import Operator
from ensue.revision.parts import Delta, Settings, Times
from ensue.scalar import kinds as k
from tests import oracle_revision as oracle

FIELDS = register_fields({"n": "bigint", "prior": "bigint"}, {})
KINDS = {"kind": k.STRING, "x": k.BIGINT}
INF = float("inf")

FENCES: list[tuple[str | None, Any]] = [
    (None, lambda e, r: True),
    ("kind = 'a'", lambda e, r: e["kind"] == "a"),
    ("kind = 'b'", lambda e, r: e["kind"] == "b"),
    ("kind <> 'a'", lambda e, r: e["kind"] != "a"),
    ("x > 1", lambda e, r: e["x"] > 1),
    ("x >= prior", lambda e, r: e["x"] >= r[1]),
    ("kind = 'a' AND x > prior", lambda e, r: e["kind"] == "a" and e["x"] > r[1]),
    ("n < 2", lambda e, r: r[0] < 2),
    ("kind = 'b' AND n + x > 2", lambda e, r: e["kind"] == "b" and r[0] + e["x"] > 2),
]
SILENT: list[tuple[str | None, Any]] = [
    (None, lambda e, r: True),
    ("n > 0", lambda e, r: r[0] > 0),
    ("prior % 2 = 0", lambda e, r: r[1] % 2 == 0),
]
TRANSFERS: list[tuple[dict[str, str], Any]] = [
    ({}, lambda e, r: r),
    ({"n": "n + 1"}, lambda e, r: (r[0] + 1, r[1])),
    ({"prior": "x"}, lambda e, r: (r[0], e["x"])),
    ({"n": "n + x", "prior": "n"}, lambda e, r: (r[0] + e["x"], r[0])),
]
SILENT_TRANSFERS: list[tuple[dict[str, str], Any]] = [
    ({}, lambda e, r: r),
    ({"n": "n + 1"}, lambda e, r: (r[0] + 1, r[1])),
    ({"prior": "0"}, lambda e, r: (r[0], 0)),
]


@dataclass
class Case:
    """An automaton said twice: to Ensue and to the oracle."""

    arcs: list[Arc]
    oracle: list[oracle.OracleArc]
    finals: set[str]
    starts: tuple[str, ...] = ("q0",)

    @property
    def machine(self) -> RegisterAutomaton:
        return RegisterAutomaton(FIELDS, tuple(self.arcs), self.starts, frozenset(self.finals))


def random_arc(
    pick: random.Random,
    source: str,
    target: str,
    name: str,
    kind: str = "event",
    slow: bool = False,
) -> tuple[Arc, oracle.OracleArc]:
    silent = kind != "event"
    fence = pick.choice(SILENT if silent else FENCES)
    transfer = pick.choice(SILENT_TRANSFERS if silent else TRANSFERS)
    if source == target and pick.random() < 0.6:
        transfer = TRANSFERS[0]
    when: Any = fence[0]
    if slow and pick.random() < 0.5:
        said = fence[1]
        when = lambda e, r: said(e, (r["n"], r["prior"]))  # noqa: E731
    arc = make_arc(
        FIELDS,
        source,
        target,
        when,
        transfer[0] or None,
        epsilon=kind == "epsilon",
        at_end_of_window=kind == "closing",
        name=name,
    )
    told = oracle.OracleArc(
        source, target, fence[1], transfer[1], kind == "epsilon", kind == "closing"
    )
    return arc, told


def random_case(pick: random.Random, slow: bool = False, closing: bool = False) -> Case:
    states = [f"q{i}" for i in range(pick.randint(2, 4))]
    pairs = []
    for index in range(1, len(states)):
        pairs.append((states[index - 1], states[index]))
    for _ in range(pick.randint(0, 3)):
        pairs.append((pick.choice(states), pick.choice(states[1:])))
    if pick.random() < 0.6:
        loop = pick.choice(states[1:])
        pairs.append((loop, loop))
    arcs, told = [], []
    for number, (source, target) in enumerate(pairs):
        kind = "event"
        if states.index(source) < states.index(target) and pick.random() < 0.12 and number:
            kind = "epsilon"
        arc, said = random_arc(pick, source, target, f"a{number}", kind, slow)
        arcs.append(arc)
        told.append(said)
    if closing:
        arc, said = random_arc(pick, pick.choice(states[1:]), states[-1], "closing", "closing")
        arcs.append(arc)
        told.append(said)
    finals = {states[-1]} | ({pick.choice(states[1:])} if pick.random() < 0.3 else set())
    return Case(arcs, told, finals)


@dataclass
class Stream:
    """Events with their times; what arrives is decided by the test."""

    events: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def random(pick: random.Random, count: int, ties: bool = False, uneven: bool = False) -> Stream:
        events = []
        time = 0
        window = pick.choice([3, 6, 15, None])
        for number in range(count):
            time += pick.randint(0 if ties else 1, 3)
            length = window if not uneven else pick.choice([2, 5, 9, None])
            kind, x = pick.choice("aab"), pick.randint(0, 3)
            # With ties, what orders equal times is the content: equal events are interchangeable.
            name = number if not ties else 100 * (length or 0) + 10 * (kind == "a") + x
            re = INF if length is None else time + length
            events.append({"le": time, "re": re, "kind": kind, "x": x, "seq": number, "name": name})
        return Stream(events)


def times(events: list[dict[str, Any]]) -> Times:
    le = np.array([e["le"] for e in events], np.int64)
    re = np.array([INFINITY if e["re"] == INF else e["re"] for e in events], np.int64)
    tie = np.zeros(len(events), np.int64)
    name = np.array([e["name"] for e in events], np.int64)
    return Times(le, re, tie, name, np.array([e["seq"] for e in events], np.int64))


def table(events: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {
            "kind": pa.array([e["kind"] for e in events], pa.string()),
            "x": pa.array([e["x"] for e in events], pa.int64()),
        }
    )


class Net:
    """Output of an operator, with withdrawals applied."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.open: dict[int, tuple[Any, ...]] = {}
        self.withdrawn = 0
        self.size = 0

    def add(self, delta: Delta) -> None:
        states = self._operator.code.states
        self.size += len(delta.rows)
        for row in delta.rows.tolist():
            number = row[layout.MATCH_ID]
            shown = (
                row[layout.FIRST_LE],
                row[layout.FIRST_NAME],
                row[layout.LAST_LE],
                row[layout.LAST_NAME],
                states[row[layout.FINAL_STATE]],
                tuple(row[layout.OUTPUT_REGISTER :]),
                INF if row[layout.LIFETIME_LE] == INFINITY else row[layout.LIFETIME_LE],
                INF if row[layout.LIFETIME_RE] == INFINITY else row[layout.LIFETIME_RE],
            )
            if row[layout.OPERATION] > 0:
                assert number not in self.open
                self.open[number] = shown
            else:
                self.withdrawn += 1
                assert self.open.pop(number) == shown

    @property
    def matches(self) -> Counter[tuple[Any, ...]]:
        return Counter(self.open.values())


def expected(
    case: Case,
    events: list[dict[str, Any]],
    arcs: list[oracle.OracleArc] | None = None,
    sequenced: bool = False,
    proven: float = INF,
) -> Counter[tuple[Any, ...]]:
    """The oracle's answer on the ordered stream, in the terms of `Net`."""
    key = "seq" if sequenced else "name"
    ordered = sorted(events, key=lambda e: (e["le"], e[key]))
    found = oracle.matches(
        ordered, arcs or case.oracle, case.starts, case.finals, (0, 0), sequenced=sequenced,
        proven=proven,
    )  # fmt: skip
    return Counter(
        (
            ordered[first]["le"], ordered[first]["name"], ordered[last]["le"],
            ordered[last]["name"], state, register, since, till,
        )
        for first, last, state, register, since, till in found
    )  # fmt: skip


def shuffled(pick: random.Random, events: list[dict[str, Any]], far: int) -> list[dict[str, Any]]:
    """Each event moved by at most `far` places."""
    return [
        e
        for _, e in sorted(
            enumerate(events), key=lambda p: (p[0] + pick.randint(0, far), pick.random())
        )
    ]


def new_operator(case: Case, **settings: Any) -> Operator:
    return Operator(case.machine, dict(KINDS), Settings(debug=True, **settings))
