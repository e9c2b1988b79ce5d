"""Ways in which a stored state is damaged."""

from __future__ import annotations

import random


def damaged(blob: bytes, seed: str, cuts: int, flips: int) -> list[bytes]:
    """The state cut at random places and in its checksum, and with single bits flipped."""
    chance = random.Random(seed)
    found = [blob[: chance.randrange(len(blob))] for _ in range(cuts)]
    found += [blob[:-14], blob[:-1]]  # the checksum itself is cut
    places = [chance.randrange(len(blob)) for _ in range(flips)]
    for place in [*places, *range(len(blob) - 16, len(blob))]:
        flipped = bytearray(blob)
        flipped[place] ^= 1 << chance.randrange(8)
        found.append(bytes(flipped))
    return found
