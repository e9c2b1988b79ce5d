"""Summaries: what `insert` takes, keys and budgets, ranking over keys, stored state, recall."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue import errors
from tests.unit.test_summary import keyed, query, random_stream, stream

# -- what is given, and keys -----------------------------------------------------------------------


def test_insert_takes_what_summarize_takes() -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    columns = {"kind": list("abbc"), "t": [1, 2, 3, 4]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for given in (pandas.DataFrame(columns), polars.DataFrame(columns), pa.table(columns), rows):
        assert query("a b* c", 9).summarize(size=5).insert(given).result() == {"count": 4}
        assert query("a b* c", 9).summarize(given, size=5).result() == {"count": 4}
    assert query("a b* c", 9).summarize(size=5).insert([]).insert(rows).result() == {"count": 4}


def test_columns_may_come_in_another_order_and_null_at_first() -> None:
    summary = query("a b", 9).summarize(size=5).insert([{"kind": "a", "t": 1, "note": None}])
    summary.insert(pa.table({"note": ["x"], "t": [2], "kind": ["b"]}))
    assert summary.result() == {"count": 1}
    assert summary.events()["note"].to_pylist() == [None, "x"]
    assert summary.insert([{"kind": "b", "t": 3}]).result() == {"count": 2}


@pytest.mark.parametrize(
    ("row", "kind", "words"),
    [
        ({"kind": "b", "t": 2.5}, errors.ColumnTypeError, "'t' comes as double"),
        ({"kind": "b", "t": "x"}, errors.ColumnTypeError, "'t' comes as string"),
        ({"kind": "b", "t": 2, "more": 1}, errors.UnsupportedInputError, "more"),
        (7, errors.UnsupportedInputError, "list of int"),
    ],
)
def test_events_that_do_not_fit_those_before(row: Any, kind: type[Exception], words: str) -> None:
    summary = query("a b", 9).summarize(size=5).insert([{"kind": "a", "t": 1}])
    with pytest.raises(kind, match=words):
        summary.insert([row])
    assert summary.insert([{"kind": "b", "t": 2}]).result() == {"count": 1}


def test_keys_that_are_null_nan_or_zero_are_one_key_each() -> None:
    summary = query("a b", 9).partition_by("key").summarize(size=5)
    for key in (None, math.nan, 0.0):
        for letter, time, again in (("a", 1, key), ("b", 2, -0.0 if key == 0.0 else key)):
            column = pa.array([again], pa.float64(), from_pandas=False)
            summary.insert(pa.table({"kind": [letter], "t": [time], "key": column}))
    assert summary.result() == {key: {"count": 1} for key in (None, math.nan, 0.0)}
    restored = ensue.restore(summary.snapshot())
    restored.insert(pa.table({"kind": ["b"], "t": [3], "key": [float("nan")]}))
    assert restored.result()[math.nan] == {"count": 2}


def test_descending_order_is_checked_as_such() -> None:
    found = ensue.pattern("a b", types="kind").select("any").order_by("t DESC")
    assert found.summarize(stream("ab", [2, 1]), size=5).result() == {"count": 1}
    with pytest.raises(errors.DataError, match="t 2 after 1"):
        found.summarize(stream("ab", [1, 2]), size=5)


def test_times_that_cannot_be_subtracted_are_refused() -> None:
    with pytest.raises(errors.OverflowDataError, match="beyond"):
        query("a b", 9).summarize(stream("ab", [-(2**63), 2**63 - 1]), size=5)
    with pytest.raises(errors.DataError, match="nan in row 1"):
        query("a b", 9).summarize(pa.table({"kind": list("ab"), "t": [1.0, math.nan]}), size=5)


def test_a_total_of_count_is_the_count() -> None:
    assert query("a b", 9).summarize(stream("ab"), size=5, total="count(*)").result() == {
        "count": 1
    }


# -- ranking over keys and values ------------------------------------------------------------------


def test_budget_compares_huge_and_small_scores() -> None:
    # The scores of one key overflow and are ranked by logarithm, those of the other are plain.
    found = query("a b* c", 10_000).partition_by("user")
    summary = found.summarize(size=1_500, budget=1_400, select="present")
    summary.insert(stream("a" + "b" * 1_300 + "c", user=["huge"] * 1_302))
    summary.insert(stream("a" + "b" * 12 + "c", list(range(2_000, 2_014)), user=["small"] * 14))
    summary.insert(stream("b" * 100 + "c", list(range(3_000, 3_101)), user=["huge"] * 101))
    kept = summary.events()["user"].to_pylist()
    assert kept.count("huge") > 1_380 and len(kept) == 1_400


@pytest.mark.parametrize("select", ["fifo", "random"])
def test_budget_of_the_baselines(select: str) -> None:
    table = keyed(600, 5, 2)
    found = query("a b* c", 40).partition_by("user")
    summary = found.summarize(table, size=500, budget=60, select=select)
    kept = summary.events()["t"].to_pylist()
    relevant = [t for t, k in zip(table["t"].to_pylist(), table["kind"].to_pylist(), strict=True)
                if k in "abc"]  # fmt: skip
    assert len(kept) == 60
    assert (kept == relevant[-60:]) == (select == "fifo")


def test_present_scores_of_equal_attributes_are_contributions() -> None:
    chance = random.Random(9)
    letters = "".join(chance.choice("abcd") for _ in range(30))
    table = stream(letters, user=[chance.choice("xyz") for _ in letters])
    summary = query("a b* d", 12).summarize(table, size=40, select="present", equal={"user": ["b"]})
    shares = [int(x) for x in summary.contribution()["matches"].to_pylist()]
    assert max(shares) > 3
    assert summary._stores[()].ranked()[0].tolist() == pytest.approx(shares)


def test_huge_scores_of_equal_attributes_are_logarithms_of_contributions() -> None:
    letters = "a" + "b" * 1_100 + "cc"
    users = ["x" if i % 300 else "y" for i in range(len(letters))]
    summary = query("a b* c").summarize(
        stream(letters, user=users), size=2_000, select="present", equal={"user": ["b"]}
    )
    scores, logged = summary._stores[()].ranked()
    shares = [int(x) for x in summary.contribution()["matches"].to_pylist()]
    assert logged
    assert scores.tolist() == pytest.approx([math.log2(x) for x in shares])


def test_equal_attributes_learn_with_drift() -> None:
    summary = query("a b* c", 30).summarize(size=8, select="fifo", equal={"user": ["b"]})
    summary.insert(stream("ab" * 2_000, user=["x"] * 4_000))
    summary.insert(stream("bc" * 15_000, list(range(4_001, 34_001)), user=["x"] * 30_000))
    weight = summary._selection.tables().class_weight
    share = weight[:-1] / weight.sum()
    assert share[0] < 0.02 and share[2] == pytest.approx(0.5, abs=0.02)


def test_equal_attribute_that_is_null_equals_nothing() -> None:
    table = stream("abbc", user=["x", None, "x", "x"])
    summary = query("a b c", 9).summarize(table, size=9, equal={"user": ["b", "c"]})
    assert summary.result() == {"count": 1}


# -- the estimate of recall ------------------------------------------------------------------------


@pytest.mark.parametrize("select", ["benefit", "present", "fifo", "random"])
@pytest.mark.parametrize("window", [60, "60 rows", None])
def test_recall_is_the_share_of_all_matches(select: str, window: Any) -> None:
    table = random_stream(23, "abcx", 1_500)
    summary = query("a b* c" if window else "a b c", window).summarize(
        table, size=40, select=select
    )
    whole = query("a b* c" if window else "a b c", window).summarize(table, size=2_000)
    metrics = summary.metrics
    assert whole.metrics.recall == 1.0
    assert metrics.recall == pytest.approx(summary.count() / whole.count(), rel=1e-9)
    assert metrics.low == metrics.recall == metrics.high


def test_recall_of_skip_till_next_and_of_equal_attributes() -> None:
    table = random_stream(29, "abcx", 1_500)
    found = ensue.pattern("a b+ c", types="kind").select("next").order_by("t").within(8)
    summary = found.summarize(table, size=200, select="fifo")
    truth = summary.count() / found.summarize(table, size=2_000).count()
    assert summary.metrics.recall == pytest.approx(truth, rel=1e-9)
    chance = random.Random(1)
    users = [chance.choice(["x", "y", "z", None]) for _ in range(1_500)]
    table = table.append_column("user", [users])
    asked: dict[str, Any] = {"select": "fifo", "equal": {"user": ["b", "c"]}}
    summary = query("a b c", 60).summarize(table, size=200, **asked)
    truth = summary.count() / query("a b c", 60).summarize(table, size=2_000, **asked).count()
    assert summary.metrics.recall == pytest.approx(truth, rel=1e-9)


def test_recall_of_keys_that_share_a_budget() -> None:
    table = keyed(600, 5, 4)
    found = query("a b* c", 40).partition_by("user")
    summary = found.summarize(size=500, budget=60)
    summary.insert(table.slice(0, 300)).insert(table.slice(300))
    truth = summary.count() / found.summarize(table, size=500).count()
    assert 0 < truth < 1
    assert summary.metrics.recall == pytest.approx(truth, rel=1e-9)
    again = ensue.restore(summary.snapshot())
    assert again.insert(table.slice(0, 0)).metrics.recall == summary.metrics.recall


def test_recall_of_a_sample_of_starts_has_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more windows are open than are followed; the truth is inside in 95 % of streams."""
    monkeypatch.setattr("ensue.summary.recall.MOST_LANES", 48)
    inside, apart = 0, []
    for seed in range(60):
        table = random_stream(seed, "aabcx", 4_000)
        summary = query("a b c", 300).summarize(table, size=200, select="fifo")
        metrics = summary.metrics
        truth = summary.count() / query("a b c", 300).summarize(table, size=4_000).count()
        assert metrics.low < metrics.recall < metrics.high
        inside += metrics.low <= truth <= metrics.high
        apart.append((metrics.high - metrics.low) / metrics.recall)
    assert inside >= 54
    assert sum(apart) / len(apart) < 0.35


