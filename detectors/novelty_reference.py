"""How far from what is known a query is, and how rare that is: conformal k-nearest-neighbour novelty.

A query's score is its mean distance to the k nearest queries of the reference (k-NN novelty; conformal as in Laxhammar
& Falkman 2010 and Vovk, Gammerman & Shafer 2005, chapter 4). The reference's own scores leave out the whole unit that
a query belongs to, not just itself: the queries of one session are each other's neighbours, and a new session has no
such neighbour. A unit's score is the mean of -ln p over its queries, p their ranks; the unit's p-value is its rank
among the reference's units of comparable size (Mondrian conformal prediction: Vovk et al. 2003): sizes are cut into
ranges that hold enough units each, and a unit is ranked in its own range alone. So a change in how long sessions are is
no novelty, and within the widest range, that of the longest, longer units have less extreme means, never more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from detectors.run_length import Streams
from detectors.sequential import Reals
from detectors.vectors import Units
from detectors.verdict import Vectors

RANGE_UNITS = 100
"""Units that a range of sizes holds at least, where the reference has so many."""
_BLOCK = 512
_TIE = 1e-6
"""Distances this near are the same: they are differences of single-precision numbers around 1."""


class NoveltyReference:
    """The reference's queries, the ranks among them and those of its units. Immutable."""

    def __init__(self, units: Units, neighbours: int) -> None:
        rows = units.rows.astype(np.float32)
        self._origin = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        self._rows = rows - self._origin
        self._lengths = np.einsum("ij,ij->i", self._rows, self._rows)
        sizes = units.row_counts
        owners = np.repeat(np.arange(len(units)), sizes)
        if len(rows) - sizes.max() < 1:
            raise ValueError("a reference of one unit has no neighbours beside it")
        self._neighbours = min(neighbours, int(len(rows) - sizes.max()))
        own = np.concatenate(
            [
                self._distances(rows[begin : begin + _BLOCK], owners[begin : begin + _BLOCK], owners)
                for begin in range(0, len(rows), _BLOCK)
            ]
        )
        self._sorted = np.sort(own)
        self._tops = _ranges(sizes)
        scores = np.add.reduceat(-np.log(self._above(own) / len(own)), np.cumsum(sizes) - sizes) / sizes
        ranges = self._range_of(sizes)
        self._scores = [np.sort(scores[ranges == index]) for index in range(len(self._tops))]
        self.unit_scores: Reals = scores
        """The reference's own scores, (units,)."""
        self.unit_p_values: Reals = np.array(
            [
                _above(self._scores[index], score) / len(self._scores[index])
                for index, score in zip(ranges, scores, strict=True)
            ]
        )
        """The reference's own p-values, each ranked among the units of its range with itself, (units,)."""

    def __len__(self) -> int:
        return len(self.unit_scores)

    def query_p_values(self, rows: Vectors) -> Reals:
        """(x + 1) / (n + 1) for each query, shape (rows,), x how many of the n known ones are as far out."""
        own = self._distances(np.asarray(rows, dtype=np.float32), None, None)
        p: Reals = (self._above(own) + 1.0) / (len(self._sorted) + 1.0)
        return p

    def unit(self, rows: Vectors) -> tuple[float, float, float]:
        """One unit's p-value, its score, and the share of its queries with p at most 0.05."""
        p = self.query_p_values(rows)
        score = float(-np.log(p).mean())
        known = self._scores[int(self._range_of(np.array([len(rows)]))[0])]
        return (_above(known, score) + 1.0) / (len(known) + 1.0), score, float((p <= _FAR).mean())

    def replay(self, rng: np.random.Generator, lanes: int, units: int) -> Streams:
        """Streams of the reference's own p-values in a world that differs from it as the true one does
        (`run_length.py`)."""
        weights = rng.dirichlet(np.ones(len(self)))
        return rng.choice(self.unit_p_values, p=weights, size=(lanes, units))[..., None]

    def _distances(
        self, rows: Vectors, owners: npt.NDArray[np.intp] | None, of: npt.NDArray[np.intp] | None
    ) -> Reals:
        """The mean distance to the nearest rows of other owners, (rows,)."""
        rows = rows - self._origin
        squares = rows @ self._rows.T
        squares *= -2.0
        squares += np.einsum("ij,ij->i", rows, rows)[:, None]
        squares += self._lengths
        if owners is not None and of is not None:
            squares[owners[:, None] == of] = np.inf
        nearest = np.partition(squares, self._neighbours - 1, axis=1)[:, : self._neighbours]
        means: Reals = np.sqrt(np.maximum(np.sort(nearest, axis=1), 0.0)).mean(axis=1, dtype=np.float64)
        return means

    def _above(self, distances: Reals) -> Reals:
        """How many known queries are as far out, (rows,)."""
        counts: Reals = (len(self._sorted) - np.searchsorted(self._sorted, distances - _TIE)).astype(
            np.float64
        )
        return counts

    def _range_of(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        return np.minimum(np.searchsorted(self._tops, sizes), len(self._tops) - 1)


_FAR = 0.05


def _above(sorted_scores: Reals, score: float) -> float:
    return float(len(sorted_scores) - np.searchsorted(sorted_scores, score - _TIE))


def _ranges(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The largest size of each range, ascending; a range ends once it holds enough units and leaves enough.

    >>> _ranges(np.repeat([1, 2, 3, 4], [150, 60, 60, 30])).tolist()
    [1, 4]
    """
    values, counts = np.unique(sizes, return_counts=True)
    tops, held, left = [], 0, int(counts.sum())
    for value, count in zip(values, counts, strict=True):
        held, left = held + int(count), left - int(count)
        if held >= RANGE_UNITS and left >= RANGE_UNITS:
            tops.append(int(value))
            held = 0
    return np.array([*tops, int(values[-1])], dtype=np.int64)
