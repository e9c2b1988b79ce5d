"""Path queries to one deterministic automaton over classes of edges.

Each query compiles to an ordered ε-free program as row patterns do; the subset construction over
all of them gives one table in which a path has one run, so that it is found once, and in which
queries that begin alike share their states until they part (SHARP §3.1, pattern sharing). What the
automaton reads is not an edge but its class: the set of tests the edge passes. Unlike the number
of labels, the number of classes is small.

Cost: states x classes; a state that cannot reach acceptance is dropped, so every partial path the
engine keeps has a chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.compile import compile_query, merge_states
from ensue.automaton.program import ACCEPT, START, Program
from ensue.automaton.subsets import States, determinise
from ensue.automaton.view import ACCEPT as ACCEPT_MARK
from ensue.automaton.view import START as START_MARK
from ensue.automaton.view import Arc, Shown, State, View
from ensue.automaton.walks import distances, gathered, reversed_edges
from ensue.query.paths import EdgeTest, PathQuery
from ensue.query.query import Query

MAX_STATES = 50_000
MAX_MEMBERS = 2_000_000  # program states in all deterministic ones: memory and time to build them
DEAD = -1


@dataclass(frozen=True)
class PathPrograms(Shown):
    """The programs of several queries over one list of tests."""

    queries: tuple[PathQuery, ...]
    programs: tuple[Program, ...]
    tests: tuple[EdgeTest, ...]
    test_of: tuple[tuple[int, ...], ...]  # per program and state: its test; -1 for the start

    @staticmethod
    def compile(queries: Sequence[PathQuery]) -> PathPrograms:
        numbers: dict[EdgeTest, int] = {}
        programs, test_of = [], []
        for query in queries:
            program = merge_states(compile_query(Query(pattern=query.pattern)))
            # compile_query numbers labels by first appearance; their names number the tests.
            tests = [query.tests[int(name)] for name in program.labels]
            ids = [numbers.setdefault(test, len(numbers)) for test in tests]
            programs.append(program)
            test_of.append(tuple(-1 if label < 0 else ids[label] for label in program.label))
        return PathPrograms(tuple(queries), tuple(programs), tuple(numbers), tuple(test_of))

    def view(self) -> View:
        """Each query's steps, by what they may cross."""
        parts = []
        for query, program, tests in zip(self.queries, self.programs, self.test_of, strict=True):
            shown = program.view()
            texts = [str(self.tests[test]) for test in tests[1:]]
            steps = [
                replace(state, label=text, note=f"state {state.key}: {text}")
                for state, text in zip(shown.states[1:-1], texts, strict=True)
            ]
            states = (shown.states[0], *steps, shown.states[-1])
            parts.append(replace(shown, states=states, notes=(), title=query.text, ordered=False))
        return parts[0] if len(parts) == 1 else View(parts=tuple(parts))


@dataclass(frozen=True, eq=False)
class PathAutomaton(Shown):
    """Deterministic; `table[state, class]` is the next state or DEAD."""

    table: NDArray[np.int32]
    entries: dict[frozenset[int], int]  # asked queries -> first state (DEAD: no path can answer)
    accept_offset: NDArray[np.int32]  # queries that state s accepts: accept_query[offset[s] ...]
    accept_query: NDArray[np.int32]
    queries_of: tuple[frozenset[int], ...]  # per state: queries that can still accept (the PSD)

    @property
    def states(self) -> int:
        return len(self.table)

    def view(self) -> View:
        """Arcs by the numbers of the classes they read."""
        entries = set(self.entries.values())
        states, arcs = [], []
        for state, row in enumerate(self.table):
            marks = (START_MARK,) * (state in entries) + (ACCEPT_MARK,) * bool(self.accepts(state))
            states.append(State(str(state), marks=marks))
            for target in self._targets[state]:
                classes = ", ".join(str(c) for c in np.flatnonzero(row == target))
                arcs.append(Arc(state, target, f"class {classes}"))
        return View(tuple(states), tuple(arcs))

    @cached_property
    def _targets(self) -> list[list[int]]:
        return [sorted({int(t) for t in row if t != DEAD}) for row in self.table]

    @property
    def cyclic(self) -> bool:
        """Whether some loop can repeat for ever."""
        return self.longest is None

    @cached_property
    def longest(self) -> int | None:
        """The most steps a path can have; None where there is no bound."""
        depth = [0] * self.states
        arcs = self._targets
        waiting = [len(sources) for sources in reversed_edges(arcs, self.states)]
        ready = [s for s in range(self.states) if not waiting[s]]
        done = 0
        while ready:
            state = ready.pop()
            done += 1
            for target in arcs[state]:
                depth[target] = max(depth[target], depth[state] + 1)
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
        return max(depth, default=0) if done == self.states else None

    def accepts(self, state: int) -> list[int]:
        span = slice(self.accept_offset[state], self.accept_offset[state + 1])
        return [int(query) for query in self.accept_query[span]]

    def remaining(self) -> NDArray[np.int32]:
        """Per state: the fewest steps to acceptance."""
        least = np.full(self.states, -1, np.int32)
        ends = [state for state in range(self.states) if self.accepts(state)]
        sources = reversed_edges(self._targets, self.states)
        for state, steps in distances(ends, sources.__getitem__).items():
            least[state] = steps
        return least


