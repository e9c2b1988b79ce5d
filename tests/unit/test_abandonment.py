"""Abandonment ("a cart, not bought within the hour"): every way against plain Python."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator import as_of as end_of_table
from ensue.sequences import counts

HOUR = 60
Row = tuple[int, int, str]  # user, minute, kind


def visits(seed: int, users: int = 40) -> list[Row]:
    """Users with a few events each, at minutes of a day that no user has twice."""
    chance = random.Random(seed)
    rows = []
    for user in range(users):
        for minute in chance.sample(range(600), chance.randrange(1, 9)):
            rows.append((user, minute, chance.choice(["cart", "cart", "buy", "view"])))
    return rows


def by_hand(rows: list[Row], as_of: int | None) -> list[tuple[int, int, str]]:
    """Of every cart: bought within the hour, or not, or not known; `as_of` None: the end."""
    found = []
    for user, began, kind in rows:
        if kind != "cart":
            continue
        later = [(t, k) for u, t, k in rows if u == user and t > began]
        if any(k == "buy" and t <= began + HOUR for t, k in later):
            status = "matched"
        elif as_of is None or max([as_of, *(t for t, _ in later)]) > began + HOUR:
            status = "timeout"
        else:
            status = "open"
        found.append((user, began, status))
    return sorted(found)


def table(rows: list[Row]) -> pa.Table:
    users, minutes, kinds = zip(*rows, strict=True)
    return pa.table({"u": users, "t": minutes, "k": kinds})


BOUGHT = ensue.pattern("cart -> buy", types="k").partition_by("u").order_by("t").within(HOUR)
LEFT = ensue.pattern("cart -> !buy", types="k").partition_by("u").order_by("t").within(HOUR)
LEFT_JOINT = ensue.pattern("cart -> within 60 units !buy", types="k")
LEFT_JOINT = LEFT_JOINT.partition_by("u").order_by("t")
JOINT = ensue.pattern("cart -> within 60 units buy", types="k").partition_by("u").order_by("t")


# A cart that is bought or left: an absence among others that an event completes.
AMONG = ensue.pattern("cart -> buy | cart -> !buy", types="k").partition_by("u").order_by("t")
AMONG = AMONG.within(HOUR)


ROWS = (
    ensue.pattern("C O*? B")
    .define(C="k = 'cart'", B="k = 'buy'")
    .measures(first="FIRST(t)")
    .partition_by("u")
    .order_by("t")
    .within(HOUR)
    .after_match("to next row")
)
SQL = """SELECT * FROM carts MATCH_RECOGNIZE (
    PARTITION BY u ORDER BY t MEASURES FIRST(t) AS first
    ONE ROW PER MATCH SHOW TIMEOUT MATCHES AFTER MATCH SKIP TO NEXT ROW
    PATTERN (C O*? B) WITHIN 60
    DEFINE C AS k = 'cart', B AS k = 'buy')"""


ABSENT = """SELECT * FROM carts MATCH_RECOGNIZE (
    PARTITION BY u ORDER BY t MEASURES COUNT(*) OVER ALL MATCHES AS n
    PATTERN (CART -> !BUY) WITHIN 60
    DEFINE CART AS k = 'cart', BUY AS k = 'buy')"""


def told(found: Any) -> list[tuple[int, int, str]]:
    return sorted((m["u"], m["first"], m["status"]) for m in found.to_pylist())


def starts(found: Any) -> list[tuple[int, int]]:
    return sorted((m["u"], m["first"]) for m in found.to_pylist())


@pytest.mark.parametrize("seed", range(25))
def test_carts_by_status_are_those_counted_by_hand(seed: int) -> None:
    rows = visits(seed)
    latest = max(t for _, t, _ in rows)
    for asked, known in (
        ({}, latest),
        ({"as_of": "end"}, None),
        ({"as_of": 300}, 300),
        ({"as_of": 5000}, 5000),
    ):
        expected = by_hand(rows, known)
        assert told(BOUGHT.matches(table(rows), timeouts=True, **asked)) == expected
        assert told(JOINT.matches(table(rows), timeouts=True, **asked)) == expected
        assert told(ROWS.matches(table(rows), timeouts=True, **asked)) == expected
        assert told(ensue.sql(SQL, carts=table(rows), **asked)) == expected
        # The absence: what timed out there is a match here.
        turned = {"timeout": "matched", "open": "open"}
        absent = [(u, t, turned[s]) for u, t, s in expected if s != "matched"]
        proved = sum(status == "timeout" for *_, status in expected)
        given = table(rows)
        for left in (LEFT, LEFT_JOINT):
            assert told(left.matches(given, timeouts=True, **asked)) == absent
            found = left.matches(given, **asked)
            assert found.num_rows == proved
            assert "status" not in found.column_names
            assert left.count(given, **asked) == proved
            assert left.aggregate(given, n="count(*)", **asked)["n"].to_pylist() == [proved]
            budget = ensue.Budget(memory="1 GB")
            assert starts(left.matches(given, budget, **asked)) == starts(found)
        load = ensue.workload(window=LEFT, joint=LEFT_JOINT, bought=BOUGHT, among=AMONG)
        either = proved + sum(status == "matched" for *_, status in expected)
        counts = {"window": proved, "joint": proved, "bought": either - proved, "among": either}
        assert load.count(given, **asked) == counts
        assert Counter(load.matches(given, **asked)["pattern"].to_pylist()) == +Counter(counts)
        assert sum(ensue.sql(ABSENT, carts=given, **asked)["n"].to_pylist()) == proved


@pytest.mark.parametrize("seed", range(5))
def test_a_matcher_tells_attempts_as_time_passes_them(seed: int) -> None:
    rows = visits(seed)
    latest = max(t for _, t, _ in rows)
    matcher = BOUGHT.matcher(timeouts=True, schema=table(rows).schema)
    shuffled = random.Random(seed).sample(rows, len(rows))
    found = [matcher.insert(table(shuffled[at : at + 7])) for at in range(0, len(rows), 7)]
    found.append(matcher.advance(latest + 1))
    over = [told for told in by_hand(rows, latest + 1) if told[2] != "open"]
    assert told(pa.concat_tables(found)) == over
    matcher = ensue.restore(matcher.snapshot())
    found.append(matcher.end())
    assert told(pa.concat_tables(found)) == by_hand(rows, None)
    assert set(pa.concat_tables(found)["op"].to_pylist()) == {"+"}


def test_what_a_matcher_cannot_tell_is_refused() -> None:
    for asked, words in (
        ({"speculation": 5}, "never taken back"),
        ({"aggregate": {"n": "count(*)"}}, "aggregates are over matches"),
        ({"budget": ensue.Budget(work=5)}, "left out"),
    ):
        with pytest.raises(errors.UnsupportedError, match=words):
            BOUGHT.matcher(timeouts=True, **asked)
    with pytest.raises(errors.UnsupportedError, match="row pattern"):
        ROWS.matcher(timeouts=True)


def test_counting_with_whole_numbers_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the compiled count gives up, the absences proved by the time are the same."""
    query = ensue.pattern("cart ->> view+ ->> !buy", types="k").partition_by("u").order_by("t")
    for seed in range(6):
        for as_of in (None, "end", 300):
            given, asked = table(visits(seed)), query.within(200)
            expected = asked.matches(given, as_of=as_of).num_rows
            assert asked.count(given, as_of=as_of) == expected
            with monkeypatch.context() as patched:
                patched.setattr(counts.kernels, "count_window", lambda *_: (0, 0, False))
                assert asked.count(given, as_of=as_of) == expected


