"""Why it did not match, for a page: attempts, the funnel, near misses, and steps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue import errors
from ensue.run.partition import EVERY
from ensue.studio.answer import Answer, reasons_in
from ensue.studio.arranged import Arranged
from ensue.studio.details import place_of
from ensue.studio.found import MAX_PAGE
from ensue.studio.lanes import check_key

MAX_STEPS = 50_000  # of a trace


def why(answer: Answer, params: Mapping[str, Any]) -> dict[str, Any]:
    """Failed attempts: the best one of every key, or every start row of one key."""
    per, key = params.get("per") or "partition", params.get("key")
    if per == "partition" and key is None:
        table, keys = answer.why, np.arange(answer.rows.keys)
    elif key is None:
        raise errors.QueryError(
            "attempts of every start are listed for one key",
            remedy="choose a key, or per partition",
        )
    else:
        check_key(answer, key)
        if per == "partition":
            table = answer.why.slice(key, 1)
        else:
            table = answer.pattern.why(partition(answer, key), per="start")
        keys = np.full(table.num_rows, key)
    reasons = reasons_in(table) if key is not None else answer.reasons
    chosen = np.arange(table.num_rows)
    reason = params.get("reason")
    if reason:
        held = pc.fill_null(pc.equal(table.column("reason"), str(reason)), False)
        chosen = np.flatnonzero(held.to_numpy(zero_copy_only=False))
    elif per == "partition":
        held = pc.is_valid(table.column("reason"))
        chosen = np.flatnonzero(held.to_numpy(zero_copy_only=False))
        reached = pc.fill_null(pc.list_value_length(table.column("matched")), 0).to_numpy()
        chosen = chosen[np.argsort(-reached[chosen], kind="stable")]
    begin = max(0, int(params.get("offset") or 0))
    shown = chosen[begin : begin + min(int(params.get("limit") or 100), MAX_PAGE)]
    return {
        "total": len(chosen),
        "reasons": [[name, count] for name, count in reasons],
        "attempts": _attempts(answer, table.take(pa.array(shown)), keys[shown].tolist()),
    }


def _attempts(answer: Answer, table: pa.Table, keys: list[int]) -> list[dict[str, Any]]:
    found = []
    stopped = places(answer.rows, table.column("stopped_at"))
    starts = table.column("row").to_pylist() if "row" in table.column_names else None
    said = table.select(["matched", "variable", "reason", "text", "matches"]).to_pylist()
    for place, (key, one) in enumerate(zip(keys, said, strict=True)):
        first = int(answer.rows.starts[key])
        start = None if starts is None else starts[place]
        row = row_at(answer.rows, key, stopped[place])
        one["matched"] = one["matched"] or []
        found.append(
            {
                "key": key,
                "label": answer.rows.labels[key],
                "start_row": start,
                "start": None if start is None else place_of(answer, first + start),
                "row": row,
                "at": None if row is None else place_of(answer, first + row),
                **one,
            }
        )
    return found


def places(rows: Arranged, column: pa.ChunkedArray) -> list[float | None]:
    """Order values as places on the axis."""
    if rows.axis == "time":
        moments = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_pylist()
        return [None if value is None else value / 1000.0 for value in moments]
    if rows.axis == "number" and not pa.types.is_null(column.type):
        return [None if v is None else float(v) for v in column.to_pylist()]
    return [None] * len(column)


def row_at(rows: Arranged, key: int, at: float | None) -> int | None:
    """The first row of a key at a place."""
    if at is None:
        return None
    first, behind = rows.rows(key)
    near = np.flatnonzero(rows.at[first:behind] == at)
    return int(near[0]) if len(near) else None


def partition(answer: Answer, key: int) -> pa.Table:
    """The rows of one key, in order."""
    first, behind = answer.rows.rows(key)
    return answer.table.take(pa.array(answer.rows.index[first:behind])).combine_chunks()


def funnel(answer: Answer) -> dict[str, Any]:
    """How many attempts reach each variable, and why they stop there."""
    steps: list[dict[str, Any]] = []
    matched = 0
    table = answer.collected(answer.pattern.funnel_of_attempts(answer.data))
    for row in table.to_pylist():
        if row["variable"] is None:
            matched = row["reached"]
            continue
        if not steps or steps[-1]["place"] != row["place"]:
            step = {n: row[n] for n in ("place", "variable", "reached")} | {"stopped": []}
            steps.append(step)
        if row["reason"] is not None:
            steps[-1]["stopped"].append([row["reason"], row["stopped"]])
    return {"steps": steps, "matched": matched}


def nearest(answer: Answer, count: int) -> dict[str, Any]:
    """The attempts that lack least, and which variables they lack."""
    found = answer.collected(answer.pattern.nearest(answer.data, max(1, min(count, MAX_PAGE))))
    keys = answer.rows.keys_of(found)
    known = np.flatnonzero(keys >= 0)  # of a sample of keys, those that are shown
    found, keys = found.take(pa.array(known)), keys[known]
    stopped = places(answer.rows, found.column("stopped_at"))
    names = ["row", "lacks", "missing", "matched", "variable", "reason", "text"]
    misses = []
    for key, at, one in zip(keys.tolist(), stopped, found.select(names).to_pylist(), strict=True):
        start = one.pop("row")
        row = row_at(answer.rows, key, at)
        position = int(answer.rows.starts[key]) + start
        misses.append(
            {
                "key": key,
                "label": answer.rows.labels[key],
                "start_row": start,
                "start": place_of(answer, position),
                "row": row,
                "at": at,
                **one,
            }
        )
    return {"misses": misses}


def expected(answer: Answer, key: Any, rows: Any) -> dict[str, Any]:
    """The first rule that rows break which were expected to match."""
    check_key(answer, key)
    if not isinstance(rows, (dict, list)) or not rows:
        raise errors.QueryError("no rows are named", remedy="say which rows should have matched")
    table = answer.pattern.why(partition(answer, key), rows=rows, key=_head(answer, key))
    (attempt,) = _attempts(answer, table, [key])
    return attempt


def _head(answer: Answer, key: int) -> Any:
    """The partition as `key=` of the library takes it."""
    if not answer.rows.partition_by:
        return EVERY
    return answer.rows.heads.slice(key, 1).to_pylist()[0]


def _step_at(steps: pa.Table, row: Any, start: Any, variable: Any) -> int | None:
    """The first step at a row, of the attempt from `start` where it is known and comes there.

    Of the steps that ask `variable`, the one of the attempt that got farthest: why() tells of it.
    """
    if not isinstance(row, int):
        return None
    here = pc.equal(steps.column("row"), row)
    if isinstance(start, int):
        own = pc.and_(here, pc.equal(steps.column("start"), start))
        here = own if pc.any(own).as_py() else here
    asked = pc.and_kleene(here, pc.equal(steps.column("variable"), str(variable)))
    if variable is not None and pc.any(asked).as_py():
        places = np.flatnonzero(pc.fill_null(asked, False).to_numpy(zero_copy_only=False))
        few = steps.take(pa.array(places))
        lengths = pc.fill_null(pc.list_value_length(few.column("matched")), 0).to_numpy()
        starts = pc.fill_null(few.column("start"), -1).to_numpy()
        return int(places[np.lexsort((-starts, -lengths))[0]])
    found = int(pc.index(here, True).as_py())
    return found if found >= 0 else None


def trace(answer: Answer, params: Mapping[str, Any]) -> dict[str, Any]:
    """The search through one partition, step by step."""
    key = params.get("key")
    check_key(answer, key)
    assert isinstance(key, int)
    kept: dict[int, tuple[pa.Table, bool]] = answer.__dict__.setdefault("traces", {})
    if key not in kept:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is cut is said below
            steps = answer.pattern.trace(
                partition(answer, key), _head(answer, key), limit=MAX_STEPS
            )
        kept.clear()
        kept[key] = steps, steps.num_rows >= MAX_STEPS
    steps, cut = kept[key]
    limit = min(int(params.get("limit") or 200), MAX_PAGE)
    chosen = _step_at(steps, params.get("row"), params.get("start"), params.get("variable"))
    begin = max(0, int(params.get("from") or 0))
    if chosen is not None and chosen >= limit:
        begin = chosen - limit // 2  # the page around it
    shown = steps.slice(begin, limit).to_pylist()
    first, behind = answer.rows.rows(key)
    for step in shown:
        row = step["row"]
        step["at"] = place_of(answer, first + row) if first + row < behind else None
    return {
        "total": steps.num_rows,
        "chosen": chosen,
        "steps": shown,
        "cut": f"the first {MAX_STEPS:,} steps" if cut else None,
    }
