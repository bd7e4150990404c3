"""What a check says of one trace, and what every check must offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from collectors.trace import RagTrace


class Outcome(StrEnum):
    """Only `scored` enters a rate; every other outcome is counted beside it."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    """The question does not arise: a refusal makes no claims."""
    NOT_SCORABLE = "not_scorable"
    """The trace lacks what the check needs; `reason` says which."""
    INVALID = "invalid"
    """The scorer's own output broke its contract."""
    ERROR = "error"


@dataclass(slots=True, frozen=True)
class Finding:
    """One check's judgement of one trace.

    `value` is the check's number (1.0 bad and 0.0 good where the signal is a rate; dollars for cost; seconds for
    latency) and is None unless `outcome` is `scored`. `weight` is 1 / inclusion probability, at least 1. `reason` is
    from a small closed set per check and is safe as a metric label; `evidence` is for people and holds what the alert
    and the trace view show (the clause that excluded the gold document, the sentence without support).
    """

    trace_id: str
    revision: int
    check: str
    outcome: Outcome
    value: float | None = None
    weight: float = 1.0
    reason: str = ""
    slices: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.value is None) == (self.outcome is Outcome.SCORED):
            raise ValueError(
                f"{self.check}: a finding has a value exactly when it is scored, not {self.outcome}"
            )
        if not self.weight >= 1.0:
            raise ValueError(
                f"{self.check}: weight {self.weight} is below 1: it is 1 / inclusion probability"
            )

    def weighted(self, weight: float) -> Finding:
        """The same finding with its inverse inclusion probability."""
        return replace(self, weight=weight)


class TraceCheck(Protocol):
    """A judgement of single traces.

    `check` is pure with regard to its input and gives exactly one finding a trace, in order, with weight 1; a batch
    gives what the single calls give. It never raises for what a trace holds: that is what outcomes are for.
    """

    @property
    def name(self) -> str:
        """The check's name: `faithfulness`, `filter_exclusion`; a metric label."""
        ...

    @property
    def scorer(self) -> str:
        """What judges, and how it is versioned: `lexical-1`, `hhem-2.1-open`; every metric carries it."""
        ...

    def check(self, traces: Sequence[RagTrace]) -> Sequence[Finding]: ...


def scored(check: str, trace: RagTrace, value: float, **evidence: object) -> Finding:
    """A scored finding of weight 1 for this trace."""
    return Finding(
        trace.id, trace.revision, check, Outcome.SCORED, value, slices=dict(trace.slices), evidence=evidence
    )


def unscored(check: str, trace: RagTrace, outcome: Outcome, reason: str, **evidence: object) -> Finding:
    """A finding without a value: why this trace does not enter the rate."""
    return Finding(
        trace.id, trace.revision, check, outcome, reason=reason, slices=dict(trace.slices), evidence=evidence
    )
