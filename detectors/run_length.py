"""How long an alarm runs until it is false: measured on the reference, its spread over references, and whether the
reference suffices.

Given one reference, conformal p-values of unshifted units are not quite uniform: how likely a new unit falls between
two neighbouring scores of the n that it is ranked among is Dirichlet(1, ..., 1) over references. The same weights on
the reference's own held-out units (the Bayesian bootstrap: Rubin 1981, Annals of Statistics 9) therefore make a world
that differs from the reference as the true one does. Streams drawn from such worlds are replayed; the largest level
in a block of units gives, by the Gumbel law of maxima, the run length to any level. The limit is set by the mean rate
of alarms over worlds, not by the mean run length, which the lucky worlds would dominate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log10, pi, sqrt

import numpy as np
import numpy.typing as npt

from detectors.sequential import Bets, Reals, Rule, advance, mixed, start

Streams = npt.NDArray[np.float64]
"""p-values, shape (lanes, units, spans): what is bet on at each unit; NaN where there is none yet."""
Draw = Callable[[np.random.Generator, int, int], Streams]
"""From a generator, lanes and units: streams of one world."""

WORLDS, LANES, UNITS = 40, 16, 1000
"""Resampled references, streams of each, and units of a stream: over half a million units."""
_EULER = 0.5772156649015329
_LONGEST = 1e15


@dataclass(slots=True)
class RunLengths:
    """What the replays of each world gave: the Gumbel law of the largest level in a block of UNITS units.

    Grows world by world; complete with WORLDS of them.
    """

    places: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.places) >= WORLDS

    def add(self, largest: Reals) -> None:
        """Take one world's largest levels, shape (lanes,); the law by its moments."""
        scale = max(float(largest.std(ddof=1)) * sqrt(6.0) / pi, 1e-6)
        self.scales.append(scale)
        self.places.append(float(largest.mean()) - _EULER * scale)

    def rates(self, level: float) -> Reals:
        """Alarms a unit at this level in each world, shape (worlds,)."""
        places, scales = np.array(self.places), np.array(self.scales)
        rates: Reals = np.exp(np.clip(-(level - places) / scales, -700.0, 50.0)) / UNITS
        return rates

    def evidence(self, level: float) -> float:
        """log10 of the units from one false alarm to the next at this level; 0 at least."""
        return max(-log10(max(float(self.rates(level).mean()), 1.0 / _LONGEST)), 0.0)

    def limit(self, run_length: float) -> float:
        """The level that is reached once in so many units, on average over references."""
        low, high = 0.0, 1.0
        while self.rates(high).mean() > 1.0 / run_length:
            low, high = high, 2.0 * high
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.rates(middle).mean() > 1.0 / run_length else (low, middle)
        return high

    def one_in_ten(self, run_length: float) -> float:
        """The run length that one reference in ten does not reach at the limit for this one."""
        return float(1.0 / np.quantile(self.rates(self.limit(run_length)), 0.9))


def largest_levels(rule: Rule, bets: Bets, streams: Streams) -> Reals:
    """The largest level of each stream, shape (lanes,)."""
    steps = np.ascontiguousarray(log_e(bets, streams).transpose(1, 0, 2))
    logs = start(rule, steps.shape[1:])
    for unit, step in enumerate(steps):
        steps[unit] = logs = advance(rule, logs, step)
    largest: Reals = mixed(steps).max(axis=0)
    return largest


def log_e(bets: Bets, p: npt.NDArray[np.float64]) -> Reals:
    """ln e of each span's p and each bet, shape (..., spans x bets)."""
    return bets.log(p).reshape(*p.shape[:-1], -1)


def measure_world(rule: Rule, bets: Bets, draw: Draw, lengths: RunLengths, seed: int) -> None:
    """Replay the next world; which one it is, its seed says."""
    rng = np.random.default_rng([seed, len(lengths.places)])
    lengths.add(largest_levels(rule, bets, draw(rng, LANES, UNITS)))


def ideal_limit(rule: Rule, bets: Bets, spans: int, run_length: float) -> float:
    """The limit that a boundless reference would need: independent uniform p-values."""
    rng, lengths = np.random.default_rng(0), RunLengths()
    lengths.add(largest_levels(rule, bets, rng.random((WORLDS * LANES // 2, UNITS, spans))))
    return lengths.limit(run_length)


def size_needed(size: int, excess: float, allowed: float) -> int:
    """How many units keep the excess of the limit over the ideal one within what is allowed.

    The reference moves the expectation of an e-value by an amount of order n^(-1/2), and the limit by the square of
    it: the mean over worlds of a rate that is exponential in it.
    """
    needed = size * max(excess / allowed, 1.0)
    digits = 10 ** max(int(log10(needed)) - 1, 0)
    return int(-(-needed // digits) * digits)
