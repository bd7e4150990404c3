"""Two samples of queries compared once: do they differ, and in what?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from detectors.attribution import AttributionSettings, QueryUnit, explain
from detectors.classifier_test import classifier_test
from detectors.embedding import HashedNgramEncoder, QueryEncoder
from detectors.explanation import DriftExplanation
from detectors.mmd import permutation_test
from detectors.vectors import TooFewRows, usable_rows
from monitor.drift_tools.samples import Sample, UnreadableSample


@dataclass(slots=True, frozen=True)
class TestResult:
    """One test: `adjusted` is its p-value by Holm's method (1979) over the tests of the comparison."""

    __test__ = False  # no test case, whatever its name begins with

    name: str
    statistic: float
    p_value: float
    adjusted: float


@dataclass(slots=True, frozen=True)
class Comparison:
    """What one look at two samples says. `taken` of the units were compared on each side."""

    vectors: str
    queries: tuple[int, int]
    units: tuple[int, int]
    taken: tuple[int, int]
    tests: tuple[TestResult, ...]
    explanation: DriftExplanation | None
    notes: tuple[str, ...]

    def differs(self, level: float) -> bool:
        """Whether any test rejects, all of them together at this level."""
        return any(test.adjusted <= level for test in self.tests)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        explanation = None if self.explanation is None else self.explanation.as_dict()
        return asdict(self) | {"explanation": explanation}


@dataclass(slots=True, frozen=True)
class ComparisonSettings:
    """How a comparison is made; of more than `max_units` units a side, as many are drawn."""

    permutations: int = 1000
    max_units: int = 3000
    seed: int = 0


def compare(
    reference: Sample, current: Sample, settings: ComparisonSettings, encoder: QueryEncoder | None = None
) -> Comparison:
    """Compare two samples; texts are encoded with `encoder` (the built-in one), even where vectors are beside them if
    one is given. Raises UnreadableSample where they have nothing in common that could be compared, or
    vectors that cannot be."""
    encoder = _encoder(reference, current, encoder)
    before = _usable(reference, encoder, None)
    units = [before, _usable(current, encoder, before[0].vectors.shape[1])]
    rng = np.random.default_rng(settings.seed)
    taken = [_some(side, settings.max_units, rng) for side in units]
    notes = [
        f"{sample.path}: {settings.max_units} of {len(side)} units drawn"
        for sample, side in zip((reference, current), units, strict=True)
        if len(side) > settings.max_units
    ]
    x, y = taken
    tests = _tests(x, y, settings, notes)
    explanation = _explanation(x, y, settings, notes)
    name = f"{encoder.name}, from the texts" if encoder else "as in the files"
    dimensions = x[0].vectors.shape[1]
    return Comparison(
        f"{name}, {dimensions} dimensions",
        (len(reference.queries), len(current.queries)),
        (len(units[0]), len(units[1])),
        (len(x), len(y)),
        tests,
        explanation,
        tuple(notes),
    )


def _encoder(reference: Sample, current: Sample, wanted: QueryEncoder | None) -> QueryEncoder | None:
    """None where both files hold vectors; texts are encoded where both hold texts."""
    if wanted is None and reference.has_vectors and current.has_vectors:
        return None
    if reference.has_texts and current.has_texts:
        return wanted or HashedNgramEncoder()
    raise UnreadableSample(
        f"{reference.path} and {current.path}: either every line of both holds a vector, or every line of both a text"
    )


def _usable(sample: Sample, encoder: QueryEncoder | None, dimensions: int | None) -> list[QueryUnit]:
    try:
        units = sample.units(encoder)
        for unit in units:
            usable_rows(unit.vectors, dimensions or units[0].vectors.shape[1])
    except ValueError as error:  # of vectors that do not stack, too
        raise UnreadableSample(f"{sample.path}: {error}") from error
    return units


def _some(units: Sequence[QueryUnit], most: int, rng: np.random.Generator) -> list[QueryUnit]:
    if len(units) <= most:
        return list(units)
    return [units[i] for i in sorted(rng.choice(len(units), most, replace=False))]


def _tests(
    reference: list[QueryUnit], current: list[QueryUnit], settings: ComparisonSettings, notes: list[str]
) -> tuple[TestResult, ...]:
    x, y = ([unit.vectors for unit in side] for side in (reference, current))
    mmd = permutation_test(x, y, permutations=settings.permutations, seed=settings.seed)
    found = [("MMD^2", mmd.statistic, mmd.p_value)]
    try:
        second = classifier_test(x, y, permutations=settings.permutations, seed=settings.seed)
        found.append(("classifier AUC", second.auc, second.p_value))
    except TooFewRows as error:
        notes.append(f"no classifier test: {error}")
    adjusted = _holm([p for _, _, p in found])
    return tuple(TestResult(*one, q) for one, q in zip(found, adjusted, strict=True))


def _holm(p_values: list[float]) -> list[float]:
    """Holm's step-down adjustment.

    >>> _holm([0.04, 0.01])
    [0.04, 0.02]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _explanation(
    reference: list[QueryUnit], current: list[QueryUnit], settings: ComparisonSettings, notes: list[str]
) -> DriftExplanation | None:
    try:
        return explain(reference, current, AttributionSettings(), seed=settings.seed)
    except TooFewRows as error:
        notes.append(f"no explanation: {error}")
        return None
