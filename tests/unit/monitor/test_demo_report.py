"""Verdicts on the incident, from snapshots as the sidecar gives them; and what a person is shown of them."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest

from monitor.demo.report import Report, Standing, Verdict, Watcher, draw_up
from monitor.demo.scenario import GRACE_SHARE, Schedule
from monitor.demo.terminal import LineView, LiveView, Moment, View, summary_lines, view_for
from monitor.status import AlertRecord, GuardrailStatus, Status

T0 = 1_800_000_000.0
SCHEDULE = Schedule.of(100.0)
STARTED = {scheduled.act.name: T0 + scheduled.start_s for scheduled in SCHEDULE.acts}
ENDS = {scheduled.act.name: T0 + scheduled.end_s for scheduled in SCHEDULE.acts}
CLAUSE = "locale = en-US"


def guardrail(name: str, reason: str = "", state: str = "firing", slice_name: str = "all") -> GuardrailStatus:
    return GuardrailStatus(
        guardrail=name,
        signal=name,
        slice=slice_name,
        title=f"Title of {name}",
        kind="rate",
        unit="1",
        state=state,
        since=T0,
        objective=0.05,
        estimate=0.4,
        lower=0.3,
        upper=0.5,
        evidence=120,
        effective_evidence=120.0,
        not_scored={},
        reason=reason,
        scorer="",
    )


def alert(
    name: str, fired_at: float, resolved_at: float | None = None, summary: str = "", slice_name: str = "all"
) -> AlertRecord:
    return AlertRecord(
        guardrail=name,
        slice=slice_name,
        severity="critical",
        summary=summary or f"{name} broke",
        fired_at=fired_at,
        resolved_at=resolved_at,
    )


def snapshot(*alerts: AlertRecord, guardrails: tuple[GuardrailStatus, ...] = (), problem: str = "") -> Status:
    return Status(
        version="0.1.0",
        started_at=T0,
        now=T0 + 1,
        healthy=not problem,
        problem=problem,
        guardrails=guardrails,
        drift=(),
        alerts=alerts,
        markers=(),
        counts={"spans_received": 12},
    )


def good_alerts() -> dict[str, AlertRecord]:
    """What a sidecar that works gives."""
    return {
        "filter_exclusion": alert(
            "filter_exclusion", STARTED["wrong_filter"] + 4, T0 + 50, f"blames {CLAUSE}"
        ),
        "faithfulness": alert("faithfulness", STARTED["invented_facts"] + 4, T0 + 65),
        "query_drift": alert("query_drift", STARTED["uncovered_topic"] + 9, T0 + 85),
    }


def report_of(
    *snapshots: Status, started: Mapping[str, float] = STARTED, counts: Mapping[str, int] | None = None
) -> Report:
    watcher = Watcher()
    for status in snapshots:
        watcher.see(status)
    service = {"requests": 5} if counts is None else counts
    return draw_up(
        SCHEDULE, started, watcher, version="0.1.0", seed=1, counts={"service": service, "sidecar": {}}
    )


def report_with(**changes: AlertRecord | None) -> Report:
    """The good alerts with some put in, replaced or (None) left out."""
    alerts = [found for found in {**good_alerts(), **changes}.values() if found is not None]
    return report_of(snapshot(*alerts))


def verdicts(report: Report) -> dict[str, Verdict]:
    return {expectation.guardrail: expectation.verdict for expectation in report.expectations}


def test_a_sidecar_that_sees_everything_passes() -> None:
    report = report_with()
    assert report.passed
    assert report.problems == ()
    assert set(verdicts(report).values()) == {Verdict.MET}
    assert {found.standing for found in report.alerts} == {Standing.EXPECTED}
    assert [act.name for act in report.acts] == list(STARTED)


@pytest.mark.parametrize("name", ["filter_exclusion", "faithfulness", "query_drift"])
def test_a_guardrail_that_stays_silent_fails(name: str) -> None:
    report = report_with(**{name: None})
    assert not report.passed
    assert verdicts(report)[name] is Verdict.NOT_FIRED
    assert name in report.problems[0]


@pytest.mark.parametrize("name", ["filter_exclusion", "faithfulness", "query_drift"])
def test_a_guardrail_that_never_resolves_fails(name: str) -> None:
    report = report_with(**{name: good_alerts()[name].model_copy(update={"resolved_at": None})})
    assert not report.passed
    assert verdicts(report)[name] is Verdict.UNRESOLVED


def test_the_filter_alert_must_name_its_clause() -> None:
    vague = alert("filter_exclusion", STARTED["wrong_filter"] + 4, T0 + 50, "blames product = bike")
    report = report_with(filter_exclusion=vague)
    assert not report.passed
    assert verdicts(report)["filter_exclusion"] is Verdict.WRONG_REASON


def test_the_clause_may_stand_in_the_guardrails_reason_at_any_look_while_it_fires() -> None:
    others = [found for name, found in good_alerts().items() if name != "filter_exclusion"]
    firing = alert("filter_exclusion", STARTED["wrong_filter"] + 4)
    resolved = firing.model_copy(update={"resolved_at": T0 + 50})
    report = report_of(
        snapshot(firing, guardrails=(guardrail("filter_exclusion"),)),
        snapshot(firing, guardrails=(guardrail("filter_exclusion", CLAUSE),)),
        snapshot(resolved, *others, guardrails=(guardrail("filter_exclusion", "too late to count", "ok"),)),
    )
    assert report.passed
    assert report.alerts[0].reason == CLAUSE


@pytest.mark.parametrize(("after_end_s", "met"), [(-1.0, True), (5.0, True), (100 * GRACE_SHARE + 1, False)])
def test_shortly_after_the_act_still_counts(after_end_s: float, met: bool) -> None:
    at = ENDS["invented_facts"] + after_end_s
    report = report_with(faithfulness=alert("faithfulness", at, at + 10))
    assert report.passed == met
    assert verdicts(report)["faithfulness"] is (Verdict.MET if met else Verdict.NOT_FIRED)


def test_firing_before_its_act_is_a_false_alarm() -> None:
    report = report_with(early=alert("faithfulness", STARTED["wrong_filter"] + 2, T0 + 30))
    assert not report.passed
    assert [found.standing for found in report.alerts].count(Standing.UNEXPECTED) == 1


@pytest.mark.parametrize("name", ["latency", "cost", "recall"])
@pytest.mark.parametrize("act", list(STARTED))
def test_what_no_act_allows_is_unexpected_in_every_act(name: str, act: str) -> None:
    report = report_with(other=alert(name, STARTED[act] + 1, STARTED[act] + 2))
    assert not report.passed
    assert any(name in problem for problem in report.problems)


def test_regeneration_may_follow_a_fault_but_not_come_by_itself() -> None:
    at = STARTED["wrong_filter"] + 6
    assert report_with(regeneration=alert("regeneration", at, at + 20)).passed
    assert not report_with(regeneration=alert("regeneration", STARTED["healthy"] + 3, T0 + 20)).passed


def test_a_consequence_must_resolve_too() -> None:
    report = report_with(regeneration=alert("regeneration", STARTED["recovery"] + 1))
    assert not report.passed
    assert "never resolved" in report.problems[0]


def test_slices_are_alerts_of_their_own() -> None:
    at = STARTED["wrong_filter"] + 5
    report = report_with(sliced=alert("filter_exclusion", at, None, CLAUSE, "locale=de-DE"))
    assert verdicts(report)["filter_exclusion"] is Verdict.UNRESOLVED
    assert len(report.alerts) == 4


def test_an_act_that_was_never_played_fails() -> None:
    started = {name: at for name, at in STARTED.items() if name != "recovery"}
    report = report_of(snapshot(*good_alerts().values()), started=started)
    assert not report.passed
    assert "never played" in report.problems[0]


def test_an_unhealthy_sidecar_fails_even_where_it_recovers() -> None:
    report = report_of(snapshot(problem="judging died"), snapshot(*good_alerts().values()))
    assert not report.passed
    assert "judging died" in report.problems[0]


def test_a_sighting_keeps_the_reading_that_it_fired_on() -> None:
    watcher = Watcher()
    record = alert("faithfulness", T0)
    watcher.see(snapshot(record, guardrails=(guardrail("faithfulness"),)))
    later = guardrail("faithfulness").model_copy(update={"estimate": 0.9, "evidence": 500})
    watcher.see(snapshot(record, guardrails=(later,)))
    [seen] = watcher.sightings
    assert (seen.estimate, seen.lower, seen.upper, seen.evidence) == (0.4, 0.3, 0.5, 120)
    assert watcher.firing
    watcher.see(snapshot(record.model_copy(update={"resolved_at": T0 + 5})))
    assert not watcher.firing


def test_the_report_survives_its_file() -> None:
    report = report_with()
    assert Report.model_validate_json(report.model_dump_json()) == report


def moment(watcher: Watcher, status: Status) -> Moment:
    return Moment(30.0, 100.0, SCHEDULE.at(30.0), status, watcher.sightings)


def shown(view: View) -> None:
    watcher = Watcher()
    record = alert("filter_exclusion", T0 + 30, summary=f"blames {CLAUSE}")
    for status in (
        snapshot(guardrails=(guardrail("filter_exclusion", state="ok"),)),
        snapshot(record, guardrails=(guardrail("filter_exclusion", CLAUSE),)),
        snapshot(record.model_copy(update={"resolved_at": T0 + 50})),
    ):
        watcher.see(status)
        view.show(moment(watcher, status))


def test_lines_tell_each_change_once() -> None:
    stream = io.StringIO()
    with view_for(stream, "http://127.0.0.1:9464/") as view:
        assert isinstance(view, LineView)
        shown(view)
        view.conclude(report_with())
    lines = stream.getvalue().splitlines()
    assert "http://127.0.0.1:9464/metrics" in lines[0]
    assert sum("act wrong_filter" in line for line in lines) == 1
    assert sum("FIRING" in line and CLAUSE in line for line in lines) == 1
    assert sum("resolved filter_exclusion" in line for line in lines) == 1
    assert lines[-1] == "passed"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_view_shows_states_intervals_alerts_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with view_for(stream, "http://127.0.0.1:9464/") as view:
        assert isinstance(view, LiveView)
        shown(view)
        view.conclude(report_with(faithfulness=None))
        view.say("[not markup]")
    text = stream.getvalue()
    for expected in (
        "guardrail", "objective", "Title of filter_exclusion", "firing",
        "40.0 %", "[30.0 %, 50.0 %]", "120", CLAUSE, "resolved",
        "http://127.0.0.1:9464/", "spans received 12", "faithfulness not fired", "FAILED", "[not markup]",
    ):  # fmt: skip
        assert expected in text


def test_the_summary_says_when_and_why() -> None:
    lines = summary_lines(report_with(query_drift=None))
    assert lines[0] == "wrong_filter: filter_exclusion met, fired 28.0 s into the demo"
    assert "problem: query_drift in uncovered_topic: not fired" in lines
