"""The bets' expectation, the two statistics against their plain recursions, and an alarm's way on and off."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from scipy.integrate import quad

from detectors.sequential import Bets, Rule, SequentialAlarm, advance, mixed, start

BETS = Bets.down_to(0.04)


@pytest.mark.parametrize("which", range(len(BETS)))
def test_a_bet_has_expectation_one_under_a_uniform_p_value(which: int) -> None:
    """Integrated between the bets' jumps."""
    edges = [0.0, 0.05, 0.2, 1.0]
    whole = sum(
        quad(lambda p: exp(BETS.log(np.array(p))[which]), low + 1e-12, high)[0]
        for low, high in pairwise(edges)
    )
    assert whole == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("size", [20, 99, 1000])
def test_conformal_p_values_of_a_finite_reference_give_no_more_than_one(size: int) -> None:
    p = np.arange(1, size + 2) / (size + 1)
    assert (np.exp(BETS.log(p)).mean(axis=0) <= 1.0 + 1e-12).all()


def test_no_p_value_is_no_bet() -> None:
    assert BETS.log(np.array([np.nan])).tolist() == [[0.0] * len(BETS)]


def test_only_shifts_large_enough_are_bet_on() -> None:
    assert [step[0] for step in Bets.down_to(0.1).steps] == [0.3, 0.1]
    assert len(Bets.down_to(1.0)) == 1


@pytest.mark.parametrize("rule", list(Rule))
def test_the_statistics_are_those_of_their_recursions(rule: Rule) -> None:
    logs, plain = start(rule, (len(BETS),)), np.full(len(BETS), 0.0 if rule is Rule.SHIRYAEV_ROBERTS else 1.0)
    for p in np.random.default_rng(1).random(300):
        e = np.exp(BETS.log(np.array(p)))
        plain = (1.0 + plain) * e if rule is Rule.SHIRYAEV_ROBERTS else np.maximum(1.0, plain) * e
        logs = advance(rule, logs, np.log(e))
        np.testing.assert_allclose(logs, np.log(plain), atol=1e-9)
        assert mixed(logs) == pytest.approx(log(plain.mean()), abs=1e-9)


def test_shiryaev_and_roberts_keep_the_run_length_that_the_theory_promises() -> None:
    """Independent uniform p-values, limit 100: 100 units at least on average; 400 runs."""
    rng, lengths = np.random.default_rng(2), []
    for _ in range(400):
        logs, units = start(Rule.SHIRYAEV_ROBERTS, (len(BETS),)), 0
        while mixed(logs) < log(100.0):
            logs, units = advance(Rule.SHIRYAEV_ROBERTS, logs, BETS.log(rng.random())), units + 1
        lengths.append(units)
    assert np.mean(lengths) >= 100.0


def alarm(rule: Rule = Rule.CUSUM) -> SequentialAlarm:
    return SequentialAlarm(rule, start(rule, (len(BETS),)))


@pytest.mark.parametrize("rule", list(Rule))
def test_it_latches_comes_down_in_good_time_and_starts_anew(rule: Rule) -> None:
    one, rng = alarm(rule), np.random.default_rng(3)
    limit = log(1e5)
    while not one.update(BETS.log(np.array(0.01)), limit):
        assert one.level < limit
    for _ in range(10_000):
        assert one.update(BETS.log(np.array(0.01)), limit)
    assert one.level <= limit + log(4.0) + 1e-9
    units = 0
    while one.update(BETS.log(rng.random()), limit):
        units += 1
    assert 20 < units < 600
    np.testing.assert_array_equal(one.logs, start(rule, (len(BETS),)))


def test_evidence_stays_finite_at_the_smallest_p_values() -> None:
    one = alarm()
    for _ in range(10):
        one.update(BETS.log(np.array(1e-300)), log(1e5))
    assert one.alarm
    assert np.isfinite(one.logs).all()
