"""The guardrail's state machine, look by look; no test sleeps."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from alerts.guardrail import DEFAULT_GUARDRAILS, Guardrail, GuardrailSpec, GuardrailState, Look, Page, judge
from alerts.signals import ALL, BY_NAME, Reading
from alerts.spec import Direction

OK, PENDING, FIRING, NO_DATA = GuardrailState

SPEC = GuardrailSpec(
    name="filter_exclusion",
    signal="filter_false_exclusion_rate",
    title="Filter",
    objective=0.02,
    severity="critical",
    minimum_evidence=20,
    hold_s=60,
    clear_s=120,
    no_data_after_s=600,
)
BAND = GuardrailSpec(name="regeneration", signal="regeneration_rate", title="Again", direction=Direction.BAND)
ALARM = GuardrailSpec(name="query_drift", signal="query_drift", title="Drift", hold_s=0, clear_s=0)


def reading(low: float, high: float, n: int = 400, slice_name: str = ALL) -> Reading:
    return Reading(SPEC.signal, slice_name, (low + high) / 2, low, high, n, float(n))


BAD = reading(0.03, 0.06)
GOOD = reading(0.005, 0.015)
UNSURE = reading(0.01, 0.06)
THIN = reading(0.2, 0.9, n=5)
NOTHING = Reading(SPEC.signal, ALL)


def run(guardrail: Guardrail, *looks: tuple[float, Reading]) -> list[GuardrailState]:
    return [(guardrail.evaluate(look, now), guardrail.condition)[1] for now, look in looks]


def test_nothing_judged_yet_is_no_data_and_not_ok() -> None:
    guardrail = Guardrail(SPEC)
    assert guardrail.condition is NO_DATA
    assert guardrail.evaluate(NOTHING, 0.0) is None
    first = guardrail.evaluate(GOOD, 10.0)
    assert first is not None
    assert (first.before, first.after, first.raised, first.resolved) == (NO_DATA, OK, None, None)


def test_fires_on_the_bound_and_never_on_the_point_estimate() -> None:
    assert UNSURE.estimate is not None
    assert UNSURE.estimate > 0.02
    assert judge(SPEC, UNSURE) is Look.GOOD
    assert judge(SPEC, BAD) is Look.BREACH
    assert judge(SPEC, reading(0.02, 0.05)) is Look.GOOD  # touching is not breaking


def test_holds_before_it_fires_and_clears_before_it_resolves() -> None:
    guardrail = Guardrail(SPEC)
    states = run(guardrail, (0, GOOD), (10, BAD), (60, BAD), (70, BAD), (80, GOOD), (190, GOOD), (200, GOOD))
    assert states == [OK, PENDING, PENDING, FIRING, FIRING, FIRING, OK]


def test_a_breach_that_ends_while_pending_never_fires() -> None:
    guardrail = Guardrail(SPEC)
    assert run(guardrail, (0, BAD), (59, GOOD), (70, BAD), (129, BAD), (130, BAD)) == [
        PENDING,
        OK,
        PENDING,
        PENDING,
        FIRING,
    ]


def test_a_relapse_while_clearing_starts_the_wait_anew() -> None:
    guardrail = Guardrail(SPEC.model_copy(update={"hold_s": 0}))
    states = run(guardrail, (0, BAD), (10, GOOD), (100, BAD), (110, GOOD), (200, GOOD), (230, GOOD))
    assert states == [FIRING, FIRING, FIRING, FIRING, FIRING, OK]


def test_without_hold_it_fires_at_once_and_pages_once() -> None:
    guardrail = Guardrail(SPEC.model_copy(update={"hold_s": 0}))
    fired = guardrail.evaluate(BAD, 5.0)
    assert fired is not None
    assert (fired.after, fired.raised) == (FIRING, Page.BREACH)
    assert [guardrail.evaluate(BAD, 5.0 + look) for look in range(1, 50)] == [None] * 49


def test_thin_evidence_neither_fires_nor_resolves() -> None:
    guardrail = Guardrail(SPEC.model_copy(update={"hold_s": 0, "clear_s": 0}))
    assert run(guardrail, (0, THIN), (1, GOOD), (2, THIN), (3, BAD), (4, reading(0.0, 0.01, n=19))) == [
        NO_DATA,
        OK,
        OK,
        FIRING,
        FIRING,
    ]


def test_weights_count_by_effective_and_not_by_raw_evidence() -> None:
    assert judge(SPEC, replace(BAD, evidence=4000, effective_evidence=12.0)) is Look.BLIND


def test_evidence_that_ends_while_firing_is_stale_and_then_no_data_and_never_a_repair() -> None:
    guardrail = Guardrail(SPEC.model_copy(update={"hold_s": 0}))
    guardrail.evaluate(BAD, 0.0)
    assert not guardrail.stale
    assert run(guardrail, (10, NOTHING), (609, NOTHING)) == [FIRING, FIRING]
    assert guardrail.stale
    ended = guardrail.evaluate(NOTHING, 610.0)
    assert ended is not None
    assert (ended.after, ended.resolved, ended.raised) == (NO_DATA, Page.BREACH, Page.NO_EVIDENCE)
    assert ended.interrupted
    assert ended.resolved_since == 0.0
    assert ended.judged == BAD
    back = guardrail.evaluate(BAD, 700.0)  # at once, although hold_s may be long: it fired before
    assert back is not None
    assert (back.after, back.resolved, back.raised) == (FIRING, Page.NO_EVIDENCE, Page.BREACH)


def test_an_interrupted_guardrail_fires_again_without_a_hold_and_may_also_come_back_healthy() -> None:
    for first, expected in ((BAD, FIRING), (GOOD, OK)):
        guardrail = Guardrail(SPEC)
        assert run(guardrail, (0, BAD), (60, BAD), (61, NOTHING), (661, NOTHING))[-1] is NO_DATA
        assert run(guardrail, (700, first)) == [expected]


def test_a_gap_while_clearing_starts_the_wait_anew() -> None:
    guardrail = Guardrail(SPEC.model_copy(update={"hold_s": 0}))
    states = run(guardrail, (0, BAD), (10, GOOD), (100, NOTHING), (130, GOOD), (249, GOOD), (250, GOOD))
    assert states == [FIRING, FIRING, FIRING, FIRING, FIRING, OK]


def test_silence_of_the_whole_traffic_pages_once_and_ends_with_evidence() -> None:
    guardrail = Guardrail(SPEC)
    guardrail.evaluate(GOOD, 0.0)
    silent = [guardrail.evaluate(NOTHING, float(now)) for now in range(1, 2000)]
    transitions = [transition for transition in silent if transition is not None]
    assert [(t.at, t.after, t.raised) for t in transitions] == [(601.0, NO_DATA, Page.NO_EVIDENCE)]
    back = guardrail.evaluate(GOOD, 2000.0)
    assert back is not None
    assert (back.after, back.resolved, back.resolved_since) == (OK, Page.NO_EVIDENCE, 601.0)


def test_silence_from_the_very_start_pages_too() -> None:
    guardrail = Guardrail(SPEC)
    guardrail.evaluate(NOTHING, 0.0)
    raised = guardrail.evaluate(NOTHING, 600.0)
    assert raised is not None
    assert (raised.before, raised.after, raised.raised) == (NO_DATA, NO_DATA, Page.NO_EVIDENCE)
    assert guardrail.memory.since == 0.0


def test_a_slice_that_goes_home_does_not_page_unless_it_was_firing() -> None:
    name = "tenant=acme"
    nothing = replace(NOTHING, slice=name)
    for first, page in (
        (reading(0.0, 0.01, slice_name=name), None),
        (replace(BAD, slice=name), Page.NO_EVIDENCE),
    ):
        guardrail = Guardrail(SPEC.model_copy(update={"hold_s": 0}), name)
        run(guardrail, (0, first), (1, nothing))
        gone = guardrail.evaluate(nothing, 601.0)
        assert gone is not None
        assert (gone.after, gone.raised) == (NO_DATA, page)


def test_a_band_breaks_on_both_sides_and_is_not_judged_before_it_is_known() -> None:
    def seen(lower: float, upper: float, low: float | None, high: float | None) -> Look:
        return judge(BAND, Reading(BAND.signal, ALL, (lower + upper) / 2, lower, upper, 99, 99.0, low, high))

    assert seen(0.10, 0.20, 0.05, 0.15) is Look.GOOD
    assert seen(0.16, 0.20, 0.05, 0.15) is Look.BREACH
    assert seen(0.01, 0.04, 0.05, 0.15) is Look.BREACH
    assert seen(0.01, 0.04, None, None) is Look.LEARNING


def test_a_band_that_is_being_learnt_is_no_silence() -> None:
    learning = Reading(BAND.signal, ALL, 0.1, 0.05, 0.15, 99, 99.0)
    guardrail = Guardrail(BAND)
    assert [guardrail.evaluate(learning, now * 1e4) for now in range(100)] == [None] * 100
    assert guardrail.condition is NO_DATA


def test_traffic_that_returns_ends_the_page_although_the_band_is_not_known_yet() -> None:
    guardrail = Guardrail(BAND)
    run(guardrail, (0, Reading(BAND.signal, ALL)), (4000, Reading(BAND.signal, ALL)))
    assert guardrail.memory.page is Page.NO_EVIDENCE
    back = guardrail.evaluate(Reading(BAND.signal, ALL, 0.1, 0.05, 0.15, 99, 99.0), 4010.0)
    assert back is not None
    assert (back.after, back.resolved) == (NO_DATA, Page.NO_EVIDENCE)


def test_an_alarm_follows_its_detector_and_its_filling_reference_is_no_silence() -> None:
    guardrail = Guardrail(ALARM)
    filling = Reading("query_drift", ALL, None, evidence=30)
    calm, alarm = (Reading("query_drift", ALL, value, evidence=500) for value in (0.0, 1.0))
    assert run(guardrail, (0, filling), (9999, filling), (10_000, calm), (10_001, alarm), (10_002, calm)) == [
        NO_DATA,
        NO_DATA,
        OK,
        FIRING,
        OK,
    ]
    assert judge(ALARM, Reading("query_drift", ALL)) is Look.BLIND


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_no_numbers_are_no_evidence(bad: float) -> None:
    assert judge(SPEC, replace(BAD, lower=bad)) is Look.BLIND
    assert judge(SPEC, replace(BAD, estimate=bad)) is Look.BLIND
    assert judge(ALARM, Reading("query_drift", ALL, bad)) is Look.BLIND


def test_a_reading_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="filter_exclusion watches filter_false_exclusion_rate/all, not"):
        Guardrail(SPEC).evaluate(replace(BAD, slice="locale=de"), 0.0)


LOOKS = st.lists(
    st.tuples(st.floats(0, 400), st.sampled_from([BAD, GOOD, UNSURE, THIN, NOTHING])), max_size=40
)


@given(LOOKS, LOOKS)
def test_state_survives_json_at_any_moment(
    before: list[tuple[float, Reading]], after: list[tuple[float, Reading]]
) -> None:
    now, guardrail = 0.0, Guardrail(SPEC)
    for wait, look in before:
        now += wait
        guardrail.evaluate(look, now)
    twin = Guardrail(SPEC)
    twin.restore(json.loads(json.dumps(guardrail.state())))
    for wait, look in after:
        now += wait
        assert twin.evaluate(look, now) == guardrail.evaluate(look, now)
    assert twin.state() == guardrail.state()


@given(LOOKS)
def test_pages_begin_and_end_in_turn_and_match_the_state(looks: list[tuple[float, Reading]]) -> None:
    now, guardrail, standing = 0.0, Guardrail(SPEC), None
    for wait, look in looks:
        now += wait
        transition = guardrail.evaluate(look, now)
        if transition is not None:
            assert transition.resolved in (standing, None)
            assert transition.raised is None or transition.resolved is standing
            if transition.resolved or transition.raised:
                standing = transition.raised
        assert standing is guardrail.memory.page
        assert (standing is Page.BREACH) == (guardrail.condition is FIRING)


@pytest.mark.parametrize(
    "state", [{"condition": "fine"}, {"condition": "ok", "surprise": 1}, {"since": "soon"}]
)
def test_a_state_that_is_none_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Guardrail(SPEC).restore(state)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"signal": "filter_exclusion"}, "did you mean 'filter_false_exclusion_rate'"),
        ({"objective": None}, "a ceiling needs an objective"),
        ({"objective": 2.0}, "lies between 0 and 1"),
        ({"objective": math.nan}, "finite"),
        ({"direction": "band"}, "only a ceiling has an objective"),
        ({"signal": "query_drift", "direction": "band", "objective": None}, "has no band"),
        ({"signal": "query_drift"}, "only a ceiling has an objective"),
        ({"name": "Filter exclusion"}, "should match pattern"),
        ({"hold_s": -1}, "greater than or equal to 0"),
        ({"holds_s": 1}, "Extra inputs"),
    ],
)
def test_a_wrong_definition_says_what_is_wrong(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GuardrailSpec.model_validate(SPEC.model_dump() | changes)


def test_the_defaults_are_the_minimal_set_and_watch_known_signals() -> None:
    assert [spec.name for spec in DEFAULT_GUARDRAILS] == [
        "faithfulness",
        "latency",
        "filter_exclusion",
        "regeneration",
        "cost",
        "query_drift",
        "encoder_change",
    ]
    # Control charts need two weeks before they say anything: who wants to be paged by them asks for it.
    assert set(BY_NAME) - {spec.signal for spec in DEFAULT_GUARDRAILS} == {"rate_drift"}
