"""The scripted incident as data: acts as shares of the duration, what each must make fire, and the sidecar's settings.

Everything scales with the duration, so that the same story plays in 90 seconds without a person and in three minutes
with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from monitor.demo.answerer import Release
from monitor.demo.traffic import MEAN_SESSION_LENGTH

FILTER_EXCLUSION, FAITHFULNESS, QUERY_DRIFT = "filter_exclusion", "faithfulness", "query_drift"
REGENERATION = "regeneration"

REQUESTS_PER_SECOND = 20.0
SESSIONS_PER_SECOND = REQUESTS_PER_SECOND / MEAN_SESSION_LENGTH
GRACE_SHARE = 0.1
"""Share of the duration after an act's end in which its guardrail may still fire: the rate window still holds it."""


class Act(BaseModel):
    """One part of the story."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = Field(description="What the viewer is told.")
    share: float = Field(gt=0, le=1, description="Share of the whole duration.")
    release: Release
    uncovered_share: float = Field(
        default=0.0, ge=0, le=1, description="Share of new sessions that ask about what no article covers."
    )
    expect: str | None = Field(default=None, description="The guardrail that this act must make fire.")
    reason_contains: str = Field(default="", description="What that alert's reason must name.")
    may_fire: tuple[str, ...] = Field(default=(), description="Guardrails that may fire as a consequence.")


ACTS: tuple[Act, ...] = (
    Act(
        name="healthy",
        title="Release 2.0.4: ordinary traffic, the reference window fills",
        share=0.24,
        release=Release(version="2.0.4"),
    ),
    Act(
        name="wrong_filter",
        title="Release 2.1.0 hard-codes locale = en-US in the relevance filter",
        share=0.15,
        release=Release(version="2.1.0", hard_coded_locale="en-US"),
        expect=FILTER_EXCLUSION,
        reason_contains="locale = en-US",
        may_fire=(REGENERATION,),
    ),
    Act(
        name="invented_facts",
        title="Release 2.2.0 mends the filter, but its answers add facts that no article holds",
        share=0.15,
        release=Release(version="2.2.0", invention_share=0.8),
        expect=FAITHFULNESS,
        may_fire=(REGENERATION,),
    ),
    Act(
        name="uncovered_topic",
        title="Release 2.3.0 is sound, but users ask about a rewards programme that nobody documented",
        share=0.18,
        release=Release(version="2.3.0"),
        uncovered_share=0.65,
        expect=QUERY_DRIFT,
        may_fire=(REGENERATION,),
    ),
    Act(
        name="recovery",
        title="The campaign is over: ordinary traffic again, every guardrail must resolve",
        share=0.28,
        release=Release(version="2.3.0"),
        may_fire=(REGENERATION,),
    ),
)


class ScheduledAct(BaseModel):
    """An act with its times, in seconds since the start of the schedule."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    act: Act
    start_s: float = Field(ge=0)
    end_s: float = Field(gt=0)


