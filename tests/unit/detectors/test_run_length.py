"""Run lengths measured by replay: against theory where it is known, and what a finite reference does to them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from detectors.run_length import (
    UNITS,
    WORLDS,
    Draw,
    RunLengths,
    ideal_limit,
    largest_levels,
    measure_world,
    size_needed,
)
from detectors.sequential import Bets, Rule, advance, mixed, start

BETS = Bets.down_to(0.1)


def uniform(rng: np.random.Generator, lanes: int, units: int) -> npt.NDArray[np.float64]:
    return rng.random((lanes, units, 1))


def world(size: int) -> Draw:
    """Conformal p-values against a reference of this size, in a world drawn for it."""

    def draw(rng: np.random.Generator, lanes: int, units: int) -> npt.NDArray[np.float64]:
        gaps = rng.dirichlet(np.ones(size + 1))
        return (1.0 + rng.choice(size + 1, p=gaps, size=(lanes, units, 1))) / (size + 1.0)

    return draw


def measured(draw: Draw, rule: Rule = Rule.CUSUM, seed: int = 0) -> RunLengths:
    lengths = RunLengths()
    while not lengths.complete:
        measure_world(rule, BETS, draw, lengths, seed)
    return lengths


@pytest.mark.parametrize("rule", list(Rule))
def test_the_limit_for_a_run_length_has_that_run_length(rule: Rule) -> None:
    """Independent uniform p-values: 200 fresh runs to the limit for 2,000 units; the standard error is 7 %."""
    limit = measured(uniform, rule).limit(2000.0)
    rng, lanes = np.random.default_rng(9), 200
    logs, units = start(rule, (lanes, len(BETS))), np.zeros(lanes)
    running = np.ones(lanes, dtype=bool)
    while running.any():
        logs = advance(rule, logs, BETS.log(rng.random(lanes)))
        units += running
        running &= mixed(logs) < limit
    assert units.mean() == pytest.approx(2000.0, rel=0.3)


def test_evidence_is_the_run_length_of_the_level() -> None:
    lengths = measured(uniform)
    for run_length in (1e3, 1e5, 1e7):
        assert lengths.evidence(lengths.limit(run_length)) == pytest.approx(np.log10(run_length), abs=1e-6)
    assert lengths.evidence(-5.0) == 0.0


def test_a_smaller_reference_needs_a_higher_limit_and_one_in_ten_falls_short() -> None:
    ideal = ideal_limit(Rule.CUSUM, BETS, 1, 1e4)
    small, large = measured(world(60)), measured(world(3000))
    assert small.limit(1e4) > 1.2 * ideal
    assert large.limit(1e4) < 1.15 * ideal
    assert small.one_in_ten(1e4) < 1e4


def test_true_worlds_keep_the_run_length_on_average() -> None:
    """The alarm rate over 60 references of 300, each with its own truth (gaps of a uniform sample), at the limit
    measured from the Bayesian bootstrap of any one: no more than budgeted."""
    limit = measured(world(300), seed=1).limit(2000.0)
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(60):
        known = np.sort(rng.random(300))
        new = rng.random((10, UNITS, 1))
        p = (301.0 - np.searchsorted(known, new)) / 301.0
        alarms += int((largest_levels(Rule.CUSUM, BETS, p) >= limit).sum())
    expected = 60 * 10 * UNITS / 2000.0
    assert alarms <= 1.3 * expected


def test_worlds_are_drawn_by_seed_and_number() -> None:
    first, again, other = measured(uniform, seed=3), measured(uniform, seed=3), measured(uniform, seed=4)
    assert first == again
    assert first != other
    assert len(set(first.places)) == WORLDS


def test_the_size_needed_grows_with_the_excess() -> None:
    assert size_needed(300, 2.0, 0.5) == 1200
    assert size_needed(300, 0.4, 0.5) == 300
    assert size_needed(777, 1.0, 0.5) == 1600
