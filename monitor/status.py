"""What the sidecar says of itself now: one snapshot that the status page, the API and the demo's terminal all show."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(_Frozen):
    """One moment of a series; `time` is Unix seconds. None where there was no evidence."""

    time: float
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None


class GuardrailStatus(_Frozen):
    """One guardrail on one slice, with its recent history, oldest first."""

    guardrail: str
    signal: str
    slice: str
    title: str
    kind: str
    """`rate`, `mean` or `alarm`."""
    unit: str
    state: str
    """`ok`, `pending`, `firing`, `no_data`."""
    since: float
    objective: float | None
    estimate: float | None
    lower: float | None
    upper: float | None
    evidence: int
    effective_evidence: float
    not_scored: dict[str, int]
    """Counts of what does not enter the rate, by outcome."""
    reason: str
    scorer: str
    history: tuple[Point, ...] = ()


class DriftStatus(_Frozen):
    """One drift detector's last comparison and its recent history (estimate = evidence in log10).

    Run lengths are units from one false alarm to the next: as budgeted, and what one reference in ten would not reach.
    """

    detector: str
    statistic: float | None
    p_value: float | None
    evidence: float | None
    threshold: float | None
    reference_size: int
    current_size: int
    alarm: bool
    lower: float | None = None
    upper: float | None = None
    standing: str = "armed"
    """`collecting`, `measuring`, `reference_too_small`: it cannot alarm yet, `note` says why; or `armed`."""
    note: str = ""
    run_length: float | None = None
    run_length_one_in_ten: float | None = None
    moved: tuple[str, ...] = ()
    """While it alarms: the slices and topics that moved, in words, the surest first."""
    alarm_id: str = ""
    history: tuple[Point, ...] = ()


class AlertRecord(_Frozen):
    """One alert's life; `resolved_at` is None while it fires."""

    guardrail: str
    slice: str
    severity: str
    summary: str
    fired_at: float
    resolved_at: float | None = None


class Marker(_Frozen):
    """A change that somebody made: a new service, model, prompt, index or encoder version."""

    time: float
    kind: str
    service: str
    before: str | None
    after: str


class Status(_Frozen):
    """The whole snapshot. `counts` are the pipeline's counters by name (spans received, requests closed, ...)."""

    version: str
    started_at: float
    now: float
    healthy: bool
    problem: str
    guardrails: tuple[GuardrailStatus, ...]
    drift: tuple[DriftStatus, ...]
    alerts: tuple[AlertRecord, ...]
    markers: tuple[Marker, ...]
    counts: dict[str, int]
