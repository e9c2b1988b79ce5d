"""Registers and arcs of an automaton by hand, from what users write: names, types, SQL text."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ensue import errors
from ensue.automaton.registers import FIELD, MAX_FIELDS, Arc, Expression, Field
from ensue.front.expressions import Scope, parse_condition
from ensue.query import condition as c
from ensue.scalar import kinds as k
from ensue.scalar.fence import check_condition

RESERVED = ("op", "match_id", "match_number", "first", "last", "until", "state")
_ZERO = {"int": 0, "float": 0.0, "boolean": False}


def register_fields(
    register: Mapping[str, object], initial: Mapping[str, Any]
) -> tuple[Field, ...]:
    """The fields of a register; numbers begin at 0, everything else at null, unless said."""
    if len(register) > MAX_FIELDS:
        raise errors.LimitError(
            f"the register has {len(register)} fields; the limit is {MAX_FIELDS}",
            remedy="keep less in it",
        )
    for name in initial:
        if name not in register:
            raise errors.UnknownRegisterError(
                f"initial= gives a value for {name!r}, which is not a field of the register",
                remedy=f"the fields are {', '.join(register) or 'none'}",
            )
    found = []
    for name, text in register.items():
        if name in RESERVED:
            raise errors.ReservedNameError(
                f"the register cannot have a field {name!r}: the result has a column of that name",
                remedy=f"choose another name; {', '.join(RESERVED)} are taken",
            )
        kind = k.from_name(text) if isinstance(text, str) else None
        if kind is None:
            raise errors.ColumnTypeError(
                f"the field {name!r} of the register has the type {text!r}, which is not known",
                remedy="use a type of Spark SQL, such as int, bigint, double, string, timestamp",
            )
        found.append(Field(name, kind, initial.get(name, _ZERO.get(kind.name))))
    return tuple(found)


def parse(text: object, where: str, fields: tuple[Field, ...]) -> Expression:
    """A fence or transfer: its condition, in which fields of the register are not columns."""
    if callable(text):
        return text
    if not isinstance(text, str):
        raise errors.QueryError(
            f"{where} is {text!r}", remedy="give SQL text, or a function of event and register"
        )
    return _parsed(text, where, tuple(item.name for item in fields))


@lru_cache(4096)
def _parsed(text: str, where: str, fields: tuple[str, ...]) -> c.Condition:
    """Rules that are added and removed are mostly ones that were seen before."""
    names = {name.lower(): name for name in fields}
    tree = parse_condition(text, Scope(("register", "event"), where=where))

    def change(node: c.Condition) -> c.Condition | None:
        if isinstance(node, (c.Aggregate, c.MatchNumber)):
            raise _not_local(where, text)
        if not isinstance(node, c.Navigate):
            return None
        plain = node.anchor is c.Anchor.LAST and not (node.offset or node.shift or node.final)
        if not plain or not isinstance(node.argument, c.Column):
            raise _not_local(where, text)
        column = node.argument
        if node.variable == "event":
            return column
        if node.variable == "register" or column.name.lower() in names:
            known = names.get(column.name.lower())
            if known is None:
                listed = ", ".join(names.values()) or "none"
                raise errors.UnknownRegisterError(
                    f"{where}: the register has no field {column.name!r}; it has: {listed}",
                    remedy="declare it: Automaton(register={...})",
                    place=errors.Place.at_offset(text, max(0, text.find(column.name))),
                )
            return replace(column, name=FIELD + known)
        return column

    return c.transform(tree, change)


def _not_local(where: str, text: str) -> errors.NavigationError:
    return errors.NavigationError(
        f"{where}: {text!r} reads other events; an arc sees one event and the register",
        remedy="keep what you need of earlier events in the register",
    )


def make_arc(
    fields: tuple[Field, ...],
    source: str,
    target: str,
    when: object = None,
    set: Mapping[str, object] | Callable[..., Any] | None = None,
    epsilon: bool = False,
    at_end_of_window: bool = False,
    name: str = "",
) -> Arc:
    """An arc, parsed and with its fields known."""
    place = name or f"{source} -> {target}"
    fence = None if when is None else parse(when, f"the fence of {place}", fields)
    changes: list[tuple[str, Expression]] = []
    transfer = set if callable(set) else None
    if isinstance(set, Mapping):
        known = {item.name for item in fields}
        for field, value in set.items():
            if field not in known:
                raise errors.UnknownRegisterError(
                    f"the transfer of {place} sets {field!r}, which is not a field of the register",
                    remedy=f"the fields are {', '.join(sorted(known)) or 'none'}",
                )
            given = str(value) if isinstance(value, (int, float)) else value
            changes.append((field, parse(given, f"the transfer of {place} to {field}", fields)))
    elif set is not None and transfer is None:
        raise errors.QueryError(
            f"the transfer of {place} is {set!r}",
            remedy='give set={"field": "expression"}, or a function that returns a dict',
        )
    return Arc(
        source, target, fence, tuple(changes), transfer, epsilon, at_end_of_window, name or place
    )


EDIT = "ensue arcs"  # in the JSON of an edit: the version of its form


def read_edit(text: str, fields: tuple[Field, ...]) -> tuple[list[Arc], list[str], list[str]]:
    """Arcs that begin, names of arcs that end, and states that become final."""
    try:
        told = json.loads(text)
        json.dumps(told, ensure_ascii=False).encode()  # half a pair of surrogates is in no text
    except ValueError as problem:
        raise errors.QueryError(f"the edit is not JSON: {problem}", remedy=_EDIT_REMEDY) from None
    if not isinstance(told, dict) or told.get(EDIT) != 1 or set(told) - {EDIT, "add", "remove"}:
        raise errors.QueryError("the edit does not change arcs", remedy=_EDIT_REMEDY)
    add, remove = told.get("add", {}), told.get("remove", [])
    if not isinstance(add, dict) or not isinstance(remove, list) or not (add or remove):
        raise errors.QueryError(
            "the edit adds no arcs by name and removes none", remedy=_EDIT_REMEDY
        )
    arcs, finals = [], []
    for name, given in add.items():
        if not isinstance(given, dict) or not {"source", "target"} <= set(given) <= _ARC_KEYS:
            raise errors.QueryError(
                f"the arc {name!r} is given as {given!r}",
                remedy=f"give source and target, and of {', '.join(sorted(_ARC_KEYS))} what it has",
            )
        arc = dict(given)
        final = arc.pop("final", False)
        arcs.append(make_arc(fields, **arc, name=name))
        for said in (arcs[-1].when, *(value for _, value in arcs[-1].set)):
            if isinstance(said, c.CONDITIONS):
                check_condition(said, f"the arc {name}")
        finals += [arcs[-1].target] if final else []
    return arcs, [str(name) for name in remove], finals


_ARC_KEYS = {*inspect.signature(make_arc).parameters, "final"} - {"fields", "name"}
_EDIT_REMEDY = "write it with Control(...).arcs(name, add={...}, remove=[...])"