def test_why_speaks_of_what_is_open_as_not_matched() -> None:
    given = table([(1, 0, "cart"), (2, 90, "cart")])
    told = LEFT.why(given).select(["matches", "reason", "text"]).to_pylist()
    assert told == [
        {"matches": 1, "reason": None, "text": None},
        {"matches": 0, "reason": "end", "text": "!buy: its time is not over yet"},
    ]


def test_each_status_occurs() -> None:
    counts = Counter(s for seed in range(25) for *_, s in by_hand(visits(seed), 599))
    assert set(counts) == {"matched", "timeout", "open"}


def test_the_edge_of_the_window_is_inside() -> None:
    rows = [(1, 0, "cart"), (2, 60, "view")]
    assert told(BOUGHT.matches(table(rows), timeouts=True)) == [(1, 0, "open")]
    rows = [(1, 0, "cart"), (2, 61, "view")]
    assert told(BOUGHT.matches(table(rows), timeouts=True)) == [(1, 0, "timeout")]


def test_times_fractions_and_descending_order() -> None:
    start = datetime(2024, 5, 1, tzinfo=UTC)
    for rows in map(visits, range(3)):
        latest = max(t for _, t, _ in rows)
        given = table(rows)
        times = [start + timedelta(minutes=t) for _, t, _ in rows]
        timed = given.set_column(1, "t", pa.array(times, pa.timestamp("us", "UTC")))
        found = BOUGHT.within("1 hour").matches(timed, timeouts=True).to_pylist()
        expected = Counter(s for *_, s in by_hand(rows, latest))
        assert Counter(m["status"] for m in found) == expected
        late = BOUGHT.within("1 hour").matches(
            timed, timeouts=True, as_of=start + timedelta(minutes=300)
        )
        expected_late = Counter(s for *_, s in by_hand(rows, 300))
        assert Counter(late["status"].to_pylist()) == expected_late
        # A time without a zone is one of the column's zone, here four hours behind.
        there = pa.timestamp("us", "America/New_York")
        late = BOUGHT.within("1 hour").matches(
            timed.set_column(1, "t", timed["t"].cast(there)),
            timeouts=True,
            as_of=start.replace(tzinfo=None) + timedelta(minutes=300, hours=-4),
        )
        assert Counter(late["status"].to_pylist()) == expected_late
        halves = given.set_column(1, "t", pa.array([t / 2 for _, t, _ in rows]))
        found = BOUGHT.within(30.0).matches(halves, timeouts=True).to_pylist()
        assert Counter(m["status"] for m in found) == expected
        back = given.set_column(1, "t", pa.array([-t for _, t, _ in rows]))
        for query in (BOUGHT, ROWS):
            found = query.order_by("t DESC").matches(back, timeouts=True).to_pylist()
            assert Counter(m["status"] for m in found) == expected
            found = query.within(30.0).matches(halves, timeouts=True).to_pylist()
            assert Counter(m["status"] for m in found) == expected
            found = query.within("1 hour").matches(timed, timeouts=True).to_pylist()
            assert Counter(m["status"] for m in found) == expected


