"""alibi-detect's detectors behind our protocol: a second opinion, off unless it is configured.

Licence: alibi-detect is under the Business Source License 1.1, which asks for a licence of its makers for use in
production; the program says so whenever one of these is built. Needs the extra `alibi`, imported only then.

They are shown and never paged on: their p-values come without a false-alarm budget, and our own alarms stay as they
are. MMDDriftOnline brings a run length of its own, so its verdict may alarm; nobody is paged by it either.

What goes in is one mean row a unit, since its tests permute single rows and would take the queries of one session for
independent ones. Its permutation p-values can be 0: with x of B at least as large it says x / B, which becomes
(x + 1) / (B + 1) here (Phipson & Smyth 2010). No pickle: a state holds reference and window, and the detector is
fitted again from the seed.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log10, nan
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.vectors import usable_rows
from detectors.verdict import DriftVerdict, State, Vectors

_LOG = logging.getLogger(__name__)
_STATE_VERSION = 1
_SETTING = "setting."

LICENCE = (
    "alibi-detect is under the Business Source License 1.1: use in production needs a licence from its makers"
)
Rows = npt.NDArray[np.float32]
Answer = tuple[float, float]
"""Statistic and p-value."""


class AlibiMissing(ImportError):  # noqa: N818 (says what is wrong)
    """The extra `alibi` is not installed."""


class AlibiSettings(BaseModel):
    """Which of alibi-detect's detectors, and how large the windows are. alibi-detect is under the Business Source
    License 1.1: use in production needs a licence from its makers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    detector: Literal["mmd", "lsdd", "classifier", "mmd_online"] = Field(
        default="mmd",
        description="Of alibi-detect (Business Source License 1.1: use in production needs a licence from its makers): "
        "MMDDrift, LSDDDrift, ClassifierDrift (logistic regression, 5 folds) or MMDDriftOnline.",
    )
    reference_size: int = Field(
        default=500, ge=10, description="Units (sessions) collected as the reference where none is given."
    )
    window_size: int = Field(default=100, ge=5, description="Units in the current window.")
    permutations: int = Field(
        default=1000, ge=99, description="Permutations a test; for mmd_online bootstraps of its thresholds."
    )
    run_length: float = Field(
        default=100.0, gt=1.0, description="mmd_online: units from one false alarm to the next (its ert)."
    )
    seed: int = Field(default=0, ge=0, description="Seed of permutations, folds and bootstraps.")

    @model_validator(mode="after")
    def _reference_holds_windows(self) -> Self:
        if self.reference_size < self.least_reference:
            raise ValueError(f"reference_size must be at least {self.least_reference} with this window_size")
        if self.detector == "mmd_online" and self.permutations < 5 * self.run_length:
            raise ValueError("mmd_online needs permutations of at least 5 times run_length")
        return self

    @property
    def least_reference(self) -> int:
        """MMDDriftOnline cuts two windows less one out of its reference, and needs two rows beside them."""
        return 2 * self.window_size + 1 if self.detector == "mmd_online" else self.window_size


