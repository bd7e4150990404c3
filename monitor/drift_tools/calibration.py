"""What a service's drift alarms would see: known shifts injected into its own queries, streams replayed to alarms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri

from detectors.alarm_replay import AlarmReplay
from detectors.attribution import QueryUnit
from detectors.drift_settings import QueryDriftSettings
from detectors.estimate import wilson
from detectors.vectors import TooFewRows, Units
from monitor.drift_tools.shifts import Laboratory, Shift, laboratory

_DETECTORS = 2
_WARM = 200
"""Units without a shift before it begins: the witness looks back as far."""
_SEEN = 0.9
"""Power from which a shift counts as seen."""
_LEAST_REFERENCE = 100
_ANY_COST = 1e6


@dataclass(slots=True, frozen=True)
class ShiftResult:
    """`streams` streams with this shift, of one day each. `seen` of them raised an alarm within it; delays in units,
    medians and 90th percentiles over all streams, None where so many saw nothing."""

    kind: str
    size: str
    streams: int
    seen: int
    power: float
    power_lower: float
    power_upper: float
    by_mix: int
    by_novelty: int
    median_delay: float | None
    p90_delay: float | None


@dataclass(slots=True, frozen=True)
class CalibrationReport:
    """Everything that `groundwatch drift calibrate` says."""

    reference_units: int
    units_per_day: float
    run_length: float
    refused: tuple[str, ...]
    """What each alarm says whose reference is too small: in the sidecar it would not be armed. Here it is, at the limit
    that keeps the budget, so that the table shows what it costs."""
    calm_units: int
    false_alarms: int
    false_alarms_a_period: float
    false_alarms_upper: float
    budget: float
    period_days: float
    shifts: tuple[ShiftResult, ...]
    smallest: dict[str, str]
    """By kind the smallest size that was seen within a day in nine streams of ten; empty where none was."""
    novel_topic: str
    skipped: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True, frozen=True)
class CalibrationSettings:
    """`streams` of a day for each shift; `calm_days` without one."""

    units_per_day: float
    streams: int = 20
    calm_days: int = 30
    seed: int = 0


def calibrate(
    units: Sequence[QueryUnit],
    drift: QueryDriftSettings,
    settings: CalibrationSettings,
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> CalibrationReport:
    """Replay. `progress` hears what is being done and how much of all is done. Raises TooFewRows."""
    rng = np.random.default_rng(settings.seed)
    if len(units) < 2 * _LEAST_REFERENCE:
        raise TooFewRows(
            f"calibrating needs {2 * _LEAST_REFERENCE} units, half of them as reference: has {len(units)}"
        )
    made = laboratory(units, rng)
    if len(made.reference) < _LEAST_REFERENCE:
        raise TooFewRows(
            f"calibrating needs a reference of {_LEAST_REFERENCE} units: {len(made.reference)} are left of "
            f"{len(units)} once the novel topic and other scripts are kept out"
        )
    run_length = drift.budget.run_length(settings.units_per_day, _DETECTORS)
    progress("measuring run lengths", 0.0)
    alarms, refused = _armed(Units.of(made.reference), drift, run_length)
    steps = len(made.shifts) + 1
    progress("nothing moved", 0.5 / steps)
    calm_units = int(settings.calm_days * settings.units_per_day)
    false_alarms = _alarms_in(alarms, made.calm, calm_units, rng)
    results = []
    for number, shift in enumerate(made.shifts, start=1):
        progress(f"{shift.kind} {shift.size}", number / steps)
        results.append(_result(alarms, made, shift, settings, rng))
    progress("done", 1.0)
    periods = settings.calm_days / drift.budget.period_days
    return CalibrationReport(
        len(made.reference),
        settings.units_per_day,
        run_length,
        refused,
        calm_units,
        false_alarms,
        false_alarms / periods,
        float(chdtri(2 * false_alarms + 2, 0.05)) / 2.0 / periods,
        drift.budget.false_alarms,
        drift.budget.period_days,
        tuple(results),
        _smallest(results),
        made.novel_topic,
        made.skipped,
    )


def _armed(
    reference: Units, drift: QueryDriftSettings, run_length: float
) -> tuple[AlarmReplay, tuple[str, ...]]:
    """The alarms, armed whatever that costs, and what those say that would not be."""
    alarms = AlarmReplay(reference, drift, run_length)
    named = (("mix", alarms.mix.refusal), ("novelty", alarms.novelty.refusal))
    refused = tuple(f"{name}: {refusal}" for name, refusal in named if refusal is not None)
    if refused:
        alarms = AlarmReplay(reference, drift.model_copy(update={"slowdown": _ANY_COST}), run_length)
    return alarms, refused


def _alarms_in(alarms: AlarmReplay, calm: Shift, units: int, rng: np.random.Generator) -> int:
    """How often an alarm goes on while nothing moves."""
    alarms.anew()
    before, count, stream = (False, False), 0, calm.stream(rng)
    for _ in range(units):
        now = alarms.push(next(stream))
        count += sum(on and not was for on, was in zip(now, before, strict=True))
        before = now
    return count


def _result(
    alarms: AlarmReplay,
    made: Laboratory,
    shift: Shift,
    settings: CalibrationSettings,
    rng: np.random.Generator,
) -> ShiftResult:
    day = max(1, round(settings.units_per_day))
    found = [_delay(alarms, made.calm, shift, day, rng) for _ in range(settings.streams)]
    delays = np.array([delay for delay, _ in found])
    seen = int(np.isfinite(delays).sum())
    lower, upper = wilson(seen, len(found))
    quantiles = [float(np.quantile(delays, q, method="higher")) for q in (0.5, 0.9)]
    median, p90 = (value if np.isfinite(value) else None for value in quantiles)
    by = [sum(who[i] for _, who in found) for i in range(_DETECTORS)]
    return ShiftResult(
        shift.kind, shift.size, len(found), seen, seen / len(found), lower, upper, by[0], by[1], median, p90
    )


def _delay(
    alarms: AlarmReplay, calm: Shift, shift: Shift, most: int, rng: np.random.Generator
) -> tuple[float, tuple[bool, bool]]:
    """Units from the shift to the first alarm, infinite where there is none in so many; and whose alarm it was."""
    alarms.anew()
    before = calm.stream(rng)
    for _ in range(_WARM):
        if any(alarms.push(next(before))):
            alarms.anew()
    stream = shift.stream(rng)
    for number in range(1, most + 1):
        on = alarms.push(next(stream))
        if any(on):
            return float(number), on
    return float("inf"), (False, False)


def _smallest(results: Sequence[ShiftResult]) -> dict[str, str]:
    """The smallest size of each kind from which all larger ones are seen, too."""
    found: dict[str, str] = {}
    for kind in dict.fromkeys(result.kind for result in results):
        smallest = ""
        for result in reversed([one for one in results if one.kind == kind]):
            if result.power < _SEEN:
                break
            smallest = result.size or "gone"
        found[kind] = smallest
    return found
