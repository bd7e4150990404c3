"""What people are told, and what must never reach them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.alert import Alert, alerts_of, current_alert
from alerts.guardrail import DEFAULT_GUARDRAILS, Guardrail
from alerts.plain import plain_reason, plain_slice
from alerts.signals import ALL, Reading

FILTER = DEFAULT_GUARDRAILS[2].model_copy(
    update={"hold_s": 0, "clear_s": 0, "runbook_url": "https://r.example/f"}
)
COST = DEFAULT_GUARDRAILS[4].model_copy(update={"hold_s": 0, "clear_s": 0})
BAND = DEFAULT_GUARDRAILS[3].model_copy(update={"hold_s": 0, "clear_s": 0})
DRIFT = DEFAULT_GUARDRAILS[5]
BAD = Reading(FILTER.signal, ALL, 0.041, 0.029, 0.058, 412, 412.0, reason="locale = en-US")
GOOD = replace(BAD, estimate=0.01, lower=0.004, upper=0.02, reason="")


def told(guardrail: Guardrail, *looks: tuple[float, Reading]) -> list[Alert]:
    transitions = [guardrail.evaluate(look, now) for now, look in looks]
    return [
        alert
        for t in transitions
        if t is not None
        for alert in alerts_of(t, "help-centre", {"cluster": "eu"})
    ]


def test_a_breach_says_at_least_how_bad_and_why() -> None:
    (alert,) = told(Guardrail(FILTER), (100.0, BAD))
    assert alert.labels == {
        "alertname": "GroundwatchFilterExclusion",
        "guardrail": "filter_exclusion",
        "slice": "all",
        "severity": "critical",
        "service": "help-centre",
        "cluster": "eu",
    }
    assert alert.annotations == {
        "summary": "filter_exclusion: at least 2.9 % (4.1 % [2.9, 5.8], n = 412) of queries lost every known answer; "
        "locale = en-US",
        "title": "Answers removed by the filter",
        "signal": "filter_false_exclusion_rate",
        "objective": "at most 2.0 %",
        "reason": "locale = en-US",
        "runbook_url": "https://r.example/f",
    }
    assert (alert.starts_at, alert.ends_at, alert.resolved) == (100.0, None, False)


def test_the_end_has_the_identity_and_the_start_of_the_beginning() -> None:
    fired, resolved = told(Guardrail(FILTER), (100.0, BAD), (200.0, GOOD))
    assert resolved.identity == fired.identity
    assert (resolved.starts_at, resolved.ends_at) == (100.0, 200.0)
    assert resolved.annotations["summary"].startswith(
        "filter_exclusion: holds again: 1.0 % [0.4, 2.0], n = 412"
    )


def test_evidence_that_ends_is_told_as_such_and_not_as_a_repair() -> None:
    guardrail = Guardrail(FILTER)
    nothing = Reading(FILTER.signal, ALL)
    fired, ended, silent, back, again = told(
        guardrail, (0.0, BAD), (1.0, nothing), (3601.0, nothing), (3700.0, BAD)
    )
    assert fired.identity == ended.identity == again.identity
    assert "this is no repair" in ended.annotations["summary"]
    assert silent.name == "GroundwatchNoEvidence"
    assert silent.labels["severity"] == "critical"
    assert "interrupted" in silent.annotations
    assert "no evidence for 3600 s" in silent.annotations["summary"]
    assert back.identity == silent.identity
    assert "evidence again" in back.annotations["summary"]


def test_too_little_evidence_says_how_much_is_needed() -> None:
    thin = Reading(FILTER.signal, ALL, 0.5, 0.2, 0.8, 4, 3.2)
    (silent,) = told(Guardrail(FILTER), (0.0, thin), (3600.0, thin))
    assert "3 effective units of the 10 needed" in silent.annotations["summary"]


def test_slices_are_alerts_of_their_own() -> None:
    (whole,) = told(Guardrail(FILTER), (0.0, BAD))
    (one,) = told(Guardrail(FILTER, "locale=de"), (0.0, replace(BAD, slice="locale=de")))
    assert one.identity != whole.identity
    assert one.fingerprint != whole.fingerprint
    assert one.annotations["summary"].startswith("filter_exclusion [locale=de]: at least")


def test_money_and_bands_are_told_in_their_own_units() -> None:
    dear = Reading(COST.signal, ALL, 0.081, 0.072, 0.0914, 200, 120.0)
    (alert,) = told(Guardrail(COST), (0.0, dear))
    assert alert.annotations["summary"] == (
        "cost: at least 0.072 USD (0.081 USD [0.072, 0.0914], n = 200, effective 120) a query"
    )
    falls = Reading(BAND.signal, ALL, 0.01, 0.005, 0.02, 900, 900.0, low=0.05, high=0.12)
    (alert,) = told(Guardrail(BAND), (0.0, falls))
    assert "at most 2.0 % (1.0 %" in alert.annotations["summary"]
    assert alert.annotations["objective"] == "between 5.0 % and 12.0 %"


def test_a_drift_alarm_says_what_moved_and_when_it_is_calm_again() -> None:
    alarm, calm = (Reading(DRIFT.signal, ALL, value, evidence=500) for value in (1.0, 0.0))
    fired, resolved = told(
        Guardrail(DRIFT), (0.0, replace(alarm, reason="intent = billing")), (300.0, calm), (600.0, calm)
    )
    assert fired.annotations["summary"] == (
        "query_drift: the queries' embeddings have left their reference window; intent = billing"
    )
    assert "objective" not in fired.annotations
    assert resolved.annotations["summary"] == "query_drift: holds again: the detector sees no change"


def test_the_end_of_silence_is_told_for_alarms_and_for_bands_that_are_not_known_yet() -> None:
    for spec in (DRIFT, BAND):
        nothing = Reading(spec.signal, ALL)
        returns = Reading(spec.signal, ALL, 0.0, 0.0, 0.1, 50, 50.0)
        silent, back = told(Guardrail(spec), (0.0, nothing), (3600.0, nothing), (3700.0, returns))
        assert silent.annotations["summary"] == f"{spec.name}: no evidence for 3600 s"
        assert back.identity == silent.identity
        assert "there is evidence again: " in back.annotations["summary"]
    filling = Reading(DRIFT.signal, ALL, None, evidence=20)
    nothing = Reading(DRIFT.signal, ALL)
    _, back = told(Guardrail(DRIFT), (0.0, nothing), (3600.0, nothing), (3700.0, filling))
    assert back.annotations["summary"] == "query_drift: there is evidence again, not yet judged"


def test_a_standing_alert_keeps_its_identity_and_renews_its_numbers() -> None:
    guardrail = Guardrail(FILTER)
    (fired,) = told(guardrail, (100.0, BAD))
    worse = replace(BAD, estimate=0.09, lower=0.07, upper=0.11)
    guardrail.evaluate(worse, 160.0)
    now = current_alert(guardrail, worse, 160.0, "help-centre", {"cluster": "eu"})
    assert now is not None
    assert (now.identity, now.starts_at) == (fired.identity, 100.0)
    assert "at least 7.0 %" in now.annotations["summary"]
    nothing = Reading(FILTER.signal, ALL)
    guardrail.evaluate(nothing, 200.0)
    guardrail.evaluate(nothing, 290.0)
    stale = current_alert(guardrail, nothing, 290.0, "help-centre", {"cluster": "eu"})
    assert stale is not None
    assert "at least 7.0 %" in stale.annotations["summary"]
    assert "90 s" in stale.annotations["stale"]


def test_a_restored_guardrail_gives_the_same_standing_alert() -> None:
    guardrail, twin = Guardrail(FILTER), Guardrail(FILTER)
    guardrail.evaluate(BAD, 100.0)
    twin.restore(guardrail.state())
    assert current_alert(twin, BAD, 130.0, "s") == current_alert(guardrail, BAD, 130.0, "s")
    assert current_alert(Guardrail(FILTER), BAD, 0.0, "s") is None


@pytest.mark.parametrize(
    "reason",
    [
        "locale = en-US",
        "locale == 'en-US'",
        "price <= 10 and locale in (en, de-AT)",
        "locale=en-US",
        "product exists",
        "scorer lexical-1",
        "tenant = acme; tier != free",
    ],
)
def test_plain_clauses_pass_unchanged(reason: str) -> None:
    assert plain_reason(reason) == reason


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("how do I cancel my plan?", "[withheld]"),
        ("owner = jane.doe@mail.example", "[withheld]"),
        ("title = my dog ate it and locale = de", "[withheld] and locale = de"),
        ("q = 私のアカウントを削除してください", "[withheld]"),
        ("q = " + "a" * 41, "[withheld]"),
        ("locale in (en, my own words)", "[withheld]"),
        ("; ".join(["a = b"] * 20), "; ".join(["a = b"] * 8) + "; [withheld]"),
    ],
)
def test_anything_else_is_withheld_and_says_so(reason: str, shown: str) -> None:
    assert plain_reason(reason) == shown


@given(st.text())
def test_no_reason_and_no_slice_lets_a_sentence_through(text: str) -> None:
    words = re.compile(r"[A-Za-z]+ (?!in |not in |contains |exists|and |or |lexical)[A-Za-z]+")
    shown = plain_reason(text)
    assert shown.isascii()
    assert "@" not in shown
    assert not words.search(shown) or text.startswith("scorer ")
    label = plain_slice(text)
    assert label.isascii()
    assert " " not in label


def test_withheld_slices_stay_apart() -> None:
    first, second = plain_slice("tenant=Jane Doe"), plain_slice("tenant=John Doe")
    assert first.startswith("tenant=withheld-")
    assert first != second
    assert plain_slice("Jane Doe").startswith("withheld-")
