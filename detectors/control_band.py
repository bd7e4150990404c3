"""The band in which a rate moves when nothing is wrong, learnt from the service's own first units.

For the first day, and for those that have no two weeks to wait for a control chart (`control_chart.py`): one flat
baseline from a few hundred units. It knows no season; a service with a strong daily cycle should learn
over at least one whole cycle (`settle_s`), else the band is that of the hour in which it was learnt.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from detectors.estimate import wilson


class ControlBandSettings(BaseModel):
    """How the band is learnt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    baseline_units: int = Field(500, ge=30, description="Units that the baseline is learnt from.")
    settle_s: float = Field(
        300.0, ge=0, description="A unit counts for the baseline once it is this old: feedback comes late."
    )
    confidence: float = Field(
        0.9973,
        gt=0.5,
        lt=1,
        description="Coverage of the baseline's Wilson interval; 0.9973 is Shewhart's three sigma.",
    )


class ControlBand:
    """Learns `(low, high)` from the first `baseline_units` units that are older than `settle_s`; then it is frozen.

    The band is the baseline's Wilson interval: a guardrail that fires only when the current window's own confidence
    interval lies wholly outside it compares two intervals, which is conservative (Schenker and Gentleman, The American
    Statistician 55, 2001).
    """

    def __init__(self, settings: ControlBandSettings, limits: tuple[float, float] | None = None) -> None:
        self._settings = settings
        self._units: dict[str, tuple[float, float]] = {}
        self.limits = limits
        """`(low, high)` once learnt, else None."""

    def put(self, key: str, value: float, now: float) -> None:
        """One unit's value in [0, 1]; a later value under the same key (a revision) replaces it."""
        if self.limits is not None:
            return
        first_seen = self._units.get(key, (now, value))[0]
        self._units[key] = (first_seen, value)

    def learn(self, now: float) -> tuple[float, float] | None:
        """Freeze the band if enough units have settled; gives the limits once there are any."""
        if self.limits is None and len(self._units) >= self._settings.baseline_units:
            settled = [value for seen, value in self._units.values() if now - seen >= self._settings.settle_s]
            if len(settled) >= self._settings.baseline_units:
                self.limits = wilson(sum(settled), len(settled), self._settings.confidence)
                self._units = {}
        return self.limits
