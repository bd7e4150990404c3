"""Has the encoder changed under the same name? Pinned probes, embedded again, say so; drift of queries does not.

A silent change of precision (int8, bf16) moves every vector by less than queries of one topic differ, and MMD between
windows does not see it. The same texts embedded twice do: what is compared is each probe with itself.

With unit vectors a of then and b of now, 1 - cos = |a - b|^2 / 2, computed from the difference so that it is exact near
0. The Gram matrix of the probes says what kind of change it is: a rotated basis leaves it as it was, though no vector
is where it was; anything else moves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.vectors import WrongDimension, usable_rows
from detectors.verdict import Vectors

TOLERANCE = 3e-7
"""Of 1 - cos, on average over probes: repeated runs, other batch sizes and half-precision storage stay below 1e-7;
vectors stored as bf16 begin at 1e-6, an encoder that computes in bf16 at 4e-5."""
_NORM_TOLERANCE = 1e-3
"""Relative change of a length; a single-precision runtime stays below 1e-5."""
_SAME_GRAM = 0.01
"""Of the root mean square change of vectors: independent changes move inner products by 0.05 of it and more at up to a
thousand dimensions, a rotation by rounding alone."""
_SMALL = 0.005
"""1 - cos up to which a change is one of arithmetic; a missing prefix or another pooling makes 0.1 and more."""


class EncoderChange(StrEnum):
    """What became of an encoder."""

    NONE = "none"
    DIMENSION = "dimension"
    """Another number of dimensions: another model."""
    ROTATED = "rotated"
    """The same distances between probes in another basis: old and new vectors must not be compared."""
    RESCALED = "rescaled"
    """The same directions with other lengths: normalisation was switched on or off."""
    PRECISION = "precision"
    """Small changes everywhere: other arithmetic (int8, bf16, another runtime) or a slight retraining."""
    REPLACED = "replaced"
    """Other vectors: another model, prefix or pooling."""


@dataclass(slots=True, frozen=True)
class ProbeReport:
    """Pinned probes beside the same texts embedded now.

    `overlap` is the mean share of each probe's `k` nearest probes that it still has, `rank_overlap` the same averaged
    over depths 1 to k (average overlap: Webber, Moffat & Zobel 2010, equation 3), which weighs the nearest most.
    """

    change: EncoderChange
    probes: int
    dimensions: int
    mean_cosine: float
    min_cosine: float
    norm_change: float
    """Largest relative change of a length."""
    gram_change: float
    """Root mean square change of the inner products between different probes, at unit length."""
    overlap: float
    rank_overlap: float
    k: int

    @property
    def wording(self) -> str:
        """One line for an alert.

        >>> ProbeReport(EncoderChange.NONE, 100, 384, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 10).wording
        'the encoder is as it was: mean cosine to its pinned probes 1.00000'
        """
        told = {
            EncoderChange.NONE: "the encoder is as it was",
            EncoderChange.DIMENSION: "the encoder gives vectors of another dimension: another model",
            EncoderChange.ROTATED: "the encoder's basis was rotated: old and new vectors do not compare",
            EncoderChange.RESCALED: "the encoder's vectors have other lengths: normalisation changed",
            EncoderChange.PRECISION: "the encoder computes otherwise than before (other precision or runtime)",
            EncoderChange.REPLACED: "the encoder gives other vectors: another model, prefix or pooling",
        }[self.change]
        return f"{told}: mean cosine to its pinned probes {self.mean_cosine:.5f}"


def compare_probes(pinned: Vectors, now: Vectors, *, k: int = 10) -> ProbeReport:
    """Compare the same probes' vectors, pinned (n, d) and embedded now (n, d'), n at least 3.

    Raises an UnusableVectors where a row is zero or not finite: an encoder that gives such rows is broken, not changed.

    >>> rng = np.random.default_rng(0)
    >>> probes = rng.normal(size=(50, 64))
    >>> compare_probes(probes, probes * (1 + 1e-7)).change.value
    'none'
    >>> turned, _ = np.linalg.qr(rng.normal(size=(64, 64)))
    >>> compare_probes(probes, probes @ turned).change.value
    'rotated'
    """
    before = usable_rows(pinned, least=3, zeros=False).astype(np.float64)
    after = usable_rows(now, least=3, zeros=False).astype(np.float64)
    if len(before) != len(after):
        raise WrongDimension(f"{len(after)} vectors for {len(before)} probes")
    k = min(k, len(before) - 1)
    if before.shape[1] != after.shape[1]:
        nan = float("nan")
        return ProbeReport(
            EncoderChange.DIMENSION,
            len(before),
            after.shape[1],
            nan,
            nan,
            nan,
            nan,
            *_overlaps(before, after, k),
            k,
        )
    a, b = _unit(before), _unit(after)
    lost = ((a - b) ** 2).sum(axis=1) / 2.0
    lengths = np.linalg.norm(before, axis=1)
    norm_change = float(np.max(np.abs(np.linalg.norm(after, axis=1) / lengths - 1.0)))
    between = ~np.eye(len(a), dtype=bool)
    gram_change = float(np.sqrt(np.mean((b @ b.T - a @ a.T)[between] ** 2)))
    change = _change(float(lost.mean()), norm_change, gram_change)
    overlaps = _overlaps(before, after, k)
    cosines = 1.0 - lost
    return ProbeReport(
        change,
        len(a),
        a.shape[1],
        float(cosines.mean()),
        float(cosines.min()),
        norm_change,
        gram_change,
        *overlaps,
        k,
    )


def _change(lost: float, norm_change: float, gram_change: float) -> EncoderChange:
    if lost <= TOLERANCE:
        return EncoderChange.RESCALED if norm_change > _NORM_TOLERANCE else EncoderChange.NONE
    if gram_change <= _SAME_GRAM * np.sqrt(2.0 * lost):
        return EncoderChange.ROTATED
    return EncoderChange.PRECISION if lost <= _SMALL else EncoderChange.REPLACED


def _unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unit: npt.NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _overlaps(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64], k: int) -> tuple[float, float]:
    """overlap@k and average overlap of the nearest neighbours."""
    old, new = _nearest(before, k), _nearest(after, k)
    at_depth = [
        np.mean([len(set(one[:depth]) & set(other[:depth])) for one, other in zip(old, new, strict=True)])
        / depth
        for depth in range(1, k + 1)
    ]
    return float(at_depth[-1]), float(np.mean(at_depth))


def _nearest(rows: npt.NDArray[np.float64], k: int) -> list[list[Any]]:
    """Each row's k nearest others by cosine, nearest first."""
    similar = _unit(rows) @ _unit(rows).T
    np.fill_diagonal(similar, -np.inf)
    nearest: list[list[Any]] = np.argsort(-similar, axis=1, kind="stable")[:, :k].tolist()
    return nearest
