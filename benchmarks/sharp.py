"""SHARP's experiments (Figures 4 to 6 and 8 to 15): recall and throughput under bounds.

`--rows` is the length of the stream (10,000), of which a window has 15 %; Figure 5 needs `--data`
with Citi Bike's trips, Figure 6 reads Chicago's crimes there or makes a table like them. A bound is
a share of the work of the unbounded run in the same process: partial matches asked about an event,
or start rows tried. Throughput is events per CPU second of matching, as a multiple of the unbounded
run; `inside` says in how many windows of 1,000 events the average kept to the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import sharp_data as data
from benchmarks import sharp_rows
from benchmarks.harness import say, write_rows
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

SHARES = (10, 30, 50, 70, 90)
PAST = 1000  # added to a seed: the stream that SHARP's cost model has learned from
Line = dict[str, Any]  # system, x, recall, throughput


def line(system: str, x: float, recall: float, throughput: float) -> Line:
    return {"system": system, "x": x, "recall": recall, "throughput": throughput}


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
    say(f"{table.num_rows:,} events, {len(exact.matches):,} matches, work {needed:.1f} per event")
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
            say(
                f"{name:8} bound {share:3g}%  recall {recall:6.1%}  throughput x{speed:5.2f}  "
                f"work used {used:6.1%}" + (f"  false {wrong}" if wrong else "")
            )
            lines.append(line(name, share if x is None else x, recall, speed))
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
        evaluator = SharedEvaluator(union, Sharing(merge=False))
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
    evaluator = SharedEvaluator(union, Sharing(merge=False))
    evaluator.open(union.plan, coming.table.schema, budget)
    if past is not None:
        evaluator.learn(events(past))
    return evaluator, coming


# -- figures -------------------------------------------------------------------------------------

ALL = ("SHARP", *BASELINES)


@dataclass(frozen=True)
class Asked:
    """The size of a figure, and where real data lie."""

    events: int
    folder: str
    seed: int = 0

    @property
    def window(self) -> int:
        return self.events * 15 // 100

    @property
    def queries(self) -> dict[str, Pattern]:
        return data.q3_q4(self.window)

    def ds1(self, **options: Any) -> pa.Table:
        return data.ds1(self.events, self.seed, **options)


def figure_4(a: Asked) -> list[Line]:
    past = data.ds1(a.events, a.seed + PAST)
    lines = compare(a.queries, a.ds1(), SHARES, ALL, past=past)
    for share in (10, 50):
        kept = inside(a.queries, a.ds1(), share, past)
        say(f"windows inside the {share}% bound: {kept:.1%}")
    return lines


def figure_5(a: Asked) -> list[Line]:
    """Citi Bike's trips, the history being as many trips before."""
    trips = data.citi_bike(a.folder, 2 * a.events)
    numbered = trips.slice(a.events)
    numbered = numbered.set_column(0, "t", pa.array(np.arange(numbered.num_rows)))
    return compare(a.queries, numbered, SHARES, ALL, past=trips.slice(0, a.events))


def figure_6(a: Asked) -> list[Line]:
    """Row patterns: whole start rows are shed."""
    where = a.folder if data.has_crimes(a.folder) else None
    say("crimes of the city" if where else "a table with the marginals of the city's crimes")
    table, past = sharp_rows.tables(where, a.events * 10, a.seed, a.seed + PAST)
    return sharp_rows.figure(table, past)


def figure_8(a: Asked) -> list[Line]:
    past = data.ds1(a.events, a.seed + PAST)
    return compare(a.queries, a.ds1(), SHARES, ("SHARP", "ICDE'20", "RS"), past=past)


def figure_9(a: Asked) -> list[Line]:
    lines = []
    for highest in (1e6, 3e6, 5e6, 7e6, 9e6):
        past = data.ds1(a.events, a.seed + PAST, highest)
        lines += compare(a.queries, a.ds1(highest=highest), (50,), ALL, highest / 1e6, past)
    return lines


