"""What holds for every set of weighted values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.estimate import RunningSums, hajek_rate, sums_of, weighted_mean

WEIGHTS = st.floats(1.0, 1e6)
RATES = st.lists(st.tuples(st.floats(0.0, 1.0), WEIGHTS), min_size=1, max_size=30)
MEANS = st.lists(st.tuples(st.floats(-1e6, 1e6), WEIGHTS), min_size=1, max_size=30)


@given(RATES)
def test_a_rate_lies_in_its_interval_and_that_between_0_and_1(pairs: list[tuple[float, float]]) -> None:
    values, weights = zip(*pairs, strict=True)
    estimate = hajek_rate(values, weights)
    assert 0.0 <= estimate.lower <= estimate.value <= estimate.upper <= 1.0
    assert min(values) - 1e-9 <= estimate.value <= max(values) + 1e-9
    assert 1.0 <= estimate.effective_n <= estimate.n == len(pairs)


@given(RATES, st.floats(1.0, 1000.0))
def test_only_the_ratio_of_weights_matters(pairs: list[tuple[float, float]], factor: float) -> None:
    values, weights = zip(*pairs, strict=True)
    scaled = hajek_rate(values, [weight * factor for weight in weights])
    estimate = hajek_rate(values, weights)
    assert (scaled.value, scaled.lower, scaled.upper) == pytest.approx(
        (estimate.value, estimate.lower, estimate.upper), abs=1e-7
    )


@given(RATES, st.floats(0.5, 0.9), st.floats(0.91, 0.999))
def test_more_confidence_is_wider(pairs: list[tuple[float, float]], less: float, more: float) -> None:
    values, weights = zip(*pairs, strict=True)
    for estimator in (hajek_rate, weighted_mean):
        narrow, wide = estimator(values, weights, less), estimator(values, weights, more)
        rounding = 1e-12 * max(1.0, abs(narrow.value))  # bounds that coincide may differ in the last bit
        assert wide.lower <= narrow.lower + rounding
        assert narrow.upper <= wide.upper + rounding


@given(MEANS, MEANS)
def test_running_sums_equal_sums_of_what_is_left(
    kept: list[tuple[float, float]], passing: list[tuple[float, float]]
) -> None:
    sums = RunningSums()
    for value, weight in [*passing[::2], *kept, *passing[1::2]]:
        sums.add(value, weight)
    for value, weight in passing:
        sums.remove(value, weight)
    assert sums.sums() == sums_of(*zip(*kept, strict=True))
