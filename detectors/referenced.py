"""What the detectors of query drift have in common: a fixed reference of units, and a budgeted alarm measured on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from detectors.drift_settings import QueryDriftSettings
from detectors.entries import Entries, Rows, checked, text, under, units_of
from detectors.false_alarm_budget import BudgetedAlarm
from detectors.vectors import Units, usable_rows
from detectors.verdict import DriftVerdict, State, Vectors


class ReferencedDetector(ABC):
    """Takes a reference, keeps its alarm, and gives its state; what is compared and bet on is the subclass's.

    Looking moves nothing. Not thread-safe: it has one owner.
    """

    name: ClassVar[str]
    state_version: ClassVar[int]

    def __init__(self, settings: QueryDriftSettings | None = None, run_length: float | None = None) -> None:
        self.settings = settings or QueryDriftSettings()
        self.alarm = self.new_alarm(self.settings, 0)
        self._run_length = run_length
        self._units: Units | None = None
        self._verdict: DriftVerdict | None = None

    @staticmethod
    @abstractmethod
    def new_alarm(settings: QueryDriftSettings, size: int) -> BudgetedAlarm:
        """The alarm on a reference of so many units, not yet measured."""

    @abstractmethod
    def _build(self, reference: Units) -> None:
        """Make what units are bet on with."""

    @abstractmethod
    def _open_window(self) -> None:
        """Begin a current window without units."""

    @property
    def dimensions(self) -> int | None:
        """The vectors' dimension; None before there is a reference."""
        return None if self._units is None else self._units.dimensions

    @property
    def reference_size(self) -> int:
        """Units in the reference; 0 before there is one."""
        return 0 if self._units is None else len(self._units)

    def fit(self, reference: Vectors | Sequence[Vectors] | Units) -> None:
        """Take the reference: rows (n, d), each a unit, or one array (rows, d) a unit; at least `window_size` units.
        Starts window and alarm anew.

        Raises an UnusableVectors and keeps the old reference where it is not usable.
        """
        units = Units.of(reference, least=self.settings.window_size)
        usable_rows(units.rows, zeros=False)
        self._take(Units(units.rows.astype(np.float32), units.sizes))
        self._open_window()

    def allow(self, run_length: float) -> None:
        """Set how many units the alarm may run from one false alarm to the next."""
        self._run_length = run_length
        self.alarm.allow(run_length)

    def _take(self, reference: Units) -> None:
        self._build(reference)
        self._units, self._verdict = reference, None
        self.alarm = self.new_alarm(self.settings, len(reference))
        if self._run_length is not None:
            self.alarm.allow(self._run_length)

    def _fitted(self) -> Units:
        if self._units is None:
            raise ValueError("the detector has no reference: fit it first")
        return self._units

    def _usable(self, unit: Vectors) -> Rows:
        rows: Rows = usable_rows(unit, self._fitted().dimensions, zeros=False).astype(np.float32)
        return rows

    def _begun_state(self) -> Entries:
        """Settings and, where there is one, the reference."""
        state: Entries = {
            "version": self.state_version,
            "settings": self.settings.model_dump_json(),
            "run_length": float("nan") if self._run_length is None else self._run_length,
        }
        if self._units is not None:
            state["reference_rows"] = self._units.rows.copy()
            state["reference_sizes"] = self._units.row_counts.copy()
        return state

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The detector that gave this state; its next verdicts equal those of the original bit for bit.

        Raises ValueError where the state is of another version or incomplete.
        """
        checked(state, cls.state_version, frozenset({"settings", "run_length"}))
        run_length = float(np.asarray(state["run_length"]).item())
        detector = cls(
            QueryDriftSettings.model_validate_json(text(state, "settings")),
            None if np.isnan(run_length) else run_length,
        )
        if "reference_rows" in state:
            detector._take(units_of(state))
            detector._restore(state)
            detector.alarm.restore(under("alarm", state))
        return detector

    @abstractmethod
    def _restore(self, state: State) -> None:
        """Take up the window and what is bet on, as they were."""
