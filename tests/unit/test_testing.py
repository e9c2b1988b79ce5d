"""The helper for users' tests: it feeds, compares, and fails readably."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import ensue
from ensue.testing import Feed

FUNNEL = ensue.pattern("view cart+ pay", types="kind").partition_by("user").order_by("ts")
EVENTS = """
    user | ts | kind
    ann  | 1  | view
    ann  | 3  | pay
    ann  | 2  | cart
"""


def test_it_feeds_and_expects() -> None:
    feed = Feed(FUNNEL).events(EVENTS).expect_nothing()
    feed.watermark(10).expect("view@1 cart@2 pay@3").expect_nothing()
    feed.events(user="bob", ts=11, kind="view")
    feed.events([{"user": "bob", "ts": 12, "kind": "cart"}])
    feed.events(pa.table({"user": ["bob"], "ts": [13], "kind": ["pay"]}))
    feed.end().expect({"user": "bob", "first": 11, "last": 13})
    feed.expect_matches("view@1 cart@2 pay@3", "view@11 cart@12 pay@13")


def test_it_sees_what_is_withdrawn_late_and_rejected() -> None:
    feed = Feed(FUNNEL, speculation=math.inf).events(EVENTS).expect("view@1 cart@2 pay@3")
    feed.retract(user="ann", ts=2, kind="cart").expect_withdrawn("view@1 cart@2 pay@3")
    feed.expect_matches()
    feed.watermark(3).events(user="ann", ts=2, kind="cart").expect_late(1)
    feed.retract(user="ann", ts=9, kind="pay").expect_rejected("never seen")
    feed.revise(
        add={"pays": ensue.pattern("pay", types="kind").partition_by("user").order_by("ts")}
    )
    feed.events(user="eve", ts=20, kind="pay").expect({"pattern": "pays"})


def test_a_failure_says_what_is_missing_what_came_and_what_is_waited_for() -> None:
    feed = Feed(FUNNEL).events(EVENTS).watermark(10)
    feed.events(user="ann", ts=11, kind="view").events(user="ann", ts=9, kind="view")
    with pytest.raises(AssertionError) as caught:
        feed.expect("view@1 pay@3", {"user": "bob"})
    assert str(caught.value).splitlines() == [
        "the matches reported by <ensue pattern: view cart+ pay; types kind; "
        "partition by user; order by ts> are not those expected",
        "  expected, but missing: view@1 pay@3",
        "  expected, but missing: (user='bob')",
        "  not expected, but reported: view@1 cart@2 pay@3 (user='ann', first=1, last=3)",
        "  watermark: 10, events: 5",
        "  1 events wait for the watermark: call watermark(...) or end()",
        "  1 events were late: [{'user': 'ann', 'ts': 9, 'kind': 'view'}]",
    ]


def test_other_failures_are_assertions_too() -> None:
    feed = Feed(FUNNEL).events(EVENTS)
    with pytest.raises(AssertionError, match="expected 2 late events, got 0"):
        feed.expect_late(2)
    with pytest.raises(AssertionError, match="no row was rejected for 'null'"):
        feed.expect_rejected("null")
    feed.events(user="ann", ts=None, kind="view")
    with pytest.raises(AssertionError, match="that were not expected"):
        feed.expect_rejected()
    with pytest.raises(AssertionError, match="has 2 cells; the header has 3"):
        feed.events("user | ts | kind\nann | 1")


def test_cells_are_read_by_their_look() -> None:
    pattern = ensue.pattern("a").define(a="x > 1.5 AND b AND s = 'x y' AND n IS NULL").order_by("t")
    feed = Feed(pattern).events(
        "t | x | b | s | n\n1 | 2.5 | true | 'x y' | null\n2 | 1e0 | false | z | null"
    )
    feed.end().expect("a@1")
