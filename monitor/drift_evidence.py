"""What stands behind the drift detectors of one encoder version: units with texts and slices, to explain an alarm."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from detectors.attribution import AttributionSettings, QueryUnit, explain
from detectors.explanation import DriftExplanation
from detectors.vectors import UnusableVectors
from detectors.verdict import State


class DriftExplanationSettings(BaseModel):
    """How much is kept to explain an alarm with, and how it is explained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_units: int = Field(
        1000, ge=10, description="Units of the reference kept with texts and slices."
    )
    current_units: int = Field(200, ge=10, description="Latest units kept with texts and slices.")
    text_characters: int = Field(
        200, ge=0, description="Of each query kept, in memory and in the store, as examples; 0 = none."
    )
    again_s: float = Field(
        600.0, gt=0.0, description="How often an alarm that stays is explained anew, with the queries since."
    )
    attribution: AttributionSettings = Field(
        AttributionSettings(meaning_slices=10, permutations=1999), description="What is tested."
    )


@dataclass(slots=True, frozen=True)
class SeenQuery:
    """One query as it was seen; `row` has shape (d,)."""

    row: npt.NDArray[np.float32]
    text: str
    slices: Mapping[str, str]


class DriftEvidence:
    """The reference's units and the latest ones. One owner."""

    def __init__(self, settings: DriftExplanationSettings) -> None:
        self._settings = settings
        self._reference: list[QueryUnit] = []
        self._current: deque[QueryUnit] = deque(maxlen=settings.current_units)

    def put(self, queries: Sequence[SeenQuery], *, is_reference: bool) -> None:
        """Keep a closed unit, whose rows the detectors took."""
        most = self._settings.text_characters
        unit = QueryUnit(
            np.stack([query.row for query in queries]),
            tuple(query.text[:most] for query in queries),
            tuple(query.slices for query in queries),
        )
        if not is_reference:
            self._current.append(unit)
        elif len(self._reference) < self._settings.reference_units:
            self._reference.append(unit)

    def explain(self, latest: int, seed: int = 0) -> DriftExplanation | None:
        """What the `latest` units (as many as are kept) have that the reference had not, or the other way round; None
        while either side is too small."""
        try:
            current = list(self._current)[-latest:]
            return explain(self._reference, current, self._settings.attribution, seed=seed)
        except UnusableVectors:
            return None

    def places(self, latest: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """Units of both sides in the plane that shows most of them (principal components of their means)."""
        sides = [self._reference, list(self._current)[-latest:]]
        means = np.array([unit.vectors.mean(axis=0) for side in sides for unit in side], dtype=np.float64)
        if len(means) < 3:
            return [], []
        centred = means - means.mean(axis=0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        flat = [(float(x), float(y)) for x, y in (centred @ axes[:2].T).round(4)] if len(axes) > 1 else []
        return flat[: len(sides[0])], flat[len(sides[0]) :]

    def state(self) -> State:
        """Everything, as arrays and text; vectors in half precision, which explanations do not feel."""
        return _pack("reference", self._reference) | _pack("current", list(self._current))

    def restore(self, state: State) -> None:
        """Take up a stored state. Raises KeyError or ValueError where it is none."""
        reference, current = _unpack("reference", state), _unpack("current", state)
        self._reference = reference[: self._settings.reference_units]
        self._current = deque(current, maxlen=self._settings.current_units)


def _pack(name: str, units: Sequence[QueryUnit]) -> dict[str, npt.NDArray[np.generic] | float | int | str]:
    queries = [
        [text, dict(slices)] for unit in units for text, slices in zip(unit.texts, unit.slices, strict=True)
    ]
    rows = [unit.vectors.astype(np.float16) for unit in units]
    return {
        f"{name}_sizes": np.array([len(unit.texts) for unit in units], dtype=np.int64),
        f"{name}_rows": np.concatenate(rows) if rows else np.empty((0, 0), dtype=np.float16),
        f"{name}_queries": json.dumps(queries),
    }


def _unpack(name: str, state: State) -> list[QueryUnit]:
    sizes = np.asarray(state[f"{name}_sizes"], dtype=np.int64).tolist()
    rows = np.asarray(state[f"{name}_rows"], dtype=np.float32)
    queries = json.loads(str(np.asarray(state[f"{name}_queries"]).item()))
    if len(queries) != len(rows) or sum(sizes) != len(rows):
        raise ValueError(f"{name}: sizes, rows and queries do not belong together")
    units, first = [], 0
    for size in sizes:
        own = queries[first : first + size]
        texts, slices = tuple(text for text, _ in own), tuple(slices for _, slices in own)
        units.append(QueryUnit(rows[first : first + size], texts, slices))
        first += size
    return units
