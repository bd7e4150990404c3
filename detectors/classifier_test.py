"""Classifier two-sample test: can held-out units be told apart by a model of the others? It also says which.

Lopez-Paz & Oquab (2017), "Revisiting classifier two-sample tests", test the accuracy on held-out points. Pooling the
points of several folds as if they were independent rejects too often (10 to 14 % at a nominal 5 %), since the folds
share what they are trained on. Here the whole procedure, training included, is repeated for every relabelling of the
units, which is exact for exchangeable units. That is cheap where the classifier is linear in its labels: ridge
regression on the labels (least-squares discriminant analysis) gives fold k's held-out scores as H_k (y - mean y of its
training units), so that all folds and relabellings are the one product H S'.

    statistic = s' H s / m - (1 - s)' H s / n,  s_i = 1 where unit i is current

is the mean held-out score of the current units less that of the reference's. What is permuted are units, represented by
the mean of their rows: sessions weigh the same, whatever their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.mmd import Sample
from detectors.permutations import Labels, p_values, permutation_labels
from detectors.vectors import TooFewRows, Units

_Reals = npt.NDArray[np.float64]

_FOLDS = 5
_RIDGES = (0.3, 3.0, 30.0)
"""In mean squared singular values of the training units: from a flexible classifier to one near the difference of
means."""


@dataclass(slots=True, frozen=True)
class ClassifierTest:
    """One comparison. `auc` is the probability that a held-out current unit scores above a held-out reference unit of
    the same fold, 0.5 where they cannot be told apart; `p_value` belongs to the difference of mean scores.

    `reference_scores` and `current_scores`, one for each row: how much the classifier that has not seen the row's unit
    takes it for a current one. They rank; they are no probabilities.
    """

    auc: float
    p_value: float
    reference_size: int
    current_size: int
    permutations: int
    reference_scores: npt.NDArray[np.float64]
    current_scores: npt.NDArray[np.float64]


def classifier_test(
    reference: Sample,
    current: Sample,
    *,
    permutations: int = 1000,
    seed: int = 0,
    labels: Labels | None = None,
) -> ClassifierTest:
    """Test whether units of the reference and the current window can be told apart; at least 10 units on each side.

    `p_value` is (x + 1) / (B + 1) over relabellings of whole units, by min-p over three strengths of the ridge
    (`permutations.p_values`). Raises an UnusableVectors. Cost: one singular value decomposition a fold, and
    2 B N^2 operations a ridge for N units.

    >>> rng = np.random.default_rng(1)
    >>> found = classifier_test(rng.normal(size=(40, 3)), rng.normal(2.0, 1.0, size=(40, 3)), permutations=99)
    >>> found.p_value, found.auc > 0.9
    (0.01, True)
    """
    x = Units.of(reference, least=2)
    y = Units.of(current, x.dimensions, least=2)
    n, m = len(x), len(y)
    if min(n, m) < 2 * _FOLDS:
        raise TooFewRows(f"{min(n, m)} units are fewer than the {2 * _FOLDS} that cross-fitting needs")
    rng = np.random.default_rng(seed)
    folds = rng.permutation(np.arange(n + m) % _FOLDS)
    labels = permutation_labels(n, m, permutations, rng) if labels is None else labels
    chosen = np.vstack([np.arange(n + m) >= n, labels]).astype(np.float64)
    means = np.concatenate([_unit_means(x), _unit_means(y)])
    models = [_fit(means[folds != fold], means[folds == fold]) for fold in range(_FOLDS)]
    statistics = np.stack([_statistics(models, folds, chosen, i) for i in range(len(_RIDGES))])
    p, single = p_values(statistics[:, 0], statistics[:, 1:])
    best = int(np.argmin(single))
    rows = _row_scores(models, folds, chosen[0], (x, y), best)
    held_out = _held_out(models, folds, chosen[:1], best)[:, 0]
    return ClassifierTest(_auc(held_out, chosen[0], folds), p, n, m, len(labels), *rows)


@dataclass(slots=True, frozen=True)
class _Model:
    """Ridge regression on the training units of one fold, before it has seen labels: training rows are U S V' about
    `centre`."""

    centre: _Reals
    left: _Reals
    singular: _Reals
    right: _Reals
    held_out: _Reals
    """The fold's own units in the coordinates of V."""

    def weights(self, labels: _Reals, ridge: int) -> _Reals:
        """Coefficients in the coordinates of V, shape (rank, B), for labels (B, training units)."""
        strength = _RIDGES[ridge] * float(np.mean(self.singular**2))
        shrunk = self.singular / (self.singular**2 + strength + np.finfo(np.float64).tiny)
        centred = labels - labels.mean(axis=1, keepdims=True)
        coefficients: _Reals = shrunk[:, None] * (self.left.T @ centred.T)
        return coefficients


def _fit(training: _Reals, held_out: _Reals) -> _Model:
    centre = training.mean(axis=0)
    left, singular, right = np.linalg.svd(training - centre, full_matrices=False)
    return _Model(centre, left, singular, right.T, (held_out - centre) @ right.T)


def _held_out(models: Sequence[_Model], folds: npt.NDArray[Any], chosen: _Reals, ridge: int) -> _Reals:
    """Each unit's score by the model of the other folds, shape (N, B), about that model's mean label."""
    scores = np.empty((len(folds), len(chosen)))
    for fold, model in enumerate(models):
        scores[folds == fold] = model.held_out @ model.weights(chosen[:, folds != fold], ridge)
    return scores


def _statistics(models: Sequence[_Model], folds: npt.NDArray[Any], chosen: _Reals, ridge: int) -> _Reals:
    scores = _held_out(models, folds, chosen, ridge).T
    current = chosen.sum(axis=1)
    found: _Reals = (scores * chosen).sum(axis=1) / current
    found -= (scores * (1.0 - chosen)).sum(axis=1) / (chosen.shape[1] - current)
    return found


def _row_scores(
    models: Sequence[_Model], folds: npt.NDArray[Any], chosen: _Reals, sides: tuple[Units, Units], ridge: int
) -> tuple[_Reals, _Reals]:
    """Scores of single rows by the model that has not seen their unit."""
    planes = [model.right @ model.weights(chosen[None, folds != k], ridge) for k, model in enumerate(models)]
    found, first = [], 0
    for side in sides:
        of_row = np.repeat(folds[first : first + len(side)], side.row_counts)
        scores = np.empty(len(side.rows))
        for fold, (model, plane) in enumerate(zip(models, planes, strict=True)):
            rows = side.rows[of_row == fold].astype(np.float64)
            scores[of_row == fold] = ((rows - model.centre) @ plane)[:, 0]
        found.append(scores)
        first += len(side)
    return found[0], found[1]


def _auc(scores: _Reals, chosen: _Reals, folds: npt.NDArray[Any]) -> float:
    """Mann-Whitney's U over its largest value, within folds (scores of two models do not compare)."""
    from scipy.stats import rankdata  # a second and 50 MB, for those that compare

    won = pairs = 0.0
    for fold in range(_FOLDS):
        current = chosen[folds == fold] > 0.0
        ranks = rankdata(scores[folds == fold])
        m, n = int(current.sum()), int((~current).sum())
        won += float(ranks[current].sum()) - m * (m + 1) / 2.0
        pairs += m * n
    return won / pairs if pairs else 0.5


def _unit_means(units: Units) -> _Reals:
    rows = units.rows.astype(np.float64)
    if units.sizes is None:
        return rows
    starts = np.cumsum(units.sizes) - units.sizes
    means: _Reals = np.add.reduceat(rows, starts, axis=0) / units.sizes[:, None]
    return means
