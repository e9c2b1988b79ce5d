"""How many attempts reach each variable of a pattern, and where and why they stop.

Counted from the answers per start row: parts where the rows are, then one sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa

from ensue.query.query import Query
from ensue.why.account import CONSUMED, ORDER

TALLIES = pa.schema([("variable", pa.string()), ("reason", pa.string()), ("attempts", pa.int64())])
FUNNEL = pa.schema(
    [
        ("place", pa.int64()),
        ("variable", pa.string()),
        ("reached", pa.int64()),
        ("reason", pa.string()),
        ("stopped", pa.int64()),
    ]
)
Counts = Counter[tuple[str | None, str | None]]


def tallies(starts: pa.Table) -> pa.Table:
    """Counts by variable and reason: of those that stopped; without a reason, that matched it.

    Without a variable: of those that matched as a whole.
    """
    counts: Counts = Counter()
    columns = [starts.column(name).to_pylist() for name in ("matched", "variable", "reason")]
    for matched, variable, reason in zip(*columns, strict=True):
        if reason == CONSUMED:
            continue
        counts.update((name, None) for name in set(matched))
        if reason is None:
            counts[None, None] += 1
        elif variable is not None:
            counts[variable, reason] += 1
    rows = [(*key, count) for key, count in counts.items()]
    columns = [[row[i] for row in rows] for i in range(3)]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, TALLIES, strict=True)], TALLIES)


def variables(query: Query) -> list[str]:
    """What a funnel of a pattern has rows of."""
    return [label for label in query.labels if label not in query.unseen]


def funnel(shown: Sequence[str], parts: Iterable[pa.Table]) -> pa.Table:
    """One row per variable and reason, in their order; the last is of the matches."""
    counts: Counts = Counter()
    for part in parts:
        for row in part.to_pylist():
            counts[row["variable"], row["reason"]] += row["attempts"]
    others = sorted({name for name, _ in counts if name is not None and name not in shown})
    rows: list[tuple[int, str | None, int, str | None, int]] = []
    names = [*(n for n in others if n == "^"), *shown, *(n for n in others if n != "^")]
    for place, name in enumerate(names, 1):
        reasons: list[str | None] = [reason for reason in ORDER if counts[name, reason]]
        for reason in reasons or [None]:
            stopped = counts[name, reason] if reason else 0
            rows.append((place, name, counts[name, None], reason, stopped))
    rows.append((len(names) + 1, None, counts[None, None], None, 0))
    columns = [[row[i] for row in rows] for i in range(len(FUNNEL))]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, FUNNEL, strict=True)], FUNNEL)