def test_a_window_in_rows_is_over_with_a_later_row() -> None:
    rows = [(1, t, k) for t, k in enumerate(["cart", "view", "view", "cart", "view"])]
    for by_rows in (BOUGHT.within("3 rows"), ROWS.within("3 rows")):
        found = by_rows.matches(table(rows), timeouts=True)
        assert told(found) == [(1, 0, "timeout"), (1, 3, "open")]
        complete = by_rows.matches(table(rows), timeouts=True, as_of="end")
        assert told(complete) == [(1, 0, "timeout"), (1, 3, "timeout")]
        with pytest.raises(errors.QueryError, match="counted in rows"):
            by_rows.matches(table(rows), timeouts=True, as_of=7)


def test_after_a_match_nothing_waits_for_what_is_open() -> None:
    rows = [(1, 0, "cart"), (1, 1, "cart"), (1, 2, "buy"), (1, 3, "cart")]
    skipping = BOUGHT.after_match("past last row")
    assert told(skipping.matches(table(rows), timeouts=True)) == [(1, 0, "matched"), (1, 3, "open")]


def test_row_patterns_time_out_where_a_search_began_and_failed() -> None:
    rows = [(1, 0, "cart"), (1, 1, "cart"), (1, 2, "buy"), (1, 3, "cart"), (1, 9, "view")]
    skipping = ROWS.after_match("past last row")
    assert told(skipping.matches(table(rows), timeouts=True)) == [(1, 0, "matched"), (1, 3, "open")]
    listed = ensue.pattern("C O*? B").define(C="k = 'cart'", B="k = 'buy'")
    listed = listed.partition_by("u").order_by("t").within(HOUR)
    shown = listed.matches(table(rows), timeouts=True).to_pylist()
    assert [(m["match_number"], m["last"], m["labels"], m["status"]) for m in shown] == [
        (1, 2, ["C", "O", "B"], "matched"),
        (None, 9, ["C", "O"], "open"),
    ]


