"""Patterns with events missing over events as they come: the net of all changes is the batch's."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.api.pattern import Pattern

SCHEMA = pa.schema([("p", pa.int64()), ("t", pa.int64()), ("kind", pa.string()), ("x", pa.int64())])
QUERIES: dict[str, tuple[str, dict[str, str], Any]] = {
    "single rows": ("A ->> B+ ->> C", {}, 4),
    "another event": ("A ->> B ->> C", {"C": "x > A.x"}, 4),
    "a loop": ("A ->> B+ ->> C", {"B": "x >= LAST(B.x, 1) OR COUNT(B.*) = 1"}, "4 rows"),
    "optional": ("A? ->> B ->> (B | C)", {"C": "x <> B.x AND x >= A.x"}, 3),
    "neighbours": ("A ->> B ->> C", {"B": "PREV(x) <= x AND x > A.x", "C": "NEXT(x) <> 2"}, 4),
}


def asked(name: str, k: int) -> Pattern:
    text, define, window = QUERIES[name]
    pattern = ensue.pattern(text, types="kind").select("any").define(**define)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pattern.partition_by("p").order_by("t").within(window).allow_missing(k)


def events(chance: random.Random) -> list[dict[str, Any]]:
    found = []
    for key in range(2):
        time = 0
        for _ in range(chance.randint(3, 9)):
            time += chance.choice([1, 1, 2])
            found.append({"p": key, "t": time, "kind": chance.choice("ABC"), "x": time * 7 % 5})
    return found


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def told(match: dict[str, Any], listed: Any) -> Any:
    gone = tuple(zip(match["missing_at"], match["missing"], strict=True))
    return match["p"], match["errors"], gone, tuple(listed)


def whole(pattern: Pattern, rows: list[dict[str, Any]]) -> list[Any]:
    times = {key: [row["t"] for row in rows if row["p"] == key] for key in (0, 1)}
    return sorted(
        told(match, ((e["label"], times[match["p"]][e["row"]]) for e in match["events"]))
        for match in pattern.matches(table(rows)).to_pylist()
    )


def gone_through(
    pattern: Pattern, rows: list[dict[str, Any]], chance: random.Random, **options: Any
) -> list[Any]:
    """Pieces of any size, restarts in between; what is left of the changes at the end."""
    ordered = options.get("speculation", 0) == 0
    rows = sorted(rows, key=lambda row: row["t"]) if ordered else chance.sample(rows, len(rows))
    matcher = pattern.matcher(schema=SCHEMA, **options)
    net: dict[str, Any] = {}

    def take(changes: pa.Table) -> None:
        for change in changes.to_pylist():
            if change["op"] == "+":
                assert change["match_id"] not in net
                net[change["match_id"]] = change
            else:
                del net[change["match_id"]]

    place = 0
    while place < len(rows):
        size = chance.randint(1, 4)
        take(matcher.insert(table(rows[place : place + size])))
        place += size
        if ordered and place < len(rows):
            take(matcher.advance(rows[place]["t"]))
        if chance.random() < 0.4:
            matcher = ensue.restore(matcher.snapshot())
    take(matcher.end())
    return sorted(
        told(change, ((e["label"], e["time"]) for e in change["events"])) for change in net.values()
    )


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("speculation", [0, math.inf])
def test_the_net_of_all_changes_is_what_a_table_gives(name: str, speculation: float) -> None:
    chance = random.Random(f"{name} {speculation}")
    found = 0
    for k in (0, 1, 2):
        for _ in range(2):
            rows = events(chance)
            expected = whole(asked(name, k), rows)
            found += len(expected)
            assert gone_through(asked(name, k), rows, chance, speculation=speculation) == expected
    assert found


def test_rows_out_of_the_window_are_let_go_of() -> None:
    matcher = asked("another event", 1).matcher(schema=SCHEMA)
    sizes = []
    for time in range(0, 160, 2):
        matcher.insert(table([{"p": 0, "t": time, "kind": "ABC"[time % 3], "x": time % 5}]))
        matcher.advance(time)
        sizes.append(len(matcher.snapshot()))
    assert max(sizes[40:]) <= max(sizes[:40]) + 256


# -- under a budget -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["single rows", "another event", "a loop"])
def test_a_budget_above_need_gives_what_a_table_gives(name: str) -> None:
    chance = random.Random(name)
    rows = events(chance)
    expected = whole(asked(name, 1), rows)
    assert gone_through(asked(name, 1), rows, chance, budget=ensue.Budget(work=10**6)) == expected


def test_a_small_budget_sheds_and_tells_only_true_matches() -> None:
    text, _, window = QUERIES["single rows"]
    pattern = ensue.pattern(text, types="kind").select("any").partition_by("p").order_by("t")
    pattern = pattern.within(window).allow_missing(1, learn=1, history=2)
    rows = [{"p": 0, "t": t, "kind": "ABBC"[t % 4], "x": 0} for t in range(40)]
    exact = whole(pattern, rows)
    budget = ensue.Budget(work=2)
    chance = random.Random(7)
    some = gone_through(pattern, rows, chance, budget=budget)
    assert 0 < len(some) < len(exact) and set(some) <= set(exact)
    matcher = pattern.matcher(schema=SCHEMA, budget=budget)
    matcher.insert(table(rows))
    matcher.end()
    assert matcher.metrics.shed > 0 and matcher.metrics.partials > 0
    assert 0 <= matcher.metrics.recall <= 1


def test_what_was_learnt_survives_a_restart() -> None:
    pattern = ensue.pattern("A ->> B ->> C", types="kind").select("any").partition_by("p")
    pattern = pattern.order_by("t").within(20).allow_missing(1, learn=20, history=4)
    rows = [{"p": t % 3, "t": t, "kind": "ABBC"[t * 7 % 11 % 4], "x": 0} for t in range(90)]

    def run(restarts: bool) -> tuple[list[Any], Any]:
        matcher = pattern.matcher(schema=SCHEMA, budget=ensue.Budget(work=2))
        found: list[Any] = []
        for place in range(0, 90, 9):
            found += matcher.insert(table(rows[place : place + 9])).to_pylist()
            found += matcher.advance(place + 8).to_pylist()
            if restarts:
                matcher = ensue.restore(matcher.snapshot())
        found += matcher.end().to_pylist()
        return found, matcher.metrics.shed

    assert run(True) == run(False)
    assert run(False)[1] > 0


def test_keys_out_of_the_window_are_let_go_of() -> None:
    matcher = asked("single rows", 1).matcher(schema=SCHEMA, budget=ensue.Budget(work=5))
    for key in range(30):
        matcher.insert(table([{"p": key, "t": 10 * key, "kind": "A", "x": 0}]))
        matcher.advance(10 * key)
    assert matcher.metrics.partitions <= 2


def test_budgets_that_a_matcher_refuses() -> None:
    budget = ensue.Budget(work=5)
    with pytest.raises(errors.UnsupportedError, match="nothing can be taken back"):
        asked("single rows", 1).matcher(schema=SCHEMA, budget=budget, speculation=math.inf)
    exact = ensue.pattern("A B", types="kind").partition_by("p").order_by("t").within(4)
    with pytest.raises(errors.UnsupportedError, match="takes no budget as events come"):
        exact.matcher(schema=SCHEMA, budget=budget)
    with pytest.raises(errors.QueryError, match="leaves nothing"):
        asked("single rows", 1).matcher(schema=SCHEMA, budget=ensue.Budget(work=0))