def test_nothing_found_of_nothing_known_is_no_recall() -> None:
    summary = query("a b c", 9).summarize(stream("aab" * 50), size=8, select="fifo")
    assert (summary.metrics.recall, summary.count()) == (1.0, 0), "there was none"
    lost = query("a b c", 9).summarize(stream("abc" + "aab" * 50), size=8, select="fifo")
    assert (lost.metrics.recall, lost.metrics.low, lost.metrics.high) == (0.0, 0.0, 0.0)


@pytest.mark.compiled
def test_recall_of_counts_beyond_floats() -> None:
    found = query("a b* c")
    summary = found.summarize(stream("a" + "b" * 3_000 + "c"), size=2_900, select="present")
    assert summary.count() > 2**2_000 and summary.metrics.recall == pytest.approx(2.0**-101)


@pytest.mark.compiled
def test_scores_of_starts_far_apart_are_logarithms_of_contributions() -> None:
    """Lanes that differ by more than a float can hold, and events that only the small ones have."""
    letters = "a" + "b" * 1_300 + "cc" + "x" * 100 + "abcc" * 3
    summary = query("a b* c", 1_500).summarize(stream(letters), size=1_400, select="present")
    scores, logged = summary._stores[()].ranked()
    shares = [int(x) for x in summary.contribution()["matches"].to_pylist()]
    assert logged and min(shares) < 2**40 and max(shares) > 2**1_200
    assert scores.tolist() == pytest.approx([math.log2(x) for x in shares])


