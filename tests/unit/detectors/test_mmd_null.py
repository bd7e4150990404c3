"""The permutation-free nulls against enumeration, many permutations, and their own level."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import pearson3

from detectors.kernel import median_gamma
from detectors.mmd import mmd2, permutation_test, permuted_mmd2
from detectors.mmd_null import LookupMmd, NullMoments, null_moments, pearson_p_value
from detectors.vectors import TooFewRows, WrongDimension

Rows = npt.NDArray[Any]


def kernel_of(points: Rows, gamma: float) -> Rows:
    kernel = np.exp(-gamma * ((points[:, None] - points[None]) ** 2).sum(axis=2))
    np.fill_diagonal(kernel, 0.0)
    return kernel


@pytest.mark.parametrize("m", [2, 3, 4, 5, 8])
def test_moments_are_those_of_all_splits_of_ten_points(m: int) -> None:
    points = np.random.RandomState(0).randn(10, 3)
    points[6:] += 1.0
    kernel = kernel_of(points, median_gamma(points))
    splits = list(combinations(range(10), m))
    labels = np.zeros((len(splits), 10), dtype=np.bool_)
    for row, chosen in zip(labels, splits, strict=True):
        row[list(chosen)] = True
    # float64, by the definition: the engine's own products are single precision
    weights = labels.astype(float)
    within = np.einsum("bi,ij,bj->b", weights, kernel, weights)
    across = np.einsum("bi,ij,bj->b", weights, kernel, 1 - weights)
    others = np.einsum("bi,ij,bj->b", 1 - weights, kernel, 1 - weights)
    n = 10 - m
    null = within / (m * (m - 1)) + others / (n * (n - 1)) - 2 * across / (n * m)
    moments = null_moments(kernel, m)
    assert null.mean() == pytest.approx(0.0, abs=1e-12)
    assert moments.deviation == pytest.approx(null.std(), rel=1e-10)
    assert moments.skewness == pytest.approx((null**3).mean() / null.std() ** 3, rel=1e-9)
    if m == 4:
        assert moments.skewness == pytest.approx(0.69514, abs=5e-6)


@pytest.mark.parametrize("skewness", [1.3, 0.2, -0.7, 0.0])
def test_the_gamma_tail_is_that_of_pearson_type_three(skewness: float) -> None:
    moments = NullMoments(2.0, skewness)
    for z in (-5.0, -1.0, 0.0, 0.8, 3.0, 6.0):
        assert moments.p_value(2.0 * z) == pytest.approx(pearson3.sf(z, skewness), rel=1e-6, abs=1e-15)


def test_it_agrees_with_many_permutations_and_goes_beyond_them() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 5))
    gamma = median_gamma(x)
    for shift in (0.0, 0.25):
        y = rng.normal(shift, 1.0, size=(40, 5))
        by_permutation = permutation_test(
            x, y, permutations=20_000, seed=0, gamma=gamma, bandwidths=1
        ).p_value
        assert pearson_p_value(x, y, gamma) == pytest.approx(by_permutation, rel=0.15, abs=0.003)
    assert 0.0 <= pearson_p_value(x, rng.normal(1.5, 1.0, size=(40, 5)), gamma) < 1e-8


def test_units_enter_the_tail_as_they_enter_the_test() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(30, 4)), rng.normal(0.3, 1.0, size=(12, 4))
    doubled = [np.repeat(row[None], 2, axis=0) for row in y]
    assert pearson_p_value(x, doubled, 0.2) == pytest.approx(pearson_p_value(x, y, 0.2), rel=1e-9)


def test_equal_rows_have_no_tail() -> None:
    assert pearson_p_value(np.ones((8, 2)), np.ones((4, 2)), 1.0) == 1.0


def test_too_few_units_have_no_moments() -> None:
    with pytest.raises(TooFewRows):
        null_moments(np.zeros((5, 5)), 2)
    with pytest.raises(TooFewRows):
        null_moments(np.zeros((9, 9)), 8)


def test_the_looked_up_statistic_is_the_statistic() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 4)).astype(np.float32), rng.normal(0.2, 1.0, size=(50, 4)).astype(np.float32)
    lookup = LookupMmd(x, 20, draws=199, seed=0, gamma=0.2)
    for start in range(0, 50, 7):
        lookup.push(y[start : start + 7])
        assert (lookup.p_value() is None) == (start + 7 < 20)
    expected = [mmd2(x, y[-20:], gamma) for gamma in (0.2, 0.4, 0.8)]
    assert lookup.statistics() == pytest.approx(np.array(expected), abs=5e-8)
    with pytest.raises(WrongDimension):
        lookup.push(np.ones((1, 5)))


@pytest.mark.parametrize("bandwidths", [1, 3])
def test_the_looked_up_level_holds_on_average_over_references(bandwidths: int) -> None:
    """50 references, 20 windows each; references differ by a few points, hence the wide band."""
    rates = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        reference = rng.normal(size=(240, 6)).astype(np.float32)
        lookup = LookupMmd(reference, 60, draws=299, seed=seed, gamma=1 / 12, bandwidths=bandwidths)
        hits = 0
        for _ in range(20):
            lookup.push(rng.normal(size=(60, 6)).astype(np.float32))
            p = lookup.p_value()
            assert p is not None
            hits += p <= 0.05
        rates.append(hits / 20)
    assert 0.025 <= np.mean(rates) <= 0.085


def test_a_shift_is_found_by_look_up() -> None:
    rng = np.random.default_rng(4)
    lookup = LookupMmd(rng.normal(size=(200, 6)), 60, draws=999, seed=0, gamma=1 / 12)
    lookup.push(rng.normal(0.8, 1.0, size=(60, 6)))
    assert lookup.p_value() == 1 / 1000


def test_a_reference_no_larger_than_the_window_is_refused() -> None:
    with pytest.raises(TooFewRows):
        LookupMmd(np.ones((21, 2)), 20, seed=0, gamma=1.0)


def test_the_null_of_the_look_up_is_the_permutation_null() -> None:
    """Of one pool, the scaled null spreads as relabelling the pool itself does."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(300, 5)), rng.normal(size=(60, 5))
    kernel = kernel_of(np.concatenate([x, y]), 0.1)
    labels = np.zeros((2000, 360), dtype=np.bool_)
    for row in labels:
        row[rng.permutation(360)[:60]] = True
    permuted = permuted_mmd2(kernel, labels)
    lookup = LookupMmd(x, 60, draws=2000, seed=0, gamma=0.1, bandwidths=1)
    assert lookup._null[0].std() == pytest.approx(permuted.std(), rel=0.1)
