"""CPU and memory of this process and everything below it, read from /proc.

Spark's work happens in a JVM below us and in Python workers below the JVM, so neither
`time.process_time` nor `getrusage` sees it. The time of a process that has ended is in its parent's
account once the parent has waited for it, so sums over the living tree miss nothing that matters.
Standard library only: the peer's own environment imports this file, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    name: str
    cpu: float  # seconds, with those of its children that have ended
    resident: int  # bytes


def tree(root: int | None = None) -> list[Process]:
    """The process and all its descendants that are alive."""
    found = {p.pid: p for p in map(_read, _numbers()) if p is not None}
    below = defaultdict(list)
    for process in found.values():
        below[process.parent].append(process.pid)
    wanted, stack = [], [os.getpid() if root is None else root]
    while stack:
        pid = stack.pop()
        if pid in found:
            wanted.append(found[pid])
        stack.extend(below[pid])
    return wanted


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None  # it ended between the listing and the reading
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    own, ended = (sum(int(value) for value in part) for part in (fields[11:13], fields[13:15]))
    # /proc counts in hundredths of a second; for ourselves there is a finer clock.
    cpu = (time.process_time() if pid == os.getpid() else own / _TICK) + ended / _TICK
    return Process(pid, int(fields[1]), name, cpu, int(fields[21]) * _PAGE)


def cpu_seconds() -> float:
    """CPU used so far by this process and all below it."""
    return sum(process.cpu for process in tree())


def machine_cpu_seconds() -> float:
    """CPU used so far by everything on this machine, kernel included."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, soft, *_ = map(int, fields)
    return (user + nice + system + irq + soft) / _TICK


class Clock:
    """Wall seconds, our CPU seconds and those of everybody else, around a block."""

    wall = cpu = others = 0.0

    def __enter__(self) -> Clock:
        self._start = (time.perf_counter(), cpu_seconds(), machine_cpu_seconds())
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu, machine = self._start
        self.wall = time.perf_counter() - wall
        self.cpu = cpu_seconds() - cpu
        self.others = max(0.0, machine_cpu_seconds() - machine - self.cpu)


class PeakMemory:
    """The most memory that the Python workers below us held, sampled while a block runs."""

    def __init__(self, every: float = 0.05) -> None:
        self.largest = 0  # bytes of one worker
        self.together = 0  # bytes of all workers at one moment; shared pages count each time
        self._every = every
        self._done = threading.Event()

    def __enter__(self) -> PeakMemory:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            sizes = [
                process.resident
                for process in tree()
                if process.pid != os.getpid() and "python" in process.name
            ]
            self.largest = max(self.largest, *sizes, 0)
            self.together = max(self.together, sum(sizes))
