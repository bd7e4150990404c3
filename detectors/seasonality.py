"""What a rate usually is at an hour, and how much it scatters: the baseline of a control chart.

The rate of each phase (hour of the day, or of the week) is shrunk towards the whole by empirical Bayes (moments,
Morris, JASA 78, 1983): a phase seen in few units moves little. Scatter beyond the binomial is a beta-binomial's:
variance n p q (1 + (n - 1) rho), rho by moments (Kleinman, JASA 68, 1973), times a constant factor as in Laney's p'
chart (Quality Engineering 14, 2002). Answers of one session share a fate; both terms absorb that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
HOURS_A_DAY = 24
HOURS_A_WEEK = 168
_CLIP = 3.5
"""Standard deviations beyond which a baseline hour is drawn in: one incident must not become what is usual."""
_ROUNDS = 3


@dataclass(slots=True, frozen=True)
class Baseline:
    """`rates` has one rate a phase, (24,) or (168,); hour t since 1970 (UTC) has phase t modulo their number."""

    rates: Floats
    rho: float
    factor: float
    """Standard deviation of the standardised hours, at least 1."""

    def expected(self, hour: npt.NDArray[np.int64], total: Floats) -> tuple[Floats, Floats]:
        """Bad units expected and their variance, in the shape of `total`; both 0 where `total` is 0."""
        p = self.rates[hour % len(self.rates)]
        extra = 1.0 + np.maximum(total - 1.0, 0.0) * self.rho
        return total * p, total * p * (1.0 - p) * extra * self.factor**2


def fit_baseline(hour: npt.NDArray[np.int64], bad: Floats, total: Floats, weekly: bool = False) -> Baseline:
    """The baseline of counts by hour; all three arrays (hours,).

    >>> hours = np.arange(14 * 24)
    >>> fitted = fit_baseline(hours, np.full(336, 8.0), np.full(336, 100.0))
    >>> round(float(fitted.rates[0]), 3), fitted.rho, fitted.factor
    (0.08, 0.0, 1.0)
    """
    phases = HOURS_A_WEEK if weekly else HOURS_A_DAY
    phase = hour % phases
    drawn_in = bad.astype(np.float64)
    used = total > 0
    for _ in range(_ROUNDS):
        found = _fitted(phase, drawn_in, total, used, phases)
        mean, variance = found.expected(hour, total)
        reach = _CLIP * np.sqrt(variance)
        drawn_in = np.clip(bad, mean - reach, mean + reach)
    return found


def _fitted(
    phase: npt.NDArray[np.int64], bad: Floats, total: Floats, used: npt.NDArray[np.bool_], phases: int
) -> Baseline:
    units = np.bincount(phase, total, phases)
    events = np.bincount(phase, bad, phases)
    # Half an event of each kind keeps a rate that was never seen from being impossible.
    whole = (events.sum() + 0.5) / (units.sum() + 1.0)
    raw = np.where(units > 0, events / np.maximum(units, 1.0), whole)
    n = total[used]
    rho = _rho(bad[used], n, raw[phase[used]].clip(whole / 10, 1 - (1 - whole) / 10))
    squares = np.bincount(phase, total * (1.0 + np.maximum(total - 1.0, 0.0) * rho), phases)
    error = whole * (1 - whole) * squares / np.maximum(units, 1.0) ** 2
    seen = units > 0
    spread = max(0.0, float(np.mean((raw[seen] - whole) ** 2 - error[seen]))) if seen.any() else 0.0
    kept = np.where(seen, spread / np.maximum(spread + error, 1e-300), 0.0)
    rates = np.clip(whole + kept * (raw - whole), 1e-6, 1 - 1e-6)
    plain = Baseline(rates, rho, 1.0)
    mean, variance = plain.expected(phase, total)
    z = (bad[used] - mean[used]) / np.sqrt(variance[used])
    return Baseline(rates, rho, max(1.0, math.sqrt(float(np.mean(z**2)))) if len(z) else 1.0)


def _rho(bad: Floats, n: Floats, p: Floats) -> float:
    """The intra-hour correlation that makes the mean squared standardised hour as large as seen; 0 where none is."""
    if not len(n) or float(n.sum()) <= len(n):
        return 0.0
    excess = (bad - n * p) ** 2 / (n * p * (1 - p)) - 1.0
    return min(1.0, max(0.0, float(excess.sum() / (n - 1.0).sum())))
