"""The examples of automata do what they say, also when their events come in disorder."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from examples import afa_cleaning, afa_counting, afa_network, afa_trading, afa_uncertain


def in_disorder(automaton: ensue.Automaton, table: pa.Table) -> list[tuple[Any, ...]]:
    """The net of all changes where rows come one by one in any order."""
    pick = random.Random(3)
    matcher = automaton.matcher(table.schema)
    rows = list(range(table.num_rows))
    pick.shuffle(rows)
    net: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        for change in matcher.insert(table.take([row])).to_pylist():
            name = change.pop("match_id")
            if change.pop("op") == "+":
                net[name] = tuple(change.values())
            else:
                del net[name]
    return sorted(net.values())


def listed(automaton: ensue.Automaton, table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(r.values())
        for r in automaton.matches(table).drop_columns(["match_number"]).to_pylist()
    )


def by_hand_q1(change: list[float], k: int, delta: float, window: int) -> set[tuple[int, int]]:
    """Q1 without an automaton: runs of downticks and upticks after each drop."""
    found = set()
    for start, drop in enumerate(change):
        if not drop < -delta:
            continue
        # (position, downs minus ups, V's so far, phase)
        states = {("down", 0, 0, False)}
        for place in range(start + 1, min(len(change), start + window)):
            down = change[place] < 0
            after = set()
            for phase, balance, count, seen in states:
                if phase == "down" and down:
                    after |= {("down", balance + 1, count, True), ("up", balance + 1, count, True)}
                elif phase == "up" and not down:
                    after.add(("up", balance - 1, count, True))
                    if count + 1 < k:
                        after.add(("down", balance - 1, count + 1, seen))
                    if count + 1 == k and balance - 1 == 0:
                        found.add((start, place))
            states = after
    return found


@pytest.mark.parametrize("k", [1, 2, 3])
def test_q1(k: int) -> None:
    table = afa_trading.prices(300, seed=k)
    found = afa_trading.q1(k, window=40).matches(table)
    pairs = set(zip(found["first"].to_pylist(), found["last"].to_pylist(), strict=True))
    assert pairs == by_hand_q1(table["change"].to_pylist(), k, 0.25, 40)
    assert set(found["r1"].to_pylist()) <= {0}
    small = table.slice(0, 60)
    assert in_disorder(afa_trading.q1(k, window=40), small) == listed(
        afa_trading.q1(k, window=40), small
    )


def test_q2_counts_the_vs_until_the_price_is_back() -> None:
    change = [-1.0, -0.5, 0.4, -0.3, 0.5, -0.1, 2.0]
    table = pa.table({"ts": range(7), "price": 10 + np.cumsum(change), "change": change})
    found = afa_trading.q2().matches(table).to_pylist()
    assert [(m["first"], m["last"], m["vs"]) for m in found if m["first"] == 0] == [(0, 6, 3)]
    assert in_disorder(afa_trading.q2(), table) == listed(afa_trading.q2(), table)


def test_head_and_shoulders() -> None:
    #        p1  up   p2  p3  p4   p5   p6  below p1
    price = [10, 12, 14, 12, 18, 13, 11, 15, 12, 9]
    table = pa.table({"ts": range(len(price)), "price": [float(p) for p in price]})
    automaton = afa_trading.head_and_shoulders()
    found = automaton.matches(table).to_pylist()
    assert (0, 9, 10.0, 14.0, 18.0) in {
        (m["first"], m["last"], m["p1"], m["p2"], m["p4"]) for m in found
    }
    assert in_disorder(automaton, table) == listed(automaton, table)
    flat = pa.table({"ts": range(4), "price": [1.0, 2.0, 3.0, 4.0]})
    assert automaton.matches(flat).num_rows == 0


def test_uncertain_events() -> None:
    found = afa_uncertain.maybe_there().matches(afa_uncertain.sightings()).to_pylist()
    assert [(m["first"], m["last"]) for m in found] == [(1, 3), (2, 3)]
    assert [m["p"] for m in found] == pytest.approx([0.9 * 0.6 * 0.8, 0.4 * 0.8])
    assert afa_uncertain.maybe_there(0.4).matches(afa_uncertain.sightings()).num_rows == 1


def test_uncertain_values() -> None:
    found = afa_uncertain.which_colour().matches(afa_uncertain.colours()).to_pylist()
    assert [m["p"] for m in found] == pytest.approx([0.7 * 0.5, 0.5 * 0.9])
    assert afa_uncertain.which_colour(0.4).matches(afa_uncertain.colours()).num_rows == 1


def test_cleaning_fills_in_the_missing_step() -> None:
    found = afa_cleaning.cleaned(afa_cleaning.readings()).to_pylist()
    added = [row for row in found if row not in afa_cleaning.readings().to_pylist()]
    assert added == [{"ts": 5, "book": 2, "reader": "desk"}]


def test_network_rules_hold_in_their_second() -> None:
    ports = [20, 21, 22]
    table = afa_network.traffic(3)
    found = afa_network.watch(table, ports)
    rows = table.to_pylist()
    expected = []
    for one, two in pairwise(rows):
        # Both events under the rule of their second; a partial match survives a change of rules.
        watched = [ports[row["ts"] // afa_network.SECOND] for row in (one, two)]
        same_rule = one["ts"] // afa_network.SECOND == two["ts"] // afa_network.SECOND
        if (
            same_rule
            and one["port"] == two["port"] == watched[0]
            and one["source"] == two["source"]
        ):
            expected.append((one["ts"], two["ts"], one["source"]))
    assert [(row["first"], row["last"], row["address"]) for row in found] == expected
    assert {row["op"] for row in found} == {"+"}


@pytest.mark.parametrize(
    ("text", "words"), [("aabbcc", ["aabbcc"]), ("aabbc", []), ("abcaabbcc", ["abc", "aabbcc"])]
)
def test_equal_counts(text: str, words: list[str]) -> None:
    automaton, table = afa_counting.equal_counts(), afa_counting.word(text)
    found = automaton.matches(table).to_pylist()
    assert [text[m["first"] : m["last"] + 1] for m in found] == words
    assert in_disorder(automaton, table) == listed(automaton, table)
