"""Which way the last units lean, and how a new unit ranks in that direction.

The witness of two samples is the function that tells them apart best (Gretton et al. 2012, "A kernel two-sample
test", JMLR 13, section 2.3): the kernel mean of the one less that of the other. Here of the last units less the first
part of the reference, so that it is known before the unit that it scores comes. A unit's score is ranked among those
of the other part of the reference, which the witness was not fitted to: where nothing has moved the ranks are uniform,
whatever the witness is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.kernel import GaussianKernel, Points, Reals, median_gamma, origin_of
from detectors.run_length import Streams
from detectors.vectors import Units
from detectors.verdict import State, Vectors

SPANS = (50, 200)
"""Units that the two witnesses look back on: large shifts show in the short one sooner, small ones in the long one."""
BLOCK = 10
"""The witness is renewed after so many units: a tenth of the work, and as many units later at most."""
FIT_SHARE = 1.0 / 3.0
"""Of the reference; the rest is held out: ranks need many units, a mean needs few."""
REPLAYED = 1500
"""Held-out units that streams are replayed from, at most."""
_TIE = 1e-6
"""Scores this near are the same: single-precision kernels of equal queries differ in their last bits."""

Singles = npt.NDArray[np.float32]


class Witness:
    """Conformal p-values of units along the predictable witness, one for each span. One owner, no clock."""

    def __init__(self, reference: Units, seed: int) -> None:
        fit, held = _split(reference, seed)
        self._kernel = GaussianKernel(median_gamma(fit.rows), 1)
        self._origin = origin_of(fit.rows)
        self._fit, self._held = Points(fit, self._origin), Points(held, self._origin)
        self._held_fit = _between(self._kernel, held, self._origin, self._fit).mean(axis=1, dtype=np.float64)
        self._pairs: Singles | None = None
        self._recent: list[Singles] = []
        """Rows of the units behind the witness, oldest first, then those that wait for the block to fill."""
        self._to_held = np.empty((0, len(held)), dtype=np.float32)
        """The kernel of each of them with the held-out units."""
        self._waiting = 0
        self._look_back()

    @property
    def size(self) -> int:
        """Units that a new one is ranked among."""
        return len(self._held)

    def push(self, rows: Singles) -> Reals:
        """The unit's p-value for each span, (spans,), NaN before there is a witness; then take it among the last."""
        points = _points(rows, self._origin)
        ranks = self._rank(points)
        to_held = self._kernel.between(points, self._held)[0].astype(np.float32)
        self._recent.append(rows)
        self._to_held = np.concatenate([self._to_held, to_held])
        self._waiting += 1
        if self._waiting == BLOCK:
            self._waiting = 0
            self._recent, self._to_held = self._recent[-max(SPANS) :], self._to_held[-max(SPANS) :]
            self._look_back()
        return ranks

    def _look_back(self) -> None:
        """Renew the witness from the units that do not wait."""
        known = len(self._recent) - self._waiting
        self._known: Points | None = None
        if known:
            units = Units.of(self._recent[:known])
            self._known = Points(units, self._origin)
            means = [
                self._to_held[max(known - span, 0) : known].mean(axis=0, dtype=np.float64) for span in SPANS
            ]
            self._scores = np.array(means) - self._held_fit

    def _rank(self, points: Points) -> Reals:
        if self._known is None:
            return np.full(len(SPANS), np.nan)
        to_known = self._kernel.between(points, self._known)[0, 0].astype(np.float64)
        base = self._kernel.between(points, self._fit)[0, 0].mean(dtype=np.float64)
        mine = np.array([to_known[-span:].mean() for span in SPANS]) - base
        above = np.count_nonzero(self._scores >= mine[:, None] - _TIE, axis=1)
        ranks: Reals = (above + 1.0) / (self.size + 1.0)
        return ranks

    def replay(self, rng: np.random.Generator, lanes: int, units: int) -> Streams:
        """Streams of p-values in a world that differs from the held-out units as theirs does (`run_length.py`)."""
        pairs, fit = self._self_free_pairs()
        size = len(pairs)
        picks = rng.choice(size, p=rng.dirichlet(np.ones(size)), size=(lanes, units))
        ranks = np.full((lanes, units, len(SPANS)), np.nan)
        sums = np.zeros((len(SPANS), lanes, size), dtype=np.float32)
        for begin in range(0, units, BLOCK):
            new = picks[:, begin : begin + BLOCK]
            for i, span in enumerate(SPANS):
                known = min(begin, span)
                if known:
                    scores = sums[i] / np.float32(known) - fit
                    mine = np.take_along_axis(scores, new, axis=1) - np.float32(_TIE)
                    above = np.count_nonzero(scores[:, None, :] >= mine[:, :, None], axis=2)
                    ranks[:, begin : begin + BLOCK, i] = above / size
                sums[i] += pairs[new].sum(axis=1)
                if begin >= span:
                    sums[i] -= pairs[picks[:, begin - span : begin - span + BLOCK]].sum(axis=1)
        return ranks

    def _self_free_pairs(self) -> tuple[Singles, Singles]:
        """The held-out units' kernel among themselves and their mean with the fitted ones. A stream draws a unit again
        and again; what comes in truth is another one, so that its kernel with itself is replaced by its mean."""
        if self._pairs is None:
            part = self._held.part(0, min(self.size, REPLAYED))
            pairs = np.concatenate(
                [self._kernel.between(part.part(i, i + 1), part)[0] for i in range(len(part))]
            )
            pairs = pairs.astype(np.float32)
            np.fill_diagonal(pairs, (pairs.sum(axis=1) - pairs.diagonal()) / max(len(pairs) - 1, 1))
            self._pairs = pairs
        return self._pairs, self._held_fit[: len(self._pairs)].astype(np.float32)

    def forget_replay(self) -> None:
        """Let go of what only `replay` needs."""
        self._pairs = None

    def state(self) -> dict[str, npt.NDArray[Any] | float | int | str]:
        rows = np.concatenate(self._recent) if self._recent else np.empty((0, len(self._origin)), np.float32)
        return {
            "recent_rows": rows,
            "recent_sizes": np.array([len(unit) for unit in self._recent], dtype=np.int64),
            "to_held": self._to_held.copy(),
            "waiting": self._waiting,
        }

    def restore(self, state: State) -> None:
        """Take up a state of a witness with the same reference and seed."""
        sizes = np.asarray(state["recent_sizes"], dtype=np.int64)
        rows = np.array(state["recent_rows"], dtype=np.float32)
        self._recent = np.split(rows, np.cumsum(sizes)[:-1]) if len(sizes) else []
        self._to_held = np.array(state["to_held"], dtype=np.float32)
        self._waiting = int(np.asarray(state["waiting"]).item())
        if self._to_held.shape != (len(sizes), self.size):
            raise ValueError(f"the state's to_held has shape {self._to_held.shape}")
        self._look_back()


