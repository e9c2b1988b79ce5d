"""Values of a column as magnitudes of 64-bit limbs in one unit, for sums of many keys at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ensue.summary.reading import Scale

MOST_LIMBS = 8
_MANTISSA = 53


@dataclass(frozen=True)
class Limbs:
    """value = ± limbs / denominator; `scale` turns integers of the unit back."""

    magnitude: NDArray[np.uint64]  # rows × limbs, least significant first
    negative: NDArray[np.bool_]
    scale: Scale


def limbs_of(found: pa.Array) -> Limbs | None:
    """The values, null as 0; None where they are too far apart for a few limbs."""
    kind = found.type
    if pa.types.is_floating(kind):
        return _floats(pc.fill_null(found.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))
    if pa.types.is_decimal128(kind):
        return _decimals(found)
    if pa.types.is_uint64(kind):
        plain = pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
        return Limbs(plain.reshape(-1, 1), np.zeros(len(plain), np.bool_), _whole())
    if pa.types.is_integer(kind):
        signed = pc.fill_null(found.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        magnitude = np.abs(signed).view(np.uint64)  # −2⁶³ stays as it is, and reads as 2⁶³
        return Limbs(magnitude.reshape(-1, 1), signed < 0, _whole())
    return None


def _whole() -> Scale:
    return Scale(1, [], False, None)


def _floats(plain: NDArray[np.float64]) -> Limbs | None:
    fraction, exponent = np.frexp(np.abs(np.where(np.isfinite(plain), plain, 0.0)))
    mantissa = (fraction * 2.0**_MANTISSA).astype(np.uint64)
    # Trailing zeros of the mantissas are taken out, so that amounts like 0.5 stay short.
    zeros = np.zeros(len(plain), np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        even = (mantissa != 0) & (mantissa & np.uint64((1 << step) - 1) == 0)
        mantissa = np.where(even, mantissa >> np.uint64(step), mantissa)
        zeros += np.where(even, step, 0)
    power = np.where(mantissa == 0, 0, exponent.astype(np.int64) - _MANTISSA + zeros)
    unit = min(int(power.min(initial=0)), 0)
    shift = power - unit
    wide = (int(shift.max(initial=0)) + _MANTISSA) // 64 + 1
    if wide > MOST_LIMBS:
        return None
    limbs = np.zeros((len(plain), wide + 1), np.uint64)
    word, bit = shift // 64, (shift % 64).astype(np.uint64)
    rows = np.arange(len(plain))
    limbs[rows, word] = mantissa << bit
    carried = np.where(bit > 0, mantissa >> (np.uint64(64) - np.maximum(bit, np.uint64(1))), 0)
    limbs[rows, word + 1] = carried
    return Limbs(limbs[:, :wide], plain < 0, Scale(1 << -unit, [], True, None))


def _decimals(found: pa.Array) -> Limbs:
    zero = pa.scalar(0, pa.int64()).cast(found.type)
    plain = pc.fill_null(found, zero)
    words: NDArray[Any] = np.frombuffer(plain.buffers()[1], np.uint64).reshape(-1, 2)
    words = words[plain.offset : plain.offset + len(plain)].copy()
    negative = words[:, 1] >> np.uint64(63) != 0
    # The two's complement of what is below 0.
    flipped = ~words[negative]
    flipped[:, 0] += np.uint64(1)
    flipped[:, 1] += (flipped[:, 0] == 0).astype(np.uint64)
    words[negative] = flipped
    decimals = found.type.scale
    return Limbs(words, negative, Scale(10**decimals, [], False, decimals))
