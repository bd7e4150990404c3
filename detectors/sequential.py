"""Alarms over conformal p-values, one a unit, in units of the run length that was measured for them.

A p-value looked at for ever is small sooner or later. So each unit's p is bet on: f(p) with a decreasing density f is
an e-value, whose expectation is at most 1 where nothing moved (Vovk & Wang 2021, "E-values: calibration, combination
and applications", Annals of Statistics 49). The e-values go into one of two statistics, each of which may start at
any moment at no cost:

    Shiryaev-Roberts  R_t = (1 + R_{t-1}) e_t       (Shin, Ramdas & Rinaldo 2022, "E-detectors", arXiv:2203.03532)
    CUSUM             C_t = max(1, C_{t-1}) e_t     (Page 1954; on conformal p-values: Vovk et al. 2021, "Retrain or not
                                                     retrain: conformal test martingales for change-point detection")

What is lost where the shift is not the one bet on is made up by a mixture over bets: the mean of the statistics is
again such a statistic. The theory's run length asks for e-values of expectation 1 given the past; one fixed reference
gives that only on average over references. So the level that alarms comes from run lengths measured on the reference
itself (`run_length.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, log
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
_LN10 = log(10.0)


class Rule(StrEnum):
    """How e-values add up to evidence."""

    SHIRYAEV_ROBERTS = "shiryaev_roberts"
    CUSUM = "cusum"


@dataclass(frozen=True, slots=True)
class Bets:
    """Densities of p where a shift has moved some of the units, each a likelihood ratio against the uniform.

    `steps` are pairs (share, top): that share has moved, and its p-values lie below the top:
    f(p) = 1 - share + share/top [p <= top]. Where `power` is given, one more: f(p) = power p^(power - 1). Bounded bets
    are what a finite reference supports: the smaller the share, the larger the reference must be.

    >>> Bets(((0.1, 0.05),), 0.5).log(np.array([1.0, 0.01])).round(3).tolist()
    [[-0.105, -0.693], [1.065, 1.609]]
    """

    steps: tuple[tuple[float, float], ...]
    power: float | None = None

    @classmethod
    def down_to(cls, smallest_share: float) -> Bets:
        """The mixture that looks for shifts of at least this share of the units."""
        return cls(tuple(step for step in _STEPS if step[0] >= smallest_share), _POWER)

    def __len__(self) -> int:
        return len(self.steps) + (self.power is not None)

    def log(self, p: npt.NDArray[np.floating[Any]]) -> Reals:
        """ln f(p), shape (*p.shape, bets); 0, which is no bet, where p is NaN."""
        p = np.asarray(p, dtype=np.float64)
        share, top = np.array(self.steps, dtype=np.float64).reshape(-1, 2).T
        logs: Reals = np.where(p[..., None] <= top, np.log1p(share / top - share), np.log1p(-share))
        if self.power is not None:
            rises = np.log(self.power) + (self.power - 1.0) * np.log(p)
            logs = np.concatenate([logs, rises[..., None]], axis=-1)
        return np.where(np.isnan(p)[..., None], 0.0, logs)


_STEPS = ((0.3, 0.2), (0.1, 0.05), (0.04, 0.05))
_POWER = 0.6


def start(rule: Rule, shape: tuple[int, ...]) -> Reals:
    """The logarithm of the statistics before the first unit."""
    return np.full(shape, -inf if rule is Rule.SHIRYAEV_ROBERTS else 0.0)


def advance(rule: Rule, logs: Reals, log_e: Reals) -> Reals:
    """The logarithm of the statistics one unit later."""
    before = np.logaddexp(0.0, logs) if rule is Rule.SHIRYAEV_ROBERTS else np.maximum(logs, 0.0)
    after: Reals = before + log_e
    return after


def mixed(logs: Reals) -> Reals:
    """The logarithm of the mean over the last axis."""
    mean: Reals = np.logaddexp.reduce(logs, axis=-1) - log(logs.shape[-1])
    return mean


@dataclass(slots=True)
class SequentialAlarm:
    """One mixture's statistic and its latch. `logs` and `alarm` are its whole state.

    The alarm latches at the limit and clears, starting anew, when the statistic has fallen to a fiftieth of it; it is
    never let above four times the limit, so that it comes down in good time.
    """

    rule: Rule
    logs: Reals
    alarm: bool = False

    @property
    def level(self) -> float:
        """The logarithm of the mixture."""
        return float(mixed(self.logs))

    def update(self, log_e: Reals, limit: float) -> bool:
        """Take one unit's ln e, shape as `logs`, and say whether the alarm is on at this limit."""
        self.logs = np.minimum(advance(self.rule, self.logs, log_e), limit + _HEADROOM)
        if self.level >= limit:
            self.alarm = True
        elif self.alarm and self.level <= limit - _CLEARS:
            self.alarm, self.logs = False, start(self.rule, self.logs.shape)
        return self.alarm


_HEADROOM, _CLEARS = log(4.0), log(50.0)
