"""Drift of query embeddings: MMD against a fixed reference, with a sequential alarm over disjoint windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.mmd import Labels, MmdReference, permutation_labels, usable_rows
from detectors.sequential import SequentialAlarm
from detectors.verdict import DriftVerdict, State, Vectors

_STATE_VERSION = 1
_STATE_KEYS = {"version", "units", "reference", "since_test", "tests", "log_one_plus", "alarm", "quiet"}
_SETTING = "setting."
_CANCELLED = 1e-6
"""Rows whose mean is this short beside them cancel out; rescaling would show their rounding errors."""


class QueryDriftSettings(BaseModel):
    """How large the windows are and how many false alarms are allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_size: int = Field(
        default=500, ge=2, description="Units (sessions) collected as the reference where none is given."
    )
    window_size: int = Field(
        default=100, ge=2, description="Units in the current window; an alarm's test takes as many."
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
    calls 93 to 100 % of unshifted session streams drift. So each `push` is one unit and becomes one row, the
    mean of its rows rescaled to their mean length; single rows stay as they are. Unscaled, a mean is the
    shorter the more it averages: sessions of 2 instead of 1.2 queries about one unchanged intent each (hashed
    CLINC150, windows of 60) gave p <= 5 % in 72 % of windows, rescaled in 8 %. Sessions that wander over many
    intents still show a change of their length (23 % instead of 98 %).

    Until `fit`, the first `reference_size` units become the reference. After that the last `window_size` units
    are the current window: `test` compares it at any moment, for display, and each time it is wholly renewed
    its p-value goes into the alarm. On unshifted streams of CLINC150 (200 references of 150, windows of 40) a
    budget of 300 tests gave an alarm in 1,800 tests, one of 1,000 tests an alarm in 5,000.

    Relabellings are drawn from the seed and the number of renewed windows, so that looking moves nothing.
    Memory is 4 n^2 bytes for a reference of n units. Not thread-safe: it has one owner.
    """

    name = "query_mmd"

    def __init__(self, settings: QueryDriftSettings | None = None) -> None:
        self.settings = settings or QueryDriftSettings()
        self._reference: MmdReference | None = None
        self._units: list[npt.NDArray[np.float32]] = []
        """What came before there is a reference, else the current window, oldest first; each of shape
        (d,)."""
        self._since_test = 0
        self._tests = 0
        self._alarm = SequentialAlarm(self.settings.run_length, self.settings.quiet_tests)
        self._labels: tuple[int, Labels] | None = None
        self._verdict: DriftVerdict | None = None

    @property
    def dimensions(self) -> int | None:
        """The vectors' dimension; None before the first vector."""
        if self._reference is not None:
            return self._reference.dimensions
        return len(self._units[0]) if self._units else None

    @property
    def reference_missing(self) -> int:
        """How many units the reference still lacks; 0 once it stands."""
        return 0 if self._reference is not None else self.settings.reference_size - len(self._units)

    def fit(self, reference: Vectors) -> None:
        """Take the reference, one row a unit, shape (n, d), n at least `window_size`; starts windows and
        alarm anew.

        All of it is taken, whatever `reference_size` is. Raises an UnusableVectors and keeps the old
        reference where it is not usable.
        """
        rows = usable_rows(reference, least=self.settings.window_size)
        self._reference = MmdReference(rows.astype(np.float32))
        self._units = []
        self._since_test = self._tests = 0
        self._alarm = SequentialAlarm(self.settings.run_length, self.settings.quiet_tests)
        self._labels = self._verdict = None

    def push(self, unit: Vectors) -> None:
        """Add one closed unit's rows, shape (rows, d), rows at least 1.

        Raises an UnusableVectors (its `reason` is a metric label) and changes nothing where they are not
        usable.
        """
        self._units.append(_unit_row(usable_rows(unit, self.dimensions)))
        self._verdict = None
        if self._reference is None:
            if len(self._units) == self.settings.reference_size:
                self.fit(np.stack(self._units))
            return
        del self._units[: -self.settings.window_size]
        self._since_test += 1
        if self._since_test == self.settings.window_size:
            self._close_window()

    def test(self) -> DriftVerdict | None:
        """Compare the current window with the reference; None while either is incomplete. Moves nothing."""
        if (
            self._verdict is None
            and len(self._units) == self.settings.window_size
            and self._reference is not None
        ):
            self._verdict = self._compare(self._reference)
        return self._verdict

    def _close_window(self) -> None:
        self._since_test = 0
        self._tests += 1
        verdict = self.test()
        if verdict is not None:
            alarm = self._alarm.update(verdict.p_value)
            self._verdict = replace(verdict, alarm=alarm, evidence=self._alarm.evidence)

    def _compare(self, reference: MmdReference) -> DriftVerdict:
        result = reference.test(np.stack(self._units), self._labels_now(reference.size))
        return DriftVerdict(
            detector=self.name,
            statistic=result.statistic,
            p_value=result.p_value,
            reference_size=result.reference_size,
            current_size=result.current_size,
            alarm=self._alarm.alarm,
            evidence=self._alarm.evidence,
            threshold=self._alarm.threshold,
        )

    def _labels_now(self, reference_size: int) -> Labels:
        """The relabellings of the disjoint window under way, or of the one just closed."""
        window = self._tests - (self._since_test == 0)
        if self._labels is None or self._labels[0] != window:
            rng = np.random.default_rng([self.settings.seed, window])
            size, permutations = self.settings.window_size, self.settings.permutations
            self._labels = (window, permutation_labels(reference_size, size, permutations, rng))
        return self._labels[1]

    def state(self) -> State:
        """Everything that later verdicts depend on, as arrays and numbers."""
        reference = self._reference
        state: dict[str, npt.NDArray[np.generic] | float | int | str] = {
            "version": _STATE_VERSION,
            "units": np.stack(self._units)
            if self._units
            else np.empty((0, self.dimensions or 0), np.float32),
            "reference": reference.rows if reference is not None else np.empty((0, 0), np.float32),
            "since_test": self._since_test,
            "tests": self._tests,
            "log_one_plus": self._alarm.log_one_plus,
            "alarm": int(self._alarm.alarm),
            "quiet": self._alarm.quiet,
        }
        return state | {f"{_SETTING}{name}": value for name, value in self.settings.model_dump().items()}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The detector that gave this state; its next verdicts equal those of the original bit for bit.

        Raises ValueError where the state is of another version or incomplete.
        """
        missing = _STATE_KEYS - state.keys()
        if missing:
            raise ValueError(f"the state lacks {', '.join(sorted(missing))}")
        if _number(state, "version") != _STATE_VERSION:
            raise ValueError(f"the state has version {state['version']}, not {_STATE_VERSION}")
        settings = {
            key.removeprefix(_SETTING): _number(state, key) for key in state if key.startswith(_SETTING)
        }
        detector = cls(QueryDriftSettings.model_validate(settings))
        reference = np.asarray(state["reference"], dtype=np.float32)
        if len(reference):
            detector.fit(reference)
        detector._units = list(np.array(state["units"], dtype=np.float32))
        detector._since_test = int(_number(state, "since_test"))
        detector._tests = int(_number(state, "tests"))
        detector._alarm.log_one_plus = _number(state, "log_one_plus")
        detector._alarm.alarm = bool(_number(state, "alarm"))
        detector._alarm.quiet = int(_number(state, "quiet"))
        return detector


def _unit_row(rows: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
    """A unit's rows (rows, d) as one of shape (d,): their mean, as long as they are on average."""
    mean: npt.NDArray[np.float64] = rows.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    usual = float(np.linalg.norm(rows.astype(np.float64), axis=1).mean())
    if len(rows) > 1 and length > _CANCELLED * usual:
        mean *= usual / length
    return mean.astype(np.float32)


def _number(state: State, key: str) -> float:
    """A number of the state, whether it comes plain or as a stored array of one."""
    number: float = np.asarray(state[key]).item()
    return number
