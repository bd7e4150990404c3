"""What must hold: the definition of a guardrail, and the minimal set that is on by default."""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from alerts.signals import BY_NAME, Kind

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Direction(StrEnum):
    """On which side the bound breaks."""

    CEILING = "ceiling"
    """The lower bound is above the objective."""
    BAND = "band"
    """The interval lies outside the signal's own control band, on either side."""


class GuardrailSpec(BaseModel):
    """One thing that must hold.

    >>> try:
    ...     GuardrailSpec(name="answers", signal="unfaithfull_rate", title="Answers", objective=0.1)
    ... except ValueError as error:
    ...     print(error.errors()[0]["msg"])
    Value error, no signal is called 'unfaithfull_rate'; did you mean 'unfaithful_rate'?
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,62}$", description="Short name; a label of its metrics and alerts."
    )
    signal: str = Field(description="The watched signal, one of `alerts/signals.py`.")
    title: str = Field(min_length=1, description="What people read on the status page.")
    direction: Direction = Field(
        default=Direction.CEILING,
        description="`ceiling`: the lower bound must not exceed the objective; `band`: the interval must "
        "touch the signal's own control band. An alarm signal has neither: its detector says when it breaks.",
    )
    objective: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="The ceiling, in the signal's unit. None for bands and alarms.",
    )
    severity: Literal["warning", "critical"] = Field(
        default="warning", description="The label that routes the page."
    )
    minimum_evidence: float = Field(
        default=10,
        ge=0,
        allow_inf_nan=False,
        description="Effective units in the window below which nothing is judged. Not used for alarms, whose "
        "detector decides for itself.",
    )
    hold_s: Seconds = Field(
        default=60,
        description="How long the bound must break before the guardrail fires, in seconds; 0 = at once.",
    )
    clear_s: Seconds = Field(
        default=300,
        description="How long the bound must hold again, without a gap, before it resolves, in seconds.",
    )
    no_data_after_s: Seconds = Field(
        default=3600, description="Seconds without enough evidence after which the guardrail is `no_data`."
    )
    runbook_url: str = Field(default="", description="Where the page sends its reader; empty = nowhere.")
    slices: bool = Field(
        default=False, description="Whether each allowed slice is watched too, beside the whole."
    )

    @field_validator("signal")
    @classmethod
    def _known_signal(cls, signal: str) -> str:
        if signal not in BY_NAME:
            nearest = difflib.get_close_matches(signal, BY_NAME, n=1, cutoff=0.6)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(BY_NAME)}"
            raise ValueError(f"no signal is called {signal!r}; {hint}")
        return signal

    @model_validator(mode="after")
    def _objective_fits(self) -> Self:
        kind = self.kind
        needs_objective = kind is not Kind.ALARM and self.direction is Direction.CEILING
        if kind is Kind.ALARM and self.direction is Direction.BAND:
            raise ValueError(f"{self.signal} is an alarm: it has no band")
        if needs_objective and self.objective is None:
            raise ValueError("a ceiling needs an objective")
        if not needs_objective and self.objective is not None:
            raise ValueError("only a ceiling has an objective; bands and alarms bring their own limits")
        if kind is Kind.RATE and self.objective is not None and self.objective > 1:
            raise ValueError(
                f"{self.signal} is a rate: its objective lies between 0 and 1, not {self.objective}"
            )
        return self

    @property
    def kind(self) -> Kind:
        """How the signal's numbers are to be read."""
        return BY_NAME[self.signal].kind


DEFAULT_GUARDRAILS: tuple[GuardrailSpec, ...] = (
    GuardrailSpec(
        name="faithfulness",
        signal="unfaithful_rate",
        title="Unfaithful answers",
        objective=0.10,
        severity="critical",
        slices=True,
    ),
    GuardrailSpec(
        name="latency",
        signal="slow_request_rate",
        title="p95 latency over its objective",
        objective=0.05,
        severity="critical",
    ),
    GuardrailSpec(
        name="filter_exclusion",
        signal="filter_false_exclusion_rate",
        title="Answers removed by the filter",
        objective=0.02,
        severity="critical",
        slices=True,
    ),
    GuardrailSpec(
        name="regeneration",
        signal="regeneration_rate",
        title="Answers asked for again",
        direction=Direction.BAND,
        slices=True,
    ),
    GuardrailSpec(name="cost", signal="cost_per_query_usd", title="Cost of a query", objective=0.05),
    GuardrailSpec(name="query_drift", signal="query_drift", title="Query drift", hold_s=0),
    GuardrailSpec(name="encoder_change", signal="encoder_change", title="Changed encoder", hold_s=0),
)
"""The minimal set, on by default."""
