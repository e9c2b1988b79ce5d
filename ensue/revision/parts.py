"""What goes into the AFA operator and what comes out of it: settings, keys of events, changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ensue.revision.kernels import layout
from ensue.revision.kernels.layout import Numbers

LATE, EMPTY_LIFETIME, FINAL, TWICE = 5, 6, 7, 8  # beside the kernel's DONE, UNKNOWN, ...


@dataclass(frozen=True)
class Settings:
    """How an operator works."""

    ignoring: bool = True  # ignorable arcs as intervals (Appendix D)
    sequenced: bool = False  # events carry sequence numbers (AFA+O)
    unique: bool = False  # equal timestamps are refused, not ordered by content
    keep_rows: bool = True  # needed for arcs with a lifetime in the past
    arc_watermark: bool = False  # arcs may come late: their input has a watermark of its own
    debug: bool = False  # the paper's invariants are checked after every call


DEFAULT = Settings()


@dataclass
class Delta:
    """What one call changed."""

    rows: Numbers  # columns as in `revision/kernels/layout.py`
    status: NDArray[np.int8]
    faults: list[tuple[int, str, str]] = field(default_factory=list)  # event, arc, reason


@dataclass(frozen=True)
class Times:
    """Keys of events: lifetimes, what orders equal timestamps, a name, a sequence number."""

    le: Numbers
    re: Numbers
    tie: Numbers
    name: Numbers
    sequence: Numbers


def nothing(fields: int) -> Delta:
    return Delta(
        np.zeros((0, layout.OUTPUT_REGISTER + fields), np.int64),
        np.zeros(0, np.int8),
    )


def identity(delta: Delta, row: int) -> object:
    found = delta.rows[row]
    names = (layout.FIRST_EVENT, layout.LAST_EVENT, layout.LIFETIME_RE, layout.FINAL_STATE)
    return (
        tuple(found[list(names)].tolist()),
        tuple(found[layout.OUTPUT_NULLS : layout.OUTPUT_NULLS + 1].tolist()),
        tuple(found[layout.OUTPUT_REGISTER :].tolist()),
    )


def chosen(delta: Delta, rows: Sequence[int]) -> Delta:
    return Delta(delta.rows[list(rows)], delta.status, delta.faults)


def joined(deltas: Sequence[Delta]) -> Delta:
    """Several changes in turn as one."""
    return Delta(
        np.concatenate([delta.rows for delta in deltas]),
        np.concatenate([delta.status for delta in deltas]),
        [fault for delta in deltas for fault in delta.faults],
    )
