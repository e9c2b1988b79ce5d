"""What was tried, told while it goes on, so that whoever ends the run loses no count."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.processes import tree

Say = Callable[[str], None]
COUNTED: Counter[str] = Counter()  # what trials do besides: texts, states, kills


def say(line: str) -> None:
    print(line, flush=True)


class Report:
    """Counts by family; every minute one line with what the run holds of the machine."""

    def __init__(self, seed: int, folder: Path, say: Say = say) -> None:
        self.seed, self.folder, self.say = seed, folder, say
        self.trials: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.failed: list[str] = []
        self.cut: list[str] = []
        self.last_seed = seed
        self._begun = self._told = time.monotonic()

    def fail(self, name: str, seed: int) -> None:
        self.failed.append(f"{name} {seed}")
        self.say(f"again: ./dev chaos --only {name} --seed {seed} --trials 1")

    def minute(self) -> None:
        """Once a minute, one line."""
        if time.monotonic() - self._told >= 60:
            self._told = time.monotonic()
            self.say(f"{(self._told - self._begun) / 60:.0f} min: {self._counts()}; {self._held()}")

    def end(self, why: str) -> None:
        """The whole report; `why` the run ended."""
        for name, count in [*self.trials.items(), *sorted(COUNTED.items())]:
            self.say(f"{count:>9,}  {name}")
        for name, count in self.left_out.items():
            self.say(f"{count:>9,}  left out: {name}")
        for title, names in (("failed", self.failed), ("cut", self.cut)):
            for name in names:
                self.say(f"{title}: {name}")
        self.say(f"{why} after {(time.monotonic() - self._begun) / 60:.1f} min; {self._held()}")
        self.say(f"{self._counts()}, seeds {self.seed} to {self.last_seed}")

    def _counts(self) -> str:
        cut = f", {len(self.cut)} cut" if self.cut else ""
        return f"{self.trials.total():,} trials, {len(self.failed)} failed{cut}"

    def _held(self) -> str:
        processes = tree()
        own = next((p.resident for p in processes if p.pid == os.getpid()), 0)
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        size = sum(path.lstat().st_size for path in files if path.exists())
        return (
            f"{own / 1e6:,.0f} MB here, {sum(p.resident for p in processes) / 1e6:,.0f} MB in "
            f"{len(processes)} processes, {size / 1e6:,.0f} MB in {len(files)} files"
        )
