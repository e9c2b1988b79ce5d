"""Texts to vectors, so that a path can be compared with a question (SHARP §5).

Any `Callable[[list[str]], ndarray]` serves: one row per text. The default hashes words and pieces
of words (so that "writer" is near "written_by"), and weighs them by how few of the graph's labels
have them: no model, no download, some microseconds per text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.paths.kernels.text import hash_texts

Embedder = Callable[[list[str]], NDArray[np.floating]]


class HashingEmbedder:
    """TF-IDF over hashed words and pieces of words; `fit` learns what is common to all texts."""

    def __init__(
        self, size: int = 1024, word_weight: float = 2.0, piece_weight: float = 1.0
    ) -> None:
        if size & (size - 1) or size < 2:
            raise errors.QueryError(
                f"size={size} is not a power of two", remedy="use for example 1024"
            )
        self._size = size
        self._weights = word_weight, piece_weight
        self._rarity = np.ones(size, np.float32)

    def fit(self, texts: Sequence[str]) -> HashingEmbedder:
        """Weigh features by their inverse document frequency in these texts."""
        having = (self._counts(list(texts)) > 0).sum(axis=0)
        self._rarity = np.log((1 + len(texts)) / (1 + having)).astype(np.float32) + np.float32(0.05)
        return self

    def __call__(self, texts: list[str]) -> NDArray[np.floating]:
        return np.log1p(self._counts(texts)) * self._rarity

    def _counts(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self._size), np.float32)
        if texts:
            encoded = pa.array(
                [text.lower().replace("_", " ") for text in texts], pa.large_string()
            )
            _, offset, data = encoded.buffers()
            begin = np.frombuffer(offset, np.int64)[: len(texts) + 1]
            content = np.zeros(1, np.uint8) if data is None else np.frombuffer(data, np.uint8)
            hash_texts(content, begin, vectors, *self._weights)
        return vectors


def unit_vectors(embedder: Embedder, texts: list[str]) -> NDArray[np.float32]:
    """Embedded texts of length one; checks what a user's embedder returns."""
    if not callable(embedder):
        raise errors.QueryError(
            f"the embedder {embedder!r} is not a function", remedy="give one from texts to an array"
        )
    vectors = np.asarray(embedder(texts), np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise errors.QueryError(
            f"the embedder returned an array of shape {vectors.shape} for {len(texts)} texts",
            remedy="return one row per text",
        )
    if not np.isfinite(vectors).all():
        raise errors.DataError(
            "the embedder returned values that are not finite", remedy="check its input texts"
        )
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, np.float32(1e-12))
