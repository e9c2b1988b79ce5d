"""What a summary may still come to: expected matches where a full summary cannot grow.

The paper expects of a partial match what all arrivals of the rest of its window would make of it
(§6.1), as if all of them could be kept. A full summary keeps one only in the place of another. So a
step of the expectation is an event that is *kept*: of the arrivals to come, as many as the rest of
the window has a fair claim to (`claim`). And where these and the events of the window so far are
together more than the summary holds, the difference is evicted: of the events so far, only a
share remains (`remaining`) to be completed. Matches that are there now count in full.

Where a window of events fits, all arrivals can be kept and nothing has to go: then this is the
paper's expectation, for each start with its own time left.
"""

from __future__ import annotations

from typing import Any

from ensue.kernels.calls import allocating, borrowing, inner
from ensue.summary.kernels.arrays import Arcs, Tables

# Places in `levels` that the rate of arrivals is read from.
GAPS, GAP_WEIGHT = 0, 1
_ROOM = 2.0**200
_LEAST_SHARE = 1e-12
_MOST_FORESIGHT = 30.0
# Where events have to go, the most that is expected of one, as a share of the most matches that one
# takes part in now: what is there is not given away for what may come.
HOPE = 0.5


@allocating
def coefficients(probability: Any, arcs: Arcs, coefficient: Any, exponent: Any, rows: int) -> None:
    """`coefficient[t, z]`: expected matches out of one partial match in z after t arrivals.

    Row t is (I + P)ᵗ f, so that a counter vector times row t is the paper's Σ_F #z(t) without the
    part of matches that start later. `exponent[t]` is the binary exponent taken out of row t.
    """
    states = coefficient.shape[1]
    scale = 0.0
    for z in range(states):
        coefficient[0, z] = 1.0 if arcs.final[z] else 0.0
    exponent[0] = 0.0
    for t in range(1, rows):
        for z in range(states):
            coefficient[t, z] = coefficient[t - 1, z]
        for c in range(arcs.offset.shape[0] - 1):
            for a in range(arcs.offset[c], arcs.offset[c + 1]):
                source, target = arcs.source[a], arcs.target[a]
                coefficient[t, source] += probability[c] * coefficient[t - 1, target]
        most = 0.0
        for z in range(states):
            most = max(most, coefficient[t, z])
        if most > _ROOM:
            for z in range(states):
                coefficient[t, z] /= _ROOM
            scale += 200.0
        exponent[t] = scale


@allocating
def retained_coefficients(tables: Tables, arcs: Arcs, rows: int) -> None:
    """`coefficients` where a step is an event that is kept: the shares are of relevant events."""
    relevant = max(tables.probability.sum(), _LEAST_SHARE)
    coefficients(tables.probability / relevant, arcs, tables.coefficient, tables.exponent, rows)


@inner
def arrival_rate(levels: Any, counted: bool) -> float:
    """Events per unit of time, from recent gaps; 1 where time counts rows."""
    if counted or levels[GAPS] <= 0.0:
        return 1.0
    return float(levels[GAP_WEIGHT] / levels[GAPS])


@borrowing
def windows_held(size: float, reach: float, probability: Any) -> float:
    """How many windows of relevant events fit the summary; `reach`: arrivals in a window."""
    return float(size / max(reach * probability.sum(), 1.0))


@borrowing
def claim(held: float, probability: Any) -> float:
    """Events to be kept per arrival to come.

    All relevant ones where a window of them fits. Where only a part `held` of a window fits, that
    part of them, and less the scarcer room is, down to half: the events that are there have a claim
    to the same places, and theirs is certain (measured: docs/decisions/0065).
    """
    share = float(probability.sum())
    if held >= 1.0:
        return share
    return share * held * (1.0 + held) / 2.0


@borrowing
def remaining(size: float, steps: int, others: int, fork: bool) -> float:
    """The share of `others`, events since a start, that is left once `steps` more were kept."""
    if not fork or steps + others <= size:
        return 1.0
    return max(size - steps, 0.0) / max(others, 1)


@inner
def foresight(held: float) -> float:
    """The weight of what is expected, by how many windows of events fit the summary.

    Of these windows one is that which is open; the others are room to wait in: an event kept in
    vain can still be dropped, one dropped too early is lost. So it weighs twice the windows to
    spare, and never less than what is there, with which it competes (docs/decisions/0065).
    """
    return float(min(_MOST_FORESIGHT, max(2.0 * (held - 1.0), 1.0)))
