"""Maximum mean discrepancy: the unbiased statistic and its permutation test.

Gretton et al. (2012), "A kernel two-sample test", JMLR 13, equation 3: for units x (n of them) and y (m),

    MMD^2 = sum_{i != j} k(x_i, x_j) / (n (n - 1)) + sum_{i != j} k(y_i, y_j) / (m (m - 1)) - 2 mean k(x_i,
    y_j)

For a permutation test, let K be the kernel of all N = n + m units with a zero diagonal, R its row sums and T its
total. The U-centred kernel (Székely & Rizzo 2014, "Partial distance correlation", in symmetric form)

    K~_ij = K_ij - u_i - u_j,  u_i = R_i / (N - 2) - T / (2 (N - 1) (N - 2)),  zero diagonal

has row sums of zero, and with s_i = 1 where unit i is in y, else 0,

    MMD^2 = c s' K~ s,  c = 1 / (n (n - 1)) + 1 / (m (m - 1)) + 2 / (n m),  s' K~ s = s' K s - 2 (m - 1) s' u

so that B relabellings, the rows of S, cost one product: rowsum((S K) * S). K is symmetric: only its lower blocks
are computed and multiplied, one panel of columns after the other, and none is kept. A constant taken off K leaves
MMD^2 as it is and makes the sums small, so that single-precision products lose nothing that matters.

What is permuted must be exchangeable: where one session asks several questions, it is one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from detectors.kernel import GaussianKernel, Matrix, Points, Pooled, Reals, median_gamma
from detectors.permutations import Labels, checked_labels, p_values, permutation_labels
from detectors.vectors import Units
from detectors.verdict import Vectors

Sample = Vectors | Sequence[Vectors] | Units
"""Rows (n, d), each a unit; or one array a unit; or units."""
Panel = Callable[[int, int], Matrix]
"""Columns start to stop of the kernel from row start on: shape (bandwidths, N - start, stop - start), the caller's."""

_TILE = 128
"""Columns a panel."""
_LABEL_ROWS = 128
"""Permutations a product: bounds the memory of the labels in single precision."""


@dataclass(slots=True, frozen=True)
class MmdTest:
    """One comparison. `statistic` is that of `gamma`, the widest bandwidth; `p_value` is over all bandwidths, and
    `p_values` are those of gamma, 2 gamma, 4 gamma ... each."""

    statistic: float
    p_value: float
    gamma: float
    reference_size: int
    current_size: int
    permutations: int
    p_values: tuple[float, ...] = ()


@dataclass(slots=True, frozen=True)
class Forms:
    """What one pass over a kernel gives, per bandwidth: `quadratic` s'Ks and `linear` s'K1, both (bandwidths, B),
    `row_sums` K1 (bandwidths, N), the sum `within` the last m units (bandwidths,), and the constant `shift` that was
    taken off K."""

    quadratic: Reals
    linear: Reals
    row_sums: Reals
    within: Reals
    shift: Reals


def mmd2(x: Sample, y: Sample, gamma: float | None = None) -> float:
    """The unbiased MMD^2 between x and y, at least 2 units each; it can be below 0.

    The kernel has the precision of the rows (single or double). `gamma` is by default that of the pooled rows.

    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> mmd2(x, x + 10.0) > 0.5
    True
    """
    none = np.empty((0, len(Units.of(x)) + len(Units.of(y))), dtype=np.bool_)
    statistics, _, _ = _compare(x, y, gamma, 1, lambda n, m: none)
    return float(statistics[0])


def permutation_test(
    x: Sample,
    y: Sample,
    *,
    permutations: int = 1000,
    seed: int,
    gamma: float | None = None,
    bandwidths: int = 3,
    labels: Labels | None = None,
) -> MmdTest:
    """Test whether the units of x and y have one distribution; exact at every level for exchangeable units.

    `gamma` is by default that of the pooled rows, which relabelling leaves as it is; the kernel is tried at gamma,
    2 gamma ... `bandwidths` in all. `labels` are drawn from `seed` unless they are given.
    """

    def drawn(n: int, m: int) -> Labels:
        if labels is not None:
            return checked_labels(labels, n, m)
        return permutation_labels(n, m, permutations, np.random.default_rng(seed))

    statistics, permuted, kernel = _compare(x, y, gamma, bandwidths, drawn)
    p, single = p_values(statistics, permuted)
    n, m = len(Units.of(x)), len(Units.of(y))
    return MmdTest(float(statistics[0]), p, kernel.gamma, n, m, permuted.shape[1], single)


def permuted_mmd2(kernel: Matrix, labels: Labels) -> Reals:
    """MMD^2 of each relabelling, shape (permutations,), of a kernel (N, N) with a zero diagonal."""
    m = int(labels[0].sum())
    forms = quadratic_forms(
        lambda start, stop: kernel[None, start:, start:stop].copy(), labels, len(kernel) - m
    )
    statistics = mmd2_of(forms.quadratic, forms.linear, forms.row_sums.sum(axis=1), len(kernel) - m, m)
    null: Reals = statistics[0]
    return null


