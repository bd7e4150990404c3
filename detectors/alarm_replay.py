"""Query drift's two alarms on one reference, without the windows that are only displayed: for calibration and benches,
where many streams are pushed through one measured reference."""

from __future__ import annotations

import numpy as np

from detectors.drift_settings import QueryDriftSettings
from detectors.novelty import NoveltyDetector
from detectors.novelty_reference import NoveltyReference
from detectors.query_drift import QueryDriftDetector
from detectors.vectors import Units
from detectors.verdict import Vectors
from detectors.witness import Witness


class AlarmReplay:
    """The alarms of `QueryDriftDetector` and `NoveltyDetector` as they are fed there, measured once.

    `push` costs about a millisecond at a thousand units of reference; `anew` goes back to before the first unit.
    """

    def __init__(self, reference: Units, settings: QueryDriftSettings, run_length: float) -> None:
        self._reference, self._seed = reference, settings.seed
        self.mix = QueryDriftDetector.new_alarm(settings, len(reference))
        self.novelty = NoveltyDetector.new_alarm(settings, len(reference))
        self._known = NoveltyReference(reference, settings.neighbours)
        self._witness = Witness(reference, settings.seed)
        while not self.mix.measured:
            self.mix.measure(self._witness.replay)
            self.novelty.measure(self._known.replay)
        self._measured = self.mix.state(), self.novelty.state()
        self.allow(run_length)

    def allow(self, run_length: float) -> None:
        """Set the units from one false alarm of each to its next."""
        self.mix.allow(run_length)
        self.novelty.allow(run_length)

    def anew(self) -> None:
        """As before the first unit, at the same run length."""
        run_length = self.mix.run_length
        self._witness = Witness(self._reference, self._seed)
        self.mix.restore(self._measured[0])
        self.novelty.restore(self._measured[1])
        self.allow(run_length or 2.0)

    def push(self, unit: Vectors) -> tuple[bool, bool]:
        """One closed unit's rows, shape (rows, d); whether the mix alarm and the novelty alarm are on."""
        mix = self.mix.update(self._witness.push(unit.astype(np.float32, copy=False)))
        return mix, self.novelty.update(np.array([self._known.unit(unit)[0]]))
