"""A typed query shown: its variables, its automaton, the other languages, and how it would run."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ensue.automaton.plan import plan
from ensue.automaton.view import ACCEPT, START, State, View
from ensue.query import condition as c
from ensue.query.binding import bind
from ensue.query.query import Query
from ensue.query.sql import definitions_sql
from ensue.studio.reading import read, settled
from ensue.studio.texts import Typed
from ensue.studio.written import in_languages


def parsed(typed: Typed, schema: pa.Schema | None) -> dict[str, Any]:
    """What a page shows of a query; with a schema, its columns are checked."""
    query = read(typed).query
    if schema is not None:
        query = bind(query, schema.names)
    planned = plan(query)
    conditions = definitions_sql(query)
    colours = {name: place for place, name in enumerate(query.labels)}
    view = planned.automaton.view().with_conditions(conditions)
    return {
        "variables": [
            {
                "name": name,
                "condition": conditions.get(name, ""),
                "negative": name in query.unseen,
                "colour": colours[name],
            }
            for name in query.labels
        ],
        "columns": columns_read(query),
        "automaton": graph(view, colours),
        "languages": in_languages(query, typed),
        "explain": str(settled(query).explain()),
        "semantics": "row" if query.row_semantics else "event",
        "notes": notes(query),
    }


def columns_read(query: Query) -> list[str]:
    """Columns that the query names, in the order in which a reader looks for them."""
    names = [*query.partition_by, *(key.column for key in query.order_by)]
    for condition in query.conditions():
        names += c.columns(condition)
    return list(dict.fromkeys(names))


def notes(query: Query) -> list[str]:
    """What a reader may not expect."""
    found = []
    if not query.order_by:
        found.append("no order: rows are matched in the order of the table")
    if not query.partition_by:
        found.append("no partition: all rows are one sequence")
    if not query.row_semantics and query.within is None:
        found.append("no window: matches may reach over the whole partition")
    return found


def graph(view: View, colours: dict[str, int]) -> dict[str, Any]:
    """A view of an automaton as nodes and edges."""
    return {
        "title": view.title,
        "notes": list(view.notes),
        "ordered": view.ordered,
        "states": [_state(state, colours) for state in view.states],
        "arcs": [
            {
                "source": arc.source,
                "target": arc.target,
                "text": arc.text,
                "label": arc.label,
                "condition": arc.condition,
                "faint": arc.faint,
            }
            for arc in view.arcs
        ],
        "parts": [graph(part, colours) for part in view.parts],
    }


def _state(state: State, colours: dict[str, int]) -> dict[str, Any]:
    return {
        "id": state.key,
        "label": state.label,
        "text": state.text,
        "start": START in state.marks,
        "accept": ACCEPT in state.marks or state.key == ACCEPT,
        "note": state.note,
        "condition": state.condition,
        "colour": colours.get(state.label),
    }
