"""Trees that are deep: a limit on nesting, and room for those that keep to it.

Most walks over a tree are recursive, and so are the parsers of libraries. Two rules make that safe
for any text. Chains of AND, OR and || are kept as balanced trees (`condition.chain`): 100,000 terms
are 17 levels. What really nests is refused beyond `MAX_NESTING`; below it, a call that ran out of
Python's stack runs once more in a thread with a large one (`roomy`).
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ensue import errors

MAX_NESTING = 1_000  # levels of brackets, of functions, of operators that do not form one chain
_FRAMES = 100_000  # of Python, in a roomy thread: parsers take up to 40 for a level
_STACK = 512 << 20  # bytes of address space; only what is used takes memory
_REMEDY = "compute parts of it into columns first"
_BRACKETS = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[(\[{)\]}]", re.S
)
_SURROGATE = re.compile("[\ud800-\udfff]")

P = ParamSpec("P")
T = TypeVar("T")
_local = threading.local()


def check_text(text: str, what: str) -> None:
    """Refuses, before anything else reads it, a text with deep brackets or characters of none."""
    check_characters(text, what)
    level = 0
    for found in _BRACKETS.finditer(text):
        mark = found[0]
        if mark in "([{":
            level += 1
            if level > MAX_NESTING:
                raise too_deep(what, errors.Place.at_offset(text, found.start()))
        elif mark in ")]}":
            level -= 1


def check_characters(
    text: str, what: str, error: type[errors.EnsueError] = errors.ConditionSyntaxError
) -> None:
    """Half of a surrogate pair is in no column and in no table, and nothing can print it."""
    if (found := _SURROGATE.search(text)) is not None:
        raise error(
            f"{what} has U+{ord(found[0]):04X}, which is half of a character",
            remedy="write the character itself, or decode the bytes as what they are",
            place=errors.Place.at_offset(_SURROGATE.sub("\ufffd", text), found.start()),
        )


def too_deep(what: str, place: errors.Place | None = None) -> errors.LimitError:
    return errors.LimitError(
        f"{what} nests deeper than {MAX_NESTING:,} levels", remedy=_REMEDY, place=place
    )


def roomy(function: Callable[P, T]) -> Callable[P, T]:
    """Runs `function`, which changes nothing outside, again with room where the stack runs out."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(_local, "roomy", False):
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except RecursionError:
            pass
        return _in_thread(lambda: function(*args, **kwargs))

    return call


def _in_thread(function: Callable[[], T]) -> T:
    answer: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        _local.roomy = True
        try:
            answer.append(function())
        except RecursionError:
            failure.append(too_deep("the text"))
        except BaseException as problem:
            failure.append(problem)

    thread = threading.Thread(target=run, name="ensue deep", daemon=True)
    _ROOMS.run(thread)
    if failure:
        raise failure[0]
    return answer[0]


class _Rooms:
    """Threads with a large stack; the limit that they need is the whole process's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = 0
        self._usual = 0  # the limit while no such thread runs

    def run(self, thread: threading.Thread) -> None:
        with self._lock:
            if not self._busy:
                self._usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._usual, _FRAMES))
            self._busy += 1
            size = threading.stack_size(_STACK)
            try:
                thread.start()
            finally:
                threading.stack_size(size)
        try:
            thread.join()
        finally:
            with self._lock:
                self._busy -= 1
                if not self._busy:
                    sys.setrecursionlimit(self._usual)


_ROOMS = _Rooms()


def check_depth(tree: Any, children: Callable[[Any], Any], what: str) -> None:
    """Refuses a tree of more than `MAX_NESTING` levels; takes no stack itself."""
    level, layer = 0, [tree]
    while layer:
        level += 1
        if level > MAX_NESTING:
            raise too_deep(what)
        layer = [child for node in layer for child in children(node)]
