"""Match maps of RC-ACEP, as the tests of its history read them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def map_bits(words: NDArray[np.uint64]) -> list[int]:
    """Numbers of the bits set in a match map."""
    return [
        64 * index + bit
        for index, word in enumerate(words.tolist())
        for bit in range(64)
        if word >> bit & 1
    ]
