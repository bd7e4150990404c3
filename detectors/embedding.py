"""Query embeddings for services that log none.

The built-in encoder hashes words and character n-grams (feature hashing: Weinberger et al. 2009, "Feature
Hashing for Large Scale Multitask Learning"; subwords as in Bojanowski et al. 2017, "Enriching Word Vectors
with Subword Information"). It sees which words and word parts a query uses, in any language, and nothing of
their meaning: synonyms are as far apart as strangers.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import log, sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

_WORD = re.compile(r"\w{1,32}")
_DENSE_SCRIPT = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0003ffff]")
"""Thai, Lao, Burmese, Khmer, and the East Asian scripts: few characters a word, mostly no spaces between."""
_NGRAM = 4
_LONG_WORD = 8
_CACHED_WORDS = 20_000

_Features = tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]


class EncoderUnavailable(ValueError):  # noqa: N818 (says what it is)
    """An encoder that is elsewhere did not give vectors; says why. Nothing is known of it then."""


class QueryEncoder(Protocol):
    """Turns queries into vectors. Vectors of differently named encoders are never compared."""

    @property
    def name(self) -> str:
        """Names the encoder and its version: `hashed-ngram-1`. The same name gives the same vectors for
        ever."""
        ...

    @property
    def dimensions(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimensions). Raises EncoderUnavailable where it is elsewhere and fails."""
        ...


class HashedNgramEncoder:
    """Signed hashing of words and their character n-grams; rows of length 1, the same in every process.

    A text's vector is the sum over its different words of (1 + ln count) times the word's vector: half of it
    the whole word, half its 4-grams with the word's borders marked; in scripts without spaces between words,
    characters and pairs of them. Words below eight characters count for less in proportion, since frequent
    words are short in every language (Zipf's law of abbreviation) and say little about the topic. A text
    without a letter or digit gives a row of zeros. Only the first `max_characters` of a text are read, so that
    a hostile query costs no more than a long one.

    >>> vectors = HashedNgramEncoder().encode(["reset my password", "password reset", "weather in Rome", ""])
    >>> bool(vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]), float(vectors[3] @ vectors[3])
    (True, 0.0)
    """

    def __init__(self, dimensions: int = 256, max_characters: int = 4096) -> None:
        if dimensions < 1 or max_characters < 1:
            raise ValueError("an encoder needs at least one dimension and one character")
        self.dimensions = dimensions
        self.max_characters = max_characters
        self._features = lru_cache(maxsize=_CACHED_WORDS)(self._hash_word)

    @property
    def name(self) -> str:
        """`hashed-ngram-1`, with the dimensions where they are not 256."""
        return "hashed-ngram-1" if self.dimensions == 256 else f"hashed-ngram-1-{self.dimensions}"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimensions), float32, each of length 1 or zero."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._encode_one(text)
        return vectors

    def _encode_one(self, text: str) -> npt.NDArray[np.float64]:
        folded = unicodedata.normalize("NFKC", text[: self.max_characters]).casefold()
        words = Counter(_WORD.findall(folded))
        if not words:
            return np.zeros(self.dimensions)
        features = [self._features(word) for word in words]
        weights = [
            (1.0 + log(count)) * signs for count, (_, signs) in zip(words.values(), features, strict=True)
        ]
        places = np.concatenate([indices for indices, _ in features])
        vector = np.bincount(places, np.concatenate(weights), self.dimensions).astype(np.float64, copy=False)
        length = float(np.linalg.norm(vector))
        if length > 0.0:
            vector /= length
        return vector

    def _hash_word(self, word: str) -> _Features:
        """Where the word's features stand and their signed sizes, both of shape (features,)."""
        wholes, parts = _parts(word)
        hashes = [_hash(feature) for feature in (*wholes, *parts)]
        signs = np.array([1.0 if number % 2 else -1.0 for number in hashes])
        signs[: len(wholes)] /= sqrt(len(wholes))
        signs[len(wholes) :] /= sqrt(max(len(parts), 1))
        indices = np.array([number // 2 % self.dimensions for number in hashes], dtype=np.intp)
        return indices, signs * (min(len(word), _LONG_WORD) / _LONG_WORD)


def _parts(word: str) -> tuple[list[str], list[str]]:
    """What names the word (itself, or its characters where one character is a word) and what names its parts."""
    if _DENSE_SCRIPT.search(word):
        return [f"w:{character}" for character in word], [
            f"c:{word[at : at + 2]}" for at in range(len(word) - 1)
        ]
    padded = f"<{word}>"
    return [f"w:{word}"], [f"c:{padded[at : at + _NGRAM]}" for at in range(len(padded) - _NGRAM + 1)]


def _hash(feature: str) -> int:
    # Lone surrogates are legal in JSON strings and must not stop a query from being embedded.
    encoded = feature.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little")
