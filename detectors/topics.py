"""Topics found without labels: clusters of the queries of both windows, named by the words that set them apart.

Clusters are made of the pooled rows and never see which window a row is from. So relabelling units leaves them as
they are, and a count test on them keeps its level; clusters of the reference alone would put whatever is new into
the cluster of something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.text import words

_RESTARTS = 4
_FITTED_ROWS = 5000
"""Rows that centroids are fitted to at most; all rows are assigned."""
_NAMING_WORDS = 3
_TELLING = 0.5
"""A word that tells less than this share of what the first one tells is left out of a name."""
_SHORTEST_WORD = 3
"""Characters; shorter words name nothing in languages with spaces."""
_PRIOR = 0.5
"""Added to each count, so that one occurrence is no name."""


def topics_of(
    rows: npt.NDArray[np.floating[Any]], count: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The topic of each row, shape (n,), numbered from 0: k-means of the rows at unit length (as cosine similarity
    sees them), `count` topics at most; empty ones are left out."""
    from scipy.cluster.vq import kmeans, vq  # slow to load, for those that explain

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = (rows / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float64)
    fitted = unit if len(unit) <= _FITTED_ROWS else unit[rng.choice(len(unit), _FITTED_ROWS, replace=False)]
    distinct = len(np.unique(fitted, axis=0))
    centroids, _ = kmeans(fitted, min(count, distinct), iter=_RESTARTS, rng=rng)
    nearest, _ = vq(unit, centroids)
    topics: npt.NDArray[np.int64] = nearest.astype(np.int64)
    return topics


def name_of(texts: Sequence[str], others: Sequence[str]) -> str:
    """The words that the texts have and the others have not, by log odds of the share of texts that hold them.

    >>> name_of(["book a flight", "cheap flight to rome"], ["my card was declined", "book a table"])
    'flight'
    """
    inside, outside = _texts_with(texts), _texts_with(others)
    scored = {
        word: log(
            (count + _PRIOR)
            / (len(texts) - count + _PRIOR)
            * (len(others) - outside[word] + _PRIOR)
            / (outside[word] + _PRIOR)
        )
        * count
        for word, count in inside.items()
        if count >= min(2, len(texts)) and count / len(texts) > outside[word] / max(len(others), 1)
    }
    best = sorted(scored, key=lambda word: (-scored[word], word))[:_NAMING_WORDS]
    return ", ".join(word for word in best if scored[word] >= _TELLING * scored[best[0]])


def _texts_with(texts: Sequence[str]) -> Counter[str]:
    return Counter(word for text in texts for word in set(words(text.lower())) if len(word) >= _SHORTEST_WORD)
