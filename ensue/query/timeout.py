"""`timeout=`: how long a call may run, as users say it."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ensue import errors
from ensue.query.duration import exact_duration
from ensue.query.options import known_options
from ensue.stopping import watch

Timeout = str | float | timedelta  # "30 s", or seconds

P = ParamSpec("P")
T = TypeVar("T")


def seconds_of(timeout: Timeout | None) -> float | None:
    """Seconds of a duration text, a `timedelta` or a number; None: no limit."""
    if timeout is None:
        return None
    seconds = math.nan
    if isinstance(timeout, timedelta):
        seconds = timeout.total_seconds()
    elif isinstance(timeout, str):
        microseconds = exact_duration(timeout)
        seconds = math.nan if microseconds is None else float(microseconds) / 1e6
    elif isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        seconds = float(timeout)
    if not 0 < seconds < math.inf:
        raise errors.QueryError(
            f"timeout={timeout!r} is not a positive duration",
            remedy='write a text such as "30 s", a timedelta or a number of seconds',
        )
    return seconds


def timed(run: Callable[P, T]) -> Callable[P, T]:
    """A call that Ctrl-C stops while kernels run, and its `timeout=` when the time is over."""
    checked = known_options(run)

    @wraps(run)
    def call(*args: P.args, **named: P.kwargs) -> T:
        timeout: Any = named.get("timeout")
        if timeout is not None and any(getattr(a, "isStreaming", False) for a in args[:3]):
            raise errors.UnsupportedError(
                "timeout= ends a run over a table, and a stream has no end",
                remedy="leave timeout out; a budget bounds the cost per event",
            )
        with watch(seconds_of(timeout)):
            return checked(*args, **named)

    return call
