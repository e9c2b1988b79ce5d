"""Random workloads whose patterns are easily confused: equal definitions, and what reads them.

A case is a table and patterns over it, event patterns (`case`) or row patterns with some event
patterns among them (`row_case`); `exact` is the answer of each pattern by itself, by brute force.
Variables of a pattern often have one definition, patterns have prefixes in common, and conditions
read any of the variables before them, so that a plan that takes one label for another gives false
matches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from ensue.api.pattern import Pattern
from ensue.api.workload import Workload
from ensue.shared.options import Sharing
from tests import oracle, oracle_sequences

NAMES = "abcdef"
PLAIN = ("x > 0", "x > 0", "0 < x", "k = 'A'", "x <= 3 AND k = 'B'", "k <> 'C'", "x = 2 OR x > 3")
Matches = dict[str, list[tuple[object, ...]]]


@dataclass(frozen=True)
class Case:
    """Patterns by name over a table of streams, one per partition."""

    table: pa.Table
    patterns: dict[str, Pattern]

    def exact(self) -> Matches:
        """Per pattern (partition, pairs) of each match."""
        return {name: self._exact(pattern) for name, pattern in self.patterns.items()}

    def _exact(self, pattern: Pattern) -> list[tuple[object, ...]]:
        rows = self.table.to_pylist()
        if pattern.query.row_semantics:
            found = oracle.run(pattern.query, rows, self.table.column_names).rows
            return sorted((match["u"], _pairs(match)) for match in found)
        parts: dict[object, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            parts[row["u"]].append(row)
        return sorted(
            (key, pairs)
            for key, part in parts.items()
            for pairs in oracle_sequences.matches(pattern.query, part)
        )

    def shuffled(self, rng: np.random.Generator) -> dict[str, Pattern]:
        names = list(self.patterns)
        return {names[i]: self.patterns[names[i]] for i in rng.permutation(len(names))}

    def __str__(self) -> str:
        told = "\n".join(f"{name}: {p}" for name, p in self.patterns.items())
        return f"{told}\n{self.table.to_pydict()}"


def shared(patterns: Mapping[str, Pattern] | None = None, **named: Any) -> Workload:
    """By the shared plan, whatever is cheaper: `weights` and `Sharing`'s options, or patterns."""
    options = {name: named.pop(name) for name in ("weights", "seed", "share", "by_ratio", "rank")
               if name in named}  # fmt: skip
    return Workload({**(patterns or {}), **named}, Sharing(merge=False, **options))


def case(seed: int, rows: int = 11, streams: int = 5, budget: bool = False) -> Case:
    """Up to so many rows in each of up to so many streams; for a budget, patterns that take one."""
    rng = np.random.default_rng([seed, 7])
    table = _table(rng, rows, int(rng.integers(1, streams + 1)))
    window = rng.choice(["time", "rows", "none", "mixed"], p=[0.6, 0.1, 0.1, 0.2])
    pool = [str(p) for p in rng.choice(PLAIN, int(rng.integers(1, 4)))]
    patterns: dict[str, Pattern] = {}
    for number in range(int(rng.integers(1, 5))):
        own = str(rng.choice(["time", "rows", "none"])) if window == "mixed" else str(window)
        patterns[f"q{number}"] = _pattern(rng, pool, own, budget)
    return Case(table, patterns)


def row_case(seed: int, rows: int = 11, streams: int = 5, budget: bool = False) -> Case:
    """As `case`, of row patterns, half of the time with event patterns beside them."""
    rng = np.random.default_rng([seed, 8])
    table = _table(rng, rows, int(rng.integers(1, streams + 1)))
    pool = [str(p) for p in rng.choice(PLAIN, int(rng.integers(1, 4)))]
    mixed = 0.4 if rng.random() < 0.5 else 0.0
    patterns: dict[str, Pattern] = {}
    for number in range(int(rng.integers(1, 5))):
        if number and rng.random() < mixed:
            window = str(rng.choice(["time", "rows", "none"]))
            patterns[f"q{number}"] = _pattern(rng, pool, window, budget)
        else:
            patterns[f"q{number}"] = _row_pattern(rng, pool, budget)
    return Case(table, patterns)


def _row_pattern(rng: np.random.Generator, pool: list[str], budget: bool) -> Pattern:
    """Under a budget one that takes a row at least, whose matches do not depend on each other."""
    names = list(NAMES[: int(rng.integers(1, 5))])
    if rng.random() < 0.2:
        names = [str(n) for n in rng.permutation(names)]
    define: dict[str, str] = {}
    steps: list[str] = []
    for place, name in enumerate(names):
        define[name] = _definition(rng, pool, name, names[:place])
        if rng.random() < 0.2:
            define[name] += str(rng.choice([" AND x >= PREV(x)", " AND x < NEXT(x)"]))
        step, shape = name, rng.random()
        if shape < 0.45:
            step += str(rng.choice(["+", "*", "?", "{2}", "{1,2}", "+?", "*?", "??", "{1,}?"]))
        elif shape < 0.65:
            other = name + "z"
            define[other] = _definition(rng, pool, other, names[:place])
            kinds = [f"({name} | {other})", f"({other} | {name})+", f"PERMUTE({name}, {other})"]
            kinds += [f"({name} {other}?)+", f"{name}* {{- {other} -}}"]
            step = str(rng.choice(kinds))
        steps.append(step)
    if budget:
        define["g"] = str(rng.choice(pool))
        steps.insert(int(rng.integers(0, len(steps) + 1)), "g")
    pattern = ensue.pattern(" ".join(steps)).define(**define).partition_by("u").order_by("t")
    skip = "to next row" if budget or rng.random() < 0.5 else "past last row"
    pattern = pattern.after_match(skip)
    window = rng.random()
    if window < 0.3:
        return pattern.within(int(rng.integers(2, 14)))
    return pattern.within(f"{int(rng.integers(2, 9))} rows") if window < 0.5 else pattern