def mmd2_of(quadratic: Reals, linear: Reals, total: Reals, n: int, m: int) -> Reals:
    """MMD^2 from s'Ks and s'K1, both (bandwidths, B), and K's total (bandwidths,)."""
    size = n + m
    s_u = linear / (size - 2) - m * total[:, None] / (2.0 * (size - 1) * (size - 2))
    statistics: Reals = form_factor(n, m) * (quadratic - 2.0 * (m - 1) * s_u)
    return statistics


def form_factor(n: int, m: int) -> float:
    """What s'K~s is to be multiplied with to give MMD^2."""
    return 1.0 / (n * (n - 1)) + 1.0 / (m * (m - 1)) + 2.0 / (n * m)


def kernel_panel(kernel: GaussianKernel, points: Pooled | Points, dtype: npt.DTypeLike) -> Panel:
    """The kernel between all points, a panel of columns at a time, computed a tile at a time."""

    def panel(start: int, stop: int) -> Matrix:
        size, columns = len(points), points.part(start, stop)
        block = np.empty((kernel.bandwidths, size - start, stop - start), dtype=dtype)
        for first in range(start, size, _TILE):
            last = min(first + _TILE, size)
            block[:, first - start : last - start] = kernel.between(points.part(first, last), columns)
        return block

    return panel


def quadratic_forms(panel: Panel, labels: Labels | Matrix, n: int, shift: Reals | None = None) -> Forms:
    """One pass over a kernel of N units, of which those from `n` on are the current ones; labels (B, N)."""
    count, size = labels.shape
    quadratic = linear = row_sums = within = np.zeros(0)
    for start in range(0, size, _TILE):
        stop = min(start + _TILE, size)
        block = panel(start, stop)
        own = block[:, : stop - start]
        if start == 0:
            shift = block.mean(axis=(1, 2), dtype=np.float64).astype(block.dtype) if shift is None else shift
            quadratic, row_sums = np.zeros((len(block), count)), np.zeros((len(block), size))
            within = np.zeros(len(block))
        block -= np.asarray(shift, dtype=block.dtype)[:, None, None]
        own[:, np.arange(stop - start), np.arange(stop - start)] = 0.0
        row_sums[:, start:stop] += block.sum(axis=1, dtype=np.float64)
        row_sums[:, stop:] += block[:, stop - start :].sum(axis=2, dtype=np.float64)
        within += _within(block, n - start, stop - start)
        own *= 0.5
        _add_products(quadratic, block, labels[:, start:])
        del block, own  # before the next panel is made
    linear = np.stack([_products_with(labels, sums) for sums in row_sums])
    return Forms(2.0 * quadratic, linear, row_sums, within, np.asarray(shift, dtype=np.float64))


def _within(block: Matrix, first: int, columns: int) -> Reals:
    """What a panel holds of the sum over pairs of current units, whose first row and column in it is `first`."""
    first = max(first, 0)
    current = block[:, first:, first:]
    total: Reals = current.sum(axis=(1, 2), dtype=np.float64)
    total += current[:, max(columns - first, 0) :].sum(axis=(1, 2), dtype=np.float64)
    return total


def _add_products(quadratic: Reals, block: Matrix, labels: Labels | Matrix) -> None:
    single = block.astype(np.float32, copy=False)
    for start in range(0, len(labels), _LABEL_ROWS):
        chosen = labels[start : start + _LABEL_ROWS].astype(np.float32, copy=False)
        for i, kernel in enumerate(single):
            product = chosen @ kernel
            product *= chosen[:, : kernel.shape[1]]
            quadratic[i, start : start + len(chosen)] += product.sum(axis=1, dtype=np.float64)


def _products_with(labels: Labels | Matrix, sums: Reals) -> Reals:
    # A few at a time: in double precision the labels are eight times as large.
    parts = [labels[at : at + 16].astype(np.float64) @ sums for at in range(0, len(labels), 16)]
    return np.concatenate(parts) if parts else np.empty(0)


def _compare(
    x: Sample, y: Sample, gamma: float | None, bandwidths: int, drawn: Callable[[int, int], Labels]
) -> tuple[Reals, Reals, GaussianKernel]:
    """MMD^2 as observed (bandwidths,) and relabelled (bandwidths, B), and the kernel."""
    reference = Units.of(x, least=2)
    current = Units.of(y, reference.dimensions, least=2)
    n, m = len(reference), len(current)
    gamma = median_gamma(reference.rows, current.rows) if gamma is None else gamma
    kernel, pooled = GaussianKernel(gamma, bandwidths), Pooled(reference, current)
    forms = quadratic_forms(kernel_panel(kernel, pooled, pooled.dtype), drawn(n, m), n)
    total = forms.row_sums.sum(axis=1)
    linear = forms.row_sums[:, n:].sum(axis=1)
    observed = mmd2_of(forms.within[:, None], linear[:, None], total, n, m)[:, 0]
    return observed, mmd2_of(forms.quadratic, forms.linear, total, n, m), kernel
