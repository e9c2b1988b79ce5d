"""Copies from array to array, as loops.

`target[:] = source` says the same, but Numba compiles the text of an error for shapes that differ
with it: seconds of compiling in each kernel that has one.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ensue.kernels.calls import inner_inlined


@inner_inlined
def copy_row(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Into the first places of `target`, which may be longer."""
    for index in range(source.shape[0]):
        target[index] = source[index]


@inner_inlined
def copy_rows(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Row by row; `target` may have more rows."""
    for row in range(source.shape[0]):
        for index in range(source.shape[1]):
            target[row, index] = source[row, index]
