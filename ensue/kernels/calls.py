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

# What only kernels call needs no way in from Python, which unboxes every array: with many of them
# that is most of what is compiled. Never to be called from Python.
_inner: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = njit(**_without, **_inner)
inner_inlined = njit(**_without, **_inner, forceinline=True)
inner_allocating = njit(**_with, **_inner)
