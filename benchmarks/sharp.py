"""SHARP's experiments (Figures 4 to 6 and 8 to 15): recall and throughput under bounds, with plots.

    python -m benchmarks.sharp --figure 4 --events 10000 --window 1500
    python -m benchmarks.sharp --figure 5 --data DIR   (Citi Bike; Figure 6: Chicago's crimes)

A bound is a share of the work of the unbounded run in the same process: partial matches asked about
an event, or start rows tried. Throughput is events per CPU second of matching, as a multiple of the
unbounded run; the inside column says in how many windows of 1,000 events the average kept to the
bound.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import sharp_data as data
from benchmarks import sharp_rows
from benchmarks.sharp_baselines import BASELINES, Outcome, run
from ensue.api.pattern import Pattern
from ensue.automaton.share import unite
from ensue.operator.arrange import arrange
from ensue.operator.budget import Budget
from ensue.operator.protocol import Events
from ensue.run import local
from ensue.shared.evaluator import SharedEvaluator
from ensue.shared.groups import groups
from ensue.shared.kernels.layout import CHECK, LEARN
from ensue.shared.options import Sharing

OUT = Path(__file__).parent / "out"
SHARES = (10, 30, 50, 70, 90)
PAST = 1000  # added to a seed: the stream that SHARP's cost model has learned from
Line = tuple[str, float, float, float]  # system, x, recall, throughput


def sharp(
    patterns: Mapping[str, Pattern], table: pa.Table, work: float, past: pa.Table | None = None
) -> Outcome:
    return run(patterns, table, work, history=past)


def compare(
    patterns: Mapping[str, Pattern],
    table: pa.Table,
    shares: Sequence[float],
    systems: Sequence[str],
    x: float | None = None,
    past: pa.Table | None = None,
) -> list[Line]:
    """Recall and throughput of each system at each bound; `past` is SHARP's historical data."""
    exact = run(patterns, table, None)
    needed = exact.report.work / table.num_rows
    print(
        f"  {table.num_rows:,} events, {len(exact.matches):,} matches, work {needed:.1f} per event"
    )
    lines = []
    for share in shares:
        for name in systems:
            bound = needed * share / 100
            if name == "SHARP":
                outcome = sharp(patterns, table, bound, past)
            else:
                outcome = BASELINES[name](patterns, table, bound)
            found = outcome.matches & exact.matches
            wrong = len(outcome.matches) - len(found)
            recall = len(found) / max(1, len(exact.matches))
            speed = exact.report.seconds / max(outcome.report.seconds, 1e-9)
            used = outcome.report.work / max(1.0, exact.report.work)
            print(
                f"  {name:8} bound {share:3g}%  recall {recall:6.1%}  throughput x{speed:5.2f}  "
                f"work used {used:6.1%}" + (f"  false {wrong}" if wrong else "")
            )
            lines.append((name, share if x is None else x, recall, speed))
    return lines


def inside(
    patterns: Mapping[str, Pattern], table: pa.Table, share: float, past: pa.Table | None = None
) -> float:
    """In how many windows of 1,000 events the average work kept to the bound."""
    (group,) = groups({n: p.query for n, p in patterns.items()}, table.column_names, None)
    union = unite(group.queries)
    prepared = local.prepare(union.plan, table)
    query = union.plan.query
    arranged, starts = arrange(prepared, query.partition_by, query.order_by)

    def work(budget: Budget | None) -> np.ndarray:
        evaluator = SharedEvaluator(union, Sharing())
        evaluator.keep_work = True
        evaluator.open(union.plan, arranged.schema, budget)
        if past is not None:
            rows, begins = arrange(
                local.prepare(union.plan, past), query.partition_by, query.order_by
            )
            evaluator.learn(Events(rows, begins, np.ones(len(begins) - 1, np.bool_)))
        for _ in evaluator.found(Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))):
            pass
        return evaluator.engine.work[0]

    bound = share / 100 * work(None).mean()
    averages = np.convolve(work(Budget(work=bound)), np.ones(1000) / 1000, "valid")
    return float((averages <= bound).mean())


