"""AFA: the paper's figures 8 to 13, 16 and 17 as commands, and the promises about speed and memory.

Each writes its points, which `./dev bench papers` draws. The generator is the paper's: ticks that
rise with probability p by N(0.70, 0.30) truncated at 0, W events per window, one watermark every W
events, I % of events that no pattern cares about. Times are CPU seconds of this process; ratios
are of variants that ran in turn in one process. `--rows` is the length of the stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from benchmarks.harness import Target, say, write_rows
from benchmarks.rows import Settings
from ensue.api.automaton_text import make_arc
from ensue.automaton.registers import RegisterAutomaton
from ensue.revision.arc_schedule import ArcSchedule, Palette
from ensue.revision.operator import Operator
from ensue.revision.parts import Settings as RevisionSettings
from ensue.revision.parts import Times
from ensue.scalar import kinds as k
from examples.afa_trading import prices, q1, q2

KINDS = {"ts": k.BIGINT, "price": k.DOUBLE, "change": k.DOUBLE}
SEQUENCED = RevisionSettings(keep_rows=False, sequenced=True)
PLAIN = RevisionSettings(keep_rows=False, ignoring=False)
IGNORING = RevisionSettings(keep_rows=False)


def stream(count: int, p: float = 0.5, ignorable: float = 0.0, seed: int = 0) -> pa.Table:
    """Ticks, of which a share has no change at all: events that every phase ignores."""
    table = prices(count, p, seed)
    if not ignorable:
        return table
    random = np.random.default_rng(seed + 1)
    change = np.where(random.random(count) < ignorable, 0.0, np.asarray(table["change"]))
    return pa.table({"ts": table["ts"], "price": 100 + np.cumsum(change), "change": change})


def ignoring_q1(k_: int, window: int, delta: float) -> RegisterAutomaton:
    """Q1 with self-loops for events without a change."""
    made = q1(k_, delta, window)
    for state in ("q1", "q2"):
        made = made.arc(state, state, when="change = 0", name=f"ignore {state}")
    return made.machine


def can(k_: int) -> RegisterAutomaton:
    """The two-state automaton that keeps Q1's state in its register (Figure 4)."""
    down, up = "change < 0", "change > 0"
    fields = {"q": "bigint", "r1": "bigint", "r2": "bigint"}
    loops = [
        (f"{down} AND q = 1", {"r1": "r1 + 1"}),
        (f"{down} AND q = 1", {"q": "2", "r1": "r1 + 1"}),
        (f"{up} AND q = 2", {"r1": "r1 - 1"}),
        (f"{up} AND q = 2 AND r2 + 1 < {k_}", {"q": "1", "r1": "r1 - 1", "r2": "r2 + 1"}),
    ]
    made = ensue.Automaton(fields).arc("start", "run", when="change < -0.25", set={"q": "1"})
    for when, change in loops:
        made = made.arc("run", "run", when=when, set=change)
    last = f"{up} AND q = 2 AND r2 + 1 = {k_} AND r1 - 1 = 0"
    made = made.arc("run", "end", when=last, set={"r1": "r1 - 1", "r2": "r2 + 1"})
    return made.final("end").machine


def q3(ups: Sequence[bool]) -> RegisterAutomaton:
    """A linear sequence of ticks, one arc each."""
    made = ensue.Automaton()
    for place, up in enumerate(ups):
        when = "change > 0" if up else "change < 0"
        made = made.arc(f"s{place}", f"s{place + 1}", when=when, name=f"arc {place}")
    return made.final(f"s{len(ups)}").machine


def between(keys: Times, begin: int, end: int) -> Times:
    names = ("le", "re", "tie", "name", "sequence")
    return Times(*(getattr(keys, name)[begin:end] for name in names))


def times(table: pa.Table, window: int) -> Times:
    le = np.asarray(table["ts"]).astype(np.int64)
    zeros = np.zeros(len(le), np.int64)
    return Times(le, le + window, zeros, le, le)