class Schedule(BaseModel):
    """All acts with their times; the service takes it as JSON on its command line.

    >>> schedule = Schedule.of(100.0)
    >>> schedule.at(30.0).act.name, schedule.duration_s
    ('wrong_filter', 100.0)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests_per_second: float = Field(default=REQUESTS_PER_SECOND, gt=0)
    acts: tuple[ScheduledAct, ...] = Field(min_length=1)

    @classmethod
    def of(
        cls, duration_s: float, acts: Sequence[Act] = ACTS, requests_per_second: float = REQUESTS_PER_SECOND
    ) -> Self:
        """The acts one after the other, stretched to `duration_s` in all, whatever their shares sum up to."""
        unit = duration_s / sum(act.share for act in acts)
        scheduled, start = [], 0.0
        for act in acts:
            end = round(start + act.share * unit, 6)
            scheduled.append(ScheduledAct(act=act, start_s=start, end_s=end))
            start = end
        return cls(requests_per_second=requests_per_second, acts=tuple(scheduled))

    @property
    def duration_s(self) -> float:
        return self.acts[-1].end_s

    def at(self, time_s: float) -> ScheduledAct:
        """The act that plays at this time; the last one after the end."""
        return next((scheduled for scheduled in self.acts if time_s < scheduled.end_s), self.acts[-1])


class DemoSettings(TypedDict):
    """What the demo asks of the sidecar. Seconds throughout; rates are shares of one."""

    evaluation_interval_s: float
    """How often windows slide, drift is tested and guardrails are evaluated."""
    rate_window_s: float
    """Rolling window behind every rate."""
    answered_wait_s: float
    """Assembly: a request with its root and an answer closes this long after its last span."""
    idle_wait_s: float
    """Assembly: any other request closes after this silence."""
    maximum_wait_s: float
    """Assembly: every request closes by then."""
    sampling_rate: float
    """Of every check: all traffic is judged."""
    entitlement_fields: tuple[str, ...]
    """Filter fields that say what the caller may see."""
    scorer: str
    """The faithfulness scorer."""
    hold_s: float
    """A bound must break this long before its guardrail fires."""
    clear_s: float
    """A bound must hold this long before its guardrail resolves."""
    no_data_after_s: float
    """Silence that makes a guardrail `no_data`; longer than the drift windows take to fill."""
    minimum_evidence: float
    """Judged answers in the window below which nothing fires."""
    filter_exclusion_ceiling: float
    unfaithful_ceiling: float
    slow_request_ceiling: float
    latency_objective_s: float
    """A request above it is slow."""
    cost_ceiling_usd: float
    """Mean cost of a query."""
    regeneration_baseline_units: int
    """Answers that the regeneration control band is learnt from."""
    regeneration_settle_s: float
    """An answer counts for that baseline once it is this old: users take up to a second and a half to ask again."""
    session_idle_s: float
    """Drift: a session closes after this silence."""
    drift_reference_size: int
    """Drift: closed sessions of the reference window; the healthy act fills it in good time."""
    drift_window_size: int
    """Drift: closed sessions of the current window."""
    drift_smallest_shift: float
    """Drift: share of the sessions that a shift must move; what so small a reference can be asked for."""
    drift_slowdown: float
    """Drift: how much more evidence may be asked because the reference is so small; what is to be seen is large."""
    drift_period_s: float
    """Drift: one false alarm is allowed in this time, which is many demos."""


def demo_settings(duration_s: float) -> DemoSettings:
    """The sidecar's settings for a demo of this length, seconds.

    >>> demo_settings(90.0)["rate_window_s"]
    7.2
    """
    return DemoSettings(
        evaluation_interval_s=0.5,
        rate_window_s=round(0.08 * duration_s, 3),
        answered_wait_s=0.4,
        idle_wait_s=3.0,
        maximum_wait_s=10.0,
        sampling_rate=1.0,
        entitlement_fields=("tenant",),
        scorer="lexical",
        hold_s=1.0,
        clear_s=round(0.02 * duration_s, 3),
        no_data_after_s=max(45.0, 0.4 * duration_s),
        minimum_evidence=25.0,
        filter_exclusion_ceiling=0.05,
        unfaithful_ceiling=0.15,
        slow_request_ceiling=0.1,
        latency_objective_s=4.0,
        cost_ceiling_usd=0.01,
        regeneration_baseline_units=round(0.12 * duration_s * REQUESTS_PER_SECOND),
        regeneration_settle_s=2.5,
        session_idle_s=1.6,
        drift_reference_size=max(40, round(0.18 * duration_s * SESSIONS_PER_SECOND)),
        drift_window_size=max(12, round(0.024 * duration_s * SESSIONS_PER_SECOND)),
        drift_smallest_shift=0.3,
        drift_slowdown=4.0,
        drift_period_s=100.0 * duration_s,
    )
