"""Query drift: queries into the detectors of their encoder version, what those say into the registry."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import Counter, OrderedDict, deque

import numpy as np
import numpy.typing as npt
from prometheus_client import Gauge

from alerts.signals import ALL, QUERY_DRIFT
from collectors.trace import RagTrace
from detectors.alibi_backend import AlibiSettings
from detectors.drift_ensemble import Standing, Watched
from detectors.drift_settings import QueryDriftSettings
from detectors.embedding import EncoderUnavailable, QueryEncoder
from detectors.encoder_versions import (
    EncoderVersions,
    EncoderVersionSettings,
    Transition,
    UnreadableVersionsError,
    VersionState,
)
from detectors.entries import text
from detectors.units import UnitSettings
from detectors.vectors import UnusableVectors
from detectors.verdict import State
from monitor.drift_alarms import DriftAlarm
from monitor.drift_evidence import DriftExplanationSettings, SeenQuery
from monitor.drift_version import WatchedVersion
from monitor.embedding_endpoint import DeferredEncoding
from monitor.metrics import Metrics
from monitor.status import DriftStatus

_LOG = logging.getLogger(__name__)
_RECENT = 500
_LIVE_SHARE = 0.1
_MAX_ENCODERS = 4
"""Versions kept: the current encoder's and those of a migration under way."""
_POLICY = "versions"
"""The name under which the versions' standing is stored, beside the versions themselves, whose names hold a slash."""


