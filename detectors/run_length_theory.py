"""How long a chart of independent standard normal numbers runs until it alarms: Markov chains over its statistic.

CUSUM: Brook and Evans, Biometrika 59 (1972). EWMA: Lucas and Saccucci, Technometrics 32 (1990). The statistic's range
is cut into `states` intervals; the mean run length from the start is that entry of (I - P)^-1 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_erf = np.vectorize(math.erf, otypes=[np.float64])
_STEPS = 30


def _phi(x: Floats) -> Floats:
    found: Floats = 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))
    return found


def cusum_run_length(k: float, h: float, shift: float = 0.0, states: int = 150) -> float:
    """Mean steps until the one-sided CUSUM max(0, S + z - k) exceeds h, z normal with mean `shift`, from S = 0.

    >>> round(cusum_run_length(0.5, 5.0, 1.0), 1)
    10.4
    """
    width = 2.0 * h / (2 * states - 1)
    place = np.arange(states) * width
    reach = (np.arange(1 - states, states) + 0.5) * width + k - shift
    upper = _phi(reach)
    lower = _phi(reach - width)
    step = np.arange(states)[None, :] - np.arange(states)[:, None] + states - 1
    chain = (upper - lower)[step]
    chain[:, 0] = _phi(width / 2 - place + k - shift)
    return float(np.linalg.solve(np.eye(states) - chain, np.ones(states))[0])


def ewma_run_length(weight: float, limit: float, shift: float = 0.0, states: int = 401) -> float:
    """Mean steps until the EWMA leaves +- `limit` of its own asymptotic standard deviations, from 0; both sides.

    >>> round(ewma_run_length(0.25, 2.998, 1.0), 1)
    11.1
    """
    h = limit * math.sqrt(weight / (2.0 - weight))
    width = 2.0 * h / states
    centres = -h + (np.arange(states) + 0.5) * width
    ends = centres[None, :] - (1.0 - weight) * centres[:, None]
    chain = _phi((ends + width / 2) / weight - shift) - _phi((ends - width / 2) / weight - shift)
    return float(np.linalg.solve(np.eye(states) - chain, np.ones(states))[states // 2])


def cusum_limit(k: float, run_length: float) -> float:
    """The h at which the one-sided CUSUM has this mean run length in control."""
    return _solved(lambda h: cusum_run_length(k, h, states=60), run_length, 0.1, 40.0)


def ewma_limit(weight: float, run_length: float) -> float:
    """The limit, in standard deviations of the EWMA, at which it has this mean run length in control, both sides."""
    return _solved(lambda limit: ewma_run_length(weight, limit, states=61), run_length, 0.5, 6.0)


def _solved(length: Callable[[float], float], goal: float, low: float, high: float) -> float:
    """Bisection: run lengths grow with the limit."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        found = length(middle)
        # Beyond what doubles resolve the solution may come out negative: longer than any budget.
        low, high = (middle, high) if 0 < found < goal else (low, middle)
    return high
