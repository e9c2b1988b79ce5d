"""Streams, queries and measures of the RC-ACEP benchmarks.

The paper's Twitter and vehicle data are not public in the form it used, so streams are made with
the statistics it gives: tweets are spelt as letters (S, what is mentioned, E; 43 letters in all),
vehicles report status, power, speed and place. *Stories* (the situations Q1 to Q8 look for) are
planted at random times, far enough apart to be match bundles of their own, with some letters lost;
between them the same letters occur by chance, so that most partial matches come to nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

import ensue
from ensue.api.pattern import Pattern
from ensue.automaton.letters import letter_states
from ensue.automaton.plan import plan
from ensue.missing.budget import BudgetEngine
from ensue.missing.kernels import nodes as acep_nodes
from ensue.missing.kernels.run import prepare
from ensue.missing.nodes import NodeStore, Rows, Track
from ensue.operator.arrange import arrange
from ensue.operator.budget import Bound, Bounds
from ensue.operator.protocol import Metrics
from ensue.query.binding import bind
from ensue.run import local
from ensue.sequences.batch import EventBatch

BULL, BEAR, NEWS = "bdwrhtc", ("t1", "t2", "R", "H", "B", "D"), "geu"
# The paper's queries; a step of one character is a letter.
QUERIES = {
    "Q1": f"(S a ({' | '.join(BULL)}) E){{2,}} (S a ({' | '.join(NEWS)}) E){{2,}}",
    "Q2": "S a (t1 | t2) E S a (R | H) E S a (B | D) E",
    "Q3": "S G g E S G e E S G u E",
    "Q4": f"(S a ({' | '.join(BULL)}) E S G ({' | '.join(BEAR)}) E)"
          f" | (S G ({' | '.join(BULL)}) E S a ({' | '.join(BEAR)}) E)",
    "Q5": "(l p{5,} (d | c | a)) | (p{5,} n (d | c | a))",
    "Q6": "(z L){5,}",
    "Q7": "z L M1 M2 H",
    "Q8": "l{5}",
}  # fmt: skip
LETTERS = ["S", "E", "a", "G", *BULL, *BEAR, *NEWS]
LETTERS += [f"n{i}" for i in range(43 - len(LETTERS))]


def query(name: str, window: int, k: int, **options: Any) -> Pattern:
    """One of the paper's queries; windows are counted in events."""
    pattern = ensue.pattern(QUERIES[name], types="kind").select("any").order_by("t")
    if name in ("Q5", "Q6", "Q7"):
        pattern = pattern.partition_by("vehicle")
    if name == "Q8":
        others = " AND ".join(f"(LAST(l.vehicle, {i}) IS NULL OR vehicle <> LAST(l.vehicle, {i}))"
                              for i in range(1, 5))  # fmt: skip
        pattern = pattern.partition_by("place").define(l=others)
    return pattern.within(window).allow_missing(k, **options)