Members = frozenset[tuple[int, int]]  # (query, state)
_REMEDY = (
    "ask fewer queries per call, shorten the repetitions {n,m}, avoid a repetition of alternatives "
    "that overlap before a counted one, or write a repetition of a repetition as one"
)


class _Subsets(States[Members]):
    """Sets of program states; few large ones can take as much memory as many small ones."""

    def __init__(self) -> None:
        super().__init__(MAX_STATES, _REMEDY, "the path expressions need")
        self._size = 0

    def number(self, key: Members) -> int:
        known = self._numbers.get(key)
        if known is not None:
            return known
        self._size += len(key)
        if self._size > MAX_MEMBERS:
            raise errors.LimitError(
                f"the path expressions can be read in too many ways: {len(self):,} deterministic "
                f"states stand for more than {MAX_MEMBERS:,} places in them",
                remedy=_REMEDY,
            )
        return super().number(key)


def determine(
    programs: PathPrograms,
    classes: Sequence[frozenset[int]],
    origins: Sequence[frozenset[int]],
) -> PathAutomaton:
    """The subset construction from every set of queries asked together, over the classes given."""
    arcs_of = [
        [program.arcs_of(state) for state in range(program.states)] for program in programs.programs
    ]
    states = _Subsets()
    accepts: list[set[int]] = []

    def by_class(members: Members) -> dict[int, Members]:
        by_test: dict[int, set[tuple[int, int]]] = {}
        accepts.append(set())
        for query, state in members:
            for target, _ in arcs_of[query][state]:
                if target == ACCEPT:
                    accepts[-1].add(query)
                else:
                    test = programs.test_of[query][target]
                    by_test.setdefault(test, set()).add((query, target))
        tests = frozenset(by_test)
        known: dict[frozenset[int], Members] = {}
        row: dict[int, Members] = {}
        for number, passed in enumerate(classes):
            asked = passed & tests
            if asked:
                if asked not in known:
                    known[asked] = frozenset().union(*(by_test[test] for test in asked))
                row[number] = known[asked]
        return row

    starts = {queries: frozenset((query, START) for query in queries) for queries in origins}
    rows = determinise(states, starts.values(), by_class)
    first = {queries: states.number(members) for queries, members in starts.items()}
    return _trimmed(rows, accepts, first, len(classes))


def _trimmed(
    rows: list[dict[int, int]],
    accepts: list[set[int]],
    first: dict[frozenset[int], int],
    classes: int,
) -> PathAutomaton:
    """Without the states from which nothing is accepted."""
    reaching = gathered(accepts, [list(row.values()) for row in rows])
    kept = [state for state, queries in enumerate(reaching) if queries]
    number = {state: index for index, state in enumerate(kept)}
    table = np.full((len(kept), max(classes, 1)), DEAD, np.int32)
    for index, state in enumerate(kept):
        for column, target in rows[state].items():
            table[index, column] = number.get(target, DEAD)
    answers = [sorted(accepts[state]) for state in kept]
    return PathAutomaton(
        table=table,
        entries={queries: number.get(state, DEAD) for queries, state in first.items()},
        accept_offset=np.cumsum([0, *map(len, answers)]).astype(np.int32),
        accept_query=np.array([query for queries in answers for query in queries], np.int32),
        queries_of=tuple(frozenset(reaching[state]) for state in kept),
    )
