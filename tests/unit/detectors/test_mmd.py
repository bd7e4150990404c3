"""MMD against frouros' documented figure, full enumeration and alibi-detect; level, power, and bad rows."""

from __future__ import annotations

import importlib.util
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from detectors.mmd import (
    MmdReference,
    NonFiniteVectors,
    TooFewRows,
    UnusableVectors,
    WrongDimension,
    median_gamma,
    mmd2,
    permutation_labels,
    permutation_test,
    permuted_mmd2,
)

Rows = npt.NDArray[Any]


def plain_mmd2(x: Rows, y: Rows, gamma: float) -> float:
    """The definition, pair by pair."""

    def mean(pairs: list[tuple[Rows, Rows]]) -> float:
        return float(np.mean([np.exp(-gamma * ((a - b) ** 2).sum()) for a, b in pairs]))

    within_x = [(x[i], x[j]) for i in range(len(x)) for j in range(len(x)) if i != j]
    within_y = [(y[i], y[j]) for i in range(len(y)) for j in range(len(y)) if i != j]
    return mean(within_x) + mean(within_y) - 2 * mean([(a, b) for a in x for b in y])


def ten_points() -> Rows:
    points = np.random.RandomState(0).randn(10, 3)
    points[6:] += 1.0
    return points


def all_labels() -> npt.NDArray[np.bool_]:
    labels = np.zeros((210, 10), dtype=np.bool_)
    for row, chosen in enumerate(combinations(range(10), 4)):
        labels[row, list(chosen)] = True
    return labels


def test_the_statistic_is_its_definition() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(7, 3)), rng.normal(1.0, 2.0, size=(5, 3))
    assert mmd2(x, y, gamma=0.3) == pytest.approx(plain_mmd2(x, y, 0.3), abs=1e-12)
    assert MmdReference(x, 0.3).mmd2(y) == pytest.approx(plain_mmd2(x, y, 0.3), abs=1e-12)


def test_the_documented_example_of_frouros() -> None:
    """Its docstring of MMD with sigma = 1: np.random.seed(31), two normal samples of 100."""
    random = np.random.RandomState(31)
    x = random.multivariate_normal([1, 1], [[2, 0], [0, 2]], 100)
    y = random.multivariate_normal([0, 0], [[2, 1], [1, 2]], 100)
    assert mmd2(x, y, gamma=0.5) == pytest.approx(0.05643613752975596, abs=1e-12)
    assert permutation_test(x, y, seed=31, gamma=0.5).p_value == 1 / 1001


def test_all_210_splits_of_ten_points() -> None:
    """p = 89 / 210 and skewness 0.69514 by enumeration; the random test agrees within Monte-Carlo error."""
    points = ten_points()
    gamma = median_gamma(points)
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    assert gamma == pytest.approx(1 / np.median(distances[np.triu_indices(10, 1)]), rel=1e-12)
    kernel = np.exp(-gamma * distances)
    np.fill_diagonal(kernel, 0.0)
    null = permuted_mmd2(kernel, all_labels())

    plain = [plain_mmd2(points[~chosen], points[chosen], gamma) for chosen in all_labels()]
    assert null == pytest.approx(np.array(plain), abs=1e-6)
    assert null.mean() == pytest.approx(0.0, abs=1e-7)
    deviations = null - null.mean()
    assert (deviations**3).mean() / (deviations**2).mean() ** 1.5 == pytest.approx(0.69514, abs=1e-5)

    enumerated = permutation_test(points[:6], points[6:], seed=0, labels=all_labels())
    assert enumerated.p_value == 90 / 211  # 89 of 210 splits, the identity among them, and the +1
    drawn = permutation_test(points[:6], points[6:], seed=0, permutations=20_000)
    assert drawn.p_value == pytest.approx(89 / 210, abs=4 * 0.0035)


def test_float32_rows_are_within_1e_7_of_float64() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 64)) / 8 + 5.0  # far from the origin beside their spread
    y = rng.normal(size=(100, 64)) / 8 + 5.05
    gamma = median_gamma(x)
    assert mmd2(x.astype(np.float32), y.astype(np.float32), gamma) == pytest.approx(
        mmd2(x, y, gamma), abs=1e-6
    )


def test_a_cached_reference_gives_what_the_one_shot_test_gives() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 8)), rng.normal(0.4, 1.0, size=(30, 8))
    labels = permutation_labels(60, 30, 500, rng)
    reference = MmdReference(x)
    cached = reference.test(y, labels)
    once = permutation_test(x, y, seed=0, gamma=reference.gamma, labels=labels)
    assert cached.statistic == pytest.approx(once.statistic, abs=1e-12)
    assert (cached.p_value, cached.gamma) == (once.p_value, once.gamma)
    assert (cached.reference_size, cached.current_size, cached.permutations) == (60, 30, 500)


def test_labels_choose_the_window_uniformly() -> None:
    labels = permutation_labels(20, 10, 6000, np.random.default_rng(4))
    assert (labels.sum(axis=1) == 10).all()
    assert labels.mean(axis=0) == pytest.approx(np.full(30, 1 / 3), abs=4.5 * np.sqrt(2 / 9 / 6000))
    together = (labels.T.astype(float) @ labels)[np.triu_indices(30, 1)] / 6000
    assert together == pytest.approx(np.full(435, 10 * 9 / 30 / 29), abs=5 * np.sqrt(0.0927 / 6000))


