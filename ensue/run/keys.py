"""Keys as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ensue import errors
from ensue.operator.protocol import Key, key_value


def as_key(key: Any, names: Sequence[str]) -> Key:
    """A key of these partition columns, given as a tuple, or plainly where there is one column."""
    values = tuple(key) if isinstance(key, tuple | list) else (key,)
    if len(values) != len(names):
        raise errors.DataError(
            f"end: {key!r} is not a key of the partition columns {list(names)}",
            remedy="give one value per partition column, as a tuple",
        )
    return tuple(map(key_value, values))
