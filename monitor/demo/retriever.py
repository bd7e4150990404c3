"""An embedded retriever: article passages as vectors in memory, searched by cosine under metadata filters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from monitor.demo.analysis import significant
from monitor.demo.content import Article

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_])")


class Encoder(Protocol):
    """Text to unit vectors."""

    @property
    def name(self) -> str: ...

    def encode(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Shape (len(texts), dimensions)."""
        ...


@dataclass(slots=True, frozen=True)
class Clause:
    """One equality of a metadata filter."""

    field: str
    value: str

    def holds_for(self, metadata: Mapping[str, str]) -> bool:
        return metadata.get(self.field) == self.value


@dataclass(slots=True, frozen=True)
class Hit:
    """A retrieved article; `score` is the cosine of its best passage, and `sentences` are its sentences with theirs."""

    article: Article
    score: float
    sentences: tuple[tuple[float, str], ...]


class ArticleIndex:
    """All passages (the title, then each sentence) of all articles, embedded once.

    An article scores as its best passage, so that a long article is not punished for what else it says.
    """

    def __init__(self, articles: Sequence[Article], encoder: Encoder) -> None:
        self._articles = tuple(articles)
        self._passages = [(article.title, *sentences(article.text)) for article in articles]
        flat = [passage for passages in self._passages for passage in passages]
        self._vectors = encoder.encode([significant(passage) for passage in flat])
        self._bounds = np.cumsum([0, *map(len, self._passages)])

    def search(
        self, query: npt.NDArray[np.float32], clauses: Sequence[Clause], top_k: int = 3
    ) -> tuple[Hit, ...]:
        """The best articles that satisfy every clause, best first; `query` has shape (dimensions,)."""
        scores = self._vectors @ query
        best = np.maximum.reduceat(scores, self._bounds[:-1])
        allowed = [
            i for i, article in enumerate(self._articles)
            if all(clause.holds_for(article.metadata) for clause in clauses)
        ]  # fmt: skip
        allowed.sort(key=lambda i: -best[i])
        return tuple(self._hit(i, scores, float(best[i])) for i in allowed[:top_k])

    def _hit(self, i: int, scores: npt.NDArray[np.float32], score: float) -> Hit:
        first = self._bounds[i] + 1  # the title is a passage too, but no sentence to quote
        own = scores[first : self._bounds[i + 1]]
        quoted = zip(own, self._passages[i][1:], strict=True)
        return Hit(self._articles[i], score, tuple((float(value), text) for value, text in quoted))


def sentences(text: str) -> list[str]:
    """The sentences of an article; a number with a full stop (`am 15. des Monats`) does not end one.

    >>> sentences("Wait 3 days. Until the 15. then call. Done!")
    ['Wait 3 days.', 'Until the 15. then call.', 'Done!']
    """
    pieces: list[str] = []
    for piece in _SENTENCE_END.split(text):
        if pieces and re.search(r"\d\.$", pieces[-1]):
            pieces[-1] += f" {piece}"
        else:
            pieces.append(piece)
    return pieces