def _table(rng: np.random.Generator, rows: int, streams: int) -> pa.Table:
    """Streams as partitions, mixed; each is in order."""
    sizes = rng.integers(2, rows + 1, streams)
    least = 0 if rng.random() < 0.2 else 1  # whether times may be equal
    times = [np.cumsum(rng.integers(least, 3, size)).tolist() for size in sizes]
    mixed = rng.permutation(np.repeat(np.arange(streams), sizes))
    return pa.table(
        {
            "t": [times[stream].pop(0) for stream in mixed],
            "u": mixed,
            "k": rng.choice(list("ABC"), len(mixed)),
            "x": rng.integers(0, 6, len(mixed)),
        }
    )


def _pattern(rng: np.random.Generator, pool: list[str], window: str, budget: bool) -> Pattern:
    chain = rng.random() < 0.5  # the shape that is also cut and shared at other places
    steps = int(rng.integers(2, 6 if chain else 5))
    names = list(NAMES[:steps])
    if rng.random() < 0.2:
        names = [str(n) for n in rng.permutation(names)]
    if rng.random() < 0.1:
        names[-1] = names[0]
    text, before, define = "", [], {}
    for place, name in enumerate(names):
        joint = " ->> " if chain or rng.random() < 0.6 else str(rng.choice([" -> ", " ", " ->> "]))
        step, shape = name, 1.0 if chain else rng.random()
        if name not in define:
            define[name] = _definition(rng, pool, name, before)
        if shape < 0.2:
            step = name + str(rng.choice(["+", "{2}", "?", "{1,2}", "*"]))
        elif shape < 0.3:
            other = name + "z"
            define[other] = _definition(rng, pool, other, before)
            step = f"({name} | {other})"
        elif shape < 0.45 and place:
            last = place == len(names) - 1
            hidden = "n" + name
            define[hidden] = _definition(rng, pool, hidden, before)
            around = " -> " if joint == " " else joint
            if last and window == "time":
                step = f"{name}{around}!{hidden}"
            else:
                step = f"!{hidden}{around}{name}"
            joint = around
        text += (joint if place else "") + step
        before.append(name)
    if "->" not in text:
        text += " ->> g"
        define["g"] = _definition(rng, pool, "g", before)
    pattern = ensue.pattern(text)
    if len(before) > 2 and rng.random() < 0.15:
        pattern = pattern.subset(s=tuple(dict.fromkeys(before[:2])))
        define[names[-1]] = str(rng.choice(pool)) + " AND x >= LAST(s.x)"
    pattern = pattern.define(**define).partition_by("u").order_by("t")
    if rng.random() < 0.1:
        pattern = pattern.without(w=str(rng.choice(pool)) + " AND x = 5")
    if not budget and rng.random() < 0.1:
        pattern = pattern.after_match(str(rng.choice(["past last row", "to next row"])))
    if window == "time":
        return pattern.within(int(rng.integers(2, 14)))
    if window == "rows":
        return pattern.within(f"{int(rng.integers(2, 9))} rows")
    return pattern


def _definition(rng: np.random.Generator, pool: list[str], name: str, before: list[str]) -> str:
    plain = str(rng.choice(pool))
    read = str(rng.choice(before)) if before else name
    kinds = [
        "", "", "", f"x > {read}.x", f"x > {read}.x", f"{read}.x < x", f"x <> {read}.x",
        f"x + {read}.x > 4", f"SUM({read}.x) > x", f"COUNT({read}.*) < 3", f"x >= FIRST({read}.x)",
        "COUNT(*) < 5", "x >= FIRST(x)", "MAX(x) = x", f"x >= LAST({name}.x, 1)",
        f"AVG({read}.x) <= x", f"x > {read}.x AND k <> {read}.k",
    ]  # fmt: skip
    kind = str(rng.choice(kinds)) if before else str(rng.choice(["", "", "", "COUNT(*) < 3"]))
    if not kind:
        return plain
    return f"{plain} AND {kind}" if rng.random() < 0.8 else kind


def listed(found: pa.Table) -> Matches:
    """Per pattern (partition, pairs) of each match."""
    by_name: Matches = defaultdict(list)
    for match in found.to_pylist():
        by_name[match["pattern"]].append((match["u"], _pairs(match)))
    return {name: sorted(matches) for name, matches in by_name.items()}


def _pairs(match: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple((e["label"], e["row"]) for e in match["events"])


def alone(name: str, pattern: Pattern, table: pa.Table) -> list[tuple[object, ...]]:
    found = pattern.matches(table, as_of=None if pattern.query.row_semantics else "end")
    named = found.append_column("pattern", pa.array([name] * found.num_rows, pa.string()))
    return listed(named).get(name, [])
