"""All detectors of query drift on one encoder version's units: their reference, their budget, one alarm."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np

from detectors.drift_settings import QueryDriftSettings
from detectors.entries import Entries, Rows, checked, number, pack, put, text, under, unpack
from detectors.false_alarm_budget import ReferenceTooSmall, TrafficRate
from detectors.novelty import NoveltyDetector
from detectors.query_drift import QueryDriftDetector
from detectors.vectors import Units, usable_rows
from detectors.verdict import DriftVerdict, State, Vectors

_STATE_VERSION = 1
_KEYS = frozenset({"settings", "unit_times", "unit_sizes", "unit_rows", "first", "last", "units", "encoders"})
_SHARED = ("reference_rows", "reference_sizes")
"""Kept once: both detectors have the same reference."""
_RATE_MOVED = 1.1
"""A run length is set anew when traffic has moved by this factor: limits that follow each unit would tell nobody
anything."""


class Standing(StrEnum):
    """How far a detector's alarm is."""

    COLLECTING = "collecting"
    """There is no reference yet."""
    MEASURING = "measuring"
    """Its run length is being measured, a replayed world a unit; it cannot alarm yet."""
    TOO_SMALL = "reference_too_small"
    """Its reference cannot keep the budget: it does not alarm, and collecting goes on."""
    ARMED = "armed"


@dataclass(slots=True, frozen=True)
class Watched:
    """One detector of the ensemble now. Run lengths in units; None while there are none."""

    detector: str
    standing: Standing
    note: str
    verdict: DriftVerdict | None
    alarm: bool
    evidence: float | None
    threshold: float | None
    reference_size: int
    reference_needed: int
    run_length: float | None
    run_length_one_in_ten: float | None
    """What one reference in ten of this size would not reach."""


