"""Stopping what runs: Ctrl-C, deadlines, and whoever cancels.

What users call runs under a `watch`. While there is one, a thread wakes every `TICK` seconds and
marks the runs that should look up: all in the main thread, for signals, and those whose deadline
has passed. Kernels see the mark (`kernels/stop.py`); Python that runs long calls `look()`. What was
being changed when a run stopped is its owner's to put right (`operator/turns.py`).
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from ensue import errors

TICK = 0.05  # seconds between two looks at signals and deadlines
_IDLE = 20  # ticks without a run after which the thread sleeps until the next one
_SLOTS = 64  # runs that are watched at a time; those beyond stop between kernels
SLOT = 5
SIZE = 1 + _SLOTS * SLOT
_LOOK, STOP = 1, 2  # what a slot asks its thread to do
TIMED_OUT = 1  # in place of an exception

# [0]: somebody should look up. Then per slot: its thread; what that is asked; and the exception
# (type, value, traceback) that a kernel has put aside.
WORDS = (ctypes.c_int64 * SIZE)()

T = TypeVar("T")
U = TypeVar("U")


class Stopped(BaseException):
    """A run was left because its time is over; `watch` says which limit that was."""


@dataclass(slots=True)
class _Run:
    """What one thread does under a watch; nested watches share it."""

    thread: int
    slot: int
    deadline: float = math.inf
    seconds: float | None = None  # from the beginning of the watch to the deadline
    depth: int = 0
    cancel: Callable[[], object] | None = None  # what runs outside Python and kernels


class _Runs:
    """All runs of the process, and the thread that looks after them."""

    def __init__(self) -> None:
        self.by_thread: dict[int, _Run] = {}
        self._free = list(range(_SLOTS))
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        for place in range(SIZE):
            WORDS[place] = 0

    def begin(self, thread: int) -> _Run:
        with self._lock:
            slot = self._free.pop() if self._free else -1
            run = self.by_thread[thread] = _Run(thread, slot)
            if slot >= 0:
                WORDS[1 + slot * SLOT] = thread
            if self._thread is None:
                self._thread = threading.Thread(target=self._tick, name="ensue stop", daemon=True)
                self._thread.start()
        if not self._wake.is_set():
            self._wake.set()
        return run

    def end(self, run: _Run) -> None:
        with self._lock:
            if self.by_thread.get(run.thread) is not run:
                return  # of before a fork
            del self.by_thread[run.thread]
            if run.slot >= 0:
                for part in range(2):
                    WORDS[1 + run.slot * SLOT + part] = 0
                self._free.append(run.slot)

    def _tick(self) -> None:
        idle = 0
        main = threading.main_thread().ident
        while True:
            time.sleep(TICK)
            now = time.monotonic()
            with self._lock:
                for run in self.by_thread.values():
                    late = now > run.deadline
                    if late and run.cancel is not None:
                        run.cancel()
                    if run.slot >= 0 and (late or run.thread == main):
                        WORDS[1 + run.slot * SLOT + 1] = STOP if late else _LOOK
                        WORDS[0] = 1
                idle = 0 if self.by_thread else idle + 1
                if idle > _IDLE:
                    self._wake.clear()
            if idle > _IDLE:
                self._wake.wait()
                idle = 0


_RUNS = _Runs()


def _reset() -> None:
    """A forked child has none of the threads."""
    global _RUNS  # noqa: PLW0603
    _RUNS = _Runs()


os.register_at_fork(after_in_child=_reset)
# It raises what it is given: ctypes looks for an exception after each call of this kind.
_raise = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyErr_Restore", ctypes.pythonapi)
)


def look() -> None:
    """Raise what a kernel has put aside, or `Stopped` where the deadline has passed."""
    run = _RUNS.by_thread.get(threading.get_ident())
    if run is not None:
        _raise_aside(run)
        if time.monotonic() > run.deadline:
            raise Stopped


def _raise_aside(run: _Run) -> None:
    place = 1 + run.slot * SLOT + 2
    if run.slot >= 0 and WORDS[place]:
        aside = WORDS[place : place + 3]
        WORDS[place : place + 3] = [0, 0, 0]
        if aside[0] == TIMED_OUT:
            raise Stopped
        _raise(*(part or None for part in aside))


def seconds() -> float | None:
    """How long this thread may run from the beginning of its watch; None: no limit."""
    run = _RUNS.by_thread.get(threading.get_ident())
    return None if run is None else run.seconds


@contextmanager
def cancelling(cancel: Callable[[], object]) -> Iterator[None]:
    """What runs inside is neither Python nor a kernel: `cancel` ends it, from another thread."""
    run = _RUNS.by_thread.get(threading.get_ident())
    if run is None:
        yield
        return
    run.cancel = cancel
    try:
        yield
    except Exception:
        look()  # it was cancelled
        raise
    finally:
        run.cancel = None


class watch:  # noqa: N801 - used as a statement
    """`with watch(seconds):` what runs inside stops for signals, and when the seconds are over.

    Of nested ones the nearest deadline holds, and is reported as that of the one it belongs to.
    """

    __slots__ = ("_before", "_deadline", "_run", "_seconds")
    _before: tuple[float, float | None]

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds

    def __enter__(self) -> _Run:
        thread = threading.get_ident()
        run = _RUNS.by_thread.get(thread) or _RUNS.begin(thread)
        self._run, self._before = run, (run.deadline, run.seconds)
        run.depth += 1
        self._deadline = math.inf
        if self._seconds is not None:
            self._deadline = time.monotonic() + self._seconds
            if self._deadline < run.deadline:
                run.deadline, run.seconds = self._deadline, self._seconds
        return run

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        run, over = self._run, kind is Stopped
        try:
            if kind is None:
                _raise_aside(run)  # the caller of a kernel did not look
        except Stopped:
            over = True
        finally:
            run.depth -= 1
            run.deadline, run.seconds = self._before
            if run.depth == 0:
                _RUNS.end(run)
        if not over:
            return
        if self._seconds is None or self._deadline > self._before[0]:
            raise Stopped
        raise errors.TimeLimitError(
            f"the run was not done after {self._seconds:,g} seconds, the limit that timeout= sets",
            remedy="give it more time, match fewer rows, bound the pattern with within(...), or "
            "give a budget",
        ) from None


def in_threads(work: Callable[[T], U], items: Iterable[T], threads: int) -> list[U]:
    """As `map`, in threads that stop with the run that waits for them."""
    own = _RUNS.by_thread.get(threading.get_ident())
    deadline = math.inf if own is None else own.deadline
    runs: list[_Run] = []
    stopped = False

    def one(item: T) -> U:
        with watch() as run:
            run.deadline = -math.inf if stopped else deadline
            runs.append(run)
            return work(item)

    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(one, items))
        except BaseException:
            stopped = True
            for run in runs:
                run.deadline = -math.inf
            raise
