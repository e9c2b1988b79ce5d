"""Numba compares its compiler flags faster: an eighth of the time that kernels take to compile.

All flags of a class have one hash, so each lookup of an overload compares them with many others, by
two dictionaries of every option. Here the options that were set come first.
"""

from __future__ import annotations

from typing import Any

from numba.core.targetconfig import TargetConfig

_EVERY_OPTION = TargetConfig.__eq__
_HASHES: dict[type, int] = {}


def _equal(self: Any, other: object) -> Any:
    if self is other:
        return True
    if type(self) is type(other) and self._values.keys() == other._values.keys():  # type: ignore[attr-defined]
        return self._values == other._values  # type: ignore[attr-defined]
    return _EVERY_OPTION(self, other)


def _hash(self: Any) -> int:
    """Numba's own, which is that of the names of the options."""
    kind = type(self)
    if kind not in _HASHES:
        _HASHES[kind] = hash(tuple(sorted(self.options)))
    return _HASHES[kind]


def compare_quickly() -> None:
    TargetConfig.__eq__ = _equal
    TargetConfig.__hash__ = _hash
