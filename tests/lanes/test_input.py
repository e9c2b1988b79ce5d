"""What comes to a lane that is late, corrected, without a time, or too much."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.operator import state as arrow_state
from ensue.operator.buffer import CONTENT, KEY
from ensue.operator.identity import row_hashes
from ensue.operator.listing import Listing
from ensue.run.lanes import state
from ensue.run.lanes.lane import Lane
from ensue.run.lanes.work import IDENTITY, SEQUENCE, SIGN, TEXT, Work
from ensue.run.lanes.works import matches_work
from ensue.summary.saved import KIND as SUMMARY
from tests.lanes import streams

SECOND = streams.SECOND
PATTERN = (
    ensue.pattern("A B", types="kind")
    .partition_by("k")
    .order_by("ts")
    .measures(at="FIRST(ts)", x="LAST(B.x)")
)


def table_of(rows: list[tuple[str, int | None, str, int]]) -> pa.Table:
    """Rows of key, second, kind and x."""
    keys, seconds, kinds, xs = zip(*rows, strict=True)
    times = [None if s is None else streams.EPOCH + s * SECOND for s in seconds]
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": pa.array(kinds, pa.string()),
            "x": pa.array(xs, pa.int64()),
        }
    )


def made(table: pa.Table, pattern: Any = PATTERN, **given: Any) -> tuple[Work, pa.Table]:
    """Work, and the rows with all that a stream may need to know of them."""
    planned, ready = streams.streamed(pattern.query, table)
    text = [str(row) for row in table.to_pylist()]
    ready = ready.append_column(TEXT, pa.array(text, pa.string()))
    settings = streams.settings(**given)
    return matches_work(planned, None, ready.schema, "ts", settings, {"lanes": "1"}), ready


def over(rows: pa.Table, work: Work) -> Work:
    """The same work over rows with further columns."""
    planned, _ = streams.streamed(PATTERN.query, table_of([("k", 0, "A", 1)]))
    return matches_work(planned, None, rows.schema, "ts", work.settings, {})


class Stream:
    def __init__(self, work: Work) -> None:
        self.work = work
        self.blob: bytes | None = None
        self.found: list[dict[str, Any]] = []
        self.totals: dict[str, int] = {}

    def step(self, table: pa.Table | None, mark: int | None, *orders: str) -> Lane:
        lane = Lane(self.work, 0)
        if self.blob is not None:
            lane.load(self.blob)
        moment = None if mark is None else streams.EPOCH + mark * SECOND
        for part in lane.step([] if table is None else [table], moment, orders):
            self.found += part.to_pylist()
        self.blob = lane.save() or self.blob
        for name, value in vars(lane.counts).items():
            self.totals[name] = self.totals.get(name, 0) + value
        return lane

    @property
    def matched(self) -> int:
        return sum(row.get("status", "matched") == "matched" for row in self.found)


def test_late_rows_are_counted_and_shown() -> None:
    work, rows = made(table_of([("k", 0, "A", 1), ("k", 9, "B", 2), ("k", 1, "B", 3)]), late=True)
    stream = Stream(work)
    stream.step(rows.slice(0, 2), None)
    stream.step(rows.slice(2), 2)  # second 1 is before the watermark
    stream.step(None, 2, streams.CLOSE)
    assert stream.totals["late"] == 1
    late = [row for row in stream.found if row["status"] == "late"]
    assert len(late) == 1 and late[0]["k"] == "k" and "'x': 3" in late[0]["event"]
    assert late[0]["reason"] == "late" and late[0]["text"].endswith("the watermark had passed it")
    assert {row["reason"] for row in stream.found if row["status"] == "matched"} == {None}
    stream.step(rows.slice(2), 2)
    assert stream.found[-1]["text"].endswith("the stream was closed before it came")
    assert stream.matched == 1  # A then B at second 9: the late row is used for nothing


def test_what_ran_out_of_its_window_is_counted_apart() -> None:
    pattern = ensue.pattern("A -> B", types="kind").partition_by("k").order_by("ts").within("3 s")
    table = table_of([("k", 0, "A", 1), ("k", 1, "B", 2), ("k", 2, "A", 3), ("k", 9, "X", 4)])
    planned, ready = streams.streamed(pattern.query, table)
    listing = Listing(timeouts=True)
    stream = Stream(matches_work(planned, listing, ready.schema, "ts", streams.settings(), {}))
    stream.step(ready, None)
    stream.step(None, 8, streams.CLOSE)
    assert [row["status"] for row in stream.found] == ["matched", "timeout"]
    assert (stream.totals["matches"], stream.totals["within"]) == (1, 1)


def test_the_watermark_itself_is_not_late() -> None:
    work, rows = made(table_of([("k", 5, "A", 1)]))
    stream = Stream(work)
    stream.step(rows, 5)
    assert stream.totals["late"] == 0
    stream.step(rows, 6)
    assert stream.totals["late"] == 1


def test_rows_after_the_end_are_late() -> None:
    work, rows = made(table_of([("k", 5, "A", 1)]))
    stream = Stream(work)
    stream.step(rows, None, streams.CLOSE)
    stream.step(rows, None)
    assert stream.totals["late"] == 1


def test_a_silent_key_is_settled_by_time_and_forgotten() -> None:
    pattern = (
        ensue.pattern("A B*", types="kind").partition_by("k").order_by("ts").within("3 seconds")
    )
    pattern = pattern.measures(n="COUNT(*)")
    work, rows = made(table_of([("k", 0, "A", 1), ("k", 1, "B", 2)]), pattern)
    stream = Stream(work)
    lane = stream.step(rows, None)
    lane = stream.step(None, 2)
    assert stream.found == []
    wake = lane.wake_at(streams.EPOCH + 2 * SECOND)
    assert wake == streams.EPOCH + 3 * SECOND + 1
    lane = stream.step(None, 4)
    assert stream.matched == 1
    assert lane.counts.keys == 0 and lane.wake_at(streams.EPOCH + 4 * SECOND) is None


def test_an_untouched_lane_is_not_rewritten() -> None:
    work, rows = made(table_of([("k", 5, "A", 1)]))
    stream = Stream(work)
    stream.step(rows, None)
    lane = Lane(work, 0)
    assert stream.blob is not None
    lane.load(stream.blob)
    list(lane.step([], streams.EPOCH + 1 * SECOND))
    assert lane.save() is None


def test_a_key_that_fell_silent_is_forgotten_on_request() -> None:
    pattern = ensue.pattern("A B", types="kind").partition_by("k").order_by("ts")  # listing
    work, rows = made(table_of([("k", 0, "A", 1), ("l", 60, "A", 1)]), pattern, forget=10 * SECOND)
    stream = Stream(work)
    stream.step(rows, None)
    assert stream.step(None, 61).counts.keys == 1


# -- corrections ----------------------------------------------------------------------------------


def corrected(rows: pa.Table, signs: list[int]) -> pa.Table:
    return rows.append_column(SIGN, pa.array(signs, pa.int64()))


def test_deletions_by_content_in_any_order_of_arrival() -> None:
    facts = [("k", 0, "A", 1), ("k", 1, "X", 2), ("k", 2, "B", 3)]
    work, rows = made(table_of([*facts, facts[1]]), corrections="content")
    rows = corrected(rows, [1, 1, 1, -1])
    work = over(rows, work)
    for seed in range(6):
        stream = Stream(work)
        order = random.Random(seed).sample(range(4), 4)
        for place in order:
            stream.step(rows.slice(place, 1), None)
        stream.step(None, None, streams.CLOSE)
        assert (stream.matched, stream.totals["rejected"]) == (1, 0)
        assert stream.totals["corrected"] == 2


def test_a_deletion_of_nothing_is_rejected_once_settled() -> None:
    facts = [("k", 0, "A", 1), ("k", 1, "B", 2)]
    work, rows = made(table_of(facts), corrections="content", late=True)
    rows = corrected(rows, [1, -1])
    work = over(rows, work)
    stream = Stream(work)
    stream.step(rows, None)
    assert stream.totals["rejected"] == 0
    stream.step(None, 9)
    assert stream.totals["rejected"] == 1 and stream.matched == 0
    assert [(row["reason"], row["text"]) for row in stream.found] == [
        ("rejected", "it takes back a row that was never seen")
    ]


def test_an_operation_nobody_knows_is_rejected() -> None:
    work, rows = made(table_of([("k", 0, "A", 1)]), corrections="content", late=True)
    rows = corrected(rows, [0])
    stream = Stream(over(rows, work))
    stream.step(rows, None)
    assert stream.totals["rejected"] == 1
    assert stream.found[0]["status"] == "rejected"
    assert stream.found[0]["text"].startswith("its operation is not known")


def test_the_newest_version_of_an_event_counts() -> None:
    facts = [("k", 0, "A", 1), ("k", 1, "B", 2), ("k", 1, "B", 7), ("k", 3, "A", 0)]
    work, rows = made(table_of(facts), corrections="identity", emit="changes")
    rows = corrected(rows, [1, 1, 1, -1])
    rows = rows.append_column(IDENTITY, pa.array([1, 2, 2, 9]))
    rows = rows.append_column(SEQUENCE, pa.array([1, 2, 3, 4]))
    work = over(rows, work)
    for seed in range(6):
        stream = Stream(work)
        for place in random.Random(seed).sample(range(4), 4):
            stream.step(rows.slice(place, 1), None)
        stream.step(None, None, streams.CLOSE)
        left = streams.net([pa.Table.from_pylist(stream.found)])
        assert [row["__ensue_atom_1"] for row in left] == [7]


def test_a_match_keeps_its_identity_when_it_is_said_again() -> None:
    facts = [("k", 0, "A", 1), ("k", 2, "B", 2), ("k", 1, "X", 9)]
    work, rows = made(table_of([*facts, facts[2]]), corrections="content", emit="changes")
    rows = corrected(rows, [1, 1, 1, -1])
    stream = Stream(over(rows, work))
    for place in range(4):
        stream.step(rows.slice(place, 1), None)
    assert [row["op"] for row in stream.found] == ["+", "-", "+"]
    assert len({row["match_id"] for row in stream.found}) == 1


# -- bad input ------------------------------------------------------------------------------------


def test_a_null_event_time_is_rejected_or_fails() -> None:
    work, rows = made(table_of([("k", None, "A", 1), ("k", 0, "A", 1)]), late=True)
    stream = Stream(work)
    stream.step(rows, None)
    assert stream.totals["rejected"] == 1 and stream.found[0]["status"] == "rejected"
    assert stream.found[0]["text"] == "the event time is null"
    work, rows = made(table_of([("k", None, "A", 1)]), nulls="fail")
    with pytest.raises(errors.DataError, match="has no event time"):
        Stream(work).step(rows, None)


def test_an_exploding_key_fails_or_is_shed() -> None:
    facts = [("big", i, "A", i) for i in range(50)] + [("small", 1, "A", 0), ("small", 2, "B", 0)]
    work, rows = made(table_of(facts), key_limit=20)
    with pytest.raises(errors.LimitError, match=r"'big',\) keeps 50 rows.*key_limit is 20"):
        Stream(work).step(rows, None)
    work, rows = made(table_of(facts), key_limit=20, overflow="shed", late=True)
    stream = Stream(work)
    stream.step(rows, None)
    assert stream.totals["shed"] == 50
    stream.step(rows.slice(0, 5), None)  # still left out, though few
    assert stream.totals["shed"] == 55
    shed = [(row["k"], row["reason"], row["text"]) for row in stream.found]
    text = "its key had more rows in state than key_limit = 20"
    assert shed == [("big", "shed", text)] * 55
    stream.step(None, None, streams.CLOSE)
    assert stream.matched == 1


@pytest.mark.parametrize("hot", [False, True])
def test_a_hot_key_does_not_hold_up_the_others(hot: bool) -> None:
    """Half of the rows are of one key, all in one lane, and no start of it is ever decided."""
    pattern = (
        ensue.pattern("A B", types="kind").partition_by("k").order_by("ts").within("20 seconds")
    )
    facts = []
    for step in range(12):
        facts += [(f"k{i}", 10 * step + i, "A", i) for i in range(4)]
        facts += [(f"k{i}", 10 * step + i + 1, "B", i) for i in range(4)]
        facts += [("hot" if hot else f"idle {step} {i}", 10 * step + i, "A", i) for i in range(8)]
    work, rows = made(table_of(facts), pattern, key_limit=40)
    stream, told = Stream(work), []
    for step in range(12):
        # The watermark is a micro-batch behind, as Spark's is.
        lane = stream.step(rows.slice(16 * step, 16), 10 * (step - 1) if step else None)
        told.append(sum(row["k"].startswith("k") for row in stream.found))
        assert lane.counts.state_bytes < 12_000
    assert told == [0, *(4 * step for step in range(11))]


def test_an_undecided_start_counts_against_the_limit() -> None:
    pattern = ensue.pattern("A B+ C", types="kind").partition_by("k").order_by("ts")
    facts = [("k", 0, "A", 0)] + [("k", i, "B", 0) for i in range(1, 40)]
    work, rows = made(table_of(facts), pattern, key_limit=20)
    stream = Stream(work)
    for first in range(0, 20, 5):
        stream.step(rows.slice(first, 5), first)
    with pytest.raises(errors.LimitError, match="keeps"):
        for first in range(20, 40, 5):
            stream.step(rows.slice(first, 5), first)


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [("lanes", "8", "4"), ("partition_by", "k", "k, l"), ("pattern", "A B", "A C")],
)
def test_a_checkpoint_of_another_query_says_what_differs(name: str, before: str, now: str) -> None:
    blob = state.to_bytes({}, {name: before})
    with pytest.raises(errors.CheckpointError) as caught:
        state.from_bytes(blob, {name: now})
    assert f"{name} was {before} and is {now}" in str(caught.value)
    assert "new checkpoint" in caught.value.remedy


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"within": "9 seconds"}, "within was (none) and is 9 seconds"),
        ({"define": {"B": "x > 1"}}, "define was A AS "),
        ({"measures": {"y": "B.x"}}, "measures was "),
        ({"order_by": "ts DESC"}, "order_by was ts and is ts descending"),
    ],
)
def test_of_a_pattern_the_part_that_differs_is_named(change: dict[str, Any], told: str) -> None:
    query, other = PATTERN.query, PATTERN
    for name, given in change.items():
        call = getattr(other, name)
        other = call(**given) if isinstance(given, dict) else call(given)
    blob = state.to_bytes({}, state.asked(query))
    assert list(state.from_bytes(blob, state.asked(query))) == ["description"]
    with pytest.raises(errors.CheckpointError) as caught:
        state.from_bytes(blob, state.asked(other.query))
    assert f"by another query: {told}" in str(caught.value)
    assert f"set {next(iter(change))} back" in caught.value.remedy


def test_how_a_version_words_a_query_is_no_difference() -> None:
    now = state.asked(PATTERN.query)
    _, mark, fingerprint = now["pattern"].partition(" (fingerprint ")
    before = {"pattern": "A B+[greedy]" + mark + fingerprint, "define": "worded otherwise"}
    blob = state.to_bytes({}, {**now, **before, "measures": "at, x"})
    assert list(state.from_bytes(blob, now)) == ["description"]


def test_a_damaged_or_foreign_state_is_refused() -> None:
    work, rows = made(table_of([("k", 0, "A", 1)]))
    stream = Stream(work)
    stream.step(rows, None)
    assert stream.blob is not None
    for blob in (b"", b"junk", stream.blob[: len(stream.blob) // 2]):
        with pytest.raises(errors.StateError, match="damaged"):
            Lane(work, 0).load(blob)


def test_a_flipped_bit_is_found() -> None:
    work, rows = made(table_of([("k", 0, "A", 1), ("k", 1, "A", 1)]))
    stream = Stream(work)
    stream.step(rows, None)
    assert stream.blob is not None
    chance = random.Random(1)
    bits = [*range(17 * 8, 25 * 8)]  # the checksum, and how the compressed state begins
    bits += [chance.randrange(8 * len(stream.blob)) for _ in range(300)]
    for bit in bits:
        blob = bytearray(stream.blob)
        blob[bit // 8] ^= 1 << bit % 8
        with pytest.raises(errors.StateError, match="damaged"):
            Lane(work, 0).load(bytes(blob))
    with pytest.raises(errors.StateError, match="damaged"):
        Lane(work, 0).load(stream.blob[:-14])  # the checksum is cut off


def test_a_state_of_something_else_is_refused() -> None:
    work, rows = made(table_of([("k", 0, "A", 1)]))
    foreign = arrow_state.to_bytes(SUMMARY, rows)
    with pytest.raises(errors.StateError, match="of kind 'summary'"):
        Lane(work, 0).load(foreign)


def test_hashes_of_rows_are_of_what_the_evaluator_reads() -> None:
    _, rows = made(table_of([("k", 0, "A", 1), ("k", 0, "A", 1)]))
    assert len(np.unique(rows[CONTENT])) == 1 and len(np.unique(rows[KEY])) == 1
    assert row_hashes(rows, ["k"]).dtype == np.uint64


def test_a_watermark_that_lost_a_micro_batch() -> None:
    """A file sink leaves a batch out that it has; Spark then never learns the time of its rows."""
    times = [("k", 0, "A", 1), ("k", 9, "B", 2), ("k", 3, "B", 3), ("k", 12, "A", 4)]
    work, rows = made(table_of([*times, ("k", 14, "B", 5)]), delay=2 * SECOND)
    stream = Stream(work)
    stream.step(rows.slice(0, 2), 0)  # proves second 7
    stream.step(rows.slice(2, 1), 0)  # the watermark stands still: second 3 is late all the same
    assert stream.totals["late"] == 1
    stream.step(rows.slice(3, 1), 4)  # moves, and is still behind
    stream.step(rows.slice(4), 12)  # has caught up
    stream.step(None, 12, streams.CLOSE)
    assert stream.totals["late"] == 1
    assert stream.matched == 2
    with pytest.raises(errors.WatermarkError, match="several watermarks"):
        stream.step(rows.slice(4), 9)


def test_a_stream_ends_once() -> None:
    work, rows = made(table_of([("k", 0, "A", 1), ("k", 1, "B", 2)]), emit="changes")
    stream = Stream(work)
    stream.step(rows, 0, streams.CLOSE)
    assert stream.matched == 1
    stream.step(rows, 5, streams.CLOSE)
    assert stream.matched == 1 and stream.totals["late"] == 2


def test_a_lane_wakes_for_what_becomes_visible() -> None:
    """Rows past watermark + σ are tried as soon as the watermark has come so near."""
    rows = table_of([("k", 100, "A", 1), ("k", 101, "B", 2)])
    work, ready = made(rows, emit="changes", speculation=30 * SECOND)
    stream = Stream(work)
    lane = stream.step(ready, 0)
    due = lane.wake_at(streams.EPOCH)
    assert due == streams.EPOCH + 70 * SECOND + 1 and stream.matched == 0