@pytest.mark.parametrize("query", [BOUGHT, ROWS, BOUGHT.rows_per_match("all rows")])
def test_a_column_called_status_is_not_shown_twice(query: ensue.Pattern) -> None:
    rows = table(visits(1))
    for named in (
        query.measures(Status="COUNT(*)").matches,
        query.partition_by("status").matches,
    ):
        with pytest.raises(errors.DuplicateNameError, match="timeouts=True adds the column"):
            named(rows.append_column("status", rows["u"]), timeouts=True)
    assert query.matches(rows.append_column("status", rows["u"])).num_rows


def test_a_zone_with_several_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older Arrow gives zones of pytz where that is installed; they choose by the time."""

    class Zone(tzinfo):
        def utcoffset(self, _: datetime | None) -> timedelta:
            return timedelta(minutes=53)  # of long ago

        def localize(self, moment: datetime) -> datetime:
            return moment.replace(tzinfo=timezone(timedelta(hours=2)))

    monkeypatch.setattr(pa.lib, "string_to_tzinfo", lambda _: Zone())
    found = end_of_table.given("t", pa.timestamp("us", "Europe/Berlin"), datetime(2024, 7, 1, 12))
    assert found.cast(pa.int64()).as_py() == datetime(2024, 7, 1, 10, tzinfo=UTC).timestamp() * 1e6


def test_what_as_of_is_not() -> None:
    rows = table(visits(1))
    for wrong in ("tomorrow", datetime(2024, 1, 1), True):
        with pytest.raises(errors.ColumnTypeError, match="is not a value of the order column"):
            BOUGHT.matches(rows, timeouts=True, as_of=wrong)
    with pytest.raises(errors.ColumnTypeError, match="is not a value of the order column"):
        ROWS.matches(rows, timeouts=True, as_of="tomorrow")
    timed = rows.set_column(1, "t", rows["t"].cast(pa.int64()).cast(pa.timestamp("us")))
    for wrong in ("2024-01-01", np.datetime64("2024-01-01T03:00")):
        with pytest.raises(errors.ColumnTypeError, match=r"\(a datetime\)"):
            BOUGHT.within("1 hour").matches(timed, timeouts=True, as_of=wrong)
    texts = rows.set_column(1, "t", rows["t"].cast(pa.string()))
    with pytest.raises(errors.ColumnTypeError, match=r"pandas.to_datetime\(df\['t'\]\)"):
        BOUGHT.within("1 hour").count(texts)
    with pytest.raises(errors.UnsupportedError, match="ask for timeouts=True too"):
        ROWS.matches(rows, as_of="end")
    for ask in (BOUGHT.matches, BOUGHT.count):
        with pytest.raises(errors.UnsupportedError, match="it would change nothing"):
            ask(rows, as_of=300)
    assert BOUGHT.count(rows, as_of="end") == BOUGHT.count(rows)
    assert ROWS.matches(rows.slice(0, 0), timeouts=True).num_rows == 0
    assert BOUGHT.matches(rows.slice(0, 0), timeouts=True).num_rows == 0
