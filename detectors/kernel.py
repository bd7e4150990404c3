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

from detectors.vectors import Units, usable_rows
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
            block = np.matmul(scaled, b.dense(start, stop).T)
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


def origin_of(rows: Matrix) -> Reals:
    """The mean row, shape (d,), read block by block; taken off all rows so that differences do not cancel."""
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), _BLOCK):
        total += np.asarray(rows[start : start + _BLOCK]).sum(axis=0, dtype=np.float64)
    return total / len(rows)


def median_gamma(rows: Vectors) -> float:
    """1 / the median squared distance between different rows, the customary bandwidth; shape (n, d), n >= 2.

    Of more than 1,000 rows, 1,000 are drawn by a fixed seed: which ones does not depend on the labels of a
    permutation test, so its level stays exact. Where over half of the pairs are duplicates the median is taken
    over the others; where all rows are equal it is 1.
    """
    rows = usable_rows(rows, least=2)
    if len(rows) > _MEDIAN_ROWS:
        rows = rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:_MEDIAN_ROWS])]
    dense = np.asarray(rows, dtype=np.float64 if rows.dtype == np.float64 else np.float32)
    dense = dense - dense.mean(axis=0)
    lengths = np.einsum("ij,ij->i", dense, dense)
    distances = dense @ dense.T
    distances *= -2.0
    distances += lengths[:, None]
    distances += lengths
    apart = np.maximum(distances[np.triu_indices(len(dense), 1)], 0.0)
    median = float(np.median(apart))
    if median == 0.0 and apart.any():
        median = float(np.median(apart[apart > 0.0]))
    return 1.0 / median if median > 0.0 else 1.0
