"""The classifier two-sample test: an independent computation, its level on sessions, its power, what it points at."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from detectors.classifier_test import _FOLDS, _RIDGES, classifier_test
from detectors.permutations import permutation_labels
from detectors.vectors import NonFiniteVectors, TooFewRows, WrongDimension


def _sessions(
    rng: np.random.Generator, count: int, mean_length: float, shift: float = 0.0
) -> list[np.ndarray]:
    """Sessions about one topic each: rows of a session share their place."""
    found = []
    for _ in range(count):
        place = rng.normal(size=8)
        place[0] += shift
        length = int(rng.geometric(1.0 / mean_length))
        found.append(place + 0.3 * rng.normal(size=(length, 8)))
    return found


def test_statistic_and_p_value_equal_a_computation_that_trains_anew_for_each_relabelling() -> None:
    """With normal equations instead of decompositions, fold by fold, relabelling by relabelling."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(24, 4)), rng.normal(0.7, 1.0, size=(16, 4))
    labels = permutation_labels(24, 16, 60, np.random.default_rng(8))
    found = classifier_test(x, y, seed=5, labels=labels)
    folds = np.random.default_rng(5).permutation(np.arange(40) % _FOLDS)
    pooled = np.concatenate([x, y])

    def statistic(current: np.ndarray, ridge: float) -> float:
        scores = np.empty(40)
        for fold in range(_FOLDS):
            train = folds != fold
            centre, target = pooled[train].mean(axis=0), current[train] - current[train].mean()
            rows = pooled[train] - centre
            gram = rows.T @ rows
            plane = np.linalg.solve(gram + ridge * np.trace(gram) / 4 * np.eye(4), rows.T @ target)
            scores[~train] = (pooled[~train] - centre) @ plane
        return float(scores[current > 0].mean() - scores[current == 0].mean())

    every = [np.arange(40) >= 24, *labels]
    table = np.array([[statistic(one.astype(float), ridge) for one in every] for ridge in _RIDGES])
    shares = (table[:, None, :] >= table[:, :, None] - 1e-12).mean(axis=2).min(axis=0)
    assert found.p_value == pytest.approx((shares <= shares[0] + 1e-12).mean())


@pytest.mark.parametrize("mean_length", [1.0, 2.0, 8.0])
def test_level_holds_on_session_traffic(mean_length: float) -> None:
    """Nothing moved: 5 % of 200 runs, within the binomial's 99.9 %."""
    rng = np.random.default_rng(int(mean_length * 10))
    runs = 200
    rejected = sum(
        classifier_test(
            _sessions(rng, 40, mean_length), _sessions(rng, 25, mean_length), permutations=99, seed=seed
        ).p_value
        <= 0.05
        for seed in range(runs)
    )
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.05)
    assert low <= rejected <= high


def test_a_shift_of_one_direction_is_seen_and_longer_sessions_alone_are_not() -> None:
    rng = np.random.default_rng(4)
    moved = classifier_test(
        _sessions(rng, 80, 2.0), _sessions(rng, 60, 2.0, shift=1.5), permutations=199, seed=1
    )
    longer = classifier_test(_sessions(rng, 80, 1.5), _sessions(rng, 60, 6.0), permutations=199, seed=1)
    assert moved.p_value == 1 / 200
    assert moved.auc > 0.75
    assert longer.p_value > 0.05


def test_the_rows_that_are_new_score_highest() -> None:
    rng = np.random.default_rng(6)
    usual, novel = rng.normal(size=(60, 8)), rng.normal(size=(12, 8)) + np.eye(8)[2] * 6.0
    found = classifier_test(
        rng.normal(size=(100, 8)), np.concatenate([usual, novel]), permutations=99, seed=2
    )
    ranked = np.argsort(-found.current_scores)
    assert set(ranked[:12].tolist()) == set(range(60, 72))
    assert found.reference_scores.shape == (100,)


def test_more_dimensions_than_units_and_duplicates_are_fine() -> None:
    rng = np.random.default_rng(9)
    x = np.repeat(rng.normal(size=(10, 64)), 2, axis=0)
    assert 0.0 < classifier_test(x, x.copy(), permutations=99, seed=0).p_value <= 1.0
    same = np.ones((20, 3))
    assert classifier_test(same, same, permutations=99, seed=0).p_value == 1.0


def test_it_is_the_same_under_the_same_seed() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(30, 5)), rng.normal(size=(30, 5))
    one, other = (classifier_test(x, y, permutations=99, seed=7) for _ in range(2))
    assert one.p_value == other.p_value
    assert np.array_equal(one.current_scores, other.current_scores)


def test_unusable_rows_are_refused_by_type() -> None:
    good = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(TooFewRows):
        classifier_test(good, good[:9])
    with pytest.raises(WrongDimension):
        classifier_test(good, good[:, :2])
    with pytest.raises(NonFiniteVectors):
        classifier_test(good, np.where(good > 2.0, np.nan, good) * np.inf)
