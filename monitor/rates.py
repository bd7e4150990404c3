"""Rates with intervals over rolling windows, by signal and slice, and the reasons that go with them."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict, Field

from alerts.signals import ALL, BY_NAME, REGENERATION, SIGNALS, Kind, Signal
from detectors.control_band import ControlBand, ControlBandSettings
from detectors.estimate import Estimate, NoEvidence, UnusableValue
from detectors.finding import Finding, Outcome
from detectors.window import RollingWindow
from monitor.metrics import Metrics

OTHER = "other"
BY_CHECK: dict[str, Signal] = {signal.check: signal for signal in SIGNALS if signal.check}
_NOT_SCORED = tuple(outcome for outcome in Outcome if outcome is not Outcome.SCORED)
_NO_EVIDENCE = {
    "estimate": math.nan,
    "lower_bound": math.nan,
    "upper_bound": math.nan,
    "effective_evidence": 0.0,
}


class RateSettings(BaseModel):
    """How findings become rates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window_s: float = Field(
        3600.0, gt=0, description="Length of the rolling window behind every rate, seconds."
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Coverage of the published intervals.")
    max_entries: int = Field(
        200_000,
        ge=1000,
        description="Entries kept in one window; beyond that the oldest go, and are counted.",
    )
    slices: tuple[str, ...] = Field(
        (),
        description="Keys of a trace's slices that get rates of their own: service, tenant, locale, intent, ...",
    )
    max_values: int = Field(
        20, ge=1, description='Values kept apart per slice key; the rest is counted as "other".'
    )


class Blame:
    """What the bad units of one window blame (`evidence["blamed"]`), most frequent first."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._bad: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()

    def put(self, finding: Finding, at: float) -> None:
        blamed = finding.evidence.get("blamed")
        self.discard(finding.trace_id)
        if finding.value and isinstance(blamed, Iterable) and not isinstance(blamed, str):
            self._bad[finding.trace_id] = (at, tuple(str(item) for item in blamed))

    def discard(self, trace_id: str) -> None:
        self._bad.pop(trace_id, None)

    def expire(self, now: float) -> None:
        while self._bad and next(iter(self._bad.values()))[0] <= now - self._window_s:
            self._bad.popitem(last=False)

    def reason(self) -> str:
        """The clause blamed most often, as a person would write it, or empty where nothing is blamed."""
        tally = Counter(item for _, blamed in self._bad.values() for item in set(blamed))
        return tally.most_common(1)[0][0] if tally else ""


class _Series:
    """One signal on one slice."""

    def __init__(self, settings: RateSettings) -> None:
        self.window = RollingWindow(settings.window_s, max_entries=settings.max_entries)
        self.blame = Blame(settings.window_s)

    def put(self, finding: Finding, at: float) -> None:
        self.window.put(finding.trace_id, at, finding.value, finding.weight, finding.outcome)
        self.blame.put(finding, at)


class RateBoard:
    """All windows, filled by the judging thread and asked by the watch. `now` and `at` are Unix seconds."""

    def __init__(
        self, settings: RateSettings, band: ControlBandSettings, scorers: Mapping[str, str], metrics: Metrics
    ) -> None:
        self._settings = settings
        self._scorers = scorers
        self._metrics = metrics
        self._series: dict[tuple[str, str], _Series] = {}
        self._values: dict[str, set[str]] = {key: set() for key in settings.slices}
        self._lock = threading.Lock()
        self.band = ControlBand(band)
        for signal in BY_CHECK.values():
            self._series[signal.name, ALL] = _Series(settings)

    def put(self, finding: Finding, scorer: str, at: float) -> None:
        """Count the finding in its windows. One by another scorer than the one in force (before a change of
        configuration) does not mix with the current ones."""
        signal = BY_CHECK.get(finding.check)
        if signal is None or self._scorers.get(finding.check) != scorer:
            return
        with self._lock:
            for slice_name in self._slices(finding.slices):
                series = self._series.get((signal.name, slice_name))
                if series is None:
                    series = self._series[signal.name, slice_name] = _Series(self._settings)
                try:
                    series.put(finding, at)
                except UnusableValue:
                    self._metrics.unusable.labels(finding.check).inc()
                    return
            if signal is REGENERATION and finding.value is not None:
                self.band.put(finding.trace_id, finding.value, at)

    def withdraw(self, trace_id: str) -> None:
        """Forget a request's findings before its revision's are put: the sampler decided anew, and what it did not
        select this time must not stay in a rate at its old weight."""
        with self._lock:
            for series in self._series.values():
                series.window.discard(trace_id)
                series.blame.discard(trace_id)

    def publish(self, now: float) -> None:
        """Let old entries go and set every gauge; NaN where there is no evidence."""
        with self._lock:
            limits = self.band.learn(now)
            for (name, slice_name), series in self._series.items():
                series.window.expire(now)
                series.blame.expire(now)
                self._publish(BY_NAME[name], slice_name, series.window, limits)

    def not_scored(self, signal: str, slice_name: str) -> dict[str, int]:
        """Units in the window that do not enter the rate, by outcome."""
        with self._lock:
            series = self._series.get((signal, slice_name))
            return {} if series is None else dict(series.window.not_scored())

    def reason(self, signal: str, slice_name: str) -> str:
        """What the bad units blame most."""
        with self._lock:
            series = self._series.get((signal, slice_name))
            return "" if series is None else series.blame.reason()

    def _publish(
        self, signal: Signal, slice_name: str, window: RollingWindow, limits: tuple[float, float] | None
    ) -> None:
        scorer = self._scorers.get(signal.check, "")
        numbers = self._numbers(signal, window)
        if signal is REGENERATION and limits is not None:
            numbers |= {"band_low": limits[0], "band_high": limits[1]}
        self._metrics.publish(signal, slice_name, scorer, numbers)
        counts = window.not_scored()
        for outcome in _NOT_SCORED:
            self._metrics.not_scored.labels(signal.name, slice_name, scorer, outcome).set(
                counts.get(outcome, 0)
            )
        self._metrics.windows_evicted.labels(signal.name, slice_name).set(window.evicted)

    def _numbers(self, signal: Signal, window: RollingWindow) -> dict[str, float]:
        try:
            estimate: Estimate = (
                window.mean(self._settings.confidence)
                if signal.kind is Kind.MEAN
                else window.rate(self._settings.confidence)
            )
        except NoEvidence:
            return {**_NO_EVIDENCE, "evidence": 0.0}
        return {
            "estimate": estimate.value,
            "lower_bound": estimate.lower,
            "upper_bound": estimate.upper,
            "evidence": float(estimate.n),
            "effective_evidence": estimate.effective_n,
        }

    def _slices(self, slices: Mapping[str, str]) -> list[str]:
        names = [ALL]
        for key, seen in self._values.items():
            value = slices.get(key)
            if value is None:
                continue
            if value not in seen and len(seen) >= self._settings.max_values:
                value = OTHER
            else:
                seen.add(value)
            names.append(f"{key}={value}")
        return names
