"""Kernels that only kernels call: kept without machine code, and linked from what was kept."""

from __future__ import annotations

import numba
import pytest
from numba import int64, njit

from ensue.kernels.arithmetic import checked_sum
from ensue.kernels.linked import Linked

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def test_an_inner_kernel_is_linked_from_what_is_kept_of_it() -> None:
    kernel, types = checked_sum, (int64, int64)
    kernel.compile(types)
    keeping = kernel._cache._impl
    kept = keeping.reduce(kernel.overloads[types])
    assert b"\x7fELF" not in kept[0][2]  # bitcode alone
    found = keeping.rebuild(kernel.targetctx, kept)
    assert isinstance(found.library, Linked)
    assert found.library.get_pointer_to_function(found.fndesc.llvm_func_name) == 0
    kernel.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
    kernel.add_overload(found)

    @njit
    def both(a: int, b: int) -> tuple[int, bool]:
        return kernel(a, b)

    assert both(2, 3) == (5, True)
    assert both(2**62, 2**62)[1] is False
