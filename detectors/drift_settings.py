"""Settings of query drift: its reference, its windows, and what its alarms look for and allow."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.false_alarm_budget import FalseAlarmBudget


class QueryDriftSettings(BaseModel):
    """How large the windows are, how small a shift is looked for, and how many false alarms are allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_size: int = Field(
        default=500,
        ge=2,
        description="Units (sessions) collected as the reference; more where the budget needs more.",
    )
    reference_most: int = Field(
        default=5000, ge=2, description="Units collected at most, whatever the budget needs."
    )
    reference_s: float = Field(
        default=0.0,
        ge=0.0,
        description="Seconds that the reference is collected at least, beside its size; 0 = its size alone.",
    )
    window_size: int = Field(
        default=100,
        ge=2,
        description="Units in the current window, or at least in it where window_s is given.",
    )
    window_s: float = Field(
        default=0.0,
        ge=0.0,
        description="Seconds that the current window spans; 0 = the last window_size units.",
    )
    permutations: int = Field(
        default=1000, ge=99, description="Permutations a test; the smallest p-value is 1 / (1 + this)."
    )
    neighbours: int = Field(
        default=3, ge=1, description="Nearest known queries that a query's novelty is the mean distance to."
    )
    smallest_shift: float = Field(
        default=0.04,
        gt=0.0,
        le=1.0,
        description="Share of the units that a shift must move to be looked for; the smaller, the larger a reference.",
    )
    slowdown: float = Field(
        default=0.5,
        gt=0.0,
        description="How much more evidence an alarm may need because the reference is finite, as a share; "
        "a reference that needs more is refused.",
    )
    budget: FalseAlarmBudget = Field(default=FalseAlarmBudget(), description="The false alarms allowed.")
    seed: int = Field(default=0, ge=0, description="Seed of permutations, of splits and of replays.")

    @model_validator(mode="after")
    def _reference_holds_a_window(self) -> Self:
        if self.reference_size < self.window_size:
            raise ValueError("reference_size must be at least window_size")
        if self.reference_most < self.reference_size:
            raise ValueError("reference_most must be at least reference_size")
        return self