class AlibiDetector:
    """One of alibi-detect's offline tests over the last `window_size` units, for display.

    Costs one whole test a look. One owner; use `alibi_detector` to build the right class.
    """

    name: ClassVar[str] = "alibi"

    def __init__(self, settings: AlibiSettings) -> None:
        _LOG.warning("%s (drift backend: alibi, %s)", LICENCE, settings.detector)
        self.settings = settings
        self._collected: list[Rows] = []
        """Unit means that came before there is a reference."""
        self._reference: Rows | None = None
        self._window: deque[Rows] = deque(maxlen=settings.window_size)
        self._since = 0
        self._answer: Answer | None = None

    @property
    def dimensions(self) -> int | None:
        """The vectors' dimension; None before the first vector."""
        if self._reference is not None:
            return int(self._reference.shape[1])
        return len(self._collected[0]) if self._collected else None

    @property
    def reference_missing(self) -> int:
        """How many units the reference still lacks; 0 once it has enough."""
        return 0 if self._reference is not None else self.settings.reference_size - len(self._collected)

    def fit(self, reference: Vectors) -> None:
        """Take the reference, rows (n, d), each a unit, and start anew. Raises an UnusableVectors and keeps the old
        one where it is not usable."""
        rows = usable_rows(reference, least=self.settings.least_reference, zeros=False).astype(np.float32)
        self._build(rows)
        self._reference, self._collected = rows, []
        self._window.clear()
        self._since, self._answer = 0, None

    def push(self, unit: Vectors, now: float = 0.0) -> None:
        """Add one closed unit's rows, shape (rows, d), as their mean. Raises an UnusableVectors and changes nothing
        where they are not usable."""
        rows = usable_rows(unit, self.dimensions, zeros=False)
        mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        if self._reference is None:
            self._collected.append(mean)
            if not self.reference_missing:
                self.fit(np.stack(self._collected))
            return
        self._window.append(mean)
        self._answer = None
        self._take(mean)

    def test(self) -> DriftVerdict | None:
        """Compare the windows; None while either is incomplete. Moves nothing."""
        if self._reference is None or len(self._window) < self.settings.window_size:
            return None
        self._answer = self._answer or self._compare()
        alarm, evidence, threshold = self._said()
        statistic, p = self._answer
        name = f"{self.name}_{self.settings.detector}"
        sizes = len(self._reference), len(self._window)
        return DriftVerdict(name, statistic, p, *sizes, alarm, evidence, threshold)

    def state(self) -> State:
        """Everything later verdicts depend on, as arrays and numbers."""
        empty = np.empty((0, self.dimensions or 0), dtype=np.float32)
        state: dict[str, npt.NDArray[np.generic] | float | int | str] = {
            "version": _STATE_VERSION,
            "collected": np.stack(self._collected) if self._collected else empty,
            "reference": empty if self._reference is None else self._reference.copy(),
            "window": np.stack(self._window) if self._window else empty,
            "since": self._since,
        }
        return state | {f"{_SETTING}{name}": value for name, value in self.settings.model_dump().items()}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The detector that gave this state, fitted again from its seed; its next verdicts are the same. Raises
        ValueError where the state is of another version, KeyError where it is incomplete."""
        if np.asarray(state["version"]).item() != _STATE_VERSION:
            raise ValueError(f"the state has version {state['version']}, not {_STATE_VERSION}")
        names = AlibiSettings.model_fields
        detector = cls(
            AlibiSettings.model_validate({name: np.asarray(state[_SETTING + name]).item() for name in names})
        )
        reference = np.asarray(state["reference"], dtype=np.float32)
        if len(reference):
            detector.fit(reference)
        detector._collected = list(np.array(state["collected"], dtype=np.float32))
        for row in np.array(state["window"], dtype=np.float32):
            detector._window.append(row)
        detector._resume(int(np.asarray(state["since"]).item()))
        return detector

    def _build(self, reference: Rows) -> None:
        with _seeded(self.settings.seed):
            self._drift = _OFFLINE[self.settings.detector](_alibi(), reference, self.settings)

    def _take(self, row: Rows) -> None:
        self._since += 1

    def _resume(self, since: int) -> None:
        self._since = since

    def _compare(self) -> Answer:
        with _seeded(self.settings.seed):
            data = self._drift.predict(np.stack(self._window))["data"]
        p, draws = float(data["p_val"]), self.settings.permutations
        if self.settings.detector == "classifier":  # of a Kolmogorov-Smirnov test, which may underflow
            return float(data["distance"]), max(p, sys.float_info.min)
        return float(data["distance"]), (round(p * draws) + 1) / (draws + 1)

    def _said(self) -> tuple[bool, float, float]:
        """Alarm, evidence and threshold: an offline test has none to say."""
        return False, 0.0, nan


class AlibiOnlineDetector(AlibiDetector):
    """MMDDriftOnline: MMD of the last `window_size` units against a threshold reached every `run_length` units.

    All that it tells of a unit is whether the threshold is reached, which has a chance of 1 / run_length where nothing
    moved and nothing was said before: that, or 1, is the p-value, and -log10 of it the evidence. The alarm is on
    while the threshold is reached. Its lists of all statistics, which grow for ever, are not filled.
    """

    def _build(self, reference: Rows) -> None:
        settings = self.settings
        with _seeded(settings.seed):
            self._drift = _alibi().MMDDriftOnline(
                reference,
                ert=settings.run_length,
                window_size=settings.window_size,
                backend="pytorch",
                n_bootstraps=settings.permutations,
                device="cpu",
                verbose=False,
            )
        self._statistic = 0.0

    def _take(self, row: Rows) -> None:
        self._since += 1
        self._statistic = float(self._drift.score(row))

    def _resume(self, since: int) -> None:
        for row in self._window:
            self._statistic = float(self._drift.score(row))
        self._since = self._drift._detector.t = since

    def _compare(self) -> Answer:
        threshold = float(self._drift._detector.get_threshold(self._since))
        return self._statistic, 1.0 / self.settings.run_length if self._statistic > threshold else 1.0

    def _said(self) -> tuple[bool, float, float]:
        _, p = self._answer or self._compare()
        return p < 1.0, -log10(p) if p < 1.0 else 0.0, log10(self.settings.run_length)


def alibi_detector(settings: AlibiSettings) -> AlibiDetector:
    """The detector that the settings name. Raises AlibiMissing where the extra is not installed."""
    _alibi()
    return (AlibiOnlineDetector if settings.detector == "mmd_online" else AlibiDetector)(settings)


def _mmd(alibi: Any, reference: Rows, settings: AlibiSettings) -> Any:
    return alibi.MMDDrift(reference, backend="pytorch", n_permutations=settings.permutations, device="cpu")


def _lsdd(alibi: Any, reference: Rows, settings: AlibiSettings) -> Any:
    return alibi.LSDDDrift(reference, backend="pytorch", n_permutations=settings.permutations, device="cpu")


def _classifier(alibi: Any, reference: Rows, settings: AlibiSettings) -> Any:
    from sklearn.linear_model import LogisticRegression  # comes with alibi-detect

    model = LogisticRegression(max_iter=1000)
    return alibi.ClassifierDrift(
        reference, model, backend="sklearn", train_size=None, n_folds=5, seed=settings.seed
    )


_OFFLINE: dict[str, Callable[[Any, Rows, AlibiSettings], Any]] = {
    "mmd": _mmd,
    "lsdd": _lsdd,
    "classifier": _classifier,
}


def _alibi() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what its own imports deprecate
            import alibi_detect.cd
    except ImportError as error:
        raise AlibiMissing("the alibi backend needs the extra: pip install 'groundwatch[alibi]'") from error
    return alibi_detect.cd


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's generator from the seed, and as it was before afterwards."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
