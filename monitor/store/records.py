"""What the store is given and gives back, and the rows they stand in."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from detectors.finding import Finding, Outcome
from monitor.status import AlertRecord, Marker
from monitor.store.encoding import clean_text, encode_evidence, to_json

NOT_FINITE = "not_finite"
"""The reason of a finding whose value or weight was NaN or infinite."""


@dataclass(slots=True, frozen=True)
class ClosedRequest:
    """A request (the id of its `RagTrace`) that closed at this revision."""

    id: str
    revision: int


@dataclass(slots=True, frozen=True)
class StoredFinding:
    """A finding, who judged, and when it was recorded (Unix seconds)."""

    finding: Finding
    scorer: str
    at: float


@dataclass(slots=True, frozen=True)
class Recorded:
    """What became of one `record` call."""

    stored: int
    """Findings written: new, or in place of one of a lower revision."""
    ignored: int
    """Findings that an equal or higher revision had come before."""
    withdrawn: int
    """Findings of lower revisions removed because the new revision was not selected for that check."""
    not_finite: int
    """Findings among those given that were turned into `invalid` because a number was NaN or infinite."""


FINDING_COLUMNS = (
    "request_id, check_name, revision, scorer, outcome, value, weight, reason, slices, evidence, at"
)
FindingRow = tuple[str, str, int, str, str, float | None, float, str, str, str, float]


def finding_row(judged: StoredFinding) -> FindingRow:
    """The columns of one finding; NaN and infinities make it `invalid`, never NULL."""
    finding = judged.finding
    outcome, value, weight, reason = finding.outcome, finding.value, finding.weight, finding.reason
    if not is_finite(finding):
        outcome, value, reason = Outcome.INVALID, None, NOT_FINITE
        weight = weight if math.isfinite(weight) else 1.0
    return (
        clean_text(finding.trace_id),
        clean_text(finding.check),
        finding.revision,
        clean_text(judged.scorer),
        outcome.value,
        None if value is None else float(value),
        float(weight),
        clean_text(reason),
        to_json(dict(finding.slices)),
        encode_evidence(finding.evidence),
        judged.at,
    )


def is_finite(finding: Finding) -> bool:
    """Whether its numbers can enter a rate."""
    return math.isfinite(finding.weight) and (finding.value is None or math.isfinite(finding.value))


def finding_of(row: FindingRow) -> StoredFinding:
    """The finding that stands in these columns."""
    trace_id, check, revision, scorer, outcome, value, weight, reason, slices, evidence, at = row
    finding = Finding(
        trace_id,
        revision,
        check,
        Outcome(outcome),
        value,
        weight,
        reason,
        slices=json.loads(slices),
        evidence=json.loads(evidence),
    )
    return StoredFinding(finding, scorer, at)


ALERT_COLUMNS = "guardrail, slice, severity, summary, fired_at, resolved_at"
MARKER_COLUMNS = "time, kind, service, before, after"


def alert_row(alert: AlertRecord) -> tuple[str | float | None, ...]:
    """The columns of one alert."""
    texts = (alert.guardrail, alert.slice, alert.severity, alert.summary)
    return (*map(clean_text, texts), alert.fired_at, alert.resolved_at)


def alert_of(row: Sequence[str | float | None]) -> AlertRecord:
    """The alert that stands in these columns."""
    return AlertRecord.model_validate(dict(zip(ALERT_COLUMNS.split(", "), row, strict=True)))


def marker_row(marker: Marker) -> tuple[str | float | None, ...]:
    """The columns of one change marker."""
    before = None if marker.before is None else clean_text(marker.before)
    return (
        marker.time,
        clean_text(marker.kind),
        clean_text(marker.service),
        before,
        clean_text(marker.after),
    )


def marker_of(row: Sequence[str | float | None]) -> Marker:
    """The marker that stands in these columns."""
    return Marker.model_validate(dict(zip(MARKER_COLUMNS.split(", "), row, strict=True)))
