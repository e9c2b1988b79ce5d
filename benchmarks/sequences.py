"""Event patterns: flat in the window, without listing, and against engines that hold every run."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from benchmarks import flink_cep, sharp_data
from benchmarks.harness import Target, compare, report
from ensue.sequences import counts as sequence_counts
from ensue.sequences import evaluator as sequences
from ensue.sequences import totals as sequence_totals

LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
PATTERN = "A ->> B ->> C ->> D"


def events(rows: int, kinds: int = 26, seed: int = 1) -> pa.Table:
    chosen = np.random.default_rng(seed).integers(0, kinds, rows)
    return pa.table({"id": np.arange(rows), "kind": pa.array(LETTERS[chosen])})


def run_window(settings: Any) -> bool:
    """sequences: A ->> B ->> C ->> D over 1 M events of 26 types, the window growing."""
    rows = settings.rows or 1_000_000
    table = events(rows)
    pattern = ensue.pattern(PATTERN, types="kind").order_by("id")
    sequence_counts.THREADS = 1
    variants = {
        f"count, window {window:,}": (rows, lambda w=window: pattern.within(w).count(table))
        for window in (100, 1_000, 10_000)
    }
    variants["list 100,000 matches, window 10,000"] = (
        rows,
        lambda: len(pattern.within(10_000).matches(table, limit=100_000)),
    )
    found = compare(variants, repeat=settings.repeat, warm_up=1)
    for measured in found:
        measured.notes["matches"] = f"{measured.answer:,}"
    targets = [
        Target("events per CPU second, window 10,000", found[2].rate, 1e6, at_most=False),
        Target("window 10,000 against 100", found[2].cpu_median / found[0].cpu_median, 2.0),
    ]
    return report(f"{PATTERN}, {rows:,} events, one core", found, targets, "sequences-window")


def run_explosion(settings: Any) -> bool:
    """sequences-explosion: A ->> B+ ->> C on 10,000 events, 10^1000 matches counted exactly."""
    rows = settings.rows or 10_000
    middle = ["B", "X", "X"] * (rows // 3)
    kinds = ["A", *middle[: rows - 2], "C"]
    table = pa.table({"id": np.arange(len(kinds)), "kind": kinds})
    pattern = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("id")
    found = compare(
        {"count": (rows, lambda: pattern.count(table))}, repeat=settings.repeat, warm_up=1
    )
    found[0].notes["digits"] = len(str(found[0].answer))
    assert found[0].answer == 2 ** kinds.count("B") - 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    targets = [
        Target("digits of the count", len(str(found[0].answer)), 1000, at_most=False),
        Target("CPU seconds", found[0].cpu_median, 5),
        Target("peak MB of this process", peak, 500),
    ]
    return report("A ->> B+ ->> C, 10,000 events", found, targets, "sequences-explosion")


def run_peers(settings: Any) -> bool:
    """sequences-peers: A ->> B ->> C with 10^6 matches, here, in FlinkCEP and run by run."""
    rows = settings.rows or 20_000
    table, window = events(rows), 1_400
    letters = "".join(table.column("kind").to_pylist())
    dicts = table.to_pylist()
    pattern = ensue.pattern("A ->> B ->> C", types="kind").order_by("id").within(window)
    found = compare(
        {
            "Ensue, count": (rows, lambda: pattern.count(table)),
            "Ensue, list": (rows, lambda: len(pattern.matches(table))),
            "one run per match": (rows, lambda: len(run_by_run(dicts, "ABC", window))),
        },
        repeat=1,
        warm_up=1,
    )
    if flink_cep.available():
        found.append(flink_cep.run(letters, window))
    answers = {measured.answer for measured in found}
    assert len(answers) == 1, f"the engines disagree: {answers}"
    for measured in found:
        measured.notes["matches"] = f"{measured.answer:,}"
    listing = found[1].cpu_median
    targets = [
        Target(f"{m.name} against Ensue, list", m.cpu_median / listing, 50, at_most=False)
        for m in found[2:]
    ]
    return report(f"A ->> B ->> C, {rows:,} events", found, targets, "sequences-peers")


def run_correlated(settings: Any) -> bool:
    """sequences-correlated: conditions on the match so far, compiled and in plain Python."""
    rows = settings.rows or 4_000
    chooser = np.random.default_rng(3)
    table = pa.table(
        {
            "id": np.arange(rows),
            "kind": pa.array(LETTERS[chooser.integers(0, 4, rows)]),
            "user": chooser.integers(0, 200, rows),
            "x": chooser.random(rows),
        }
    )
    same = {"B": "user = A.user", "C": "user = A.user"}
    asked = {
        "same user": ensue.pattern("A ->> B ->> C", types="kind").define(**same).within(2_000),
        "x > A.x": ensue.pattern("A ->> B", types="kind").define(B="x > A.x").within(100),
    }
    good = True
    for name, pattern in asked.items():
        ordered = pattern.order_by("id")
        found = compare(
            {
                "compiled": (rows, lambda p=ordered: len(p.matches(table))),
                "plain Python": (rows, lambda p=ordered: _in_python(p, table)),
            },
            repeat=1,
            warm_up=1,
        )
        assert found[0].answer == found[1].answer
        ratio = found[1].cpu_median / found[0].cpu_median
        targets = [Target("plain Python against compiled", ratio, 10, at_most=False)]
        where = f"sequences-correlated-{name.split()[0]}"
        good &= report(f"{name}, {rows:,} events", found, targets, where)
    return good


def run_totals(settings: Any) -> bool:
    """sequences-totals: counts and sums of SHARP's Q3 and Q4, and of a loop."""
    rows = settings.rows or 10_000
    table = sharp_data.ds1(rows, 77)
    asked = {n: (q.measures(), table) for n, q in sharp_data.q3_q4(1_500).items()}
    chosen = events(rows, 5).append_column("V", table["V"])
    loop = ensue.pattern("A ->> B+ ->> C", types="kind").order_by("id").within(60)
    good = True
    for name, (pattern, data) in {**asked, "A ->> B+ ->> C": (loop, chosen)}.items():
        label = "b" if name in asked else "B"

        def totals(p: Any = pattern, d: Any = data, b: str = label) -> list[Any]:
            return p.aggregate(d, n="count(*)", s=f"sum({b}.V)").to_pylist()

        variants = {"aggregate": (rows, totals), "aggregate, plain Python": (rows, _added(totals))}
        if name in asked:
            variants["list"] = (rows, lambda p=pattern, d=data: len(p.matches(d)))
        found = compare(variants, repeat=1, warm_up=1)
        assert found[0].answer == found[1].answer
        ratio = found[1].cpu_median / found[0].cpu_median
        targets = [Target("plain Python against compiled", ratio, 10, at_most=False)]
        if name in asked:
            share = found[0].cpu_median / found[2].cpu_median
            targets.append(Target("aggregate against list", share, 2))
        kept = f"sequences-totals-{name[:2].strip()}"
        good &= report(f"{name}, {rows:,} events", found, targets, kept)
    return good


