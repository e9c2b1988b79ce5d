"""What an operator means on numbers: one definition for every machine that runs conditions.

Whole numbers are checked: a function that can leave 64 bits also says whether it did not. Numba
takes signed sums and products as never overflowing, so they are taken unsigned, where they wrap;
and the processor traps on -2**63 divided by -1, so that pair never reaches it. NaN is Spark's:
equal to itself and greater than anything else. Division wants a divisor that is not 0.
"""

from __future__ import annotations

import numpy as np

from ensue.kernels.calls import inner_inlined

LEAST = -(2**63)
_EXACT = 1 << 53  # whole numbers up to here are floats as they stand


@inner_inlined
def wrapped_sum(a: int, b: int) -> int:
    """a + b modulo 2**64."""
    return np.int64(np.uint64(a) + np.uint64(b))  # type: ignore[return-value]


@inner_inlined
def wrapped_difference(a: int, b: int) -> int:
    return np.int64(np.uint64(a) - np.uint64(b))  # type: ignore[return-value]


@inner_inlined
def checked_sum(a: int, b: int) -> tuple[int, bool]:
    """a + b, and whether it fits."""
    total = wrapped_sum(a, b)
    return total, ((a ^ total) & (b ^ total)) >= 0


@inner_inlined
def checked_difference(a: int, b: int) -> tuple[int, bool]:
    total = wrapped_difference(a, b)
    return total, ((a ^ b) & (a ^ total)) >= 0


@inner_inlined
def checked_product(a: int, b: int) -> tuple[int, bool]:
    product = np.int64(np.uint64(a) * np.uint64(b))
    size = abs(float(a) * float(b))
    if size < 9.2e18:
        return product, True  # type: ignore[return-value]
    if size > 9.3e18 or a == -1 or b == -1:
        return product, size < 9.3e18 and LEAST not in (a, b)  # type: ignore[return-value]
    return product, product // b == a  # type: ignore[return-value]


@inner_inlined
def checked_negation(a: int) -> tuple[int, bool]:
    return wrapped_difference(0, a), a != LEAST


@inner_inlined
def checked_magnitude(a: int) -> tuple[int, bool]:
    return (wrapped_difference(0, a) if a < 0 else a), a != LEAST


@inner_inlined
def checked_quotient(a: int, b: int) -> tuple[int, bool]:
    """a / b cut to a whole number."""
    if b == -1:
        return wrapped_difference(0, a), a != LEAST
    whole = a // b
    if whole < 0 and whole * b != a:
        whole += 1
    return whole, True


@inner_inlined
def remainder(a: int, b: int) -> int:
    """The rest of a / b, with the sign of a."""
    if b == -1:
        return 0
    rest = a % b
    if rest != 0 and (a < 0) != (b < 0):
        rest -= b
    return rest


@inner_inlined
def fits_bits(a: int, bits: int) -> bool:
    """Whether a narrower integer of so many bits holds the number."""
    top = np.int64(1) << np.int64(bits - 1)
    return bool(-top <= a < top)


@inner_inlined
def single(a: float) -> float:
    """Rounded to 32 bits; a sum, product or quotient of such numbers is then what they give."""
    return float(np.float32(a))


@inner_inlined
def unscaled_is_exact(a: int) -> bool:
    """Whether a decimal's digits, divided by a power of ten, are rounded once only."""
    return -_EXACT <= a <= _EXACT


@inner_inlined
def power(a: float, b: float) -> float:
    """Java's: no power of 1 or -1 is known where the exponent is not finite."""
    if b != b or (abs(a) == 1.0 and abs(b) == np.inf):
        return np.nan
    return a**b


@inner_inlined
def compare_floats(a: float, b: float) -> int:
    """-1, 0 or 1."""
    if a != a:
        return 0 if b != b else 1
    if b != b:
        return -1
    if a < b:
        return -1
    return 1 if a > b else 0
