"""The exact permutation test of a rolling window against a fixed reference, updated as units come and go.

Notation of `mmd.py`: s is one relabelling of N = n + m places, the first n the reference's, the others the window's
slots; K the kernel with a zero diagonal, not centred (centred in place it would change in every row whenever one unit
comes). With s = (s_x, s_w), x the reference and w the window,

    q = s'Ks = s_x'K_xx s_x + 2 sum_i s_i a_i + s_w'K_ww s_w,    a_i = K[i, x] s_x for each slot i,
    r = s'K1 = s_x'K_xx 1 + sum_i a_i + sum_i s_i (rho_i + w_i).

The reference does not move, so a_i is computed once, when a unit comes: its product with all B relabellings, kept in
single precision, goes into the float64 sums as that number and later out of them as the same number. Only K_ww is
incremental in the strict sense: replacing the slots R, with dK the change of K_ww,

    d(s_w'K_ww s_w) = 2 s_R' dK[R, :] s_w - s_R' dK[R, R] s_R
    d(s_w'K_ww 1)   = s_R' dK[R, :] 1 + 1' dK[R, :] s_w - s_R' dK[R, R] 1

(both by writing dK as its rows R, plus its columns R, less what is counted twice). Single-precision errors of these
add up like a random walk: to 1e-6 of the spread of MMD^2 after 10,000 steps. A step of b units costs 2 b N (d + B)
operations; then MMD^2 of every relabelling is `mmd2_of(q, r, K's total)`, and the p-value is that of a full
recomputation, but for relabellings that are tied with the window to that precision.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from detectors.kernel import GaussianKernel, Matrix, Points, Reals, median_gamma, origin_of
from detectors.mmd import MmdTest, Sample, kernel_panel, mmd2_of, quadratic_forms
from detectors.mmd_window import Change, RollingKernel, batches
from detectors.permutations import Labels, checked_labels, p_values, permutation_labels
from detectors.vectors import TooFewRows, Units
from detectors.verdict import State

_STATE_VERSION = 1
_UNPACKED = 1_000_000
"""Multiplications of a product that OpenBLAS does straight from its operands; larger ones it copies first, which for
few columns costs as much as the product."""
_ARRAYS = ("_to_labels", "_quadratic", "_linear", "_rows_linear")


class RollingMmd:
    """A window of the last `window` units, tested against `reference` at any moment.

    `gamma` is by default that of the reference's rows; give that of held-out rows where the level must not even
    hinge on that. Relabellings are drawn once, from the seed. A float16 or memory-mapped reference stays where it is.
    Memory beyond the reference: 4 B (n + m) bytes of labels, and 4 m (B + m) bytes a bandwidth. One owner.

    >>> rng = np.random.default_rng(0)
    >>> rolling = RollingMmd(rng.normal(size=(50, 4)), 20, permutations=99, seed=1)
    >>> rolling.push(rng.normal(3.0, 1.0, size=(19, 4)))
    >>> rolling.test() is None
    True
    >>> rolling.push([rng.normal(3.0, 1.0, size=(5, 4))])  # five rows of one session are one unit
    >>> rolling.test().p_value
    0.01
    """

    def __init__(
        self,
        reference: Sample,
        window: int,
        *,
        permutations: int = 1000,
        seed: int,
        gamma: float | None = None,
        bandwidths: int = 3,
        labels: Labels | None = None,
    ) -> None:
        units = _single(Units.of(reference, least=2))
        if window < 2:
            raise TooFewRows(f"a window of {window} units cannot be compared")
        self.kernel = GaussianKernel(median_gamma(units.rows) if gamma is None else gamma, bandwidths)
        if labels is None:
            labels = permutation_labels(len(units), window, permutations, np.random.default_rng(seed))
        self._take_labels(checked_labels(labels, len(units), window), window)
        del labels
        self._origin = origin_of(units.rows)
        self._points = Points(units, self._origin)
        panel = kernel_panel(self.kernel, self._points, np.float32)
        forms = quadratic_forms(panel, self._reference_labels, len(self._points))
        self._quadratic, self._linear = forms.quadratic, forms.linear
        """q and r, (bandwidths, B); r without the term of rho and w, and with it in `_rows_linear`."""
        self._rows_linear: Reals = np.zeros_like(forms.linear)
        self._start(forms.shift, forms.row_sums.sum(axis=1))

    def _take_labels(self, labels: Labels, window: int) -> None:
        self.window, n = window, labels.shape[1] - window
        self._reference_labels: Matrix = labels[:, :n].astype(np.float32)
        self._window_labels: Matrix = labels[:, n:].astype(np.float32)
        """(B, n) and (B, m): the long side first, which matrix products with few columns are fastest with."""
        self._slot_labels = np.packbits(labels[:, n:].T, axis=1)
        """(m, B / 8): those of one slot lie together."""
        shape = (self.kernel.bandwidths, self.window, labels.shape[0])
        self._to_labels: Matrix = np.zeros(shape, dtype=np.float32)
        """a, of each slot."""

    def _start(self, shift: Reals, own_total: Reals) -> None:
        self._shift, self._own_total = shift, own_total
        self._rolling = RollingKernel(self.kernel, self._points, self._origin, shift, own_total, self.window)

    @property
    def dimensions(self) -> int:
        return len(self._origin)

    @property
    def full(self) -> bool:
        """Whether the window holds as many units as it can, so that `test` has an answer."""
        return self._rolling.full

    def push(self, units: Sample) -> None:
        """Put in units, oldest first; as many of the oldest go as there is no room for.

        Raises an UnusableVectors and changes nothing where they are not usable.
        """
        for batch in batches(Units.of(units, self.dimensions), self.window):
            self._take(self._rolling.push(batch))

    def _take(self, change: Change) -> None:
        slots, count = change.slots, len(self._reference_labels)
        chosen = np.unpackbits(self._slot_labels[slots], axis=1, count=count).astype(np.float32)
        for i, (to_reference, window) in enumerate(zip(change.to_reference, change.window, strict=True)):
            fresh, old = _products(self._reference_labels, to_reference), self._to_labels[i, slots]
            gone, come = _column_sums(old), _column_sums(fresh)
            self._linear[i] += come - gone
            self._quadratic[i] += 2.0 * (_column_sums(fresh * chosen) - _column_sums(old * chosen))
            self._to_labels[i, slots] = fresh

            products, among = _products(self._window_labels, window), window[:, slots]
            self._quadratic[i] += 2.0 * _column_sums(products * chosen) - _column_sums(
                chosen * (among @ chosen)
            )
            of_rows = (
                change.rho[i] + window.sum(axis=1, dtype=np.float64) - among.sum(axis=0, dtype=np.float64)
            )
            self._rows_linear[i] += _column_sums(products) + of_rows @ chosen

    def permuted(self) -> Reals:
        """MMD^2 of every relabelling, (bandwidths, B); the window must be full."""
        linear = self._linear + self._rows_linear
        n, m = len(self._points), self.window
        return mmd2_of(self._quadratic, linear, self._rolling.total(), n, m)

    def statistics(self) -> Reals:
        """MMD^2 at each bandwidth, (bandwidths,); the window must be full."""
        return self._rolling.mmd2()

    def test(self) -> MmdTest | None:
        """Compare the window with the reference; None until the window is full. Moves nothing."""
        if not self.full:
            return None
        observed = self.statistics()
        p, single = p_values(observed, self.permuted())
        n, m, permutations = len(self._points), self.window, len(self._reference_labels)
        return MmdTest(float(observed[0]), p, self.kernel.gamma, n, m, permutations, single)

    def state(self) -> dict[str, npt.NDArray[np.generic] | float | int | str]:
        """Everything later answers depend on, as arrays and numbers."""
        sizes = self._points.sizes
        labels = np.hstack([self._reference_labels, self._window_labels]).astype(np.bool_)
        state = self._rolling.state() | {
            "version": _STATE_VERSION,
            "reference": np.array(self._points.rows),
            "reference_sizes": np.empty(0, dtype=np.int64) if sizes is None else sizes.copy(),
            "origin": self._origin.copy(),
            "gamma": self.kernel.gamma,
            "labels": np.packbits(labels, axis=1),
            "permuted_units": labels.shape[1],
            "shift": self._shift.copy(),
            "own_total": self._own_total.copy(),
        }
        return state | {name.lstrip("_"): getattr(self, name).copy() for name in _ARRAYS}

    @classmethod
    def from_state(cls, state: State, reference: Sample | None = None) -> Self:
        """The engine that gave this state; it goes on bit for bit.

        `reference` takes the place of the stored rows, where they are mapped from a file. Raises ValueError where the
        state is of another version or damaged, KeyError where it is incomplete.
        """
        if np.asarray(state["version"]).item() != _STATE_VERSION:
            raise ValueError(f"the state has version {state['version']}, not {_STATE_VERSION}")
        rolling = cls.__new__(cls)
        shift = np.array(state["shift"], dtype=np.float64)
        rolling.kernel = GaussianKernel(float(np.asarray(state["gamma"]).item()), len(shift))
        rolling._origin = np.array(state["origin"], dtype=np.float64)
        if reference is None:
            rolling._points = _stored_points(state, rolling._origin)
        else:
            rolling._points = Points(_single(Units.of(reference, rolling.dimensions, 2)), rolling._origin)
        size, n = int(np.asarray(state["permuted_units"]).item()), len(rolling._points)
        labels = np.unpackbits(np.asarray(state["labels"], dtype=np.uint8), axis=1, count=size).view(np.bool_)
        window = int(np.asarray(state["window"]).item())
        rolling._take_labels(checked_labels(labels, n, window), window)
        rolling._start(shift, np.array(state["own_total"], dtype=np.float64))
        rolling._rolling.restore(state)
        for name in _ARRAYS:
            setattr(rolling, name, np.array(state[name.lstrip("_")]))
        return rolling


def _stored_points(state: State, origin: Reals) -> Points:
    """The reference as it was held: half precision as it came, single precision with the origin taken off."""
    rows, sizes = np.array(state["reference"]), np.array(state["reference_sizes"], dtype=np.int64)
    units = Units(rows, sizes if len(sizes) else None)
    return Points(units, origin if rows.dtype == np.float16 else np.zeros_like(origin))


def _single(units: Units) -> Units:
    """Single precision, which the engine computes in; half precision and mapped rows stay."""
    rows = units.rows
    if isinstance(rows, np.memmap) or rows.dtype != np.float64:
        return units
    return Units(rows.astype(np.float32), units.sizes)


def _products(labels: Matrix, changes: Matrix) -> Matrix:
    """changes @ labels.T, (b, B)."""
    if len(changes) == 1:
        single: Matrix = labels @ changes[0]
        return single[None]
    products = np.empty((len(labels), len(changes)), dtype=np.float32)
    rows = max(_UNPACKED // changes.size, 1)
    for start in range(0, len(labels), rows):
        np.matmul(labels[start : start + rows], changes.T, out=products[start : start + rows])
    return products.T


def _column_sums(rows: Matrix) -> Reals:
    total: Reals = rows.sum(axis=0, dtype=np.float64) if len(rows) > 1 else rows[0].astype(np.float64)
    return total
