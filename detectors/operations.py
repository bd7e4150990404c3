"""Census checks, cheap enough for every trace: latency, cost and regeneration."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from collectors.trace import Feedback, Flag, RagTrace
from detectors.finding import Finding, Outcome, scored, unscored

REGENERATE_LABELS = frozenset({"regenerate", "regenerated", "retry"})
_UNSEEN = frozenset({Flag.CONTENT_NOT_CAPTURED, Flag.REDACTED})

_DATED = re.compile(r"[-@:](?:\d{4,8}|\d{4}-\d{2}-\d{2}|latest|v\d+)$")


class TokenPrice(BaseModel):
    """What a model's tokens cost, in US dollars per million."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_usd_per_million: float = Field(
        ge=0, allow_inf_nan=False, description="US dollars per million input tokens."
    )
    output_usd_per_million: float = Field(
        ge=0, allow_inf_nan=False, description="US dollars per million output tokens."
    )


class OperationsSettings(BaseModel):
    """Settings of the census checks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    latency_objective_s: float = Field(
        default=5.0,
        gt=0,
        allow_inf_nan=False,
        description="A request that takes longer than this, in seconds, is slow.",
    )
    prices: Mapping[str, TokenPrice] = Field(
        default_factory=dict,
        description="Token prices by model name, used where a trace logs no cost; a dated name "
        "(`m-2026-01-31`) falls back to the plain one (`m`).",
    )


class LatencyCheck:
    """Value 1.0: the request took longer than the objective; 0.0: it did not. Failed requests count too.

    `not_scorable`: `duration_unknown`. `invalid`: `duration_invalid` (negative or not finite).
    """

    name = "latency"

    def __init__(self, objective_s: float) -> None:
        self._objective_s = objective_s

    @property
    def scorer(self) -> str:
        return f"objective-{self._objective_s:g}s"

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        return [self._check(trace) for trace in traces]

    def _check(self, trace: RagTrace) -> Finding:
        duration = trace.duration_s
        if duration is None:
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "duration_unknown")
        if not (math.isfinite(duration) and duration >= 0):
            return unscored(self.name, trace, Outcome.INVALID, "duration_invalid", duration_s=duration)
        return scored(self.name, trace, float(duration > self._objective_s), duration_s=duration)


class CostCheck:
    """Value: US dollars that the request cost, as logged, else its tokens at the configured prices.

    `not_scorable`: `cost_unknown` (nothing logged, and no price for the model or a token count missing).
    `invalid`: `cost_invalid` (negative or not finite).
    """

    name = "cost"
    scorer = "prices-1"

    def __init__(self, prices: Mapping[str, TokenPrice]) -> None:
        self._prices = dict(prices)

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        return [self._check(trace) for trace in traces]

    def _check(self, trace: RagTrace) -> Finding:
        source = "logged" if trace.cost_usd is not None else "prices"
        cost = trace.cost_usd if trace.cost_usd is not None else self._priced(trace)
        if cost is None:
            return unscored(
                self.name, trace, Outcome.NOT_SCORABLE, "cost_unknown", model=trace.versions.model
            )
        if not (math.isfinite(cost) and cost >= 0):
            return unscored(self.name, trace, Outcome.INVALID, "cost_invalid", cost_usd=cost)
        return scored(self.name, trace, cost, source=source)

    def _priced(self, trace: RagTrace) -> float | None:
        model, tokens = trace.versions.model, trace.tokens
        if model is None or tokens.input is None or tokens.output is None:
            return None
        price = self._prices.get(model) or self._prices.get(_DATED.sub("", model))
        if price is None:
            return None
        return (
            tokens.input * price.input_usd_per_million + tokens.output * price.output_usd_per_million
        ) / 1e6


class RegenerationCheck:
    """Value 1.0: the user asked to have the answer again; 0.0: answered, and they did not (yet).

    `not_applicable`: `request_failed`. `not_scorable`: `no_answer` (an answer that was merely not captured
    counts).
    """

    name = "regeneration"
    scorer = "feedback-1"

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        return [self._check(trace) for trace in traces]

    def _check(self, trace: RagTrace) -> Finding:
        labels = [feedback.label for feedback in trace.feedback]
        return by_feedback(self.name, trace, asked_again(trace.feedback), feedback=labels)


def by_feedback(name: str, trace: RagTrace, told: bool, **evidence: object) -> Finding:
    """What users tell of an answer: 1.0 where they did; only what was answered, seen or not, can be told of."""
    if trace.error is not None:
        return unscored(name, trace, Outcome.NOT_APPLICABLE, "request_failed")
    if trace.answer is None and not told and not trace.flags & _UNSEEN:
        return unscored(name, trace, Outcome.NOT_SCORABLE, "no_answer")
    return scored(name, trace, float(told), **evidence)


def asked_again(feedback: Iterable[Feedback]) -> bool:
    """Whether any of it asks to have the answer again."""
    return any(one.label.strip().casefold() in REGENERATE_LABELS for one in feedback)
