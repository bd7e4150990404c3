"""The kernel of a fixed reference and a rolling window of units, kept in step as units come and go.

The m slots of the window are filled in turn; a unit that comes takes the slot of the oldest. All kernel values have
one constant taken off (`shift`), which leaves MMD^2 as it is, and the kernel of a slot with itself is 0, so that
the statistic needs only sums:

    rho_i = sum of K over the reference, w_i = sum of K over the window, for each slot i; T_xx = the reference's own
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from detectors.kernel import GaussianKernel, Matrix, Points, Reals
from detectors.mmd import mmd2_of
from detectors.vectors import Units
from detectors.verdict import State, Vectors

Slots = npt.NDArray[np.intp]

_PUSHED = 128
"""Units a push, at most."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one push did, per bandwidth: `slots` (b,) were filled; `to_reference` (bandwidths, b, n) is their kernel
    with the reference; `rho` (bandwidths, b) how their sums over it changed; `window` (bandwidths, b, m) how their
    kernel with the window changed."""

    slots: Slots
    to_reference: Matrix
    rho: Reals
    window: Matrix


class RollingKernel:
    """The sums behind the statistic, exact after any number of pushes: float64 sums of stored float32 values.

    A push of b units of c rows costs 2 b c (n + m) d operations. Memory: the window's rows and m^2 kernel values a
    bandwidth; nothing grows. One owner.
    """

    def __init__(
        self,
        kernel: GaussianKernel,
        reference: Points,
        origin: Reals,
        shift: Reals,
        total: Reals,
        window: int,
    ) -> None:
        self.kernel = kernel
        self.size, self.reference_size = window, len(reference)
        self.filled = 0
        self.next = 0
        """The slot that the next unit takes: the oldest unit's, once all are filled."""
        self._reference, self._origin = reference, origin.astype(np.float32)
        self._shift, self._own_total = shift, total
        self._rows = _RowQueue(len(origin))
        shape = (kernel.bandwidths, window)
        self._window: Matrix = np.zeros((*shape, window), dtype=np.float32)
        self.rho, self.w = np.zeros(shape), np.zeros(shape)

    @property
    def full(self) -> bool:
        return self.filled == self.size

    def push(self, units: Units) -> Change:
        """Put at most `size` units into the next slots."""
        count = len(units)
        slots = (self.next + np.arange(count)) % self.size
        self._rows.append(units.rows.astype(np.float32, copy=False) - self._origin, units.row_counts)
        self._rows.drop(max(self.filled + count - self.size, 0))
        self.filled = min(self.filled + count, self.size)
        self.next = int((self.next + count) % self.size)

        window = self._rows.points()
        new = window.part(self.filled - count, self.filled)
        shift = self._shift.astype(np.float32)[:, None, None]
        to_reference = self.kernel.between(new, self._reference).astype(np.float32, copy=False)
        to_reference -= shift
        fresh = np.zeros((len(self._shift), count, self.size), dtype=np.float32)
        by_age = (self.next - self.filled + np.arange(self.filled)) % self.size
        fresh[:, :, by_age] = self.kernel.between(new, window) - shift
        fresh[:, np.arange(count), slots] = 0.0
        among = fresh[:, :, slots]
        fresh[:, :, slots] = 0.5 * (among + among.transpose(0, 2, 1))  # products may differ in their last bit
        rho = to_reference.sum(axis=2, dtype=np.float64) - self.rho[:, slots]
        self.rho[:, slots] += rho
        return Change(slots, to_reference, rho, self._replace(slots, fresh))

    def _replace(self, slots: Slots, fresh: Matrix) -> Matrix:
        """Put in the new rows and columns of the window's kernel; gives how the rows changed."""
        old = self._window[:, slots]
        # Summed apart: each stored value goes in and out as the same number, whatever came in between.
        self.w += fresh.sum(axis=1, dtype=np.float64) - old.sum(axis=1, dtype=np.float64)
        self._window[:, slots] = fresh
        self._window[:, :, slots] = fresh.transpose(0, 2, 1)
        self.w[:, slots] = self._window[:, slots].sum(axis=2, dtype=np.float64)
        return fresh - old

    def total(self) -> Reals:
        """The sum of the whole kernel, (bandwidths,)."""
        total: Reals = self._own_total + 2.0 * self.rho.sum(axis=1) + self.w.sum(axis=1)
        return total

    def mmd2(self) -> Reals:
        """The unbiased MMD^2 of the full window, (bandwidths,)."""
        within, linear = self.w.sum(axis=1), (self.rho + self.w).sum(axis=1)
        n, m = self.reference_size, self.size
        return mmd2_of(within[:, None], linear[:, None], self.total(), n, m)[:, 0]

    def state(self) -> dict[str, npt.NDArray[np.generic] | float | int | str]:
        rows, sizes = self._rows.live()
        return {
            "window": self.size,
            "next": self.next,
            "window_rows": rows.copy(),
            "window_sizes": sizes,
            "window_kernel": self._window.copy(),
            "rho": self.rho.copy(),
            "w": self.w.copy(),
        }

    def restore(self, state: State) -> None:
        """Take up a state of a kernel with the same reference, gamma, shift and window."""
        sizes = np.asarray(state["window_sizes"], dtype=np.int64)
        self._rows.append(np.asarray(state["window_rows"], dtype=np.float32), sizes)
        self.filled, self.next = len(sizes), int(np.asarray(state["next"]).item())
        for name, kept in (("window_kernel", self._window), ("rho", self.rho), ("w", self.w)):
            stored = np.asarray(state[name])
            if stored.shape != kept.shape:
                raise ValueError(f"the state's {name} has shape {stored.shape}, not {kept.shape}")
            kept[...] = stored


