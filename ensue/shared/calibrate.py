"""Rows that tell what the unbounded run needs, before the others are matched under a bound.

Where there are many partitions they are a sample of whole ones, drawn evenly over their lengths,
since the work of a row grows with what came before it; they teach what partial matches are worth,
too, and a share holds from the first row on. Where partitions are few or long there is none: then
the first rows tell what they need as they are matched (`Controller.calibrating`), and a stretch of
a partition says beforehand what the exact answer may cost (`merged.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.shared.engine import Engine
from ensue.shared.partials import MANY

PART, MOST = 0.05, 10_000  # of the partitions, and rows, are matched twice: about so many
LEAST, SMALL = 16, 0.2  # partitions: fewer say little; of small tables up to this part, for these
STRETCH = 0.1  # of the rows may be a stretch,
OF_SHARE = 0.6  # or so much of the share that is asked for
LONG = 0.1  # of the rows may be of partitions that are too long for a sample


def sampled(starts: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The numbers of the partitions; none where they would be too few or too long."""
    sizes, rows = np.diff(starts), int(starts[-1])
    short = np.flatnonzero((sizes > 0) & (sizes <= PART * rows))
    total = int(sizes[short].sum())
    if SMALL * len(short) < LEAST or total < (1 - LONG) * rows:
        return np.zeros(0, np.int64)
    count = max(LEAST, int(min(PART * len(short), MOST * len(short) / total)))
    step = len(short) / count
    places = (np.random.default_rng(seed).random() + np.arange(count)) * step
    by_size = short[np.argsort(sizes[short], kind="stable")]
    return np.sort(by_size[places.astype(np.int64)])


def partitions(
    table: pa.Table, starts: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[pa.Table, NDArray[np.int64]]:
    """The rows of some partitions, and where each begins."""
    rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in chosen])
    ends = np.cumsum(starts[chosen + 1] - starts[chosen])
    return table.take(pa.array(rows)).combine_chunks(), np.append(0, ends).astype(np.int64)


def learn(
    engine: Engine, table: pa.Table, starts: NDArray[np.int64], of: int | None = None
) -> NDArray[np.int32]:
    """Complete partitions without a bound; the work of each row. `of`: they stand for so many."""
    control, partials, rows = engine.controller, engine.partials(MANY), len(table)
    prepared = engine.prepare(table, starts, partials.nodes())
    control.learn_from_the_past(rows)
    kept, engine.keep_work = engine.keep_work, True
    for _ in engine.run(prepared, partials, rows, True):
        pass
    control.begin(of / rows if of and prepared.parts.turns else 1.0)
    work = engine.work[-1]
    engine.work.clear()
    engine.keep_work, engine.seconds = kept, 0.0
    return work


def calibrate(engine: Engine, table: pa.Table, starts: NDArray[np.int64], seed: int) -> None:
    """A share by a sample of the partitions, where there are enough."""
    chosen = sampled(starts, seed)
    if len(chosen):
        if engine.controller.timed:  # the kernels load when they are first called
            learn(engine.copy(), *partitions(table, starts, chosen[:1]))
        learn(engine, *partitions(table, starts, chosen), of=len(table))


class Stretch(NamedTuple):
    """The first rows of a partition of medium size, two or three windows of them."""

    table: pa.Table
    window: int  # rows

    @property
    def starts(self) -> NDArray[np.int64]:
        return np.array([0, len(self.table)], np.int64)


def stretch_of(engine: Engine, table: pa.Table, starts: NDArray[np.int64]) -> Stretch | None:
    """None where that is much of the table, or the partition has no row behind its first window."""
    sizes = np.diff(starts)
    place = int(np.argsort(sizes, kind="stable")[len(sizes) // 2])
    window = engine.window(table, starts)
    most = int(len(table) * max(STRETCH, OF_SHARE * engine.controller.share))
    rows = min(int(sizes[place]), 3 * window, most)
    if rows < 2 * window:
        return None
    return Stretch(table.slice(int(starts[place]), rows).combine_chunks(), window)


def allowed_by(engine: Engine, stretch: Stretch) -> tuple[float, float] | None:
    """Work and seconds per row that a share allows, by the rows behind the first window."""
    copy = engine.copy()
    if copy.controller.timed:
        learn(engine.copy(), stretch.table.slice(0, 1), np.array([0, 1], np.int64))
    work = learn(copy, stretch.table, stretch.starts)
    copy.controller.settled(float(work[stretch.window :].mean() / max(work.mean(), 1e-9)))
    return copy.controller.allowed()
