"""Objects that several threads may share: calls take turns.

Kernels release the interpreter's lock and a call changes several fields, so two calls at once on
one operator would lose events without a word. A class that inherits from `Turns` has a lock per
object, which each of its public methods and properties holds while it runs; nothing inside needs to
know. The lock is reentrant, since public methods call each other, and costs under a microsecond.

A method that hands out a generator would do its work after the turn is over: such a class is
refused when it is defined.

The methods in `CHANGES` take `timeout=`, and can be stopped half-way. What such a call has changed
is taken back where it was given a `timeout`, by the class's `_rewind`: that costs a copy of the
state beforehand. Else the object refuses further calls, since nobody knows what it holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Self

from ensue import errors
from ensue.query.timeout import seconds_of
from ensue.stopping import Stopped, watch

CHANGES = frozenset({"insert", "retract", "advance", "end", "revise", "revise_during"})


class Turns:
    """Public methods and properties of each subclass run one at a time; see the module."""

    _turn: Any
    _cut: str | None = None  # the call that was stopped half-way

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        made._turn = RLock()
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Also what comes from beside: a base that takes no turns by itself.
        beside = [base for base in reversed(cls.__mro__[1:-1]) if not issubclass(base, Turns)]
        members = {name: member for base in (*beside, cls) for name, member in vars(base).items()}
        for name, member in members.items():
            if name.startswith("_"):
                continue
            if inspect.isfunction(member):
                setattr(cls, name, _changing(member) if name in CHANGES else _in_turn(member))
            elif isinstance(member, property) and member.fget is not None:
                setattr(cls, name, property(_in_turn(member.fget), member.fset, member.fdel))

    def __getstate__(self) -> dict[str, Any]:
        """A lock does not travel; the copy gets its own."""
        with self._turn:
            return {name: value for name, value in vars(self).items() if name != "_turn"}

    def _rewind(self) -> Callable[[], None] | None:
        """What brings the object back to how it is now; None: it cannot."""
        return None

    def _become(self, fields: dict[str, Any]) -> None:
        """What `vars` was."""
        vars(self).clear()
        vars(self).update(fields)

    def _refuse_cut(self) -> None:
        raise errors.StateError(
            f"{self._cut}() was stopped half-way, so the state held here is not known",
            remedy="restore the last snapshot; a call with timeout=... that is stopped is undone, "
            "and the object stays usable",
        )


def _in_turn(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(method):
        raise TypeError(f"{method.__qualname__} hands out a generator, which outlives its turn")

    @wraps(method)
    def taking_turns(self: Turns, *args: Any, **options: Any) -> Any:
        with self._turn:
            if self._cut is not None:
                self._refuse_cut()
            return method(self, *args, **options)

    return taking_turns


def _changing(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(method):
        raise TypeError(f"{method.__qualname__} hands out a generator, which outlives its turn")

    @wraps(method)
    def taking_turns(self: Turns, *args: Any, timeout: Any = None, **options: Any) -> Any:
        with self._turn:
            if self._cut is not None:
                self._refuse_cut()
            rewind = None if timeout is None else self._rewind()
            try:
                with watch(seconds_of(timeout)):
                    return method(self, *args, **options)
            except (Stopped, KeyboardInterrupt, errors.TimeLimitError):
                if rewind is None:
                    self._cut = method.__name__
                else:
                    rewind()
                raise

    return taking_turns
