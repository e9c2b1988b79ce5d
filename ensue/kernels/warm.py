"""Compiling kernels, or loading them from Numba's disk cache, before their first use.

On a fresh install that takes some seconds, once per machine: later processes, and Spark's workers
on this host, load the cached machine code. Without it every worker of a fresh machine would compile
them by itself, at the same time. A message says so when compiling takes longer than 2 seconds.

Whatever is compiled, and whenever: each time that the seconds not yet spoken of come to 2, a line
says what was compiled and how long it took. `ENSUE_PROGRESS=off` turns both off, and the workers of
Spark and other child processes say nothing.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from numba.core import event

from ensue.progress import is_off

PATIENCE = 2.0
MESSAGE = "ensue: compiling its kernels, once per machine (the result is cached on disk) ..."
COMPILED = "numba:compile"  # Numba's name of the event: nothing was found in its cache
_NAMED = 3
_P = ParamSpec("_P")


def announced(run: Callable[_P, None]) -> Callable[_P, None]:
    """`run`, with the message where compiling takes long; loading what is cached says nothing."""

    @wraps(run)
    def timed(*args: _P.args, **kwargs: _P.kwargs) -> None:
        begun = _Begun()
        try:
            with event.install_listener(COMPILED, begun):
                run(*args, **kwargs)
        finally:
            begun.timer.cancel()

    return timed


class _Begun(event.Listener):
    """Says the message some time after the first kernel begins to be compiled."""

    def __init__(self) -> None:
        self.timer = threading.Timer(PATIENCE, lambda: _say(MESSAGE))
        self.timer.daemon = True
        self._waits = False

    def on_start(self, event: event.Event) -> None:
        if not self._waits and kernel_of(event) is not None:
            self._waits = True
            self.timer.start()

    def on_end(self, event: event.Event) -> None:
        """What follows may be compiled too."""


def tell_compiles() -> None:
    """From now on, say what is compiled in this process where it takes long."""
    if not _is_child():
        event.register(COMPILED, TOLD)  # type: ignore[no-untyped-call]


def kernel_of(compiled: event.Event) -> str | None:
    """The kernel of Ensue that an event is about, by module and name."""
    data: Any = compiled.data
    function = data["dispatcher"].py_func
    own = function.__module__.split(".")[0] == "ensue"
    return f"{function.__module__}.{function.__qualname__}" if own else None


class Told(event.Listener):
    """Adds up what compiling took; Numba compiles one function at a time, callees inside."""

    def __init__(self) -> None:
        self._depth = 0
        self._begin = 0.0
        self._kernels: list[tuple[float, str]] = []  # those not compiled for another one

    def on_start(self, event: event.Event) -> None:
        if self._depth == 0:
            self._begin = time.perf_counter()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        kernel = kernel_of(event)
        if self._depth or kernel is None:
            return
        self._kernels.append((time.perf_counter() - self._begin, kernel))
        seconds = sum(took for took, _ in self._kernels)
        if seconds >= PATIENCE:
            longest = [name for _, name in sorted(self._kernels, reverse=True)]
            rest = f" and {len(longest) - _NAMED} more" if len(longest) > _NAMED else ""
            names = ", ".join(longest[:_NAMED])
            _say(f"ensue: compiled {names}{rest} in {seconds:.1f} s (cached on disk)")
            self._kernels = []


TOLD = Told()


def _say(text: str) -> None:
    if not is_off():
        print(text, file=sys.stderr, flush=True)


def _is_child() -> bool:
    """Whether this is a worker of Spark, or of a pool: another process speaks to the user."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return multiprocessing.parent_process() is not None or (
        spec is not None and spec.name.startswith("pyspark.")
    )
