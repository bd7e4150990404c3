"""Drift of the mix of queries: MMD of units against a fixed reference for display, betting along the witness for the
alarm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from detectors.current_window import CountedWindow, CurrentWindow, TimedWindow
from detectors.drift_settings import QueryDriftSettings
from detectors.entries import Entries, Rows, checked, put, text, under, units_of
from detectors.false_alarm_budget import BudgetedAlarm
from detectors.mmd_rolling import RollingMmd
from detectors.sequential import Bets, Rule
from detectors.vectors import Units, usable_rows
from detectors.verdict import DriftVerdict, State, Vectors
from detectors.witness import SPANS, Witness

_STATE_VERSION = 3
_IN_WINDOW = ("reference", "reference_sizes")
"""The window's own copy of the reference, which is not stored twice."""


class QueryDriftDetector:
    """Says whether queries still come in the reference's mix. One detector per encoder version: vectors never mix.

    The unit is the session, since the queries of one session are not independent: permuting single queries
    calls 93 to 100 % of unshifted session streams drift. So each `push` is one unit, units are what is permuted,
    and the kernel between two units is the mean over their pairs of rows: units weigh the same, and longer sessions
    about the same things leave MMD^2 at 0 on average, which means of rows would not.

    The last units are the current window, by count (`window_size`) or by time (`window_s`): `test` compares it at any
    moment, for display. The alarm bets on each unit's rank along the witness of those before it (`witness.py`), at a
    limit measured by one replayed world a push (`run_length.py`).

    Looking moves nothing. Not thread-safe: it has one owner.
    """

    name = "query_mmd"

    def __init__(self, settings: QueryDriftSettings | None = None, run_length: float | None = None) -> None:
        self.settings = settings or QueryDriftSettings()
        self.alarm = self._new_alarm(0)
        self._run_length = run_length
        self._reference: Units | None = None
        self._window: CurrentWindow
        self._witness: Witness
        self._verdict: DriftVerdict | None = None

    def _new_alarm(self, size: int) -> BudgetedAlarm:
        bets, slowdown = Bets.down_to(self.settings.smallest_shift), self.settings.slowdown
        return BudgetedAlarm(Rule.SHIRYAEV_ROBERTS, bets, len(SPANS), self.settings.seed, size, slowdown)

    @property
    def dimensions(self) -> int | None:
        """The vectors' dimension; None before there is a reference."""
        return None if self._reference is None else self._reference.dimensions

    @property
    def reference_size(self) -> int:
        """Units in the reference; 0 before there is one."""
        return 0 if self._reference is None else len(self._reference)

    def fit(self, reference: Vectors | Sequence[Vectors] | Units) -> None:
        """Take the reference: rows (n, d), each a unit, or one array (rows, d) a unit; at least `window_size` units.
        Starts windows and alarm anew.

        Raises an UnusableVectors and keeps the old reference where it is not usable.
        """
        units = Units.of(reference, least=self.settings.window_size)
        usable_rows(units.rows, zeros=False)
        self._take(Units(units.rows.astype(np.float32), units.sizes))
        self._window = self._new_window()

    def _take(self, reference: Units) -> None:
        self._reference, self._verdict = reference, None
        self._witness = Witness(reference, self.settings.seed)
        self.alarm = self._new_alarm(len(reference))
        if self._run_length is not None:
            self.alarm.allow(self._run_length)

    def _new_window(self) -> CurrentWindow:
        reference, settings = self._fitted(), self.settings
        size, permutations, seed = settings.window_size, settings.permutations, settings.seed
        if settings.window_s > 0.0:
            return TimedWindow(reference, settings.window_s, size, permutations, seed)
        return CountedWindow(RollingMmd(reference, size, permutations=permutations, seed=seed))

    def _fitted(self) -> Units:
        if self._reference is None:
            raise ValueError("the detector has no reference: fit it first")
        return self._reference

    def allow(self, run_length: float) -> None:
        """Set how many units the alarm may run from one false alarm to the next."""
        self._run_length = run_length
        self.alarm.allow(run_length)

    def push(self, unit: Vectors, now: float = 0.0) -> None:
        """Add one closed unit's rows, shape (rows, d), rows at least 1. `now`, in seconds, matters to windows by time.

        Raises an UnusableVectors (its `reason` is a metric label) and changes nothing where they are not
        usable.
        """
        rows: Rows = usable_rows(unit, self._fitted().dimensions, zeros=False).astype(np.float32)
        self._verdict = None
        if self.alarm.to_measure:
            self.alarm.measure(self._witness.replay)
            if self.alarm.measured:
                self._witness.forget_replay()
        self.alarm.update(self._witness.push(rows))
        self._window.push(rows, now)

    def test(self) -> DriftVerdict | None:
        """Compare the current window with the reference; None while either is incomplete. Moves nothing."""
        if self._verdict is None and self._reference is not None:
            result = self._window.test()
            if result is not None:
                self._verdict = DriftVerdict(
                    detector=self.name,
                    statistic=result.statistic,
                    p_value=result.p_value,
                    reference_size=result.reference_size,
                    current_size=result.current_size,
                    alarm=self.alarm.alarm,
                    evidence=self.alarm.evidence,
                    threshold=self.alarm.threshold,
                )
        return self._verdict

    def state(self) -> State:
        """Everything that later verdicts depend on, as arrays and numbers."""
        run_length = float("nan") if self._run_length is None else self._run_length
        state: Entries = {
            "version": _STATE_VERSION,
            "settings": self.settings.model_dump_json(),
            "run_length": run_length,
        }
        if self._reference is None:
            return state
        state |= {
            "reference_rows": self._reference.rows.copy(),
            "reference_sizes": self._reference.row_counts.copy(),
        }
        window = {key: value for key, value in self._window.state().items() if key not in _IN_WINDOW}
        state |= put("window", window) | put("witness", self._witness.state())
        return state | put("alarm", self.alarm.state())

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The detector that gave this state; its next verdicts equal those of the original bit for bit.

        Raises ValueError where the state is of another version or incomplete.
        """
        checked(state, _STATE_VERSION, frozenset({"settings", "run_length"}))
        run_length = float(np.asarray(state["run_length"]).item())
        detector = cls(
            QueryDriftSettings.model_validate_json(text(state, "settings")),
            None if np.isnan(run_length) else run_length,
        )
        if "reference_rows" in state:
            detector._take(units_of(state))
            detector._witness.restore(under("witness", state))
            detector.alarm.restore(under("alarm", state))
            detector._restore_window(under("window", state))
        return detector

    def _restore_window(self, state: State) -> None:
        if self.settings.window_s == 0.0:
            self._window = CountedWindow(RollingMmd.from_state(state, self._fitted()))
            return
        self._window = window = self._new_window()
        if isinstance(window, TimedWindow):
            window.restore(state)
