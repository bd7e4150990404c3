"""The calibrator's expectation, the alarm's run length without a shift, and its way on and off."""

from __future__ import annotations

from math import log, log10

import numpy as np
import pytest
from scipy.integrate import quad

from detectors.sequential import SequentialAlarm, p_to_e


def test_an_e_value_has_expectation_one_under_a_uniform_p_value() -> None:
    expectation = quad(lambda u: p_to_e(np.exp(-u)) * np.exp(-u), 0, 50, limit=200)[0]
    # What lies beyond u = 50 is the integral of 1 / u^2 to four digits.
    assert expectation + 1 / 50 == pytest.approx(1.0, abs=1e-6)


def test_an_e_value_mixes_the_power_calibrators() -> None:
    for p in (1e-6, 0.001, 0.05, 0.3, 0.9, 0.9995, 0.99999):
        mixed = quad(lambda kappa, p=p: kappa * p ** (kappa - 1), 0, 1)[0]
        assert p_to_e(p) == pytest.approx(mixed, rel=1e-8)


def test_discrete_permutation_p_values_give_no_more_than_one() -> None:
    for permutations in (99, 1000):
        p = np.arange(1, permutations + 2) / (permutations + 1)
        assert np.mean([p_to_e(value) for value in p]) <= 1.0


@pytest.mark.parametrize("p", [0.0, -0.1, 1.0001, float("nan")])
def test_what_is_no_p_value_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="p-value"):
        p_to_e(p)


def test_the_statistic_is_shiryaev_and_roberts() -> None:
    alarm = SequentialAlarm(run_length=1e9)
    plain = 0.0
    for p in np.random.default_rng(1).random(200):
        plain = (plain + 1.0) * p_to_e(p)
        alarm.update(p)
        assert alarm.evidence == pytest.approx(log10(1.0 + plain), abs=1e-9)


@pytest.mark.parametrize("run_length", [20.0, 100.0])
def test_the_run_length_without_a_shift_is_at_least_the_budget(run_length: float) -> None:
    """Independent permutation p-values; 300 runs, so the mean's standard error is some 6 %."""
    rng = np.random.default_rng(2)
    lengths = []
    for _ in range(300):
        alarm, tests = SequentialAlarm(run_length), 1
        while not alarm.update(rng.integers(1, 1002) / 1001):
            tests += 1
        lengths.append(tests)
    assert np.mean(lengths) >= run_length


def test_raw_p_values_would_alarm_long_before() -> None:
    """Why there is an alarm at all: p <= .05 is reached after some 20 tests of nothing."""
    rng = np.random.default_rng(3)
    first = [int(np.argmax(rng.random(2000) <= 0.05)) + 1 for _ in range(300)]
    assert np.mean(first) < 25


def test_it_latches_clears_after_quiet_tests_and_starts_anew() -> None:
    alarm = SequentialAlarm(run_length=1000.0, quiet_tests=3)
    assert [alarm.update(1 / 1001) for _ in range(3)] == [False, False, True]
    assert [alarm.update(p) for p in (0.5, 0.5, 0.1, 0.5, 0.5)] == [True] * 5, "0.1 is not above 0.1"
    assert alarm.update(0.2) is False
    assert (alarm.evidence, alarm.quiet) == (0.0, 3)
    assert [alarm.update(1 / 1001) for _ in range(3)] == [False, False, True]


def test_a_long_shift_does_not_hold_it_up() -> None:
    alarm = SequentialAlarm(run_length=1000.0)
    for _ in range(10_000):
        alarm.update(1 / 1001)
    assert alarm.evidence == pytest.approx(alarm.threshold + 2.0)
    for _ in range(3):
        alarm.update(0.9)
    assert not alarm.alarm


def test_evidence_stays_finite_at_the_smallest_p_values() -> None:
    alarm = SequentialAlarm(run_length=1e300)
    for _ in range(10):
        alarm.update(1e-300)
    assert alarm.alarm
    assert alarm.log_one_plus == pytest.approx(300 * log(10) + 2 * log(10))


@pytest.mark.parametrize(("run_length", "quiet"), [(1.0, 3), (0.0, 3), (float("inf"), 3), (10.0, 0)])
def test_a_budget_that_is_none_is_refused(run_length: float, quiet: int) -> None:
    with pytest.raises(ValueError, match="run length"):
        SequentialAlarm(run_length, quiet)