def moved(count: int, share: float, far: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """An order of arrival in which a share of the events comes later by 1 to `far` events."""
    random = np.random.default_rng(seed)
    place = np.arange(count, dtype=np.float64)
    late = random.random(count) < share
    place[late] += random.integers(1, far + 1, int(late.sum())) + 0.5
    return np.argsort(place, kind="stable")


def feed(
    operator: Operator, table: pa.Table, window: int, batch: int, lag: int = 0, order: Any = None
) -> tuple[float, int, int]:
    """CPU seconds, changes put out, and the most bytes of state."""
    if order is not None:
        table = table.take(pa.array(order))
    keys = times(table, window)
    least = np.minimum.accumulate(keys.le[::-1])[::-1]  # the earliest that is still to come
    size, most = 0, 0
    clock = time.process_time()
    for begin in range(0, table.num_rows, batch):
        end = min(begin + batch, table.num_rows)
        part = between(keys, begin, end)
        size += len(operator.insert(table.slice(begin, end - begin), part).rows)
        most = max(most, operator.partials)
        if end < table.num_rows:
            operator.advance(int(least[end]) - lag)
    return time.process_time() - clock, size, most


def measured(make: Callable[[], Operator], *given: Any, **named: Any) -> tuple[float, int, int]:
    """The best of three runs, after one that compiles."""
    small = (given[0].slice(0, 200), *given[1:])
    feed(make(), *small, **{name: v for name, v in named.items() if name != "order"})
    return min(feed(make(), *given, **named) for _ in range(3))


def compared(
    machine: RegisterAutomaton,
    variants: dict[str, RevisionSettings],
    table: pa.Table,
    *given: Any,
    **named: Any,
) -> Iterator[dict[str, Any]]:
    """Throughput and most partial matches of each variant."""
    for name, options in variants.items():
        make = partial(Operator, machine, dict(KINDS), options)
        seconds, _, most = measured(make, table, *given, **named)
        speed = table.num_rows / seconds
        yield {"variant": name, "events_per_s": speed, "partial_matches": most}


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """The points of a figure, kept and printed."""
    for row in write_rows(name, rows):
        shown = (f"{n} {v:,.3g}" if isinstance(v, float) else f"{n} {v}" for n, v in row.items())
        say("  ".join(shown))


def run_speed(settings: Settings) -> bool:
    """afa              Q1 (k = 2, W = 2,000): events/s in order, and what disorder costs."""
    count = settings.rows or 1_000_000
    table = stream(count)

    def make() -> Operator:
        return Operator(q1(2).machine, dict(KINDS), PLAIN)

    ordered, _, _ = measured(make, table, 2000, 50_000, 2000)
    order = moved(count, 0.05, 1000)
    late, _, _ = measured(make, table, 2000, 50_000, 2000, order=order)
    targets = [
        Target("Q1 in order, million events per CPU second", count / ordered / 1e6, 2.0, False),
        Target(
            "5 % of the events up to 1,000 events late, times the time in order",
            late / ordered,
            3.0,
        ),
    ]
    for target in targets:
        say(str(target))
    return all(target.met for target in targets)


def run_approaches(settings: Settings) -> bool:
    """afa8             AFA, AFA+O, AFA+ignore, two-state automaton, joins (Figure 8).

    The paper has AFA+O first, since a hash table beats its red-black tree. Here an event in order
    is put at the end of a block (no search), which costs less than a place in a hash table, so that
    AFA is first. AFA+ignore is as fast as AFA until an event comes that can be ignored.
    """
    count = settings.rows or 100_000
    table = stream(count)
    variants = {
        "AFA": lambda: Operator(q1(2).machine, dict(KINDS), PLAIN),
        "AFA+O": lambda: Operator(q1(2).machine, dict(KINDS), SEQUENCED),
        "AFA+ignore": lambda: Operator(ignoring_q1(2, 2000, 0.25), dict(KINDS), IGNORING),
        "CAN": lambda: Operator(can(2), dict(KINDS), PLAIN),
    }
    rows = []
    answers = set()
    for name, make in variants.items():
        seconds, size, _ = measured(make, table, 2000, 2000, 2000)
        rows.append({"approach": name, "place": len(rows), "events_per_s": count / seconds})
        answers.add(size)
    seconds, size = iterative(table, 2, 0.25, 2000)
    rows.append({"approach": "IPM (joins)", "place": len(rows), "events_per_s": count / seconds})
    answers.add(size)
    write("afa8", rows)
    say(f"matches: {answers}")
    return len(answers) == 1


def iterative(table: pa.Table, k_: int, delta: float, window: int) -> tuple[float, int]:
    """Q1 by joins (IPM): partial matches joined with the next event and with transitions, again and
    again, one stretch of W events at a time."""
    transitions = pa.table(
        {
            "state": ["q1", "q1", "q2", "q2", "q2"],
            "down": [True, True, False, False, False],
            "target": ["q1", "q2", "q2", "q1", "q3"],
            "v": [0, 0, 0, 1, 1],
        }
    )
    change = np.asarray(table["change"])
    size = 0
    clock = time.process_time()
    events = pa.table({"next": np.arange(len(change)), "down": change < 0})
    held = pa.table(
        {
            "start": np.flatnonzero(change < -delta),
            "next": np.flatnonzero(change < -delta) + 1,
            "state": ["q1"] * int((change < -delta).sum()),
            "r1": np.zeros(int((change < -delta).sum()), np.int64),
            "r2": np.zeros(int((change < -delta).sum()), np.int64),
        }
    )
    while held.num_rows:
        joined = held.join(events, "next", join_type="inner")
        joined = joined.join(transitions, ["state", "down"], join_type="inner")
        down = np.asarray(joined["down"])
        r1 = np.asarray(joined["r1"]) + np.where(down, 1, -1)
        r2 = np.asarray(joined["r2"]) + np.asarray(joined["v"])
        target = np.asarray(joined["target"])
        keep = np.where(target == "q3", (r2 == k_) & (r1 == 0), r2 < k_)
        keep &= np.asarray(joined["next"]) - np.asarray(joined["start"]) < window
        size += int((keep & (target == "q3")).sum())
        onward = keep & (target != "q3")
        held = pa.table(
            {
                "start": np.asarray(joined["start"])[onward],
                "next": np.asarray(joined["next"])[onward] + 1,
                "state": target[onward].astype(str),
                "r1": r1[onward],
                "r2": r2[onward],
            }
        )
    return time.process_time() - clock, size


PLACES = 8  # arcs of Q3
UP, DOWN = "change > 0", "change < 0"
STEPS = [(place, up) for place in range(PLACES) for up in (False, True)]
TURNED = Palette().with_arcs(
    {
        f"{place} {up}": make_arc(
            (), f"s{place}", f"s{place + 1}", UP if up else DOWN, name=f"arc {place}"
        )
        for place, up in STEPS
    }
)


class Edits:
    """Every so many events, a random arc of Q3 turns from up to down or back (§6.3)."""

    def __init__(self, every: int, count: int) -> None:
        random = np.random.default_rng(0)
        self.first = [bool(up) for up in random.integers(0, 2, PLACES)]
        self.at = np.arange(every, count, every)
        self.places = random.integers(0, PLACES, len(self.at)).tolist()
        ups, self.after = list(self.first), []
        for place in self.places:
            ups[place] = not ups[place]
            self.after.append(list(ups))
        added = [f"{p} {ups[p]}" for p, ups in zip(self.places, self.after, strict=True)]
        removed = [f"arc {place}" for place in self.places]
        self._columns = [pa.array(c, pa.string()).dictionary_encode() for c in (added, removed)]

    def within(self, begin: int, end: int) -> ArcSchedule | None:
        """The edits among the events of a batch."""
        low, high = np.searchsorted(self.at, [begin, end])
        if low == high:
            return None
        columns = [column.slice(low, high - low) for column in self._columns]
        return ArcSchedule.of(TURNED, self.at[low:high] - begin, *columns)


def with_edits(table: pa.Table, edits: Edits, made: bool, count: int, batch: int) -> float:
    """Events/s with a watermark per batch, the first two not counted. Like the keys of events, the
    edits are in the operator's form before the clock runs."""
    operator = Operator(q3(edits.first), dict(KINDS), PLAIN)
    keys = times(table, 500)
    ones = np.ones(batch, np.int8)
    schedules = [edits.within(begin, begin + batch) for begin in range(0, count, batch)]
    clock = 0.0
    for begin in range(0, count, batch):
        if begin == 2 * batch:
            clock = time.process_time()
        part, rows = between(keys, begin, begin + batch), table.slice(begin, batch)
        found = schedules[begin // batch] if made else None
        if found is None:
            operator.insert(rows, part)
        else:
            operator.change_with_edits(rows, part, ones, found)
        operator.advance(begin + batch - 500)
    return (count - 2 * batch) / (time.process_time() - clock)


def with_calls(table: pa.Table, every: int, count: int, restart: bool) -> float:
    """Events/s where an edit is a call of its own, or where the operator is started anew for it:
    made of the new pattern, and given the events of the window once more."""
    edits, keys, window = Edits(every, count), times(table, 500), 500
    operator = Operator(q3(edits.first), dict(KINDS), PLAIN)
    clock = time.process_time()
    for number, begin in enumerate(range(0, count, every)):
        end = min(begin + every, count)
        operator.insert(table.slice(begin, end - begin), between(keys, begin, end))
        operator.advance(max(0, end - window))
        if end == count:
            break
        if restart:
            operator = Operator(q3(edits.after[number]), dict(KINDS), PLAIN)
            first = max(0, end - window)
            operator.insert(table.slice(first, end - first), between(keys, first, end))
            continue
        place = edits.places[number]
        arc = TURNED.arcs[TURNED.places[f"{place} {edits.after[number][place]}"]]
        operator.revise([arc], [arc.name])
    return count / (time.process_time() - clock)


def run_edits(settings: Settings) -> bool:
    """afa9             an edit every d events, against operator restart (Figure 9)."""
    count = settings.rows or 100_000
    table = stream(count)
    batches = (500, 10_000)
    for batch in batches:
        with_edits(table, Edits(10, 3 * batch), True, 3 * batch, batch)
    rows: list[dict[str, Any]] = []
    overheads: dict[int, float] = {}
    restarts = 0.0
    for every in (10, 100, 1_000, 10_000):
        edits = Edits(every, count)
        short = min(count, max(2_000, 4 * every))
        best: dict[str, float] = {}
        ratios: dict[int, list[float]] = {batch: [] for batch in batches}
        for _ in range(15):  # in turn, so that a busy machine slows both of a pair
            for batch in batches:
                static, edited = (
                    with_edits(table, edits, made, count, batch) for made in (False, True)
                )
                ratios[batch].append(static / edited)
                for name, rate in (("static", static), ("edits", edited)):
                    key = f"{name}, {batch}"
                    best[key] = max(rate, best.get(key, 0.0))
        for name, restart in (("a call per edit", False), ("restart", True)):
            best[name] = max(with_calls(table, every, short, restart) for _ in range(3))
        rows += [
            {"every": every, "variant": name, "events_per_s": rate} for name, rate in best.items()
        ]
        for batch in batches:
            overhead = 100 * (float(np.median(ratios[batch])) - 1)
            say(f"an edit every {every} events, batches of {batch}: {overhead:.1f} % more time")
            overheads.setdefault(batch, overhead)
            rows.append({"every": every, "batch": batch, "overhead": overhead})
        times_slower = best["edits, 10000"] / best["restart"]
        say(
            f"restart for an edit every {every} events: {times_slower:,.0f} times slower than edits"
        )
        restarts = restarts or times_slower
    write("afa9", rows)
    targets = [
        Target(
            "overhead of an edit every 10 events, batches of 10,000, %", overheads[10_000], 10.0
        ),
        Target("restart every 10 events, times slower than edits", restarts, 100.0, False),
    ]
    for target in targets:
        say(str(target))
    return all(target.met for target in targets)


def run_speculation(settings: Settings) -> bool:
    """afa10            output size and latency against σ (Figures 10 and 11)."""
    count = settings.rows or 20_000
    rows: list[dict[str, Any]] = []
    for ignorable in (0.7, 0.9):
        table = stream(count, ignorable=ignorable)
        arriving = table.take(pa.array(moved(count, 0.05, 5000)))
        clock = np.asarray(arriving["ts"])
        least = np.minimum.accumulate(clock[::-1])[::-1]
        for sigma in (0, 100, 250, 500, 1000, float("inf")):
            made = q1(1, 0.25, 500)
            for state in ("q1", "q2"):
                made = made.arc(state, state, when="change = 0")
            matcher = made.matcher(table.schema, speculation=sigma)
            size, waits = 0, []
            for begin in range(0, count, 500):
                found = [matcher.insert(arriving.slice(begin, 500))]
                end = min(begin + 500, count)
                if end < count:
                    found.append(matcher.advance(int(least[end])))
                for changes in found:
                    size += changes.num_rows
                    fresh = np.asarray(changes.filter(pa.compute.equal(changes["op"], "+"))["last"])
                    waits += (end - np.searchsorted(np.sort(clock[:end]), fresh)).tolist()
            size += matcher.end().num_rows
            wait = float(np.mean(waits)) if waits else 0.0
            rows.append(
                {"ignorable": ignorable, "sigma": 2000.0 if sigma == float("inf") else float(sigma),
                 "output": size, "events_waited": wait}
            )  # fmt: skip
    write("afa10", rows)
    return True


def run_disorder(settings: Settings) -> bool:
    """afa12            throughput and partial matches against disorder (Figures 12 and 13)."""
    count = settings.rows or 50_000
    table = stream(count, 0.7)
    rows = []
    for share in (0.0, 0.01, 0.05, 0.1, 0.2):
        order = moved(count, share, 1000) if share else None
        variants = {"AFA": PLAIN, "AFA+O": SEQUENCED}
        for row in compared(q2().machine, variants, table, 500, 500, 0, order=order):
            rows.append({"disorder": share, **row})
    write("afa12", rows)
    return True


def run_ignorable(settings: Settings) -> bool:
    """afa16            throughput and partial matches against ignorable events (16 and 17)."""
    count = settings.rows or 50_000
    rows = []
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9):
        table = stream(count, ignorable=share)
        variants = {"AFA+ignore": IGNORING, "AFA": PLAIN}
        for row in compared(ignoring_q1(1, 500, 0.0), variants, table, 500, 500, 500):
            rows.append({"ignorable": share, **row})
    write("afa16", rows)
    return True


def run_memory(settings: Settings) -> bool:
    """afa_memory       bytes of state while 10 million events pass, a watermark every window."""
    count, batch, window = settings.rows or 10_000_000, 20_000, 2000
    operator = Operator(q1(2).machine, dict(KINDS), PLAIN)
    rows = []
    for begin in range(0, count, batch):
        table = stream(batch, seed=begin)
        le = np.arange(begin, begin + batch, dtype=np.int64)
        zeros = np.zeros(batch, np.int64)
        operator.insert(table, Times(le, le + window, zeros, le, le))
        operator.advance(begin + batch - window)
        if begin // batch % 25 == 24:
            rows.append({"events": begin + batch, "variant": "AFA", "bytes": operator.nbytes,
                         "held": operator.events})  # fmt: skip
    write("afa_memory", rows)
    target = Target("last bytes of state / first", rows[-1]["bytes"] / rows[0]["bytes"], 1.1)
    say(str(target))
    return target.met


COMMANDS = {
    "afa": run_speed,
    "afa8": run_approaches,
    "afa9": run_edits,
    "afa10": run_speculation,
    "afa12": run_disorder,
    "afa16": run_ignorable,
    "afa_memory": run_memory,
}
