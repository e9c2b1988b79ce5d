"""DuckDB's shapes of MATCH_RECOGNIZE (benchmark/micro/match_recognize) as patterns of ours.

Of its 24, all but the measures over a wide JSON payload and one of three over crimes; those over
crimes and quotes are asked of generated rows here. Each runs over 100,000 and 1,000,000 rows in
process; told are the rate, and the exponent of growth between the two. Where DuckDB's repository
names the number of matches, ours has to be the same. No wheel of DuckDB has the clause so far, so
that it does not run beside; three times that were published for it, on a Mac of 16 cores, are
shown in wall seconds.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import ensue
from benchmarks.harness import Measurement, Target, report
from benchmarks.rows import Settings

SIZES = (100_000, 1_000_000)
_LIMIT = 1.3  # of the exponent
_REPEATS = 50
Numbers = NDArray[np.int64]
Columns = Callable[[Numbers, Numbers], dict[str, Numbers]]  # of a row's number and its hash


@dataclass(frozen=True)
class Shape:
    name: str
    columns: Columns
    pattern: str
    define: dict[str, str]
    key: str | None = None
    after: str = "skip past last row"
    subset: dict[str, list[str]] | None = None
    rows: str = "one row"
    matches: int | None = None  # of a million rows, as DuckDB's repository has it
    published: str = ""

    def query(self) -> ensue.Pattern:
        query = ensue.pattern(self.pattern).define(**self.define).order_by("i")
        if self.key is not None:
            query = query.partition_by(self.key)
        for name, members in (self.subset or {}).items():
            query = query.subset(**{name: members})
        return query.after_match(self.after).rows_per_match(self.rows).measures(n="COUNT(*)")


def _fifths(i: Numbers, _: Numbers) -> dict[str, Numbers]:
    return {"v": i % 5, "p": i // 100}


def _hundreds(_: Numbers, h: Numbers) -> dict[str, Numbers]:
    return {"v": h % 100}


def _mixed(_: Numbers, h: Numbers) -> dict[str, Numbers]:
    """As above, but neighbouring rows do not depend on each other."""
    return {"v": h * h % 999_983 % 100}


def _visits(i: Numbers, _: Numbers) -> dict[str, Numbers]:
    return {"p": i // 10, "v": i % 4}


def _legs(i: Numbers, h: Numbers) -> dict[str, Numbers]:
    leg, turn = i // 25, i % 25
    return {"v": 100 + (leg % 7) * 2 - abs(turn - 12) * (1 + leg % 3) + h % 3}


def _spans(i: Numbers, h: Numbers) -> dict[str, Numbers]:
    begin = i * 2 + h % 3
    return {"s": begin, "e": begin + 1 + h % 4}


FALLS = {
    "D": "v < PREV(v)",
    "E": "v < PREV(v)",
    "U": "v > PREV(v)",
    "W": "v > PREV(v)",
    "F": "v > D.v",
}
SHAPES = (
    Shape("scan", _fifths, "A B", {"A": "v = 0", "B": "v = 1"}, published="2 M: 0.146"),
    Shape("partitions", _fifths, "A B", {"A": "v = 0", "B": "v = 1"}, "p", published="2 M: 0.057"),
    Shape("navigation", lambda i, h: {"v": i * 2654435761 % 1000}, "A B+", {"B": "v > LAST(A.v)"},
          published="200 k: 0.055"),
    Shape("quantifier", lambda i, h: {"v": i % 17}, "A+ B+ A+", {"A": "v < 12", "B": "v >= 12"},
          rows="all rows"),
    Shape("aggregate in DEFINE", _hundreds, "A+", {"A": "v >= AVG(A.v)"}),
    Shape("bin packing", lambda i, h: {"p": i // 1000, "w": 1 + h % 9}, "(X | {- R -})+",
          {"X": "SUM(X.w) <= 20"}, "p", matches=1_000),
    Shape("merge ranges", _spans, "J* L", {"J": "NEXT(J.s) <= MAX(J.e)"}, matches=285_650),
    Shape("shoulders", _legs, "S UP+ DOWN+ UP2+ DOWN+ UP+ DOWN2+",
          {"UP": "v > PREV(v)", "DOWN": "v < PREV(v)", "UP2": "v > MAX(UP.v)",
           "DOWN2": "v < MIN(DOWN.v)"}, matches=4_919),
    Shape("skip to a union", lambda i, h: {"v": h % 5}, "S (DN | SAME)+ (UP | SAME)+",
          {"DN": "v < PREV(v)", "UP": "v > PREV(v)", "SAME": "v = PREV(v)"},
          after="skip to last UPS", subset={"UPS": ["UP", "SAME"]}, matches=456_677),
    Shape("alternation", lambda i, h: {"v": h // 7 % 5}, "(A|B) (C|D)",
          {"A": "v = 0", "B": "v = 1", "C": "v = 2", "D": "v = 3"}, after="skip to next row"),
    Shape("sequence of repeats", _mixed, "A{3,} B{2}", {"A": "v < 40", "B": "v > 70"}),
    Shape("V with a relative end", _mixed, "S D E+ U+ W F", FALLS,
          after="skip to last F"),
    Shape("funnel of two", _visits, "(A B) | A", {"A": "v = 0", "B": "v = 1"}, "p"),
    Shape("funnel of three", _visits, "A B C", {"A": "v = 0", "B": "v = 1", "C": "v = 2"}, "p"),
    Shape("sessions", lambda i, h: {"p": i // 1000, "at": i * 10 + i // 50 * 1000}, "A B*",
          {"B": "at - PREV(at) <= 100"}, "p"),
    Shape("streaks", lambda i, h: {"p": i // 1000, "v": h % 1000}, "A B*",
          {"B": "v > PREV(v)"}, "p"),
    Shape("1 % can start", _mixed, "A B{2}", {"A": "v < 1", "B": "v < 50"}),
    Shape("50 % can start", _mixed, "A B{2}", {"A": "v < 50", "B": "v < 50"}),
    Shape("99 % can start", _mixed, "A B{2}", {"A": "v < 99", "B": "v < 50"}),
    Shape("no match after long runs", lambda i, h: {"v": i % 3000 // 1000}, "A+ B+ C+ D",
          {"A": "v = 0", "B": "v = 1", "C": "v = 2", "D": "v = 9"}),
    Shape("loop in a loop, no match", lambda i, h: {"v": i * 0}, "(A+)+ B",
          {"A": "v = 0", "B": "v = 1"}),
    Shape("optional before mandatory", lambda i, h: {"p": i // _REPEATS, "v": i * 0},
          f"(A?){{{_REPEATS}}} A{{{_REPEATS}}}", {"A": "v = 0"}, "p"),
)  # fmt: skip


def run_shapes(settings: Settings) -> bool:
    """shapes: DuckDB's shapes of MATCH_RECOGNIZE, rate and growth from 100,000 to 1,000,000 rows"""
    warnings.simplefilter("ignore", ensue.errors.NothingMatchesWarning)
    found, targets = [], []
    for shape in SHAPES:
        query = shape.query()
        query.matches(_rows(shape, 1_000))
        seconds, counts = [], []
        for size in SIZES:
            table = _rows(shape, size)
            begin = time.process_time()
            counts.append(len(query.matches(table)))
            seconds.append(time.process_time() - begin)
        exponent = math.log10(seconds[1] / max(seconds[0], 1e-3))
        measured = Measurement(shape.name, SIZES[1], [seconds[1]], [seconds[1]], [0])
        measured.notes = {"matches": f"{counts[1]:,}", "growth": f"{exponent:.2f}"}
        measured.notes["DuckDB, wall s"] = shape.published
        found.append(measured)
        if seconds[1] > 0.2:  # below it is the call that takes the time
            targets.append(Target(f"{shape.name}: exponent", exponent, _LIMIT))
        if shape.matches is not None:
            same = float(counts[1] == shape.matches)
            targets.append(
                Target(f"{shape.name}: DuckDB's {shape.matches:,} matches", same, 1, False)
            )
    return report("DuckDB's shapes", found, targets, "shapes", compared=False)


def _rows(shape: Shape, size: int) -> pa.Table:
    i = np.arange(size, dtype=np.int64)
    return pa.table({"i": i, **shape.columns(i, i * 2654435761 % 1_000_003)})


COMMANDS = {"shapes": run_shapes}
