"""The Gaussian kernel between units, at one bandwidth and its halves.

k(a, b) = exp(-gamma |a - b|^2) at gamma, 2 gamma, 4 gamma: each is the square of the one before. The kernel
between two units is the mean over their pairs of rows, which is the inner product of their mean embeddings
(Muandet et al. 2012, "Learning from distributions via support measure machines", equation 3, linear): units
weigh the same whatever their sizes, and sizes do not change where units are permuted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from detectors.vectors import TooFewRows, Units, usable_rows
from detectors.verdict import Vectors

Reals = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.floating[Any]]

_BLOCK = 1024
"""Rows of the right side at a time: what is computed of them stays in the processor's cache."""
_MEDIAN_ROWS = 1000
"""Rows whose pairs the median is taken over; half a million pairs give it to three digits."""


class Points:
    """Units ready for the kernel: rows with the origin taken off and their squared lengths.

    In-memory float32 and float64 rows are copied, so that later changes of them do no harm; float16 and mapped rows
    stay where they are and are converted block by block whenever they are used.
    """

    __slots__ = ("_lazy", "_origin", "_rows", "lengths", "sizes")

    def __init__(self, units: Units, origin: Reals) -> None:
        rows = units.rows
        self._lazy = isinstance(rows, np.memmap) or rows.dtype == np.float16
        self._origin: Matrix = origin.astype(np.float64 if rows.dtype == np.float64 else np.float32)
        self._rows: Matrix = rows if self._lazy else rows - self._origin
        self.sizes = units.sizes
        self.lengths: Matrix = np.empty(len(rows), dtype=self._origin.dtype)
        for start in range(0, len(rows), _BLOCK):
            block = self.dense(start, start + _BLOCK)
            np.einsum("ij,ij->i", block, block, out=self.lengths[start : start + _BLOCK])

    def __len__(self) -> int:
        return len(self._rows) if self.sizes is None else len(self.sizes)

    @property
    def rows(self) -> Matrix:
        """The rows as they are held."""
        return self._rows

    def dense(self, start: int, stop: int) -> Matrix:
        """Rows start to stop with the origin taken off, float32 or float64."""
        rows = self._rows[start:stop]
        return np.asarray(rows, dtype=self._origin.dtype) - self._origin if self._lazy else rows

    def part(self, start: int, stop: int) -> Self:
        """Units start to stop, as views."""
        first, last = start, stop
        part = object.__new__(type(self))
        part.sizes = None
        if self.sizes is not None:
            first, last = int(self.sizes[:start].sum()), int(self.sizes[:stop].sum())
            part.sizes = self.sizes[start:stop]
        part._lazy, part._origin = self._lazy, self._origin
        part._rows, part.lengths = self._rows[first:last], self.lengths[first:last]
        return part

    @classmethod
    def ready(cls, rows: Matrix, lengths: Matrix, sizes: npt.NDArray[np.int64] | None) -> Self:
        """Points from rows whose origin is already taken off; nothing is copied."""
        points = object.__new__(cls)
        points._lazy, points._rows, points.lengths, points.sizes = False, rows, lengths, sizes
        points._origin = np.zeros(0, dtype=rows.dtype)
        return points


@dataclass(frozen=True, slots=True)
class GaussianKernel:
    """exp(-gamma 2^i |a - b|^2) for i below `bandwidths`."""

    gamma: float
    bandwidths: int = 3

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma < np.inf or self.bandwidths < 1:
            raise ValueError("a kernel needs a finite gamma above 0 and at least one bandwidth")

    @property
    def gammas(self) -> tuple[float, ...]:
        return tuple(self.gamma * 2.0**i for i in range(self.bandwidths))

    def between(self, a: Points, b: Points) -> Matrix:
        """The kernel between units, shape (bandwidths, len(a), len(b)). `a` is taken whole: keep it small."""
        left = a.dense(0, len(a.lengths))
        scaled = left * left.dtype.type(2.0 * self.gamma)
        constant = (a.lengths * left.dtype.type(-self.gamma))[:, None]
        pairs = np.empty((self.bandwidths, len(left), len(b.lengths)), dtype=left.dtype)
        for start in range(0, len(b.lengths), _BLOCK):
            stop = min(start + _BLOCK, len(b.lengths))
            # The long side first: products with few columns are faster than those with few rows.
            block = (b.dense(start, stop) @ scaled.T).T
            block += constant
            block -= b.lengths[start:stop] * left.dtype.type(self.gamma)
            np.minimum(block, 0.0, out=block)
            np.exp(block, out=pairs[0, :, start:stop])
            for i in range(1, self.bandwidths):
                np.square(pairs[i - 1, :, start:stop], out=pairs[i, :, start:stop])
        return _unit_means(_unit_means(pairs, b.sizes, 2), a.sizes, 1)


