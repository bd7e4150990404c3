"""MMD against frouros' documented figure, full enumeration and alibi-detect; level, power, and bad rows."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from detectors.kernel import median_gamma
from detectors.mmd import mmd2, permutation_test, permuted_mmd2
from detectors.permutations import p_values, permutation_labels
from detectors.vectors import NonFiniteVectors, TooFewRows, Units, UnusableVectors, WrongDimension

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

    enumerated = permutation_test(points[:6], points[6:], seed=0, labels=all_labels(), bandwidths=1)
    assert enumerated.p_value == 90 / 211  # 89 of 210 splits, the identity among them, and the +1
    drawn = permutation_test(points[:6], points[6:], seed=0, permutations=20_000, bandwidths=1)
    assert drawn.p_value == pytest.approx(89 / 210, abs=4 * 0.0035)


def test_float32_rows_are_within_1e_8_of_float64() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 64)) / 8
    y = rng.normal(size=(100, 64)) / 8 + 0.05
    for place in (0.0, 5.0):  # the second lies far from the origin beside its spread, and is rounded there
        single_x, single_y = (x + place).astype(np.float32), (y + place).astype(np.float32)
        exact = mmd2(single_x.astype(np.float64), single_y.astype(np.float64), gamma=0.5)
        assert mmd2(single_x, single_y, gamma=0.5) == pytest.approx(exact, abs=1e-8)


def test_several_panels_are_one_kernel() -> None:
    """Sizes around the panel's: every pair counts once, wherever the borders fall."""
    rng = np.random.default_rng(3)
    for n, m in [(255, 2), (256, 2), (250, 300), (300, 520), (60, 255)]:
        x, y = rng.normal(size=(n, 3)), rng.normal(0.1, 1.0, size=(m, 3))
        rows = np.concatenate([x, y])
        kernel = np.exp(-0.4 * ((rows[:, None] - rows[None]) ** 2).sum(axis=2))
        np.fill_diagonal(kernel, 0.0)
        within = kernel[:n, :n].sum() / (n * (n - 1)) + kernel[n:, n:].sum() / (m * (m - 1))
        assert mmd2(x, y, 0.4) == pytest.approx(within - 2 * kernel[:n, n:].mean(), abs=1e-12)
        labels = permutation_labels(n, m, 5, rng)
        expected = [mmd2(rows[~chosen], rows[chosen], 0.4) for chosen in labels]
        assert permuted_mmd2(kernel, labels) == pytest.approx(np.array(expected), abs=1e-6)


def test_units_weigh_the_same_whatever_their_sizes() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(9, 3)), rng.normal(0.5, 1.0, size=(5, 3))
    repeated = [np.repeat(row[None], count, axis=0) for row, count in zip(y, (1, 7, 2, 1, 3), strict=True)]
    assert mmd2(x, repeated, 0.5) == pytest.approx(mmd2(x, y, 0.5), abs=1e-12)
    one = permutation_test(list(x[:, None]), repeated, seed=0, gamma=0.5)
    assert one.p_value == permutation_test(x, y, seed=0, gamma=0.5).p_value
    assert (one.reference_size, one.current_size) == (9, 5)


