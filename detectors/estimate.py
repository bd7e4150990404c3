"""Rates and means of weighted findings, with intervals.

A finding that was judged with inclusion probability pi carries the weight 1 / pi. The Hajek estimator
(Särndal, Swensson & Wretman 1992, section 5.7) divides the weighted sum by the sum of the weights, so that
oversampled strata do not bias it. Every estimate is a function of six sums, which a rolling window keeps up
to date (`RunningSums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, inf, isfinite, sqrt
from statistics import NormalDist

from scipy.special import stdtrit

_ROUNDING = 1e-9


class NoEvidence(ValueError):  # noqa: N818 (the field's term; it is raised, but it is no fault)
    """Nothing was judged, so there is no rate: not 0 and not 1."""


class UnusableValue(ValueError):  # noqa: N818
    """A value or weight that no estimate may hold: not finite, a weight of 0 or less, a rate beyond 0 and
    1."""


@dataclass(slots=True, frozen=True)
class Estimate:
    """A rate or mean with its interval; `lower` and `upper` have the unit of `value`.

    `n` counts the judged units; `effective_n` is the number of equally weighted ones that would tell as much
    (Kish).
    """

    value: float
    lower: float
    upper: float
    n: int
    effective_n: float
    confidence: float


@dataclass(slots=True, frozen=True)
class Sums:
    """What the estimates need of (value y, weight w) pairs: n, and the sums of w, w^2, wy, w^2 y and w^2
    y^2."""

    n: int
    w: float
    ww: float
    wy: float
    wwy: float
    wwyy: float

    @property
    def effective_n(self) -> float:
        """Kish's effective sample size, (sum w)^2 / sum w^2; between 1 and n."""
        return min(max(self.w * self.w / self.ww, 1.0), float(self.n))


class RunningSums:
    """The six sums under additions and removals, without rounding error however many there were.

    Floating-point sums drift under removal: after 1e16 came and went, the small values are lost. Here each
    sum is kept as an exact expansion of non-overlapping floats (Shewchuk 1997, "Adaptive precision
    floating-point arithmetic"), so that the sums depend on what is held and not on the way there.

    >>> sums = RunningSums()
    >>> for value in (0.1, 1e16, 0.2):
    ...     sums.add(value, 1.0)
    >>> sums.remove(1e16, 1.0)
    >>> sums.sums().wy == 0.1 + 0.2
    True
    """

    def __init__(self) -> None:
        self._n = 0
        self._expansions: tuple[list[float], ...] = ([], [], [], [], [])

    def add(self, value: float, weight: float) -> None:
        """Add one pair. Raises UnusableValue, and changes nothing, where it is not finite or its square
        overflows."""
        self._move(value, weight, 1.0)
        self._n += 1

    def remove(self, value: float, weight: float) -> None:
        """Take back a pair that was added before."""
        self._move(value, weight, -1.0)
        self._n -= 1

    def sums(self) -> Sums:
        """The sums of what is held now, each rounded once."""
        w, ww, wy, wwy, wwyy = (fsum(expansion) for expansion in self._expansions)
        return Sums(self._n, w, ww, wy, wwy, wwyy)

    def _move(self, value: float, weight: float, sign: float) -> None:
        for expansion, term in zip(self._expansions, _terms(value, weight), strict=True):
            _grow(expansion, sign * term)