def batches(units: Units, window: int) -> Iterator[Units]:
    """The units in pieces that one push takes, and whose products stay small beside the window's."""
    bounds = np.concatenate([[0], np.cumsum(units.row_counts)])
    for start in range(0, len(units), min(window, _PUSHED)):
        stop = min(start + min(window, _PUSHED), len(units))
        sizes = None if units.sizes is None else units.sizes[start:stop]
        yield Units(units.rows[bounds[start] : bounds[stop]], sizes)


class _RowQueue:
    """Rows of units in order of age, always in one piece: appended behind, dropped before, moved to the front of the
    buffer when its end is reached. A row is moved at most once for each time it is passed over."""

    def __init__(self, dimensions: int) -> None:
        self._rows = np.empty((0, dimensions), dtype=np.float32)
        self._lengths = np.empty(0, dtype=np.float32)
        self._first = self._last = 0
        self._sizes: deque[int] = deque()
        self._single = True

    def append(self, rows: Vectors, sizes: npt.NDArray[np.int64]) -> None:
        if self._last + len(rows) > len(self._rows):
            self._make_room(len(rows))
        into = slice(self._last, self._last + len(rows))
        self._rows[into] = rows
        np.einsum("ij,ij->i", self._rows[into], self._rows[into], out=self._lengths[into])
        self._last += len(rows)
        self._sizes.extend(sizes.tolist())
        self._single = self._single and bool((sizes == 1).all())

    def drop(self, units: int) -> None:
        for _ in range(units):
            self._first += self._sizes.popleft()

    def points(self) -> Points:
        live = slice(self._first, self._last)
        sizes = None if self._single else np.array(self._sizes, dtype=np.int64)
        return Points.ready(self._rows[live], self._lengths[live], sizes)

    def live(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        return self._rows[self._first : self._last], np.array(self._sizes, dtype=np.int64)

    def _make_room(self, more: int) -> None:
        live, lengths = self._rows[self._first : self._last], self._lengths[self._first : self._last]
        need = len(live) + more
        if need + need // 2 > len(self._rows) or need < len(self._rows) // 8:
            self._rows = np.empty((need + need // 2, live.shape[1]), dtype=np.float32)
            self._lengths = np.empty(need + need // 2, dtype=np.float32)
        self._rows[: len(live)], self._lengths[: len(live)] = live, lengths
        self._first, self._last = 0, len(live)
        self._single = all(size == 1 for size in self._sizes)
