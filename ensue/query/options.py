"""An option that a call does not have is refused, and those there are are named."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from ensue import errors

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)


def options_of(run: Callable[..., object]) -> list[str]:
    """What may be given to `run` by name, the data aside."""
    given = inspect.signature(run).parameters.values()
    named = (p.name for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    return [name for name in named if name not in ("self", "data")]


def unknown_option(name: str, own: Sequence[str], of_streams: Sequence[str] = ()) -> Exception:
    close = difflib.get_close_matches(name, [*own, *of_streams], n=1)
    hint = f"; did you mean {close[0]}=?" if close else ""
    there = f"options are: {', '.join(own)}" if own else "it takes none"
    more = f"; of streams: {', '.join(of_streams)}" if of_streams else ""
    return errors.QueryError(f"{name}= is not an option{hint}", remedy=there + more)


def known_options(run: Callable[P, T]) -> Callable[P, T]:
    """A call that refuses names which are none of its parameters."""
    parameters = inspect.signature(run).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return run

    @wraps(run)
    def call(*args: P.args, **named: P.kwargs) -> T:
        if named.keys() <= parameters.keys():
            return run(*args, **named)
        unknown = next(name for name in named if name not in parameters)
        raise unknown_option(unknown, options_of(run))

    return call


def made_with_options(kind: C) -> C:
    """The same of a class, where it is made."""
    kind.__init__ = known_options(kind.__init__)  # type: ignore[misc]
    return kind