def figure_10(a: Asked) -> list[Line]:
    lines = []
    past = data.ds1(a.events, a.seed + PAST)
    for length in (4, 5, 6, 7, 8):
        lines += compare(data.kleene(a.window, length), a.ds1(), (50,), ALL, length, past)
    return lines


def figure_11(a: Asked) -> list[Line]:
    lines = []
    past = data.ds2(a.events, a.seed + PAST)
    for part in (40, 20, 10, 5):
        asked = {"b": "X > a.X", "d": "b.X + c.X < X"}
        window = a.events // part
        patterns = {
            "Q3": data.chain("abcde", window, asked),
            "Q4": data.chain("abcdf", window, asked),
        }
        lines += compare(patterns, data.ds2(a.events, a.seed), (50,), ALL, window, past)
    return lines


def figure_12(a: Asked) -> list[Line]:
    exact = run(a.queries, a.ds1(), None)
    needed = exact.report.work / a.events
    lines = []
    for share in SHARES:
        for mode, shared in (("view", True), ("separate", False)):
            outcome = run(a.queries, a.ds1(), needed * share / 100, share=shared)
            recall = len(outcome.matches & exact.matches) / len(exact.matches)
            speed = exact.report.seconds / outcome.report.seconds
            say(f"{mode:9} bound {share:3}%  recall {recall:6.1%}  throughput x{speed:5.2f}")
            lines.append(line(f"SHARP-{mode}", share, recall, speed))
    return lines


def figure_14(a: Asked) -> list[Line]:
    lines = []
    past = data.ds1(a.events, a.seed + PAST)
    for offset in range(4):
        patterns = data.offset_queries(a.window, offset)
        lines += compare(patterns, a.ds1(), (50,), ("SHARP", "RS", "RI"), offset, past)
    return lines


def figure_15(a: Asked) -> list[Line]:
    """Recall per stretch of the stream around a drift at nine fourteenths of it."""
    lines = []
    stretch = a.events // 28
    for window in (stretch, 2 * stretch, 3 * stretch):
        table = a.ds1(drift_at=18 * stretch)
        patterns = data.q3_q4(window)
        exact = run(patterns, table, None)
        work = 0.5 * exact.report.work / table.num_rows
        found = run(patterns, table, work).matches
        for begin in range(14 * stretch, 28 * stretch, stretch):
            want = {m for m in exact.matches if begin <= int(str(m[-1])) < begin + stretch}
            if not want:
                continue
            recall = len(want & found) / len(want)
            say(f"window {window}: events {begin}+  recall {recall:6.1%} of {len(want)}")
            lines.append(line(f"window {window}", begin, recall, 1.0))
    return lines


def _command(number: int, draw: Callable[[Asked], list[Line]]) -> Callable[[Any], bool]:
    def command(settings: Any) -> bool:
        try:
            lines = draw(Asked(settings.rows or 10_000, str(settings.folder)))
        except data.MissingDataError as missing:
            say(f"figure {number}: {missing}")
            return True
        write_rows(f"sharp-figure{number}", lines)
        return True

    what = _ABOUT[number]
    command.__doc__ = f"sharp-figure{number}: {what}"
    return command


_ABOUT = {
    4: "recall and throughput under bounds, DS1",
    5: "recall and throughput under bounds, Citi Bike's trips (--data)",
    6: "recall of row patterns under bounds, crimes",
    8: "recall by how many partial matches are kept",
    9: "recall by selectivity",
    10: "recall by the pattern's length",
    11: "recall by window, DS2",
    12: "shared and separate partial matches",
    14: "recall by where the shared part stands",
    15: "recall around a drift",
}
_DRAWN = (figure_4, figure_5, figure_6, figure_8, figure_9, figure_10, figure_11, figure_12,
          figure_14, figure_15)  # fmt: skip
COMMANDS = {
    f"sharp-figure{number}": _command(number, draw)
    for number, draw in zip(_ABOUT, _DRAWN, strict=True)
}
