"""Embeddings by encoder version: never mixed, restored with their windows, and nothing unusable stops the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from alerts.plain import plain_reason
from alerts.signals import ALL, QUERY_DRIFT, Reading
from collectors.trace import RagTrace, Versions
from detectors.alibi_backend import AlibiMissing, AlibiSettings, alibi_detector
from detectors.attribution import AttributionSettings
from detectors.drift_settings import QueryDriftSettings
from detectors.embedding import HashedNgramEncoder
from detectors.encoder_versions import EncoderVersionSettings, VersionPolicy
from detectors.false_alarm_budget import FalseAlarmBudget
from detectors.units import UnitSettings
from monitor.drift import DriftWatch
from monitor.drift_evidence import DriftExplanationSettings
from monitor.metrics import Metrics
from monitor.store import Store

DIMENSIONS = 8
SETTINGS = QueryDriftSettings(
    reference_size=100,
    window_size=20,
    permutations=199,
    smallest_shift=0.3,
    slowdown=9.0,
    budget=FalseAlarmBudget(units_per_day=20.0),
)
AT_ONCE = EncoderVersionSettings(quiet_s=0.0)
EXPLAINING = DriftExplanationSettings(
    attribution=AttributionSettings(topics=4, meaning_slices=2, permutations=999)
)
MEASURED = 40
"""Units until the run lengths are measured."""


def watch(
    metrics: Metrics, settings: QueryDriftSettings = SETTINGS, policy: EncoderVersionSettings = AT_ONCE
) -> DriftWatch:
    return DriftWatch(
        UnitSettings(session_idle_s=1), settings, HashedNgramEncoder(), metrics, policy, EXPLAINING
    )


def feed(
    drift: DriftWatch,
    rows: npt.NDArray[np.floating] | Sequence[Sequence[float]],
    start: float,
    encoder: str = "e1",
    intent: str = "billing",
) -> float:
    """Each row a session of its own, a second apart; gives the time after."""
    now = start
    for row in rows:
        now += 1.0
        trace = RagTrace(
            id=f"{now}:a",
            trace_id=str(now),
            start_time_ns=0,
            query=f"a question about {intent}",
            query_embedding=tuple(map(float, row)),
            slices={"intent": intent},
            session=f"s{now}",
            versions=Versions(encoder=encoder),
        )
        drift.put(trace, now)
        drift.tick(now)
    drift.tick(now + 2)
    return now + 2


def reading(metrics: Metrics) -> Reading:
    return metrics.readings()[QUERY_DRIFT.name, ALL]


def normal(rng: np.random.Generator, count: int, shift: float = 0.0) -> npt.NDArray[np.float64]:
    return rng.normal(size=(count, DIMENSIONS)) + shift


def test_a_reference_that_fills_is_evidence_without_a_verdict() -> None:
    metrics = Metrics()
    drift = watch(metrics)
    drift.tick(0)
    assert reading(metrics).evidence == 0
    feed(drift, normal(np.random.default_rng(0), 30), 0)
    assert (reading(metrics).evidence, reading(metrics).estimate) == (30, None)


def test_a_shift_raises_the_alarm_and_its_end_clears_it() -> None:
    metrics, rng = Metrics(), np.random.default_rng(1)
    drift = watch(metrics)
    now = feed(drift, normal(rng, 100 + MEASURED), 0)
    assert reading(metrics).estimate == 0.0
    now = feed(drift, normal(rng, 80, shift=2.0), now)
    assert reading(metrics).estimate == 1.0
    feed(drift, normal(rng, 250), now)
    assert reading(metrics).estimate == 0.0


def test_encoder_versions_never_meet_in_one_window() -> None:
    metrics, rng = Metrics(), np.random.default_rng(2)
    drift = watch(metrics)
    now = feed(drift, normal(rng, 100), 0, encoder="e1")
    now = feed(drift, normal(rng, 150, shift=5.0), now, encoder="e2")
    assert reading(metrics).estimate == 0.0
    assert {status.detector for status in drift.status()} == {
        f"{detector}/{encoder}/8" for detector in ("query_mmd", "novelty") for encoder in ("e1", "e2")
    }
    wider = rng.normal(size=(5, DIMENSIONS + 1))
    feed(drift, wider, now, encoder="e2")
    assert set(drift.states()) == {"e1/8", "e2/8", "e2/9", "versions"}


def test_what_cannot_be_compared_is_counted_by_reason_and_stops_nothing() -> None:
    metrics = Metrics()
    drift = watch(metrics)
    feed(drift, [[np.nan] * DIMENSIONS, [0.0] * DIMENSIONS, [1.0] * DIMENSIONS], 0)
    drift.put(RagTrace(id="x:a", trace_id="x", start_time_ns=0), now=10)
    for reason in ("not_finite", "zero_vector", "no_query"):
        assert metrics.count_of(metrics.drift_skipped, reason=reason) == 1
    assert reading(metrics).evidence == 1


def test_windows_and_evidence_come_back_after_a_restart() -> None:
    metrics, rng = Metrics(), np.random.default_rng(3)
    drift = watch(metrics)
    now = feed(drift, normal(rng, 100 + MEASURED), 0)
    feed(drift, normal(rng, 80, shift=2.0), now)
    again = watch(Metrics())
    for version, state in drift.states().items():
        again.restore(version, state)
    assert again.status()[0].model_dump(exclude={"history"}) == drift.status()[0].model_dump(
        exclude={"history"}
    )


def test_stray_vectors_neither_evict_the_reference_nor_hide_its_alarm() -> None:
    metrics, rng = Metrics(), np.random.default_rng(5)
    drift = watch(metrics)
    now = feed(drift, normal(rng, 100 + MEASURED), 0)
    now = feed(drift, normal(rng, 80, shift=2.0), now)
    for dimensions in range(20, 30):
        now = feed(drift, rng.normal(size=(1, dimensions)), now)
        now = feed(drift, normal(rng, 1, shift=2.0), now)
    assert reading(metrics).estimate == 1.0
    assert drift.reason().startswith("encoder = e1/8; ")
    assert drift.reason().endswith("; detector = query_mmd; detector = novelty")
    assert "e1/8" in drift.states()
    assert metrics.count_of(metrics.drift_encoders_forgotten) > 0


def test_a_retired_encoders_alarm_ends_with_its_traffic() -> None:
    metrics, rng = Metrics(), np.random.default_rng(6)
    drift = watch(metrics)
    now = feed(drift, normal(rng, 100 + MEASURED), 0)
    now = feed(drift, normal(rng, 80, shift=2.0), now)
    feed(drift, normal(rng, 500), now, encoder="e2")
    assert reading(metrics).estimate == 0.0


def test_other_settings_start_a_new_reference() -> None:
    drift = watch(Metrics())
    feed(drift, normal(np.random.default_rng(4), 120), 0)
    metrics = Metrics()
    again = watch(metrics, SETTINGS.model_copy(update={"smallest_shift": 0.1}))
    for version, state in drift.states().items():
        again.restore(version, state)
    assert again.status() == ()


def test_an_alarm_names_the_slice_that_moved_and_is_told_when_it_ends() -> None:
    rng = np.random.default_rng(7)
    drift = watch(Metrics())
    now = feed(drift, normal(rng, 100 + MEASURED), 0)
    assert drift.changed_alarms() == []
    now = feed(drift, normal(rng, 60, shift=2.0), now, intent="visa")
    first, *_, began = drift.changed_alarms()
    assert first.id == began.id
    assert began.explanation is not None
    assert any((one.field, one.value) == ("intent", "visa") for one in began.explanation.findings)
    assert len(began.current) >= 20
    assert len(began.reference) > 100
    row = next(row for row in drift.status() if row.alarm)
    assert row.alarm_id == began.id
    assert any("visa" in line and "grew from 0.0 %" in line for line in row.moved)
    assert plain_reason(drift.reason()) == drift.reason()
    feed(drift, normal(rng, 250), now)
    (*_, ended) = drift.changed_alarms()
    assert (ended.id, ended.began_at) == (began.id, began.began_at)
    assert ended.ended_at is not None
    assert all(not row.moved for row in drift.status())


def test_an_alarm_goes_on_with_its_explanation_after_a_restart() -> None:
    rng = np.random.default_rng(8)
    drift = watch(Metrics())
    now = feed(drift, normal(rng, 100 + MEASURED), 0)
    now = feed(drift, normal(rng, 60, shift=2.0), now, intent="visa")
    with Store.open(":memory:") as store:
        for name, state in drift.states().items():
            store.save_state(name, state, now)
        metrics = Metrics()
        again = watch(metrics)
        for name in store.state_names():
            state = store.load_state(name)
            assert state is not None
            again.restore(name, state)
    assert again.reason() == drift.reason()
    assert again.status()[0].moved == drift.status()[0].moved
    feed(again, normal(rng, 2, shift=2.0), now, intent="visa")
    assert reading(metrics).estimate == 1.0


def test_a_new_encoder_version_does_not_alarm_until_it_is_taken_up() -> None:
    metrics, rng = Metrics(), np.random.default_rng(9)
    review = EncoderVersionSettings(policy=VersionPolicy.ADOPT_AFTER_REVIEW)
    drift = watch(metrics, policy=review)
    now = feed(drift, normal(rng, 100), 0, encoder="e1")
    now = feed(drift, normal(rng, 100 + MEASURED), now, encoder="e2")
    feed(drift, normal(rng, 80, shift=2.0), now, encoder="e2")
    assert reading(metrics).estimate != 1.0
    assert drift.changed_alarms() == []
    notes = {row.detector: row.note for row in drift.status()}
    assert "until a person names it in encoder_versions.adopted" in notes["query_mmd/e2/8"]


def test_a_version_whose_windows_are_gone_may_still_be_retired() -> None:
    """After a restart under other settings the versions' standing is known, and their windows are not."""
    rng = np.random.default_rng(12)
    slow = EncoderVersionSettings(quiet_s=1000.0)
    drift = watch(Metrics(), policy=slow)
    now = feed(drift, normal(rng, 100), 0, encoder="e1")
    now = feed(drift, normal(rng, 100), now, encoder="e2")
    again = watch(Metrics(), SETTINGS.model_copy(update={"smallest_shift": 0.1}), slow)
    for name, state in drift.states().items():
        again.restore(name, state)
    again.tick(now + 2000.0)
    assert set(again.states()) == {"versions"}


def test_alibi_detect_may_give_a_second_opinion_that_alarms_nobody() -> None:
    second = AlibiSettings(detector="lsdd", reference_size=60, window_size=20, permutations=99)
    try:
        alibi_detector(second)
    except AlibiMissing:
        pytest.skip("needs the extra alibi")
    metrics, rng = Metrics(), np.random.default_rng(11)
    drift = DriftWatch(UnitSettings(session_idle_s=1), SETTINGS, HashedNgramEncoder(), metrics, second=second)
    now = feed(drift, normal(rng, 60), 0)
    feed(drift, normal(rng, 25, shift=3.0), now)
    row = next(row for row in drift.status() if row.detector == "alibi_lsdd/e1/8")
    assert row.p_value == 0.01
    assert (row.alarm, row.evidence) == (False, None)
    assert reading(metrics).estimate != 1.0
    again = DriftWatch(
        UnitSettings(session_idle_s=1), SETTINGS, HashedNgramEncoder(), Metrics(), second=second
    )
    for name, state in drift.states().items():
        again.restore(name, state)
    assert any(row.detector == "alibi_lsdd/e1/8" and row.p_value == 0.01 for row in again.status())