def _added(totals: Any) -> Any:
    """The same in plain Python."""

    def run() -> Any:
        compiled = sequence_totals.Totals._compiled
        sequence_totals.Totals._compiled = lambda *given: None
        try:
            return totals()
        finally:
            sequence_totals.Totals._compiled = compiled

    return run


def _in_python(pattern: ensue.Pattern, table: pa.Table) -> int:
    compiled = sequences.event_machine
    sequences.event_machine = lambda *given: "left out, to compare"
    try:
        return len(pattern.matches(table))
    finally:
        sequences.event_machine = compiled


def run_by_run(events: list[dict[str, Any]], labels: str, window: int) -> list[dict[str, Any]]:
    """What engines without sharing do: every partial match is a record of its own.

    As OpenCEP does, any chain of steps is taken, each step asks its condition of a run and an
    event, and a match is written with its events.
    """
    steps = [(label, lambda run, event, kind=label: event["kind"] == kind) for label in labels]
    waiting: list[list[list[tuple[str, dict[str, Any]]]]] = [[] for _ in steps]
    found = []
    for event in events:
        for runs in waiting[1:]:
            runs[:] = [run for run in runs if event["id"] - run[0][1]["id"] <= window]
        for place in range(len(steps) - 1, -1, -1):
            label, holds = steps[place]
            runs = waiting[place] if place else [[]]
            longer = [[*run, (label, event)] for run in runs if holds(run, event)]
            if place + 1 < len(steps):
                waiting[place + 1].extend(longer)
                continue
            for run in longer:
                pairs = [{"label": name, "row": taken["id"]} for name, taken in run]
                found.append({"first": run[0][1]["id"], "last": event["id"], "events": pairs})
    return found


COMMANDS = {
    "sequences": run_window,
    "sequences-explosion": run_explosion,
    "sequences-peers": run_peers,
    "sequences-correlated": run_correlated,
    "sequences-totals": run_totals,
}