def inside_time(
    patterns: Mapping[str, Pattern], table: pa.Table, share: float, past: pa.Table
) -> float:
    """In how many windows of 1,000 events the average CPU time kept to a share of the history's."""
    evaluator, events = _taught(patterns, table, Budget(latency=f"{share}%"), past)
    control = evaluator.engine.controller
    bound = share / 100 * control.needed_seconds
    spent: list[np.ndarray] = []
    measured = control.measured

    def noted(rows: int, work: int, seconds: float, partials: Any) -> None:
        spent.append(np.full(rows, seconds / max(1, rows)))
        measured(rows, work, seconds, partials)

    control.measured = noted  # type: ignore[method-assign]
    for _ in evaluator.found(events):
        pass
    averages = np.convolve(np.concatenate(spent), np.ones(1000) / 1000, "valid")
    return float((averages <= bound).mean())


def learning(patterns: Mapping[str, Pattern], table: pa.Table, rounds: int = 7) -> float:
    """CPU time of learning and checking, as a share of the same evaluation without them."""
    ratios = []
    for _ in range(rounds):
        seconds = []
        for on in (False, True):
            evaluator, events = _taught(patterns, table, Budget(work=1e9), None)
            if not on:
                evaluator.engine.controller.knobs[[LEARN, CHECK]] = 0.0
            for _ in evaluator.found(events):
                pass
            seconds.append(evaluator.engine.seconds)
        ratios.append(seconds[1] / seconds[0])
    return float(np.median(ratios)) - 1


def _taught(
    patterns: Mapping[str, Pattern], table: pa.Table, budget: Budget, past: pa.Table | None
) -> tuple[SharedEvaluator, Events]:
    """An evaluator under the budget that has seen the history, and the events to come."""
    (group,) = groups({n: p.query for n, p in patterns.items()}, table.column_names, None)
    union = unite(group.queries)
    query = union.plan.query

    def events(rows: pa.Table) -> Events:
        arranged, starts = arrange(
            local.prepare(union.plan, rows), query.partition_by, query.order_by
        )
        return Events(arranged, starts, np.ones(len(starts) - 1, np.bool_))

    coming = events(table)
    evaluator = SharedEvaluator(union, Sharing())
    evaluator.open(union.plan, coming.table.schema, budget)
    if past is not None:
        evaluator.learn(events(past))
    return evaluator, coming


# -- figures -------------------------------------------------------------------------------------

ALL = ("SHARP", *BASELINES)


def figure_4(a: argparse.Namespace) -> list[Line]:
    table, patterns = data.ds1(a.events, a.seed), data.q3_q4(a.window)
    past = data.ds1(a.events, a.seed + PAST)
    lines = compare(patterns, table, SHARES, ALL, past=past)
    for share in (10, 50):
        print(f"  windows inside the {share}% bound: {inside(patterns, table, share, past):.1%}")
    return lines


def figure_5(a: argparse.Namespace) -> list[Line]:
    if a.data is None:
        print("  needs --data with Citi Bike trips")
        return []
    return compare(data.q3_q4(a.window), data.citi_bike(a.data, a.events), SHARES, ALL)


def figure_6(a: argparse.Namespace) -> list[Line]:
    """Row patterns: whole start rows are shed."""
    table, past = sharp_rows.tables(a.data, a.events * 10, a.seed, a.seed + PAST)
    return sharp_rows.figure(table, past)


def figure_8(a: argparse.Namespace) -> list[Line]:
    return compare(
        data.q3_q4(a.window), data.ds1(a.events, a.seed), SHARES, ("SHARP", "ICDE'20", "RS")
    )


def figure_9(a: argparse.Namespace) -> list[Line]:
    lines = []
    for highest in (1e6, 3e6, 5e6, 7e6, 9e6):
        print(f"  max(v) = {highest:.0e}")
        table = data.ds1(a.events, a.seed, highest)
        lines += compare(data.q3_q4(a.window), table, (50,), ALL, highest / 1e6)
    return lines


