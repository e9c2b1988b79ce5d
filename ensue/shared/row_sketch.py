"""How often start rows of some values led to a match, for choosing which to try."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue.automaton.plan import Plan
from ensue.query import condition as c
from ensue.shared.constants import FADE_STARTS

BUCKETS = 1 << 14
BINS = 16


class StartSketch:
    """How often a start row of some values led to a match; fades."""

    def __init__(self) -> None:
        self.tried = np.zeros(BUCKETS)
        self.matched = np.zeros(BUCKETS)
        self._edges: dict[str, NDArray[np.float64]] = {}

    @staticmethod
    def reads(planned: Plan) -> tuple[str, ...]:
        """The columns that tell start rows apart; one may be named twice."""
        return (*planned.query.partition_by, *sorted(_read(planned)))

    def keys(
        self, planned: Plan, columns: Mapping[str, pa.Array], length: int
    ) -> NDArray[np.int64]:
        mixed = np.zeros(length, np.uint64)
        read = _read(planned)
        for name in self.reads(planned):
            values = self._binned(name, columns[name], name in read)
            mixed = (mixed ^ values) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(31)
        return (mixed % np.uint64(BUCKETS)).astype(np.int64)

    def _binned(self, name: str, column: pa.Array, read: bool) -> NDArray[np.uint64]:
        kind = column.type
        if read and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
            if name not in self._edges:
                self._edges[name] = np.unique(np.quantile(numbers, np.arange(1, BINS) / BINS))
            return np.searchsorted(self._edges[name], numbers).astype(np.uint64)
        if pa.types.is_nested(kind):
            texts = [repr(value).encode() for value in column.to_pylist()]
            return np.array([zlib.crc32(text) for text in texts], np.uint64)
        if not _is_bytes(kind):
            column = column.cast(pa.string()).cast(pa.binary())
        encoded = column.cast(pa.binary()).fill_null(b"").dictionary_encode()
        hashes = [zlib.crc32(text) for text in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        found: NDArray[np.uint64] = np.array(hashes or [0], np.uint64)[codes]
        return found

    def rate(self, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        mean = (self.matched.sum() + 0.5) / (self.tried.sum() + 1.0)
        return (self.matched[keys] + mean) / (self.tried[keys] + 1.0)

    def learn(
        self,
        keys: NDArray[np.int64],
        tried: NDArray[np.bool_],
        matches: NDArray[np.bool_] | NDArray[np.int64],
    ) -> None:
        """Of rows with these keys some were tried, and led to matches."""
        self.tried *= FADE_STARTS
        self.matched *= FADE_STARTS
        np.add.at(self.tried, keys[tried], 1.0)
        np.add.at(self.matched, keys[matches > 0], matches[matches > 0])


def _read(planned: Plan) -> set[str]:
    """What conditions on other rows read."""
    return {
        column.name
        for test in planned.tests
        for part in (*test.neighbour, *test.correlated)
        for column in c.walk(part)
        if isinstance(column, c.Column)
    }


def _is_bytes(kind: pa.DataType) -> bool:
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bool(binary or pa.types.is_fixed_size_binary(kind))
