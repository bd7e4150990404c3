"""Drift of the mix of queries: MMD of units against a fixed reference for display, betting along the witness for the
alarm."""

from __future__ import annotations

from detectors.current_window import CountedWindow, CurrentWindow, TimedWindow
from detectors.drift_settings import QueryDriftSettings
from detectors.entries import put, under
from detectors.false_alarm_budget import BudgetedAlarm
from detectors.mmd_rolling import RollingMmd
from detectors.referenced import ReferencedDetector
from detectors.sequential import Bets, Rule
from detectors.vectors import Units
from detectors.verdict import DriftVerdict, State, Vectors
from detectors.witness import SPANS, Witness

_IN_WINDOW = ("reference", "reference_sizes")
"""The window's own copy of the reference, which is not stored twice."""


class QueryDriftDetector(ReferencedDetector):
    """Says whether queries still come in the reference's mix. One detector per encoder version: vectors never mix.

    The unit is the session, since the queries of one session are not independent: permuting single queries
    calls 93 to 100 % of unshifted session streams drift. So each `push` is one unit, units are what is permuted,
    and the kernel between two units is the mean over their pairs of rows: units weigh the same, and longer sessions
    about the same things leave MMD^2 at 0 on average, which means of rows would not.

    The last units are the current window, by count (`window_size`) or by time (`window_s`): `test` compares it at any
    moment, for display. The alarm bets on each unit's rank along the witness of those before it (`witness.py`), at a
    limit measured by one replayed world a push (`run_length.py`).
    """

    name = "query_mmd"
    state_version = 3

    def __init__(self, settings: QueryDriftSettings | None = None, run_length: float | None = None) -> None:
        super().__init__(settings, run_length)
        self._window: CurrentWindow
        self._witness: Witness

    @staticmethod
    def new_alarm(settings: QueryDriftSettings, size: int) -> BudgetedAlarm:
        bets = Bets.down_to(settings.smallest_shift)
        return BudgetedAlarm(Rule.SHIRYAEV_ROBERTS, bets, len(SPANS), settings.seed, size, settings.slowdown)

    def _build(self, reference: Units) -> None:
        self._witness = Witness(reference, self.settings.seed)

    def _open_window(self) -> None:
        self._window = self._new_window()

    def _new_window(self) -> CurrentWindow:
        reference, settings = self._fitted(), self.settings
        size, permutations, seed = settings.window_size, settings.permutations, settings.seed
        if settings.window_s > 0.0:
            return TimedWindow(reference, settings.window_s, size, permutations, seed)
        return CountedWindow(RollingMmd(reference, size, permutations=permutations, seed=seed))

    def push(self, unit: Vectors, now: float = 0.0) -> None:
        """Add one closed unit's rows, shape (rows, d), rows at least 1. `now`, in seconds, matters to windows by time.

        Raises an UnusableVectors (its `reason` is a metric label) and changes nothing where they are not
        usable.
        """
        rows = self._usable(unit)
        self._verdict = None
        if self.alarm.to_measure:
            self.alarm.measure(self._witness.replay)
            if self.alarm.measured:
                self._witness.forget_replay()
        self.alarm.update(self._witness.push(rows))
        self._window.push(rows, now)

    def test(self) -> DriftVerdict | None:
        """Compare the current window with the reference; None while either is incomplete. Moves nothing."""
        if self._verdict is None and self._units is not None:
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
        state = self._begun_state()
        if self._units is None:
            return state
        window = {key: value for key, value in self._window.state().items() if key not in _IN_WINDOW}
        state |= put("window", window) | put("witness", self._witness.state())
        return state | put("alarm", self.alarm.state())

    def _restore(self, state: State) -> None:
        self._witness.restore(under("witness", state))
        self._restore_window(under("window", state))

    def _restore_window(self, state: State) -> None:
        if self.settings.window_s == 0.0:
            self._window = CountedWindow(RollingMmd.from_state(state, self._fitted()))
            return
        self._window = window = self._new_window()
        if isinstance(window, TimedWindow):
            window.restore(state)
