"""The sampler's rules, one by one."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from collectors.trace import Feedback, RagTrace, TraceError
from monitor.sampling import LOWEST_FLOOR, Sampler, SamplingSettings, StrataRates, Stratum, unit_interval

THUMBS_DOWN = (Feedback(label="thumbs_down"),)
REGENERATED = (Feedback(label="regenerate"),)


def trace(number: int = 0, **fields: object) -> RagTrace:
    identity = f"{number:032x}"
    return RagTrace.model_validate(
        {"id": f"{identity}:1", "trace_id": identity, "start_time_ns": 0, **fields}
    )


def test_the_decision_is_pinned_so_that_versions_and_replicas_agree() -> None:
    sampler = Sampler(SamplingSettings(salt="groundwatch"))
    assert sampler.position("4bf92f3577b34da6a3ce929d0e0e4736") == 0.9278097316084009


def test_a_check_has_its_own_rate_and_the_others_the_general_one() -> None:
    sampler = Sampler(SamplingSettings(rate=0.2, checks={"filter_exclusion": 0.7}))
    assert sampler.rate(trace(), "filter_exclusion") == (0.7, Stratum.RATE)
    assert sampler.rate(trace(), "faithfulness") == (0.2, Stratum.RATE)


def test_the_floor_cannot_be_undercut_by_any_rate() -> None:
    sampler = Sampler(SamplingSettings(rate=0.0, checks={"cost": 0.0}, floor=0.02))
    assert sampler.rate(trace(), "faithfulness") == (0.02, Stratum.FLOOR)
    assert sampler.rate(trace(), "cost") == (0.02, Stratum.FLOOR)


@pytest.mark.parametrize("floor", [0.0, -0.1, LOWEST_FLOOR / 2, 1.1, math.nan])
def test_the_floor_cannot_be_turned_off(floor: float) -> None:
    with pytest.raises(ValidationError):
        SamplingSettings(floor=floor)


@pytest.mark.parametrize(
    ("fields", "stratum", "rate"),
    [
        ({}, Stratum.RATE, 0.1),
        ({"feedback": (Feedback(label="thumbs_up"),)}, Stratum.RATE, 0.1),
        ({"feedback": THUMBS_DOWN}, Stratum.THUMBS_DOWN, 0.9),
        ({"feedback": REGENERATED}, Stratum.REGENERATED, 0.8),
        ({"feedback": REGENERATED + THUMBS_DOWN}, Stratum.THUMBS_DOWN, 0.9),
        ({"refused": True}, Stratum.REFUSED, 0.5),
        ({"refused": False}, Stratum.RATE, 0.1),
        ({"error": TraceError(type="TimeoutError")}, Stratum.RATE, 0.1),  # its 0.05 does not lower the rate
    ],
)
def test_strata_raise_the_probability_and_never_lower_it(
    fields: dict[str, object], stratum: Stratum, rate: float
) -> None:
    strata = StrataRates(thumbs_down=0.9, regenerated=0.8, refused=0.5, error=0.05)
    sampler = Sampler(SamplingSettings(rate=0.1, strata=strata))
    assert sampler.rate(trace(**fields), "faithfulness") == (rate, stratum)


def test_the_inclusion_probability_is_ours_times_upstreams() -> None:
    decision = Sampler(SamplingSettings(rate=0.5)).decide(trace(sampling_probability=0.25), "faithfulness")
    assert (decision.rate, decision.probability, decision.weight) == (0.5, 0.125, 8.0)


@pytest.mark.parametrize("upstream", [0.0, -1.0, 1.5, math.nan, math.inf])
def test_an_impossible_upstream_probability_is_not_used_and_said(upstream: float) -> None:
    decision = Sampler(SamplingSettings(rate=0.5)).decide(
        trace(sampling_probability=upstream), "faithfulness"
    )
    assert (decision.probability, decision.reason) == (0.5, "upstream_probability_invalid")


def test_later_feedback_lets_the_same_hash_decide_again() -> None:
    sampler = Sampler(SamplingSettings(rate=0.1))
    left_out = next(n for n in range(100) if not sampler.decide(trace(n), "faithfulness").selected)
    revised = sampler.decide(trace(left_out, revision=1, feedback=THUMBS_DOWN), "faithfulness")
    assert (revised.selected, revised.weight, revised.stratum) == (True, 1.0, Stratum.THUMBS_DOWN)
    chosen = next(n for n in range(100) if sampler.decide(trace(n), "faithfulness").selected)
    assert sampler.decide(trace(chosen, revision=1), "faithfulness") == sampler.decide(
        trace(chosen), "faithfulness"
    )


def test_requests_of_one_trace_are_judged_together() -> None:
    sampler = Sampler(SamplingSettings(rate=0.5))
    for number in range(50):
        one = trace(number)
        other = one.model_copy(update={"id": f"{one.trace_id}:2"})
        assert sampler.decide(one, "faithfulness") == sampler.decide(other, "faithfulness")


def test_a_rate_of_one_takes_the_highest_hash_too() -> None:
    assert unit_interval(2**64 - 1) < 1.0
    assert unit_interval(0) == 0.0


def test_an_id_that_is_no_utf8_is_decided_like_any_other() -> None:
    assert 0.0 <= Sampler(SamplingSettings(salt="\ud800" * 100)).position("\udfff\x00") < 1.0


def test_an_unknown_stratum_or_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="thumbsdown"):
        SamplingSettings.model_validate({"strata": {"thumbsdown": 1.0}})
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        SamplingSettings(checks={"faithfulness": 5.0})
