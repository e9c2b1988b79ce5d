"""What a bound cost, from questions that are answered in full: recall with an interval.

Recall is the share of a question's answers (distinct ends) that were found, averaged over the
questions that have answers. Of complete questions all is known. Of the others some, drawn at
random, are searched again without the bound, on a share of it that was set aside: what they lacked
tells what the rest lacks. These keep their full answers. A question that is not done when the
share is used up may have found anything between nothing and all.

The interval is Wilson's: the share of a question is a number between 0 and 1, and varies at most
as an answer that is either found or not, so it covers at least as often as it says (95 %).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensue.paths.kernels.budget import Piece

SHARE = 0.05  # of a bound on work or time
LEAST_QUESTIONS = 100  # with fewer, nothing is set aside
_ENOUGH = 200  # searched in full: the interval is then at most 0.07 to either side
_Z = 1.96

Full = Callable[[int, float, float], tuple[Piece, float]]  # question, work, seconds; and seconds
Pieces = list[tuple[int, Piece]]


@dataclass(frozen=True)
class Believed:
    """Recall and an interval that holds it with a probability of 95 %; None: nothing is known."""

    recall: float | None = None
    low: float | None = None
    high: float | None = None


ALL = Believed(1.0, 1.0, 1.0)


def set_aside(questions: int, bounded_memory: bool) -> float:
    """The share of a bound that is kept for questions searched in full.

    A bound on memory holds for them too, so that they tell nothing.
    """
    return SHARE if questions >= LEAST_QUESTIONS and not bounded_memory else 0.0


def believe(
    pieces: Pieces, questions: int, full: Full, work: float, seconds: float, seed: int
) -> tuple[Pieces, Believed]:
    """Searches in full for so much work and time; what that found, and what it tells."""
    latest, complete = np.zeros(questions, np.int64), np.ones(questions, np.bool_)
    for number, (begin, piece) in enumerate(pieces):
        span = slice(begin, begin + len(piece.work))
        latest[span], complete[span] = number, piece.complete
    cut = np.flatnonzero(~complete)
    if not len(cut):
        return [], ALL if questions else Believed()
    if work <= 0 or seconds <= 0:
        return [], Believed()

    def before(question: int) -> tuple[Piece, int]:
        """The piece that has answered a question, and its number there."""
        begin, piece = pieces[latest[question]]
        return piece, question - begin

    found: Pieces = []
    shares: list[float] = []
    unknown = asked = 0
    for question in np.random.default_rng(seed).permutation(cut)[:_ENOUGH].tolist():
        if work < 1 or seconds <= 0:
            break
        piece, spent = full(question, work, seconds)
        work, seconds, asked = work - float(piece.work[0]), seconds - spent, asked + 1
        if not piece.complete[0]:
            unknown += 1
            break
        found.append((question, piece))
        bounded, number = before(question)
        piece.work[0] += bounded.work[number]
        every = _ends_of(piece, 0)
        if every:
            shares.append(_ends_of(bounded, number) / every)
    if not shares:
        return found, Believed()
    having = np.zeros(questions, np.bool_)
    for number, (begin, piece) in enumerate(pieces):
        answered = piece.found[:, 0] + begin
        having[answered[latest[answered] == number]] = True
    known = int((having & complete).sum()) + len(shares)
    return found, _combined(known, shares, unknown, asked, len(cut) - len(found))


def _combined(known: int, shares: Sequence[float], unknown: int, asked: int, rest: int) -> Believed:
    """Questions of which all is known to be found, and the rest, which is like the sample."""
    having = rest * (len(shares) + unknown) / asked
    whole = known + having
    total, size = sum(shares), len(shares)
    low, _ = _wilson(total, size + unknown)
    _, high = _wilson(total + unknown, size + unknown)
    recall, low, high = ((known + having * share) / whole for share in (total / size, low, high))
    return Believed(recall, low, high)


def _wilson(hits: float, size: int) -> tuple[float, float]:
    share, spread = hits / size, _Z * _Z / size
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / size + spread / (4 * size))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _ends_of(piece: Piece, question: int) -> int:
    """How many distinct ends a question of a piece has; its rows stand together."""
    rows: NDArray[np.int32] = piece.found
    low, high = np.searchsorted(rows[:, 0], [question, question + 1])
    return len(np.unique(rows[low:high, 2]))


def over_batches(sizes: Sequence[int], several: Sequence[Believed]) -> Believed:
    """Of batches with so many questions each; an interval of each holds theirs together."""
    if any(one.recall is None for one in several):
        return Believed()
    weights = np.array(sizes) / max(sum(sizes), 1)
    values = [[one.recall, one.low, one.high] for one in several]
    return Believed(*(float(value) for value in weights @ np.array(values, np.float64)))
