"""Streams, triggers and measures of the SuSe experiments (§7.1), shared by all its figures."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from benchmarks.harness import OUT

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


def write(name: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows to `out/name.csv`; returns them."""
    found = list(rows)
    OUT.mkdir(exist_ok=True)
    with (OUT / f"{name}.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(dict.fromkeys(k for row in found for k in row)))
        writer.writeheader()
        writer.writerows(found)
    return found


def plot(
    name: str,
    rows: Sequence[dict[str, Any]],
    *,
    x: str,
    y: str,
    by: Callable[[dict[str, Any]], str],
    log: bool = True,
    title: str = "",
) -> Path:
    """One line per group, markers and a dashed line at 1 as in the paper's figures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
    markers = iter("osv^Dx*P" * 8)
    for group in dict.fromkeys(by(row) for row in rows):
        mine = [row for row in rows if by(row) == group]
        xs = list(dict.fromkeys(row[x] for row in mine))
        ys = [float(np.mean([row[y] for row in mine if row[x] == value])) for value in xs]
        axes.plot([str(v) for v in xs], ys, marker=next(markers), label=group)
    if log:
        axes.set_yscale("log")
    if "improvement" in y:
        axes.axhline(1.0, color="black", linestyle="--", linewidth=1)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=9)
    axes.legend(fontsize=7)
    path = OUT / f"{name}.svg"
    figure.savefig(path)
    plt.close(figure)
    return path