def figure_10(a: argparse.Namespace) -> list[Line]:
    lines = []
    for length in (4, 5, 6, 7, 8):
        print(f"  length {length}")
        patterns = data.kleene(a.window, length)
        lines += compare(patterns, data.ds1(a.events, a.seed), (50,), ALL, length)
    return lines


def figure_11(a: argparse.Namespace) -> list[Line]:
    lines = []
    for window in (250, 500, 1000, 2000, 4000):
        print(f"  window {window}")
        asked = {"b": "X > a.X", "d": "b.X + c.X < X"}
        patterns = {
            "Q3": data.chain("abcde", window, asked),
            "Q4": data.chain("abcdf", window, asked),
        }
        lines += compare(patterns, data.ds2(a.events, a.seed), (50,), ALL, window)
    return lines


def figure_12(a: argparse.Namespace) -> list[Line]:
    table, patterns = data.ds1(a.events, a.seed), data.q3_q4(a.window)
    exact = run(patterns, table, None)
    needed = exact.report.work / table.num_rows
    lines = []
    for share in SHARES:
        for mode, shared in (("view", True), ("separate", False)):
            outcome = run(patterns, table, needed * share / 100, share=shared)
            recall = len(outcome.matches & exact.matches) / len(exact.matches)
            speed = exact.report.seconds / outcome.report.seconds
            print(f"  {mode:9} bound {share:3}%  recall {recall:6.1%}  throughput x{speed:5.2f}")
            lines.append((f"SHARP-{mode}", share, recall, speed))
    return lines


def figure_14(a: argparse.Namespace) -> list[Line]:
    lines = []
    for offset in range(4):
        print(f"  offset {offset}")
        patterns = data.offset_queries(a.window, offset)
        lines += compare(patterns, data.ds1(a.events, a.seed), (50,), ("SHARP", "RS", "RI"), offset)
    return lines


def figure_15(a: argparse.Namespace) -> list[Line]:
    """Recall per stretch of 500 events around the drift at 9,000."""
    lines = []
    for window in (500, 1000, 1500):
        table = data.ds1(14_000, a.seed, drift_at=9000)
        patterns = data.q3_q4(window)
        exact = run(patterns, table, None)
        work = 0.5 * exact.report.work / table.num_rows
        found = run(patterns, table, work).matches
        for begin in range(8000, 14_000, 500):
            want = {m for m in exact.matches if begin <= int(str(m[-1])) < begin + 500}
            recall = len(want & found) / max(1, len(want))
            print(f"  window {window}: events {begin}+  recall {recall:6.1%} of {len(want)}")
            lines.append((f"window {window}", begin, recall, 1.0))
    return lines


FIGURES = {
    4: figure_4, 5: figure_5, 6: figure_6, 8: figure_8, 9: figure_9, 10: figure_10,
    11: figure_11, 12: figure_12, 14: figure_14, 15: figure_15,
}  # fmt: skip


def plot(number: int, lines: list[Line]) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for name in dict.fromkeys(line[0] for line in lines):
        mine = [line for line in lines if line[0] == name]
        panels[0].plot([m[1] for m in mine], [100 * m[2] for m in mine], marker="o", label=name)
        panels[1].plot([m[1] for m in mine], [m[3] for m in mine], marker="o", label=name)
    panels[0].set(title=f"Figure {number}: recall (%)", ylim=(0, 105))
    panels[1].set(title="throughput (unbounded = 1)")
    panels[0].legend(fontsize=7)
    OUT.mkdir(exist_ok=True)
    path = OUT / f"sharp_figure_{number}.png"
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=int, nargs="*", choices=sorted(FIGURES), default=[4])
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--window", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="folder with Citi Bike trips or Chicago's crimes")
    parsed = parser.parse_args(arguments)
    for number in parsed.figure:
        print(f"Figure {number}")
        lines = FIGURES[number](parsed)
        if lines:
            print(f"  {plot(number, lines)}")


if __name__ == "__main__":
    main()
