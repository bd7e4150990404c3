"""Rows that can be compared, and the units that they belong to.

Rows may be float16, float32 or float64, in memory or mapped from a file: they stay as they are and are read in
blocks, so that a mapped reference is never loaded whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from detectors.verdict import Vectors

_LARGEST_SQUARED_NORM = 1e37
"""Of a row; squared distances, at most four times that, still fit single precision."""
_CHECKED_ROWS = 1024
"""Rows checked at a time."""


class UnusableVectors(ValueError):  # noqa: N818 (says what the rows are)
    """Rows that cannot be compared; `reason` is one of a small set and safe as a metric label."""

    reason: ClassVar[str] = "unusable"


class NonFiniteVectors(UnusableVectors):
    """A row holds NaN or infinity, or is too large for single precision."""

    reason = "non_finite"


class ZeroVectors(UnusableVectors):
    """A row is all zeros: an encoder that saw nothing, which is no place among the queries."""

    reason = "zero_vector"


class WrongDimension(UnusableVectors):
    """Not two-dimensional, or not as many columns as the rows before."""

    reason = "wrong_dimension"


class TooFewRows(UnusableVectors):
    """Fewer rows than the comparison needs."""

    reason = "too_few_rows"


def usable_rows(
    rows: Vectors, dimensions: int | None = None, least: int = 1, *, zeros: bool = True
) -> npt.NDArray[np.floating[Any]]:
    """The rows as float16, float32 or float64, shape (n, d), checked and not copied where they are that already.

    A zero row is a point like any other to a kernel; `zeros=False` refuses it, where rows are embeddings. Equal
    rows are fine. Raises an UnusableVectors that says what is wrong.
    """
    array = rows if isinstance(rows, np.memmap) else np.asarray(rows)
    if array.ndim != 2 or array.shape[1] == 0:
        raise WrongDimension(f"vectors come as (rows, dimensions), not with shape {array.shape}")
    if dimensions is not None and array.shape[1] != dimensions:
        raise WrongDimension(f"vectors have {array.shape[1]} dimensions, not {dimensions}")
    if array.shape[0] < least:
        raise TooFewRows(f"{array.shape[0]} rows are fewer than {least}")
    if array.dtype not in (np.float16, np.float32, np.float64):
        array = array.astype(np.float64)
    for start in range(0, len(array), _CHECKED_ROWS):
        _check(array[start : start + _CHECKED_ROWS], start, zeros)
    return array


def _check(rows: npt.NDArray[np.floating[Any]], start: int, zeros: bool) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        single = rows.astype(np.float32, copy=False)
        norms = np.einsum("ij,ij->i", single, single)
    if not (norms < _LARGEST_SQUARED_NORM).all():
        row = start + int(np.argmin(norms < _LARGEST_SQUARED_NORM))
        raise NonFiniteVectors(f"row {row} is not finite or too large for single precision")
    if not zeros and not norms.all():
        # A norm may underflow where the row is tiny and yet has a direction.
        empty = np.flatnonzero(norms == 0.0)
        empty = empty[~rows[empty].any(axis=1)]
        if len(empty):
            raise ZeroVectors(f"row {start + int(empty[0])} is all zeros")


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Rows (r, d) of n units in order, `sizes` (n,) how many rows each has; None where each row is a unit.

    >>> units = Units.of([np.ones((2, 3)), np.ones((1, 3))])
    >>> len(units), units.rows.shape, units.sizes.tolist()
    (2, (3, 3), [2, 1])
    """

    rows: npt.NDArray[np.floating[Any]]
    sizes: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, units: Vectors | Sequence[Vectors] | Units, dimensions: int | None = None, least: int = 1
    ) -> Self:
        """Units from one array (each row a unit) or from one array a unit. Raises an UnusableVectors."""
        if isinstance(units, Units):
            return cls(usable_rows(units.rows, dimensions, least), units.sizes)
        if isinstance(units, np.ndarray):
            return cls(usable_rows(units, dimensions, least))
        if len(units) < least:
            raise TooFewRows(f"{len(units)} units are fewer than {least}")
        checked = [usable_rows(unit, dimensions) for unit in units]
        if len({unit.shape[1] for unit in checked}) > 1:
            raise WrongDimension("units have different dimensions")
        sizes = np.array([len(unit) for unit in checked], dtype=np.int64)
        return cls(np.concatenate(checked), None if (sizes == 1).all() else sizes)

    def __len__(self) -> int:
        return len(self.rows) if self.sizes is None else len(self.sizes)

    @property
    def dimensions(self) -> int:
        return int(self.rows.shape[1])

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """How many rows each unit has, shape (n,)."""
        return np.ones(len(self.rows), dtype=np.int64) if self.sizes is None else self.sizes
