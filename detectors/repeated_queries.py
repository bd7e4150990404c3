"""Free probes: a text that is asked again under the same encoder version should have the vector that it had.

For services whose encoder nobody here can call. Texts are kept as hashes and vectors in half precision, whose rounding
(1 - cos about 1e-7 at most) stays far under the tolerance.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from detectors.encoder_monitor import TOLERANCE


class RepeatedQuerySettings(BaseModel):
    """How much is kept and how many repeats speak."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    texts: int = Field(5_000, ge=10, description="Texts remembered, those asked last.")
    trusted_after: int = Field(
        20,
        ge=2,
        description="Repeats in agreement before a disagreement means anything: some services embed a query together "
        "with its conversation, and never agree.",
    )
    recent: int = Field(10, ge=2, description="Latest repeats that are looked at.")
    changed: int = Field(5, ge=1, description="Disagreements among them that make a change.")


@dataclass(slots=True, frozen=True)
class RepeatReport:
    """`changed` of the `recent` latest repeats disagree; `trusted` repeats agreed before; `mean_cosine` of the recent
    ones, None before there is any."""

    is_changed: bool
    changed: int
    recent: int
    trusted: int
    mean_cosine: float | None


class RepeatedQueries:
    """Compares each text with its last vector. One encoder version; one owner; no clock.

    >>> seen = RepeatedQueries(RepeatedQuerySettings(trusted_after=2, recent=3, changed=2))
    >>> for text in "abcabc": seen.put(text, np.eye(4)[ord(text) - 97])
    >>> for text in "abc": seen.put(text, np.ones(4))
    >>> seen.report().is_changed
    True
    """

    def __init__(self, settings: RepeatedQuerySettings | None = None) -> None:
        self._settings = settings or RepeatedQuerySettings()
        self._known: OrderedDict[bytes, npt.NDArray[np.float16]] = OrderedDict()
        self._recent: deque[float] = deque(maxlen=self._settings.recent)
        """1 - cos of the latest repeats."""
        self._trusted = 0

    def put(self, text: str, vector: npt.ArrayLike) -> None:
        """Take one query's text and vector, shape (d,), finite and not zero. The new vector replaces the known one, so
        that each text tells of a change once."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        values = np.asarray(vector, dtype=np.float64)
        unit = (values / np.linalg.norm(values)).astype(np.float16)
        known = self._known.pop(key, None)
        self._known[key] = unit
        if len(self._known) > self._settings.texts:
            self._known.popitem(last=False)
        if known is None:
            return
        lost = 1.0 if known.shape != unit.shape else _lost(known, unit)
        self._recent.append(lost)
        self._trusted += lost <= TOLERANCE

    def report(self) -> RepeatReport:
        """What the latest repeats say."""
        changed = sum(lost > TOLERANCE for lost in self._recent)
        trusted = self._trusted >= self._settings.trusted_after
        mean = 1.0 - sum(self._recent) / len(self._recent) if self._recent else None
        return RepeatReport(
            trusted and changed >= self._settings.changed, changed, len(self._recent), self._trusted, mean
        )


def _lost(known: npt.NDArray[np.float16], now: npt.NDArray[np.float16]) -> float:
    a, b = known.astype(np.float64), now.astype(np.float64)
    return float(((a / np.linalg.norm(a) - b / np.linalg.norm(b)) ** 2).sum() / 2.0)
