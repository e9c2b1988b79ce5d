"""What goes through many cases runs a part of them in `./dev test`, and all under `--all`.

`--part N` takes one case in N, by a hash, so that it is the same part in every run and process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar
from zlib import crc32

SETTING = "ENSUE_TESTS_PART"  # how `--part` reaches what is computed when a module is imported
LEAST = 4
T = TypeVar("T")


def part() -> int:
    return int(os.environ.get(SETTING, "1"))


def some(cases: Iterable[T], name: Callable[[T], str] = str, least: int = LEAST) -> list[T]:
    """One case in N, and never fewer than `least`, in the order given."""
    every = list(cases)
    keep = max(least, -(-len(every) // part()))
    if keep >= len(every):
        return every
    hashes = [crc32(name(case).encode()) for case in every]
    chosen = sorted(range(len(every)), key=hashes.__getitem__)[:keep]
    return [every[place] for place in sorted(chosen)]


def examples(count: int) -> int:
    """How many examples Hypothesis draws."""
    return max(count // part(), min(count, 20))
