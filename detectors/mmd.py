"""Maximum mean discrepancy: the unbiased statistic and its permutation test.

Gretton et al. (2012), "A kernel two-sample test", JMLR 13, equation 3: for rows x (n of them) and y (m),

    MMD^2 = sum_{i != j} k(x_i, x_j) / (n (n - 1)) + sum_{i != j} k(y_i, y_j) / (m (m - 1)) - 2 mean k(x_i,
    y_j)

with the Gaussian kernel k(a, b) = exp(-gamma |a - b|^2). For a permutation test, let K be the kernel of all N
= n + m rows with a zero diagonal, R its row sums and T its total. The U-centred kernel (Székely & Rizzo 2014,
"Partial distance correlation", in symmetric form)

    K~_ij = K_ij - u_i - u_j,  u_i = R_i / (N - 2) - T / (2 (N - 1) (N - 2)),  zero diagonal

has row sums of zero, and with s_i = 1 where row i is in y, else 0,

    MMD^2 = [1 / (n (n - 1)) + 1 / (m (m - 1)) + 2 / (n m)] s' K~ s

so that B relabellings, the rows of S, cost one matrix product: rowsum((S K~) * S). Rows permuted must be
exchangeable units: where one session asks several questions, make one row of it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from detectors.verdict import Vectors

Labels = npt.NDArray[np.bool_]
"""Shape (permutations, n + m): which rows each permutation puts into the current window; m of them in
each."""
_Matrix = npt.NDArray[np.floating[Any]]
_Reals = npt.NDArray[np.float64]

_LABEL_ROWS = 256
"""Permutations a product: bounds the memory of the products at this many rows of N."""
_LARGEST_SQUARED_NORM = 1e37
"""Of a row; squared distances, at most four times that, still fit single precision."""
_TIE = 1e-4
"""In standard deviations of the permuted statistics: single-precision products are 1e-5 apart where they are
equal."""


class UnusableVectors(ValueError):  # noqa: N818 (says what the rows are)
    """Rows that cannot be compared; `reason` is one of a small set and safe as a metric label."""

    reason: ClassVar[str] = "unusable"


class NonFiniteVectors(UnusableVectors):
    """A row holds NaN or infinity, or is too large for single precision."""

    reason = "non_finite"


class WrongDimension(UnusableVectors):
    """Not two-dimensional, or not as many columns as the rows before."""

    reason = "wrong_dimension"


class TooFewRows(UnusableVectors):
    """Fewer rows than the comparison needs."""

    reason = "too_few_rows"


@dataclass(slots=True, frozen=True)
class MmdTest:
    """One comparison. `p_value` is (x + 1) / (B + 1), x of B permuted statistics at least as large as
    `statistic`."""

    statistic: float
    p_value: float
    gamma: float
    reference_size: int
    current_size: int
    permutations: int


def usable_rows(rows: Vectors, dimensions: int | None = None, least: int = 1) -> _Matrix:
    """The rows as float32 or float64, shape (n, d), checked. Raises an UnusableVectors that says what is
    wrong."""
    array = np.asarray(rows)
    if array.ndim != 2 or array.shape[1] == 0:
        raise WrongDimension(f"vectors come as (rows, dimensions), not with shape {array.shape}")
    if dimensions is not None and array.shape[1] != dimensions:
        raise WrongDimension(f"vectors have {array.shape[1]} dimensions, not {dimensions}")
    if array.shape[0] < least:
        raise TooFewRows(f"{array.shape[0]} rows are fewer than {least}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.square(array, dtype=np.float32, casting="same_kind").sum(axis=1)
    usable = single < _LARGEST_SQUARED_NORM
    if not usable.all():
        raise NonFiniteVectors(
            f"row {int(np.argmin(usable))} is not finite or too large for single precision"
        )
    return array


def median_gamma(rows: Vectors) -> float:
    """1 / the median squared distance between different rows, the customary bandwidth; shape (n, d), n >= 2.

    Where over half of the pairs are duplicates the median is taken over the others; where all rows are equal
    it is 1.
    """
    rows = usable_rows(rows, least=2)
    return _gamma_of(_squared_distances(rows - rows.mean(axis=0), None))


def mmd2(x: Vectors, y: Vectors, gamma: float | None = None) -> float:
    """The unbiased MMD^2 between x (n, d) and y (m, d), n and m at least 2; it can be below 0.

    The kernel has the precision of the rows (float32 or float64). `gamma` is by default that of the pooled
    rows.

    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> mmd2(x, x + 10.0) > 0.5
    True
    """
    kernel, n, _ = _pooled_kernel(x, y, gamma)
    return _statistic(kernel, n)


def permutation_test(
    x: Vectors,
    y: Vectors,
    *,
    permutations: int = 1000,
    seed: int,
    gamma: float | None = None,
    labels: Labels | None = None,
) -> MmdTest:
    """Test whether x (n, d) and y (m, d) have one distribution; exact at every level for exchangeable rows.

    `gamma` is by default that of the pooled rows, which relabelling leaves as it is. `labels` are drawn from
    `seed` unless they are given.
    """
    kernel, n, gamma = _pooled_kernel(x, y, gamma)
    if labels is None:
        labels = permutation_labels(n, len(kernel) - n, permutations, np.random.default_rng(seed))
    return _test(kernel, n, gamma, labels)


def permutation_labels(n: int, m: int, permutations: int, rng: np.random.Generator) -> Labels:
    """Random relabellings, shape (permutations, n + m), each with m rows in the current window."""
    labels = np.zeros((permutations, n + m), dtype=np.bool_)
    drawn = np.argpartition(rng.random((permutations, n + m), dtype=np.float32), m - 1, axis=1)[:, :m]
    np.put_along_axis(labels, drawn, True, axis=1)
    return labels


class MmdReference:
    """Reference rows whose kernel is computed once, for many windows against the same reference.

    `gamma` is by default that of the reference rows alone, fixed for all windows. A relabelling would have
    given another reference and a slightly other gamma, so the level is not exact as in `permutation_test`, but
    a median over n (n - 1) / 2 distances hardly moves: 4.8 % of 20,000 unshifted windows of hashed CLINC150
    queries had p <= 5 % (n = 150, m = 40), with a standard deviation of 3.3 points from reference to reference.

    Memory is 4 n^2 bytes for float32 rows.
    """

    def __init__(self, rows: Vectors, gamma: float | None = None) -> None:
        self.rows = usable_rows(rows, least=2)
        self._origin = self.rows.mean(axis=0)
        self._centred = self.rows - self._origin
        distances = _squared_distances(self._centred, None)
        self.gamma = _gamma_of(distances) if gamma is None else gamma
        self._kernel = _kernel_in_place(distances, self.gamma)
        np.fill_diagonal(self._kernel, 0.0)

    @property
    def size(self) -> int:
        return int(self.rows.shape[0])

    @property
    def dimensions(self) -> int:
        return int(self.rows.shape[1])

    def mmd2(self, current: Vectors) -> float:
        """The unbiased MMD^2 between the reference and the current rows, shape (m, d), m >= 2."""
        return _statistic(self._kernel_with(current), self.size)

    def test(self, current: Vectors, labels: Labels) -> MmdTest:
        """The permutation test of the current rows, shape (m, d), with the given relabellings of all rows."""
        return _test(self._kernel_with(current), self.size, self.gamma, labels)

    def _kernel_with(self, current: Vectors) -> _Matrix:
        rows = (
            usable_rows(current, self.dimensions, least=2).astype(self.rows.dtype, copy=False) - self._origin
        )
        n, total = self.size, self.size + len(rows)
        kernel = np.empty((total, total), dtype=self._kernel.dtype)
        kernel[:n, :n] = self._kernel
        kernel[n:, n:] = _kernel_in_place(_squared_distances(rows, None), self.gamma)
        kernel[n:, :n] = _kernel_in_place(_squared_distances(rows, self._centred), self.gamma)
        kernel[:n, n:] = kernel[n:, :n].T
        np.fill_diagonal(kernel, 0.0)
        return kernel


def permuted_mmd2(kernel: _Matrix, labels: Labels) -> _Reals:
    """MMD^2 of each relabelling, shape (permutations,), of a kernel (N, N) with a zero diagonal."""
    total = len(kernel)
    m = int(labels[0].sum())
    n = total - m
    centred = _u_centred(kernel).astype(np.float32, copy=False)
    forms: _Reals = np.empty(len(labels))
    for start in range(0, len(labels), _LABEL_ROWS):
        chosen = labels[start : start + _LABEL_ROWS].astype(np.float32)
        product = chosen @ centred
        product *= chosen
        forms[start : start + len(chosen)] = product.sum(axis=1, dtype=np.float64)
    forms *= 1.0 / (n * (n - 1)) + 1.0 / (m * (m - 1)) + 2.0 / (n * m)
    return forms


def _u_centred(kernel: _Matrix) -> _Matrix:
    total = len(kernel)
    row_sums = kernel.sum(axis=1, dtype=np.float64)
    u = row_sums / (total - 2) - row_sums.sum() / (2.0 * (total - 1) * (total - 2))
    shift = u.astype(kernel.dtype)
    centred: _Matrix = kernel - shift[:, None]
    centred -= shift[None, :]
    np.fill_diagonal(centred, 0.0)
    return centred


def _test(kernel: _Matrix, n: int, gamma: float, labels: Labels) -> MmdTest:
    m = len(kernel) - n
    if labels.ndim != 2 or labels.shape[1] != n + m or not (labels.sum(axis=1) == m).all():
        raise ValueError(f"each relabelling must choose {m} of {n + m} rows")
    statistic = _statistic(kernel, n)
    permuted = permuted_mmd2(kernel, labels)
    exceeding = int((permuted >= statistic - _TIE * permuted.std()).sum())
    return MmdTest(statistic, (exceeding + 1) / (len(labels) + 1), gamma, n, m, len(labels))


def _statistic(kernel: _Matrix, n: int) -> float:
    m = len(kernel) - n
    within_x = kernel[:n, :n].sum(dtype=np.float64) / (n * (n - 1))
    within_y = kernel[n:, n:].sum(dtype=np.float64) / (m * (m - 1))
    return float(within_x + within_y - 2.0 * kernel[n:, :n].sum(dtype=np.float64) / (n * m))


def _pooled_kernel(x: Vectors, y: Vectors, gamma: float | None) -> tuple[_Matrix, int, float]:
    """The kernel of all rows with a zero diagonal, the number of reference rows, and gamma."""
    reference = usable_rows(x, least=2)
    current = usable_rows(y, reference.shape[1], least=2)
    rows = np.concatenate([reference, current])
    distances = _squared_distances(rows - rows.mean(axis=0), None)
    gamma = _gamma_of(distances) if gamma is None else gamma
    kernel = _kernel_in_place(distances, gamma)
    np.fill_diagonal(kernel, 0.0)
    return kernel, len(reference), gamma


def _squared_distances(x: _Matrix, y: _Matrix | None) -> _Matrix:
    """Shape (len(x), len(y)); of x with itself where y is None. Rows come centred, or the difference would
    cancel."""
    other = x if y is None else y
    distances: _Matrix = x @ other.T
    distances *= -2.0
    distances += np.einsum("ij,ij->i", x, x)[:, None]
    distances += np.einsum("ij,ij->i", other, other)[None, :]
    np.maximum(distances, 0.0, out=distances)
    if y is None:
        np.fill_diagonal(distances, 0.0)
    return distances


def _gamma_of(distances: _Matrix) -> float:
    # Both of a pair's two entries are there, which leaves the median as it is.
    apart = distances[~np.eye(len(distances), dtype=np.bool_)]
    median = float(np.median(apart))
    if median == 0.0 and apart.any():
        median = float(np.median(apart[apart > 0.0]))
    return 1.0 / median if median > 0.0 else 1.0


def _kernel_in_place(distances: _Matrix, gamma: float) -> _Matrix:
    distances *= -gamma
    np.exp(distances, out=distances)
    return distances
