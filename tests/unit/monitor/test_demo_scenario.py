"""The script as data: acts, times, and settings that fit into them at every duration."""

from __future__ import annotations

import pytest

from detectors.drift_settings import QueryDriftSettings
from detectors.run_length import WORLDS
from monitor.demo.run import MINIMUM_DURATION_S, parse_duration
from monitor.demo.scenario import ACTS, GRACE_SHARE, SESSIONS_PER_SECOND, Act, Schedule, demo_settings


@pytest.mark.parametrize("duration_s", [MINIMUM_DURATION_S, 90.0, 180.0, 600.0])
def test_acts_follow_each_other_and_fill_the_duration(duration_s: float) -> None:
    schedule = Schedule.of(duration_s)
    assert schedule.acts[0].start_s == 0.0
    assert schedule.duration_s == pytest.approx(duration_s)
    for before, after in zip(schedule.acts, schedule.acts[1:], strict=False):
        assert before.end_s == after.start_s
    for scheduled in schedule.acts:
        assert schedule.at(scheduled.start_s) is scheduled
        assert schedule.at(scheduled.end_s - 0.001) is scheduled
    assert schedule.at(duration_s + 1) is schedule.acts[-1]


def test_the_story_is_the_promised_one() -> None:
    healthy, wrong_filter, invented, uncovered, recovery = ACTS
    assert healthy.expect is None
    assert healthy.may_fire == ()
    assert (wrong_filter.expect, wrong_filter.release.hard_coded_locale) == ("filter_exclusion", "en-US")
    assert wrong_filter.reason_contains == "locale = en-US"
    assert (invented.expect, invented.release.hard_coded_locale) == ("faithfulness", None)
    assert invented.release.invention_share > 0.5
    assert uncovered.expect == "query_drift"
    assert 0.6 <= uncovered.uncovered_share <= 0.7
    assert uncovered.release.invention_share == recovery.uncovered_share == 0.0
    assert not {"latency", "cost"} & {name for act in ACTS for name in (act.expect, *act.may_fire)}
    versions = [act.release.version for act in ACTS]
    assert versions == ["2.0.4", "2.1.0", "2.2.0", "2.3.0", "2.3.0"]


def test_shares_are_stretched_whatever_their_sum() -> None:
    acts = [act.model_copy(update={"share": act.share / 3}) for act in ACTS[:2]]
    assert Schedule.of(50.0, acts).duration_s == pytest.approx(50.0)


def test_the_schedule_survives_the_command_line() -> None:
    schedule = Schedule.of(90.0)
    assert Schedule.model_validate_json(schedule.model_dump_json()) == schedule


@pytest.mark.parametrize("duration_s", [MINIMUM_DURATION_S, 90.0, 180.0, 600.0])
def test_settings_fit_the_acts(duration_s: float) -> None:
    settings, acts = demo_settings(duration_s), {s.act.name: s for s in Schedule.of(duration_s).acts}
    drift = QueryDriftSettings(
        reference_size=settings["drift_reference_size"],
        window_size=settings["drift_window_size"],
        smallest_shift=settings["drift_smallest_shift"],
        slowdown=settings["drift_slowdown"],
    )
    sessions = {name: (s.end_s - s.start_s) * SESSIONS_PER_SECOND for name, s in acts.items()}
    assert drift.reference_size + WORLDS < sessions["healthy"] + sessions["wrong_filter"]
    assert settings["drift_period_s"] > 50 * duration_s
    windows_full_s = (drift.reference_size + drift.window_size) / SESSIONS_PER_SECOND + 5.0
    assert settings["no_data_after_s"] > 1.3 * windows_full_s
    assert 3 * drift.window_size < sessions["uncovered_topic"]
    for scheduled in acts.values():
        length_s = scheduled.end_s - scheduled.start_s
        assert settings["hold_s"] + settings["evaluation_interval_s"] < 0.5 * length_s
        assert settings["rate_window_s"] < length_s
    assert settings["rate_window_s"] + settings["clear_s"] <= 2 * GRACE_SHARE * duration_s
    assert settings["minimum_evidence"] < 0.35 * 20 * settings["rate_window_s"]


def test_an_act_with_an_unknown_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="expects"):
        Act.model_validate({**ACTS[0].model_dump(), "expects": "latency"})


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("3m", 180), ("1m30s", 90), ("90", 90), ("1.5m", 90)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "3 minutes", "-90s", "90s3m", "nan", "1e3"])
def test_what_is_no_duration_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        parse_duration(text)
