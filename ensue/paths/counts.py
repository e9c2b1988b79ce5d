"""Exact numbers of paths of any size, from counts modulo primes.

The kernel counts modulo one prime below 2^62, and roughly in floating point. Where the rough count
says that the number may be larger, it is counted again modulo further primes and put together by
the Chinese remainder theorem: each prime adds 62 bits and costs one more pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ensue import errors

# The largest primes below 2^62: sums of two residues stay below 2^63. Found by Miller-Rabin;
# tests/unit/test_paths_bad_input.py checks them.
_OFFSETS = (57, 87, 117, 143, 153, 167, 171, 195, 203, 273, 287, 317, 443, 483, 495, 575)
PRIMES = tuple(2**62 - offset for offset in _OFFSETS)
MAX_STEPS = 1_000_000_000  # of all passes, where there are more than a few
FEW = 16
_SLACK_BITS = 2  # rough counts are good to far more than a factor of four

Counter = Callable[[np.uint64], tuple[NDArray[np.uint64], NDArray[np.float64]]]


def exact_counts(
    count: Counter, bits_bound: float, work: Callable[[], int] = int
) -> list[list[int]]:
    """Counts as Python integers; `bits_bound` holds where they are too large for floats.

    `work` says how many steps the last pass took.
    """
    residues, rough = count(np.uint64(PRIMES[0]))
    largest = float(rough.max()) if rough.size else 0.0
    bits = math.log2(largest) if 0 < largest < math.inf else (bits_bound if largest else 0.0)
    needed = math.ceil((bits + _SLACK_BITS) / 61.99)
    if work() * needed > MAX_STEPS and needed > FEW:
        raise errors.LimitError(
            f"counting these paths takes {work() * needed:,} steps, since there may be as many as "
            f"2^{math.ceil(bits):,}; the limit is {MAX_STEPS:,}",
            remedy="set a smaller max_hops, ask for end points, or raise "
            "ensue.paths.counts.MAX_STEPS",
        )
    combined = [[int(value) for value in row] for row in residues]
    modulus = PRIMES[0]
    for prime in _primes(needed)[1:]:
        residues, _ = count(np.uint64(prime))
        inverse = pow(modulus, -1, prime)
        for row, found in zip(combined, residues, strict=True):
            for column, value in enumerate(found):
                step = (int(value) - row[column]) * inverse % prime
                row[column] += modulus * step
        modulus *= prime
    return combined


def _primes(count: int) -> list[int]:
    """As many primes, from the largest below 2^62 downwards."""
    found = list(PRIMES[:count])
    candidate = PRIMES[-1] - 2
    while len(found) < count:
        if is_prime(candidate):
            found.append(candidate)
        candidate -= 2
    return found


def is_prime(number: int) -> bool:
    """Miller-Rabin with the bases that decide every number below 2^64."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if number < 2 or any(number % base == 0 for base in bases):
        return number in bases
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        value = pow(base, odd, number)
        if value in (1, number - 1):
            continue
        for _ in range(twos - 1):
            value = value * value % number
            if value == number - 1:
                break
        else:
            return False
    return True
