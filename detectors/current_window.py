"""The current window of a drift detector: the last units by count, or those of the last seconds."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import numpy as np
import numpy.typing as npt

from detectors.kernel import median_gamma
from detectors.mmd import MmdTest, permutation_test
from detectors.mmd_rolling import RollingMmd
from detectors.vectors import Units
from detectors.verdict import State

Rows = npt.NDArray[np.float32]
Entries = dict[str, npt.NDArray[np.generic] | float | int | str]


class CurrentWindow(Protocol):
    """Compares what came last with a fixed reference."""

    @property
    def dimensions(self) -> int: ...

    def push(self, unit: Rows, now: float) -> bool:
        """Add a closed unit's rows, shape (rows, d); whether the window is now wholly new since the last time that it
        was."""
        ...

    def test(self) -> MmdTest | None:
        """Compare; None while there are too few units. Moves nothing."""
        ...

    def state(self) -> Entries: ...


class CountedWindow:
    """The last `size` units; every push costs one exact rolling step (`mmd_rolling.py`)."""

    def __init__(self, reference: Units, size: int, permutations: int, seed: int) -> None:
        self._rolling = RollingMmd(reference, size, permutations=permutations, seed=seed)
        self._since = 0

    @property
    def dimensions(self) -> int:
        return self._rolling.dimensions

    def push(self, unit: Rows, now: float) -> bool:
        self._rolling.push([unit])
        self._since = (self._since + 1) % self._rolling.window
        return self._since == 0

    def test(self) -> MmdTest | None:
        return self._rolling.test()

    def state(self) -> Entries:
        return self._rolling.state() | {"since": self._since}

    @classmethod
    def from_state(cls, state: State) -> CountedWindow:
        window = cls.__new__(cls)
        window._rolling, window._since = RollingMmd.from_state(state), int(number(state, "since"))
        return window


class TimedWindow:
    """The units of the last `seconds`, if they are at least `least`; every test is a one-shot permutation test.

    How many units it holds changes from look to look, and with it what a relabelling is: nothing can be kept.
    """

    def __init__(self, reference: Units, seconds: float, least: int, permutations: int, seed: int) -> None:
        self._reference = reference
        self._gamma = median_gamma(reference.rows)
        self._seconds, self._least, self._permutations, self._seed = seconds, least, permutations, seed
        self._units: deque[tuple[float, Rows]] = deque()
        self._began: float | None = None
        self._renewals = 0

    @property
    def dimensions(self) -> int:
        return self._reference.dimensions

    def push(self, unit: Rows, now: float) -> bool:
        self._began = now if self._began is None else self._began
        renewed = now - self._began >= self._seconds and len(self._units) >= self._least
        if renewed:
            self._began, self._renewals = now, self._renewals + 1
        self._units.append((now, unit))
        while now - self._units[0][0] > self._seconds:
            self._units.popleft()
        return renewed

    def test(self) -> MmdTest | None:
        if len(self._units) < self._least:
            return None
        current = Units.of([unit for _, unit in self._units])
        seed = self._seed + self._renewals
        return permutation_test(
            self._reference, current, permutations=self._permutations, seed=seed, gamma=self._gamma
        )

    def state(self) -> Entries:
        state = pack(list(self._units)) | {"began": float("nan") if self._began is None else self._began}
        reference = {
            "reference": self._reference.rows.copy(),
            "reference_sizes": self._reference.row_counts.copy(),
        }
        return state | reference | {"renewals": self._renewals}

    def restore(self, state: State) -> None:
        """Take up the units of a state with the same reference."""
        self._units.extend(unpack(state))
        began = number(state, "began")
        self._began, self._renewals = None if np.isnan(began) else began, int(number(state, "renewals"))


def pack(units: list[tuple[float, Rows]]) -> Entries:
    """Units with their times as arrays."""
    rows = [unit for _, unit in units]
    return {
        "unit_times": np.array([time for time, _ in units], dtype=np.float64),
        "unit_sizes": np.array([len(unit) for unit in rows], dtype=np.int64),
        "unit_rows": np.concatenate(rows) if rows else np.empty((0, 0), dtype=np.float32),
    }


def unpack(state: State) -> list[tuple[float, Rows]]:
    """What `pack` was given."""
    sizes = np.asarray(state["unit_sizes"], dtype=np.int64)
    if not len(sizes):
        return []
    rows = np.split(np.array(state["unit_rows"], dtype=np.float32), np.cumsum(sizes)[:-1])
    return list(zip(np.asarray(state["unit_times"], dtype=np.float64).tolist(), rows, strict=True))


def number(state: State, key: str) -> float:
    """A number of the state, whether it comes plain or as a stored array of one."""
    plain: float = np.asarray(state[key]).item()
    return plain
