"""Which traces a check judges: by hash, so that it is decided alike everywhere, with the probability kept.

A check judges a trace when `u < rate`, where `u` is uniform on [0, 1) and depends on the trace id and the salt
alone. So replicas and restarts agree, a trace chosen at some rate is chosen at every higher one (samples of nested
rates are nested, and checks overlap as much as they can), and feedback that comes later raises the rate and lets
the same `u` decide again. The hash is of the trace id and not of the request: requests that share a trace are
judged together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from alerts.signals import SIGNALS
from collectors.trace import RagTrace
from detectors.operations import asked_again

LOWEST_FLOOR = 0.001
"""A floor below it could not be told from none: one trace in a thousand, each weighing a thousand."""

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class Stratum(StrEnum):
    """What set the probability of a trace; a metric label."""

    RATE = "rate"
    CENSUS = "census"
    FLOOR = "floor"
    THUMBS_DOWN = "thumbs_down"
    REGENERATED = "regenerated"
    REFUSED = "refused"
    ERROR = "error"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StrataRates(_Frozen):
    """Probabilities of traces that are worth more attention; they only ever raise a check's own rate."""

    thumbs_down: Probability = Field(1.0, description="Traces whose answer a person voted down.")
    regenerated: Probability = Field(1.0, description="Traces whose answer a person asked to have again.")
    refused: Probability = Field(
        0.0, description="Traces whose answer is a refusal; 0 leaves them at the rate."
    )
    error: Probability = Field(0.0, description="Traces that ended in an error; 0 leaves them at the rate.")


class SamplingSettings(_Frozen):
    """How large a part of the traffic is judged. Every judged trace weighs 1 / its probability in every rate."""

    rate: Probability = Field(
        0.1, description="Probability that a check judges a trace, where `checks` is silent."
    )
    checks: Mapping[str, Probability] = Field(
        {"filter_exclusion": 1.0}, description="The same by check, in place of `rate`."
    )
    floor: float = Field(
        0.01,
        ge=LOWEST_FLOOR,
        le=1.0,
        description="No check and no trace falls below this probability: the random floor that keeps rates honest.",
    )
    strata: StrataRates = Field(
        StrataRates(), description="Higher probabilities by what became of the answer; the highest counts."
    )
    salt: str = Field(
        "groundwatch",
        description="Changes which traces are chosen; replicas that are to agree must have the same.",
    )

    @field_validator("checks")
    @classmethod
    def _known_checks(cls, checks: Mapping[str, float]) -> Mapping[str, float]:
        known = sorted(signal.check for signal in SIGNALS if signal.check)
        for name in checks:
            if name not in known:
                raise ValueError(f"no check is called {name!r}; there are {', '.join(known)}")
        return checks


@dataclass(slots=True, frozen=True)
class Decision:
    """Whether a check judges a trace, and with what probability it would have.

    `probability` is the inclusion probability, `rate` (ours) times what an upstream sampler kept the trace with, and
    the finding's weight is 1 / `probability`. `reason` is empty or says why a number of the trace was not used.
    """

    selected: bool
    probability: float
    stratum: Stratum
    rate: float
    reason: str = ""

    @property
    def weight(self) -> float:
        """1 / inclusion probability."""
        return 1.0 / self.probability


class Sampler:
    """Decides by trace and check; keeps no state, so that any thread may ask.

    >>> trace = RagTrace(id="4bf92f35:1", trace_id="4bf92f35", start_time_ns=0, sampling_probability=0.5)
    >>> Sampler(SamplingSettings(rate=1.0)).decide(trace, "faithfulness").weight
    2.0
    """

    def __init__(self, settings: SamplingSettings) -> None:
        self._settings = settings
        self._key = blake2b(
            settings.salt.encode("utf-8", "surrogatepass"), digest_size=blake2b.MAX_KEY_SIZE
        ).digest()

    def decide(self, trace: RagTrace, check: str) -> Decision:
        """Whether `check` judges `trace`; a later revision of the trace may be decided otherwise, and its weight
        then takes the place of the earlier one."""
        rate, stratum = self.rate(trace, check)
        return self._decision(trace, rate, stratum)

    def census(self, trace: RagTrace) -> Decision:
        """For a check that sees every trace that reaches us: only what an upstream sampler left out weighs."""
        return self._decision(trace, 1.0, Stratum.CENSUS)

    def _decision(self, trace: RagTrace, rate: float, stratum: Stratum) -> Decision:
        upstream, reason = trace.sampling_probability, ""
        if not 0.0 < upstream <= 1.0:
            upstream, reason = 1.0, "upstream_probability_invalid"
        return Decision(self.position(trace.trace_id) < rate, rate * upstream, stratum, rate, reason)

    def rate(self, trace: RagTrace, check: str) -> tuple[float, Stratum]:
        """Our own probability in force, and what set it; where several set the same, the first of `Stratum`."""
        settings = self._settings
        rates = {Stratum.RATE: settings.checks.get(check, settings.rate), Stratum.FLOOR: settings.floor}
        rates |= {stratum: getattr(settings.strata, stratum) for stratum in strata(trace)}
        highest = max(rates, key=rates.__getitem__)
        return rates[highest], highest

    def position(self, trace_id: str) -> float:
        """`u`: uniform on [0, 1), a function of the trace id and the salt alone."""
        digest = blake2b(trace_id.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).digest()
        return unit_interval(int.from_bytes(digest, "big"))


def unit_interval(word: int) -> float:
    """A 64-bit word as a number in [0, 1): its upper 53 bits, because all 64 would round up to 1.

    >>> unit_interval(2**64 - 1) < 1.0 == (2**64 - 1) / 2**64
    True
    """
    return (word >> 11) * 2.0**-53


def strata(trace: RagTrace) -> tuple[Stratum, ...]:
    """The strata that a trace belongs to beside the general one."""
    labels = {feedback.label.strip().casefold() for feedback in trace.feedback}
    belongs = {
        Stratum.THUMBS_DOWN: "thumbs_down" in labels,
        Stratum.REGENERATED: asked_again(trace.feedback),
        Stratum.REFUSED: trace.refused is True,
        Stratum.ERROR: trace.error is not None,
    }
    return tuple(stratum for stratum, member in belongs.items() if member)