# -- stored state ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"select": "present", "total": "avg(v)"},
        {"select": "random", "budget": 30},
        {"budget": 30},
        {"probabilities": {"a": 0.2, "b": 0.2, "c": 0.2, "*": 0.4}},
        {"equal": {"v": ["b", "c"]}},
    ],
)
def test_state_at_any_moment_changes_nothing(options: dict[str, Any]) -> None:
    chance = random.Random(3)
    table = keyed(500, 3, 7).append_column("v", [[chance.randrange(3) for _ in range(500)]])
    found = query("a b* c", 40).partition_by("user")
    whole = found.summarize(size=15, **options)
    restored = found.summarize(size=15, **options)
    for begin in range(0, 500, 77):
        part = table.slice(begin, 77)
        whole.insert(part)
        restored.insert(part)
        # As one blob with the query in it, and as a blob per key.
        restored = ensue.restore(restored.snapshot())
        restored = restored.restore(restored.snapshot_keys())
        assert restored.events().equals(whole.events())
        assert restored.result() == whole.result()
        ours, theirs = vars(restored.metrics), vars(whole.metrics)
        assert {**ours, "bytes": 0} == {**theirs, "bytes": 0}


def test_state_of_the_keys_that_were_touched() -> None:
    table = keyed(300, 4, 5)
    summary = query("a b* c", 40).partition_by("user").summarize(table, size=15)
    before = summary.snapshot_keys()
    assert set(before.keys) == {(0,), (1,), (2,), (3,)}
    last = pa.table({"user": [2], "kind": ["c"], "t": [300]})
    summary.insert(last)
    touched = summary.snapshot_keys([(2,)])
    assert set(touched.keys) == {(2,)}
    together = type(before)({**before.keys, **touched.keys}, touched.shared)
    restored = query("a b* c", 40).partition_by("user").summarize(size=15).restore(together)
    assert restored.result() == summary.result()
    assert restored.events().equals(summary.events())


