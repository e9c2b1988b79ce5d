"""Lanes: what a part of the time axis shows of some keys.

From far a lane is buckets with counts, near it is single rows; which one is decided by the rows in
view over all lanes, so that an answer has a bounded size whatever the table has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensue import errors
from ensue.studio.answer import Answer
from ensue.studio.values import Cell, cell

MAX_LANES = 200
MAX_ROWS = 4_000  # single rows of one answer
MAX_MATCHES = 2_000  # brackets of one answer
MAX_MEASURED = 400  # brackets that carry measures
PIXELS = 4  # of a bucket
APART = 3  # pixels between the rows of a lane, on average, for them to be told apart
MIN_DENSE = 100  # rows of a lane that are always shown one by one
MAX_BUCKETS = 2_000


def lanes(
    answer: Answer, keys: Sequence[int], begin: float | None, end: float | None, width: int
) -> dict[str, Any]:
    rows = answer.rows
    if len(keys) > MAX_LANES:
        raise errors.LimitError(
            f"{len(keys)} lanes were requested; the limit is {MAX_LANES}",
            remedy="ask for those that are on the screen",
        )
    for key in keys:
        check_key(answer, key)
    low, high = rows.extent
    begin = low if begin is None else float(begin)
    end = high if end is None else float(end)
    if not begin <= end:
        raise errors.QueryError(f"the axis ends at {end}, before it begins at {begin}")
    views = [_in_view(answer, key, begin, end) for key in keys]
    densest = max(map(len, views), default=0)
    far = sum(map(len, views)) > MAX_ROWS or densest > max(MIN_DENSE, width // APART)
    buckets = max(1, min(int(width) // PIXELS, MAX_BUCKETS))
    shares = _shares(answer, keys, begin, end)
    found = []
    for key, view, share in zip(keys, views, shares, strict=True):
        lane: dict[str, Any] = {"key": int(key), "label": rows.labels[key], "rows": len(view)}
        lane["buckets"] = _buckets(answer, key, view, begin, end, buckets) if far else None
        lane["points"] = None if far else _points(answer, view)
        lane["matches"], lane["cut"] = _matches(answer, key, begin, end, share, far)
        found.append(lane)
    cut = None
    if answer.listing.cut:
        cut = f"the first {len(answer.listing):,} matches are shown"
    if not rows.keys:
        begin = end = None  # no row, no place
    return {
        "axis": rows.axis, "from": begin, "to": end, "far": far, "buckets": buckets,
        "variables": list(answer.variables), "telling": answer.telling, "lanes": found, "cut": cut,
    }  # fmt: skip


def check_key(answer: Answer, key: Any) -> None:
    if not isinstance(key, int) or not 0 <= key < answer.rows.keys:
        raise errors.QueryError(
            f"there is no key {key!r}: the query has {answer.rows.keys:,} partitions",
            remedy="ask for the keys again",
        )


def _in_view(answer: Answer, key: int, begin: float, end: float) -> NDArray[np.int64]:
    """Positions of the key's rows on this part of the axis."""
    first, behind = answer.rows.rows(key)
    at = answer.rows.at[first:behind]
    return first + np.flatnonzero((at >= begin) & (at <= end))


def _buckets(
    answer: Answer, key: int, view: NDArray[np.int64], begin: float, end: float, count: int
) -> dict[str, Any]:
    place = _bucket_of(answer.rows.at[view], begin, end, count)
    rows = np.bincount(place, minlength=count)
    labels = answer.label_at[view]
    counts = {}
    for index in np.unique(labels[labels >= 0]):
        counts[answer.variables[index]] = np.bincount(place[labels == index], minlength=count)
    listing, some = answer.listing, answer.listing.of_key(key)
    first = listing.first[some]
    starts = answer.rows.at[answer.rows.starts[key] + first[first >= 0]]
    starts = starts[(starts >= begin) & (starts <= end)]
    matches = np.bincount(_bucket_of(starts, begin, end, count), minlength=count)
    used = np.flatnonzero(rows)
    return {
        "at": used.tolist(),
        "rows": rows[used].tolist(),
        "counts": {name: values[used].tolist() for name, values in counts.items()},
        "matches": matches[used].tolist(),
    }


def _bucket_of(at: NDArray[np.float64], begin: float, end: float, count: int) -> NDArray[np.int64]:
    span = (end - begin) or 1.0
    return np.clip(((at - begin) / span * count).astype(np.int64), 0, count - 1)


def _points(answer: Answer, view: NDArray[np.int64]) -> dict[str, Any]:
    labels = answer.label_at[view]
    bits = answer.fits[view]
    names = range(min(len(answer.variables), 64))
    return {
        "row": answer.rows.rows_in_partition[view].tolist(),
        "at": answer.rows.at[view].tolist(),
        "label": [None if label < 0 else label for label in labels.tolist()],
        "fits": [[n for n in names if word >> n & 1] for word in bits.tolist()],
    }


def _shares(
    answer: Answer, keys: Sequence[int], begin: float, end: float
) -> list[NDArray[np.int64]]:
    """The matches of each key that are drawn: those in view, the longest where there are many."""
    found = []
    for key in keys:
        some = answer.listing.of_key(key)
        inside = np.arange(some.start, some.stop)
        inside = inside[answer.listing.first[some] >= 0]
        left, right = _ends(answer, inside)
        found.append(inside[(right >= begin) & (left <= end)])
    total = sum(map(len, found))
    if total > MAX_MATCHES:
        share = max(1, MAX_MATCHES // max(1, len(keys)))
        for place, inside in enumerate(found):
            left, right = _ends(answer, inside)
            longest = np.argsort(left - right, kind="stable")[:share]
            found[place] = inside[np.sort(longest)]
    return found


def _ends(
    answer: Answer, matches: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """From where to where matches reach on the axis."""
    listing, rows = answer.listing, answer.rows
    base = rows.starts[listing.key[matches]]
    one, other = rows.at[base + listing.first[matches]], rows.at[base + listing.last[matches]]
    return np.fmin(one, other), np.fmax(one, other)


def _matches(
    answer: Answer, key: int, begin: float, end: float, share: NDArray[np.int64], far: bool
) -> tuple[list[dict[str, Any]], str | None]:
    listing = answer.listing
    left, right = _ends(answer, share)
    measured = not far and len(share) <= MAX_MEASURED
    found = []
    for match, start, stop in zip(share.tolist(), left.tolist(), right.tolist(), strict=True):
        events = listing.events(match)
        found.append(
            {
                "number": int(listing.number[match]),
                "first": int(listing.first[match]),
                "last": int(listing.last[match]),
                "from": start,
                "to": stop,
                "rows": [] if far else listing.row[events].tolist(),
                "labels": [] if far else listing.label[events].tolist(),
                "measures": dict(measures(answer, match)) if measured else {},
            }
        )
    all_here = listing.of_key(key)
    count = all_here.stop - all_here.start
    whole = len(share) < count and begin <= answer.rows.extent[0] and end >= answer.rows.extent[1]
    return found, f"{len(share):,} of {count:,} matches" if whole else None


def measures(answer: Answer, match: int) -> list[tuple[str, Cell]]:
    """What the query measures of a kept match."""
    names = [m.name for m in answer.query.measures or ()]
    if not names:
        return []
    if answer.measured is None:
        return []
    row = answer.measured.slice(match, 1)
    return [(n, cell(row.column(n)[0].as_py())) for n in names if n in row.column_names]
