"""The recall of RC-ACEP, from starts drawn at random whose matches are all found.

All match nodes of a trajectory share their first event. So the nodes of a few starts are followed
without a budget, beside those that the history chooses, at a tenth of the budget and at least
`FREE` extensions; what was found is compared with what there is, start by start (`operator/
sampled.py`). What the audit finds is not told: it would no longer be a sample of what is.

An automaton of twice the states says where a match may begin: an event of a drawn row is matched at
the first half, to which seeds lead, that of another row at the second half, to which none does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from ensue.automaton.letters import FINAL, START, LetterStates, Link
from ensue.automaton.plan import Plan
from ensue.missing.budget import BudgetEngine
from ensue.missing.nodes import NodeStore, Rows, Track
from ensue.operator.protocol import Metrics
from ensue.operator.sampled import Sample
from ensue.sequences.batch import EventBatch

FREE = 4_000.0  # extensions beside the audit's share of the budget
SEED = 20161202
_SCALE = 1 << 20


@dataclass
class Audited:
    """Of one partition: open starts, with what was found of all, and what there is of the drawn."""

    nodes: NodeStore | None
    since: int  # first row that may be drawn
    learnt: bool  # everything was extended up to there
    found: Counter[int] = field(default_factory=Counter)
    there: Counter[int] = field(default_factory=Counter)
    rates: dict[int, float] = field(default_factory=dict)  # with which those were drawn


def doubled(states: LetterStates) -> LetterStates:
    """States 1 to n, to which seeds lead, and n + 1 to 2 n, to which none does."""
    half = states.states - 1
    links: list[list[Link]] = [[] for _ in range(2 * half + 1)]
    finals: list[tuple[Link, ...]] = [states.finals[START]]
    for source in range(states.states):
        for link in states.links[source]:
            if source == START:
                links[START].append(link)
                continue
            for here in (source, source + half):
                for target in (link.target, link.target + half):
                    links[here].append(replace(link, source=here, target=target))
    for copy in (0, half):
        for source in range(1, half + 1):
            mine = states.finals[source]
            finals.append(tuple(replace(k, source=source + copy, target=FINAL) for k in mine))
    letter = (*states.letter, *states.letter[1:])
    return replace(states, letter=letter, links=tuple(map(tuple, links)), finals=tuple(finals))


class Everything(BudgetEngine):
    """Follows what begins at the rows drawn of each batch."""

    by_history = False
    rate = 1.0

    def __init__(self, plan: Plan, states: LetterStates) -> None:
        super().__init__(plan, doubled(states), None, Metrics())
        self._chance = np.random.default_rng(SEED)

    def knows(self, batch: EventBatch) -> bool:
        """Whether its rows were drawn."""
        return self._known is not None and self._known.batch is batch

    def _inputs(self, batch: EventBatch) -> Rows:
        if self._known is None or self._known.batch is not batch:
            rows = Rows.of(batch, self._states, False, not self._plan.correlated)
            self._known = self._drawn(rows)
        return self._known

    def _drawn(self, rows: Rows) -> Rows:
        machine, half = rows.machine, (self._states.states - 1) // 2
        kinds = len(machine.hits) - 1
        hits, reached = [0], list[int]()
        for begins in (False, True):
            for kind in range(kinds):
                here = machine.states[machine.hits[kind] : machine.hits[kind + 1]]
                reached += [state for state in here.tolist() if (state <= half) == begins]
                hits.append(len(reached))
        drawn = self._chance.random(len(rows.classes)) < self.rate
        classes = rows.classes + kinds * drawn
        machine = machine._replace(
            hits=np.array(hits, np.int32), states=np.array(reached, np.int32)
        )
        return replace(rows, machine=machine, classes=classes.astype(rows.classes.dtype))

    def _places(self) -> int:
        return 0

    def starts(
        self, batch: EventBatch, begin: int, row: int, stop: int, end: int, track: Track
    ) -> Iterator[int]:
        """The first row of every match that begins at a row drawn and ends in these rows."""
        for store in self._advance(batch, begin, row, stop, end, track):
            seen, current = set[bytes](), -1
            for last, labels, rows, _ in store.listed(self._letters):
                if last != current:
                    current = last
                    seen.clear()
                key = labels.tobytes() + rows.tobytes()
                if key not in seen:
                    seen.add(key)
                    yield int(rows[0])


class Audit:
    """See the module; one per task."""

    def __init__(self, plan: Plan, states: LetterStates) -> None:
        self._engine = Everything(plan, states)
        self._closed = Sample()
        self._sure = self._rest = 0  # found; of starts that are all found, and of others
        self._time = FREE  # extensions that there was room for
        self._open: dict[int, Audited] = {}

    def rows(
        self, batch: EventBatch, begin: int, span: tuple[int, int, int], end: int, track: Track,
        need: float, spare: float, firsts: list[int],
    ) -> None:  # fmt: skip
        """Rows of a partition that the budget has gone through, and the starts of what it found.

        `span`: its rows begin, are bounded from the second on, and end. `need`: extensions of an
        event without a bound; `spare`: those that there is room for here.
        """
        row, bounded, stop = span
        shift, engine = begin - track.base, self._engine
        mine = self._open.get(id(track))
        if batch.low is not None and row < bounded < stop:
            bounded = max(row, int(batch.low[bounded]))  # what is open there may lose matches
        if mine is None and bounded < stop:
            mine = Audited(None, bounded - shift, bounded > row)
            self._open[id(track)] = mine
        if mine is None:
            self._sure += len(firsts)
            return
        for first in firsts:
            if first >= mine.since:
                mine.found[first] += 1
            if first >= mine.since or not mine.learnt:
                self._rest += 1
            else:
                self._sure += 1
        if bounded >= stop:
            return
        if not engine.knows(batch):
            size = batch.table.num_rows
            self._time += spare * size
            left = max(self._time - engine.work_so_far[0], 0.0)
            engine.rate = max(1e-6, min(1.0, left / max(1.0, need * size)))
        own = Track(track.base, kept=mine.nodes)
        for first in engine.starts(batch, begin, bounded, stop, end, own):
            mine.there[first] += 1
            mine.rates.setdefault(first, engine.rate)
        mine.nodes = own.kept
        self._close(mine, 0 if batch.low is None else int(batch.low[stop - 1]) - shift)

    def ended(self, track: Track) -> None:
        """The partition is complete."""
        mine = self._open.pop(id(track), None)
        if mine is not None:
            self._close(mine, 1 << 62)

    def _close(self, mine: Audited, low: int) -> None:
        for first in [first for first in mine.there if first < low]:
            self._closed.add(mine.found[first], mine.there.pop(first), mine.rates.pop(first))
        for first in [first for first in mine.found if first < low]:
            del mine.found[first]

    def recall(self) -> tuple[float | None, float | None, float | None]:
        sample = self._closed
        for mine in self._open.values():
            of_open = Sample()
            for first, there in mine.there.items():
                of_open.add(mine.found[first], there, mine.rates[first])
            sample = sample.plus(of_open)
        return sample.recall(self._sure, self._rest)

    @property
    def found(self) -> int:
        return self._sure + self._rest

    # -- state -----------------------------------------------------------------------------------

    def numbers(self) -> dict[str, int]:
        """What is known of closed starts; those that are open begin again."""
        sums = {
            f"audit_{name}": int(value * _SCALE) for name, value in asdict(self._closed).items()
        }
        return sums | {"audit_sure": self._sure, "audit_rest": self._rest}

    def load(self, numbers: Mapping[str, int]) -> None:
        if "audit_sure" in numbers:
            names = asdict(self._closed)
            self._closed = Sample(*(numbers[f"audit_{name}"] / _SCALE for name in names))
            self._sure, self._rest = numbers["audit_sure"], numbers["audit_rest"]
