"""Warnings, each kind once per object that a user holds, at the line of the user's own code."""

from __future__ import annotations

import sys
import warnings


class Notices:
    """What one query has been warned of."""

    def __init__(self) -> None:
        self._given: set[type[Warning]] = set()

    def warn(self, warning: Warning) -> None:
        """Show it, unless this query has shown one of its kind."""
        if type(warning) not in self._given:
            self._given.add(type(warning))
            warnings.warn(warning, stacklevel=_outside())


def _outside() -> int:
    """The level of the nearest caller that is not of this library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("ensue."):
        frame, level = frame.f_back, level + 1
    return level
