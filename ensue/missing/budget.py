"""RC-ACEP: match nodes under a budget per event, the most promising first (Algorithm 2).

While learning, everything is extended and the history is built: until it tells as many match
bundles apart as it has bits, or so many rows have passed. From then on at most the budget's number
of extensions is made per event. A budget in time is turned into extensions by what these have cost
so far; one in per cent into a share of the candidates that an event had while learning.

Where conditions read other events, nodes have registers (`compiled.py`); what the register machine
cannot hold is asked in plain Python, of candidates that the same kernels chose.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.letters import LetterStates
from ensue.automaton.plan import Plan
from ensue.missing.compiled import Compiler, no_guards
from ensue.missing.conditions import Conditions
from ensue.missing.guarded import Aligned, entries_of
from ensue.missing.history import Learned
from ensue.missing.kernels import nodes as kernels
from ensue.missing.kernels import run as runs
from ensue.missing.kernels.guards import Guards, rebuild
from ensue.missing.kernels.history import BUNDLES, LEARNING, PHASE, visit
from ensue.missing.kernels.select import choose
from ensue.missing.nodes import (
    NONE,
    Buckets,
    NodeStore,
    choice_of,
    links_into,
    machine_of,
    scratch_of,
)
from ensue.missing.tracks import Pairs, Track
from ensue.missing.words import Answer
from ensue.operator.budget import EVERY, OF_MEMORY, Bounds, Budget, Form, Room
from ensue.operator.protocol import Metrics
from ensue.query.query import WindowKind
from ensue.sequences.batch import EventBatch
from ensue.sequences.counts import event_classes

CHUNK = 1_000  # rows between two looks at the clock
UNLIMITED = 1 << 40
AGENT_SHARE = 5  # at most one agent per so many units of work
MAX_AGENTS = 64
ROOM = Room(
    "patterns with events missing",
    EVERY - OF_MEMORY - {Form.LATENCY_EACH},
    no_memory="their nodes live as long as the window; allow_missing(proxy=True, sketch=800) takes "
    "less",
    together=False,
    least_work=1.0,  # of every event, not on average
)


def check_proxy(plan: Plan) -> None:
    """Theorem 2 needs that every start of a state can go on alike."""
    missing = plan.query.missing
    if missing is not None and missing.effort.proxy and plan.correlated:
        raise errors.UnsupportedError(
            "proxy=True keeps only the latest start, but a condition reads other events, so that "
            "an earlier start could match where the latest cannot",
            remedy="leave proxy out, or the condition",
        )


def checked_budget(budget: Budget, plan: Plan) -> Bounds:
    """The budget, where it can be kept."""
    bounds = ROOM.read(budget)
    if plan.query.within is None:
        raise errors.QueryError(
            "a budget needs a window: without one no partial match ever becomes useless",
            remedy="add within(...)",
        )
    return bounds


class BudgetEngine:
    """Match nodes of all partitions of one task, and what was learnt from them."""

    def __init__(
        self,
        plan: Plan,
        states: LetterStates,
        bounds: Bounds | None,
        metrics: Metrics,
        policy: int = runs.BY_HISTORY,
    ) -> None:
        missing = plan.query.missing
        assert missing is not None
        self._plan, self._states, self._metrics = plan, states, metrics
        self._effort = missing.effort
        self._bounds = bounds or Bounds()
        self.policy = policy
        self._buckets = Buckets.of(states)
        self.learned = Learned(states, self._buckets, self._effort)
        self.counters = np.zeros(kernels.COUNTERS, np.int64)
        self._candidates = 256
        self._choice = choice_of(self._candidates, self._buckets.vectors, self._effort.history)
        self._scratch = scratch_of(self._candidates, 256, self.counters)
        self._letters = np.array(states.letter, np.int32)
        self._links = links_into(states)
        self._rows, self._matching = 0, 0
        self._seconds, self._units = 0.0, 0  # spent on extensions after learning
        self._need = 0.0  # candidates per matching event while learning
        self._known: dict[int, tuple[Any, ...]] = {}
        self._aligned: Aligned | None = None
        self._compiler = Compiler(plan, states)
        self._guards: Guards | None = None
        self._unguarded = no_guards()
        self._asks_python = False
        window = plan.query.within
        size = 0.0
        if window is not None:
            size = float(window.size - 1 if window.kind is WindowKind.ROWS else window.size)
        self._window = size

    @property
    def size(self) -> int:
        return self.learned.size

    @property
    def budget(self) -> int:
        """Extensions that the next event may have."""
        work, latency = self._bounds.work, self._bounds.latency
        bound = work or latency
        if bound is None:
            return UNLIMITED
        if bound.share:
            return max(1, int(bound.amount * self._need)) if self._need else UNLIMITED
        if bound is work:
            return int(min(bound.amount, UNLIMITED))
        if not self._units:
            return UNLIMITED
        return max(1, int(min(bound.amount / (self._seconds / self._units), UNLIMITED)))

    # -- matching --------------------------------------------------------------------------------

    def matches(
        self, batch: EventBatch, begin: int, row: int, stop: int, end: int, track: Track
    ) -> Iterator[tuple[Pairs, Answer | None]]:
        shift = begin - track.base
        for store in self._advance(batch, begin, row, stop, end, track):
            yield from self._listed(store, shift)

    def match_points(self, batch: EventBatch, track: Track) -> list[int]:
        """The rows of a batch of one complete partition at which matches end; none is listed."""
        found: list[int] = []
        rows = batch.table.num_rows
        for store in self._advance(batch, 0, 0, rows, rows, track):
            ended = int(store.nodes.registers[kernels.ENDS])
            found += np.unique(store.ends[:ended, 0]).tolist()
            store.nodes.registers[kernels.ENDS] = 0
        return sorted(set(found))

    def _advance(
        self, batch: EventBatch, begin: int, row: int, stop: int, end: int, track: Track
    ) -> Iterator[NodeStore]:
        """Rows through the nodes; whenever it yields, the matches found have to be taken."""
        if track.kept is None:
            levels = self._states.bound + 1 if self._effort.proxy else 1
            track.kept = NodeStore(self._states.states, levels, self._places())
        machine, classes, times, lows = self._inputs(batch)
        shift = begin - track.base
        if self._plan.correlated and row < stop:
            self._open_guards(batch, begin, end, track.kept, int(lows[row]) - shift, shift)
        while row < stop:
            chunk = min(stop, row + self._stretch())
            place = np.array([row], np.int64)
            while place[0] < chunk:
                self._events(machine, classes, times, lows, place, chunk, shift, track.kept)
                yield track.kept
            self._rows += chunk - row
            kinds = classes[row:chunk]
            self._matching += int((machine.hits[kinds + 1] > machine.hits[kinds]).sum())
            row = chunk
            self._settle()
        self._measure(track)

    def _open_guards(
        self, batch: EventBatch, begin: int, end: int, store: NodeStore, low: int, shift: int
    ) -> None:
        """Conditions on other events, for the rows of one partition of a batch."""
        if self._aligned is None or self._aligned.batch is not batch:
            self._aligned = Aligned(batch, self._states, Conditions(self._plan, batch.columns))
            self._guards = self._compiler.guards(batch)
        self._aligned.conditions.open_partition(begin, end)
        guards = self._guards
        self._asks_python = guards is None
        if guards is None:
            return
        guards.inside[:] = begin, end
        store.keep_registers(len(guards.initial_ints), len(guards.initial_floats))
        if store.nodes.registers[kernels.USED]:
            store.compact(low)  # older rows are gone, and so is what nodes read of them
            self._asks_python = not rebuild(store.nodes, guards, store.registers, shift)

    def _stretch(self) -> int:
        """Rows until the next look at the clock, or until learning may be over."""
        left = self._effort.learn - self._rows if self.learned.learning else 0
        return min(CHUNK, left) if left > 0 else CHUNK

    def _inputs(self, batch: EventBatch) -> tuple[Any, ...]:
        if id(batch) not in self._known:
            classes, bits = event_classes(batch)
            machine = machine_of(
                self._states,
                self._buckets,
                bits,
                self._effort.proxy,
                not self._plan.correlated,
            )
            order = batch.order
            rows = batch.table.num_rows
            times = np.arange(rows, dtype=np.float64) if order is None else order.astype(float)
            lows = np.zeros(rows, np.int64) if batch.low is None else batch.low
            self._known = {id(batch): (machine, classes, times, lows, batch)}
        return self._known[id(batch)][:4]

    def _events(
        self, machine: Any, classes: Any, times: Any, lows: Any, place: Any, stop: int, shift: int,
        store: NodeStore,
    ) -> None:  # fmt: skip
        """Events until `stop`, or until matches have to be listed or arrays grow."""
        before = self.counters.copy()
        learned = self.learned.learning
        clock = time.perf_counter()
        problem = self._run(machine, classes, times, lows, place, stop, shift, store)
        spent = time.perf_counter() - clock
        work = int((self.counters - before)[kernels.WORK])
        if not learned and work:
            # A moving average: what is long past counts for little.
            fade = 0.5 if self._units > 100_000 else 1.0
            self._seconds = fade * self._seconds + spent
            self._units = int(fade * self._units) + work
        if problem == kernels.NODES_FULL:
            self._make_room(store, int(lows[place[0]]) - shift)
        elif problem == kernels.ENDS_FULL:
            if store.nodes.registers[kernels.ENDS] == 0:
                store.ends = np.zeros((2 * len(store.ends), 2), np.int64)
        elif problem == kernels.CANDIDATES_FULL:
            self._more_candidates()
        elif problem == kernels.HISTORY_FULL:
            self.learned.grow()

    def _run(
        self, machine: Any, classes: Any, times: Any, lows: Any, place: Any, stop: int, shift: int,
        store: NodeStore,
    ) -> int:  # fmt: skip
        if len(self._scratch.stack) < store.capacity:
            self._scratch = scratch_of(self._candidates, store.capacity, self.counters)
        adapts = self._effort.adapt != "frozen"
        if not self._plan.correlated or not self._asks_python:
            guards = self._guards or self._unguarded
            problem = int(
                runs.run(
                    machine, store.nodes, self.learned.history, self._choice,
                    self.learned.learner, store.agents, guards, store.registers, self._scratch,
                    classes, times, lows, place, stop, shift, self._window, self.policy,
                    self.budget, adapts, store.ends,
                )
            )  # fmt: skip
            if problem != kernels.GUARD_FAILED:
                return problem
            self._asks_python = True  # for the rest of these rows
        return self._guarded(machine, classes, times, lows, place, stop, shift, store, adapts)

    def _make_room(self, store: NodeStore, low: int) -> None:
        if store.nodes.registers[kernels.ENDS]:
            return  # they are listed first
        before = int(store.nodes.registers[kernels.USED])
        store.compact(low)
        if 2 * int(store.nodes.registers[kernels.USED]) > store.capacity or before == int(
            store.nodes.registers[kernels.USED]
        ):
            store.grow()

    def _more_candidates(self) -> None:
        self._candidates *= 2
        wider = choice_of(self._candidates, self._buckets.vectors, self._effort.history)
        wider.promise[:] = self._choice.promise
        wider.stamps[:] = self._choice.stamps
        self._choice = wider
        self._scratch = scratch_of(self._candidates, len(self._scratch.stack), self.counters)

    def _places(self) -> int:
        """Agents of a partition: none without adaptation, or where each unit of work is needed."""
        if self._effort.adapt != "agents" or self.policy != runs.BY_HISTORY:
            return 0
        if self._plan.correlated:
            return 0
        work = self._bounds.work
        if work is None or work.share:
            return MAX_AGENTS // 8
        return int(min(MAX_AGENTS, work.amount // AGENT_SHARE))

    # -- conditions on other events --------------------------------------------------------------

    def _guarded(
        self, machine: Any, classes: Any, times: Any, lows: Any, place: Any, stop: int, shift: int,
        store: NodeStore, adapts: bool,
    ) -> int:  # fmt: skip
        """`kernels.acep_run.run` with the conditions asked of every candidate."""
        counters, budget = self.counters, self.budget
        records = self.policy == runs.BY_HISTORY
        assert self._aligned is not None
        for here in range(int(place[0]), stop):
            kind = int(classes[here])
            history, choice, nodes = self.learned.history, self._choice, store.nodes
            row, moment, low = here - shift, float(times[here]), int(lows[here]) - shift
            count, problem, limited = runs.prepare(
                machine, nodes, history, choice, store.agents, store.ends, kind, moment, low,
                self._window, self.policy, budget,
            )  # fmt: skip
            if problem != kernels.DONE:
                return int(problem)
            counters[kernels.GENERATION] += 1
            oldest = int(nodes.registers[kernels.USED])
            learns = history.registers[PHASE] == LEARNING
            chosen = min(count, budget) if limited else count
            if limited and records:
                counters[kernels.EVENTS] += 1
                chosen = choose(choice, history, count, counters[kernels.EVENTS], chosen)
            for index in range(chosen):
                candidate = choice.order[index] if limited and records else index
                vector = choice.vectors[candidate]
                if records and (learns or adapts):
                    visit(history, 0 if learns else 1, vector)
                link = self._links[choice.links[candidate]]
                before = int(choice.nodes[candidate])
                entries = entries_of(nodes, self._links, self._states.letter, before, shift)
                label = self._states.letter[link.target]
                skipped = tuple((letter, NONE) for letter in link.skipped)
                if self._aligned.conditions.hold((*entries, *skipped, (label, here))):
                    kernels.extend(
                        machine, nodes, self._scratch, before, link.target,
                        choice.errors[candidate], choice.links[candidate], vector, row, moment, low,
                    )  # fmt: skip
            counters[kernels.WORK] += chosen
            counters[kernels.CANDIDATES] += count
            counters[kernels.SHED] += count - chosen
            kernels.report(
                machine, nodes, history, self._scratch, store.ends, oldest, row, moment,
                self._window, records, adapts,
            )  # fmt: skip
            place[0] = here + 1
        return kernels.DONE

    # -- output ----------------------------------------------------------------------------------

    def _listed(self, store: NodeStore, shift: int) -> Iterator[tuple[Pairs, Answer | None]]:
        """Matches of the ends found; each set of (label, event) pairs of a row once."""
        seen: set[bytes] = set()
        current = -1
        for row, labels, rows, _ in store.listed(self._letters):
            if row != current:
                current = row
                seen.clear()
            key = labels.tobytes() + rows.tobytes()
            if key in seen:
                continue
            seen.add(key)
            pairs = list(zip(labels.tolist(), (rows + shift).tolist(), strict=True))
            yield pairs, None if self._aligned is None else self._aligned.answer(pairs)

    def _settle(self) -> None:
        if self.policy == runs.BY_HISTORY:
            self.learned.settle(self._rows)
        if self.learned.learning:
            self._need = float(self.counters[kernels.CANDIDATES]) / max(1, self._matching)

    def _measure(self, track: Track) -> None:
        metrics = self._metrics
        metrics.partials = int(self.counters[kernels.WORK])
        metrics.shed = int(self.counters[kernels.SHED])
        metrics.bytes = self.learned.size + track.kept.size
        total, kept = self.promise
        metrics.recall = 1.0 if not metrics.shed or not total else kept / total

    @property
    def work_so_far(self) -> tuple[int, int]:
        """Extensions made and not made, those before a snapshot was taken included."""
        return int(self.counters[kernels.WORK]), int(self.counters[kernels.SHED])

    @property
    def promise(self) -> tuple[float, float]:
        """Scores of all candidates of events that were short of work, and of those extended."""
        return float(self._choice.promise[0]), float(self._choice.promise[1])

    @property
    def bundles(self) -> int:
        """Match bundles found (Definition 3)."""
        return int(self.counters[kernels.BUNDLES])

    @property
    def learnt_bundles(self) -> int:
        return int(self.learned.history.registers[BUNDLES])

    # -- pieces and state ------------------------------------------------------------------------

    def keep_from(self, batch: EventBatch, begin: int, stop: int, track: Track) -> int:
        return begin if batch.low is None else int(batch.low[stop - 1])

    def save(self, track: Track) -> dict[str, pa.Table]:
        return dict(track.kept.tables()) if track.kept is not None else {}

    def load(self, track: Track, tables: dict[str, pa.Table]) -> None:
        if tables:
            levels = self._states.bound + 1 if self._effort.proxy else 1
            track.kept = NodeStore(self._states.states, levels, self._places())
            track.kept.restore(tables)

    def save_shared(self) -> bytes:
        numbers = {f"counter_{i}": int(value) for i, value in enumerate(self.counters)}
        numbers |= {
            "rows": self._rows, "matching": self._matching, "units": self._units,
            "nanoseconds": int(self._seconds * 1e9), "need": int(self._need * 1e6),
            "promise": int(self._choice.promise[0] * 1e6),
            "kept": int(self._choice.promise[1] * 1e6),
        }  # fmt: skip
        return self.learned.save(self._plan.fingerprint, numbers)

    def load_shared(self, blob: bytes) -> None:
        numbers = self.learned.load(blob, self._plan.fingerprint)
        for index in range(kernels.COUNTERS):
            self.counters[index] = numbers[f"counter_{index}"]
        self._rows, self._matching = numbers["rows"], numbers["matching"]
        self._units = numbers["units"]
        self._seconds, self._need = numbers["nanoseconds"] / 1e9, numbers["need"] / 1e6
        self._choice.promise[:] = numbers["promise"] / 1e6, numbers["kept"] / 1e6
