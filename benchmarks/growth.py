"""Growth: shapes of row patterns over one partition of 1,000 to 1,000,000 rows.

An exponent of 1 is linear. A run that would take longer than `PATIENCE` by the growth so far is
left out, so the shapes that cost a square show it at their smaller sizes.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import ensue
from benchmarks.harness import Measurement, Target, report
from benchmarks.rows import Settings

SIZES = (1_000, 10_000, 100_000, 1_000_000)
PATIENCE = 10.0  # CPU seconds


@dataclass(frozen=True)
class Shape:
    pattern: str
    define: dict[str, str]
    within: str | None = None
    limit: float = 1.5  # of the exponent: more than n log n, less than a square

    @property
    def name(self) -> str:
        conditions = ", ".join(f"{name}: {text}" for name, text in self.define.items())
        return f"{self.pattern}  {conditions}" + (f"  within {self.within}" if self.within else "")


SHAPES = (
    Shape("A B+ C+", {"B": "price < PREV(price)", "C": "price > PREV(price)"}),
    Shape("A+", {"A": "A.price >= AVG(A.price)"}),
    Shape("A B* C", {"C": "price > A.price * 1.5"}),
    Shape("A B* C", {"B": "price < A.price", "C": "price > A.price * 1.05"}, limit=2.1),
    Shape(
        "(A+)+ B",
        {"A": "price >= FIRST(A.price)", "B": "price > FIRST(A.price) * 2"},
        limit=2.1,
    ),
    Shape("A B* C", {"C": "user = A.user AND price < 0"}),
    Shape("A B* C", {"C": "user = A.user AND price > PREV(price) * 2"}, "100 rows"),
    Shape("A B* C", {"C": "user = A.user + A.price"}, limit=2.1),
    Shape("A B* C", {"C": "price > AVG(B.price) * 2"}, limit=2.1),
)


def run_growth(settings: Settings) -> bool:
    """growth: CPU seconds of shapes of row patterns at ten and a hundred times the rows"""
    found, targets = [], []
    for shape in SHAPES:
        seconds = _measured(shape, settings.repeat)
        exponent = math.log10(seconds[-1] / max(seconds[-2], 1e-3))
        targets.append(Target(f"{shape.name}: exponent", exponent, shape.limit))
        for size, second in zip(SIZES, seconds, strict=False):
            found.append(Measurement(f"{shape.name}, {size:,} rows", size, [second], [second], [0]))
    return report("growth of row patterns", found, targets, "growth", compared=False)


def _measured(shape: Shape, repeat: int) -> list[float]:
    query = ensue.pattern(shape.pattern).define(**shape.define).order_by("t", ties="ignore")
    if shape.within is not None:
        query = query.within(shape.within)
    query = query.measures(n="COUNT(*)")
    warnings.simplefilter("ignore", ensue.errors.NothingMatchesWarning)
    query.matches(_ticks(100))
    seconds: list[float] = []
    for size in SIZES:
        if len(seconds) > 1 and seconds[-1] * 10**shape.limit > PATIENCE:
            break
        ticks, runs = _ticks(size), []
        for _ in range(repeat if not seconds or seconds[-1] < 1 else 1):
            begin = time.process_time()
            query.matches(ticks)
            runs.append(time.process_time() - begin)
        seconds.append(min(runs))
    return seconds


def _ticks(rows: int) -> pa.Table:
    random = np.random.default_rng(7)
    price = 100 * np.exp(np.cumsum(random.normal(0, 0.0002, rows)))
    user = random.integers(0, 1 << 40, rows)
    return pa.table({"t": np.arange(rows), "price": price, "user": user})
