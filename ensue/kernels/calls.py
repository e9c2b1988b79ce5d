"""How kernels that are called per event are compiled: without counting references to arrays.

Such a function gets all arrays from its caller, which keeps them, and makes none; counting was most
of the time of a visit (docs/decisions/0015). A kernel that makes arrays and is called from one that
does not count has to say so (`allocating`), or it inherits the setting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import njit, types

# `linked` overrides methods of Numba that are not documented: it has run with these versions.
# Others make machine code of every kernel, with the same answers.
LINKED = (0, 61) <= numba.version_info.short <= (0, 68)
if LINKED:
    from ensue.kernels.linked import Cache, Inner

_njit: Any = njit
_without_value: Any = types.unliteral


def with_options(**options: Any) -> Callable[[Any], Any]:
    """The decorator with these options, for arguments of any value.

    Where a kernel passes the literal 0 to another one, Numba compiles that for the literal and,
    a step of its inference later, for the type: twice.
    """
    # Nobody asks for the way in from C, which would be compiled as well.
    linked = LINKED and options.get("no_cpython_wrapper")
    if linked:
        options["pipeline_class"] = Inner
    decorate = _njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)

    def decorated(function: Any) -> Any:
        kernel = decorate(function)
        template = getattr(kernel, "get_call_template", None)
        if template is not None:  # Numba is on
            if linked:
                kernel._cache = Cache(function)

            def of_types(given: Any, named: Any) -> Any:
                plain = {name: _without_value(kind) for name, kind in named.items()}
                return template([_without_value(kind) for kind in given], plain)

            kernel.get_call_template = of_types
        return kernel

    return decorated


borrowing = with_options(_nrt=False)
inlined = with_options(
    _nrt=False, forceinline=True
)  # a call with many arrays costs more than it does
allocating = with_options(_nrt=True)

# What only kernels call needs no way in from Python, which unboxes every array: with many of them
# that is most of what is compiled. Never to be called from Python.
inner = with_options(_nrt=False, no_cpython_wrapper=True)
inner_inlined = with_options(_nrt=False, no_cpython_wrapper=True, forceinline=True)
inner_allocating = with_options(_nrt=True, no_cpython_wrapper=True)
