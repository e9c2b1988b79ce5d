"""Progress of long runs in terminals and notebooks: rows, matches, and the time left.

Nothing is shown where standard error is a pipe or a file, for fewer than a million rows in process,
and where the environment says ENSUE_PROGRESS=off. A program that shows progress in its own way
listens.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

LEAST_ROWS = 1_000_000
SETTING = "ENSUE_PROGRESS"
Report = Callable[[int, int], None]  # so many rows more are done, so many matches more are found
Listener = Callable[[int, int | None, str], None]  # done, of so many where that is known, what
_LISTENER: ContextVar[Listener | None] = ContextVar("ensue_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Runs inside report to the listener and show nothing; what it raises ends the run."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def progress(title: str, rows: int) -> Iterator[Report | None]:
    """What shows how far a run is; None where nobody looks."""
    listener = _LISTENER.get()
    if listener is not None:
        yield _told(listener, title, rows)
        return
    screen = _screen() if rows >= LEAST_ROWS else None
    if screen is None:
        yield None
        return
    told = "{task.completed:,} of {task.total:,} rows, {task.fields[matches]:,} matches"
    with _bar(screen, told) as shown:
        task = shown.add_task(title, total=rows, matches=0)
        matches = 0

        def report(done: int, found: int) -> None:
            nonlocal matches
            matches += found
            shown.update(task, advance=done, matches=matches)

        yield report


def _bar(screen: Console, told: str) -> Progress:
    """A bar with the time so far and the time left; `told` is what stands beside it."""
    from rich import progress as p

    ends = (p.TimeElapsedColumn(), p.TextColumn("left"), p.TimeRemainingColumn())
    columns = (p.TextColumn("{task.description}"), p.BarColumn(), p.TextColumn(told), *ends)
    return p.Progress(*columns, console=screen, transient=True)


def _told(listener: Listener, title: str, rows: int) -> Report:
    done = 0

    def report(more: int, _found: int) -> None:
        nonlocal done
        done += more
        listener(done, rows, title)

    return report


@contextmanager
def waiting(text: str, rows: int) -> Iterator[None]:
    """A line that stands while one long step runs which cannot say how far it is."""
    screen = _screen() if rows >= LEAST_ROWS else None
    if screen is None:
        yield
        return
    with screen.status(f"{text}: {rows:,} rows"):
        yield


@contextmanager
def counting(title: str, total: int | None) -> Iterator[Callable[[str], None] | None]:
    """What tells that one thing more is done, and its name; None where nobody looks.

    `total` is None where it is not known.
    """
    screen = None if total == 0 else _screen()
    if screen is None:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=screen, transient=True) as shown:
        task = shown.add_task(title, total=total, now="")
        yield lambda now: shown.update(task, advance=1, now=now)


@dataclass(frozen=True)
class Tasks:
    """How far the tasks of a cluster are; 0 rows: not known yet."""

    done: int
    total: int
    rows: int = 0
    written: int = 0

    def __str__(self) -> str:
        known = ((self.rows, "rows"), (self.written, "written"))
        counts = [f"{count:,} {what}" for count, what in known if count]
        return ", ".join([f"{self.done:,} of {self.total:,} tasks", *counts])


@contextmanager
def tasks(title: str, other: bool = False) -> Iterator[Callable[[Tasks], None] | None]:
    """What shows how far the tasks of a cluster are; None where nobody looks.

    `other` says that something else draws a bar in the terminal. Ours comes with the first state.
    """
    screen = _screen()
    if screen is None or (other and not screen.is_jupyter):
        yield None
        return
    shown = _bar(screen, "{task.fields[told]}")
    bar = shown.add_task(title, told="")
    last = Tasks(0, 0)
    lock, over = threading.Lock(), threading.Event()  # a word may come from another thread, late

    def show(state: Tasks) -> None:
        with lock:
            if not over.is_set():
                draw(state)

    def draw(state: Tasks) -> None:
        nonlocal last
        if state.total != last.total or state.done < last.done:
            shown.reset(bar, total=state.total)  # other stages: their own time
        shown.update(bar, completed=state.done, total=state.total, told=str(state))
        shown.start()
        last = state

    try:
        yield show
    finally:
        with lock:
            over.set()
            shown.stop()


def is_off() -> bool:
    """Whether the environment asks for silence."""
    return os.environ.get(SETTING, "").lower() in ("off", "0", "no")


def is_seen() -> bool:
    """Whether somebody looks: progress is shown in this terminal or notebook."""
    return _screen() is not None


def _screen() -> Console | None:
    if is_off():
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