def test_state_without_an_event() -> None:
    empty = stream("ab").slice(0, 0)
    summary = query("a b", 9).partition_by("kind").summarize(empty, size=5)
    restored = ensue.restore(summary.snapshot())
    assert restored.insert(stream("a")).result() == {"a": {"count": 0}}
    ignored = query("a b", 9).summarize(stream("xyz"), size=5)
    assert ensue.restore(ignored.snapshot()).insert(stream("ab", [4, 5])).result() == {"count": 1}
    # The columns and their types are remembered too.
    with pytest.raises(errors.ColumnTypeError, match="'t' comes as string"):
        ensue.restore(ignored.snapshot()).insert(pa.table({"kind": ["a"], "t": ["x"]}))


def test_state_with_other_probabilities_is_refused() -> None:
    blob = query("a b", 9).summarize(stream("ab"), size=5).snapshot()
    with pytest.raises(errors.StateError, match="other options"):
        query("a b", 9).summarize(size=5, probabilities={"a": 1.0}).restore(blob)
    with pytest.raises(errors.StateError, match="damaged"):
        ensue.restore(b"junk")


@pytest.mark.parametrize("total", [None, "sum(x)"])
def test_present_scores_where_an_event_has_several_labels(total: str | None) -> None:
    # Two loops of one state by one event: neither may read what the other wrote.
    found = ensue.pattern("(a | b)* c").define(a="x < 5", b="x > 2", c="x > 7")
    chance = random.Random(2)
    table = pa.table({"x": [chance.randrange(10) for _ in range(60)], "t": range(60)})
    found = found.select("any").order_by("t").within(9)
    summary = found.summarize(table, size=80, select="present", total=total)
    shares = [int(x) for x in summary.contribution()["matches"].to_pylist()]
    scores = summary._stores[()].ranked()[0]
    assert max(shares) > 100
    if total is None:
        assert scores.tolist() == pytest.approx(shares)
    else:
        # By sums, the whole of it is what is lost when the event goes.
        for place in range(0, len(shares), 7):
            kept = summary.events()
            without = pa.concat_tables([kept.slice(0, place), kept.slice(place + 1)])
            fewer = found.summarize(without, size=80, total=total).result()["sum"]
            assert scores[place] == pytest.approx(summary.result()["sum"] - fewer)


@pytest.mark.parametrize("window", [40, "30 rows", None])
def test_many_keys_are_answered_like_few(window: Any) -> None:
    chance = random.Random(6)
    table = keyed(600, 12, 3).append_column("v", [[chance.randint(-5, 9) for _ in range(600)]])
    found = query("a b* c", window).partition_by("user")
    summary = found.summarize(table, size=25, total="sum(b.v)")
    assert len(summary.result()) == 12
    assert summary.result() == {
        key[0]: summary._answer(key).as_dict(True) for key in summary._stores
    }
    assert summary.count() == sum(result["count"] for result in summary.result().values())


@pytest.mark.parametrize("budget", [None, 8])
def test_what_cannot_be_taken_changes_nothing(budget: int | None) -> None:
    found = query("a b* c", 20)
    summary = found.summarize(size=10, budget=budget, total="sum(v)")
    with pytest.raises(errors.DataError, match="row 1 is None"):
        summary.insert(stream("ab", v=[1, None]))
    # The first table that is taken says what the columns are.
    summary.insert(stream("abbc", v=[1.0, 2.0, 3.0, 4.5]))
    before, events = summary.result(), summary.events()
    with pytest.raises(errors.DataError, match="row 11 is None"):
        summary.insert(stream("ab" * 6, list(range(5, 17)), v=[1.0] * 11 + [None]))
    with pytest.raises(errors.DataError, match="t 15 after 16"):
        summary.insert(stream("ab" * 6, [*range(6, 17), 15], v=[1.0] * 12))
    assert summary.result() == before and summary.events().equals(events)
    assert summary.metrics.rows == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"equal": {"user": "ab"}}, "does not list labels"),
        ({"equal": {"user": []}}, "does not list labels"),
        ({"budget": 1}, "below the shortest match of 2"),
        ({"budget": 2.5}, "whole number"),
        ({"seed": "x"}, "64 bits"),
        ({"probabilities": {"a": -0.5, "b": 1.5}}, "'a' is -0.5"),
        ({"probabilities": {"a": "x"}}, "'a' is 'x'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.QueryError, match=words):
        query("a b", 9).summarize(size=5, **options)
