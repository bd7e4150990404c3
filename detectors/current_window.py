"""The current window of a drift detector: the last units by count, or those of the last seconds. For display."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from detectors.entries import Entries, Rows, pack, unpack
from detectors.kernel import median_gamma
from detectors.mmd import MmdTest, permutation_test
from detectors.mmd_rolling import RollingMmd
from detectors.vectors import Units
from detectors.verdict import State


class CurrentWindow(Protocol):
    """Compares what came last with a fixed reference."""

    def push(self, unit: Rows, now: float) -> None:
        """Add a closed unit's rows, shape (rows, d)."""
        ...

    def test(self) -> MmdTest | None:
        """Compare; None while there are too few units. Moves nothing."""
        ...

    def state(self) -> Entries:
        """All but the reference."""
        ...


class CountedWindow:
    """The last `size` units; every push costs one exact rolling step (`mmd_rolling.py`)."""

    def __init__(self, rolling: RollingMmd) -> None:
        self._rolling = rolling

    def push(self, unit: Rows, now: float) -> None:
        self._rolling.push([unit])

    def test(self) -> MmdTest | None:
        return self._rolling.test()

    def state(self) -> Entries:
        return self._rolling.state()


class TimedWindow:
    """The units of the last `seconds`, if they are at least `least`; every test is a one-shot permutation test.

    How many units it holds changes from look to look, and with it what a relabelling is: nothing can be kept.
    """

    def __init__(self, reference: Units, seconds: float, least: int, permutations: int, seed: int) -> None:
        self._reference = reference
        self._gamma = median_gamma(reference.rows)
        self._seconds, self._least, self._permutations, self._seed = seconds, least, permutations, seed
        self._units: deque[tuple[float, Rows]] = deque()

    def push(self, unit: Rows, now: float) -> None:
        self._units.append((now, unit))
        while now - self._units[0][0] > self._seconds:
            self._units.popleft()

    def test(self) -> MmdTest | None:
        if len(self._units) < self._least:
            return None
        current = Units.of([unit for _, unit in self._units])
        return permutation_test(
            self._reference, current, permutations=self._permutations, seed=self._seed, gamma=self._gamma
        )

    def state(self) -> Entries:
        return pack(list(self._units))

    def restore(self, state: State) -> None:
        """Take up the units of a state with the same reference."""
        self._units.extend(unpack(state))
