"""Encoder versions: who may alarm, under each policy."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.encoder_versions import (
    EncoderVersions,
    EncoderVersionSettings,
    UnreadableVersionsError,
    VersionError,
    VersionPolicy,
    VersionState,
)


def _versions(policy: VersionPolicy, *, kept: int = 4, adopted: tuple[str, ...] = ()) -> EncoderVersions:
    settings = EncoderVersionSettings(policy=policy, quiet_s=10, adopted=adopted)
    return EncoderVersions(settings, units=3, kept=kept)


def _fill(versions: EncoderVersions, name: str, at: float) -> None:
    for _ in range(3):
        versions.seen(name, at=at)


@pytest.mark.parametrize("policy", VersionPolicy)
def test_the_first_version_is_armed_once_its_reference_is_full(policy: VersionPolicy) -> None:
    versions = _versions(policy)
    versions.seen("a", at=0)
    versions.seen("a", at=0)
    assert not versions.may_alarm("a")
    assert "2 of 3" in versions.notice("a")
    (step,) = versions.seen("a", at=1)
    assert (step.before, step.after, step.at) == (VersionState.COLLECTING, VersionState.ARMED, 1)
    assert versions.may_alarm("a")
    assert not versions.may_alarm("b")


@pytest.mark.parametrize("policy", [VersionPolicy.FREEZE, VersionPolicy.ADOPT_AFTER_REVIEW])
def test_only_a_person_arms_a_new_version(policy: VersionPolicy) -> None:
    versions = _versions(policy)
    _fill(versions, "a", 0)
    _fill(versions, "b", 1)
    assert versions.tick(at=1e9) == ()
    assert versions.states() == {"a": VersionState.ARMED, "b": VersionState.WAITING}
    assert "until a person names it" in versions.notice("b")
    step, *others = versions.adopt("b", at=5, by="ana")
    assert (step.version, step.why) == ("b", "adopted by ana")
    assert versions.may_alarm("b")
    assert versions.may_alarm("a") is (policy is VersionPolicy.FREEZE) is (not others)


def test_a_quiet_time_adopts_and_an_alarm_starts_it_anew() -> None:
    versions = _versions(VersionPolicy.ADOPT_AFTER_QUIET)
    _fill(versions, "a", 0)
    _fill(versions, "b", 100)
    versions.alarmed(at=105)
    versions.alarmed(at=90)
    assert versions.tick(at=114.9) == ()
    assert [(step.version, step.after) for step in versions.tick(at=115)] == [
        ("b", VersionState.ARMED),
        ("a", VersionState.RETIRED),
    ]


def test_quiet_before_the_version_came_does_not_count() -> None:
    versions = _versions(VersionPolicy.ADOPT_AFTER_QUIET)
    _fill(versions, "a", 0)
    _fill(versions, "b", 1000)
    assert not versions.may_alarm("b")


def test_a_retired_version_that_returns_collects_anew() -> None:
    versions = _versions(VersionPolicy.ADOPT_AFTER_REVIEW)
    _fill(versions, "a", 0)
    _fill(versions, "b", 1)
    versions.adopt("b", at=2, by="ana")
    assert "retired" in versions.notice("a")
    (step,) = versions.seen("a", at=3)
    assert (step.before, step.after) == (VersionState.RETIRED, VersionState.COLLECTING)
    assert "1 of 3" in versions.notice("a")


def test_a_rejected_reference_is_collected_anew() -> None:
    versions = _versions(VersionPolicy.ADOPT_AFTER_REVIEW)
    _fill(versions, "a", 0)
    _fill(versions, "b", 1)
    versions.reject("b", at=2, by="ana")
    assert "0 of 3" in versions.notice("b")
    _fill(versions, "b", 3)
    assert versions.states()["b"] is VersionState.WAITING


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_what_does_not_wait_cannot_be_adopted_or_rejected(name: str) -> None:
    versions = _versions(VersionPolicy.FREEZE)
    _fill(versions, "a", 0)
    versions.seen("b", at=1)
    before = versions.state()
    with pytest.raises(VersionError):
        versions.adopt(name, at=2, by="ana")
    with pytest.raises(VersionError):
        versions.reject(name, at=2, by="ana")
    assert versions.state() == before


@pytest.mark.parametrize("policy", [VersionPolicy.FREEZE, VersionPolicy.ADOPT_AFTER_REVIEW])
def test_a_version_that_the_configuration_names_as_reviewed_is_adopted_once_it_is_full(
    policy: VersionPolicy,
) -> None:
    versions = _versions(policy, adopted=("b",))
    _fill(versions, "a", 0)
    versions.seen("b", at=1)
    assert not versions.may_alarm("b")
    _fill(versions, "b", 2)
    _fill(versions, "c", 3)
    assert versions.may_alarm("b")
    assert versions.may_alarm("a") is (policy is VersionPolicy.FREEZE)
    assert versions.states()["c"] is VersionState.WAITING


def test_a_flood_of_names_forgets_no_armed_version() -> None:
    versions = _versions(VersionPolicy.FREEZE, kept=2)
    _fill(versions, "a", 0)
    for at in range(1, 50):
        forgotten = [step.version for step in versions.seen(f"odd{at}", at=at) if step.after is None]
        assert forgotten == ([] if at == 1 else [f"odd{at - 1}"])
    assert versions.may_alarm("a")


@pytest.mark.parametrize("stored", [{}, {"alarmed": None, "versions": {"a": {"state": "odd"}}}])
def test_a_state_that_is_none_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(UnreadableVersionsError):
        EncoderVersions.from_state(EncoderVersionSettings(), stored)


@given(
    policy=st.sampled_from(VersionPolicy),
    steps=st.lists(
        st.tuples(st.sampled_from(["seen", "alarm", "tick", "adopt"]), st.sampled_from("abcdef")), max_size=80
    ),
)
def test_whatever_comes_alarms_are_armed_once_and_state_goes_on(
    policy: VersionPolicy, steps: list[tuple[str, str]]
) -> None:
    versions = _versions(policy, kept=3)
    for at, (what, name) in enumerate(steps):
        had_armed = VersionState.ARMED in versions.states().values()
        if what == "seen":
            versions.seen(name, at=at)
        elif what == "alarm":
            versions.alarmed(at=at)
        elif what == "adopt" and versions.states().get(name) is VersionState.WAITING:
            versions.adopt(name, at=at, by="ana")
        else:
            versions.tick(at=at)
        armed = [one for one in versions.states() if versions.may_alarm(one)]
        assert not had_armed or armed
        assert policy is VersionPolicy.FREEZE or len(armed) <= 1
        assert len(versions.states()) <= 3
        stored = json.loads(json.dumps(versions.state()))
        versions = EncoderVersions.from_state(versions.settings, stored, units=3, kept=versions.kept)
        assert versions.state() == stored
