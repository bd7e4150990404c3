"""Refit the lexical scorer's coefficients and print the figures that its docstring quotes.

    python tests/bench/fit_lexical.py ../shared/data/judge_labels.jsonl

Each line of the labels holds `context`, `answer`, `supported`, `task`, `source_id`. One JSON line a figure.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.stats import rankdata

from detectors.lexical import FEATURES, support

Array = npt.NDArray[np.float64]

FREE = frozenset({"record"})
"""Every other feature may only count against an answer: a fit that rewards novelty would not carry over."""
PENALTY = 0.01
FOLDS = 5


def read(path: Path) -> tuple[Array, Array, npt.NDArray[np.str_], npt.NDArray[np.str_], float]:
    """Features, labels (1 = unfaithful), task, source; and the milliseconds that an answer took."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    began = time.perf_counter()
    features = np.array([support(row["context"], row["answer"]).features for row in rows])
    took = (time.perf_counter() - began) * 1e3 / len(rows)
    labels = np.array([0.0 if row["supported"] else 1.0 for row in rows])
    return (
        features,
        labels,
        np.array([r["task"] for r in rows]),
        np.array([r["source_id"] for r in rows]),
        took,
    )


def fit(features: Array, labels: Array, tasks: npt.NDArray[np.str_]) -> tuple[Array, float]:
    """Ridge logistic regression with signs, each task and label weighing the same: coefficients and
    intercept."""
    mean, spread = features.mean(0), np.where(features.std(0) > 0, features.std(0), 1.0)
    rows = (features - mean) / spread
    weights = np.zeros(len(labels))
    for task in set(tasks):
        for label in (0.0, 1.0):
            cell = (tasks == task) & (labels == label)
            weights[cell] = 1 / max(1, cell.sum())
    weights /= weights.sum()

    def loss(b: Array) -> tuple[float, Array]:
        z = rows @ b[:-1] + b[-1]
        value = float(weights @ (np.logaddexp(0, z) - labels * z)) + PENALTY / 2 * float(b[:-1] @ b[:-1])
        residual = weights * (1 / (1 + np.exp(-z)) - labels)
        return value, np.append(rows.T @ residual + PENALTY * b[:-1], residual.sum())

    bounds = [(None, None) if name in FREE else (0, None) for name in FEATURES] + [(None, None)]
    b = minimize(loss, np.zeros(len(FEATURES) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    coefficients = b[:-1] / spread
    return coefficients, float(b[-1] - coefficients @ mean)


def auc(labels: Array, against: Array) -> float:
    """Probability that an unfaithful answer ranks above a faithful one."""
    bad = labels == 1
    u = rankdata(against)[bad].sum() - bad.sum() * (bad.sum() + 1) / 2
    return float(u / (bad.sum() * (~bad).sum()))


def balanced_accuracy(labels: Array, flagged: npt.NDArray[np.bool_]) -> float:
    return float((flagged[labels == 1].mean() + (~flagged[labels == 0]).mean()) / 2)


def out_of_fold(
    features: Array, labels: Array, tasks: npt.NDArray[np.str_], sources: npt.NDArray[np.str_]
) -> Array:
    """Each answer's log-odds by a model that saw neither it nor any other answer from its source."""
    names = np.unique(sources)
    fold_of = dict(zip(names, np.random.default_rng(0).permutation(len(names)) % FOLDS, strict=True))
    folds = np.array([fold_of[source] for source in sources])
    against = np.zeros(len(labels))
    for fold in range(FOLDS):
        train = folds != fold
        coefficients, intercept = fit(features[train], labels[train], tasks[train])
        against[~train] = features[~train] @ coefficients + intercept
    return against


def figures(path: Path) -> Iterator[dict[str, object]]:
    features, labels, tasks, sources, took = read(path)
    coefficients, intercept = fit(features, labels, tasks)
    named = dict(zip(FEATURES, coefficients.round(3).tolist(), strict=True))
    yield {"figure": "coefficients", "ours": named, "intercept": round(intercept, 3)}
    against = out_of_fold(features, labels, tasks, sources)
    for task in ("qa", "summary", "data2txt"):
        rows = tasks == task
        yield {
            "figure": f"faithfulness, {task}",
            "answers": int(rows.sum()),
            "auc": round(auc(labels[rows], against[rows]), 3),
            "balanced_accuracy": round(balanced_accuracy(labels[rows], against[rows] > 0), 3),
        }
    yield {"figure": "milliseconds an answer", "ours": round(took, 2)}


if __name__ == "__main__":
    for figure in figures(Path(sys.argv[1])):
        print(json.dumps(figure))