class DriftWatch:
    """Windows never mix encoder versions: a new version starts a new reference, and the policy says when that one may
    alarm. One owner; `status` and `reason` may be asked from any thread."""

    def __init__(
        self,
        units: UnitSettings,
        drift: QueryDriftSettings,
        encoder: QueryEncoder,
        metrics: Metrics,
        policy: EncoderVersionSettings | None = None,
        explaining: DriftExplanationSettings | None = None,
        deferred: DeferredEncoding | None = None,
        second: AlibiSettings | None = None,
    ) -> None:
        self._units = units
        self._drift = drift
        self._encoder = encoder
        self._deferred = deferred
        self._second = second
        self._metrics = metrics
        self._explaining = explaining or DriftExplanationSettings()
        self._policy = EncoderVersions(policy, units=drift.reference_size, kept=_MAX_ENCODERS)
        self._versions: OrderedDict[str, WatchedVersion] = OrderedDict()
        """By encoder version, the one longest without a query first."""
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._changed: list[DriftAlarm] = []
        self._lock = threading.Lock()

    def put(self, trace: RagTrace, now: float) -> None:
        """Take the trace's query embedding: the logged one, else the configured encoder's, which may come later."""
        if trace.query_embedding is not None:
            row = np.asarray(trace.query_embedding, dtype=np.float32)
            self._take(trace, row, f"{trace.versions.encoder or 'logged'}/{row.shape[0]}", now)
        elif not trace.query:
            self._metrics.drift_skipped.labels("no_query").inc()
        elif self._deferred is None:
            self._encode(trace, trace.query, now)
        elif not self._deferred.offer(trace):
            self._metrics.drift_skipped.labels("encoder_busy").inc()

    def _encode(self, trace: RagTrace, query: str, now: float) -> None:
        try:
            row = self._encoder.encode([query])[0]
        except EncoderUnavailable:
            self._metrics.drift_skipped.labels("encoder_unavailable").inc()
            return
        self._take(trace, row, self._encoder.name, now)

    def _take(self, trace: RagTrace, row: npt.NDArray[np.float32], version: str, now: float) -> None:
        unusable = "not_finite" if not np.isfinite(row).all() else "" if row.any() else "zero_vector"
        if unusable:
            self._metrics.drift_skipped.labels(unusable).inc()
            return
        query = SeenQuery(row, trace.query or "", trace.slices)
        self._of(version).tracker.add(trace.session, query, now)
        self._recent.append(version)

    def tick(self, now: float) -> None:
        """Push what closed, compare, publish."""
        for trace, row in self._deferred.done() if self._deferred is not None else ():
            self._take(trace, row, self._encoder.name, now)
        live = self._live()
        self._note(self._policy.tick(at=now))
        for name, version in list(self._versions.items()):
            if name in live:
                version.ensemble.share_among(len(live))
            units = version.tracker.closed(now)
            for unit in units:
                self._note(self._policy.seen(name, at=now))
                self._push(version, unit, now)
            if units:
                self._look(version, now)
        self._metrics.drift_units_closed_early.set(
            sum(version.tracker.closed_early for version in self._versions.values())
        )
        self._metrics.drift_left_out.set(sum(version.tracker.left_out for version in self._versions.values()))
        self._signal()

    def changed_alarms(self) -> list[DriftAlarm]:
        """The alarms that began, were explained anew or ended since the last call."""
        changed, self._changed = self._changed, []
        return changed

    def states(self) -> dict[str, State]:
        """Every encoder version's detectors, windows and references, and how the versions stand."""
        states: dict[str, State] = {name: version.state() for name, version in self._versions.items()}
        return states | {_POLICY: {"versions": json.dumps(self._policy.state())}}

    def restore(self, name: str, state: State) -> None:
        """Take up what an earlier process stored under a name of `states`.

        A state of another shape or of other settings is not carried on: its evidence was gathered under another
        budget. The reference then starts anew, and the log says so.
        """
        try:
            if name == _POLICY:
                self._policy = EncoderVersions.from_state(
                    self._policy.settings,
                    json.loads(text(state, "versions")),
                    units=self._drift.reference_size,
                    kept=_MAX_ENCODERS,
                )
                return
            version = self._new(name)
            version.restore(state)
        except (ValueError, KeyError, UnreadableVersionsError) as error:
            _LOG.warning("query drift, encoder %s: starting a new reference: %s", name, error)
            return
        with self._lock:
            self._versions[name] = version
        self._recent.append(name)

    def status(self) -> tuple[DriftStatus, ...]:
        """One row a detector and encoder version; a version without traffic only where it has compared something."""
        with self._lock:
            live = self._live()
            return tuple(
                row
                for name, version in self._versions.items()
                for row in version.status(self._notice(name))
                if name in live or row.statistic is not None
            )

    def reason(self) -> str:
        """What the alert says first: whose vectors they are, what moved, and which detectors say so."""
        with self._lock:
            live = self._live()
            alarmed = [name for name in live if self._versions[name].alarm is not None]
            if alarmed:
                return self._versions[alarmed[0]].reason()
            return f"encoder = {live[0]}" if live else ""

    def _push(self, version: WatchedVersion, unit: list[SeenQuery], now: float) -> None:
        try:
            version.push(unit, now)
        except UnusableVectors as error:
            self._metrics.drift_skipped.labels(error.reason).inc(len(unit))

    def _look(self, version: WatchedVersion, now: float) -> None:
        with self._lock:
            version.look(now)
            changed = version.follow_alarm(now, may_alarm=self._policy.may_alarm(version.name))
        if version.alarm is not None:
            self._policy.alarmed(at=now)
        if changed is not None:
            self._changed.append(changed)
        self._publish(version.name, version.seen)

    def _note(self, steps: tuple[Transition, ...]) -> None:
        """What becomes of versions: one that retires or comes back starts anew, one that is taken up begins without
        the evidence of the time before."""
        for step in steps:
            _LOG.info("query drift, encoder %s: %s: %s", step.version, step.after or "forgotten", step.why)
            version = self._versions.get(step.version)
            if version is None:  # its windows made room for others', or could not be taken up after a restart
                continue
            if step.before is VersionState.WAITING and step.after is VersionState.ARMED:
                version.ensemble.restart_alarms()
            elif step.after is VersionState.RETIRED:
                fresh = self._new(step.version)
                fresh.tracker = version.tracker
                with self._lock:
                    self._versions[step.version] = fresh

    def _notice(self, name: str) -> str:
        states = self._policy.states()
        if states.get(name) is VersionState.ARMED or len(states) < 2:
            return ""
        return self._policy.notice(name)

    def _new(self, name: str) -> WatchedVersion:
        return WatchedVersion.make(name, self._units, self._drift, self._explaining, self._second)

    def _of(self, name: str) -> WatchedVersion:
        with self._lock:
            if name not in self._versions:
                self._versions[name] = self._new(name)
            self._versions.move_to_end(name)
            while len(self._versions) > _MAX_ENCODERS:
                gone, _ = self._versions.popitem(last=False)
                self._metrics.drift_encoders_forgotten.inc()
                _LOG.warning("query drift: forgetting encoder %s, the longest without a query", gone)
            return self._versions[name]

    def _live(self) -> list[str]:
        """The encoder versions that carry a real share of the latest queries, most first: a stray vector of another
        dimension neither raises nor hides an alarm, and a retired encoder's alarm ends with its traffic."""
        counts = Counter(version for version in self._recent if version in self._versions)
        least = _LIVE_SHARE * counts.total()
        return [version for version, count in counts.most_common() if count >= least]

    def _publish(self, name: str, seen: tuple[Watched, ...]) -> None:
        metrics = self._metrics
        for watched in seen:
            labels = (watched.detector, name)
            _set(metrics.drift_evidence.labels(*labels), watched.evidence)
            _set(metrics.drift_threshold.labels(*labels), watched.threshold)
            _set(metrics.drift_run_length.labels(*labels, "budgeted"), watched.run_length)
            _set(
                metrics.drift_run_length.labels(*labels, "one_reference_in_ten"),
                watched.run_length_one_in_ten,
            )
            metrics.drift_reference_needed.labels(*labels).set(watched.reference_needed)
            for standing in Standing:
                metrics.drift_standing.labels(*labels, standing).set(watched.standing is standing)
            verdict = watched.verdict
            metrics.drift_rows.labels(*labels, "reference").set(watched.reference_size)
            if verdict is not None:
                metrics.drift_p_value.labels(*labels).set(verdict.p_value)
                metrics.drift_statistic.labels(*labels).set(verdict.statistic)
                metrics.drift_rows.labels(*labels, "current").set(verdict.current_size)

    def _signal(self) -> None:
        """Any live encoder's alarm is the signal's. While a reference fills, or is too small, there is evidence and
        nothing to hold it against: that is no silence."""
        live = [self._versions[name] for name in self._live()]
        fitted = [
            version for version in live if version.ensemble.armed and self._policy.may_alarm(version.name)
        ]
        alarm = float(any(version.alarm is not None for version in fitted)) if fitted else math.nan
        sizes = [version.ensemble.evidence_units for version in live]
        numbers = {"estimate": alarm, "lower_bound": alarm, "upper_bound": alarm}
        numbers |= dict.fromkeys(("evidence", "effective_evidence"), float(sum(sizes)))
        self._metrics.publish(QUERY_DRIFT, ALL, "mmd", numbers)


def _set(gauge: Gauge, value: float | None) -> None:
    gauge.set(math.nan if value is None else value)
