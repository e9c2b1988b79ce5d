"""The default selection is never below a simpler one: the worst setting is held, not a mean.

A full summary takes a new event only in the place of another. An expectation that forgets this
keeps starts and drops what completes them, and answers 0 where any other rule finds matches.
Counts span many orders of magnitude, so that means are of log2(1 + count).
"""

from __future__ import annotations

import itertools
import math
import random
import re
from typing import Any

import numpy as np
import pytest

from ensue.summary.kernels import expect as suse_expect
from tests.unit.test_summary import query, random_stream, stream

# Streams of each setting, and how far below another rule their mean may be, besides twice the
# standard error: a fifth of the matches.
STREAMS, NOISE = 3, 0.25


def levels(text: str, letters: str, window: int, size: int, select: str) -> list[float]:
    """By stream, the mean of log2(1 + count) over moments of the stream."""
    found = []
    for seed in range(STREAMS):
        table = random_stream(100 + seed, letters, 8 * window)
        summary = query(text, window).summarize(size=size, select=select)
        logs = []
        for begin in range(0, table.num_rows, 2 * window):
            summary.insert(table.slice(begin, 2 * window))
            logs.append(math.log2(1 + summary.result()["count"]))
        found.append(sum(logs) / len(logs))
    return found


@pytest.mark.parametrize("seed", range(16))
def test_a_leading_loop_keeps_what_completes_it(seed: int) -> None:
    table = random_stream(seed, "ab", 4_000)
    counts = {
        select: query("a+ b", 200).summarize(table, size=20, select=select).result()["count"]
        for select in ("benefit", "present", "fifo")
    }
    assert counts["benefit"] >= max(counts["present"], counts["fifo"]) > 0
    # The most that twenty events have: nineteen a's, then a b.
    assert 2**15 < counts["benefit"] <= 2**19 - 1


def test_a_full_summary_of_starts_takes_what_completes_them() -> None:
    summary = query("a+ b", 200).summarize(stream("a" * 60 + "b"), size=20)
    assert summary.result()["count"] == 2**19 - 1


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("a+ b", "ab"),
        ("a+ b", "abxyz"),
        ("a+ b", "aaaaaaaab"),
        ("a+ b c", "aaaaaabc"),
        ("a* b c", "abc"),
        ("a b* c", "abc"),
        ("(a | b)+ c d", "abcd"),
        ("a (b* c)* d (e | f) g*", "abcdefg"),
        ("a* c (a | b)* c* a", "abcx"),
    ],
)
def test_no_setting_is_below_a_simpler_rule(text: str, letters: str) -> None:
    window = 60
    for ratio in (0.1, 0.25, 0.5, 1.0, 3.0):
        size = max(int(ratio * window), 6)
        ours = levels(text, letters, window, size, "benefit")
        for other in ("present", "fifo"):
            theirs = levels(text, letters, window, size, other)
            lead = np.array(ours) - np.array(theirs)
            noise = NOISE + 2 * lead.std(ddof=1) / math.sqrt(len(lead))
            assert lead.mean() > -noise, (ratio, other, lead)


@pytest.mark.parametrize("ratio", [1.25, 1.5])
def test_a_plain_sequence_of_rare_ends_is_above_present(ratio: float) -> None:
    """A bit more than a window fits: hopes of rare ends must not evict matches that are there."""
    window, lead = 100, []
    for seed in range(32):
        letters = random.Random(seed).choices("abcd", [1, 1 / 2, 1 / 3, 1 / 4], k=12 * window)
        table, logs = stream("".join(letters)), {"benefit": 0.0, "present": 0.0}
        for select in logs:
            summary = query("a b c d", window).summarize(size=int(ratio * window), select=select)
            for begin in range(0, table.num_rows, 2 * window):
                summary.insert(table.slice(begin, 2 * window))
                logs[select] += math.log2(1 + summary.result()["count"]) / 6
        lead.append(logs["benefit"] - logs["present"])
    assert np.mean(lead) > 2 * np.std(lead, ddof=1) / math.sqrt(len(lead)), lead


def test_kept_and_remaining_events_never_exceed_the_summary() -> None:
    chance = random.Random(5)
    for _ in range(2_000):
        shares = np.array([chance.random() for _ in range(3)])
        shares /= shares.sum() * chance.choice([1, 2, 5])
        size, reach = chance.randint(1, 500), chance.uniform(1, 2_000)
        held = suse_expect.windows_held(size, reach, shares)
        steps = int(reach * suse_expect.claim(held, shares))
        assert steps <= size
        others = chance.randint(0, size)
        share = suse_expect.remaining(size, steps, others, True)
        assert 0 <= share <= 1 and steps + share * others <= size + 1e-9
        if held >= 1:
            # Everything of a window fits: the paper's expectation, and nobody has to go.
            assert steps == int(reach * shares.sum())
            assert suse_expect.remaining(size, steps, min(others, size - steps), True) == 1


def _scored(text: str, held: str, share: float, weight: Any) -> list[float]:
    """By event of `held`: Σ over its prefixes-as-sets of share^(others) × weight(word)."""
    accept = re.compile(text.replace(" ", ""))
    scores = [0.0] * len(held)
    for size in range(1, len(held) + 1):
        for chosen in itertools.combinations(range(len(held)), size):
            word = "".join(held[i] for i in chosen)
            value = share ** (size - 1) * weight(accept, word)
            for i in chosen:
                scores[i] += value
    return scores


def test_scores_are_present_matches_and_expected_ones_of_what_remains() -> None:
    """Against all subsets: two steps ahead, `a+ b`, every word of two kept events enumerated."""
    held, size, window = "aababa", 6, 1_000
    share = {"a": 0.5, "b": 0.5}
    summary = query("a+ b", window).summarize(stream(held), size=size, probabilities=share)
    store = summary._stores[()]
    found = store.ranked()[0]
    # The claim of what is to come, in kept events, for starts of every age here: all but the same.
    there, hoped = np.zeros(len(held)), np.zeros(len(held))
    for first in range(len(held)):
        part = held[first:]
        passed = len(held) - (first + 1)
        claimed = suse_expect.claim(
            suse_expect.windows_held(size, window, np.array([0.5, 0.5])), np.array([0.5, 0.5])
        )
        steps = int((window - passed) * claimed + 0.5)
        left = suse_expect.remaining(size, steps, len(part) - 1, True)

        def completed(accept: Any, word: str, steps: int = steps) -> float:
            total = 0.0
            for more in range(1, steps + 1):
                for tail in itertools.product("ab", repeat=more):
                    if accept.fullmatch(word + "".join(tail)):
                        total += math.comb(steps, more) * 0.5**more
            return total

        def starting(accept: Any, word: str) -> float:
            return float(bool(accept.fullmatch(word)))

        for weight, kept, scores in ((starting, 1.0, there), (completed, left, hoped)):
            both = _scored("a+ b", part, kept, weight)
            rest = _scored("a+ b", part[1:], kept, weight)
            # Sets that contain the first event: all sets less those of the rest.
            own = [x - y for x, y in zip(both, [0.0, *rest], strict=True)]
            scores[first:] += own
    # What may come weighs at most half of what is there, by the event that has most of either.
    hoped *= min(1.0, there.max() / 2 / hoped.max())
    assert found.tolist() == pytest.approx((there + hoped).tolist())
