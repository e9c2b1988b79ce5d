"""Best-effort retrieval of paths for questions, under a bound (SHARP §5).

A question comes with several candidate expressions, of which an LLM or a user is not sure. All are
searched together: partial paths are shared while the expressions agree. What a partial path
contributes to a candidate is the similarity of its text (the labels it crossed) and the candidate's
text, weighted by the similarity of the candidate and the question; what it costs is estimated from
its neighbours and the graph's average degree. The bound is per question, on average. Everything
found is a true path of a candidate: a bound loses answers, it never invents one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.automaton.paths import DEAD
from ensue.operator.budget import EVERY, Bounds, Budget, Form, Room
from ensue.paths.candidates import Read, read_candidates
from ensue.paths.embed import Embedder
from ensue.paths.graph_store import GraphStore
from ensue.paths.kernels.budget import (
    CONTRIBUTION,
    RANDOM,
    SELECTIVITY,
    Piece,
    nothing_yet,
    search_best,
)
from ensue.paths.plan import UNBOUNDED, PathPlan
from ensue.paths.search import MODES, WALKS, Found, PathEngine
from ensue.paths.similarity import Question, label_words, question_weights, state_sharing
from ensue.paths.tables import path_table
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
_MANY = (list, tuple, set, frozenset, range, np.ndarray, pa.Array, pa.ChunkedArray)
_NO_BOUND = 2.0**61
_FIRST_SLICE = 64  # steps between two looks at the time
_SLICE = 0.02  # seconds
_LEAST_SEARCH = 0.25  # of a bound on time, whatever embedding took


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Paths found for questions, by question, best first."""

    store: GraphStore
    texts: list[str]  # of the expressions
    questions: int
    question: NDArray[np.int32]
    found: Found
    score: NDArray[np.float32]
    work: NDArray[np.int64]  # per question: extensions of partial paths
    bytes: NDArray[np.int64]  # per question: most bytes of partial paths and answers
    complete: NDArray[np.bool_]  # per question: nothing was left out
    seconds: float  # searching, all questions
    embedding_seconds: float
    repairs: pa.Table  # expressions not asked as given: query, label, read_as, similarity, reason

    @cached_property
    def table(self) -> pa.Table:
        """question, query, start, end, nodes, labels, length, score."""
        table = path_table(self.store, self.found, self.texts)
        table = table.add_column(0, "question", pa.array(self.question))
        return table.append_column("score", pa.array(self.score))

    def answers(self) -> list[list[Any]]:
        """Per question the distinct ends, best first: by score, then by how many paths agree."""
        names = self.store.names
        tallies: list[dict[int, list[float]]] = [{} for _ in range(self.questions)]
        rows = zip(
            self.question.tolist(), self.found.end.tolist(), self.score.tolist(), strict=True
        )
        for question, end, score in rows:
            entry = tallies[question].setdefault(end, [0.0, 0.0])
            entry[0] = max(entry[0], score)
            entry[1] += 1.0
        ranked = [sorted(t, key=lambda end: t[end], reverse=True) for t in tallies]
        flat = names.take(pa.array([end for ends in ranked for end in ends], pa.int32()))
        values = iter(flat.to_pylist())
        return [[next(values) for _ in ends] for ends in ranked]


