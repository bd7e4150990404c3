"""Random relabellings of units, and p-values of them with an exact level."""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.bool_]
"""Shape (permutations, n + m): which units each permutation puts into the current window; m of them in each."""
_Reals = npt.NDArray[np.float64]

_DRAWN = 16
"""Permutations drawn at a time."""
_TIE = 1e-4
"""In root mean squares of the permuted statistics, whose mean is 0: single-precision products are 1e-5 apart where
they are equal."""


def permutation_labels(n: int, m: int, permutations: int, rng: np.random.Generator) -> Labels:
    """Random relabellings, shape (permutations, n + m), each with m units in the current window."""
    labels = np.zeros((permutations, n + m), dtype=np.bool_)
    for start in range(0, permutations, _DRAWN):
        part = labels[start : start + _DRAWN]
        drawn = np.argpartition(rng.random(part.shape, dtype=np.float32), m - 1, axis=1)[:, :m]
        np.put_along_axis(part, drawn, True, axis=1)
    return labels


def checked_labels(labels: Labels, n: int, m: int) -> Labels:
    """The labels, if each chooses m of n + m units. Raises ValueError."""
    if labels.ndim != 2 or labels.shape[1] != n + m or not (labels.sum(axis=1) == m).all():
        raise ValueError(f"each relabelling must choose {m} of {n + m} rows")
    return labels


def p_values(observed: _Reals, permuted: _Reals) -> tuple[float, tuple[float, ...]]:
    """The p-value over all bandwidths and that of each; observed (bandwidths,), permuted (bandwidths, B).

    Of one bandwidth: (x + 1) / (B + 1), x of B permuted statistics at least as large as the observed one. Over
    several: each of the B + 1 labellings, the observed one among them, has its smallest p-value over the
    bandwidths, and the answer is the share of labellings whose smallest is no larger than the observed one's
    (Westfall & Young 1993, min-p, in the manner of Schrab et al. 2023, JMLR 24, "MMD aggregated two-sample test").
    As labellings are exchangeable where nothing moved, the level is exact, and the same permutations serve all.

    >>> p_values(np.array([3.0]), np.array([[1.0, 2.0, 3.0]]))
    (0.5, (0.5,))
    """
    if len(observed) == 1:
        exceeding = int(np.count_nonzero(permuted[0] >= observed[0] - _tolerance(permuted[0])))
        p = (exceeding + 1) / (permuted.shape[1] + 1)
        return p, (p,)
    shares = np.stack([_upper_shares(x, t) for x, t in zip(observed, permuted, strict=True)])
    single = tuple(float(share) for share in shares[:, 0])
    smallest = shares.min(axis=0)
    return float((smallest <= smallest[0]).mean()), single


def _upper_shares(observed: float, permuted: _Reals) -> _Reals:
    """For the observed and each permuted statistic, the share of all B + 1 at least as large; shape (B + 1,)."""
    every = np.concatenate([[observed], permuted])
    below = np.searchsorted(np.sort(every), every - _tolerance(permuted), side="left")
    shares: _Reals = (len(every) - below) / len(every)
    return shares


def _tolerance(permuted: _Reals) -> float:
    return _TIE * sqrt(float(permuted @ permuted) / max(len(permuted), 1))
