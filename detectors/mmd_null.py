"""The null distribution of MMD^2 without a permutation at each look.

Two answers beside the exact test of `mmd_rolling.py`, neither to be turned into e-values:

Pearson III: the permutation distribution's exact first three moments and the gamma distribution that has them, for
tails beyond the reach of B permutations and for a figure that no seed changes. With K~ U-centred (see `mmd.py`),
s' K~ s sums over pairs of distinct units; a term with k distinct units survives with the probability

    p_k = m (m - 1) ... (m - k + 1) / (N (N - 1) ... (N - k + 1))

that a relabelling puts all k into the window. Rows of K~ add to 0, so that sums over free indices reduce to

    S2 = sum K~_ij^2,  t1 = sum K~_ij^3,  t2 = tr K~^3 = sum over triangles
    E = 0,  Var = 2 S2 (p2 - 2 p3 + p4)
    mu3 = t1 (4 p2 - 24 p3 + 52 p4 - 48 p5 + 16 p6) + 8 t2 (p3 - 3 p4 + 3 p5 - p6)

(the route of Mielke & Berry 2007, "Permutation Methods", and of Song & Chen 2023, "Generalized kernel two-sample
tests", Biometrika, worked out for a zero diagonal; tests check them against all 210 splits of ten points).

Look-up: one null distribution for a fixed reference, prepared once; a look at it costs the statistic alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import gammaincc, log_ndtr

from detectors.kernel import GaussianKernel, Matrix, Points, Pooled, Reals, origin_of
from detectors.mmd import Sample, form_factor, kernel_panel, mmd2_of, quadratic_forms
from detectors.mmd_window import RollingKernel, batches
from detectors.permutations import permutation_labels
from detectors.vectors import TooFewRows, Units


@dataclass(frozen=True, slots=True)
class NullMoments:
    """The permutation distribution of MMD^2: its mean is 0."""

    deviation: float
    skewness: float

    def p_value(self, statistic: float) -> float:
        """The chance of at least `statistic` under the gamma distribution with these moments (Pearson type III).

        0 where the statistic lies beyond the distribution's end, 1 where all relabellings give the same.
        """
        if self.deviation == 0.0:
            return 1.0
        z = statistic / self.deviation
        if abs(self.skewness) < _NORMAL:
            return float(np.exp(log_ndtr(-z)))
        shape = 4.0 / self.skewness**2
        at = max(shape + abs(self.skewness) / self.skewness * z * sqrt(shape), 0.0)
        upper = float(gammaincc(shape, at))
        return upper if self.skewness > 0.0 else 1.0 - upper


_ROUNDING = 16.0
"""Last bits by which the entries of K~ differ from 0 where all relabellings give the same."""
_NORMAL = 1e-4
"""Below this skewness the gamma distribution is the normal one to single precision."""


def null_moments(kernel: Matrix, m: int) -> NullMoments:
    """The moments of MMD^2 over all relabellings with m units in the window, of a kernel (N, N) with a zero diagonal.

    Exact, with 2 N^3 operations; N at least 6 and m between 2 and N - 2.
    """
    size = len(kernel)
    if size < 6 or not 2 <= m <= size - 2:
        raise TooFewRows(f"no moments of {m} units of {size}: at least 6 and 2 on each side")
    sums = kernel.sum(axis=1, dtype=np.float64)
    u = sums / (size - 2) - sums.sum() / (2.0 * (size - 1) * (size - 2))
    centred = (kernel - u[:, None] - u).astype(kernel.dtype)
    np.fill_diagonal(centred, 0.0)
    squares = np.square(centred)
    s2, t1 = (
        float(squares.sum(dtype=np.float64)),
        float(np.einsum("ij,ij->", squares, centred, dtype=np.float64)),
    )
    t2 = float(np.einsum("ij,ij->", centred @ centred, centred, dtype=np.float64))
    p2, p3, p4, p5, p6 = _all_chosen(m, size)
    factor = form_factor(size - m, m)
    variance = 2.0 * s2 * (p2 - 2.0 * p3 + p4)
    third = t1 * (4 * p2 - 24 * p3 + 52 * p4 - 48 * p5 + 16 * p6) + 8 * t2 * (p3 - 3 * p4 + 3 * p5 - p6)
    if s2 <= (_ROUNDING * np.finfo(kernel.dtype).eps * float(np.abs(kernel).max()) * size) ** 2:
        return NullMoments(0.0, 0.0)
    return NullMoments(factor * sqrt(variance), third / variance**1.5)


def pearson_p_value(x: Sample, y: Sample, gamma: float) -> float:
    """The Pearson III p-value of MMD^2 between x and y at one bandwidth; keeps the whole kernel, 4 (n + m)^2 bytes."""
    reference = Units.of(x, least=2)
    current = Units.of(y, reference.dimensions, least=2)
    n, m = len(reference), len(current)
    points = Pooled(reference, current).part(0, n + m)
    matrix = GaussianKernel(gamma, 1).between(points, points)[0]
    np.fill_diagonal(matrix, 0.0)
    total, linear = matrix.sum(dtype=np.float64), matrix[n:].sum(dtype=np.float64)
    within = matrix[n:, n:].sum(dtype=np.float64)
    observed = mmd2_of(np.array([[within]]), np.array([[linear]]), np.array([total]), n, m)
    return null_moments(matrix, m).p_value(float(observed[0, 0]))


class LookupMmd:
    """A rolling window whose MMD^2 is looked up in one null distribution of the reference, prepared once.

    The null: MMD^2 between m random units of the reference and the others, scaled to what n reference units beside
    m others would spread (both variances as in `NullMoments`, of one K~). Level: 5 % on average over references and
    within a few points for each, so that it is for display at every unit, between exact tests. A push of b units
    costs 2 b (n + m) d operations.

    >>> rng = np.random.default_rng(0)
    >>> lookup = LookupMmd(rng.normal(size=(60, 4)), 20, draws=99, seed=1, gamma=0.1)
    >>> lookup.push(rng.normal(3.0, 1.0, size=(20, 4)))
    >>> lookup.p_value()
    0.01
    """

    def __init__(
        self,
        reference: Sample,
        window: int,
        *,
        draws: int = 1000,
        seed: int,
        gamma: float,
        bandwidths: int = 3,
    ) -> None:
        units = Units.of(reference, least=window + 2)
        kernel, origin = GaussianKernel(gamma, bandwidths), origin_of(units.rows)
        points, n = Points(units, origin), len(units)
        labels = permutation_labels(n - window, window, draws, np.random.default_rng(seed))
        forms = quadratic_forms(kernel_panel(kernel, points, np.float32), labels, n)
        total = forms.row_sums.sum(axis=1)
        null = mmd2_of(forms.quadratic, forms.linear, total, n - window, window)
        self._null = np.sort(null * _spread(n, window) / _spread(n - window, window), axis=1)
        order = null.argsort(axis=1).argsort(axis=1)
        self._scaled, self._ranks = np.take_along_axis(self._null, order, axis=1), draws - order
        self._dimensions = units.dimensions
        self._rolling = RollingKernel(kernel, points, origin, forms.shift, total, window)

    def push(self, units: Sample) -> None:
        """Put in units, oldest first. Raises an UnusableVectors and changes nothing where they are not usable."""
        for batch in batches(Units.of(units, self._dimensions), self._rolling.size):
            self._rolling.push(batch)

    def statistics(self) -> Reals:
        """MMD^2 at each bandwidth; the window must be full."""
        return self._rolling.mmd2()

    def p_value(self) -> float | None:
        """The looked-up p-value over all bandwidths, combined as in `p_values`; None until the window is full."""
        if not self._rolling.full:
            return None
        observed, draws = self.statistics(), self._null.shape[1]
        rows = zip(self._null, observed, strict=True)
        smallest = min(draws - int(np.searchsorted(row, value)) + 1 for row, value in rows)
        ranks = (self._ranks + (self._scaled <= observed[:, None])).min(axis=0)
        return (int((ranks <= smallest).sum()) + 1) / (draws + 1)


def _all_chosen(m: int, size: int) -> list[float]:
    """p_2 ... p_6: the chance that k given units are all among m of `size`."""
    chances, chance = [], 1.0
    for k in range(6):
        chance *= max(m - k, 0) / (size - k)
        chances.append(chance)
    return chances[1:]


def _spread(n: int, m: int) -> float:
    """The standard deviation of MMD^2 over relabellings, in units of the root mean square of K~."""
    size = n + m
    p2, p3, p4, _, _ = _all_chosen(m, size)
    return form_factor(n, m) * sqrt(size * (size - 1) * (p2 - 2.0 * p3 + p4))
