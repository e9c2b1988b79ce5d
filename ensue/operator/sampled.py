"""Recall from a random sample of starts, each with its matches that were found and that there are.

Starts are drawn independently, each with a probability that is known before anything is seen of
it, and weigh its inverse. So the sums are unbiased whatever the stream is like, and their variance
comes from the drawing alone. The recall is their ratio; its interval is Wilson's for as many
independent matches as have that variance, at most `ALIKE` for each start (of many matches of one
start, all may be lost together), with Student's quantile for few starts.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

ALIKE = 4.0
FEW = 8.0  # starts by which a heavy tail may differ from what was seen of it
_Z = 1.959964


@dataclass
class Sample:
    """Sums over the starts drawn that have matches: of weights w, found f and there t."""

    found: float = 0.0  # w f
    there: float = 0.0  # w t
    squares: float = 0.0  # (w t)²
    found_found: float = 0.0  # w (w - 1) f²
    found_there: float = 0.0  # w (w - 1) f t
    there_there: float = 0.0  # w (w - 1) t²

    def add(self, found: int, there: int, rate: float) -> None:
        weight = 1.0 / rate
        self.found += weight * found
        self.there += weight * there
        self.squares += (weight * there) ** 2
        spread = weight * (weight - 1.0)
        self.found_found += spread * found * found
        self.found_there += spread * found * there
        self.there_there += spread * there * there

    def plus(self, other: Sample) -> Sample:
        return Sample(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def recall(self, sure: int, rest: int) -> tuple[float | None, float | None, float | None]:
        """Where `sure` matches are all that there were of their starts, and `rest` are others.

        The estimate and its interval; None where nothing is known of the rest.
        """
        if not self.there:
            return None, None, None
        share = min(1.0, self.found / self.there)
        low, high = self._interval(share)
        if not sure + rest:
            return 0.0, 0.0, 0.0
        # Of the starts beyond doubt all were found; of the others this share.
        shares = [max(part, 1e-12) for part in (share, low, high)]
        if not self.found:  # none of the sample, though there may be some: by their number
            shares[0] = max(rest, 0.5) / (max(rest, 0.5) + self.there)
        told = [(sure + rest) / (sure + max(rest, 0.5) / part) for part in shares]
        return min(1.0, told[0]), min(told[0], told[1]), min(1.0, max(told[0], told[2]))

    def _interval(self, share: float) -> tuple[float, float]:
        spread = (
            self.found_found - 2 * share * self.found_there + share * share * self.there_there
        ) / self.there**2
        if self.there_there <= 0.0:  # every start was drawn
            return share, share
        starts = self.there**2 / self.squares
        # Of all-or-nothing starts; `there_there` knows what part of them was not drawn.
        whole = self.there**2 / self.there_there
        size = ALIKE * whole
        if spread > 0.0:
            size = min(size, share * (1.0 - share) / spread)
        size = max(size * starts / (starts + FEW), 1e-9)
        z = _quantile(starts - 1.0)
        middle = (share + z * z / (2 * size)) / (1 + z * z / size)
        half = z / (1 + z * z / size)
        half *= math.sqrt(max(0.0, share * (1 - share) / size) + z * z / (4 * size * size))
        return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _quantile(freedom: float) -> float:
    """Student's, for 95 %, by the expansion of Cornish and Fisher."""
    freedom = max(freedom, 1.0)
    first = (_Z**3 + _Z) / (4 * freedom)
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)
    return _Z + first + second
