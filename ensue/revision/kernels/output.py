"""Output rows of the AFA operator's kernels: matches that came, and matches that went."""

from __future__ import annotations

from ensue.kernels.calls import inner_allocating, inner_inlined
from ensue.revision.kernels import layout as at
from ensue.revision.kernels.layout import Numbers
from ensue.revision.kernels.store import Store, taller


@inner_inlined
def tell(
    store: Store,
    node: int,
    operation: int,  # 1: a match, -1: withdrawn
    cause: int,  # the event that was being processed
    ignoring: bool,
    rows: Numbers,
    counts: Numbers,
) -> None:
    """A row of output; there is room."""
    events, nodes, row = store.events, store.nodes, counts[at.ROWS]
    event = nodes[node, at.AT]
    rows[row, at.OPERATION] = operation
    rows[row, at.MATCH_ID] = nodes[node, at.MATCH]
    rows[row, at.FIRST_LE] = nodes[node, at.START]
    rows[row, at.FIRST_EVENT] = nodes[node, at.START_EVENT]
    rows[row, at.FIRST_NAME] = nodes[node, at.START_NAME]
    if ignoring:
        # An interval may have moved to a later event when the past was cleaned up.
        rows[row, at.LAST_LE] = nodes[node, at.END]
        rows[row, at.LAST_EVENT] = nodes[node, at.EVENT]
        rows[row, at.LAST_NAME] = nodes[node, at.END_NAME]
    else:
        rows[row, at.LAST_LE] = events[event, at.LE]
        rows[row, at.LAST_EVENT] = events[event, at.IDENTITY]
        rows[row, at.LAST_NAME] = events[event, at.CONTENT]
    rows[row, at.LIFETIME_LE] = rows[row, at.LAST_LE]
    rows[row, at.LIFETIME_RE] = nodes[node, at.LEAST_RE]
    rows[row, at.FINAL_STATE] = nodes[node, at.STATE]
    rows[row, at.NODE] = node
    rows[row, at.CAUSE] = cause
    rows[row, at.OUTPUT_NULLS] = nodes[node, at.NODE_NULLS]
    for field in range(rows.shape[1] - at.OUTPUT_REGISTER):
        rows[row, at.OUTPUT_REGISTER + field] = nodes[node, at.REGISTERS + field]
    counts[at.ROWS] += 1


@inner_allocating
def report(
    store: Store,
    node: int,
    operation: int,
    cause: int,
    ignoring: bool,
    rows: Numbers,
    counts: Numbers,
) -> Numbers:
    """As `tell`; `rows` may grow."""
    if counts[at.ROWS] == rows.shape[0]:
        rows = taller(rows, 0)
    tell(store, node, operation, cause, ignoring, rows, counts)
    return rows
