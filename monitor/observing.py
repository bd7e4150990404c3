"""What was judged becomes what is known: the store, the rates, the drift windows, the change markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts.signals import ENCODER_CHANGE, QUERY_DRIFT, RATE_DRIFT, REGENERATION
from collectors.feedback import LateFeedback
from detectors.operations import asked_again
from detectors.rate_checks import ThumbsDownCheck, disliked
from monitor.drift import DriftWatch
from monitor.drift_alarms import save_alarm
from monitor.encoder_watch import EncoderWatch
from monitor.markers import ChangeWatch
from monitor.metrics import Metrics
from monitor.rate_charts import RateCharts
from monitor.rates import RateBoard
from monitor.scoring import Judgement
from monitor.store import ClosedRequest, Store, StoredFinding

_DRIFT_STATE = "query_drift/"
_ENCODER_STATE = "encoder_watch"
_BAND_STATE = "control_band/regeneration"


class Observer:
    """Owned by the judging thread; `reason` and `not_scored` are asked by the watch too."""

    def __init__(
        self,
        store: Store,
        rates: RateBoard,
        drift: DriftWatch,
        encoders: EncoderWatch,
        charts: RateCharts,
        changes: ChangeWatch,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._rates = rates
        self._drift = drift
        self._encoders = encoders
        self._charts = charts
        self._changes = changes
        self._metrics = metrics

    def restore(self, now: float, window_s: float) -> int:
        """Take up what an earlier process left: findings into their windows, windows and references of drift, and the
        control band, which must not be learnt again from an incident."""
        band = self._store.load_state(_BAND_STATE)
        if band is not None:
            self._rates.band.limits = (float(band["low"]), float(band["high"]))
        count = 0
        for stored in self._store.findings(since=now - window_s):
            self._rates.put(stored.finding, stored.scorer, stored.at)
            count += 1
        for name in self._store.state_names(_DRIFT_STATE):
            state = self._store.load_state(name)
            if state is not None:
                self._drift.restore(name.removeprefix(_DRIFT_STATE), state)
        pinned = self._store.load_state(_ENCODER_STATE)
        if pinned is not None:
            self._encoders.restore(pinned)
        return count

    def observe(self, judged: Sequence[Judgement], now: float) -> None:
        """Store first, in one transaction: only what is stored may release its message."""
        findings = [
            StoredFinding(finding=finding, scorer=scorer, at=now)
            for judgement in judged
            for scorer, finding in judgement.findings
        ]
        closed = [ClosedRequest(judgement.trace.id, judgement.trace.revision) for judgement in judged]
        self._store.record(closed, findings, at=now)
        for request in closed:
            if request.revision > 0:
                self._rates.withdraw(request.id)
        for stored in findings:
            self._rates.put(stored.finding, stored.scorer, now)
        for judgement in judged:
            self._see(judgement, now)

    def hear(self, late: LateFeedback) -> bool:
        """Take feedback on a request whose spans are gone: its answer was asked for again, or disliked,
        after all. The unit keeps its time and weight. False where there is nothing to change."""
        changed = [
            self._revise(late.request_id, check)
            for check, said in ((REGENERATION.check, asked_again), (ThumbsDownCheck.name, disliked))
            if said(late.feedback)
        ]
        return any(changed)

    def _revise(self, request_id: str, check: str) -> bool:
        stored = self._store.finding(request_id, check)
        if stored is None or stored.finding.value != 0.0:
            return False
        finding = replace(stored.finding, value=1.0, revision=stored.finding.revision + 1)
        self._store.record([], [replace(stored, finding=finding)], at=stored.at)
        self._rates.put(finding, stored.scorer, stored.at)
        return True

    def tick(self, now: float) -> None:
        """Let time pass: windows slide, units close, gauges move."""
        self._drift.tick(now)
        for alarm in self._drift.changed_alarms():
            save_alarm(self._store, alarm, now)
        self._encoders.tick(now)
        self._rates.publish(now)
        self._charts.tick(now)
        self._metrics.heartbeat.set(now)

    def save(self, now: float) -> None:
        """Keep what cannot be rebuilt from findings: windows, references and their sequential evidence."""
        for version, state in self._drift.states().items():
            self._store.save_state(_DRIFT_STATE + version, state, now)
        pinned = self._encoders.state()
        if pinned is not None:
            self._store.save_state(_ENCODER_STATE, pinned, now)
        if self._rates.band.limits is not None:
            low, high = self._rates.band.limits
            self._store.save_state(_BAND_STATE, {"low": low, "high": high}, now)

    def reason(self, signal: str, slice_name: str) -> str:
        """What an alert on this signal should say first."""
        if signal == QUERY_DRIFT.name:
            return self._drift.reason()
        if signal == ENCODER_CHANGE.name:
            return self._encoders.reason()
        if signal == RATE_DRIFT.name:
            return self._charts.reason(slice_name)
        return self._rates.reason(signal, slice_name)

    def not_scored(self, signal: str, slice_name: str) -> dict[str, int]:
        """Units in the window that do not enter the rate, by outcome."""
        return self._rates.not_scored(signal, slice_name)

    def _see(self, judgement: Judgement, now: float) -> None:
        trace = judgement.trace
        for instrumentation in trace.instrumentation or ("",):
            self._metrics.traces.labels(instrumentation, trace.completeness).inc()
            for flag in trace.flags:
                self._metrics.flags.labels(flag, instrumentation).inc()
        if trace.revision > 0:  # counted when it first closed
            return
        if trace.duration_s is not None:
            self._metrics.request_seconds.labels(trace.slices.get("service", "")).observe(trace.duration_s)
        self._drift.put(trace, now)
        self._encoders.put(trace, now)
        for marker in self._changes.put(trace, now):
            self._store.add_marker(marker)
