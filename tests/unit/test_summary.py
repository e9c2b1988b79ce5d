"""Summaries as users see them: the paper's examples, random streams, bad input, stored state."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue import errors
from ensue.summary.kernels import expect as suse_expect
from ensue.summary.kernels import select as kernel
from tests import oracle_summary as oracle
from tests.state_summary import StateSummary
from tests.unit.test_summary_counters import machine_of, mask_of


def stream(letters: str, times: list[int] | None = None, **columns: list[Any]) -> pa.Table:
    times = times or list(range(1, len(letters) + 1))
    return pa.table({"kind": list(letters), "t": times, **columns})


def query(text: str, window: Any = None) -> Any:
    found = ensue.pattern(text, types="kind").select("any").order_by("t")
    return found if window is None else found.within(window)


def count(text: str, letters: str, window: Any = None, times: list[int] | None = None) -> int:
    return query(text, window).summarize(stream(letters, times), size=100).result()["count"]


# -- the paper's examples --------------------------------------------------------------------------


def test_example_1_mappings_of_a_word() -> None:
    assert count("a b d c", "abdcabcd") == 2


def test_example_2_window() -> None:
    assert count("a b c", "abcc", 2) == 1
    assert count("a b c", "abcc", 3) == 2


def test_example_3_count_and_sum() -> None:
    table = stream("acbacbc", v=[2, 3, 5, 6, 13, 7, 9])
    result = query("a b c", 5).summarize(table, size=10, total="sum(v)").result()
    assert result["count"] == 2 and result["sum"] == 42 and result["avg"] == 21.0
    assert result["min"] == 2 and result["max"] == 13


def counted(letters: str, window: float = math.inf) -> tuple[Any, StateSummary]:
    machine = machine_of("A (B* C)* D")
    summary = StateSummary(machine, window)
    for time, letter in enumerate(letters, 1):
        summary.insert(time, machine.class_of(mask_of(machine, letter)))
    return machine, summary


def test_figure_3_and_example_4_global_counters() -> None:
    _, summary = counted("ABADBCD")
    assert summary.counters == [0, 8, 4, 10]
    assert counted("ABAD")[1].counters == [0, 2, 1, 2]


def test_example_5_local_counters() -> None:
    assert counted("ABADB")[1].elements[4].local == [0, 0, 3, 0]
    assert counted("ABADBC")[1].elements[4].local == [0, 3, 3, 0]


def test_example_6_oldest_start_leaves_the_window() -> None:
    machine = machine_of("A (B* C)* D")
    summary = StateSummary(machine, 10)
    for letter, time in [("A", 32), ("C", 35), ("B", 37), ("A", 38), ("C", 42)]:
        summary.insert(time, machine.class_of(mask_of(machine, letter)))
    before = summary.counters
    assert summary.active == before
    summary.advance(43)
    # Only A38 starts what can still grow, and C35 and B37 before it are out.
    assert summary.active == [0, 2, 0, 0]
    assert summary.counters == before
    # From active counters (0, 3, 1, 1) a B adds #z1 + #z2 = 4, as in the paper.
    summary.active = [0, 3, 1, 1]
    summary.insert(43, machine.class_of(mask_of(machine, "B")))
    assert summary.elements[-1].local == [0, 0, 4, 0]


def test_example_7_removal_is_as_if_it_never_came() -> None:
    machine = machine_of("A (B* C)* D")
    letters = [("A", 15), ("D", 17), ("A", 18), ("C", 20), ("B", 21), ("C", 23), ("D", 25)]
    summary, without = StateSummary(machine, 4), StateSummary(machine, 4)
    for letter, time in letters:
        summary.insert(time, machine.class_of(mask_of(machine, letter)))
        if time != 21:
            without.insert(time, machine.class_of(mask_of(machine, letter)))
    untouched = summary.elements[1].local
    summary.remove(4)
    assert [e.local for e in summary.elements] == [e.local for e in without.elements]
    assert summary.counters == without.counters
    assert summary.elements[1].local == untouched  # D17 has no match with B21


def test_example_8_with_the_right_sums() -> None:
    machine = machine_of("A (B* C)* D", valued=frozenset(range(4)))
    values = dict(enumerate([5, 3, 2, 1, 7, 3, 8]))
    counters, sums = [0] * 4, [0] * 4
    for place, letter in enumerate("ABADBCD"):
        new, new_sums = list(counters), list(sums)
        for p, q, _ in machine.arcs[machine.class_of(mask_of(machine, letter))]:
            ways, total = (counters[p], sums[p]) if p else (1, 0)
            new[q] += ways
            new_sums[q] += total + ways * values[place]
        counters, sums = new, new_sums
    assert sums == [0, 76, 44, 149]
    table = stream("ABADBCD", v=list(values.values()))
    assert query("A (B* C)* D").summarize(table, size=9, total="sum(v)").result()["sum"] == 149


def test_figure_2_counts() -> None:
    assert count("A B* C", "AABCBCABCA", 10) == 30
    assert count("A B* C", "BBCCA", 10, [3, 5, 6, 9, 10]) == 0
    assert count("A B* C", "CABCA", 10, [6, 7, 8, 9, 10]) == 2
    assert count("A B* C", "AABBC", 10, [1, 2, 3, 5, 6]) == 8


def test_figure_6_coefficients() -> None:
    machine = machine_of("A (B* C)* D")
    arrays = machine.arrays()
    share = np.array([0.5, 0.2, 0.15, 0.15])
    table, exponent = np.zeros((3, 4)), np.zeros(3)
    final = np.array([False, True, False, False])  # the expectation of #z1 itself
    suse_expect.coefficients(share, arrays._replace(final=final), table, exponent, 3)
    assert table[2].tolist() == pytest.approx([1.075, 1.3525, 0.3525, 0.0])
    # (0, 5, 10, 15) after one step, with the part of matches that start later (column 0).
    steps = []
    for state in range(1, 4):
        final = np.array([z == state for z in range(4)])
        suse_expect.coefficients(share, arrays._replace(final=final), table, exponent, 2)
        steps.append(table[1, 0] + 5 * table[1, 1] + 10 * table[1, 2] + 15 * table[1, 3])
    assert steps == pytest.approx([7.75, 13.0, 15.75])


def test_skip_till_next_moves_partial_matches() -> None:
    machine = machine_of("A (B* C)* D", fork=False)
    summary = StateSummary(machine, math.inf)
    for time, letter in enumerate("AB"):
        summary.insert(time, machine.class_of(mask_of(machine, letter)))
    assert summary.counters == [0, 0, 1, 0]
    found = ensue.pattern("A (B* C)* D", types="kind").select("next").order_by("t")
    assert found.summarize(stream("ABBCABCD"), size=9).result()["count"] == 2


# -- ambiguity, exactness --------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a* a*", "(a | a)", "a+ a?", "(a | a a)+", "(a* | a)*"])
def test_ambiguous_patterns_count_each_match_once(text: str) -> None:
    events = [(i, "a", 0) for i in range(8)]
    assert count(text, "a" * 8) == len(oracle.matches(text, events, 100))


def test_unambiguous_patterns_too_large_to_determinise() -> None:
    text, letters = "(a | b)* a (a | b){8}", "abbaabababba"
    events = [(i, letter, 0) for i, letter in enumerate(letters)]
    assert count(text, letters) == len(oracle.matches(text, events, 100))


def test_an_event_of_several_labels_is_several_mappings() -> None:
    found = ensue.pattern("a b").define(a="x > 0", b="x < 5").select("any")
    assert found.summarize(pa.table({"x": [1, 2, 9, 3]}), size=9).result()["count"] == 4


def test_counts_beyond_128_bits_are_exact() -> None:
    assert count("a b* c", "a" + "b" * 98 + "c") == 2**98
    letters = "a" + "b" * 3_000 + "c"
    summary = query("a b* c").summarize(stream(letters), size=4_000)
    assert summary.result()["count"] == 2**3_000
    assert summary.contribution()["matches"].to_pylist()[1] == str(2**2_999)
    i = 2_048
    words = "A" * i + "B" * i + "C" * i + "D" * i
    assert (
        query("A B C D", len(words)).summarize(stream(words), size=len(words)).result()["count"]
        == i**4
    )


def test_sums_are_exact() -> None:
    table = stream("abc", v=[0.1, 0.2, 0.3])
    result = query("a b c").summarize(table, size=3, total="sum(v)").result()
    assert result["sum"] == math.fsum([0.1, 0.2, 0.3])
    decimals = pa.array([Decimal("0.10"), Decimal("0.20"), Decimal("0.35")], pa.decimal128(5, 2))
    summary = query("a b c").summarize(stream("abc", v=decimals), size=3, total="sum(c.v)")
    assert summary.result()["sum"] == Decimal("0.35")
    assert summary.result()["min"] == Decimal("0.35")


# -- selection -------------------------------------------------------------------------------------


def random_stream(seed: int, letters: str, length: int) -> pa.Table:
    chance = random.Random(seed)
    return stream("".join(chance.choice(letters) for _ in range(length)))


@pytest.mark.parametrize("select", ["benefit", "present", "fifo", "random"])
@pytest.mark.parametrize("policy", ["any", "next"])
def test_result_is_that_of_the_retained_events(select: str, policy: str) -> None:
    found = ensue.pattern("a (b* c)* d", types="kind").select(policy).order_by("t").within(9)
    table = random_stream(3, "abcdx", 400)
    summary = found.summarize(size=12, select=select)
    for begin in range(0, 400, 37):
        summary.insert(table.slice(begin, 37))
        kept = summary.events()
        assert kept.num_rows <= 12
        fresh = found.summarize(kept, size=100)
        assert summary.result() == fresh.result()
        assert summary.contribution().equals(fresh.contribution())
    metrics = summary.metrics
    assert metrics.rows == 400 and metrics.kept == 12
    assert metrics.removed + metrics.discarded + metrics.kept + metrics.irrelevant == 400


def test_present_scores_are_contributions() -> None:
    found = query("a (b* c)* d (e | f) g*", 20)
    summary = found.summarize(size=30, select="present").insert(random_stream(5, "abcdefg", 300))
    store = summary._stores[()]
    shares = [int(x) for x in summary.contribution()["matches"].to_pylist()]
    assert store.ranked()[0].tolist() == pytest.approx(shares)
    settled = int(store.numbers[kernel.SETTLED])
    assert settled > 0
    # What was settled incrementally, through all removals, is what a fresh sweep gives.
    live = StateSummary(machine_of("a (b* c)* d (e | f) g*"), 20)
    for time, event_class in zip(store.times.tolist(), store.classes.tolist(), strict=True):
        live.insert(time, event_class)
    live.advance(int(store.levels[kernel.LATEST]))
    final = live.machine.automaton.final
    closed = [sum(x for x, f in zip(e.closed, final, strict=True) if f) for e in live.elements]
    assert store.past.tolist() == pytest.approx(closed)


def test_sum_benefit_prefers_large_values() -> None:
    values = [1, 1, 100, 1, 1, 1]
    found = query("a b", 100)
    summary = found.summarize(stream("aaaaab", v=values), size=3, total="sum(v)", select="present")
    assert 100 in summary.events()["v"].to_pylist()


def test_benefit_beats_the_baselines() -> None:
    found = query("a (b* c)* d (e | f) g*", 60)
    table = random_stream(11, "abcdefg", 3_000)
    counts = {
        select: found.summarize(table, size=80, select=select).result()["count"]
        for select in ("benefit", "fifo", "random")
    }
    assert counts["benefit"] > 10 * max(counts["fifo"], counts["random"], 1)


def test_probabilities_given_and_learned_agree_on_a_steady_stream() -> None:
    table = random_stream(13, "abc", 2_000)
    share = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    given = query("a b* c", 30).summarize(table, size=20, probabilities=share)
    learned = query("a b* c", 30).summarize(table, size=20)
    shares = learned._selection.tables().probability
    assert shares.tolist() == pytest.approx([1 / 3] * 3, abs=0.05)
    assert given.result()["count"] > 0 and learned.result()["count"] > 0


def test_learned_probabilities_follow_a_drift() -> None:
    summary = query("a b* c", 30).summarize(size=20)
    summary.insert(stream("ab" * 4_000))
    summary.insert(stream("bc" * 40_000, list(range(8_001, 88_001))))
    share = summary._selection.tables().probability
    assert share[0] < 0.01 and share[2] == pytest.approx(0.5, abs=0.02)


def test_huge_counts_are_still_ranked() -> None:
    summary = query("a b* c").summarize(size=1_500)
    summary.insert(stream("a" + "b" * 1_600 + "cc"))
    store = summary._stores[()]
    assert store.numbers[kernel.RESCALED] > 0
    assert np.isfinite(store.ranked()[0]).all()
    assert summary.metrics.kept == 1_500 and "a" in summary.events()["kind"].to_pylist()


def test_time_windows_use_the_rate_of_arrivals() -> None:
    found = query("a b* c", 500)
    letters = random_stream(17, "abc", 800)["kind"].to_pylist()
    slow = pa.table({"kind": letters, "t": [10 * i for i in range(800)]})
    quick = pa.table({"kind": letters, "t": list(range(800))})
    share = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    by_rate = found.summarize(slow, size=20, probabilities=share).events()["t"].to_pylist()
    by_rows = query("a b* c", 50).summarize(quick, size=20, probabilities=share)
    assert by_rate == [10 * t for t in by_rows.events()["t"].to_pylist()]


def test_windows_of_rows_and_of_float_time() -> None:
    letters = "axbxc"
    assert count("a b c", letters, "5 rows") == 1
    assert count("a b c", letters, "4 rows") == 0
    table = pa.table({"kind": list("abc"), "t": [0.0, 0.1, 0.3]})
    assert query("a b c", 0.3).summarize(table, size=3).result()["count"] == 1
    assert query("a b c", 0.29).summarize(table, size=3).result()["count"] == 0


# -- keys, budget, equality ------------------------------------------------------------------------


def keyed(length: int, keys: int, seed: int) -> pa.Table:
    chance = random.Random(seed)
    return pa.table(
        {
            "user": [chance.randrange(keys) for _ in range(length)],
            "kind": [chance.choice("abcd") for _ in range(length)],
            "t": list(range(length)),
        }
    )


def test_one_summary_per_key() -> None:
    table = keyed(300, 4, 1)
    found = query("a b* c", 40).partition_by("user")
    summary = found.summarize(table, size=1_000)
    for user in range(4):
        part = table.filter(pa.compute.equal(table["user"], user))
        assert summary.result()[user] == query("a b* c", 40).summarize(part, size=999).result()
    assert summary.count() == sum(r["count"] for r in summary.result().values())


def test_budget_over_all_keys() -> None:
    table = keyed(600, 5, 2)
    summary = query("a b* c", 40).partition_by("user").summarize(size=50, budget=60)
    for begin in range(0, 600, 50):
        summary.insert(table.slice(begin, 50))
        assert summary.events().num_rows <= 60
    assert summary.count() > 0 and summary.metrics.keys == 5


@pytest.mark.parametrize("text", ["a b c", "a b* c*", "a (b | c)* d"])
def test_equal_attributes_on_some_labels(text: str) -> None:
    for seed in range(6):
        chance = random.Random(seed)
        letters = [chance.choice("abcd") for _ in range(9)]
        users = [chance.choice("xyz") for _ in range(9)]
        table = stream("".join(letters), user=users)
        summary = query(text, 7).summarize(table, size=20, equal={"user": ["b", "c"]})
        events = [(i, letter, 0) for i, letter in enumerate(letters, 1)]
        found = [
            match
            for match in oracle.matches(text, events, 7)
            if len({users[i] for i, label in match if label in "bc"}) <= 1
        ]
        assert summary.result()["count"] == len(found)
        shares = [sum(i == j for match in found for j, _ in match) for i in range(9)]
        held = dict(zip(summary.events()["t"].to_pylist(), range(99), strict=False))
        given = summary.contribution()["matches"].to_pylist()
        assert [given[held[i + 1]] if i + 1 in held else 0 for i in range(9)] == shares


def test_equal_attributes_under_pressure() -> None:
    chance = random.Random(4)
    table = stream(
        "".join(chance.choice("abc") for _ in range(200)),
        user=[chance.choice("xyz") for _ in range(200)],
    )
    found = query("a b* c", 30)
    summary = found.summarize(table, size=15, equal={"user": ["b", "c"]})
    kept = summary.events()
    assert kept.num_rows == 15
    fresh = found.summarize(kept, size=50, equal={"user": ["b", "c"]})
    assert summary.result() == fresh.result()
    assert summary.contribution().equals(fresh.contribution())


# -- stored state ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"select": "random"}, {"equal": {"user": ["b", "c"]}}])
def test_a_restored_summary_goes_on_as_if_nothing_happened(options: dict[str, Any]) -> None:
    table = keyed(500, 3, 7)
    found = query("a b* c", 40)
    found = found if options.get("equal") else found.partition_by("user")
    whole = found.summarize(size=25, **options).insert(table.slice(0, 250))
    restored = found.summarize(size=25, **options).restore(whole.snapshot())
    assert restored.result() == whole.result()
    assert restored.events().equals(whole.events())
    whole.insert(table.slice(250))
    restored.insert(table.slice(250))
    assert restored.events().equals(whole.events())
    assert restored.result() == whole.result()


def test_an_empty_summary_can_be_stored() -> None:
    found = query("a b")
    restored = found.summarize(size=5).restore(found.summarize(size=5).snapshot())
    assert restored.insert(stream("ab")).result() == {"count": 1}


def test_a_foreign_snapshot_is_refused() -> None:
    blob = query("a b").summarize(stream("ab"), size=5).snapshot()
    with pytest.raises(errors.StateError, match="another query"):
        query("a c").summarize(size=5).restore(blob)
    with pytest.raises(errors.StateError, match="damaged"):
        query("a b").summarize(size=5).restore(b"junk")


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: query("a b").summarize(size=0), errors.QueryError, "positive number"),
        (lambda: query("a b c").summarize(size=2), errors.QueryError, "shortest match of 3"),
        (lambda: query("a b", 0).summarize(size=5), errors.QueryError, "window of 0"),
        (lambda: query("a b c", "2 rows").summarize(size=5), errors.QueryError, "shortest match"),
        (
            lambda: query("a b").summarize(size=5, probabilities={"z": 1.0}),
            errors.UnknownVariableError,
            "'z'",
        ),
        (
            lambda: query("a b").summarize(size=5, probabilities={"a": 0.5, "b": 0.6}),
            errors.QueryError,
            "sum to 1.1",
        ),
        (lambda: query("a b").summarize(size=5, select="best"), errors.QueryError, "'best'"),
        (lambda: query("a b").summarize(size=5, total="median(v)"), errors.EnsueError, "median"),
        (lambda: query("a b").summarize(size=5, budget=0), errors.QueryError, "at least 1"),
        (
            lambda: query("a b").summarize(size=5, equal={"user": ["z"]}),
            errors.UnknownVariableError,
            "'z'",
        ),
        (
            lambda: ensue.pattern("a b", types="kind").summarize(size=5),
            errors.UnsupportedError,
            "consecutive rows",
        ),
        (
            lambda: ensue.pattern("a b").define(b="x > a.x").select("any").summarize(size=5),
            errors.UnsupportedError,
            "other events",
        ),
        (lambda: query("a b").summarize(stream("ab"), size=5, total="sum(w)"),
         errors.UnknownColumnError, "'w'"),
        (lambda: query("a b").summarize(stream("ab"), size=5, total="sum(kind)"),
         errors.ColumnTypeError, "string"),
        (lambda: query("a b").summarize(stream("ab", v=[1, None]), size=5, total="sum(v)"),
         errors.DataError, "row 1 is None"),
        (lambda: query("a b").summarize(stream("ab", v=[1.0, math.nan]), size=5, total="sum(v)"),
         errors.DataError, "row 1 is nan"),
        (lambda: query("a b", 5).summarize(stream("abc", [1, 3, 2]), size=5),
         errors.DataError, "row 2 of its key: t 2 after 3"),
        (lambda: query("a b", 5).summarize(stream("ab", [1, None]), size=5),
         errors.DataError, "null in row 1"),
        (lambda: query("a b").summarize(size=5).insert(7), errors.UnsupportedInputError, "int"),
    ],
)  # fmt: skip
def test_bad_input(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_time_may_not_go_backwards_between_inserts() -> None:
    summary = query("a b", 5).summarize(stream("ab", [5, 6]), size=5)
    with pytest.raises(errors.DataError, match="t 4 after 6"):
        summary.insert(stream("a", [4]))


def test_time_may_not_go_backwards_without_a_window_either() -> None:
    summary = query("a b").summarize(stream("ab", [5, 6]), size=5)
    with pytest.raises(errors.DataError, match="t 4 after 6"):
        summary.insert(stream("a", [4]))
    restored = query("a b").summarize(size=5).restore(summary.snapshot())
    with pytest.raises(errors.DataError, match="t 4 after 6"):
        restored.insert(stream("a", [4]))


def test_letters_that_the_pattern_does_not_have_are_skipped() -> None:
    summary = query("a b", 9).summarize(stream("axbyz"), size=5)
    assert summary.result()["count"] == 1 and summary.metrics.irrelevant == 3
    assert summary.events()["kind"].to_pylist() == ["a", "b"]