def hajek_rate(values: Sequence[float], weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The weighted rate sum(w y) / sum(w) of values in [0, 1], with Wilson's interval on Kish's effective n.

    Coverage of the nominal 95 % in simulation (4,000 runs a cell, n of 30, 100 and 300): equal weights and
    rates of .02 to .5: 94 to 98 %; rate .005: 86 % at n = 30, 91 % at n = 100. Weights of 1 and 20, or 1 plus
    an exponential, that do not depend on the value: 93 to 97 %. A stratum of five times the rate sampled 20
    times as often: 92 to 99 %. All bad answers kept against 1 good one in 20: 94 to 100 % (too wide) up to a
    rate of .2, but 75 % at a rate of .5 and n = 30, where one or two good answers carry all the weight. Units
    are taken as independent: answers of one session make the true interval wider.

    Raises NoEvidence without values, UnusableValue for values beyond [0, 1].

    >>> hajek_rate([1, 0, 0, 0], [1, 1, 1, 1]).value
    0.25
    >>> hajek_rate([1, 0], [1, 3]).effective_n
    1.6
    """
    if any(not 0.0 <= value <= 1.0 for value in values):
        raise UnusableValue("a rate is made of values between 0 and 1")
    return rate_from_sums(sums_of(values, weights), confidence)


def weighted_mean(values: Sequence[float], weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The weighted mean sum(w y) / sum(w) of a continuous quantity, with a t interval.

    The variance is the linearised one of a ratio, sum w^2 (y - mean)^2 / (sum w)^2, times n_eff / (n_eff -
    1); the quantile is Student's with n_eff - 1 degrees of freedom. For equal weights it is the usual t
    interval.

    Skewed quantities (costs): the interval is symmetric and errs on the upper side. Lognormal values of log SD
    1, nominal 95 %, 10,000 runs: it covers 89 % at n = 30, 93 % at n = 200, 94 % at n = 1,000, and the true
    mean lies below `lower` in 0.2, 0.7 and 1.5 % instead of 2.5 %. So a guardrail that fires when `lower` is
    over a budget is conservative for costs. One single value says nothing of the spread: its interval is
    infinite.

    Raises NoEvidence without values.
    """
    return mean_from_sums(sums_of(values, weights), confidence)


def sums_of(values: Sequence[float], weights: Sequence[float]) -> Sums:
    """The six sums of pairs, each rounded once. Raises UnusableValue for a pair that no estimate may hold."""
    if len(values) != len(weights):
        raise UnusableValue(f"{len(values)} values have {len(weights)} weights")
    columns = list(zip(*map(_terms, values, weights), strict=True))
    w, ww, wy, wwy, wwyy = (fsum(column) for column in columns) if columns else (0.0,) * 5
    return Sums(len(values), w, ww, wy, wwy, wwyy)


def rate_from_sums(sums: Sums, confidence: float = 0.95) -> Estimate:
    """`hajek_rate` from sums. Raises UnusableValue where the weighted mean shows that these are no rates."""
    _require_evidence(sums)
    rate = sums.wy / sums.w
    if not -_ROUNDING <= rate <= 1.0 + _ROUNDING:
        raise UnusableValue(f"{rate} is no rate: its values are not between 0 and 1")
    rate = min(max(rate, 0.0), 1.0)
    lower, upper = wilson(rate * sums.effective_n, sums.effective_n, confidence)
    return Estimate(rate, min(lower, rate), max(upper, rate), sums.n, sums.effective_n, confidence)


def mean_from_sums(sums: Sums, confidence: float = 0.95) -> Estimate:
    """`weighted_mean` from sums."""
    _require_evidence(sums)
    mean = sums.wy / sums.w
    freedom = sums.effective_n - 1.0
    if freedom <= _ROUNDING:
        return Estimate(mean, -inf, inf, sums.n, sums.effective_n, confidence)
    squares = max(sums.wwyy - 2.0 * mean * sums.wwy + mean * mean * sums.ww, 0.0)
    error = sqrt(squares * sums.effective_n / freedom) / sums.w
    half = float(stdtrit(freedom, _upper_tail(confidence))) * error
    return Estimate(mean, mean - half, mean + half, sums.n, sums.effective_n, confidence)


def wilson(successes: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval (1927) of a proportion; fractional counts are allowed (effective sample sizes).

    Raises NoEvidence where n is 0 or less.

    >>> [round(bound, 4) for bound in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    if not n > 0:
        raise NoEvidence("no unit was judged")
    z = NormalDist().inv_cdf(_upper_tail(confidence))
    failures = n - successes
    if successes < -_ROUNDING * n or failures < -_ROUNDING * n:
        raise UnusableValue(f"{successes} of {n} is no proportion")
    successes, failures = max(successes, 0.0), max(failures, 0.0)
    centre = (successes + z * z / 2.0) / (n + z * z)
    half = z / (n + z * z) * sqrt(successes * failures / n + z * z / 4.0)
    lower = 0.0 if successes == 0.0 else max(centre - half, 0.0)
    upper = 1.0 if failures == 0.0 else min(centre + half, 1.0)
    return lower, upper


def _upper_tail(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    return 0.5 + confidence / 2.0


def _require_evidence(sums: Sums) -> None:
    if sums.n == 0:
        raise NoEvidence("no unit was judged")


def _terms(value: float, weight: float) -> tuple[float, float, float, float, float]:
    weighted = weight * value
    terms = (weight, weight * weight, weighted, weight * weighted, weighted * weighted)
    if not weight > 0.0 or not all(map(isfinite, terms)):
        raise UnusableValue(f"value {value} with weight {weight} cannot enter a sum")
    return terms


def _grow(expansion: list[float], term: float) -> None:
    """Add a term to a non-overlapping expansion, exactly (Shewchuk's grow-expansion with zeros left out)."""
    kept = 0
    for part in expansion:
        if abs(term) < abs(part):
            term, part = part, term  # noqa: PLW2901
        total = term + part
        rest = part - (total - term)
        if rest:
            expansion[kept] = rest
            kept += 1
        term = total
    expansion[kept:] = [term] if term else []