def tweets(
    events: int,
    seed: int,
    *,
    every: int = 1_000,
    window: int = 150,
    chatter: float = 0.06,
    lost: float = 0.05,
    bull: str = BULL,
    news: str = NEWS,
    story: str = "Q1",
) -> list[str]:
    """Letters of tweets: chatter, and about one story in `every` letters.

    `chatter` is how many tweets speak of a company at all; `bull` and `news` are the words that
    stories use, which drift over the days.
    """
    chance = np.random.default_rng(seed)
    noise = [letter for letter in LETTERS if letter.startswith("n")]
    words = [*BULL, *BEAR, *NEWS]
    found: list[str] = []
    due = int(chance.integers(every // 2, every))
    while len(found) < events:
        if len(found) >= due:
            found += _story(chance, noise, window, lost, bull, news, story)
            due = len(found) + window + int(chance.integers(every // 2, every + every // 2))
            continue
        found += _tweet(chance, noise, words, chatter)
    return found[:events]


def _tweet(chance: Any, noise: list[str], words: list[str], chatter: float) -> list[str]:
    said = [str(chance.choice(noise)) for _ in range(chance.integers(1, 4))]
    if chance.random() < chatter:
        said.append(str(chance.choice(["a", "G"])))
        if chance.random() < 0.5:
            said.append(str(chance.choice(words)))
    return ["S", *said, "E"]


def _story(
    chance: Any, noise: list[str], window: int, lost: float, bull: str, news: str, story: str
) -> list[str]:
    """Tweets that make a match, spread over most of a window, a letter lost now and then."""
    if story == "Q1":
        parts = [[*"Sa", str(chance.choice(list(bull))), "E"] for _ in range(chance.integers(2, 4))]
        parts += [[*"Sa", str(chance.choice(list(news))), "E"] for _ in range(2)]
    else:
        parts = [["S", "a", str(chance.choice(pair)), "E"]
                 for pair in (["t1", "t2"], ["R", "H"], ["B", "D"])]  # fmt: skip
    room = max(1, int(window * 0.7) // len(parts) - 4)
    found: list[str] = []
    for part in parts:
        found += [letter for letter in part if chance.random() >= lost or letter in "SE"]
        for _ in range(int(chance.integers(0, room)) // 4):
            found += ["S", str(chance.choice(noise)), str(chance.choice(noise)), "E"]
    return found


def table_of(letters: list[str]) -> pa.Table:
    return pa.table({"t": np.arange(len(letters)), "kind": letters})


def vehicles(events: int, seed: int, cars: int = 20, stories: float = 0.004) -> pa.Table:
    """Reports of vehicles: parked or driving, power drawn, speed class, place."""
    chance = np.random.default_rng(seed)
    letters = np.array(["l", "p", "n", "d", "c", "a", "z", "L", "M1", "M2", "H", "o"])
    usual = np.array([0.02, 0.05, 0.03, 0.02, 0.02, 0.02, 0.06, 0.06, 0.03, 0.03, 0.03, 0.63])
    kinds: list[str] = []
    cars_of: list[int] = []
    waiting: dict[int, list[str]] = {}
    plots = [["l", *"ppppp", "d"], [*"ppppp", "n", "c"], ["z", "L"] * 5,
             ["z", "L", "M1", "M2", "H"]]  # fmt: skip
    while len(kinds) < events:
        car = int(chance.integers(0, cars))
        if car in waiting and chance.random() < 0.5:
            kinds.append(waiting[car].pop(0))
            if not waiting[car]:
                del waiting[car]
        else:
            kinds.append(str(chance.choice(letters, p=usual)))
            if car not in waiting and chance.random() < stories:
                waiting[car] = list(plots[int(chance.integers(0, len(plots)))])
        cars_of.append(car)
    places = chance.integers(0, 5, len(kinds))
    return pa.table({"t": np.arange(len(kinds)), "kind": kinds, "vehicle": cars_of,
                     "place": places})  # fmt: skip


# -- measuring ------------------------------------------------------------------------------------


@dataclass
class Run:
    """One pass over a stream."""

    points: list[tuple[int, float]]  # (partition, time) of every match point
    work: int
    events: int  # that match some letter
    seconds: float
    history_bytes: int
    node_bytes: int
    engine: BudgetEngine = field(repr=False)


def run(
    pattern: Pattern,
    table: pa.Table,
    budget: int | None = None,
    kind: type[BudgetEngine] = BudgetEngine,
    engine: BudgetEngine | None = None,
) -> Run:
    """Match points under a budget of extensions per event (None: everything); nothing listed.

    An engine that is given goes on with what it has learnt, on partitions of their own.
    """
    bound = bind(pattern.query, table.column_names)
    planned = plan(bound)
    if engine is None:
        states = letter_states(bound, every_way=planned.correlated)
        bounds = None if budget is None else Bounds(work=Bound(budget))
        engine = kind(planned, states, bounds, Metrics())
    arranged, starts = arrange(local.prepare(planned, table), bound.partition_by, bound.order_by)
    points, seconds, matched, peak = [], 0.0, 0, 0
    before = int(engine.counters[acep_nodes.WORK])
    for part in range(len(starts) - 1):
        begin, end = int(starts[part]), int(starts[part + 1])
        rows = arranged.slice(begin, end - begin).combine_chunks()
        batch = EventBatch(planned, None, rows, np.array([0, end - begin], np.int64))
        matched += int((batch.words != 0).any(axis=1).sum())
        clock = time.process_time()
        track = Track()
        found = match_points(engine, batch, track)
        seconds += time.process_time() - clock
        peak = max(peak, track.kept.size)
        times = rows.column("t").to_numpy()
        points += [(part, float(times[row])) for row in found]
    work = int(engine.counters[acep_nodes.WORK]) - before
    return Run(points, work, matched, seconds, engine.learned.size, peak, engine)


def match_points(engine: BudgetEngine, batch: EventBatch, track: Track) -> list[int]:
    """The rows of a batch of one complete partition at which matches end; none is listed."""
    found: set[int] = set()
    rows = batch.table.num_rows
    for store in engine._advance(batch, 0, 0, rows, rows, track):
        registers = store.nodes.registers
        found.update(store.ends[: int(registers[acep_nodes.ENDS]), 0].tolist())
        registers[acep_nodes.ENDS] = 0
    return sorted(found)


class Everything(BudgetEngine):
    """ACEP without a budget: every candidate is extended, and nothing is learnt."""

    by_history = False


class TimeOut(Everything):
    """ACEP with time-out: an event's candidates in the order of states, until its work is done."""

    reverse = False

    def _run(self, rows: Rows, place: Any, stop: int, shift: int, store: NodeStore) -> int:
        return int(
            _time_out(
                rows.machine, store.nodes, self.learned.history, self._desk.choice, store.agents,
                self._desk.scratch(store), rows.classes, rows.times, rows.lows, place, stop,
                self._window, self.budget, self.reverse, store.ends,
            )
        )  # fmt: skip


class LateStatesFirst(TimeOut):
    reverse = True


@njit(cache=True)
def _time_out(
    machine: Any, nodes: Any, history: Any, choice: Any, agents: Any, scratch: Any, classes: Any,
    times: Any, lows: Any, place: Any, stop: int, window: float, budget: int, reverse: bool,
    ends: Any,
) -> int:  # fmt: skip
    """As `missing.kernels.run`, of patterns whose conditions read single rows."""
    counters = scratch.counters
    for row in range(place[0], stop):
        kind, time, low = classes[row], times[row], lows[row]
        count, problem, _ = prepare(
            machine, nodes, history, choice, agents, ends, kind, time, low, window, False, budget
        )
        if problem != acep_nodes.DONE:
            return problem
        counters[acep_nodes.GENERATION] += 1
        oldest, chosen = nodes.registers[acep_nodes.USED], min(count, budget)
        for index in range(chosen):
            candidate = count - 1 - index if reverse else index
            acep_nodes.extend(
                machine, nodes, scratch, choice.nodes[candidate], choice.targets[candidate],
                choice.errors[candidate], choice.links[candidate], choice.vectors[candidate], row,
                time, low,
            )  # fmt: skip
        counters[acep_nodes.WORK] += chosen
        counters[acep_nodes.CANDIDATES] += count
        counters[acep_nodes.SHED] += count - chosen
        acep_nodes.report(
            machine, nodes, history, scratch, ends, oldest, row, time, window, False, False
        )
        place[0] = row + 1
    return acep_nodes.DONE


def bundles(points: list[tuple[int, float]], window: float) -> list[tuple[int, float, float]]:
    """Definition 3: match points closer than a window are one bundle: (partition, first, last)."""
    found: list[tuple[int, float, float]] = []
    for part, moment in sorted(points):
        if found and found[-1][0] == part and moment - found[-1][2] <= window:
            found[-1] = (part, found[-1][1], moment)
        else:
            found.append((part, moment, moment))
    return found


def fraction(
    truth: list[tuple[int, float, float]],
    points: list[tuple[int, float]],
    after: float = -1.0,
    before: float = float("inf"),
) -> float:
    """How many of the bundles that end in a stretch of time have a match point reported."""
    asked = [bundle for bundle in truth if after < bundle[1] and bundle[2] <= before]
    known = sorted(points)
    hit = 0
    for part, first, last in asked:
        place = np.searchsorted([moment for p, moment in known if p == part], first)
        mine = [moment for p, moment in known if p == part]
        hit += place < len(mine) and mine[place] <= last
    return hit / max(1, len(asked))
