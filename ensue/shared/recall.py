"""What shedding cost: the recall of each pattern, estimated from the sketch of kept matches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensue.shared.constants import LOST_HARDLY, LOST_LESS, LOST_MORE
from ensue.shared.kernels.layout import Sketch


@dataclass(frozen=True)
class Estimate:
    """What a pattern got and gave up."""

    found: int
    lost: float
    recall: float | None  # None: some were given up and none was found
    low: float | None  # of an interval that holds the recall with a probability of about 95 %
    high: float | None


def estimates(
    names: Sequence[str],
    found: NDArray[np.int64],
    given_up: NDArray[np.float64],
    sketch: Sketch,
    priced: bool,
) -> dict[str, Estimate]:
    """Recall per pattern from the sketch: what was shed, at the rates of what was kept.

    Rates of what was seen are too low where it was shed before its time, and rates of what was
    lived too high, since what is shed is the worse part; the estimate is between them.
    """
    result: dict[str, Estimate] = {}
    hardly = LOST_HARDLY if priced else 0.0
    columns = given_up.shape[1]
    sharing = np.bincount(np.arange(len(names)) % columns, minlength=columns)
    for index, name in enumerate(names):
        column = index % columns
        least, most = (given_up[:, column] / sharing[column]).tolist()
        spread = 0.0
        if most:
            own = sketch.mass[:, column].astype(np.float64) / sharing[column]
            seen = sketch.bucket_seen + 2.0
            rate_spread = (sketch.completed[:, column] + 1.0) / seen**2
            spread = 1.96 * math.sqrt(most + float((own**2 * rate_spread).sum()))
        got = int(found[index])
        lost = math.sqrt(least * most)
        if not got and lost > 0.0:
            result[name] = Estimate(got, lost, None, None, None)
            continue
        result[name] = Estimate(
            got,
            lost,
            _recall(got, lost),
            _recall(got, LOST_MORE * max(least, most) + spread),
            _recall(got, max(0.0, min(least, most) / LOST_LESS - spread - hardly * (got + lost))),
        )
    return result


def _recall(found: int, lost: float) -> float:
    return 1.0 if found + lost <= 0 else found / (found + lost)
