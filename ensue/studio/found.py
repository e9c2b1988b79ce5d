"""Matches as a table, and the keys they are in."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.studio.answer import Answer
from ensue.studio.values import cells, column_cells

MAX_PAGE = 1_000  # rows of one answer
SORTS = ("key", "rows", "matches", "misses")


def run(answer: Answer, limit: int) -> dict[str, Any]:
    """The first rows of `matches(data)`, and how many matches there are."""
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = answer.result
        keys, numbers = answer.numbers
    order = np.argsort(keys, kind="stable")[: min(limit, MAX_PAGE)]  # as the lanes stand
    shown = result.take(pa.array(order))
    rows = cells(shown)
    heads = [
        [
            None if keys[row] < 0 else int(keys[row]),
            None if numbers is None else int(numbers[row]),
        ]
        for row in order
    ]
    columns = [{"name": f.name, "type": str(f.type)} for f in shown.schema]
    cut = answer.sampled
    if answer.listing.cut:
        cut = f"the first {len(answer.listing):,} of {answer.total:,} matches are kept"
    return {
        "matches": answer.total,
        "columns": [
            {"name": "#key", "type": "int64"},
            {"name": "#match", "type": "int64"},
            *columns,
        ],
        "rows": [[*head, *row] for head, row in zip(heads, rows, strict=True)],
        "keys": answer.rows.keys,
        "keys_matched": int(np.count_nonzero(answer.per_key)),
        "rows_read": answer.table.num_rows,
        "seconds": round(answer.seconds + time.perf_counter() - begin, 4),
        "bytes": int(result.nbytes),
        "cut": cut,
        "warnings": list(dict.fromkeys([*answer.warnings, *(str(w.message) for w in told)])),
    }


def keys(answer: Answer, params: Mapping[str, Any]) -> dict[str, Any]:
    """A page of the partitions, searched and sorted."""
    rows = answer.rows
    chosen = np.arange(rows.keys)
    search = str(params.get("search") or "").casefold()
    if search:
        chosen = np.array([k for k in chosen if search in rows.labels[k].casefold()], np.int64)
    why = best_of(answer)
    reason = params.get("reason")
    if reason:
        chosen = np.array([k for k in chosen if why and why[k]["reason"] == reason], np.int64)
    chosen = chosen[_order(answer, chosen, str(params.get("sort") or "key"), why)]
    begin = max(0, int(params.get("offset") or 0))
    end = begin + min(int(params.get("limit") or 100), MAX_PAGE)
    return {
        "total": len(chosen),
        "keys": [_key(answer, int(key), why) for key in chosen[begin:end]],
    }


def _order(
    answer: Answer, chosen: NDArray[np.int64], sort: str, why: list[dict[str, Any]] | None
) -> NDArray[np.int64]:
    name = sort.removeprefix("-")
    if name not in SORTS:
        raise errors.QueryError(
            f"keys are not sorted by {name!r}", remedy="use one of " + ", ".join(SORTS)
        )
    values = {
        "key": np.arange(answer.rows.keys),
        "rows": np.diff(answer.rows.starts),
        "matches": answer.per_key,
    }
    if name == "misses":
        reached = [len(best["matched"] or ()) if best["reason"] else -1 for best in why or ()]
        values["misses"] = np.array(reached or [0] * answer.rows.keys)
    found = values[name][chosen]
    return np.argsort(-found if sort.startswith("-") else found, kind="stable")


def _key(answer: Answer, key: int, why: list[dict[str, Any]] | None) -> dict[str, Any]:
    first, behind = answer.rows.rows(key)
    at = answer.rows.at[first:behind]
    known = at[np.isfinite(at)]
    return {
        "key": key,
        "label": answer.rows.labels[key],
        "rows": behind - first,
        "from": float(known.min()) if len(known) else None,
        "to": float(known.max()) if len(known) else None,
        "matches": int(answer.per_key[key]),
        "best": why[key] if why and why[key]["reason"] else None,
    }


def best_of(answer: Answer) -> list[dict[str, Any]] | None:
    """Per key its best failed attempt, where `why` was asked before."""
    if "why" not in answer.__dict__:
        return None
    if "best" not in answer.__dict__:
        table = answer.why
        rows = table.select(["matched", "variable", "reason", "text"]).to_pylist()
        stopped = column_cells(table.column("stopped_at"))
        answer.__dict__["best"] = [
            row | {"stopped_at": at} for row, at in zip(rows, stopped, strict=True)
        ]
    return answer.__dict__["best"]
