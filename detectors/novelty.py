"""Drift towards what the reference does not know: conformal novelty of units, into a CUSUM."""

from __future__ import annotations

from collections import deque

import numpy as np

from detectors.drift_settings import QueryDriftSettings
from detectors.entries import put
from detectors.estimate import hajek_rate
from detectors.false_alarm_budget import BudgetedAlarm
from detectors.novelty_reference import NoveltyReference
from detectors.referenced import ReferencedDetector
from detectors.sequential import Bets, Reals, Rule
from detectors.vectors import Units, usable_rows
from detectors.verdict import DriftVerdict, State, Vectors


class NoveltyDetector(ReferencedDetector):
    """Says whether queries come that are far from everything known. MMD is nearly blind to few of them.

    For display: the share of the current window's queries with a conformal p-value of at most 0.05, units weighing the
    same, with its interval over units; and the p-value of the rank-sum test of the window's unit scores against the
    reference's (Mann & Whitney 1947). The alarm bets on each unit's conformal p-value (`novelty_reference.py`).
    """

    name = "novelty"
    state_version = 1

    def __init__(self, settings: QueryDriftSettings | None = None, run_length: float | None = None) -> None:
        super().__init__(settings, run_length)
        self._reference: NoveltyReference
        self._window: deque[tuple[float, float, float]] = deque()
        """Time, score and share of far queries of each unit."""

    @staticmethod
    def new_alarm(settings: QueryDriftSettings, size: int) -> BudgetedAlarm:
        bets = Bets.down_to(settings.smallest_shift)
        return BudgetedAlarm(Rule.CUSUM, bets, 1, settings.seed, size, settings.slowdown)

    def _build(self, reference: Units) -> None:
        self._reference = NoveltyReference(reference, self.settings.neighbours)

    def _open_window(self) -> None:
        self._window.clear()

    def query_p_values(self, rows: Vectors) -> Reals:
        """The conformal p-value of each query, shape (rows,): how rare it is to be so far from what is known."""
        self._fitted()
        return self._reference.query_p_values(usable_rows(rows, self.dimensions))

    def push(self, unit: Vectors, now: float = 0.0) -> None:
        """Add one closed unit's rows, shape (rows, d), rows at least 1. `now`, in seconds, matters to windows by time.

        Raises an UnusableVectors (its `reason` is a metric label) and changes nothing where they are not usable.
        """
        rows = self._usable(unit)
        self._verdict = None
        if self.alarm.to_measure:
            self.alarm.measure(self._reference.replay)
        p, score, far = self._reference.unit(rows)
        self.alarm.update(np.array([p]))
        self._window.append((now, score, far))
        self._trim(now)

    def _trim(self, now: float) -> None:
        by_time = self.settings.window_s > 0.0
        while (
            now - self._window[0][0] > self.settings.window_s
            if by_time
            else len(self._window) > self.settings.window_size
        ):
            self._window.popleft()

    def test(self) -> DriftVerdict | None:
        """Compare the current window with the reference; None while either is incomplete. Moves nothing."""
        if (
            self._verdict is None
            and self._units is not None
            and len(self._window) >= self.settings.window_size
        ):
            from scipy.stats import mannwhitneyu  # a second and 50 MB, once there is something to compare

            scores = np.array([score for _, score, _ in self._window])
            shares = [far for _, _, far in self._window]
            estimate = hajek_rate(shares, [1.0] * len(shares))
            p = mannwhitneyu(scores, self._reference.unit_scores, alternative="greater").pvalue
            self._verdict = DriftVerdict(
                detector=self.name,
                statistic=estimate.value,
                p_value=max(float(p), 1e-300),
                reference_size=len(self._reference),
                current_size=len(scores),
                alarm=self.alarm.alarm,
                evidence=self.alarm.evidence,
                threshold=self.alarm.threshold,
                lower=estimate.lower,
                upper=estimate.upper,
            )
        return self._verdict

    def state(self) -> State:
        """Everything that later verdicts depend on, as arrays and numbers."""
        state = self._begun_state()
        if self._units is None:
            return state
        state |= {"window": np.array(self._window, dtype=np.float64).reshape(-1, 3)}
        return state | put("alarm", self.alarm.state())

    def _restore(self, state: State) -> None:
        self._window.extend(tuple(row) for row in np.asarray(state["window"]).tolist())
