"""Many row patterns over one table on Spark: one pass for all, against one run for each.

The patterns are funnels with thresholds of their own, some with a condition on the row before; a
few of them are run alone, and their mean times the number of patterns is what all would cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ensue
from benchmarks.harness import Target, compare, report, say
from benchmarks.rows import MILLION, Settings, _frame, _noop
from ensue.demo import data

ALONE = 4
SIZES = (100, 1_000)


def pattern(number: int) -> Any:
    """The pattern of this number: ten shapes, a threshold for each ten."""
    text = ("V C+ P", "V C P", "V+ P", "C C+ P", "V C* P", "P V C", "C{2,3} P", "V C", "V V+ P")
    found = ensue.pattern(text[number % len(text)]).partition_by("user_id").order_by("ts")
    amount, labels = number // 10, found.query.labels
    define = {"V": "kind = 'view'", "P": "kind = 'pay'"}
    define["C"] = f"kind = 'cart' AND amount > {amount}"
    if number % 10 == 9:
        define["P"] = "kind = 'pay' AND amount < PREV(amount)"
    found = found.define(**{name: text for name, text in define.items() if name in labels})
    return found.within("1 hour").measures(first="FIRST(ts)", rows="COUNT(*)")


def run_many(settings: Settings) -> bool:
    """many-rows: 100 and 1,000 row patterns over one table on Spark, in one pass"""
    rows = settings.rows or MILLION // 4
    frame = _frame(settings, "many", data.funnel(rows // 100, rows))
    met = True
    for size in SIZES:
        patterns = {f"p{number}": pattern(number) for number in range(size)}
        load = ensue.workload(patterns)
        some = [patterns[f"p{number}"] for number in range(0, size, size // ALONE)]
        variants: dict[str, tuple[int, Callable[[], Any]]] = {
            f"{len(some)} patterns, one by one": (rows, partial(_each, some, frame)),
            f"{size} patterns together": (rows, partial(_each, [load], frame)),
        }
        found = compare(variants, repeat=max(1, settings.repeat // 2), warm_up=1)
        each = found[0].cpu_median / len(some)
        ratio = found[1].cpu_median / (each * size)
        limits = [Target(f"CPU, together ÷ {size} single runs", ratio, 0.1)]
        met &= report(
            f"{size} row patterns, {rows:,} rows, on Spark", found, limits, f"many-{size}"
        )
    shared = {row["pattern"]: row["count"] for row in _counts(load, frame)}
    alone = {name: patterns[name].count(frame) for name in ("p0", "p9", "p501")}
    agree = all(shared.get(name, 0) == number for name, number in alone.items())
    say(f"counts of {', '.join(alone)}: {'equal' if agree else 'DIFFERENT'} alone and together")
    return met and agree


def _each(asked: Sequence[Any], frame: Any) -> None:
    for one in asked:
        _noop(one.matches(frame))


def _counts(load: Any, frame: Any) -> list[Any]:
    return list(load.matches(frame).groupBy("pattern").count().collect())


COMMANDS = {"many-rows": run_many}
