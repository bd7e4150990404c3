"""What makes a sample honest: frequencies that match, nested samples, independent salts, weights that unbias.

Seeds and ids are fixed, so the bounds (5 standard errors unless said) are either kept or broken for good.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.trace import Feedback, RagTrace
from monitor.sampling import Sampler, SamplingSettings, StrataRates

N = 40_000
IDS = [f"{number:032x}" for number in range(N)]
"""Ids one bit apart: the hash alone must make them uniform."""
probabilities = st.floats(0.0, 1.0)
trace_ids = st.integers(0, 2**128 - 1).map("{:032x}".format)


def positions(salt: str, ids: list[str] = IDS) -> np.ndarray:
    sampler = Sampler(SamplingSettings(salt=salt))
    return np.array([sampler.position(identity) for identity in ids])


def trace(identity: str, *, down: bool = False, upstream: float = 1.0) -> RagTrace:
    return RagTrace(
        id=f"{identity}:1",
        trace_id=identity,
        start_time_ns=0,
        feedback=(Feedback(label="thumbs_down"),) if down else (),
        sampling_probability=upstream,
    )


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.37, 0.5, 0.9])
@pytest.mark.parametrize("salt", ["groundwatch", "another", ""])
def test_the_frequency_is_the_probability(rate: float, salt: str) -> None:
    share = float(np.mean(positions(salt) < rate))
    assert abs(share - rate) < 5 * math.sqrt(rate * (1 - rate) / N)


def test_the_positions_are_uniform_over_the_whole_interval() -> None:
    counts, _ = np.histogram(positions("groundwatch"), bins=256, range=(0.0, 1.0))
    chi_square = float(np.sum((counts - N / 256) ** 2) / (N / 256))
    assert abs(chi_square - 255) < 5 * math.sqrt(2 * 255)


def test_salts_are_independent_of_each_other_and_of_the_id_itself() -> None:
    one, other = positions("a"), positions("b")
    upstream = np.arange(N) / N  # what a sampler that reads the id's own low bits sees
    for left, right in ((one, other), (one, upstream)):
        assert abs(float(np.corrcoef(left, right)[0, 1])) < 5 / math.sqrt(N)
        both = float(np.mean((left < 0.1) & (right < 0.1)))
        assert abs(both - 0.01) < 5 * math.sqrt(0.01 * 0.99 / N)


@given(trace_ids, st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8))
def test_samples_of_nested_rates_are_nested(identity: str, rates: list[float]) -> None:
    chosen = [
        Sampler(SamplingSettings(checks={"latency": rate})).decide(trace(identity), "latency").selected
        for rate in sorted(rates)
    ]
    assert all(higher or not lower for lower, higher in pairwise(chosen))


@given(trace_ids, probabilities, probabilities, probabilities, st.floats(0.001, 1.0), st.booleans())
def test_the_probability_in_force_is_the_highest_that_applies(
    identity: str, general: float, own: float, down: float, floor: float, voted: bool
) -> None:
    strata = StrataRates(thumbs_down=down)
    sampler = Sampler(SamplingSettings(rate=general, checks={"latency": own}, floor=floor, strata=strata))
    for check, rate in (("latency", own), ("faithfulness", general)):
        decision = sampler.decide(trace(identity, down=voted), check)
        assert decision.rate == max(floor, rate, down if voted else 0.0)
        assert decision.selected == (sampler.position(identity) < decision.rate)
        assert decision.weight >= 1.0


@given(trace_ids, st.floats(2.0**-56, 1.0), st.floats(0.01, 1.0))
def test_upstream_sampling_multiplies_the_weight(identity: str, upstream: float, rate: float) -> None:
    sampler = Sampler(SamplingSettings(rate=rate))
    plain, thinned = (sampler.decide(trace(identity, upstream=p), "latency") for p in (1.0, upstream))
    assert plain.selected == thinned.selected
    assert thinned.weight == pytest.approx(plain.weight / upstream)


@given(trace_ids, st.floats(0.01, 1.0))
def test_feedback_only_ever_adds_a_trace_and_lowers_its_weight(identity: str, rate: float) -> None:
    sampler = Sampler(SamplingSettings(rate=rate))
    before, after = (
        sampler.decide(trace(identity), "latency"),
        sampler.decide(trace(identity, down=True), "latency"),
    )
    assert after.selected
    assert after.weight == 1.0 <= before.weight


class Population:
    """12,000 requests: 2 % voted down, of which 60 % are unfaithful, against 3 % of the rest.

    `keep_*` is what an upstream sampler keeps of them.
    """

    def __init__(self, keep_bad: float = 1.0, keep_good: float = 1.0) -> None:
        size, rng = 12_000, np.random.default_rng(11)
        down = rng.random(size) < 0.02
        self.bad = rng.random(size) < np.where(down, 0.6, 0.03)
        self.keep = np.where(self.bad, keep_bad, keep_good)
        self.rate = float(self.bad.mean())
        self.traces = [
            trace(rng.bytes(16).hex(), down=bool(voted), upstream=float(kept))
            for voted, kept in zip(down, self.keep, strict=True)
        ]

    def sample(self, salt: str) -> tuple[np.ndarray, np.ndarray]:
        """What is judged of it and at which weight: thumbs down always, the rest at 5 %."""
        sampler = Sampler(SamplingSettings(rate=0.05, salt=salt))
        decisions = [sampler.decide(item, "faithfulness") for item in self.traces]
        chosen = np.array([decision.selected for decision in decisions])
        return chosen, np.array([decision.weight for decision in decisions])


def test_weights_make_the_rate_unbiased_and_without_them_it_is_wrong() -> None:
    population = Population()
    hajek, total, naive = [], [], []
    for number in range(12):  # twelve salts are twelve independent samples of the one population
        chosen, weight = population.sample(f"salt-{number}")
        bad, w = population.bad[chosen], weight[chosen]
        hajek.append(float(np.sum(w * bad) / np.sum(w)))
        total.append(float(np.sum(w * bad)) / len(population.bad))
        naive.append(float(bad.mean()))
    for estimates in (hajek, total):
        error = float(np.std(estimates, ddof=1)) / math.sqrt(len(estimates))
        assert error < 0.004
        assert abs(float(np.mean(estimates)) - population.rate) < 4 * error
    assert min(naive) > 3 * population.rate  # 4.1 % reads as 19 %


def test_the_rate_stays_unbiased_behind_an_upstream_sampler_that_prefers_the_bad() -> None:
    population = Population(keep_bad=0.9, keep_good=0.3)
    rng, keep = np.random.default_rng(3), population.keep
    hajek, blind = [], []
    for number in range(12):
        arrived = rng.random(len(keep)) < keep
        chosen, weight = population.sample(f"salt-{number}")
        seen = chosen & arrived
        bad, w = population.bad[seen], weight[seen]
        hajek.append(float(np.sum(w * bad) / np.sum(w)))
        ours = w * keep[seen]
        blind.append(float(np.sum(ours * bad) / np.sum(ours)))
    error = float(np.std(hajek, ddof=1)) / math.sqrt(len(hajek))
    assert abs(float(np.mean(hajek)) - population.rate) < 4 * error
    assert float(np.mean(blind)) > population.rate + 10 * error
