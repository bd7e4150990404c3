"""Control charts of a rate by the hour: EWMA or CUSUM of deseasonalised counts, its limit found by replay.

Text-book limits assume a baseline without error. Here the limit is the one at which charts whose baselines are refitted
to resampled days, run over other resampled days, keep the false-alarm budget; never below what theory asks for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from detectors.run_length_theory import cusum_limit, ewma_limit
from detectors.seasonality import HOURS_A_DAY, Baseline, Floats, fit_baseline

MONTH_DAYS = 30
_WEEKLY_DAYS = 42
"""Six weeks: fewer give an hour of the week too few looks to be told from its day."""


class ControlChartSettings(BaseModel):
    """How rates are charted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["cusum", "ewma"] = Field("cusum", description="The statistic: `cusum` or `ewma`.")
    sides: Literal["up", "both"] = Field("up", description="Alarm on a rise only, or on a fall too.")
    reference: float = Field(
        0.75, gt=0, le=3, description="CUSUM's k: half the shift to see soonest, in standard deviations."
    )
    weight: float = Field(0.2, gt=0, le=1, description="EWMA's weight of the newest number.")
    baseline_days: int = Field(14, ge=7, le=120, description="Days that the baseline is learnt from.")
    minimum_units: int = Field(
        30, ge=1, description="Units that make one look: thinner hours are pooled until there are as many."
    )
    alarms_per_month: float = Field(
        1.0, gt=0, le=30, description="False alarms in 30 days, of all charts together."
    )
    replays: int = Field(200, ge=50, le=5000, description="Resampled months behind a chart's limit.")
    seed: int = Field(0, ge=0, description="Seed of the resampling.")


class ChartState(StrEnum):
    """What a chart says."""

    COLLECTING = "collecting"
    IN_CONTROL = "in_control"
    ALARM = "alarm"


class UnusableCountError(ValueError):
    """A count that is not finite, negative, or more bad than total; it changed nothing."""


@dataclass(slots=True, frozen=True)
class ChartReading:
    """What a chart says after an hour. `expected` and `observed` are rates over the last look; None before one."""

    state: ChartState
    statistic: float
    limit: float | None
    expected: float | None
    observed: float | None
    days_collected: int


