"""Drift of query embeddings: MMD of units against a fixed reference, a sequential alarm over disjoint windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.current_window import (
    CountedWindow,
    CurrentWindow,
    Entries,
    Rows,
    TimedWindow,
    number,
    pack,
    unpack,
)
from detectors.sequential import SequentialAlarm
from detectors.vectors import Units, usable_rows
from detectors.verdict import DriftVerdict, State, Vectors

_STATE_VERSION = 2
_STATE_KEYS = {"version", "unit_times", "unit_sizes", "unit_rows", "log_one_plus", "alarm", "quiet"}
_SETTING, _WINDOW = "setting.", "window."


class QueryDriftSettings(BaseModel):
    """How large the windows are and how many false alarms are allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_size: int = Field(
        default=500, ge=2, description="Units (sessions) collected as the reference where none is given."
    )
    reference_s: float = Field(
        default=0.0,
        ge=0.0,
        description="Seconds that the reference is collected at least, beside its size; 0 = its size alone.",
    )
    window_size: int = Field(
        default=100,
        ge=2,
        description="Units in the current window, or at least in it where window_s is given.",
    )
    window_s: float = Field(
        default=0.0,
        ge=0.0,
        description="Seconds that the current window spans; 0 = the last window_size units.",
    )
    permutations: int = Field(
        default=1000, ge=99, description="Permutations a test; the smallest p-value is 1 / (1 + this)."
    )
    run_length: float = Field(
        default=1000.0,
        gt=1.0,
        description="Budget: tests (disjoint windows) from one false alarm to the next, on average over references.",
    )
    quiet_tests: int = Field(
        default=3, ge=1, description="The alarm clears after this many tests in a row with p > 0.1."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the permutations.")

    @model_validator(mode="after")
    def _reference_holds_a_window(self) -> Self:
        if self.reference_size < self.window_size:
            raise ValueError("reference_size must be at least window_size")
        return self


class QueryDriftDetector:
    """Says whether queries still look like the reference. One detector per encoder version: vectors never mix.

    The unit is the session, since the queries of one session are not independent: permuting single queries
    calls 93 to 100 % of unshifted session streams drift. So each `push` is one unit, units are what is permuted,
    and the kernel between two units is the mean over their pairs of rows: units weigh the same, and longer sessions
    about the same things leave MMD^2 at 0 on average, which means of rows would not.

    Until `fit`, the first units become the reference (`reference_size`, `reference_s`). After that the last ones
    are the current window, by count (`window_size`) or by time (`window_s`): `test` compares it at any moment, for
    display, and each time it is wholly renewed its p-value goes into the alarm.

    Looking moves nothing. Not thread-safe: it has one owner.
    """

    name = "query_mmd"

    def __init__(self, settings: QueryDriftSettings | None = None) -> None:
        self.settings = settings or QueryDriftSettings()
        self._collected: list[tuple[float, Rows]] = []
        """Units that came before there is a reference, with their times."""
        self._window: CurrentWindow | None = None
        self._alarm = SequentialAlarm(self.settings.run_length, self.settings.quiet_tests)
        self._verdict: DriftVerdict | None = None

    @property
    def dimensions(self) -> int | None:
        """The vectors' dimension; None before the first vector."""
        if self._window is not None:
            return self._window.dimensions
        return int(self._collected[0][1].shape[1]) if self._collected else None

    @property
    def reference_missing(self) -> int:
        """How many units the reference still lacks; 0 once it has enough."""
        return 0 if self._window is not None else max(self.settings.reference_size - len(self._collected), 0)

    def fit(self, reference: Vectors | Sequence[Vectors]) -> None:
        """Take the reference: rows (n, d), each a unit, or one array (rows, d) a unit; at least `window_size` units.
        Starts windows and alarm anew.

        All of it is taken, whatever `reference_size` is. Raises an UnusableVectors and keeps the old
        reference where it is not usable.
        """
        units = Units.of(reference, least=self.settings.window_size)
        usable_rows(units.rows, zeros=False)
        self._window = self._new_window(units)
        self._collected = []
        self._alarm = SequentialAlarm(self.settings.run_length, self.settings.quiet_tests)
        self._verdict = None

    def _new_window(self, reference: Units) -> CurrentWindow:
        reference = Units(reference.rows.astype(np.float32), reference.sizes)
        settings = self.settings
        if settings.window_s > 0.0:
            return TimedWindow(
                reference, settings.window_s, settings.window_size, settings.permutations, settings.seed
            )
        return CountedWindow(reference, settings.window_size, settings.permutations, settings.seed)

    def push(self, unit: Vectors, now: float = 0.0) -> None:
        """Add one closed unit's rows, shape (rows, d), rows at least 1. `now`, in seconds, matters to windows by time.

        Raises an UnusableVectors (its `reason` is a metric label) and changes nothing where they are not
        usable.
        """
        rows = usable_rows(unit, self.dimensions, zeros=False).astype(np.float32)
        self._verdict = None
        if self._window is None:
            self._collect(rows, now)
        elif self._window.push(rows, now):
            verdict = self.test()
            if verdict is not None:
                alarm = self._alarm.update(verdict.p_value)
                self._verdict = replace(verdict, alarm=alarm, evidence=self._alarm.evidence)

    def _collect(self, rows: Rows, now: float) -> None:
        self._collected.append((now, rows))
        enough = len(self._collected) >= self.settings.reference_size
        if enough and now - self._collected[0][0] >= self.settings.reference_s:
            self.fit([unit for _, unit in self._collected])

    def test(self) -> DriftVerdict | None:
        """Compare the current window with the reference; None while either is incomplete. Moves nothing."""
        if self._verdict is None and self._window is not None:
            result = self._window.test()
            if result is not None:
                self._verdict = DriftVerdict(
                    detector=self.name,
                    statistic=result.statistic,
                    p_value=result.p_value,
                    reference_size=result.reference_size,
                    current_size=result.current_size,
                    alarm=self._alarm.alarm,
                    evidence=self._alarm.evidence,
                    threshold=self._alarm.threshold,
                )
        return self._verdict

    def state(self) -> State:
        """Everything that later verdicts depend on, as arrays and numbers."""
        window: Entries = {} if self._window is None else self._window.state()
        state: Entries = {
            "version": _STATE_VERSION,
            "log_one_plus": self._alarm.log_one_plus,
            "alarm": int(self._alarm.alarm),
            "quiet": self._alarm.quiet,
        }
        state |= pack(self._collected) | {f"{_WINDOW}{name}": value for name, value in window.items()}
        return state | {f"{_SETTING}{name}": value for name, value in self.settings.model_dump().items()}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The detector that gave this state; its next verdicts equal those of the original bit for bit.

        Raises ValueError where the state is of another version or incomplete.
        """
        missing = _STATE_KEYS - state.keys()
        if missing:
            raise ValueError(f"the state lacks {', '.join(sorted(missing))}")
        if number(state, "version") != _STATE_VERSION:
            raise ValueError(f"the state has version {state['version']}, not {_STATE_VERSION}")
        detector = cls(QueryDriftSettings.model_validate(_under(state, _SETTING, plain=True)))
        detector._collected = unpack(state)
        window = _under(state, _WINDOW)
        if window:
            detector._window = detector._restored_window(window)
        detector._alarm.log_one_plus = number(state, "log_one_plus")
        detector._alarm.alarm = bool(number(state, "alarm"))
        detector._alarm.quiet = int(number(state, "quiet"))
        return detector

    def _restored_window(self, state: State) -> CurrentWindow:
        if self.settings.window_s == 0.0:
            return CountedWindow.from_state(state)
        sizes = np.asarray(state["reference_sizes"], dtype=np.int64)
        rows = np.asarray(state["reference"], dtype=np.float32)
        window = self._new_window(Units(rows, None if (sizes == 1).all() else sizes))
        if isinstance(window, TimedWindow):
            window.restore(state)
        return window


def _under(state: State, prefix: str, *, plain: bool = False) -> Entries:
    """The entries whose keys begin with the prefix, without it; as plain numbers where asked."""
    names = [key.removeprefix(prefix) for key in state if key.startswith(prefix)]
    return {name: number(state, prefix + name) if plain else state[prefix + name] for name in names}
