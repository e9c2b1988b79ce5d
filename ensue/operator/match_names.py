"""Hidden columns of the output that say which match a row is of, for those who take matches back.

An evaluator adds them where its input has the hidden column EVENT, the name of each event: a name
of 128 bits made of the (label, event) pairs, the key, and, for the plain listing, the events with
their times and ids. Numbers of rows and matches, which shift when an earlier event arrives, are
no part of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import PREFIX
from ensue.operator.arrange import flat
from ensue.operator.buffer import EVENT, KEY
from ensue.operator.identity import Hashes, as_short_text, pair_sums

HIGH, LOW = PREFIX + "match_high", PREFIX + "match_low"
EVENTS = PREFIX + "events"
ID = PREFIX + "id"  # the user's own id of an event, where there is one
NAMES = (KEY, HIGH, LOW)
MATCH = PREFIX + "identity_of_match"  # the name of a match, as text
_SEEDS = (np.uint64(0x5DEECE66D1234567), np.uint64(0xA0761D6478BD642F))
_NO_LABEL, _EMPTY = -1, -2


def match_names(
    columns: Mapping[str, pa.Array],
    first: NDArray[np.int64],
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> dict[str, pa.Array]:
    """KEY, HIGH and LOW per match; a match without rows is named by the row it stands at."""
    events: Hashes = columns[EVENT].to_numpy(zero_copy_only=False).view(np.uint64)
    lengths = np.diff(offsets)
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        rows = np.insert(rows, offsets[empty], first[empty])
        labels = np.insert(labels, offsets[empty], _EMPTY)
        offsets = np.concatenate(([0], np.cumsum(np.maximum(lengths, 1)))).astype(np.int64)
    high, low = (pair_sums(labels, events[rows], offsets, seed) for seed in _SEEDS)
    return {
        KEY: columns[KEY].take(pa.array(first)),
        HIGH: pa.array(high.view(np.int64)),
        LOW: pa.array(low.view(np.int64)),
    }


def listed_events(
    columns: Mapping[str, pa.Array],
    order: pa.Array,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    offsets: NDArray[np.int64],
    names: Sequence[str],
) -> pa.Array:
    """Per match its events: label, time and id (a hash in 16 digits where the user has none)."""
    taken = pa.array(rows)
    if ID in columns:
        ids = columns[ID].take(taken)
    else:
        hashes = columns[EVENT].to_numpy(zero_copy_only=False).view(np.uint64)[rows]
        ids = as_short_text(hashes)
    shown = pa.array(list(names), pa.string()).take(pa.array(labels))
    parts = pa.StructArray.from_arrays([shown, order.take(taken), ids], ["label", "time", "event"])
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), parts)


def named_matches(table: pa.Table) -> pa.Table:
    """What an evaluator found, its hidden names as one (`MATCH`): the key's and the match's hashes.

    Numbers that shift under disorder (the match's, and those of its rows) are not shown: the
    listing tells its events by time and name.
    """
    parts = [flat(table, name).to_numpy().view(np.uint64) for name in NAMES]
    ids: list[str] = []
    seen: dict[str, int] = {}
    for key, high, low in zip(*parts, strict=True):
        name = f"{key ^ high:016x}{low:016x}"
        # ALL ROWS PER MATCH: the rows of a match stand together, in order.
        number = seen[name] = seen.get(name, -1) + 1
        ids.append(f"{name}-{number}" if number else name)
    table = table.append_column(MATCH, pa.array(ids, pa.string())).drop_columns(list(NAMES))
    if EVENTS in table.column_names:
        listed = table.column(EVENTS)
        table = table.drop_columns([EVENTS, "match_number"])
        table = table.set_column(table.schema.get_field_index("events"), "events", listed)
    return table


def with_names(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Rows with the names (`MATCH`) that are known of them."""
    return table.append_column(MATCH, pa.array(names, pa.string()))
