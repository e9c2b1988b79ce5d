"""Row patterns under a bound (Figure 6): SHARP, baselines, and what no choice can exceed.

    ./dev bench sharp-figure6 [--data DIR]

Work is start rows tried, per pattern. Other measures were considered. Counting a start row that is
tried for both patterns once would be false, as each pattern is matched by itself; only row-local
conditions are shared. Counting rows stepped would lower what can be reached: with a window of a
day, a start row of the city's table steps over 10.0 rows on average, one that matches over 13.3. A
start row gives at most one match of a pattern, so with m matches and s start rows, no choice at a
share b of the work finds more than b s / m of them.

Baselines keep to the same share of start rows: RS tries random ones; SS those of the pattern that
matches more often first; RI drops rows at random, DARLING those of least utility (type and time of
day, learned on the first fifth); ICDE'20 drops half as many by utility, and of the start rows left
tries those of the best class (pattern and time of day). What is found falsely does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from benchmarks import sharp_data as data
from benchmarks.harness import say
from ensue.api.pattern import Pattern

Ids = set[tuple[object, ...]]
TRAINING, _BINS = 0.2, 8
SHARES = (10, 30, 50, 70, 90)


def ids(found: pa.Table) -> Ids:
    """Matches by the rows of A, B and the last event: which rows lie between does not matter."""
    columns = [found.column(name).to_pylist() for name in ("pattern", "a", "b", "z")]
    return set(zip(*columns, strict=True))


class Rows:
    """A table, its exact answer, and what baselines learn from its first part."""

    def __init__(self, patterns: Mapping[str, Pattern], table: pa.Table) -> None:
        self.patterns, self.table = patterns, table
        self.load = ensue.workload(patterns)
        self.exact = ids(self.load.matches(table, ensue.Budget(work=1e9)))
        assert self.load.report is not None
        self.work, self.seconds = self.load.report.work, self.load.report.seconds
        kind = np.array(table.column("type").to_pylist())
        edges = np.quantile(table.column("X").to_numpy(), np.arange(1, _BINS) / _BINS)
        self._time = np.searchsorted(edges, table.column("X").to_numpy())
        self._is_start = kind == "A"
        self._random = np.random.default_rng(1)
        first = int(TRAINING * table.num_rows)
        codes = np.unique(kind, return_inverse=True)[1] * _BINS + self._time
        used = np.zeros(codes.max() + 1)
        self._rate = {name: np.zeros(_BINS) for name in patterns}
        for name, *events in self.exact:
            begin = int(str(events[0]))
            if int(str(events[-1])) < first:
                np.add.at(used, codes[np.array(events, np.int64)], 1.0)
                self._rate[str(name)][self._time[begin]] += 1.0
        seen = np.bincount(codes[:first], minlength=len(used))
        noise = 1e-9 * self._random.random(len(codes))
        self._utility = (used / np.maximum(seen, 1))[codes] + noise
        for name in patterns:
            tried = np.bincount(self._time[:first][self._is_start[:first]], minlength=_BINS)
            self._rate[name] /= np.maximum(tried, 1)

    def most(self, share: float) -> float:
        return min(1.0, share / 100 * self.work / len(self.exact))

    def sharp(self, share: float, past: pa.Table | None) -> tuple[float, int, float]:
        """Recall, false matches, and the time as a share of the unbounded run's."""
        bound = ensue.Budget(work=share / 100 * self.work / self.table.num_rows)
        found = ids(self.load.matches(self.table, bound, history=past))
        assert self.load.report is not None
        recall = len(found & self.exact) / len(self.exact)
        return recall, len(found - self.exact), self.load.report.seconds / self.seconds

    def baselines(self, share: float) -> dict[str, float]:
        part = share / 100
        draws = self._random.random(self.table.num_rows)
        random_rows = draws < part
        return {
            "RS": self._of_starts({name: draws for name in self.patterns}, part),
            "SS": self._of_starts({n: draws - self._overall(n) for n in self.patterns}, part),
            "RI": self._of_rows(random_rows, 1.0),
            "DARLING": self._of_rows(self._useful(part), 1.0),
            "ICDE'20": self._of_rows(self._useful(0.5 + part / 2), part / (0.5 + part / 2)),
        }

    def _overall(self, name: str) -> float:
        """More than a draw for the pattern that matches more often, so that it comes first."""
        return 2.0 * sum(match[0] == name for match in self.exact) / len(self.exact)

    def _useful(self, part: float) -> np.ndarray:
        """Start rows up to a part, by utility; of other rows those that were ever used."""
        least = np.quantile(self._utility[self._is_start], 1 - part)
        return np.where(self._is_start, self._utility >= least, self._utility > 1e-6)

    def _of_starts(self, cost: Mapping[str, np.ndarray], part: float) -> float:
        """Recall where the cheapest pairs of pattern and start row are tried."""
        every = np.concatenate([cost[name][self._is_start] for name in self.patterns])
        limit = np.quantile(every, part)
        hits = sum(cost[str(name)][int(str(events[0]))] <= limit for name, *events in self.exact)
        return hits / len(self.exact)

    def _of_rows(self, keep: np.ndarray, part: float) -> float:
        """Recall over the rows kept, with a part of their start rows by class."""
        found = ids(self.load.matches(self.table.filter(pa.array(keep)))) & self.exact
        if part < 1.0:
            noise = 1e-6 * self._random.random(len(keep))
            cost = {name: noise - self._rate[name][self._time] for name in self.patterns}
            starts = keep & self._is_start
            limit = np.quantile(np.concatenate([cost[n][starts] for n in self.patterns]), part)
            found = {m for m in found if cost[str(m[0])][int(str(m[1]))] <= limit}
        return len(found) / len(self.exact)


def tables(folder: str | None, rows: int, seed: int, past: int) -> tuple[pa.Table, pa.Table]:
    """Rows and a history of as many: of the city (the rows before), or made up."""
    if folder is None:
        return data.crimes_like(rows, seed), data.crimes_like(rows, past)
    whole = data.crimes(folder, 2 * rows)
    rest = whole.slice(rows)
    numbered = rest.set_column(0, "t", pa.array(np.arange(rest.num_rows)))
    return numbered, whole.slice(0, rows)


def figure(table: pa.Table, past: pa.Table, shares: Sequence[int] = SHARES) -> list[dict[str, Any]]:
    """System, share and recall for a window of a day; throughput of ours alone."""
    lines: list[dict[str, Any]] = []
    rows = Rows(data.q5_q6(), table)
    say(f"{table.num_rows:,} rows, {len(rows.exact):,} matches, {rows.work:,} start rows")
    for share in shares:
        recall, wrong, time = rows.sharp(share, past)
        say(
            f"SHARP    bound {share:3}%  recall {recall:6.1%}  (none above "
            f"{rows.most(share):6.1%})  throughput x{1 / time:5.2f}  false {wrong}"
        )
        lines.append({"system": "SHARP", "x": share, "recall": recall, "throughput": 1 / time})
        lines.append({"system": "the best possible", "x": share, "recall": rows.most(share)})
        for name, other in rows.baselines(share).items():
            say(f"{name:8} bound {share:3}%  recall {other:6.1%}")
            lines.append({"system": name, "x": share, "recall": other})
    return lines
