"""How many false alarms are allowed, and the alarm that keeps to it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from detectors.entries import Entries, number
from detectors.run_length import Draw, RunLengths, ideal_limit, log_e, measure_world, size_needed
from detectors.sequential import Bets, Rule, SequentialAlarm, start
from detectors.verdict import State

_DAY_S = 86_400.0


class ReferenceTooSmall(ValueError):  # noqa: N818 (it says what the reference is)
    """The reference cannot keep the run length with bets that fine; it needs about so many units."""

    def __init__(self, size: int, needed: int, run_length: float) -> None:
        super().__init__(
            f"reference too small: has {size:,} units, needs about {needed:,} "
            f"for one false alarm in {run_length:,.0f} units"
        )
        self.size, self.needed, self.run_length = size, needed, run_length


class FalseAlarmBudget(BaseModel):
    """At most so many false alarms in so many days, over all of query drift's detectors and encoder versions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    false_alarms: float = Field(
        default=1.0,
        gt=0.0,
        description="False alarms allowed a period, over all detectors and encoder versions. Slices take no share: "
        "each detector has one alarm over all of them, and attribution says afterwards which moved.",
    )
    period_days: float = Field(default=30.0, gt=0.0, description="The period, in days.")
    units_per_day: float = Field(
        default=0.0, ge=0.0, description="Units (sessions) expected a day; 0 = as many as are seen."
    )

    def run_length(self, units_per_day: float, alarms: int) -> float:
        """Units from one false alarm of each of so many alarms to its next, if all have the same share.

        Alarms over parts of the traffic (slices, encoder versions) count once for each way of parting it, given the
        rate of all of it: every unit is then in one part, and the parts' alarms add up to one alarm over all.

        >>> FalseAlarmBudget().run_length(2000.0, alarms=2)
        120000.0
        """
        return max(units_per_day * self.period_days * alarms / self.false_alarms, 2.0)


class TrafficRate:
    """Units a day, as seen since the first unit."""

    def __init__(self, first: float = float("nan"), last: float = float("nan"), units: int = 0) -> None:
        self.first, self.last, self.units = first, last, units

    def put(self, now: float) -> None:
        self.first = now if self.units == 0 else self.first
        self.last, self.units = now, self.units + 1

    @property
    def per_day(self) -> float | None:
        """None while no time has passed."""
        passed = self.last - self.first
        return (self.units - 1) / passed * _DAY_S if self.units > 1 and passed > 0.0 else None


class BudgetedAlarm:
    """A sequential alarm at a limit that was measured on its own reference. Until that is measured, and a run length
    is set that the reference can keep, it takes no evidence.

    A small reference (`size` units) can keep any run length at a limit high enough. What that costs is the evidence
    that a shift must bring: the limit over the one that a boundless reference would need, less 1. Beyond `slowdown`
    the reference is refused.

    `update` costs microseconds; `measure` replays one world and is called as long as there is one `to_measure`.
    """

    def __init__(self, rule: Rule, bets: Bets, spans: int, seed: int, size: int, slowdown: float) -> None:
        self._rule, self._bets, self._spans, self._seed = rule, bets, spans, seed
        self._size, self._slowdown = size, slowdown
        self.lengths = RunLengths()
        self.run_length: float | None = None
        self.refusal: ReferenceTooSmall | None = None
        self._limit: float | None = None
        self._sequential = SequentialAlarm(rule, start(rule, (spans * len(bets),)))

    @property
    def measured(self) -> bool:
        return self.lengths.complete

    @property
    def to_measure(self) -> bool:
        """Whether `measure` is to be called: there is a run length to keep, and it is not measured."""
        return self.run_length is not None and not self.measured

    @property
    def armed(self) -> bool:
        return self._limit is not None

    @property
    def alarm(self) -> bool:
        return self._sequential.alarm

    @property
    def evidence(self) -> float:
        """log10 of the units from one false alarm to the next, were this level the limit."""
        return self.lengths.evidence(self._sequential.level) if self.armed else 0.0

    @property
    def threshold(self) -> float:
        """What `evidence` must reach; NaN while there is no run length."""
        return float("nan") if self.run_length is None else float(np.log10(self.run_length))

    @property
    def one_in_ten(self) -> float | None:
        """The run length that one reference in ten would not reach; None until armed."""
        return self.lengths.one_in_ten(self.run_length) if self.armed and self.run_length else None

    def restart(self) -> None:
        """Forget the evidence so far; what was measured stays."""
        self._sequential = SequentialAlarm(self._rule, start(self._rule, self._sequential.logs.shape))

    def measure(self, draw: Draw) -> None:
        """Replay one more world; after the last, arm if a run length is set."""
        measure_world(self._rule, self._bets, draw, self.lengths, self._seed)
        if self.measured and self.run_length is not None:
            self._arm(self.run_length)

    def allow(self, run_length: float) -> None:
        """Set the units from one false alarm to the next. A reference too small is refused at the first run length,
        not when traffic grows: an alarm that is armed stays so, at a higher limit."""
        self.run_length = run_length
        if self.measured:
            self._arm(run_length)

    def _arm(self, run_length: float) -> None:
        limit = self.lengths.limit(run_length)
        if not self.armed:
            excess = limit / ideal_limit(self._rule, self._bets, self._spans, run_length) - 1.0
            if excess > self._slowdown:
                needed = size_needed(self._size, excess, self._slowdown)
                self.refusal = ReferenceTooSmall(self._size, needed, run_length)
                return
        self.refusal, self._limit = None, limit

    def update(self, p_values: npt.NDArray[np.float64]) -> bool:
        """Take one unit's p-values, (spans,), NaN where there is none, and say whether the alarm is on."""
        if self._limit is None:
            return False
        return self._sequential.update(log_e(self._bets, p_values), self._limit)

    def state(self) -> Entries:
        return {
            "places": np.array(self.lengths.places),
            "scales": np.array(self.lengths.scales),
            "logs": self._sequential.logs.copy(),
            "alarm": int(self.alarm),
            "armed": int(self.armed),
            "run_length": float("nan") if self.run_length is None else self.run_length,
            "needed": 0 if self.refusal is None else self.refusal.needed,
        }

    def restore(self, state: State) -> None:
        """Take up the state of an alarm of the same rule, bets and seed."""
        self.lengths.places = np.asarray(state["places"], dtype=np.float64).tolist()
        self.lengths.scales = np.asarray(state["scales"], dtype=np.float64).tolist()
        logs = np.array(state["logs"], dtype=np.float64)
        if logs.shape != self._sequential.logs.shape:
            raise ValueError(f"the state's logs have shape {logs.shape}, not {self._sequential.logs.shape}")
        self._sequential.logs, self._sequential.alarm = logs, bool(number(state, "alarm"))
        run_length, needed = number(state, "run_length"), int(number(state, "needed"))
        self.run_length = None if np.isnan(run_length) else run_length
        if self.run_length is not None and number(state, "armed"):
            self._limit = self.lengths.limit(self.run_length)
        if self.run_length is not None and needed:
            self.refusal = ReferenceTooSmall(self._size, needed, self.run_length)
