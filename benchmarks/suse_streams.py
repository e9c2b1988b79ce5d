"""Streams, triggers and measures of the SuSe experiments (§7.1), shared by all its figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import ensue

QUERY = "a (b* c)* d (e | f) g*"
LETTERS = "abcdefg"


def letters(count: int, alphabet: Sequence[str], shape: str, seed: int) -> np.ndarray[Any, Any]:
    """Indices into the alphabet, drawn uniform, Zipfian or normal."""
    return np.random.default_rng(seed).choice(len(alphabet), count, p=shares(len(alphabet), shape))


def shares(count: int, shape: str) -> Any:
    ranks = np.arange(count)
    weight = {
        "uniform": np.ones(count),
        "zipf": 1.0 / (ranks + 1),
        "normal": np.exp(-0.5 * ((ranks - (count - 1) / 2) / (count / 4)) ** 2),
    }[shape]
    return weight / weight.sum()


def table(drawn: np.ndarray[Any, Any], alphabet: Sequence[str]) -> pa.Table:
    kinds = pa.DictionaryArray.from_arrays(pa.array(drawn, pa.int32()), pa.array(list(alphabet)))
    return pa.table({"kind": kinds.dictionary_decode(), "t": np.arange(1, len(drawn) + 1)})


def query(text: str, window: int) -> Any:
    return ensue.pattern(text, types="kind").select("any").order_by("t").within(window)


def triggers(length: int, count: int, seed: int, process: str = "uniform") -> list[int]:
    """Moments at which the result is asked for, as numbers of events seen."""
    chance = np.random.default_rng(seed)
    if process == "poisson":
        gaps = chance.exponential(length / (count + 1), count)
        return sorted({int(x) for x in np.cumsum(gaps) if 1 <= x <= length})
    return sorted({int(x) for x in chance.integers(1, length + 1, count)})


@dataclass
class Run:
    """Matches at each trigger, matches ever complete, seconds of CPU, and the summary itself."""

    counts: list[int]
    detected: float
    seconds: float
    summary: Any


def feed(
    text: str,
    events: pa.Table,
    size: int,
    window: int,
    select: str,
    asked: Sequence[int] = (),
    **options: Any,
) -> Run:
    """The events through a summary, stopping at the triggers."""
    summary = query(text, window).summarize(size=size, select=select, **options)
    counts, seconds, begin = [], 0.0, 0
    for stop in [*asked, events.num_rows]:
        clock = time.process_time()
        if stop > begin:
            summary.insert(events.slice(begin, stop - begin))
        seconds += time.process_time() - clock
        begin = stop
        if len(counts) < len(asked):
            counts.append(summary.count())
    return Run(counts, summary.metrics.detected, seconds, summary)


def improvement(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Relative recall improvement: the mean ratio, a baseline of no match counted as one."""
    ratios = [a / max(b, 1) for a, b in zip(ours, theirs, strict=True) if a or b]
    return float(np.mean(ratios)) if ratios else 1.0


def recall(ours: Sequence[int], truth: Sequence[int]) -> float:
    shares_found = [a / b for a, b in zip(ours, truth, strict=True) if b]
    return float(np.mean(shares_found)) if shares_found else 1.0