class DriftEnsemble:
    """The mix detector and the novelty detector under one false-alarm budget: each gets half of it. The one owner of
    their state.

    The first units become the reference (`reference_size`, `reference_s`). Where it cannot keep the budget, its
    detectors show what they see and do not alarm, and units are collected on until there are as many as it needs
    (`reference_most` at most): then all of them are the reference.

    Not thread-safe: it has one owner. Seeded; time is an argument.
    """

    def __init__(self, settings: QueryDriftSettings | None = None) -> None:
        self.settings = settings or QueryDriftSettings()
        self.mix = QueryDriftDetector(self.settings)
        self.novelty = NoveltyDetector(self.settings)
        self._collected: list[tuple[float, Rows]] = []
        """Units since the first, until every alarm is armed."""
        self._rate = TrafficRate()
        self._encoders = 1

    @property
    def detectors(self) -> tuple[QueryDriftDetector, NoveltyDetector]:
        return self.mix, self.novelty

    @property
    def dimensions(self) -> int | None:
        """The vectors' dimension; None before the first vector."""
        return int(self._collected[0][1].shape[1]) if self._collected else self.mix.dimensions

    @property
    def alarm(self) -> bool:
        """Whether any detector's alarm is on."""
        return any(detector.alarm.alarm for detector in self.detectors)

    @property
    def armed(self) -> bool:
        """Whether any detector could raise its alarm."""
        return any(detector.alarm.armed for detector in self.detectors)

    @property
    def evidence_units(self) -> int:
        """Units behind what is said now: those of the current window, or those collected before there is one."""
        verdict = self.mix.test()
        return self.size if verdict is None else verdict.current_size

    @property
    def fitted(self) -> bool:
        return self.mix.dimensions is not None

    @property
    def needed(self) -> int:
        """Units that the reference needs, where it has been found too small; else 0."""
        refusals = [detector.alarm.refusal for detector in self.detectors]
        return max((refusal.needed for refusal in refusals if refusal is not None), default=0)

    @property
    def size(self) -> int:
        """Units in the current reference, or collected for the first."""
        return self.mix.reference_size or len(self._collected)

    def share_among(self, encoders: int) -> None:
        """Split the budget among so many encoder versions with traffic of their own."""
        if encoders != self._encoders:
            self._encoders = encoders
            self._allow()

    def restart_alarms(self) -> None:
        """Forget the alarms' evidence so far; the reference and what was measured on it stay."""
        for detector in self.detectors:
            detector.alarm.restart()

    def push(self, unit: Vectors, now: float) -> None:
        """Add one closed unit's rows, shape (rows, d), rows at least 1; `now` in seconds.

        Raises an UnusableVectors (its `reason` is a metric label) and changes nothing where they are not usable.
        """
        rows: Rows = usable_rows(unit, self.dimensions, zeros=False).astype(np.float32)
        self._rate.put(now)
        if self.fitted:
            self._follow_traffic()
            for detector in self.detectors:
                detector.push(rows, now)
        if self._settled:
            self._collected.clear()
        else:
            self._collect(rows, now)

    @property
    def _settled(self) -> bool:
        """Whether the reference stays as it is."""
        if not self.fitted:
            return False
        armed = all(detector.alarm.armed for detector in self.detectors)
        return armed or self.mix.reference_size >= self.settings.reference_most

    def _collect(self, rows: Rows, now: float) -> None:
        """Take a unit for the reference, unless one detector already says that units have moved."""
        if self.alarm:
            return
        self._collected.append((now, rows))
        needed = max(self.needed, self.settings.reference_size)
        if self.fitted and not self.needed:
            return
        target = min(needed, self.settings.reference_most)
        if len(self._collected) >= target and now - self._collected[0][0] >= self.settings.reference_s:
            reference = Units.of([unit for _, unit in self._collected[: self.settings.reference_most]])
            for detector in self.detectors:
                detector.fit(reference)
            self._allow()

    def _follow_traffic(self) -> None:
        before, run_length = self.mix.alarm.run_length, self._run_length()
        if run_length is None:
            return
        if before is None or not before / _RATE_MOVED < run_length < before * _RATE_MOVED:
            self._allow()

    def _run_length(self) -> float | None:
        per_day = self.settings.budget.units_per_day or self._rate.per_day
        if per_day is None:
            return None
        # Traffic given is that of all encoder versions; traffic seen is that of this one.
        parts = 1 if self.settings.budget.units_per_day else self._encoders
        return self.settings.budget.run_length(per_day, len(self.detectors) * parts)

    def _allow(self) -> None:
        run_length = self._run_length()
        if run_length is not None:
            for detector in self.detectors:
                detector.allow(run_length)

    def watched(self) -> tuple[Watched, ...]:
        """Every detector as it stands. Moves nothing."""
        return tuple(self._describe(detector) for detector in self.detectors)

    def _describe(self, detector: QueryDriftDetector | NoveltyDetector) -> Watched:
        alarm = detector.alarm
        standing, note = self._standing(detector)
        return Watched(
            detector=detector.name,
            standing=standing,
            note=note,
            verdict=detector.test(),
            alarm=alarm.alarm,
            evidence=alarm.evidence if alarm.armed else None,
            threshold=None if alarm.run_length is None else alarm.threshold,
            reference_size=self.size,
            reference_needed=self._needed_by(detector),
            run_length=alarm.run_length,
            run_length_one_in_ten=alarm.one_in_ten,
        )

    def _needed_by(self, detector: QueryDriftDetector | NoveltyDetector) -> int:
        refusal = detector.alarm.refusal
        if refusal is not None:
            return refusal.needed
        return 0 if self.fitted else self.settings.reference_size

    def _standing(self, detector: QueryDriftDetector | NoveltyDetector) -> tuple[Standing, str]:
        alarm = detector.alarm
        if not self.fitted:
            return (
                Standing.COLLECTING,
                f"reference: has {self.size:,} of {self.settings.reference_size:,} units",
            )
        if alarm.armed:
            return Standing.ARMED, ""
        if alarm.refusal is not None:
            return Standing.TOO_SMALL, self._too_small(alarm.refusal)
        missing = "the run length is being measured" if alarm.run_length else "no traffic rate is known yet"
        return Standing.MEASURING, f"not armed: {missing}"

    def _too_small(self, refusal: ReferenceTooSmall) -> str:
        budget, per_day = (
            self.settings.budget,
            self.settings.budget.units_per_day or self._rate.per_day or 0.0,
        )
        return (
            f"reference too small: has {refusal.size:,} units, needs about {refusal.needed:,} for "
            f"{budget.false_alarms:g} false alarm{'' if budget.false_alarms == 1.0 else 's'} in "
            f"{budget.period_days:g} days at {per_day:,.0f} units a day; {len(self._collected):,} collected"
        )

    def state(self) -> State:
        """Everything that later verdicts depend on, as arrays, numbers and texts."""
        state: Entries = {
            "version": _STATE_VERSION,
            "settings": self.settings.model_dump_json(),
            "first": self._rate.first,
            "last": self._rate.last,
            "units": self._rate.units,
            "encoders": self._encoders,
        }
        novelty = {key: value for key, value in self.novelty.state().items() if key not in _SHARED}
        return state | pack(self._collected) | put("mix", self.mix.state()) | put("novelty", novelty)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The ensemble that gave this state; it goes on bit for bit.

        Raises ValueError where the state is of another version or incomplete, KeyError where a part of it is missing.
        """
        checked(state, _STATE_VERSION, _KEYS)
        ensemble = cls(QueryDriftSettings.model_validate_json(text(state, "settings")))
        ensemble._collected = unpack(state)
        ensemble._rate = TrafficRate(
            number(state, "first"), number(state, "last"), int(number(state, "units"))
        )
        ensemble._encoders = int(number(state, "encoders"))
        mix = under("mix", state)
        shared = {key: mix[key] for key in _SHARED if key in mix}
        ensemble.mix = QueryDriftDetector.from_state(mix)
        ensemble.novelty = NoveltyDetector.from_state(under("novelty", state) | shared)
        return ensemble