def p_values(shift: float, runs: int, cached: bool) -> Rows:
    p = np.empty(runs)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(60, 8)).astype(np.float32)
        y = rng.normal(size=(30, 8)).astype(np.float32)
        y[:, 0] += shift
        if cached:
            p[seed] = MmdReference(x).test(y, permutation_labels(60, 30, 199, rng)).p_value
        else:
            p[seed] = permutation_test(x, y, permutations=199, seed=seed).p_value
    return p


@pytest.mark.parametrize("cached", [False, True])
def test_unshifted_rows_reject_at_the_nominal_rate(cached: bool) -> None:
    """500 seeded runs at 5 %: binomial(500, .05) lies within 12 and 39 with probability .9985; at 50 % too."""
    p = p_values(0.0, 500, cached)
    assert 12 <= (p <= 0.05).sum() <= 39
    assert 215 <= (p <= 0.5).sum() <= 285
    assert p.min() >= 1 / 200


def test_shifted_rows_are_found() -> None:
    assert (p_values(1.0, 100, cached=False) <= 0.05).mean() > 0.9


def test_one_seed_gives_one_answer() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(50, 4)), rng.normal(0.2, 1.0, size=(20, 4))
    assert permutation_test(x, y, seed=9) == permutation_test(x, y, seed=9)
    assert permutation_test(x, y, seed=9).p_value != permutation_test(x, y, seed=10).p_value


def test_rows_that_are_all_equal_show_nothing() -> None:
    ones = np.ones((20, 3), dtype=np.float32)
    result = permutation_test(ones, ones[:10], seed=0)
    assert (result.statistic, result.p_value) == (0.0, 1.0)


def test_gamma_looks_past_duplicates() -> None:
    rows = np.zeros((10, 1))
    rows[9] = 2.0
    assert median_gamma(rows) == 0.25
    assert median_gamma(np.zeros((10, 1))) == 1.0


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (np.full((5, 3), np.nan), NonFiniteVectors),
        (np.full((5, 3), np.inf), NonFiniteVectors),
        (np.full((5, 3), 1e30), NonFiniteVectors),
        (np.ones((5, 2)), WrongDimension),
        (np.ones(3), WrongDimension),
        (np.ones((5, 0)), WrongDimension),
        (np.ones((1, 3)), TooFewRows),
        (np.ones((0, 3)), TooFewRows),
    ],
)
def test_rows_that_cannot_be_compared_are_named(rows: Rows, error: type[UnusableVectors]) -> None:
    x = np.random.default_rng(0).normal(size=(10, 3))
    with pytest.raises(error) as one_shot:
        mmd2(x, rows)
    with pytest.raises(error):
        MmdReference(x).mmd2(rows)
    assert one_shot.value.reason in {"non_finite", "wrong_dimension", "too_few_rows"}


def test_half_precision_and_whole_numbers_are_taken() -> None:
    x = np.arange(12).reshape(6, 2)
    assert mmd2(x, x + 1, gamma=0.1) == pytest.approx(mmd2(x.astype(float), x + 1.0, gamma=0.1), abs=1e-12)
    half = x.astype(np.float16)
    assert mmd2(half, half + np.float16(1), gamma=0.1) == pytest.approx(
        mmd2(x.astype(float), x + 1.0, gamma=0.1), abs=1e-6
    )


def test_labels_of_another_window_size_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(10, 3))
    with pytest.raises(ValueError, match="relabelling"):
        permutation_test(x, x[:5], seed=0, labels=permutation_labels(10, 4, 50, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def alibi_mmd() -> Any:
    if importlib.util.find_spec("alibi_detect") is None:
        pytest.skip("part missing: alibi (alibi-detect is not installed: extra `alibi`)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from alibi_detect.cd import MMDDrift
    return MMDDrift


@pytest.mark.parametrize(("n", "m", "d", "shift"), [(100, 50, 16, 0.0), (80, 40, 8, 0.3), (60, 60, 32, 0.15)])
def test_statistic_and_p_value_against_alibi_on_the_same_permutations(
    alibi_mmd: Any, n: int, m: int, d: int, shift: float
) -> None:
    import torch

    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = rng.normal(shift, 1.0, size=(m, d)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = alibi_mmd(x, backend="pytorch", n_permutations=400)
        torch.manual_seed(7)
        theirs = peer.predict(y)["data"]
    torch.manual_seed(7)
    labels = np.zeros((400, n + m), dtype=np.bool_)
    for row in labels:
        row[torch.randperm(n + m).numpy()[-m:]] = True
    gamma = float(1 / (2 * peer._detector.kernel.sigma.item() ** 2))

    ours = permutation_test(x, y, seed=0, gamma=gamma, labels=labels)
    assert ours.statistic == pytest.approx(theirs["distance"], abs=1e-5)
    assert abs(ours.p_value * 401 - 1 - theirs["p_val"] * 400) <= 1.01  # theirs leaves the +1 out

    own = permutation_test(x, y, seed=0, gamma=gamma, permutations=2000)
    error = np.sqrt(max(own.p_value * (1 - own.p_value), 1e-3) * (1 / 400 + 1 / 2000))
    assert own.p_value == pytest.approx(theirs["p_val"], abs=4 * error + 1 / 400)
    assert MmdReference(x).gamma == pytest.approx(gamma, rel=0.01)