def _split(reference: Units, seed: int) -> tuple[Units, Units]:
    """The part that the witness is fitted to and the part held out, at random: both are of the same time."""
    order = np.random.default_rng([seed, 1]).permutation(len(reference))
    fitted = max(round(FIT_SHARE * len(reference)), 1)
    return chosen(reference, np.sort(order[:fitted])), chosen(reference, np.sort(order[fitted:]))


def chosen(units: Units, which: npt.NDArray[np.intp]) -> Units:
    """The units of these numbers, in this order."""
    if units.sizes is None:
        return Units(units.rows[which])
    ends = np.cumsum(units.sizes)
    rows = np.concatenate([units.rows[ends[i] - units.sizes[i] : ends[i]] for i in which])
    return Units(rows, units.sizes[which])


def _points(rows: Vectors, origin: Reals) -> Points:
    """One unit."""
    return Points(Units(rows, None if len(rows) == 1 else np.array([len(rows)])), origin)


def _between(kernel: GaussianKernel, units: Units, origin: Reals, others: Points) -> Singles:
    points = Points(units, origin)
    parts = [
        kernel.between(points.part(i, min(i + 128, len(points))), others)[0]
        for i in range(0, len(points), 128)
    ]
    together: Singles = np.concatenate(parts).astype(np.float32)
    return together
