"""Texts to vectors, so that a path can be compared with a question (SHARP §5).

Any `Callable[[list[str]], ndarray]` serves: one row per text. The default hashes words and pieces
of words (so that "writer" is near "written_by"), and weighs them by how few of the graph's labels
have them: no model, no download, some microseconds per text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ensue import errors
from ensue.operator.turns import Turns
from ensue.paths.kernels.text import hash_texts

Embedder = Callable[[list[str]], NDArray[np.floating]]
_KEPT_TEXTS = 8192  # 32 MB of the default embedder's vectors
_KEPT_EMBEDDERS = 4
_NOTHING = np.zeros((0, 0), np.float32)


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


class Remembered(Turns):
    """An embedder whose vectors of unit length are kept: a graph's labels and kinds of question
    come again."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text; only texts not seen before are embedded."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if len(self._known) + len(new) > _KEPT_TEXTS:
            self._known.clear()
            new = list(dict.fromkeys(texts))
        if new:
            vectors = unit_vectors(self._embedder, new)
            size = len(next(iter(self._known.values()), vectors[0]))
            if vectors.shape[1] != size:
                raise errors.QueryError(
                    f"the embedder returned vectors of {vectors.shape[1]} values, and earlier "
                    f"ones of {size}",
                    remedy="return vectors of one length",
                )
            self._known.update(zip(new, vectors, strict=True))
        return np.stack([self._known[text] for text in texts]) if texts else _NOTHING


class Embedders(Turns):
    """What a graph remembers of the last embedders that it was asked with."""

    def __init__(self) -> None:
        self._kept: dict[object, Remembered] = {}

    def of(self, embedder: Embedder | None, words: Sequence[str]) -> Remembered:
        """Of this one; without one, of hashed words weighed by these, the labels in words."""
        key = ("hashed", *words) if embedder is None else embedder
        if not isinstance(key, Hashable):
            return Remembered(key)
        if key not in self._kept:
            if len(self._kept) >= _KEPT_EMBEDDERS:
                self._kept.pop(next(iter(self._kept)))
            hashed = embedder or HashingEmbedder().fit(words)
            self._kept[key] = Remembered(hashed)
        return self._kept[key]


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
