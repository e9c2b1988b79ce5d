"""A batch of rows as the kernels read it: kinds of events, windows, order, and compiled guards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.share import Union
from ensue.guards.compile import Guards as Compiled
from ensue.operator.guard_banks import load_banks
from ensue.query.query import Window, WindowKind
from ensue.sequences.batch import EventBatch
from ensue.shared.kernels.layout import Features, Guards, Parts, Rows
from ensue.shared.tables import Tables, words_of

MAX_LISTS = 1 << 20  # states times partitions that take turns; above, one comes after the other
_ALWAYS = 1.0  # an age where nothing ages


class TooLargeError(Exception):
    """A number does not fit 64 bits: the batch is answered exactly, pattern by pattern."""


@dataclass
class Prepared:
    """A batch of rows as the kernels read it."""

    rows: Rows
    parts: Parts
    tables: Tables
    guards: Guards
    features: Features
    sizes: NDArray[np.float64]  # of the windows, where they are of time

    @property
    def length(self) -> int:
        return len(self.rows.kind)

    @property
    def window(self) -> int:
        """How many rows of its partition most windows hold."""
        of_row, low = np.arange(self.length), self.rows.low
        oldest = low.min(axis=0) if len(low) else self.parts.starts[self.parts.part]
        return int(np.quantile(of_row - oldest, 0.9)) + 1 if self.length else 1


@dataclass
class Windows:
    """The windows of all patterns over a batch."""

    low: NDArray[np.int64]  # [window, row]: the first row inside
    masks: NDArray[np.uint64]  # [window]: patterns that have it
    order: NDArray[np.float64]
    oldest: NDArray[np.int64]  # the first row inside any window
    sizes: NDArray[np.float64]


def windows_of(union: Union, table: pa.Table, starts: NDArray[np.int64], words: int) -> Windows:
    masks: dict[Window, int] = {}
    lows: list[NDArray[np.int64]] = []
    order: NDArray[Any] | None = None
    for index, member in enumerate(union.members):
        window = member.plan.query.within
        batch = EventBatch(member.plan, member.subsets, table, starts)
        if order is None:
            order = batch.order
        if window is not None:
            if window not in masks:
                assert batch.low is not None
                lows.append(batch.low)
            masks[window] = masks.get(window, 0) | 1 << index
    sizes = [math.inf if w.kind is WindowKind.ROWS else float(w.size) for w in masks]
    of_time = any(map(math.isfinite, sizes))
    low = np.array(lows, np.int64).reshape(len(lows), int(starts[-1]))
    return Windows(
        low,
        words_of(list(masks.values()), words),
        np.zeros(0) if order is None else order.astype(np.float64),
        low.min(axis=0) if lows else np.repeat(starts[:-1], np.diff(starts)),
        np.array(sizes if of_time else [], np.float64),
    )


def ages(
    union: Union, order: NDArray[np.float64], length: int
) -> tuple[NDArray[np.float64], float]:
    """Where rows stand in the longest window, and its size; without one nothing ages."""
    windows: list[Window] = []
    for member in union.members:
        if member.plan.query.within is None:
            return np.zeros(length), _ALWAYS
        windows.append(member.plan.query.within)
    longest = max(float(window.size) for window in windows)
    if any(window.kind is not WindowKind.ROWS for window in windows):
        return order, longest or _ALWAYS
    return np.arange(length, dtype=np.float64), longest


def turns(
    union: Union, order: NDArray[np.float64], starts: NDArray[np.int64], nodes: int
) -> NDArray[np.int64] | None:
    """Rows of all partitions in the order of time, as they would come in a stream.

    So they are taken under a bound, where windows are of time: the load of a partition after the
    other would swing with each of them. None: one partition comes after the other.
    """
    windows = [member.plan.query.within for member in union.members]
    if not 1 < len(starts) - 1 <= MAX_LISTS // max(1, nodes):
        return None
    if len(order) != starts[-1] or any(w and w.kind is WindowKind.ROWS for w in windows):
        return None
    return np.argsort(order, kind="stable").astype(np.int64)


def parts_of(starts: NDArray[np.int64], sequence: NDArray[np.int64] | None) -> Parts:
    """The order of rows for the kernel, their partitions, and how often each has a row."""
    partitions, length = len(starts) - 1, int(starts[-1])
    taking_turns = sequence is not None
    return Parts(
        sequence=np.arange(length, dtype=np.int64) if sequence is None else sequence,
        part=np.repeat(np.arange(partitions, dtype=np.int64), np.diff(starts)),
        starts=starts,
        weight=np.diff(starts) / max(1, length) if taking_turns else np.ones(partitions),
        reached=np.zeros(partitions, np.int64),
        turns=taking_turns,
    )


def guards_of(compiled: Compiled, columns: Mapping[str, pa.Array], length: int) -> Guards:
    banks = load_banks(compiled, columns, length)
    if banks is None:
        raise TooLargeError
    applies = compiled.applies  # per label the registers it updates; features update none
    return Guards(
        code=compiled.code,
        offset=compiled.guard_offset,
        updates=compiled.updates,
        applies=applies if applies.shape[1] else np.zeros((len(applies), 0), np.bool_),
        initial_ints=compiled.initial_ints,
        initial_floats=compiled.initial_floats,
        ints=banks.ints,
        floats=banks.floats,
        int_nulls=banks.int_nulls,
        float_nulls=banks.float_nulls,
        int_constants=banks.int_constants,
        float_constants=compiled.float_constants,
    )


def rows_of(
    union: Union,
    windows: Windows,
    kinds: NDArray[np.int32],
    classes: NDArray[np.int32],
) -> Rows:
    position, size = ages(union, windows.order, len(kinds))
    bounds: Sequence[float] = union.bounds or (0,)
    return Rows(
        kind=kinds,
        low=windows.low,
        masks=windows.masks,
        order=windows.order,
        bounds=np.array(bounds, np.float64),
        position=position,
        size=size,
        event_class=classes,
    )
