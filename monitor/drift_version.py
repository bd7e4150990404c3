"""One encoder version under watch: its units, its detectors, its alarm and what explains it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detectors.alibi_backend import AlibiDetector, AlibiSettings, alibi_detector
from detectors.drift_ensemble import DriftEnsemble, Watched
from detectors.drift_settings import QueryDriftSettings
from detectors.entries import number, put, text, under
from detectors.units import UnitSettings, UnitTracker
from detectors.verdict import DriftVerdict, State
from monitor.drift_alarms import DriftAlarm, alarm_id
from monitor.drift_evidence import DriftEvidence, DriftExplanationSettings, SeenQuery
from monitor.status import DriftStatus, Point

_POINTS = 600
_FEW = 10
"""Units that are worth another look at an alarm."""


@dataclass(slots=True)
class WatchedVersion:
    """`seen` is how the detectors stood last, `alarm` the alarm that lasts. One owner."""

    name: str
    tracker: UnitTracker[SeenQuery]
    ensemble: DriftEnsemble
    evidence: DriftEvidence
    again_s: float
    second: AlibiDetector | None = None
    """Another maker's test of the same units, shown beside ours; never an alarm."""
    second_verdict: DriftVerdict | None = None
    seen: tuple[Watched, ...] = ()
    alarm: DriftAlarm | None = None
    _histories: dict[str, deque[Point]] = field(default_factory=dict)
    _unseen_by_second: int = 0
    _units_in_alarm: int = 0
    _explained_with: int = 0
    """Of those, the ones that were there when it was explained last."""

    @classmethod
    def make(
        cls,
        name: str,
        units: UnitSettings,
        drift: QueryDriftSettings,
        explaining: DriftExplanationSettings,
        second: AlibiSettings | None = None,
    ) -> WatchedVersion:
        """A version of which nothing is known yet."""
        return cls(
            name,
            UnitTracker(units),
            DriftEnsemble(drift),
            DriftEvidence(explaining),
            explaining.again_s,
            None if second is None else alibi_detector(second),
        )

    def push(self, unit: list[SeenQuery], now: float) -> None:
        """One closed unit into the detectors, then beside them. Raises an UnusableVectors and keeps nothing of it."""
        is_reference = not self.ensemble.armed
        rows = np.stack([query.row for query in unit])
        self.ensemble.push(rows, now)
        if self.second is not None:
            self.second.push(rows, now)
            self._unseen_by_second += 1
        self.evidence.put(unit, is_reference=is_reference)
        self._units_in_alarm += self.alarm is not None

    def look(self, now: float) -> None:
        """Note how the detectors stand. The second opinion costs a whole test, so it looks once a window."""
        if self.second is not None and self._unseen_by_second >= self.second.settings.window_size:
            self.second_verdict, self._unseen_by_second = self.second.test(), 0
        self.seen = self.ensemble.watched()
        for watched in self.seen:
            if watched.evidence is not None:
                history = self._histories.setdefault(watched.detector, deque(maxlen=_POINTS))
                history.append(Point(time=now, estimate=watched.evidence))

    def follow_alarm(self, now: float, *, may_alarm: bool) -> DriftAlarm | None:
        """Begin, explain anew or end the alarm; gives it where that changed it."""
        alarmed = tuple(watched.detector for watched in self.seen if watched.alarm) if may_alarm else ()
        before = self.alarm
        if before is None:
            self.alarm = self._begin(alarmed, now) if alarmed else None
            return self.alarm
        if not alarmed:
            self.alarm = None
            return before.model_copy(update={"ended_at": now})
        if not self._has_news(before, now):
            return None
        self.alarm = self._explained(before, now)
        return self.alarm

    def _has_news(self, alarm: DriftAlarm, now: float) -> bool:
        """Whether there is enough to explain it anew with: twice the units, or a while later a few."""
        since = self._units_in_alarm - self._explained_with
        late = now - (alarm.explained_at or alarm.began_at) >= self.again_s
        return since >= max(_FEW, self._explained_with) or (late and since >= _FEW)

    def _begin(self, detectors: tuple[str, ...], now: float) -> DriftAlarm:
        self._units_in_alarm = 0
        alarm = DriftAlarm(id=alarm_id(now), encoder=self.name, detectors=detectors, began_at=now)
        return self._explained(alarm, now)

    def _explained(self, alarm: DriftAlarm, now: float) -> DriftAlarm:
        latest = self.ensemble.settings.window_size + self._units_in_alarm
        self._explained_with = self._units_in_alarm
        reference, current = self.evidence.places(latest)
        return alarm.model_copy(
            update={
                "explained_at": now,
                "explanation": self.evidence.explain(latest, self.ensemble.settings.seed),
                "reference": tuple(reference),
                "current": tuple(current),
            }
        )

    def reason(self) -> str:
        """In clauses: whose vectors moved, who saw it, and the slice or topic that explains it best."""
        alarmed = [f"detector = {watched.detector}" for watched in self.seen if watched.alarm]
        explanation = None if self.alarm is None else self.alarm.explanation
        moved = [f"{one.field} = {one.value}" for one in explanation.findings[:1]] if explanation else []
        return "; ".join([f"encoder = {self.name}", *moved, *alarmed])

    def status(self, notice: str) -> tuple[DriftStatus, ...]:
        """One row a detector; `notice` says how the version stands among others."""
        own = tuple(self._row(watched, notice) for watched in self.seen or self.ensemble.watched())
        return own if self.second_verdict is None else (_second(self.name, self.second_verdict), *own)

    def _row(self, watched: Watched, notice: str) -> DriftStatus:
        verdict = watched.verdict
        alarm = self.alarm if watched.alarm else None
        explanation = None if alarm is None else alarm.explanation
        return DriftStatus(
            detector=f"{watched.detector}/{self.name}",
            statistic=None if verdict is None else verdict.statistic,
            lower=None if verdict is None else verdict.lower,
            upper=None if verdict is None else verdict.upper,
            p_value=None if verdict is None else verdict.p_value,
            evidence=watched.evidence,
            threshold=watched.threshold,
            reference_size=watched.reference_size,
            current_size=0 if verdict is None else verdict.current_size,
            alarm=watched.alarm,
            standing=watched.standing,
            note="; ".join(filter(None, (watched.note, notice))),
            run_length=watched.run_length,
            run_length_one_in_ten=watched.run_length_one_in_ten,
            moved=() if explanation is None else tuple(one.wording for one in explanation.findings),
            alarm_id="" if alarm is None else alarm.id,
            history=tuple(self._histories.get(watched.detector, ())),
        )

    def state(self) -> State:
        """Detectors, evidence and the alarm that lasts."""
        alarm = "" if self.alarm is None else self.alarm.model_dump_json()
        kept: dict[str, Any] = {"alarm": alarm, "units_in_alarm": self._units_in_alarm}
        if self.second is not None:
            kept |= put("second", self.second.state())
        return kept | put("ensemble", self.ensemble.state()) | put("evidence", self.evidence.state())

    def restore(self, state: State) -> None:
        """Take up a state. Raises ValueError or KeyError where it is none, or one of other settings."""
        ensemble = DriftEnsemble.from_state(under("ensemble", state))
        if ensemble.settings != self.ensemble.settings:
            raise ValueError("the settings changed")
        alarm = text(state, "alarm")
        self.evidence.restore(under("evidence", state))
        self.alarm = DriftAlarm.model_validate_json(alarm) if alarm else None
        self._units_in_alarm = self._explained_with = int(number(state, "units_in_alarm"))
        self.ensemble, self.seen = ensemble, ensemble.watched()
        second = under("second", state)
        if self.second is not None and second:
            restored = type(self.second).from_state(second)
            if restored.settings == self.second.settings:
                self.second, self.second_verdict = restored, restored.test()


def _second(name: str, verdict: DriftVerdict) -> DriftStatus:
    return DriftStatus(
        detector=f"{verdict.detector}/{name}",
        statistic=verdict.statistic,
        p_value=verdict.p_value,
        evidence=None,
        threshold=None,
        reference_size=verdict.reference_size,
        current_size=verdict.current_size,
        alarm=False,
        note="second opinion: shown, never paged on",
    )
