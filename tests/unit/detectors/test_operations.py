"""The census checks: latency, cost, regeneration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from collectors.trace import Feedback, Flag, RagTrace, Tokens, TraceError, Versions
from detectors.finding import Outcome
from detectors.operations import CostCheck, LatencyCheck, OperationsSettings, RegenerationCheck, TokenPrice

PRICES = {
    "small": TokenPrice(input_usd_per_million=0.5, output_usd_per_million=2.0),
    "small-mini": TokenPrice(input_usd_per_million=0.1, output_usd_per_million=0.4),
}


def trace(**fields: Any) -> RagTrace:
    return RagTrace(**({"id": "t:a", "trace_id": "t", "start_time_ns": 0} | fields))


@pytest.mark.parametrize(("duration", "value"), [(0.0, 0.0), (2.0, 0.0), (2.0001, 1.0), (600.0, 1.0)])
def test_latency_is_slow_only_above_the_objective(duration: float, value: float) -> None:
    check = LatencyCheck(2.0)
    (finding,) = check.check([trace(duration_s=duration)])
    assert (finding.value, finding.evidence["duration_s"], check.scorer) == (value, duration, "objective-2s")


def test_a_failed_request_may_be_slow_too() -> None:
    (finding,) = LatencyCheck(2.0).check([trace(duration_s=30.0, error=TraceError(type="Timeout"))])
    assert finding.value == 1.0


@pytest.mark.parametrize(
    ("duration", "outcome", "reason"),
    [
        (None, Outcome.NOT_SCORABLE, "duration_unknown"),
        (-0.1, Outcome.INVALID, "duration_invalid"),
        (math.nan, Outcome.INVALID, "duration_invalid"),
        (math.inf, Outcome.INVALID, "duration_invalid"),
    ],
)
def test_a_duration_that_is_none_scores_none(duration: float | None, outcome: Outcome, reason: str) -> None:
    (finding,) = LatencyCheck(2.0).check([trace(duration_s=duration)])
    assert (finding.outcome, finding.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("fields", "value", "source"),
    [
        (
            {"cost_usd": 0.25, "versions": Versions(model="small"), "tokens": Tokens(input=1, output=1)},
            0.25,
            "logged",
        ),
        ({"cost_usd": 0.0}, 0.0, "logged"),
        ({"versions": Versions(model="small"), "tokens": Tokens(input=1000, output=100)}, 0.0007, "prices"),
        (
            {"versions": Versions(model="small-2026-01-31"), "tokens": Tokens(input=1000, output=0)},
            0.0005,
            "prices",
        ),
        (
            {"versions": Versions(model="small-mini"), "tokens": Tokens(input=0, output=1000)},
            0.0004,
            "prices",
        ),
    ],
)
def test_cost_is_logged_or_priced(fields: Mapping[str, Any], value: float, source: str) -> None:
    (finding,) = CostCheck(PRICES).check([trace(**fields)])
    assert finding.value == pytest.approx(value, abs=1e-12)
    assert finding.evidence["source"] == source


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"versions": Versions(model="small")},
        {"versions": Versions(model="small"), "tokens": Tokens(input=5)},
        {"versions": Versions(model="small-turbo"), "tokens": Tokens(input=5, output=5)},
        {"tokens": Tokens(input=5, output=5)},
    ],
)
def test_an_unknown_cost_is_not_zero(fields: Mapping[str, Any]) -> None:
    (finding,) = CostCheck(PRICES).check([trace(**fields)])
    assert (finding.outcome, finding.reason, finding.value) == (Outcome.NOT_SCORABLE, "cost_unknown", None)


@pytest.mark.parametrize("cost", [-0.01, math.nan, math.inf])
def test_an_impossible_cost_is_invalid(cost: float) -> None:
    (finding,) = CostCheck(PRICES).check([trace(cost_usd=cost)])
    assert (finding.outcome, finding.reason) == (Outcome.INVALID, "cost_invalid")


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        ((), 0.0),
        (("thumbs_up",), 0.0),
        (("regenerate",), 1.0),
        (("thumbs_down", "Regenerated "), 1.0),
        (("retry",), 1.0),
        (("retry_later",), 0.0),
    ],
)
def test_regeneration_reads_feedback(labels: tuple[str, ...], value: float) -> None:
    feedback = tuple(Feedback(label=label) for label in labels)
    (finding,) = RegenerationCheck().check([trace(answer="An answer.", feedback=feedback)])
    assert finding.value == value


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"error": TraceError(), "feedback": (Feedback(label="retry"),)}, Outcome.NOT_APPLICABLE),
        ({}, Outcome.NOT_SCORABLE),
        ({"flags": frozenset({Flag.REDACTED})}, Outcome.SCORED),
        ({"flags": frozenset({Flag.CONTENT_NOT_CAPTURED})}, Outcome.SCORED),
        ({"feedback": (Feedback(label="retry"),)}, Outcome.SCORED),
    ],
)
def test_regeneration_counts_answered_requests(fields: Mapping[str, Any], outcome: Outcome) -> None:
    (finding,) = RegenerationCheck().check([trace(**fields)])
    assert finding.outcome is outcome


@pytest.mark.parametrize(
    "bad",
    [
        {"latency_objective_s": 0},
        {"latency_objective_s": math.inf},
        {"latency": 2},
        {"prices": {"m": {"input_usd_per_million": -1, "output_usd_per_million": 1}}},
        {"prices": {"m": {"input_usd_per_million": 1}}},
    ],
)
def test_settings_that_make_no_sense_are_refused(bad: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OperationsSettings.model_validate(bad)