class ControlChart:
    """One rate's chart. Owns no clock: hours are integers since 1970 (UTC) and come in order.

    `alarms_per_month` is this chart's own share of the budget.
    """

    def __init__(self, settings: ControlChartSettings, alarms_per_month: float) -> None:
        self.settings = settings
        self.alarms_per_month = alarms_per_month
        self.baseline: Baseline | None = None
        self.limit: float | None = None
        self._rows: list[tuple[int, float, float]] = []
        self._pending = np.zeros(4)
        self._sums = np.zeros(2)
        self._alarm = False
        self._last: tuple[float, float] | None = None

    def put(self, hour: int, bad: float, total: float) -> ChartReading:
        """One closed hour.

        Raises:
            UnusableCountError: counts that cannot be; the chart is as it was.
        """
        if not (math.isfinite(bad) and math.isfinite(total) and 0 <= bad <= total):
            raise UnusableCountError(f"{bad} bad of {total}")
        if self.baseline is None:
            if total > 0:
                self._rows.append((hour, bad, total))
            self._learn(hour)
        else:
            self._look(hour, bad, total)
        return self.reading()

    def reading(self) -> ChartReading:
        """What the chart says now."""
        state = ChartState.ALARM if self._alarm else ChartState.IN_CONTROL
        expected, observed = self._last or (None, None)
        return ChartReading(
            ChartState.COLLECTING if self.baseline is None else state,
            float(np.max(self._sums)),
            self.limit,
            expected,
            observed,
            self._days(),
        )

    def state(self) -> dict[str, npt.NDArray[np.float64]]:
        """All that the chart knows, as plain arrays."""
        base = self.baseline
        known = [] if base is None or self.limit is None else [base.rho, base.factor, self.limit]
        return {
            "rows": np.array(self._rows, dtype=np.float64).reshape(-1, 3),
            "rates": np.zeros(0) if base is None else base.rates,
            "known": np.array(known, dtype=np.float64),
            "pending": self._pending.copy(),
            "sums": self._sums.copy(),
            "alarm": np.array([float(self._alarm)]),
            "last": np.array(self._last or (), dtype=np.float64),
        }

    def restore(self, state: Mapping[str, npt.NDArray[np.float64]]) -> None:
        """Take up a saved state; the chart goes on bit for bit."""
        self._rows = [(int(hour), float(bad), float(total)) for hour, bad, total in state["rows"]]
        if len(state["known"]):
            rho, factor, limit = map(float, state["known"])
            self.baseline, self.limit = Baseline(np.array(state["rates"]), rho, factor), limit
        self._pending, self._sums = np.array(state["pending"]), np.array(state["sums"])
        self._alarm = bool(state["alarm"][0])
        self._last = (float(state["last"][0]), float(state["last"][1])) if len(state["last"]) else None

    def _days(self) -> int:
        return len({hour // HOURS_A_DAY for hour, _, _ in self._rows})

    def _learn(self, hour: int) -> None:
        """Fit once the last hour of the last baseline day has closed; days without a unit do not count."""
        if (hour + 1) % HOURS_A_DAY or self._days() < self.settings.baseline_days:
            return
        hours = np.array([row[0] for row in self._rows], dtype=np.int64)
        bad, total = (np.array([row[i] for row in self._rows]) for i in (1, 2))
        self.baseline = fit_baseline(hours, bad, total, weekly=self._days() >= _WEEKLY_DAYS)
        self.limit = replayed_limit(hours, bad, total, self.settings, self.alarms_per_month)
        self._rows = []

    def _look(self, hour: int, bad: float, total: float) -> None:
        assert self.baseline is not None
        assert self.limit is not None
        mean, variance = self.baseline.expected(np.array([hour]), np.array([total]))
        self._pending += (bad, total, mean[0], variance[0])
        seen, units, expected, spread = self._pending
        if units < self.settings.minimum_units:
            return
        sums = self._sums[None, :]
        z = np.array([(seen - expected) / math.sqrt(spread)])
        self._sums = step(sums, z, self.settings, np.array([self.limit]))[0]
        height = float(np.max(self._sums))
        self._alarm = height > (self.limit / 2 if self._alarm else self.limit)
        self._last = (float(expected / units), float(seen / units))
        self._pending = np.zeros(4)


def step(sums: Floats, z: Floats, settings: ControlChartSettings, limit: Floats) -> Floats:
    """The statistics (charts, 2), up and down, after z (charts,). Capped at twice the limit, so that a long incident is
    not remembered for as long after its end."""
    signed = np.stack([z, -z if settings.sides == "both" else np.full_like(z, -np.inf)], axis=1)
    if settings.kind == "cusum":
        moved = np.maximum(0.0, sums + signed - settings.reference)
    else:
        scale = math.sqrt(settings.weight / (2.0 - settings.weight))
        signed = np.where(np.isfinite(signed), signed, 0.0)
        moved = (1.0 - settings.weight) * sums + settings.weight * signed / scale
    capped: Floats = np.minimum(moved, 2.0 * limit[:, None])
    return capped


def theory_limit(settings: ControlChartSettings, looks_per_alarm: float) -> float:
    """The limit for independent normal looks. Two sides alarm twice as often as one; the EWMA's chain has both."""
    if settings.kind == "cusum":
        return cusum_limit(settings.reference, looks_per_alarm * (2 if settings.sides == "both" else 1))
    return ewma_limit(settings.weight, looks_per_alarm / (1 if settings.sides == "both" else 2))


def replayed_limit(
    hour: npt.NDArray[np.int64],
    bad: Floats,
    total: Floats,
    settings: ControlChartSettings,
    alarms_per_month: float,
) -> float:
    """The least limit at which resampled months keep the budget, baseline error included; at least theory's."""
    z = _resampled(hour, bad, total, settings)
    looks = float(np.isfinite(z).sum(axis=0).mean())
    low = theory_limit(settings, looks / alarms_per_month)
    high = 4.0 * low
    if _alarms(z, low, settings) <= alarms_per_month:
        return low
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if _alarms(z, middle, settings) <= alarms_per_month else (middle, high)
    return high


def _resampled(
    hour: npt.NDArray[np.int64], bad: Floats, total: Floats, settings: ControlChartSettings
) -> Floats:
    """Standardised looks (hours, replays); NaN where too few units have come for a look."""
    days = np.unique(hour // HOURS_A_DAY)
    table = np.zeros((2, len(days), HOURS_A_DAY))
    at = (np.searchsorted(days, hour // HOURS_A_DAY), hour % HOURS_A_DAY)
    table[0][at], table[1][at] = bad, total
    rng = np.random.default_rng(settings.seed)
    span = np.arange(MONTH_DAYS * HOURS_A_DAY)
    found = np.empty((len(span), settings.replays))
    for index in range(settings.replays):
        # One day fewer: resampled means scatter as much as real ones only then (Efron, 1982, ch. 6: n - 1 of n).
        learnt = table[:, rng.integers(len(days), size=len(days) - 1)].reshape(2, -1)
        fitted = fit_baseline(np.arange(learnt.shape[1]), learnt[0], learnt[1])
        lived = table[:, rng.integers(len(days), size=MONTH_DAYS)].reshape(2, -1)
        found[:, index] = _looks(fitted, span, lived[0], lived[1], settings.minimum_units)
    return found


def _looks(base: Baseline, hour: npt.NDArray[np.int64], bad: Floats, total: Floats, least: int) -> Floats:
    mean, variance = base.expected(hour, total)
    if total.min() >= least:
        whole: Floats = (bad - mean) / np.sqrt(variance)
        return whole
    found = np.full(len(hour), np.nan)
    units = difference = spread = 0.0
    for i in range(len(hour)):
        units, difference, spread = units + total[i], difference + bad[i] - mean[i], spread + variance[i]
        if units >= least:
            found[i] = difference / math.sqrt(spread)
            units = difference = spread = 0.0
    return found


def _alarms(z: Floats, limit: float, settings: ControlChartSettings) -> float:
    """Mean alarms a replay; an alarm ends when the statistic is below half the limit, as in the chart."""
    replays = z.shape[1]
    sums, alarm, count = np.zeros((replays, 2)), np.zeros(replays, dtype=bool), 0
    limits = np.full(replays, limit)
    for row in z:
        ready = np.isfinite(row)
        moved = step(sums, np.where(ready, row, 0.0), settings, limits)
        sums = np.where(ready[:, None], moved, sums)
        raised = sums.max(axis=1) > np.where(alarm, limit / 2, limit)
        count += int((raised & ~alarm).sum())
        alarm = raised
    return count / replays
