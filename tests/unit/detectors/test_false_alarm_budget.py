"""What a budget means in units, what an alarm does before and after it is measured, and what is refused."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from detectors.false_alarm_budget import BudgetedAlarm, FalseAlarmBudget, ReferenceTooSmall, TrafficRate
from detectors.run_length import WORLDS, Draw
from detectors.sequential import Bets, Rule


def world(size: int) -> Draw:
    def draw(rng: np.random.Generator, lanes: int, units: int) -> npt.NDArray[np.float64]:
        gaps = rng.dirichlet(np.ones(size + 1))
        return (1.0 + rng.choice(size + 1, p=gaps, size=(lanes, units, 1))) / (size + 1.0)

    return draw


def alarm(size: int, slowdown: float = 0.5, run_length: float | None = 1e5) -> BudgetedAlarm:
    one = BudgetedAlarm(Rule.CUSUM, Bets.down_to(0.1), 1, seed=0, size=size, slowdown=slowdown)
    if run_length is not None:
        one.allow(run_length)
    return one


def measured(one: BudgetedAlarm, size: int) -> BudgetedAlarm:
    for _ in range(WORLDS):
        assert not one.armed
        one.measure(world(size))
    return one


def test_a_budget_in_units() -> None:
    budget = FalseAlarmBudget(false_alarms=2.0, period_days=10.0)
    assert budget.run_length(500.0, alarms=4) == 10_000.0
    assert budget.run_length(0.0, alarms=4) == 2.0


def test_traffic_is_counted_from_its_first_unit() -> None:
    rate = TrafficRate()
    assert rate.per_day is None
    for hour in range(25):
        assert rate.units == hour
        rate.put(1e9 + 3600.0 * hour)
    assert rate.per_day == pytest.approx(24.0)


def test_it_takes_no_evidence_until_it_is_measured_and_has_a_run_length() -> None:
    one = alarm(2000, run_length=None)
    for _ in range(500):
        assert not one.update(np.array([0.001]))
    measured(one, 2000)
    assert not one.update(np.array([0.001]))
    assert np.isnan(one.threshold)
    one.allow(1e5)
    assert one.armed
    assert one.evidence < 1.0
    assert one.threshold == pytest.approx(5.0)
    units = 1
    while not one.update(np.array([0.001])):
        units += 1
    assert units < 20
    assert one.evidence >= one.threshold


def test_a_reference_too_small_is_refused_with_the_size_it_needs_and_that_size_is_not() -> None:
    one = measured(alarm(60, slowdown=0.3), 60)
    refusal = one.refusal
    assert isinstance(refusal, ReferenceTooSmall)
    assert not one.armed
    assert (refusal.size, refusal.needed > 100) == (60, True)
    assert f"has 60 units, needs about {refusal.needed:,}" in str(refusal)
    assert not one.update(np.array([1 / 61]))
    larger = measured(alarm(2 * refusal.needed, slowdown=0.3), 2 * refusal.needed)
    assert larger.armed


def test_a_looser_budget_arms_what_was_refused() -> None:
    one = measured(alarm(200, run_length=1e12), 200)
    assert one.refusal is not None
    one.allow(1000.0)
    assert one.armed
    assert one.refusal is None


def test_more_traffic_raises_the_limit_and_disarms_nothing() -> None:
    one = measured(alarm(300, slowdown=0.8, run_length=1000.0), 300)
    assert one.armed
    one.allow(1e9)
    assert one.armed
    assert one.threshold == pytest.approx(9.0)


def test_its_state_goes_on_bit_for_bit() -> None:
    one, restored = alarm(500), alarm(500)
    for _ in range(WORLDS - 3):
        one.measure(world(500))
    restored.restore(one.state())
    rng = np.random.default_rng(0)
    for _ in range(3):
        one.measure(world(500))
        restored.measure(world(500))
    for p in rng.random(200):
        one.update(np.array([p]))
        restored.update(np.array([p]))
    again = alarm(500)
    again.restore(one.state())
    for other in (restored, again):
        assert (other.evidence, other.threshold, other.one_in_ten) == (
            one.evidence,
            one.threshold,
            one.one_in_ten,
        )
    with pytest.raises(ValueError, match="logs"):
        BudgetedAlarm(Rule.CUSUM, Bets.down_to(1.0), 1, 0, 500, 0.5).restore(one.state())
