"""Best-effort retrieval of paths for questions, under a bound (SHARP §5).

A question comes with several candidate expressions, of which an LLM or a user is not sure. All are
searched together: partial paths are shared while the expressions agree. What a partial path
contributes to a candidate is the similarity of its text (the labels it crossed) and the candidate's
text, weighted by the similarity of the candidate and the question; what it costs is estimated from
its neighbours and the graph's average degree. The bound is per question, on average. Everything
found is a true path of a candidate: a bound loses answers, it never invents one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.paths import DEAD
from ensue.operator.budget import EVERY, Bounds, Budget, Form, Room
from ensue.paths.believed import ALL, Believed, Pieces, believe, set_aside
from ensue.paths.candidates import Read, read_candidates
from ensue.paths.embed import Embedder
from ensue.paths.kernels.budget import (
    CONTRIBUTION,
    RANDOM,
    SELECTIVITY,
    Piece,
    nothing_yet,
    search_best,
)
from ensue.paths.plan import UNBOUNDED, PathPlan
from ensue.paths.retrieval import Retrieval, pieced
from ensue.paths.search import MODES, WALKS, PathEngine
from ensue.paths.similarity import Question, label_words, question_weights, state_sharing
from ensue.query.paths import Semantics
from ensue.stopping import look

STRATEGIES = {"contribution": CONTRIBUTION, "random": RANDOM, "selectivity": SELECTIVITY}
ROOM = Room(
    "questions over a graph",
    EVERY - {Form.LATENCY_EACH, Form.WORK_SHARE},
    optional=True,
    zero=True,  # a start may itself be an answer
)
WINDOW = 1024  # questions that tell what the unbounded run needs, or pass between looks at time
_HORIZON = 8  # windows over which time saved or overdrawn is evened out
_SAMPLES = 16  # pieces of a window, spread over all questions, that tell what is needed
MANY = (list, tuple, set, frozenset, range, np.ndarray, pa.Array, pa.ChunkedArray)
_NO_BOUND = 2.0**61
_FIRST_SLICE = 64  # steps between two looks at the time
_SLICE = 0.02  # seconds
_LEAST_SEARCH = 0.25  # of a bound on time, whatever embedding took


@dataclass(frozen=True)
class Ways:
    """How questions are answered."""

    read: Callable[[str], Read]  # of an expression's text
    semantics: Semantics
    max_hops: int | None
    budget: Budget | None
    embedder: Embedder | None
    label_texts: Mapping[str, str] | None
    unknown: str
    threshold: float
    strategy: str
    seed: int
    absent: Callable[[str, list[Any], int], None]


def retrieve(engine: PathEngine, questions: Sequence[Question], ways: Ways) -> Retrieval:
    bounds = None if ways.budget is None else ROOM.read(ways.budget)
    if ways.strategy not in STRATEGIES:
        raise errors.QueryError(
            f"strategy={ways.strategy!r} is not known", remedy="use " + ", ".join(STRATEGIES)
        )
    read = {text: ways.read(text) for question in questions for text in question.expressions}
    store, clock = engine.store, _Stopwatch(ways.embedder is None)
    words = label_words(store, ways.label_texts)
    with clock:
        known = engine.embedders.of(ways.embedder, list(words.values()))
        candidates = read_candidates(read, store.labels, words, known, ways.unknown, ways.threshold)
    groups = [question.expressions for question in questions]
    endless = ways.max_hops is None and ways.semantics in WALKS
    plan = candidates.plan(engine.planner, groups, endless)
    with clock:
        weight = question_weights(questions, candidates.queries, candidates.trust, words, known)
        sharing = state_sharing(plan, words, known)
    candidates.warn()
    search = _Search(
        engine, plan, ways.semantics, ways.max_hops, sharing, STRATEGIES[ways.strategy], ways.seed
    )
    offset, roots, states = _roots(engine, plan, questions, candidates.asked(groups), ways.absent)
    began = time.thread_time()
    pieces, believed = search.run(offset, roots, states, weight, bounds, clock.seconds)
    seconds = time.thread_time() - began
    texts = list(candidates.queries)
    repairs = candidates.report()
    return pieced(store, texts, len(questions), pieces, seconds, clock.seconds, repairs, believed)


class _Stopwatch:
    """Seconds of embedding: of this thread, or on the wall where an embedder may run elsewhere."""

    def __init__(self, here: bool) -> None:
        self.seconds = 0.0
        self._clock = time.thread_time if here else time.perf_counter
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self.seconds += self._clock() - self._began


# -- bounds --------------------------------------------------------------------------------------


class _Search:
    """Runs questions a window at a time; a bound on time becomes one on work between windows."""

    def __init__(
        self,
        engine: PathEngine,
        plan: PathPlan,
        semantics: Semantics,
        max_hops: int | None,
        sharing: tuple[Any, ...],
        strategy: int,
        seed: int,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._mode = MODES[semantics]
        self._hops = UNBOUNDED if max_hops is None else max_hops
        self._sharing = sharing
        self._strategy = strategy
        self._seed = seed
        self._remaining = plan.automaton.remaining()
        self._targets = _targets(plan)
        self._selectivity = _selectivity(plan)

    def run(
        self,
        offset: NDArray[np.int64],
        roots: NDArray[np.int32],
        states: NDArray[np.int32],
        weight: NDArray[np.float32],
        bounds: Bounds | None,
        embedded: float = 0.0,  # seconds that embedding took: part of the bound
    ) -> tuple[Pieces, Believed]:
        questions = len(weight)

        def search(
            begin: int,
            end: int,
            work: float,
            held: int,
            saved: float,
            steps: int = int(_NO_BOUND),
            horizon: float = _NO_BOUND,
            paused: Any = None,
        ) -> Piece:
            span = slice(offset[begin], offset[end])
            if paused is None:
                paused = nothing_yet(len(self._plan.moves.visit_symbol), end - begin)
            found = search_best(
                self._plan.graph,
                self._plan.moves,
                self._sharing,
                self._targets,
                self._remaining,
                self._engine.store.average_degree,
                self._selectivity,
                offset[begin : end + 1] - offset[begin],
                roots[span],
                states[span],
                weight[begin:end],
                work,
                held,
                saved,
                self._hops,
                self._mode,
                self._strategy,
                self._seed + begin,
                steps,
                horizon,
                paused,
            )
            look()
            return found

        if bounds is None:
            return [
                (0, search(0, questions, _NO_BOUND, int(_NO_BOUND), 0.0))
            ], ALL if questions else Believed()
        latency, memory = bounds.latency, bounds.memory
        work = _NO_BOUND if bounds.work is None else bounds.work.amount
        shares = [bound for bound in (latency, memory) if bound is not None and bound.share]
        need = _unbounded(search, questions) if shares else (1.0, 1.0)
        each = embedded / max(questions, 1)
        seconds = 0.0 if latency is None else latency.of(need[0] + each)
        held = int(_NO_BOUND if memory is None else min(memory.of(need[1]), _NO_BOUND))
        aside = set_aside(questions, memory is not None)
        if latency is None or not questions:
            first = [(0, search(0, questions, work * (1 - aside), held, 0.0))]
            left = math.inf
        else:
            search(0, 0, 0.0, 0, 0.0)  # loads the kernel, so that the clock sees searches only
            seconds = _left_to_search(seconds, each) * (1 - aside)
            began = time.thread_time()
            pieces = self._timed(search, questions, work * (1 - aside), held, seconds)
            left = seconds * questions - (time.thread_time() - began)
            starts = np.cumsum([0, *(len(piece.work) for piece in pieces)])
            first = list(zip(starts.tolist(), pieces, strict=False))
            first += _gone_on(search, pieces, work * (1 - aside), held, left)
            left = seconds / (1 - aside) * aside * questions

        def full(question: int, work: float, seconds: float) -> tuple[Piece, float]:
            return _sliced(search, question, work, held, seconds)

        spare = min(work * questions, _NO_BOUND) * aside
        more, believed = believe(first, questions, full, spare, left, self._seed)
        return first + more, believed

    @staticmethod
    def _timed(
        search: Callable[..., Piece],
        questions: int,
        work: float,
        held: int,
        seconds: float,
    ) -> list[Piece]:
        """A bound on time becomes one on work, adjusted from window to window.

        Time is that of the searching thread: what else the machine does must not shed answers.
        """
        pieces: list[Piece] = []
        allowed, saved, begin, spent, window = 16.0, 0.0, 0, 0.0, 64
        while begin < questions:
            end = min(begin + window, questions)
            began = time.thread_time()
            piece = search(begin, end, min(work, allowed), held, saved)
            took = time.thread_time() - began
            spent += took
            pieces.append(piece)
            # What the next window may take. What earlier ones saved or overdrew is spread over
            # several: paid back at once, an overdraft would leave questions without an answer.
            horizon = min(_HORIZON * WINDOW, max(questions - end, 1))
            target = max(seconds + (seconds * end - spent) / horizon, seconds / 4)
            ratio = target / max(took / (end - begin), 1e-9)
            allowed = max(allowed * float(np.clip(ratio, 0.5, 2.0)), 1.0)
            # Far above what questions use it would bound nothing for many windows when harder
            # ones come.
            allowed = min(allowed, max(2 * float(piece.work.mean()), 16.0))
            saved = min(float(piece.savings), allowed * 64)
            begin, window = end, min(2 * window, WINDOW)
        return pieces


def _left_to_search(seconds: float, embedding: float) -> float:
    """Of the seconds per question; where embedding leaves too few, some, and a warning."""
    left = seconds - embedding
    if left >= seconds * _LEAST_SEARCH:
        return left
    warnings.warn(
        f"embedding took {1e6 * embedding:.3g} us per question of the {1e6 * seconds:.3g} us "
        f"allowed: the bound cannot be held; {100 * _LEAST_SEARCH:.0f} % of it is searched on top. "
        "Vectors of labels and kinds of question are kept for the next call",
        errors.BoundWarning,
        stacklevel=8,
    )
    return seconds * _LEAST_SEARCH


def _gone_on(
    search: Callable[..., Piece],
    pieces: Sequence[Piece],
    work: float,
    held: int,
    seconds: float,
) -> list[tuple[int, Piece]]:
    """Unfinished questions again, for the time (and work) that all of them left over.

    Windows learn what time allows from many questions; few, or the first ones, are cut short by
    a bound on work that was only a guess. Each has an equal share of what is left, and what it does
    not need goes to those after it.
    """
    done = np.concatenate([piece.work for piece in pieces])
    unfinished = np.flatnonzero(~np.concatenate([piece.complete for piece in pieces]))
    counts = np.concatenate(
        [np.bincount(piece.found[:, 0], minlength=len(piece.work)) for piece in pieces]
    )
    spare = work * len(done) - float(done.sum())
    found: list[tuple[int, Piece]] = []
    for number, question in enumerate(unfinished.tolist()):
        waiting = len(unfinished) - number
        allowed = float(done[question]) + spare / waiting
        if seconds <= 0 or allowed < done[question] + 1:
            break
        piece, spent = _sliced(search, question, allowed, held, seconds / waiting)
        seconds -= spent
        if piece.complete[0] or len(piece.found) >= counts[question]:
            spare -= float(piece.work[0] - done[question])
            found.append((question, piece))
    return found


def _sliced(
    search: Callable[..., Piece], question: int, work: float, held: int, seconds: float
) -> tuple[Piece, float]:
    """One question until its time is over, which is looked at after every slice; the time spent.

    Slices grow while they are cheap, up to a quarter of the time left and to `_SLICE` seconds.
    """
    paused, steps, taken, spent, horizon = None, _FIRST_SLICE, 0, 0.0, _NO_BOUND
    while True:
        began = time.thread_time()
        piece = search(question, question + 1, work, held, 0.0, steps, horizon, paused)
        spent += time.thread_time() - began
        if piece.done == 1:
            return piece, spent
        if spent >= seconds:
            piece.complete[0] = False
            return piece, spent
        taken += steps
        rate = taken / max(spent, 1e-9)
        fitting = rate * min((seconds - spent) / 4, _SLICE)
        steps = int(np.clip(fitting, _FIRST_SLICE, 2 * steps))
        horizon = float(piece.work[0]) * max(seconds / max(spent, 1e-9), 1.0)
        paused = piece.paused


def _unbounded(search: Callable[..., Piece], questions: int) -> tuple[float, float]:
    """Seconds and bytes per question without a bound, from questions spread over all of them.

    Questions often come sorted; the first ones alone would speak for their own kind only.
    """
    search(0, 0, 0.0, 0, 0.0)  # loads the kernel, so that the clock sees searches only
    pieces = min(_SAMPLES, max(questions, 1))
    size = min(WINDOW // _SAMPLES, -(-questions // pieces))
    seconds, held, asked = 0.0, 0.0, 0
    for number in range(pieces):
        begin = number * questions // pieces
        end = min(begin + size, questions)
        started = time.thread_time()
        need = search(begin, end, _NO_BOUND, int(_NO_BOUND), 0.0)
        seconds += time.thread_time() - started
        held += float(need.bytes.sum())
        asked += end - begin
    return seconds / max(asked, 1), held / max(asked, 1)


def _selectivity(plan: PathPlan) -> NDArray[np.float64]:
    """Per visit: entries of its symbol per node."""
    counts = np.bincount(plan.store.entry_symbols, minlength=max(plan.store.symbols, 1))
    return counts[plan.moves.visit_symbol] / max(plan.store.node_count, 1)


def _targets(plan: PathPlan) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Per visit (a symbol that a state can leave over): the states it can lead to."""
    moves = plan.moves
    offset: list[int] = [0]
    found: list[int] = []
    for state in range(plan.automaton.states):
        for symbol in moves.visit_symbol[moves.visit_offset[state] : moves.visit_offset[state + 1]]:
            kinds = plan.classes.under_symbol[symbol]
            found.extend({int(moves.table[state, kind]) for kind in kinds} - {DEAD})
            offset.append(len(found))
    return np.array(offset, np.int32), np.array(found, np.int32)


def _roots(
    engine: PathEngine,
    plan: PathPlan,
    questions: Sequence[Question],
    sets: Sequence[frozenset[int]],
    absent: Callable[[str, list[Any], int], None],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    starts = [list(q.start) if isinstance(q.start, MANY) else [q.start] for q in questions]
    flat = [start for group in starts for start in group]
    found = engine.store.find(flat)
    missing = np.flatnonzero(found < 0)
    if len(missing):
        absent("start of a question", [flat[int(at)] for at in missing[:3]], len(missing))
    offset = np.cumsum([0, *(len(group) for group in starts)]).astype(np.int64)
    entries = np.array([plan.automaton.entries[asked] for asked in sets], np.int32)
    states = np.repeat(entries, np.diff(offset))
    states = np.where(found < 0, np.int32(DEAD), states)
    return offset, np.maximum(found, 0).astype(np.int32), states.astype(np.int32)
