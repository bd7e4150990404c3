"""Run lengths against published values; charts: budget, delay, thin hours, state, bad counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from detectors.control_chart import ChartState, ControlChart, ControlChartSettings, UnusableCountError
from detectors.run_length_theory import cusum_limit, cusum_run_length, ewma_limit, ewma_run_length
from detectors.seasonality import Floats, fit_baseline


@pytest.mark.parametrize(
    ("weight", "limit", "shift", "length"),
    [
        (0.1, 2.814, 0.0, 499.4),
        (0.2, 2.962, 0.0, 499.6),
        (0.25, 2.998, 0.0, 499.8),
        (0.25, 2.998, 0.5, 48.3),
        (0.25, 2.998, 1.0, 11.1),
        (0.25, 2.998, 2.0, 3.6),
    ],
)
def test_ewma_run_lengths(weight: float, limit: float, shift: float, length: float) -> None:
    assert ewma_run_length(weight, limit, shift) == pytest.approx(length, rel=5e-4, abs=0.06)


@pytest.mark.parametrize(
    ("h", "shift", "length"), [(4, 0, 335.4), (5, 0, 930.9), (5, 0.5, 38.0), (5, 1, 10.4), (5, 2, 4.0)]
)
def test_cusum_run_lengths(h: float, shift: float, length: float) -> None:
    assert cusum_run_length(0.5, h, shift) == pytest.approx(length, rel=5e-4, abs=0.06)


def test_limits_invert_run_lengths() -> None:
    assert cusum_limit(0.5, 930.9) == pytest.approx(5.0, abs=0.01)
    assert ewma_limit(0.2, 499.6) == pytest.approx(2.962, abs=0.01)


def test_a_run_length_is_what_simulation_gives() -> None:
    rng = np.random.default_rng(1)
    sums, age, ages = np.zeros(2000), np.zeros(2000), []
    for _ in range(3000):
        sums, age = np.maximum(0.0, sums + rng.standard_normal(2000) - 0.5), age + 1
        out = sums > 3.0
        ages += age[out].tolist()
        sums[out] = age[out] = 0.0
    assert np.mean(ages) == pytest.approx(cusum_run_length(0.5, 3.0), rel=0.05)


def _hours(
    rng: np.random.Generator, days: int, units: float = 400.0, shift: float = 0.0
) -> tuple[Floats, Floats]:
    hour = np.arange(days * 24)
    total = rng.poisson(units, len(hour)).astype(float)
    p = 0.08 * (1 + 0.25 * np.sin(2 * math.pi * hour / 24)) + shift
    return rng.binomial(total.astype(int), rng.beta(p * 285, (1 - p) * 285)).astype(float), total


def test_the_baseline_finds_cycle_and_scatter() -> None:
    bad, total = _hours(np.random.default_rng(3), 60)
    fitted = fit_baseline(np.arange(len(bad)), bad, total)
    truth = 0.08 * (1 + 0.25 * np.sin(2 * math.pi * np.arange(24) / 24))
    error = math.sqrt(0.08 * 0.92 / 400 * (1 + 399 / 286) / 60)  # of one hour of the day
    assert np.abs(fitted.rates - truth).max() < 4 * error
    assert fitted.rho == pytest.approx(1 / 286, rel=0.25)


def test_a_flat_binomial_rate_gets_no_season_and_no_scatter() -> None:
    rng = np.random.default_rng(4)
    total = np.full(14 * 24, 300.0)
    bad = rng.binomial(300, 0.1, len(total)).astype(float)
    fitted = fit_baseline(np.arange(len(bad)), bad, total)
    raw = (bad.reshape(14, 24).sum(axis=0)) / (14 * 300)
    assert np.ptp(fitted.rates) < 0.6 * np.ptp(raw)
    assert fitted.rho < 0.001


def test_one_incident_does_not_become_usual() -> None:
    bad, total = _hours(np.random.default_rng(5), 14)
    clean = fit_baseline(np.arange(len(bad)), bad, total)
    bad[100:106] = total[100:106]
    dirty = fit_baseline(np.arange(len(bad)), bad, total)
    assert np.abs(dirty.rates - clean.rates).max() < 0.02


def _learnt(seed: int, units: float = 400.0, **settings: object) -> ControlChart:
    given = {"replays": 60, "seed": seed, **settings}
    chart = ControlChart(ControlChartSettings.model_validate(given), 1.0)
    for hour, (bad, total) in enumerate(zip(*_hours(np.random.default_rng(seed), 14, units), strict=True)):
        chart.put(hour, bad, total)
    return chart


def test_it_collects_first_and_says_how_far_it_is() -> None:
    chart = ControlChart(ControlChartSettings(), 1.0)
    for hour in range(5 * 24):
        reading = chart.put(hour, 8, 100)
    assert (reading.state, reading.days_collected, reading.limit) == (ChartState.COLLECTING, 5, None)


@pytest.mark.parametrize("kind", ["cusum", "ewma"])
def test_a_rise_is_seen_within_a_day_and_ends(kind: str) -> None:
    chart = _learnt(7, kind=kind)
    rng = np.random.default_rng(70)
    states = [
        chart.put(336 + hour, bad, total).state
        for hour, (bad, total) in enumerate(zip(*_hours(rng, 1, shift=0.04), strict=True))
    ]
    assert ChartState.ALARM in states
    after = [
        chart.put(360 + hour, bad, total).state
        for hour, (bad, total) in enumerate(zip(*_hours(rng, 2), strict=True))
    ]
    assert after[-1] is ChartState.IN_CONTROL


def test_a_fall_is_seen_only_where_asked_for() -> None:
    up, both = _learnt(8), _learnt(8, sides="both")
    for hour in range(336, 360):
        quiet, seen = up.put(hour, 8, 400), both.put(hour, 8, 400)
    assert (quiet.state, seen.state) == (ChartState.IN_CONTROL, ChartState.ALARM)


def test_thin_hours_wait_for_each_other() -> None:
    chart = _learnt(9, units=6.0)
    before = chart.reading()
    assert chart.put(336, 1, 10) == before
    assert chart.put(337, 0, 0) == before
    assert chart.put(338, 2, 25).observed == pytest.approx(3 / 35)


@pytest.mark.parametrize("counts", [(2, 1), (-1, 5), (math.nan, 5), (1, math.inf)])
def test_counts_that_cannot_be_change_nothing(counts: tuple[float, float]) -> None:
    chart = _learnt(10)
    before = chart.state()
    with pytest.raises(UnusableCountError):
        chart.put(336, *counts)
    assert all(np.array_equal(before[key], value) for key, value in chart.state().items())


@pytest.mark.parametrize("cut", [100, 350])
def test_a_restored_chart_goes_on_bit_for_bit(cut: int) -> None:
    settings = ControlChartSettings(replays=50)
    one, rows = ControlChart(settings, 0.5), list(zip(*_hours(np.random.default_rng(11), 16), strict=True))
    for hour, row in enumerate(rows[:cut]):
        one.put(hour, *row)
    other = ControlChart(settings, 0.5)
    other.restore(one.state())
    for hour, row in enumerate(rows[cut:], cut):
        assert one.put(hour, *row) == other.put(hour, *row)
    assert all(np.array_equal(value, other.state()[key]) for key, value in one.state().items())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["cusum", "ewma"])
def test_false_alarms_keep_the_budget(kind: str) -> None:
    """40 months of 14 learnt and 30 unmoved days: at most one alarm a month, by the Poisson 99 % bound of 40."""
    alarms = 0
    for seed in range(40):
        chart = _learnt(1000 + seed, kind=kind, replays=200)
        before = False
        for hour, row in enumerate(
            zip(*_hours(np.random.default_rng(2000 + seed), 30), strict=True), start=336
        ):
            now = chart.put(hour, *row).state is ChartState.ALARM
            alarms += now and not before
            before = now
    assert alarms <= 56