@pytest.mark.parametrize("kind", ["half", "mapped", "mapped half"])
def test_half_precision_and_mapped_rows_stay_where_they_are(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, y = (
        rng.normal(size=(700, 12)).astype(np.float16),
        rng.normal(0.1, 1.0, size=(50, 12)).astype(np.float16),
    )
    dtype = np.float16 if "half" in kind else np.float32
    expected = permutation_test(x.astype(np.float32), y.astype(np.float32), seed=1)
    given: Any = x.astype(dtype)
    if "mapped" in kind:
        np.save(tmp_path / "x.npy", given)
        given = np.load(tmp_path / "x.npy", mmap_mode="r")
    result = permutation_test(given, y, seed=1)
    assert result.statistic == pytest.approx(expected.statistic, abs=1e-8)
    assert result.p_value == pytest.approx(expected.p_value, abs=2 / 1001)


def test_the_smallest_p_value_over_bandwidths_has_an_exact_level() -> None:
    """By enumeration: over all 210 labellings of ten points, p <= level holds for at most that share."""
    points, labels = ten_points(), all_labels()
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    null = []
    for gamma in (0.05, 0.5, 5.0):
        kernel = np.exp(-gamma * distances)
        np.fill_diagonal(kernel, 0.0)
        null.append(permuted_mmd2(kernel, labels))
    statistics = np.stack(null)
    p = []
    for observed in range(210):  # the others and the observed one are the group of relabellings
        others = np.delete(statistics, observed, axis=1)
        p.append(p_values(statistics[:, observed], others)[0])
    for level in (0.01, 0.05, 0.1, 0.3, 0.5):
        assert np.mean(np.array(p) <= level) <= level + 1e-12
    assert np.mean(np.array(p) <= 0.1) > 0.08, "exact, not merely safe"
    assert min(p) <= 3 / 210


def test_labels_choose_the_window_uniformly() -> None:
    labels = permutation_labels(20, 10, 6000, np.random.default_rng(4))
    assert (labels.sum(axis=1) == 10).all()
    assert labels.mean(axis=0) == pytest.approx(np.full(30, 1 / 3), abs=4.5 * np.sqrt(2 / 9 / 6000))
    together = (labels.T.astype(float) @ labels)[np.triu_indices(30, 1)] / 6000
    assert together == pytest.approx(np.full(435, 10 * 9 / 30 / 29), abs=5 * np.sqrt(0.0927 / 6000))


def runs_of(shift: float, runs: int, bandwidths: int = 3) -> Rows:
    p = np.empty(runs)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(60, 8)).astype(np.float32)
        y = rng.normal(size=(30, 8)).astype(np.float32)
        y[:, 0] += shift
        p[seed] = permutation_test(x, y, permutations=199, seed=seed, bandwidths=bandwidths).p_value
    return p


@pytest.mark.parametrize("bandwidths", [1, 3])
def test_unshifted_rows_reject_at_the_nominal_rate(bandwidths: int) -> None:
    """500 seeded runs at 5 %: binomial(500, .05) lies within 12 and 39 with probability .9985; at 50 % too."""
    p = runs_of(0.0, 500, bandwidths)
    assert 12 <= (p <= 0.05).sum() <= 39
    assert 215 <= (p <= 0.5).sum() <= 285
    assert p.min() >= 1 / 200


def test_shifted_rows_are_found() -> None:
    assert (runs_of(1.0, 100) <= 0.05).mean() > 0.8


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
        mmd2(x, Units(rows))
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
def alibi_mmd() -> Iterator[Any]:
    if importlib.util.find_spec("alibi_detect") is None:
        pytest.skip("part missing: alibi (alibi-detect is not installed: extra `alibi`)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from alibi_detect.cd import MMDDrift
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield MMDDrift
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("n", "m", "d", "shift"),
    [
        (100, 50, 16, 0.0),
        (80, 40, 8, 0.3),
        (60, 60, 32, 0.15),
        (200, 50, 384, 0.02),
        (300, 100, 64, 0.0),
        (50, 150, 4, 0.2),
    ],
)
def test_statistic_and_p_value_against_alibi_on_the_same_permutations(
    alibi_mmd: Any, n: int, m: int, d: int, shift: float
) -> None:
    import torch

    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = rng.normal(shift, 1.0, size=(m, d)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = alibi_mmd(x, backend="pytorch", n_permutations=1000)
        torch.manual_seed(7)
        theirs = peer.predict(y)["data"]
    torch.manual_seed(7)
    labels = np.zeros((1000, n + m), dtype=np.bool_)
    for row in labels:
        row[torch.randperm(n + m).numpy()[-m:]] = True
    gamma = float(1 / (2 * peer._detector.kernel.sigma.item() ** 2))

    ours = permutation_test(x, y, seed=0, gamma=gamma, labels=labels, bandwidths=1)
    assert ours.statistic == pytest.approx(mmd2(x.astype(float), y.astype(float), gamma), abs=1e-8)
    assert ours.statistic == pytest.approx(theirs["distance"], abs=1e-5)
    apart = abs(ours.p_value * 1001 - 1 - theirs["p_val"] * 1000)  # theirs leaves the +1 out
    assert apart <= 1.01
    assert median_gamma(x) == pytest.approx(gamma, rel=0.01)
