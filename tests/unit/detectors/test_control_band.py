"""The control band is learnt once, from settled units, and two intervals rarely disagree by chance."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.control_band import ControlBand, ControlBandSettings
from detectors.estimate import wilson

SETTINGS = ControlBandSettings(baseline_units=100, settle_s=10)


def test_the_band_is_the_wilson_interval_of_the_settled_baseline() -> None:
    band = ControlBand(SETTINGS)
    for index in range(100):
        band.put(f"t{index}", float(index % 10 == 0), now=0.0)
    assert band.learn(now=5.0) is None
    assert band.learn(now=10.0) == pytest.approx(wilson(10, 100, 0.9973))


def test_late_feedback_replaces_the_unit_and_a_learnt_band_stays() -> None:
    band = ControlBand(SETTINGS)
    for index in range(100):
        band.put(f"t{index}", 0.0, now=0.0)
    for index in range(50):
        band.put(f"t{index}", 1.0, now=8.0)
    low, high = band.learn(now=10.0) or (0.0, 0.0)
    assert low < 0.5 < high
    for index in range(1000):
        band.put(f"u{index}", 1.0, now=20.0)
    assert band.learn(now=100.0) == (low, high)


def test_false_alarms_under_the_null_are_far_rarer_than_the_nominal_level() -> None:
    """2,000 seeded pairs of baseline (500) and window (500) at 8 %: disjoint intervals in at most 0.5 % of them."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(2000):
        low, high = wilson(rng.binomial(500, 0.08), 500, 0.9973)
        lower, upper = wilson(rng.binomial(500, 0.08), 500, 0.95)
        alarms += lower > high or upper < low
    assert alarms / 2000 <= 0.005


def test_a_tripled_rate_leaves_the_band() -> None:
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(200):
        _, high = wilson(rng.binomial(500, 0.08), 500, 0.9973)
        found += wilson(rng.binomial(300, 0.24), 300, 0.95)[0] > high
    assert found / 200 >= 0.9
