"""The numbers that guardrails may watch: names, units, directions. Metric catalogue and rules both read it.

Every quality signal is stated as bad events over judged units, so that more is always worse and one
confidence bound serves them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ALL = "all"
"""The slice of everything. Others read `key=value`, several joined by commas: `locale=en-US,tenant=acme`."""


class Kind(StrEnum):
    """How a signal's numbers are to be read."""

    RATE = "rate"
    """Bad events over judged units, between 0 and 1, with a confidence interval."""
    MEAN = "mean"
    """A mean over judged units, with a confidence interval."""
    ALARM = "alarm"
    """0 or 1, decided by a sequential detector under its own false-alarm budget."""


@dataclass(slots=True, frozen=True)
class Signal:
    """One watched number. `check` names the check whose findings feed it (empty for alarms).

    `phrase` ends the sentence that people are paged with: "at least 2.9 % (...) <phrase>".
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    check: str = ""
    phrase: str = ""


UNFAITHFUL = Signal(
    "unfaithful_rate",
    Kind.RATE,
    "1",
    "answers with a claim that the context does not hold, over judged answers",
    "faithfulness",
    "of answers make a claim that the context does not hold",
)
FILTER_EXCLUSION = Signal(
    "filter_false_exclusion_rate",
    Kind.RATE,
    "1",
    "queries whose every eligible known answer the relevance filter removed, over those with a known answer",
    "filter_exclusion",
    "of queries lost every known answer",
)
SLOW = Signal(
    "slow_request_rate",
    Kind.RATE,
    "1",
    "requests over the latency objective, over requests",
    "latency",
    "of requests took longer than the latency objective",
)
REGENERATION = Signal(
    "regeneration_rate",
    Kind.RATE,
    "1",
    "answers that the user asked to have again, over answers",
    "regeneration",
    "of answers were asked for again",
)
COST = Signal(
    "cost_per_query_usd",
    Kind.MEAN,
    "USD",
    "mean cost of a query, over queries whose cost is known",
    "cost",
    "a query",
)
QUERY_DRIFT = Signal(
    "query_drift",
    Kind.ALARM,
    "1",
    "the queries' embeddings have left their reference window",
    phrase="the queries' embeddings have left their reference window",
)
RATE_DRIFT = Signal(
    "rate_drift",
    Kind.ALARM,
    "1",
    "a rate has left its usual course for the hour, by its control chart",
    phrase="a rate has left its usual course",
)
ENCODER_CHANGE = Signal(
    "encoder_change",
    Kind.ALARM,
    "1",
    "the encoder of the queries gives other vectors than before, under the same name",
    phrase="the encoder gives other vectors than before, under the same name",
)

SIGNALS: tuple[Signal, ...] = (
    UNFAITHFUL,
    FILTER_EXCLUSION,
    SLOW,
    REGENERATION,
    COST,
    QUERY_DRIFT,
    RATE_DRIFT,
    ENCODER_CHANGE,
)
BY_NAME: dict[str, Signal] = {signal.name: signal for signal in SIGNALS}


@dataclass(slots=True, frozen=True)
class Reading:
    """What the registry says of one signal and slice now.

    `estimate`, `lower` and `upper` are None where there is no evidence: never 0, never 1. `evidence` counts
    the units judged in the window, `effective_evidence` is that number after weighting (Kish). `low` and
    `high` are the signal's own control band, where it has one.
    """

    signal: str
    slice: str
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    evidence: int = 0
    effective_evidence: float = 0.0
    low: float | None = None
    high: float | None = None
    reason: str = ""
    """What people should read first: the blamed clause, the drifted slice, the scorer."""
