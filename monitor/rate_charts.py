"""Control charts of rates by slice: closed hours out of the store into charts, what they say into the registry."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from alerts.signals import ALL, RATE_DRIFT
from detectors.control_chart import ChartReading, ChartState, ControlChart, ControlChartSettings
from monitor.metrics import Metrics
from monitor.store import Store

_LOG = logging.getLogger(__name__)

RATES = ("regeneration", "thumbs_down", "refusal", "empty_retrieval")
"""The charted rates, by the check that finds their bad units; every one a census."""
_STATE = "rate_charts/"
_PLACE = "rate_charts_hour"
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S
_MOST_BEHIND = 7 * 24
"""Hours that are caught up after a stop, one a tick; a longer stop is skipped."""
Pair = tuple[str, str]


class RateChartSettings(BaseModel):
    """Which rates are charted, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settle_s: float = Field(
        3600.0,
        ge=0,
        le=86_400,
        description="An hour is charted this long after its end: feedback comes late.",
    )
    max_charts: int = Field(
        40,
        ge=4,
        le=400,
        description="Most charts of rate and slice; further slices are counted, not charted.",
    )
    chart: ControlChartSettings = Field(ControlChartSettings(), description="How each is charted.")


class RateCharts:
    """Owned by the judging thread; `reason` is asked by the watch too.

    The false-alarm budget is split beforehand, so that it holds however many slices come: all of it over the rates of
    all traffic where no slice is configured, else half over these and half over the places left for slices.
    """

    def __init__(
        self, settings: RateChartSettings, slices: tuple[str, ...], store: Store, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._slices = slices
        self._store = store
        self._metrics = metrics
        self._charts: dict[Pair, ControlChart] = {}
        self._refused: set[Pair] = set()
        self._next: int | None = None
        for rate in RATES:
            self._chart_of((rate, ALL))
        self._restore()

    def tick(self, now: float) -> None:
        """Chart the oldest hour that has settled, at most one, so that no tick takes long."""
        due = math.floor((now - self._settings.settle_s) / _HOUR_S)
        if self._next is None or due - self._next > _MOST_BEHIND:
            current = math.floor(now / _HOUR_S) + 1
            self._metrics.rate_chart_periods_skipped.inc(0 if self._next is None else current - self._next)
            self._next = current
        if self._next < due:
            self._close(self._next, now)
            self._next += 1
            self._save(now)
        self._publish()

    def reason(self, slice_name: str) -> str:
        """Which rates of the slice have left their course, from what to what."""
        said = []
        for (rate, where), chart in list(self._charts.items()):
            reading = chart.reading()
            if where == slice_name and reading.state is ChartState.ALARM:
                said.append(f"rate = {rate}; usual = {reading.expected:.4f}; now = {reading.observed:.4f}")
        return "; ".join(said)

    def readings(self) -> dict[Pair, ChartReading]:
        """What each chart says, by rate and slice."""
        return {pair: chart.reading() for pair, chart in self._charts.items()}

    def _close(self, hour: int, now: float) -> None:
        counts: dict[Pair, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for stored in self._store.findings(since=float(hour * _HOUR_S)):
            if stored.at >= (hour + 1) * _HOUR_S:
                break
            finding = stored.finding
            if finding.check not in RATES or finding.value is None:
                continue
            for name in self._names(finding.slices):
                count = counts[finding.check, name]
                count[0] += finding.value
                count[1] += 1.0
        for pair in counts:
            self._chart_of(pair)
        for pair, chart in self._charts.items():
            bad, total = counts.get(pair, (0.0, 0.0))
            chart.put(hour, bad, total)

    def _names(self, slices: Mapping[str, str]) -> list[str]:
        return [ALL, *(f"{key}={slices[key]}" for key in self._slices if key in slices)]

    def _chart_of(self, pair: Pair) -> None:
        if pair in self._charts:
            return
        if len(self._charts) >= self._settings.max_charts:
            self._metrics.rate_charts_refused.inc(pair not in self._refused)
            if len(self._refused) < 100 * self._settings.max_charts:
                self._refused.add(pair)
            return
        self._charts[pair] = ControlChart(self._settings.chart, self._budget(pair[1]))

    def _budget(self, slice_name: str) -> float:
        month = self._settings.chart.alarms_per_month
        if not self._slices:
            return month / len(RATES)
        places = len(RATES) if slice_name == ALL else self._settings.max_charts - len(RATES)
        return month / 2 / places

    def _publish(self) -> None:
        alarms: dict[str, list[ChartReading]] = defaultdict(list)
        for (rate, name), reading in self.readings().items():
            alarms[name].append(reading)
            limit = math.nan if reading.limit is None else reading.limit
            self._metrics.rate_chart["statistic"].labels(rate, name).set(reading.statistic)
            self._metrics.rate_chart["limit"].labels(rate, name).set(limit)
            expected = math.nan if reading.expected is None else reading.expected
            self._metrics.rate_chart["baseline"].labels(rate, name).set(expected)
            self._metrics.rate_chart["baseline_seconds"].labels(rate, name).set(
                reading.days_collected * _DAY_S
            )
            for state in ChartState:
                self._metrics.rate_chart_state.labels(rate, name, state).set(float(reading.state is state))
        for name, readings in alarms.items():
            states = {reading.state for reading in readings}
            known = math.nan if states == {ChartState.COLLECTING} else float(ChartState.ALARM in states)
            self._metrics.publish(RATE_DRIFT, name, "", {"estimate": known, "evidence": float(len(readings))})

    def _save(self, now: float) -> None:
        for (rate, name), chart in self._charts.items():
            self._store.save_state(
                f"{_STATE}{rate}/{name}", {**chart.state(), "settings": _fingerprint(chart)}, now
            )
        self._store.save_state(_PLACE, {"next": np.array([self._next], dtype=np.float64)}, now)

    def _restore(self) -> None:
        place = self._store.load_state(_PLACE)
        if place is None:
            return
        self._next = int(np.asarray(place["next"])[0])
        for key in self._store.state_names(_STATE):
            rate, _, name = key.removeprefix(_STATE).partition("/")
            self._chart_of((rate, name))
            state, chart = self._store.load_state(key), self._charts.get((rate, name))
            if state is None or chart is None:
                continue
            if str(np.asarray(state.pop("settings", "")).item()) != _fingerprint(chart):
                _LOG.warning("rate chart %s on %s: learning anew: its settings changed", rate, name)
                continue
            chart.restore({part: np.asarray(value) for part, value in state.items()})


def _fingerprint(chart: ControlChart) -> str:
    """What a baseline and its limit were learnt for: those of another budget or kind must not be taken up."""
    return f"{chart.settings.model_dump_json()} {chart.alarms_per_month!r}"
