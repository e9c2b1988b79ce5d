"""Compiling kernels, or loading them from Numba's disk cache, before their first use.

On a fresh install that takes some seconds, once per machine: later processes, and Spark's workers
on this host, load the cached machine code. Without it every worker of a fresh machine would compile
them by itself, at the same time. A message says so when it takes longer than 2 seconds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

PATIENCE = 2.0
MESSAGE = "ensue: compiling its kernels, once per machine (the result is cached on disk) ..."
_P = ParamSpec("_P")


def announced(run: Callable[_P, None]) -> Callable[_P, None]:
    """`run`, with the message where it takes long."""

    @wraps(run)
    def timed(*args: _P.args, **kwargs: _P.kwargs) -> None:
        timer = threading.Timer(PATIENCE, lambda: print(MESSAGE, file=sys.stderr, flush=True))
        timer.daemon = True
        timer.start()
        try:
            run(*args, **kwargs)
        finally:
            timer.cancel()

    return timed
