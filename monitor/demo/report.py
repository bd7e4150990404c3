"""What the sidecar saw of the scripted incident, held against what each act must make fire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from monitor.demo.scenario import GRACE_SHARE, Act, Schedule
from monitor.status import AlertRecord, GuardrailStatus, Status


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Standing(StrEnum):
    """What an alert means to the script."""

    EXPECTED = "expected"
    CONSEQUENCE = "consequence"
    """Of a fault that another guardrail is there for; the act names it as one that may fire."""
    UNEXPECTED = "unexpected"


class Verdict(StrEnum):
    """Whether an act's guardrail did its work."""

    MET = "met"
    NOT_FIRED = "not_fired"
    """Not within the act, nor shortly after."""
    WRONG_REASON = "wrong_reason"
    UNRESOLVED = "unresolved"


class Sighting(_Frozen):
    """One alert as it was watched. Times are Unix seconds; the numbers are the guardrail's when it was first seen."""

    guardrail: str
    slice: str
    severity: str
    summary: str
    fired_at: float
    resolved_at: float | None = None
    reason: str = Field(default="", description="What the guardrail blamed, all it said while firing.")
    objective: float | None = None
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    evidence: int = 0
    standing: Standing | None = Field(default=None, description="Set once the report is drawn up.")


class ActReport(_Frozen):
    """One act as it was played, Unix seconds."""

    name: str
    title: str
    release: str
    start: float
    end: float
    expect: str | None


class Expectation(_Frozen):
    """One act's guardrail and what became of it."""

    act: str
    guardrail: str
    reason_contains: str
    verdict: Verdict
    fired_at: float | None = None
    resolved_at: float | None = None


class Report(_Frozen):
    """The whole outcome; `passed` decides the exit status. `counts` are the service's own and the sidecar's."""

    version: str
    seed: int
    duration_s: float
    passed: bool
    problems: tuple[str, ...] = Field(description="Why it did not pass, for people; empty where it did.")
    acts: tuple[ActReport, ...]
    expectations: tuple[Expectation, ...]
    alerts: tuple[Sighting, ...]
    counts: Mapping[str, Mapping[str, int]]


