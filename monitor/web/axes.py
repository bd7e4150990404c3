"""The two axes of a chart: which stretch of time and of values it shows, and where its labels stand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.status import Point

_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86400


@dataclass(slots=True, frozen=True)
class Window:
    """The stretch of time that a chart shows, in Unix seconds; every chart of a page shares it."""

    start: float
    end: float

    def part(self, time: float) -> float:
        """Where a time lies: 0 at the start, 1 at the end.

        >>> Window(100.0, 200.0).part(150.0)
        0.5
        """
        return (time - self.start) / (self.end - self.start)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Round times within the window, at most five, each with its label in UTC.

        >>> list(Window(1700000000.0, 1700000600.0).ticks())[0]
        (1700000100.0, '22:15')
        """
        step, form = self._step()
        first = math.ceil(self.start / step) * step
        for index in range(math.floor((self.end - first) / step) + 1):
            time = first + index * step
            yield time, datetime.fromtimestamp(time, UTC).strftime(form)

    def _step(self) -> tuple[float, str]:
        rough = (self.end - self.start) / 4
        step = next((step for step in _TIME_STEPS if step >= rough), _DAY * math.ceil(rough / _DAY))
        return float(step), "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY else "%d %b"


@dataclass(slots=True, frozen=True)
class Scale:
    """The values that a chart shows, from `low` to `high` with a label every `step`."""

    low: float
    high: float
    step: float

    def part(self, amount: float) -> float:
        """Where a value lies: 0 at the bottom, 1 at the top; beyond that outside the drawing."""
        return (amount - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[float]:
        """The values that get a label, lowest first."""
        for index in range(round((self.high - self.low) / self.step) + 1):
            yield self.low + index * self.step


def fitting_scale(points: Sequence[Point], kind: str, objective: float | None) -> Scale:
    """From 0 (or below, where the numbers are) to above the estimates, the objective and most upper bounds.

    The first intervals after a start may reach to 1: the widest tenth of the bounds may leave the drawing at its
    top rather than press all else flat.

    >>> fitting_scale([Point(time=0.0, estimate=0.03, lower=0.01, upper=0.06)], "rate", 0.02)
    Scale(low=0.0, high=0.06, step=0.02)
    """
    if kind == "alarm":
        return Scale(0.0, 1.0, 1.0)
    uppers = sorted(point.upper for point in points if point.upper is not None)
    tops = [0.0, *(point.estimate for point in points if point.estimate is not None)]
    tops += uppers[: math.ceil(0.9 * len(uppers))]
    bottoms = [point.lower if point.lower is not None else point.estimate or 0.0 for point in points]
    if objective is not None and math.isfinite(objective):
        tops.append(1.2 * objective)
    low, high = min([0.0, *bottoms]), max(tops)
    if high <= low:
        high = low + (0.1 if kind == "rate" else 1.0)
    step = _round_step((high - low) / 3)
    top = math.ceil(high / step - 1e-9) * step
    if kind == "rate" and top > 1.0:
        return Scale(0.0, 1.0, 0.5)
    return Scale(math.floor(low / step + 1e-9) * step, top, step)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
