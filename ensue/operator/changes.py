"""Changes of the output: what came and what went, and the difference of two answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.operator.identity import row_hashes
from ensue.operator.match_names import EVENTS

SHIFTING = ("match_number", "events")  # of the listing: an earlier event changes these


@dataclass(frozen=True)
class Changes:
    """Rows of an evaluator's output that are new, and rows that are withdrawn."""

    came: pa.Table
    went: pa.Table


def difference(
    old: pa.Table, new: pa.Table, apart: Sequence[str] = ()
) -> tuple[pa.Table, pa.Table]:
    """Rows of `new` that are not in `old`, and of `old` not in `new`; copies are counted.

    Columns in `apart` do not tell rows apart.
    """
    if not old.num_rows or not new.num_rows:
        return new, old
    names = telling(new.column_names, apart)
    before, after = row_hashes(old, names), row_hashes(new, names)
    return new.filter(pa.array(_surplus(after, before))), old.filter(
        pa.array(_surplus(before, after))
    )


def telling(names: Sequence[str], apart: Sequence[str] = ()) -> list[str]:
    """The columns that tell rows of an output apart."""
    shifting = SHIFTING if EVENTS in names else ()
    return [name for name in names if name not in apart and name not in shifting]


def _surplus(mine: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Per row: whether it is one too many, given as many as there are on the other side."""
    index = np.argsort(mine, kind="stable")
    ordered = mine[index]
    sorted_others = np.sort(others)
    first = np.searchsorted(ordered, ordered)
    there = np.searchsorted(sorted_others, ordered, "right") - np.searchsorted(
        sorted_others, ordered
    )
    surplus = np.empty(len(mine), np.bool_)
    surplus[index] = np.arange(len(mine)) - first >= there
    return surplus
