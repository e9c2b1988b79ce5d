"""One row, one match: what a click shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.automaton.conditions import Tiers
from ensue.query import condition as c
from ensue.query.sql import shown_sql
from ensue.scalar.columns import Rows, evaluate
from ensue.studio.answer import Answer
from ensue.studio.lanes import check_key, measures
from ensue.studio.parse import columns_read
from ensue.studio.values import Cell, column_cells

MAX_COLUMNS = 100  # of a row; those that the query reads come first
_AROUND = 64  # rows on each side that PREV and NEXT may look at


def row(answer: Answer, key: Any, number: Any) -> dict[str, Any]:
    """The values of a row, and what each variable says of it."""
    position = _position(answer, key, number)
    names = shown_columns(answer)
    values = answer.rows.values([position], names)
    some = answer.listing.of_key(key)
    holders = [
        int(answer.listing.number[match])
        for match in range(some.start, some.stop)
        if number in answer.listing.row[answer.listing.events(match)]
    ]
    return {
        "row": number,
        "at": place_of(answer, position),
        "values": [[name, column_cells(values.column(name))[0]] for name in names],
        "variables": _variables(answer, key, position),
        "matches": holders[:1_000],
    }


def match(answer: Answer, key: Any, number: Any) -> dict[str, Any]:
    check_key(answer, key)
    found = answer.match_of(key, number)
    listing = answer.listing
    rows = listing.row[listing.events(found)]
    labels = listing.label[listing.events(found)]
    positions = (answer.rows.starts[key] + rows).tolist()
    heads = answer.query.partition_by  # which the heading says
    names = [name for name in shown_columns(answer) if name not in heads]
    values = answer.rows.values(positions, names)
    columns = [column_cells(values.column(name)) for name in names]
    listed = [
        {
            "row": int(r),
            "label": answer.variables[label],
            "at": place_of(answer, position),
            "values": [[name, column[i]] for name, column in zip(names, columns, strict=True)],
        }
        for i, (r, label, position) in enumerate(zip(rows, labels, positions, strict=True))
    ]
    said: list[list[Any]] = [[name, value] for name, value in measures(answer, found)]
    if listing.lacks is not None:
        said.append(["missing", ", ".join(listing.lacks[found][1])])
    return {"key": key, "number": number, "rows": listed, "measures": said}


def shown_columns(answer: Answer) -> list[str]:
    """Columns to show of a row: what the query reads, then the others."""
    names = [n for n in columns_read(answer.query) if n in answer.table.column_names]
    return list(dict.fromkeys([*names, *answer.table.column_names]))[:MAX_COLUMNS]


def _position(answer: Answer, key: Any, number: Any) -> int:
    check_key(answer, key)
    first, behind = answer.rows.rows(key)
    if not isinstance(number, int) or not 0 <= number < behind - first:
        raise errors.QueryError(
            f"key {key} has no row {number!r}; it has {behind - first:,} rows",
            remedy="ask for the lane again",
        )
    return first + number


def place_of(answer: Answer, position: int) -> float | None:
    at = float(answer.rows.at[position])
    return at if np.isfinite(at) else None


def _variables(answer: Answer, key: int, position: int) -> list[dict[str, Any]]:
    """Each variable's condition on this row, cut at its ANDs."""
    first, behind = answer.rows.rows(key)
    begin, end = max(first, position - _AROUND), min(behind, position + _AROUND + 1)
    tiers = {tier.label: tier for tier in answer.plan.tiers}
    conditions = [p for tier in tiers.values() for p in (tier.row, *tier.neighbour)]
    names = {name for condition in conditions for name in c.columns(condition)}
    some = answer.rows.values(range(begin, end), sorted(names))
    columns = {name: some.column(name).combine_chunks() for name in some.column_names}
    rows = Rows(columns, end - begin, np.zeros(1, np.int64))
    here = position - begin
    return [_variable(answer, name, tiers.get(name), rows, here) for name in answer.variables]


def _variable(
    answer: Answer, name: str, tier: Tiers | None, rows: Rows, here: int
) -> dict[str, Any]:
    parts = [] if tier is None else [*c.conjuncts(tier.row), *tier.neighbour]
    said = [_part(part, rows, here) for part in parts]
    for part in () if tier is None else tier.correlated:
        said.append(
            {"text": shown_sql(part), "values": "reads other rows of the match", "holds": None}
        )
    held = [part["holds"] for part in said]
    holds = False if False in held else None if None in held else True
    return {"name": name, "holds": holds, "parts": said}


def _part(part: c.Condition, rows: Rows, here: int) -> dict[str, Any]:
    text = ""
    try:
        values = {shown_sql(leaf): _one(evaluate(leaf, rows), here) for leaf in _leaves(part)}
        text = ", ".join(f"{name} = {'null' if v is None else v}" for name, v in values.items())
        holds: Cell = _one(evaluate(part, rows), here)
    except errors.EnsueError as problem:
        text, holds = problem.problem, None
    return {"text": shown_sql(part), "values": text, "holds": holds}


def _leaves(part: c.Condition) -> list[c.Condition]:
    """What a condition reads: columns, of this row or of its neighbours."""
    found: dict[c.Condition, None] = {}

    def change(node: c.Condition) -> c.Condition | None:
        if not isinstance(node, (c.Column, c.Navigate)):
            return None
        found.setdefault(node)
        return node

    c.transform(part, change)
    return list(found)


def _one(column: Any, here: int) -> Cell:
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = pa.array(column)
    return column_cells(pa.chunked_array([column.slice(here, 1)]))[0]
