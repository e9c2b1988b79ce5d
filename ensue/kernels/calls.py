"""How kernels that are called per event are compiled: without counting references to arrays.

Such a function gets all arrays from its caller, which keeps them, and makes none; counting was most
of the time of a visit (docs/decisions/0015). A kernel that makes arrays and is called from one that
does not count has to say so (`allocating`), or it inherits the setting.
"""

from __future__ import annotations

from typing import Any

from numba import njit

_without: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_with: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": True}
borrowing = njit(**_without)
inlined = njit(**_without, forceinline=True)  # a call with many arrays costs more than it does
allocating = njit(**_with)
