"""Much disorder over more events than a block of the index holds: the net output is the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from ensue.revision.kernels import layout
from ensue.revision.operator import Operator
from ensue.revision.parts import Settings, Times
from ensue.scalar import kinds as k
from examples.afa_trading import prices, q1

KINDS = {"ts": k.BIGINT, "price": k.DOUBLE, "change": k.DOUBLE}
COUNT, WINDOW = 6_000, 300
SHOWN = [layout.OPERATION, layout.FIRST_LE, layout.LAST_LE, layout.LIFETIME_RE]


def net(order: np.ndarray, sequenced: bool, batch: int) -> tuple[Counter[tuple[int, ...]], int]:
    """Matches that stand, and how many were withdrawn, with a watermark after every batch."""
    table = prices(COUNT, 0.5, 0).take(pa.array(order))
    operator = Operator(q1(2).machine, dict(KINDS), Settings(sequenced=sequenced, ignoring=False))
    le, zeros = order.astype(np.int64), np.zeros(batch, np.int64)
    found: Counter[tuple[int, ...]] = Counter()
    withdrawn = 0
    for begin in range(0, COUNT, batch):
        part = le[begin : begin + batch]
        delta = operator.insert(
            table.slice(begin, batch), Times(part, part + WINDOW, zeros, part, part)
        )
        for sign, *match in delta.rows[:, SHOWN].tolist():
            found[tuple(match)] += sign
            withdrawn += sign < 0
        if begin + batch < COUNT:
            operator.advance(int(le[begin + batch :].min()))
    return +found, withdrawn


@pytest.mark.compiled
@pytest.mark.parametrize("far", [10, 500, 3_000])
def test_late_events_by_the_thousand(far: int) -> None:
    random = np.random.default_rng(far)
    late = np.where(random.random(COUNT) < 0.2, random.integers(1, far + 1, COUNT) + 0.5, 0.0)
    order = np.argsort(np.arange(COUNT) + late, kind="stable")
    wanted, none = net(np.arange(COUNT), False, 1_000)
    assert none == 0 and len(wanted) > 100
    plain, withdrawn = net(order, False, 1_000)
    assert plain == wanted and withdrawn > 0
    assert net(order, True, 1_000) == (wanted, 0)
