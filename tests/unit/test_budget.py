"""Every way to write a bound, in every room: the same bound, or the same refusal."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.missing import budget as missing
from ensue.operator.budget import Bound, Bounds, Budget, Room, read_size
from ensue.paths import budget as paths
from ensue.shared.controller import ALONE, WORKLOADS
from ensue.shared.row_budget import ROW_PATTERNS, STATEMENTS

CASES = int(os.environ.get("ENSUE_CASES", "300"))
TIME, TIMES, EACH, BYTES, PART, UNITS, UNIT_PART = (
    "latency", "latency share", "latency each", "memory", "memory share", "work", "work share",
)  # fmt: skip
EVERY = {TIME, TIMES, EACH, BYTES, PART, UNITS, UNIT_PART}
ROOMS: dict[str, tuple[Room, set[str]]] = {
    "workload": (WORKLOADS, EVERY),
    "alone": (ALONE, EVERY - {EACH}),
    "rows": (ROW_PATTERNS, EVERY - {BYTES, PART}),
    "statement": (STATEMENTS, EVERY - {BYTES, PART, EACH}),
    "missing": (missing.ROOM, EVERY - {BYTES, PART, EACH}),
    "paths": (paths.ROOM, EVERY - {EACH, UNIT_PART}),
}
OPTIONAL = {"statement", "paths"}  # where a budget without a bound is none

READ: list[tuple[str, Any, float, bool]] = [
    ("latency", "50 ms", 0.05, False),
    ("latency", "  2 S ", 2.0, False),
    ("latency", "1 minute 30 s", 90.0, False),
    ("latency", "1 day, 2 hours", 93_600.0, False),
    ("latency", "interval '3' seconds", 3.0, False),
    ("latency", "250µs", 250e-6, False),
    ("latency", "1.5 us", 1.5e-6, False),
    ("latency", "0.5 us", 5e-7, False),
    ("latency", "0.0004 ms", 4e-7, False),
    ("latency", "50%", 0.5, True),
    ("latency", " 12.5 % ", 0.125, True),
    ("latency", "100%", 1.0, True),
    ("latency", "1e1%", 0.1, True),
    ("memory", "256 MB", 256 * 2**20, False),
    ("memory", "1 KiB", 1024.0, False),
    ("memory", " 1.5kb", 1536.0, False),
    ("memory", "3g", 3 * 2**30, False),
    ("memory", "2 TB", 2**41, False),
    ("memory", "10", 10.0, False),
    ("memory", "2.9 B", 2.0, False),
    ("memory", "50%", 0.5, True),
    ("work", 1000, 1000.0, False),
    ("work", 1.5, 1.5, False),
    ("work", float("inf"), float("inf"), False),
    ("work", "20%", 0.2, True),
]

_TIME, _SIZE, _WORK = "is not a duration", "is not a size in bytes", "is not an amount of work"
_SHARE, _LARGE = "is not a share of the unbounded run", "is too large a number"
UNREADABLE: list[tuple[str, Any, str]] = [
    *(("latency", text, _TIME) for text in ("", "fast", "50", "5 parsecs", "-5 ms", "1 month")),
    *(("latency", value, _TIME) for value in (5, 0.5, True, b"50 ms", ["50 ms"])),
    ("latency", "9" * 400 + " s", _LARGE),
    *(("memory", text, _SIZE) for text in ("", "much", "-1 MB", "1 XB", "1 M B", "50 ms")),
    *(("memory", value, _SIZE) for value in (1024, True, {"a": "1 MB"})),
    ("memory", "9" * 400, _LARGE),
    *(("work", value, _WORK) for value in ("", "many", "100", "50 ms", -1, -0.1, float("nan"))),
    *(("work", value, _WORK) for value in (True, False, {"a": 5}, [5], 5j)),
    ("work", 10**400, _LARGE),
    *(
        (name, text, _SHARE)
        for name in ("latency", "memory", "work")
        for text in ("%", "x%", "0%", "-5%", "150%", "100.1%", "nan%", "inf%", "50%%", "5 ms 5%")
    ),
]
NOTHING: list[tuple[str, Any]] = [
    ("latency", "0 ms"), ("memory", "0 MB"), ("memory", "0.9 B"), ("work", 0), ("work", 0.0)
]  # fmt: skip


def refusal(room: Room, budget: Any) -> errors.EnsueError:
    with pytest.raises(errors.EnsueError) as told:
        room.read(budget, ("a", "b"))
    assert told.value.remedy
    return told.value


def form(name: str, share: bool) -> str:
    return f"{name} share" if share else name


@pytest.mark.parametrize("name", ROOMS)
def test_a_text_means_the_same_in_every_room(name: str) -> None:
    room, takes = ROOMS[name]
    for bounded, value, amount, share in READ:
        budget, bound = Budget(**{bounded: value}), Bound(amount, share)
        if form(bounded, share) in takes:
            assert room.read(budget) == Bounds(**{bounded: bound}), value
        else:
            error = refusal(room, budget)
            assert isinstance(error, errors.UnsupportedError)
            assert error.problem.startswith(f"{bounded}={value!r}: {room.name} take "), value
        if bounded != "latency":
            continue
        each = Budget(latency={"a": value})
        if EACH in takes:
            assert room.read(each, ("a", "b")) == Bounds(latency_of={"a": bound})
        else:
            error = refusal(room, each)
            assert isinstance(error, errors.UnsupportedError)
            assert error.problem.endswith("take one latency, not one per pattern")


@pytest.mark.parametrize("name", ROOMS)
def test_what_cannot_be_read_is_refused_in_the_same_words(name: str) -> None:
    room, takes = ROOMS[name]
    for bounded, value, said in UNREADABLE:
        error = refusal(room, Budget(**{bounded: value}))
        assert type(error) is errors.QueryError
        assert error.problem == f"{bounded}={value!r} {said}"
        if bounded == "latency" and EACH in takes:
            error = refusal(room, Budget(latency={"b": "1 s", "a": value}))
            assert error.problem == f"latency of 'a'={value!r} {said}"
    for wrong in ("50%", 5, {"work": 5}, Bounds()):
        assert refusal(room, wrong).problem == f"{wrong!r} is not a budget"
    if name in OPTIONAL:
        assert room.read(Budget()) == Bounds()
    else:
        assert refusal(room, Budget()).problem == "the budget has no bound"


@pytest.mark.parametrize("name", ROOMS)
def test_nothing_is_a_bound_only_where_it_leaves_something(name: str) -> None:
    room, takes = ROOMS[name]
    for bounded, value in NOTHING:
        budget = Budget(**{bounded: value})
        if name == "paths":  # a start may itself be an answer
            assert room.read(budget) == Bounds(**{bounded: Bound(0.0)})
        elif bounded in takes:
            error = refusal(room, budget)
            assert type(error) is errors.QueryError
            assert error.problem == f"{bounded}={value!r} leaves nothing to match with"
        else:
            assert isinstance(refusal(room, budget), errors.UnsupportedError)
    for work in (0.01, 0.99):
        if name == "missing":  # every event by itself, in whole extensions
            said = f"work={work} leaves nothing to match with"
            assert refusal(room, Budget(work=work)).problem == said
        else:
            assert room.read(Budget(work=work)) == Bounds(work=Bound(work))


@pytest.mark.parametrize("name", ROOMS)
def test_several_bounds_and_what_remedies_say(name: str) -> None:
    room, takes = ROOMS[name]
    both = Budget(latency="1 s", work=5)
    if name == "missing":
        said = f"latency='1 s', work=5: {room.name} take one bound at a time"
        assert refusal(room, both).problem == said
    else:
        assert room.read(both) == Bounds(latency=Bound(1.0), work=Bound(5.0))
    refused = {"workload": Budget(), "rows": Budget(memory="1 MB")}
    told = refusal(room, refused.get(name, Budget(latency={"a": "1 s"}))).remedy
    told = told.removesuffix(", or leave the budget out")
    examples = told.removeprefix("give ").replace(" or ", ", ").split(", ")
    for example in examples:
        room.read(eval(f"Budget({example})", {"Budget": Budget}), ("a",))
    assert len(examples) == len(takes)
    if EACH in takes:
        assert "no pattern" in refusal(room, Budget(latency={})).problem
        assert "'c', which" in refusal(room, Budget(latency={"c": "1 s"})).problem


def test_part_of_a_bound() -> None:
    whole = Bounds(Bound(8.0), Bound(0.5, share=True), Bound(4.0), {"a": Bound(2.0)})
    assert whole.part(0.25) == Bounds(
        Bound(2.0), Bound(0.5, share=True), Bound(1.0), {"a": Bound(2.0)}
    )
    assert Bound(0.5, share=True).of(8.0) == 4.0 and Bound(3.0).of(8.0) == 3.0


def test_random_texts() -> None:
    """Against the definition: a number times the size of its unit."""
    chance = random.Random(17)
    times = {
        "us": "1/1000000", "µs": "1/1000000", "ms": "1/1000", "s": "1", "min": "60",
        "hours": "3600", "d": "86400", "week": "604800",
    }  # fmt: skip
    powers = {"": 0, "B": 0, "K": 1, "kB": 1, "MiB": 2, "m": 2, "GB": 3, "Ti": 4}
    for _ in range(CASES):
        number = str(chance.randint(0, 10 ** chance.randint(0, 6)))
        number += chance.choice(
            ["", f".{chance.randint(0, 10**6):06d}", f".{chance.randint(0, 9)}"]
        )
        around = [chance.choice(["", " ", "  "]) for _ in range(3)]
        value = Fraction(number)
        kind = chance.choice(["latency", "memory", "share"])
        if kind == "latency":
            unit = chance.choice(list(times))
            text, expected = unit, Bound(float(value * Fraction(times[unit])))
            bounded = "latency"
        elif kind == "memory":
            unit = chance.choice(list(powers))
            text, expected = unit, Bound(float(int(value * 1024 ** powers[unit])))
            bounded = "memory"
        else:
            text, expected = "%", Bound(float(number) / 100, share=True)
            bounded = chance.choice(["latency", "memory", "work"])
        text = f"{around[0]}{number}{around[1]}{text}{around[2]}"
        for name, (room, takes) in ROOMS.items():
            budget: Any = Budget(**{bounded: text})
            if expected.share and not 0 < value <= 100:
                assert refusal(room, budget).problem == f"{bounded}={text!r} {_SHARE}"
            elif form(bounded, expected.share) not in takes:
                assert isinstance(refusal(room, budget), errors.UnsupportedError)
            elif expected.amount == 0 and name != "paths":
                assert "leaves nothing" in refusal(room, budget).problem
            else:
                assert room.read(budget) == Bounds(**{bounded: expected})


def test_sizes_elsewhere_are_read_alike() -> None:
    assert read_size("1.5 KB", "") == 1536
    with pytest.raises(errors.QueryError, match="worker_memory='x' is not a size in bytes"):
        read_size("x", "worker_memory='x'")


# -- through the doors ---------------------------------------------------------------------------

TABLE = pa.table({"t": [1, 2, 3], "kind": ["A", "B", "A"]})
EVENTS = ensue.pattern("A ->> B", types="kind").order_by("t").within(5)
ROWS = ensue.pattern("A B").define(A="kind = 'A'", B="kind = 'B'").order_by("t")
STARTS = ROWS.after_match("to next row")
MISSING = ensue.pattern("A ->> B ->> A", types="kind").order_by("t").within(5).allow_missing(1)
GRAPH = ensue.graph(pa.table({"subject": [0], "relation": ["x"], "object": [1]}))
DOORS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "workload": ("workload", lambda b: ensue.workload(a=EVENTS).matches(TABLE, b)),
    "live": ("workload", lambda b: ensue.workload(a=EVENTS).live(TABLE.schema, b)),
    "row workload": ("rows", lambda b: ensue.workload(a=STARTS).matches(TABLE, b)),
    "event pattern": ("alone", lambda b: EVENTS.matches(TABLE, budget=b)),
    "row pattern": ("alone", lambda b: STARTS.matches(TABLE, budget=b)),
    "missing": ("missing", lambda b: MISSING.matches(TABLE, budget=b)),
    "matcher": ("missing", lambda b: MISSING.matcher(schema=TABLE.schema, budget=b)),
    "graph": ("paths", lambda b: GRAPH.retrieve(ensue.Question("who", 0, "x"), budget=b)),
}


@pytest.mark.parametrize("door", DOORS)
def test_users_are_told_the_same_everywhere(door: str) -> None:
    name, call = DOORS[door]
    room, takes = ROOMS[name]
    wrong: list[Any] = [Budget(**{bounded: value}) for bounded, value, _ in UNREADABLE]
    wrong += ["50%"] if name in OPTIONAL else ["50%", Budget()]
    if EACH not in takes:
        wrong.append(Budget(latency={"a": "1 s"}))
    wrong += [Budget(memory="1 MB")] if BYTES not in takes else []
    wrong += [Budget(work="50%")] if UNIT_PART not in takes else []
    for budget in wrong:
        with pytest.raises(errors.EnsueError) as told:
            call(budget)
        expected = refusal(room, budget)
        assert type(told.value) is type(expected) and told.value.problem == expected.problem
