"""Counts of any size as text: Python's own conversion refuses more than 4,300 digits.

That limit guards readers of strangers' texts against slow conversions. These numbers are Ensue's
own, and `Decimal` converts them quickly and exactly.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

SHOWN = 60  # digits in a message


def digits(number: int) -> str:
    return str(Decimal(int(number)))  # `int`: of NumPy too


def number_of(text: str) -> int:
    return int(Decimal(text))


def ratio(value: Fraction) -> str:
    """As `str`; `ratio_of` reads it."""
    whole = digits(value.numerator)
    return whole if value.denominator == 1 else f"{whole}/{digits(value.denominator)}"


def ratio_of(text: str) -> Fraction:
    above, _, below = text.partition("/")
    return Fraction(number_of(above), number_of(below or "1"))


def told(number: int) -> str:
    """For a message: all digits, or how many there are."""
    size = Decimal(int(number)).adjusted() + 1
    return f"{number:,}" if size <= SHOWN else f"more than 10^{size - 1:,}"