def retrieve(
    engine: PathEngine,
    questions: Sequence[Question],
    read: Mapping[str, Read],
    semantics: Semantics,
    max_hops: int | None,
    budget: Budget | None,
    embedder: Embedder | None,
    label_texts: Mapping[str, str] | None,
    unknown: str,
    threshold: float,
    strategy: str,
    seed: int,
    absent: Callable[[str, list[Any], int], None],
) -> Retrieval:
    bounds = None if budget is None else ROOM.read(budget)
    if strategy not in STRATEGIES:
        raise errors.QueryError(
            f"strategy={strategy!r} is not known", remedy="use " + ", ".join(STRATEGIES)
        )
    store, clock = engine.store, _Stopwatch(embedder is None)
    words = label_words(store, label_texts)
    with clock:
        known = engine.embedders.of(embedder, list(words.values()))
        candidates = read_candidates(read, store.labels, words, known, unknown, threshold)
    groups = [question.expressions for question in questions]
    endless = max_hops is None and semantics in WALKS
    plan = candidates.plan(engine.planner, groups, endless)
    with clock:
        weight = question_weights(questions, candidates.queries, candidates.trust, words, known)
        sharing = state_sharing(plan, words, known)
    candidates.warn()
    search = _Search(engine, plan, semantics, max_hops, sharing, STRATEGIES[strategy], seed)
    offset, roots, states = _roots(engine, plan, questions, candidates.asked(groups), absent)
    began = time.perf_counter()
    pieces = search.run(offset, roots, states, weight, bounds, clock.seconds)
    seconds = time.perf_counter() - began
    texts = list(candidates.queries)
    repairs = candidates.report()
    return _joined(store, texts, len(questions), pieces, seconds, clock.seconds, repairs)


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
    ) -> list[tuple[int, Piece]]:
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
            return [(0, search(0, questions, _NO_BOUND, int(_NO_BOUND), 0.0))]
        latency, memory = bounds.latency, bounds.memory
        work = _NO_BOUND if bounds.work is None else bounds.work.amount
        shares = [bound for bound in (latency, memory) if bound is not None and bound.share]
        need = _unbounded(search, questions) if shares else (1.0, 1.0)
        each = embedded / max(questions, 1)
        seconds = 0.0 if latency is None else latency.of(need[0] + each)
        held = int(_NO_BOUND if memory is None else min(memory.of(need[1]), _NO_BOUND))
        if latency is None or not questions:
            return [(0, search(0, questions, work, held, 0.0))]
        search(0, 0, 0.0, 0, 0.0)  # loads the kernel, so that the clock sees searches only
        seconds = _left_to_search(seconds, each)
        began = time.thread_time()
        pieces = self._timed(search, questions, work, held, seconds)
        left = seconds * questions - (time.thread_time() - began)
        starts = np.cumsum([0, *(len(piece.work) for piece in pieces)])
        first = list(zip(starts.tolist(), pieces, strict=False))
        return first + _gone_on(search, pieces, work, held, left)

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
        stacklevel=5,
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
    starts = [list(q.start) if isinstance(q.start, _MANY) else [q.start] for q in questions]
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


def _joined(
    store: GraphStore,
    texts: list[str],
    questions: int,
    pieces: list[tuple[int, Piece]],  # each with the first of its questions
    seconds: float,
    embedded: float,
    repairs: pa.Table,
) -> Retrieval:
    moved, offsets, total = [], [np.zeros(1, np.int64)], 0
    latest = np.zeros(questions, np.int64)  # the piece that answers a question, of several
    work, held = np.zeros(questions, np.int64), np.zeros(questions, np.int64)
    complete = np.ones(questions, np.bool_)
    for number, (begin, piece) in enumerate(pieces):
        moved.append(piece.found[:, 0] + np.int32(begin))
        offsets.append(piece.offset[1:] + total)
        total += int(piece.offset[-1])
        span = slice(begin, begin + len(piece.work))
        latest[span] = number
        work[span], held[span], complete[span] = piece.work, piece.bytes, piece.complete
    rows, score, visited, labels = (
        np.concatenate([getattr(piece, name) for _, piece in pieces])
        for name in ("found", "score", "nodes", "labels")
    )
    query, end = rows[:, 1], rows[:, 2]
    question, offset = np.concatenate(moved), np.concatenate(offsets)
    start = visited[offset[:-1] + np.arange(len(query))]
    source = np.repeat(np.arange(len(pieces)), [len(piece.found) for _, piece in pieces])
    order = np.lexsort((np.arange(len(query)), -score, question))
    order = order[latest[question[order]] == source[order]]
    found = _ordered(Found(query, start, end, offset, visited, labels), order)
    return Retrieval(
        store, texts, questions, question[order], found, score[order],
        work, held, complete, seconds, embedded, repairs,
    )  # fmt: skip


def _ordered(found: Found, order: NDArray[np.int64]) -> Found:
    lengths = np.diff(found.offset)
    node_begin = found.offset[:-1] + np.arange(len(lengths))
    offset = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
    return Found(
        found.query[order],
        found.start[order],
        found.end[order],
        offset,
        found.nodes[_spans(node_begin[order], lengths[order] + 1)],
        found.labels[_spans(found.offset[:-1][order], lengths[order])],
    )


def _spans(begin: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """All places of the spans, one span after the other."""
    total = int(length.sum())
    shift = np.repeat(begin - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    return np.arange(total, dtype=np.int64) + shift
