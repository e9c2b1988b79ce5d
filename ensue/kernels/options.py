"""Numba's options of a compilation, compared without asking each of them.

For every call of a function of NumPy that Numba types, it compares the options at hand with those
that it compiled the function for, and reads two dozen properties of both: a tenth of compiling.
This gives the same values from the dictionary that the properties read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba.core.targetconfig import TargetConfig


@cache
def _defaults(declared: Any) -> dict[str, Any]:
    return {name: option.default for name, option in declared.options.items()}


def _values(self: Any) -> dict[str, Any]:
    declared: Any = type(self)
    return _defaults(declared) | self._values


if "_values" in getattr(TargetConfig, "__slots__", ()):
    TargetConfig.values = _values  # type: ignore[method-assign, unused-ignore]
