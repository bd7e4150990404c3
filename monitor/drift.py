"""Query drift: units of embeddings into one detector per encoder version, verdicts into the registry."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from alerts.signals import ALL, QUERY_DRIFT
from collectors.trace import RagTrace
from detectors.embedding import QueryEncoder
from detectors.query_drift import QueryDriftDetector, QueryDriftSettings
from detectors.units import UnitSettings, UnitTracker
from detectors.vectors import UnusableVectors
from detectors.verdict import DriftVerdict, State
from monitor.metrics import Metrics
from monitor.status import DriftStatus, Point

_LOG = logging.getLogger(__name__)
_RECENT = 500
_LIVE_SHARE = 0.1
_MAX_ENCODERS = 4
"""Detectors kept: the current encoder's and those of a migration under way."""


@dataclass(slots=True)
class _Watched:
    tracker: UnitTracker
    detector: QueryDriftDetector
    verdict: DriftVerdict | None = None
    history: deque[Point] = field(default_factory=lambda: deque(maxlen=600))


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
        self._watched: OrderedDict[str, _Watched] = OrderedDict()
        """By encoder version, the one longest without a query first."""
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._lock = threading.Lock()

    def put(self, trace: RagTrace, now: float) -> None:
        """Take the trace's query embedding: the logged one, else the built-in encoder's."""
        row, version = self._embed(trace)
        if row is None:
            self._metrics.drift_skipped.labels(version).inc()
            return
        watched = self._of(version)
        watched.tracker.add(trace.session, row, now)
        self._recent.append(version)

    def tick(self, now: float) -> None:
        """Push what closed, compare, publish."""
        for version, watched in list(self._watched.items()):
            units = watched.tracker.closed(now)
            for unit in units:
                self._push(watched, unit, now)
            if units:
                with self._lock:
                    watched.verdict = watched.detector.test()
                    if watched.verdict is not None:
                        watched.history.append(Point(time=now, estimate=watched.verdict.evidence))
                self._publish(version, watched.verdict)
        self._metrics.drift_units_closed_early.set(
            sum(watched.tracker.closed_early for watched in self._watched.values())
        )
        self._signal()

    def states(self) -> dict[str, State]:
        """Every detector's windows and references, by encoder version."""
        return {version: watched.detector.state() for version, watched in self._watched.items()}

    def restore(self, version: str, state: State) -> None:
        """Take up the windows and reference that an earlier process stored for an encoder version.

        A state of another shape or of other settings is not carried on: its evidence was gathered under another
        budget. The reference then starts anew, and the log says so.
        """
        try:
            detector = QueryDriftDetector.from_state(state)
        except (ValueError, KeyError) as error:
            _LOG.warning("query drift, encoder %s: starting a new reference: %s", version, error)
            return
        if detector.settings != self._drift:
            _LOG.warning("query drift, encoder %s: starting a new reference: the settings changed", version)
            return
        watched = self._of(version)
        watched.detector, watched.verdict = detector, detector.test()
        self._recent.append(version)

    def status(self) -> tuple[DriftStatus, ...]:
        with self._lock:
            return tuple(
                self._describe(version, watched)
                for version, watched in self._watched.items()
                if watched.verdict is not None or version in self._live()
            )

    def reason(self) -> str:
        """What the alert says first: whose vectors they are."""
        with self._lock:
            live = self._live()
            alarmed = [version for version in live if _alarms(self._watched[version])]
        return f"encoder = {(alarmed or live)[0]}" if live else ""

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

    def _push(self, watched: _Watched, unit: npt.NDArray[np.float32], now: float) -> None:
        try:
            watched.detector.push(unit, now)
        except UnusableVectors as error:
            self._metrics.drift_skipped.labels(error.reason).inc(len(unit))

    def _of(self, version: str) -> _Watched:
        with self._lock:
            if version not in self._watched:
                self._watched[version] = _Watched(UnitTracker(self._units), QueryDriftDetector(self._drift))
            self._watched.move_to_end(version)
            while len(self._watched) > _MAX_ENCODERS:
                gone, _ = self._watched.popitem(last=False)
                self._metrics.drift_encoders_forgotten.inc()
                _LOG.warning("query drift: forgetting encoder %s, the longest without a query", gone)
            return self._watched[version]

    def _live(self) -> list[str]:
        """The encoder versions that carry a real share of the latest queries, most first: a stray vector of another
        dimension neither raises nor hides an alarm, and a retired encoder's alarm ends with its traffic."""
        counts = Counter(version for version in self._recent if version in self._watched)
        least = _LIVE_SHARE * counts.total()
        return [version for version, count in counts.most_common() if count >= least]

    def _describe(self, version: str, watched: _Watched) -> DriftStatus:
        verdict, detector = watched.verdict, watched.detector
        return DriftStatus(
            detector=f"query_drift/{version}",
            statistic=None if verdict is None else verdict.statistic,
            p_value=None if verdict is None else verdict.p_value,
            evidence=None if verdict is None else verdict.evidence,
            threshold=math.log10(detector.settings.run_length) if verdict is None else verdict.threshold,
            reference_size=_collected(detector) if verdict is None else verdict.reference_size,
            current_size=0 if verdict is None else verdict.current_size,
            alarm=verdict is not None and verdict.alarm,
            history=tuple(watched.history),
        )

    def _publish(self, version: str, verdict: DriftVerdict | None) -> None:
        if verdict is None:
            return
        labels = ("mmd", version)
        self._metrics.drift_p_value.labels(*labels).set(verdict.p_value)
        self._metrics.drift_statistic.labels(*labels).set(verdict.statistic)
        self._metrics.drift_evidence.labels(*labels).set(verdict.evidence)
        self._metrics.drift_rows.labels(*labels, "reference").set(verdict.reference_size)
        self._metrics.drift_rows.labels(*labels, "current").set(verdict.current_size)

    def _signal(self) -> None:
        """Any live encoder's alarm is the signal's. While a reference fills there is evidence and nothing to hold it
        against: that is no silence."""
        live = [self._watched[version] for version in self._live()]
        verdicts = [watched.verdict for watched in live if watched.verdict is not None]
        alarm = float(any(verdict.alarm for verdict in verdicts)) if verdicts else math.nan
        sizes = [verdict.current_size for verdict in verdicts] or [_collected(one.detector) for one in live]
        numbers = {"estimate": alarm, "lower_bound": alarm, "upper_bound": alarm}
        numbers |= dict.fromkeys(("evidence", "effective_evidence"), float(sum(sizes)))
        self._metrics.publish(QUERY_DRIFT, ALL, "mmd", numbers)


def _alarms(watched: _Watched) -> bool:
    return watched.verdict is not None and watched.verdict.alarm


def _collected(detector: QueryDriftDetector) -> int:
    """Units that the reference holds so far."""
    return detector.settings.reference_size - detector.reference_missing
