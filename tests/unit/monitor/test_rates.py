"""Rates by signal and slice: what enters, what is counted beside, what is blamed, and what no evidence looks like."""

from __future__ import annotations

import pytest

from alerts.signals import ALL, FILTER_EXCLUSION, REGENERATION, UNFAITHFUL, Reading
from detectors.control_band import ControlBandSettings
from detectors.finding import Finding, Outcome
from monitor.metrics import Metrics
from monitor.rates import RateBoard, RateSettings

SCORERS = {"faithfulness": "lexical-1", "filter_exclusion": "catalogue-1", "regeneration": "feedback-1"}


def board(**settings: object) -> tuple[RateBoard, Metrics]:
    metrics = Metrics()
    band = ControlBandSettings(baseline_units=30, settle_s=0)
    return RateBoard(RateSettings(window_s=60, **settings), band, SCORERS, metrics), metrics


def finding(check: str, number: int, value: float | None, **more: object) -> Finding:
    outcome = Outcome.SCORED if value is not None else more.pop("outcome", Outcome.NOT_APPLICABLE)
    return Finding(f"trace{number}:a", more.pop("revision", 0), check, outcome, value, **more)


def read(metrics: Metrics, signal: str, slice_name: str = ALL) -> Reading:
    return metrics.readings()[signal, slice_name]


def test_no_evidence_is_neither_zero_nor_one() -> None:
    rates, metrics = board()
    rates.publish(now=0)
    reading = read(metrics, UNFAITHFUL.name)
    assert (reading.estimate, reading.lower, reading.upper, reading.evidence) == (None, None, None, 0)


def test_weights_carry_into_the_rate_and_other_outcomes_stand_beside_it() -> None:
    rates, metrics = board()
    rates.put(finding("faithfulness", 1, 1.0, weight=1.0), "lexical-1", at=0)
    rates.put(finding("faithfulness", 2, 0.0, weight=3.0), "lexical-1", at=0)
    rates.put(finding("faithfulness", 3, None), "lexical-1", at=0)
    rates.publish(now=1)
    reading = read(metrics, UNFAITHFUL.name)
    assert reading.estimate == pytest.approx(0.25)
    assert reading.evidence == 2
    assert reading.effective_evidence == pytest.approx(16 / 10)
    assert rates.not_scored(UNFAITHFUL.name, ALL) == {"not_applicable": 1}


def test_a_revision_replaces_and_age_takes_away() -> None:
    rates, metrics = board()
    rates.put(finding("faithfulness", 1, 1.0), "lexical-1", at=0)
    rates.put(finding("faithfulness", 1, 0.0, revision=1), "lexical-1", at=30)
    rates.publish(now=70)
    assert read(metrics, UNFAITHFUL.name).estimate == 0.0
    rates.publish(now=91)
    assert read(metrics, UNFAITHFUL.name).estimate is None


def test_another_scorers_findings_do_not_mix() -> None:
    rates, metrics = board()
    rates.put(finding("faithfulness", 1, 1.0), "hhem-2.1-open", at=0)
    rates.publish(now=0)
    assert read(metrics, UNFAITHFUL.name).evidence == 0


def test_the_clause_blamed_most_is_the_reason_until_it_ages() -> None:
    rates, _ = board()
    for number, clause in enumerate(["locale = en-US", "locale = en-US", "product = api"]):
        rates.put(
            finding("filter_exclusion", number, 1.0, evidence={"blamed": [clause]}),
            "catalogue-1",
            at=float(number),
        )
    assert rates.reason(FILTER_EXCLUSION.name, ALL) == "locale = en-US"
    rates.publish(now=61.5)
    assert rates.reason(FILTER_EXCLUSION.name, ALL) == "product = api"


def test_slices_have_rates_of_their_own_and_the_rest_is_other() -> None:
    rates, metrics = board(slices=("tenant",), max_values=2)
    for number, tenant in enumerate(["a", "b", "c", "d", "a"]):
        rates.put(
            finding("faithfulness", number, float(number == 4), slices={"tenant": tenant}), "lexical-1", at=0
        )
    rates.publish(now=0)
    found = {
        name: read(metrics, UNFAITHFUL.name, name).evidence
        for name in (ALL, "tenant=a", "tenant=b", "tenant=other")
    }
    assert found == {ALL: 5, "tenant=a": 2, "tenant=b": 1, "tenant=other": 2}
    assert (UNFAITHFUL.name, "tenant=c") not in metrics.readings()


def test_regeneration_gets_its_band_once_the_baseline_has_settled() -> None:
    rates, metrics = board()
    rates.publish(now=0)
    assert read(metrics, REGENERATION.name).high is None
    for number in range(30):
        rates.put(finding("regeneration", number, float(number < 3)), "feedback-1", at=0)
    rates.publish(now=1)
    reading = read(metrics, REGENERATION.name)
    assert reading.low is not None
    assert reading.high is not None
    assert reading.low < 0.1 < reading.high
