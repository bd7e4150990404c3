"""An alarm over repeated tests that keeps a false-alarm budget.

A test repeated for ever rejects for ever: p <= 0.05 alarms on every unshifted stream sooner or later. So each
p-value is turned into an e-value, whose expectation is at most 1 where nothing moved (Vovk & Wang 2021,
"E-values: calibration, combination and applications", Annals of Statistics 49), and the e-values go into a
Shiryaev-Roberts e-detector (Shin, Ramdas & Rinaldo 2022, "E-detectors", arXiv:2203.03532):

    M_t = (M_{t-1} + 1) e_t,  alarm when M_t >= c;  without a shift the expected number of tests to an alarm
    is >= c.

The bound asks for E[e_t | the past] <= 1. p-values of disjoint windows against ONE reference do not quite
have that: given the reference they are a little too small for some references and too large for others, so
the budget holds on average over references and only roughly for a given one; the larger the reference beside
the window, the better.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, log, log1p

_LN10 = log(10.0)
_HEADROOM = 2.0 * _LN10
"""The statistic is capped at a hundred times the threshold, so that it comes down again after a long
shift."""
_SERIES_BELOW = 1e-3


def p_to_e(p: float) -> float:
    """The e-value of a p-value: the calibrators kappa p^(kappa - 1) mixed over kappa in (0, 1).

    Equals (1 - p + p ln p) / (p (ln p)^2) (Vovk & Wang 2021, equation 2), here with u = -ln p as (e^u - 1 -
    u) / u^2. Decreasing in p, 1/2 at p = 1, and of expectation 1 for a uniform p.

    >>> round(p_to_e(0.001), 2), p_to_e(1.0)
    (20.79, 0.5)
    """
    if not 0.0 < p <= 1.0:
        raise ValueError(f"{p} is no p-value of a permutation test: those lie above 0 and up to 1")
    u = -log(p)
    if u < _SERIES_BELOW:
        return 0.5 + u / 6.0 + u * u / 24.0
    return (expm1(u) - u) / (u * u)


@dataclass(slots=True)
class SequentialAlarm:
    """A Shiryaev-Roberts alarm over p-values of disjoint windows. Its fields are its whole state: plain
    numbers.

    `run_length` is the budget: at least that many tests, on average, from one (re)start to a false alarm. The
    alarm latches; it clears after `quiet_tests` tests in a row with p > `quiet_above`, and the statistic
    starts anew.

    >>> alarm = SequentialAlarm(run_length=1000.0, quiet_tests=3)
    >>> [alarm.update(0.001) for _ in range(3)]
    [False, False, True]
    >>> [alarm.update(0.5) for _ in range(3)]
    [True, True, False]
    """

    run_length: float
    quiet_tests: int = 3
    quiet_above: float = 0.1
    log_one_plus: float = 0.0
    """ln(1 + M): finite at the start, where M = 0, and where M is too large for a float."""
    alarm: bool = False
    quiet: int = 0
    """How many tests in a row were quiet."""

    def __post_init__(self) -> None:
        if not 1.0 < self.run_length < inf or self.quiet_tests < 1:
            raise ValueError("an alarm needs a run length above 1 test and at least one quiet test to clear")

    @property
    def evidence(self) -> float:
        """log10(1 + M); 0 at the start."""
        return self.log_one_plus / _LN10

    @property
    def threshold(self) -> float:
        """log10(1 + run_length), what `evidence` must reach."""
        return log1p(self.run_length) / _LN10

    def update(self, p_value: float) -> bool:
        """Take the next disjoint window's p-value and say whether the alarm is on."""
        step = self.log_one_plus + log(p_to_e(p_value))
        limit = log1p(self.run_length)
        self.log_one_plus = min(_log1p_exp(step), limit + _HEADROOM)
        self.quiet = self.quiet + 1 if p_value > self.quiet_above else 0
        if self.log_one_plus >= limit:
            self.alarm = True
        if self.alarm and self.quiet >= self.quiet_tests:
            self.alarm, self.log_one_plus = False, 0.0
        return self.alarm


def _log1p_exp(x: float) -> float:
    return x + log1p(exp(-x)) if x > 0.0 else log1p(exp(x))
