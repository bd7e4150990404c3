"""Query drift: units of embeddings into the detectors of their encoder version, what those say into the registry."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from prometheus_client import Gauge

from alerts.signals import ALL, QUERY_DRIFT
from collectors.trace import RagTrace
from detectors.drift_ensemble import DriftEnsemble, Standing, Watched
from detectors.drift_settings import QueryDriftSettings
from detectors.embedding import QueryEncoder
from detectors.units import UnitSettings, UnitTracker
from detectors.vectors import UnusableVectors
from detectors.verdict import State
from monitor.metrics import Metrics
from monitor.status import DriftStatus, Point

_LOG = logging.getLogger(__name__)
_RECENT = 500
_POINTS = 600
_LIVE_SHARE = 0.1
_MAX_ENCODERS = 4
"""Detectors kept: the current encoder's and those of a migration under way."""


@dataclass(slots=True)
class _Version:
    """One encoder version's units and detectors; `seen` is how the detectors stood last."""

    tracker: UnitTracker
    ensemble: DriftEnsemble
    seen: tuple[Watched, ...] = ()
    histories: dict[str, deque[Point]] = field(default_factory=dict)

    def look(self, now: float) -> None:
        """Note how the detectors stand."""
        self.seen = self.ensemble.watched()
        for watched in self.seen:
            if watched.evidence is not None:
                history = self.histories.setdefault(watched.detector, deque(maxlen=_POINTS))
                history.append(Point(time=now, estimate=watched.evidence))


class DriftWatch:
    """Windows never mix encoder versions: a new version starts a new reference. One owner; `status` may be read from
    any thread."""

    def __init__(
        self, units: UnitSettings, drift: QueryDriftSettings, encoder: QueryEncoder, metrics: Metrics
    ) -> None:
        self._units = units
        self._drift = drift
        self._encoder = encoder
        self._metrics = metrics
        self._versions: OrderedDict[str, _Version] = OrderedDict()
        """By encoder version, the one longest without a query first."""
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._lock = threading.Lock()

    def put(self, trace: RagTrace, now: float) -> None:
        """Take the trace's query embedding: the logged one, else the built-in encoder's."""
        row, version = self._embed(trace)
        if row is None:
            self._metrics.drift_skipped.labels(version).inc()
            return
        self._of(version).tracker.add(trace.session, row, now)
        self._recent.append(version)

    def tick(self, now: float) -> None:
        """Push what closed, compare, publish."""
        live = self._live()
        for name, version in list(self._versions.items()):
            if name in live:
                version.ensemble.share_among(len(live))
            units = version.tracker.closed(now)
            for unit in units:
                self._push(version, unit, now)
            if units:
                with self._lock:
                    version.look(now)
                self._publish(name, version.seen)
        self._metrics.drift_units_closed_early.set(
            sum(version.tracker.closed_early for version in self._versions.values())
        )
        self._signal()

    def states(self) -> dict[str, State]:
        """Every encoder version's detectors, windows and references."""
        return {name: version.ensemble.state() for name, version in self._versions.items()}

    def restore(self, version: str, state: State) -> None:
        """Take up the windows and reference that an earlier process stored for an encoder version.

        A state of another shape or of other settings is not carried on: its evidence was gathered under another
        budget. The reference then starts anew, and the log says so.
        """
        try:
            ensemble = DriftEnsemble.from_state(state)
        except (ValueError, KeyError) as error:
            _LOG.warning("query drift, encoder %s: starting a new reference: %s", version, error)
            return
        if ensemble.settings != self._drift:
            _LOG.warning("query drift, encoder %s: starting a new reference: the settings changed", version)
            return
        known = self._of(version)
        known.ensemble, known.seen = ensemble, ensemble.watched()
        self._recent.append(version)

    def status(self) -> tuple[DriftStatus, ...]:
        """One row a detector and encoder version; a version without traffic only where it has compared something."""
        with self._lock:
            live = self._live()
            return tuple(
                _status(name, watched, tuple(version.histories.get(watched.detector, ())))
                for name, version in self._versions.items()
                for watched in version.seen or version.ensemble.watched()
                if name in live or watched.verdict is not None
            )

    def reason(self) -> str:
        """What the alert says first: whose vectors they are, and which detectors say that they moved."""
        with self._lock:
            live = self._live()
            for name in live:
                alarmed = [one.detector for one in self._versions[name].seen if one.alarm]
                if alarmed:
                    return "; ".join([f"encoder = {name}", *(f"detector = {one}" for one in alarmed)])
            return f"encoder = {live[0]}" if live else ""

    def _embed(self, trace: RagTrace) -> tuple[npt.NDArray[np.float32] | None, str]:
        """The row and its encoder version, or None and why there is none."""
        if trace.query_embedding is not None:
            row = np.asarray(trace.query_embedding, dtype=np.float32)
            version = f"{trace.versions.encoder or 'logged'}/{row.shape[0]}"
        elif trace.query:
            row = self._encoder.encode([trace.query])[0]
            version = self._encoder.name
        else:
            return None, "no_query"
        if not np.isfinite(row).all():
            return None, "not_finite"
        if not row.any():
            return None, "zero_vector"
        return row, version

    def _push(self, version: _Version, unit: npt.NDArray[np.float32], now: float) -> None:
        try:
            version.ensemble.push(unit, now)
        except UnusableVectors as error:
            self._metrics.drift_skipped.labels(error.reason).inc(len(unit))

    def _of(self, name: str) -> _Version:
        with self._lock:
            if name not in self._versions:
                self._versions[name] = _Version(UnitTracker(self._units), DriftEnsemble(self._drift))
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
        live = [self._versions[name].ensemble for name in self._live()]
        fitted = [ensemble for ensemble in live if ensemble.armed]
        alarm = float(any(ensemble.alarm for ensemble in fitted)) if fitted else math.nan
        sizes = [ensemble.evidence_units for ensemble in live]
        numbers = {"estimate": alarm, "lower_bound": alarm, "upper_bound": alarm}
        numbers |= dict.fromkeys(("evidence", "effective_evidence"), float(sum(sizes)))
        self._metrics.publish(QUERY_DRIFT, ALL, "mmd", numbers)


def _set(gauge: Gauge, value: float | None) -> None:
    gauge.set(math.nan if value is None else value)


def _status(name: str, watched: Watched, history: tuple[Point, ...]) -> DriftStatus:
    verdict = watched.verdict
    return DriftStatus(
        detector=f"{watched.detector}/{name}",
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
        note=watched.note,
        run_length=watched.run_length,
        run_length_one_in_ten=watched.run_length_one_in_ten,
        history=history,
    )
