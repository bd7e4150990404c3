"""What a drift detector says of two windows, and what every drift detector must offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.floating[Any]]
"""Shape (rows, dimensions)."""
State = Mapping[str, npt.NDArray[np.generic] | float | int | str]
"""Plain arrays and numbers; what `state` gives and `from_state` takes. No pickle."""


@dataclass(slots=True, frozen=True)
class DriftVerdict:
    """One comparison of the current window with the reference.

    `p_value` is for display; only `alarm` may page, and only a sequential statistic with a false-alarm budget sets it.
    `evidence` is log10 of the units in which that statistic comes so high once without a shift, and `threshold` its
    limit in log10 (NaN where none is set). `lower` and `upper` are the statistic's interval, where it has one.
    """

    detector: str
    statistic: float
    p_value: float
    reference_size: int
    current_size: int
    alarm: bool
    evidence: float
    threshold: float
    lower: float | None = None
    upper: float | None = None


class DriftDetector(Protocol):
    """Compares what comes with what came before. Seeded; no clock of its own."""

    def fit(self, reference: Vectors) -> None:
        """Take the reference window, shape (n, d)."""
        ...

    def push(self, unit: Vectors, now: float = 0.0) -> None:
        """Add one closed unit's rows, shape (rows, d), to the current window; the oldest make room."""
        ...

    def test(self) -> DriftVerdict | None:
        """Compare the windows; None while either is too small to say anything."""
        ...

    def state(self) -> State: ...

    @classmethod
    def from_state(cls, state: State) -> Self: ...
