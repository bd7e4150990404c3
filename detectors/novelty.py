"""Drift towards what the reference does not know: conformal novelty of units, into a CUSUM."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Self

import numpy as np

from detectors.drift_settings import QueryDriftSettings
from detectors.entries import Entries, checked, put, text, under, units_of
from detectors.estimate import hajek_rate
from detectors.false_alarm_budget import BudgetedAlarm
from detectors.novelty_reference import NoveltyReference
from detectors.sequential import Bets, Reals, Rule
from detectors.vectors import Units, usable_rows
from detectors.verdict import DriftVerdict, State, Vectors

_STATE_VERSION = 1


class NoveltyDetector:
    """Says whether queries come that are far from everything known. MMD is nearly blind to few of them.

    For display: the share of the current window's queries with a conformal p-value of at most 0.05, units weighing the
    same, with its interval over units; and the p-value of the rank-sum test of the window's unit scores against the
    reference's (Mann & Whitney 1947). The alarm bets on each unit's conformal p-value (`novelty_reference.py`).

    Looking moves nothing. Not thread-safe: it has one owner.
    """

    name = "novelty"

    def __init__(self, settings: QueryDriftSettings | None = None, run_length: float | None = None) -> None:
        self.settings = settings or QueryDriftSettings()
        self.alarm = self._new_alarm(0)
        self._run_length = run_length
        self._units: Units | None = None
        self._reference: NoveltyReference
        self._window: deque[tuple[float, float, float]] = deque()
        """Time, score and share of far queries of each unit."""
        self._verdict: DriftVerdict | None = None

    def _new_alarm(self, size: int) -> BudgetedAlarm:
        bets, slowdown = Bets.down_to(self.settings.smallest_shift), self.settings.slowdown
        return BudgetedAlarm(Rule.CUSUM, bets, 1, self.settings.seed, size, slowdown)

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
        self._window.clear()

    def _take(self, units: Units) -> None:
        self._reference = NoveltyReference(units, self.settings.neighbours)
        self._units, self._verdict = units, None
        self.alarm = self._new_alarm(len(units))
        if self._run_length is not None:
            self.alarm.allow(self._run_length)

    def allow(self, run_length: float) -> None:
        """Set how many units the alarm may run from one false alarm to the next."""
        self._run_length = run_length
        self.alarm.allow(run_length)

    def query_p_values(self, rows: Vectors) -> Reals:
        """The conformal p-value of each query, shape (rows,): how rare it is to be so far from what is known."""
        self._fitted()
        return self._reference.query_p_values(usable_rows(rows, self.dimensions))

    def push(self, unit: Vectors, now: float = 0.0) -> None:
        """Add one closed unit's rows, shape (rows, d), rows at least 1. `now`, in seconds, matters to windows by time.

        Raises an UnusableVectors (its `reason` is a metric label) and changes nothing where they are not usable.
        """
        rows = usable_rows(unit, self._fitted().dimensions, zeros=False).astype(np.float32)
        self._verdict = None
        if self.alarm.to_measure:
            self.alarm.measure(self._reference.replay)
        p, score, far = self._reference.unit(rows)
        self.alarm.update(np.array([p]))
        self._window.append((now, score, far))
        self._trim(now)

    def _fitted(self) -> Units:
        if self._units is None:
            raise ValueError("the detector has no reference: fit it first")
        return self._units

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
        run_length = float("nan") if self._run_length is None else self._run_length
        state: Entries = {
            "version": _STATE_VERSION,
            "settings": self.settings.model_dump_json(),
            "run_length": run_length,
        }
        if self._units is None:
            return state
        state |= {"reference_rows": self._units.rows.copy(), "reference_sizes": self._units.row_counts.copy()}
        state |= {"window": np.array(self._window, dtype=np.float64).reshape(-1, 3)}
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
            detector._window.extend(tuple(row) for row in np.asarray(state["window"]).tolist())
            detector.alarm.restore(under("alarm", state))
        return detector
