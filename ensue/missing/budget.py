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
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.letters import LetterStates
from ensue.automaton.plan import Plan
from ensue.missing.compiled import Compiler, no_guards
from ensue.missing.conditions import Conditions
from ensue.missing.constants import AGENT_SHARE, MAX_AGENTS, SOME_AGENTS
from ensue.missing.guarded import Aligned, Serialisations, check_nodes, entries_of
from ensue.missing.history import Learned
from ensue.missing.kernels import nodes as kernels
from ensue.missing.kernels import run as runs
from ensue.missing.kernels.guards import Guards, rebuild
from ensue.missing.kernels.history import LEARNING, PHASE, visit
from ensue.missing.kernels.select import choose
from ensue.missing.nodes import NONE, Buckets, Desk, NodeStore, Rows, Track, links_into
from ensue.missing.words import Answer, Pairs, window_length
from ensue.operator.budget import EVERY, OF_MEMORY, Bounds, Budget, Form, Room, Unbounded
from ensue.operator.protocol import Metrics
from ensue.sequences.batch import EventBatch
from ensue.stopping import look

CHUNK = 1_000  # rows between two looks at the clock
UNLIMITED = 1 << 40
SHARE = 0.1  # of the budget, for what tells the recall (`audit.py`)
ROOM = Room(
    "patterns with events missing",
    EVERY - OF_MEMORY - {Form.LATENCY_EACH},
    no_memory="their nodes live as long as the window; allow_missing(proxy=True, sketch=800) takes "
    "less",
    together=False,
    floors=True,
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


def checked_budget(budget: Budget, plan: Plan, room: Room = ROOM) -> Bounds:
    """The budget, where it can be kept."""
    bounds = room.read(budget)
    if plan.query.within is None:
        raise errors.QueryError(
            "a budget needs a window: without one no partial match ever becomes useless",
            remedy="add within(...)",
        )
    return bounds


class Auditing(Protocol):
    """What tells the recall: see `audit.py`."""

    @property
    def found(self) -> int: ...
    def rows(
        self, batch: EventBatch, begin: int, span: tuple[int, int, int], end: int, track: Track,
        need: float, spare: float, firsts: list[int],
    ) -> None: ...  # fmt: skip
    def ended(self, track: Track) -> None: ...
    def recall(self) -> tuple[float | None, float | None, float | None]: ...
    def numbers(self) -> dict[str, int]: ...
    def load(self, numbers: Mapping[str, int]) -> None: ...


class BudgetEngine:
    """Match nodes of all partitions of one task, and what was learned from them."""

    by_history = True  # else there is none, and everything is extended
    merges = False  # nodes whose registers agree; a budget would tell them apart by their vectors

    def __init__(
        self, plan: Plan, states: LetterStates, bounds: Bounds | None, metrics: Metrics
    ) -> None:
        missing = plan.query.missing
        assert missing is not None
        self._plan, self._states, self._metrics = plan, states, metrics
        self._effort = missing.effort
        if not self.by_history:
            self._effort = replace(self._effort, adapt="frozen", history=1)
        self._bounds = bounds or Bounds()
        # Where no agent explores, a second history would know only what the first let through.
        self._adapts = self._effort.adapt == "secondary" or self._places() > 0
        buckets = Buckets.of(states)
        self.learned = Learned(states, buckets, self._effort)
        self._desk = Desk(buckets.vectors, self._effort.history)
        self.counters = self._desk.counters
        self._letters = np.array(states.letter, np.int32)
        self._links = links_into(states)
        self._rows, self._matching = 0, 0
        self._before = 0  # rows while learning
        self._seconds, self._units = 0.0, 0  # spent on extensions after learning
        self._need = 0.0  # candidates per matching event while learning
        self._known: Rows | None = None
        self._aligned: Aligned | None = None
        self._compiler = Compiler(plan, states)
        self._guards: Guards | None = None
        self._unguarded = no_guards()
        self._asks_python = False
        self._window = window_length(plan.query.within)
        self.audit: Auditing | None = None
        self._turned = 0  # row of the batch at which learning ended

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

    @property
    def own_budget(self) -> int:
        """Without what the audit has of it: of a small budget nothing."""
        whole = self.budget
        if self.audit is None or whole == UNLIMITED:
            return whole
        return max(1, int((1.0 - SHARE) * whole + 0.5))

    # -- matching --------------------------------------------------------------------------------

    def matches(
        self, batch: EventBatch, begin: int, row: int, stop: int, end: int, track: Track
    ) -> Iterator[tuple[Pairs, Answer | None]]:
        shift, firsts = begin - track.base, list[int]()
        learning = self.learned.learning
        self._turned = stop if learning else row
        for store in self._advance(batch, begin, row, stop, end, track):
            for pairs, answer in self._listed(store, shift):
                firsts.append(pairs[0][1] - shift)
                yield pairs, answer
        if self.audit is not None and row < stop:
            need = self._need * self._matching / max(1, self._rows)
            span = row, self._turned, stop
            spare = float(min(self.budget - self.own_budget, SHARE * need))
            self.audit.rows(batch, begin, span, end, track, need, spare, firsts)
            self._measure_recall()

    def _advance(
        self, batch: EventBatch, begin: int, row: int, stop: int, end: int, track: Track
    ) -> Iterator[NodeStore]:
        """Rows through the nodes; whenever it yields, the matches found have to be taken."""
        store = track.kept = track.kept or self._new_store()
        rows = self._inputs(batch)
        shift = begin - track.base
        if self._plan.correlated and row < stop:
            self._open_guards(batch, begin, end, store, int(rows.lows[row]) - shift, shift)
        while row < stop:
            chunk = min(stop, row + self._stretch())
            place = np.array([row], np.int64)
            while place[0] < chunk:
                problem = self._events(rows, place, chunk, shift, store)
                look()
                yield store
                if problem == kernels.HISTORY_FULL:
                    self.learned.grow()
                elif problem != kernels.DONE:
                    self._desk.make_room(problem, store, int(rows.lows[place[0]]) - shift)
                    if not self.by_history:
                        check_nodes(int(store.nodes.registers[kernels.USED]))
            self._rows += chunk - row
            kinds, hits = rows.classes[row:chunk], rows.machine.hits
            self._matching += int((hits[kinds + 1] > hits[kinds]).sum())
            self._settle()
            if self._turned >= stop and not self.learned.learning:
                self._turned = row  # at the latest
            row = chunk
        self._measure(store)

    def _new_store(self) -> NodeStore:
        levels = self._states.bound + 1 if self._effort.proxy else 1
        return NodeStore(self._states.states, levels, self._places())

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
        store.keep_registers(guards)
        if store.nodes.registers[kernels.USED]:
            store.compact(low)  # older rows are gone, and so is what nodes read of them
            self._asks_python = not rebuild(store.nodes, guards, store.registers, shift)

    def _stretch(self) -> int:
        """Rows until the next look at the clock, or until learning may be over."""
        left = self._effort.learn - self._rows if self.learned.learning else 0
        return min(CHUNK, left) if left > 0 else CHUNK

    def _inputs(self, batch: EventBatch) -> Rows:
        if self._known is None or self._known.batch is not batch:
            merge = self.merges or not self._plan.correlated
            self._known = Rows.of(batch, self._states, self._effort.proxy, merge)
        return self._known

    def _events(
        self, rows: Rows, place: NDArray[np.int64], stop: int, shift: int, store: NodeStore
    ) -> int:
        """Events until `stop`, or until matches have to be listed or arrays grow (why)."""
        before = int(self.counters[kernels.WORK])
        learning = self.learned.learning
        clock = time.perf_counter()
        problem = kernels.GUARD_FAILED
        if not (self._plan.correlated and self._asks_python):
            problem = self._run(rows, place, stop, shift, store)
        if problem == kernels.GUARD_FAILED:
            self._asks_python = True  # for the rest of these rows
            problem = self._run_in_python(rows, place, stop, shift, store)
        spent = time.perf_counter() - clock
        work = int(self.counters[kernels.WORK]) - before
        if not learning and work:
            # A moving average: what is long past counts for little.
            fade = 0.5 if self._units > 100_000 else 1.0
            self._seconds = fade * self._seconds + spent
            self._units = int(fade * self._units) + work
        return problem

    def _run(
        self, rows: Rows, place: NDArray[np.int64], stop: int, shift: int, store: NodeStore
    ) -> int:
        return int(
            runs.run(
                rows.machine, store.nodes, self.learned.history, self._desk.choice,
                self.learned.learner, store.agents, self._guards or self._unguarded,
                store.registers, self._desk.scratch(store), rows.classes, rows.times, rows.lows,
                place, stop, shift, self._window, self.by_history, self.own_budget, self._adapts,
                store.ends,
            )
        )  # fmt: skip

    def _places(self) -> int:
        """Agents of a partition: none without adaptation, or where each unit of work is needed."""
        if self._effort.adapt != "agents" or not self.by_history or self._plan.correlated:
            return 0
        work = self._bounds.work
        if work is None or work.share:
            return SOME_AGENTS
        return int(min(MAX_AGENTS, work.amount // AGENT_SHARE))

    # -- conditions on other events --------------------------------------------------------------

    def _run_in_python(
        self, rows: Rows, place: NDArray[np.int64], stop: int, shift: int, store: NodeStore
    ) -> int:
        """`_run` with the conditions asked of every candidate; without registers none merge."""
        counters, budget, records = self.counters, self.own_budget, self.by_history
        machine, scratch = rows.machine._replace(merge=False), self._desk.scratch(store)
        assert self._aligned is not None
        known: Serialisations = {NONE: ()}
        for here in range(int(place[0]), stop):
            look()
            history, choice, nodes = self.learned.history, self._desk.choice, store.nodes
            row, moment, low = here - shift, float(rows.times[here]), int(rows.lows[here]) - shift
            count, problem, limited = runs.prepare(
                machine, nodes, history, choice, store.agents, store.ends, int(rows.classes[here]),
                moment, low, self._window, records, budget,
            )  # fmt: skip
            if problem != kernels.DONE:
                return int(problem)
            counters[kernels.GENERATION] += 1
            oldest = int(nodes.registers[kernels.USED])
            learns = history.registers[PHASE] == LEARNING
            chosen = count
            if limited:
                counters[kernels.EVENTS] += 1
                chosen = choose(choice, history, count, counters[kernels.EVENTS], budget)
            for index in range(chosen):
                candidate = choice.order[index] if limited else index
                vector = choice.vectors[candidate]
                if records and (learns or self._adapts):
                    visit(history, 0 if learns else 1, vector)
                link = self._links[choice.links[candidate]]
                before = int(choice.nodes[candidate])
                entries = entries_of(nodes, self._links, self._states.letter, before, shift, known)
                label = self._states.letter[link.target]
                skipped = tuple((letter, NONE) for letter in link.skipped)
                if self._aligned.conditions.hold((*entries, *skipped, (label, here))):
                    kernels.extend(
                        machine, nodes, scratch, before, link.target, choice.errors[candidate],
                        choice.links[candidate], vector, row, moment, low,
                    )  # fmt: skip
            counters[kernels.WORK] += chosen
            counters[kernels.CANDIDATES] += count
            counters[kernels.SHED] += count - chosen
            kernels.report(
                machine, nodes, history, scratch, store.ends, oldest, row, moment, self._window,
                records, self._adapts,
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
        if self.by_history:
            self.learned.settle(self._rows)
        if self.learned.learning:
            self._before = self._rows
        if self.learned.learning or not self._need:
            self._need = float(self.counters[kernels.CANDIDATES]) / max(1, self._matching)

    def _measure(self, store: NodeStore) -> None:
        metrics = self._metrics
        metrics.partials = int(self.counters[kernels.WORK])
        metrics.shed = int(self.counters[kernels.SHED])
        metrics.bytes = self.learned.size + store.size
        metrics.unbounded, metrics.reason = Unbounded.of(
            self._before if self.by_history else 0,
            self._rows,
            "until then it learned which partial matches to extend, from "
            f"{self._effort.history:,} match bundles or {self._effort.learn:,} rows",
        )

    def _measure_recall(self) -> None:
        metrics = self._metrics
        told: tuple[float | None, float | None, float | None] = (1.0, 1.0, 1.0)
        if metrics.shed:
            told = (None, None, None) if self.audit is None else self.audit.recall()
        metrics.recall, metrics.low, metrics.high = told

    @property
    def work_so_far(self) -> tuple[int, int]:
        """Extensions made and not made, those before a snapshot was taken included."""
        return int(self.counters[kernels.WORK]), int(self.counters[kernels.SHED])

    @property
    def promise(self) -> tuple[float, float]:
        """Matches that there are, as estimated, and those found; 0 where nothing is known."""
        found, recall = 0 if self.audit is None else self.audit.found, self._metrics.recall
        return (found / recall, float(found)) if recall and found else (0.0, 0.0)

    # -- pieces and state ------------------------------------------------------------------------

    def restored(self, tables: dict[str, pa.Table]) -> NodeStore:
        """The nodes of a partition as `NodeStore.tables` wrote them."""
        store = self._new_store()
        store.restore(tables)
        return store

    def save_shared(self) -> bytes:
        numbers = {f"counter_{i}": int(value) for i, value in enumerate(self.counters)}
        numbers |= {
            "rows": self._rows, "matching": self._matching, "units": self._units,
            "nanoseconds": int(self._seconds * 1e9), "need": int(self._need * 1e6),
            "before": self._before, **({} if self.audit is None else self.audit.numbers()),
        }  # fmt: skip
        return self.learned.save(self._plan.fingerprint, numbers)

    def load_shared(self, blob: bytes) -> None:
        numbers = self.learned.load(blob, self._plan.fingerprint)
        for index in range(kernels.COUNTERS):
            self.counters[index] = numbers[f"counter_{index}"]
        self._rows, self._matching = numbers["rows"], numbers["matching"]
        self._units, self._before = numbers["units"], numbers.get("before", 0)
        self._seconds, self._need = numbers["nanoseconds"] / 1e9, numbers["need"] / 1e6
        if self.audit is not None:
            self.audit.load(numbers)
