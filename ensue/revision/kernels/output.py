"""Output rows of the AFA operator's kernels: matches that came, and matches that went."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ensue.revision.kernels.store import (
    AT,
    CONTENT,
    END,
    END_NAME,
    EVENT,
    IDENTITY,
    LE,
    LEAST_RE,
    MATCH,
    NODE_NULLS,
    REGISTERS,
    START,
    START_EVENT,
    START_NAME,
    STATE,
    Store,
    taller,
)

ACCEPTED = -2  # of MATCH: to be reported

# Columns of output rows; the register follows.
OPERATION, MATCH_ID, FIRST_LE, FIRST_EVENT, LAST_LE, LAST_EVENT, LIFETIME_LE, LIFETIME_RE = range(8)
FINAL_STATE, NODE, CAUSE, OUTPUT_NULLS, FIRST_NAME, LAST_NAME, OUTPUT_REGISTER = range(8, 15)

# Places in `counts`.
ROWS, FAULTS, CREATED, COUNTS = range(4)


@njit(cache=True, nogil=True)
def tell(
    events: NDArray[np.int64],
    nodes: NDArray[np.int64],
    node: int,
    operation: int,
    cause: int,
    fields: int,
    rows: NDArray[np.int64],
    row: int,
) -> None:
    """A row of output about a node that stands at its last event; there is room."""
    at = nodes[node, AT]
    rows[row, OPERATION] = operation
    rows[row, MATCH_ID] = nodes[node, MATCH]
    rows[row, FIRST_LE] = nodes[node, START]
    rows[row, FIRST_EVENT] = nodes[node, START_EVENT]
    rows[row, LAST_LE] = events[at, LE]
    rows[row, LAST_EVENT] = events[at, IDENTITY]
    rows[row, LIFETIME_LE] = events[at, LE]
    rows[row, LIFETIME_RE] = nodes[node, LEAST_RE]
    rows[row, FINAL_STATE] = nodes[node, STATE]
    rows[row, NODE] = node
    rows[row, CAUSE] = cause
    rows[row, OUTPUT_NULLS] = nodes[node, NODE_NULLS]
    rows[row, FIRST_NAME] = nodes[node, START_NAME]
    rows[row, LAST_NAME] = events[at, CONTENT]
    for field in range(fields):
        rows[row, OUTPUT_REGISTER + field] = nodes[node, REGISTERS + field]


@njit(cache=True, nogil=True)
def report(
    store: Store,
    node: int,
    operation: int,  # 1: a match, -1: withdrawn
    cause: int,  # the event that was being processed
    fields: int,
    ignoring: bool,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """A row of output; `rows` may grow."""
    nodes = store.nodes
    if counts[ROWS] == rows.shape[0]:
        rows = taller(rows, 0)
    row = rows[counts[ROWS]]
    tell(store.events, nodes, node, operation, cause, fields, rows, counts[ROWS])
    counts[ROWS] += 1
    if ignoring:
        # An interval may have moved to a later event when the past was cleaned up.
        row[LAST_LE] = nodes[node, END]
        row[LAST_EVENT] = nodes[node, EVENT]
        row[LAST_NAME] = nodes[node, END_NAME]
        row[LIFETIME_LE] = row[LAST_LE]
    return rows
