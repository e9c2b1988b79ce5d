"""What users give a graph (expressions, starts, limits), read and checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ensue import errors
from ensue.front.paths import parse_path
from ensue.paths.asked import Starts
from ensue.paths.candidates import Read
from ensue.paths.graph_store import GraphStore
from ensue.paths.plan import UNBOUNDED
from ensue.query.paths import PathQuery, Semantics

Expression = str | Sequence[str] | Mapping[str, str]


@dataclass(frozen=True)
class Absence:
    """The report about nodes that a question names and the graph does not have."""

    missing: str  # note or error
    store: GraphStore | None  # for near spellings

    def __call__(self, what: str, names: list[Any], count: int) -> None:
        names = [plain(name) for name in names]
        shown = ", ".join(repr(name) for name in names) + (", ..." if count > len(names) else "")
        text = f"{what}: the graph has no node {shown} ({count:,} not found)"
        if self.missing == "note":
            warnings.warn(text, errors.MissingNodeWarning, stacklevel=5)
            return
        near = [] if self.store is None else self.store.near_names(names[0])
        raise errors.UnknownNodeError(
            text,
            remedy=(f"did you mean {', '.join(near)}? " if near else "check the spelling, ")
            + 'or set missing="note" for an empty answer',
        )


def starts_of(start: Any, names: list[str]) -> tuple[Starts, ...] | None:
    if start is None:
        return None
    if not isinstance(start, Mapping):
        return (Starts(range(len(names)), many(start)),)
    numbers = {name: number for number, name in enumerate(names)}
    unknown = [name for name in start if name not in numbers]
    if unknown:
        raise errors.QueryError(
            f"start names the query {unknown[0]!r}, which is not among the queries",
            remedy=f"name one of {', '.join(names)}",
        )
    return tuple(
        Starts((numbers[name],), many(nodes), f"start of {name!r}") for name, nodes in start.items()
    )


def many(given: Any) -> Any:
    """A list or Arrow array of nodes from one node, a collection or a column."""
    if isinstance(given, pa.Scalar):
        return [given.as_py()]
    if isinstance(given, (pa.Array, pa.ChunkedArray, list)):
        return given
    if isinstance(given, np.ndarray):
        return given.tolist()
    if isinstance(given, (tuple, set, frozenset)):
        return list(given)
    if hasattr(given, "to_list"):
        return given.to_list()
    if hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__"):
        return pa.chunked_array(given)
    if isinstance(given, (range, KeysView, ValuesView, Iterator)):
        return list(given)
    return [given]


def plain(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value


def queries_of(expression: Expression) -> tuple[tuple[PathQuery, ...], list[str] | None]:
    """The parsed queries, and their names where several were given."""
    if isinstance(expression, str):
        return (parse_path(expression),), None
    if isinstance(expression, Mapping):
        names, texts = list(expression), list(expression.values())
    elif not isinstance(expression, Iterable):
        raise errors.QueryError(
            f"a path expression is text, not {type(expression).__name__}",
            remedy="write for example 'written_by/^written_by', or several as a list or by name",
        )
    else:
        texts = list(expression)
        names = list(dict.fromkeys(texts))
        texts = names
    if not texts:
        raise errors.QueryError(
            "no path expression was given", remedy="give one, or several as a list or by name"
        )
    return tuple(parse_path(text) for text in texts), names


def read_path(text: str) -> Read:
    try:
        return parse_path(text)
    except errors.EnsueError as problem:
        return problem


def semantics_of(name: str) -> Semantics:
    try:
        return Semantics(name)
    except ValueError:
        raise errors.QueryError(
            f"semantics={name!r} is not known",
            remedy="use " + ", ".join(s.value for s in Semantics),
        ) from None


def hops_of(max_hops: int | None) -> int | None:
    return None if max_hops is None else whole("max_hops", "steps", max_hops, 0, "or None")


def whole(name: str, what: str, value: Any, least: int, otherwise: str = "") -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise errors.QueryError(
            f"{name}={value!r} is not a number of {what}",
            remedy=f"give {least} or more" + (f", {otherwise}" if otherwise else ""),
        )
    return min(int(value), UNBOUNDED)  # kernels count in 32 bits; nothing is as long or as many


def counted(of: str) -> str:
    if of not in ("paths", "ends"):
        raise errors.QueryError(f"of={of!r} cannot be counted", remedy="use paths or ends")
    return of