def _unit_means(pairs: Matrix, sizes: npt.NDArray[np.int64] | None, axis: int) -> Matrix:
    if sizes is None:
        return pairs
    starts = np.cumsum(sizes) - sizes
    sums: Matrix = np.add.reduceat(pairs, starts, axis=axis)
    sums /= sizes.astype(sums.dtype) if axis == 2 else sizes.astype(sums.dtype)[:, None]
    return sums


class Pooled:
    """Two samples in a row, with one origin; neither is copied into one array with the other."""

    def __init__(self, reference: Units, current: Units) -> None:
        rows = (reference.rows, current.rows)
        dtype = np.float64 if np.float64 in (rows[0].dtype, rows[1].dtype) else np.float32
        self.dtype: np.dtype[np.floating[Any]] = np.dtype(dtype)
        origin = (origin_of(rows[0]) * len(rows[0]) + origin_of(rows[1]) * len(rows[1])) / sum(map(len, rows))
        self._reference, self._current = Points(reference, origin), Points(current, origin)

    def __len__(self) -> int:
        return len(self._reference) + len(self._current)

    def part(self, start: int, stop: int) -> Points:
        """Units start to stop."""
        n = len(self._reference)
        if stop <= n:
            return self._reference.part(start, stop)
        if start >= n:
            return self._current.part(start - n, stop - n)
        parts = self._reference.part(start, n), self._current.part(0, stop - n)
        dense = np.concatenate([part.dense(0, len(part.lengths)) for part in parts])
        lengths = np.concatenate([part.lengths for part in parts]).astype(dense.dtype)
        if all(part.sizes is None for part in parts):
            return Points.ready(dense, lengths, None)
        sizes = [np.ones(len(part), dtype=np.int64) if part.sizes is None else part.sizes for part in parts]
        return Points.ready(dense, lengths, np.concatenate(sizes))


def origin_of(rows: Matrix) -> Reals:
    """The mean row, shape (d,), read block by block; taken off all rows so that differences do not cancel."""
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), _BLOCK):
        total += np.asarray(rows[start : start + _BLOCK]).sum(axis=0, dtype=np.float64)
    return total / len(rows)


def median_gamma(*samples: Vectors) -> float:
    """1 / the median squared distance between different rows, the customary bandwidth; each sample (n, d), together
    at least 2 rows.

    Of more than 1,000 rows, 1,000 are drawn by a fixed seed: which ones does not depend on the labels of a
    permutation test, so its level stays exact. Where over half of the pairs are duplicates the median is taken
    over the others; where all rows are equal it is 1.
    """
    checked = [usable_rows(rows) for rows in samples]
    ends = np.cumsum([len(rows) for rows in checked])
    if ends[-1] < 2:
        raise TooFewRows("one row has no distances")
    drawn = np.arange(ends[-1])
    if len(drawn) > _MEDIAN_ROWS:
        drawn = np.sort(np.random.default_rng(0).permutation(len(drawn))[:_MEDIAN_ROWS])
    parts = [
        rows[drawn[(drawn >= end - len(rows)) & (drawn < end)] - (end - len(rows))]
        for rows, end in zip(checked, ends, strict=True)
    ]
    dense = np.concatenate(parts)
    dense = dense.astype(np.float32) if dense.dtype == np.float16 else dense
    return _gamma_of(dense - dense.mean(axis=0))


def _gamma_of(rows: Matrix) -> float:
    lengths = np.einsum("ij,ij->i", rows, rows)
    distances = rows @ rows.T
    distances *= -2.0
    distances += lengths[:, None]
    distances += lengths
    pairs = np.concatenate([row[i + 1 :] for i, row in enumerate(distances)])
    apart = np.maximum(pairs, 0.0, out=pairs)
    median = float(np.median(apart))
    if median == 0.0 and apart.any():
        median = float(np.median(apart[apart > 0.0]))
    return 1.0 / median if median > 0.0 else 1.0