class Watcher:
    """Collects alerts from the sidecar's snapshots, each with the reading behind it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, float], Sighting] = {}
        self.problem = ""
        """What the sidecar said of itself when it was first unhealthy."""

    def see(self, status: Status) -> None:
        """Take one snapshot; snapshots come in order."""
        if not status.healthy and not self.problem:
            self.problem = status.problem or "unhealthy, without a word"
        guardrails = {(g.guardrail, g.slice): g for g in status.guardrails}
        for alert in status.alerts:
            key = (alert.guardrail, alert.slice, alert.fired_at)
            guardrail = guardrails.get(key[:2])
            self._seen[key] = _update(self._seen.get(key) or _first(alert, guardrail), alert, guardrail)

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """All alerts so far, oldest first."""
        return tuple(sorted(self._seen.values(), key=lambda sighting: sighting.fired_at))

    @property
    def firing(self) -> bool:
        """Whether any alert is open."""
        return any(sighting.resolved_at is None for sighting in self._seen.values())


def draw_up(
    schedule: Schedule,
    started: Mapping[str, float],
    watcher: Watcher,
    *,
    version: str,
    seed: int,
    counts: Mapping[str, Mapping[str, int]],
) -> Report:
    """Hold what was seen against the script; `started` says when each act truly began, Unix seconds."""
    acts = _acts(schedule, started)
    grace_s = GRACE_SHARE * schedule.duration_s
    alerts = tuple(
        sighting.model_copy(update={"standing": _standing(sighting, acts, grace_s)})
        for sighting in watcher.sightings
    )
    expectations = tuple(
        _expectation(act, played, alerts, grace_s) for act, played in acts if act.expect is not None
    )
    problems = _problems(expectations, alerts, watcher.problem, len(schedule.acts) - len(acts))
    return Report(
        version=version,
        seed=seed,
        duration_s=schedule.duration_s,
        passed=not problems,
        problems=problems,
        acts=tuple(played for _, played in acts),
        expectations=expectations,
        alerts=alerts,
        counts=counts,
    )


def _first(alert: AlertRecord, guardrail: GuardrailStatus | None) -> Sighting:
    sighting = Sighting.model_validate(alert.model_dump())
    if guardrail is None:
        return sighting
    names = ("objective", "estimate", "lower", "upper", "evidence")
    return sighting.model_copy(update={name: getattr(guardrail, name) for name in names})


def _update(known: Sighting, alert: AlertRecord, guardrail: GuardrailStatus | None) -> Sighting:
    reason = known.reason
    if guardrail is not None and alert.resolved_at is None and guardrail.reason not in reason:
        reason = "; ".join(filter(None, (reason, guardrail.reason)))
    return known.model_copy(update={"resolved_at": alert.resolved_at, "reason": reason})


def _acts(schedule: Schedule, started: Mapping[str, float]) -> list[tuple[Act, ActReport]]:
    """The acts that were played."""
    acts = []
    for scheduled in schedule.acts:
        act = scheduled.act
        if act.name in started:
            start = started[act.name]
            end = start + scheduled.end_s - scheduled.start_s
            acts.append(
                (
                    act,
                    ActReport(
                        name=act.name,
                        title=act.title,
                        release=act.release.version,
                        start=start,
                        end=end,
                        expect=act.expect,
                    ),
                )
            )
    return acts


def _during(sighting: Sighting, played: ActReport, grace_s: float) -> bool:
    return played.start <= sighting.fired_at <= played.end + grace_s


def _standing(sighting: Sighting, acts: Sequence[tuple[Act, ActReport]], grace_s: float) -> Standing:
    playing = [act for act, played in acts if _during(sighting, played, grace_s)]
    if any(sighting.guardrail == act.expect for act in playing):
        return Standing.EXPECTED
    if any(sighting.guardrail in act.may_fire for act in playing):
        return Standing.CONSEQUENCE
    return Standing.UNEXPECTED


def _expectation(act: Act, played: ActReport, alerts: Sequence[Sighting], grace_s: float) -> Expectation:
    mine = [a for a in alerts if a.guardrail == act.expect and _during(a, played, grace_s)]
    named = [a for a in mine if act.reason_contains in f"{a.summary} {a.reason}"]
    if not mine:
        verdict = Verdict.NOT_FIRED
    elif not named:
        verdict = Verdict.WRONG_REASON
    elif any(a.resolved_at is None for a in mine):
        verdict = Verdict.UNRESOLVED
    else:
        verdict = Verdict.MET
    first = next(iter(named or mine), None)
    return Expectation(
        act=act.name,
        guardrail=str(act.expect),
        reason_contains=act.reason_contains,
        verdict=verdict,
        fired_at=None if first is None else first.fired_at,
        resolved_at=None if first is None else first.resolved_at,
    )


def _problems(
    expectations: Sequence[Expectation], alerts: Sequence[Sighting], unhealthy: str, missing_acts: int
) -> tuple[str, ...]:
    problems = [f"the sidecar was unhealthy: {unhealthy}"] if unhealthy else []
    problems += [
        f"{e.guardrail} in {e.act}: {e.verdict.replace('_', ' ')}"
        for e in expectations
        if e.verdict is not Verdict.MET
    ]
    problems += [
        f"{a.guardrail} on {a.slice} fired unexpectedly: {a.summary}"
        for a in alerts
        if a.standing is Standing.UNEXPECTED
    ]
    problems += [
        f"{a.guardrail} on {a.slice} never resolved"
        for a in alerts
        if a.standing is Standing.CONSEQUENCE and a.resolved_at is None
    ]
    if missing_acts:
        problems.append(f"{missing_acts} of the acts were never played")
    return tuple(problems)
