"""What a person is told: one alert, its labels (who it is) and its annotations (what it says).

No user text reaches either: `plain.py` says how that is made sure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from alerts import wording
from alerts.guardrail import Guardrail, Page, Transition
from alerts.plain import plain_reason, plain_slice
from alerts.signals import Reading

NO_EVIDENCE_ALERT = "GroundwatchNoEvidence"


class Alert(BaseModel):
    """One alert. The same labels are the same alert; annotations may change while it fires."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: float
    """Unix seconds."""
    ends_at: float | None = None
    """Unix seconds; None while it fires."""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """The labels, sorted: what makes this alert the same as another."""
        return tuple(sorted(self.labels.items()))

    @property
    def resolved(self) -> bool:
        """Whether it is over."""
        return self.ends_at is not None

    @property
    def fingerprint(self) -> str:
        """A short stable name of the identity, 16 hex characters."""
        return hashlib.sha256(repr(self.identity).encode()).hexdigest()[:16]


def breach_alert_name(guardrail: str) -> str:
    """The alert's name of a guardrail's breach.

    >>> breach_alert_name("filter_exclusion")
    'GroundwatchFilterExclusion'
    """
    return "Groundwatch" + "".join(map(str.capitalize, guardrail.split("_")))


def alerts_of(
    transition: Transition, service: str, external_labels: Mapping[str, str] | None = None
) -> tuple[Alert, ...]:
    """The alerts that a transition ends and begins, in this order; often none.

    `service` and `external_labels` (cluster, namespace, ...) come from the configuration and become labels.
    """
    own = {**(external_labels or {}), "service": service}
    alerts = []
    if transition.resolved is not None:
        start = transition.at if transition.resolved_since is None else transition.resolved_since
        alerts.append(_alert(transition, transition.resolved, own, start, transition.at))
    if transition.raised is not None:
        alerts.append(_alert(transition, transition.raised, own, transition.at, None))
    return tuple(alerts)


def current_alert(
    guardrail: Guardrail,
    reading: Reading,
    now: float,
    service: str,
    external_labels: Mapping[str, str] | None = None,
) -> Alert | None:
    """The alert that stands now, with the latest numbers; None where nobody is told anything.

    Hand it to the dispatcher after every evaluation: that renews the annotations and does not page again. After
    a restart the alert goes out once more, with the same fingerprint and start: rather twice than never.
    """
    memory = guardrail.memory
    if memory.page is None or memory.page_since is None:
        return None
    view = Transition(
        guardrail.spec,
        guardrail.slice,
        memory.condition,
        memory.condition,
        now,
        reading,
        judged=memory.judged,
        interrupted=memory.interrupted,
    )
    own = {**(external_labels or {}), "service": service}
    alert = _alert(view, memory.page, own, memory.page_since, None)
    if not guardrail.stale or memory.blind_since is None:
        return alert
    age = now - memory.blind_since
    stale = {"stale": f"not enough evidence for {age:.0f} s; the numbers are from before"}
    return alert.model_copy(update={"annotations": alert.annotations | stale})


def _alert(
    transition: Transition, page: Page, own: Mapping[str, str], starts_at: float, ends_at: float | None
) -> Alert:
    spec = transition.spec
    blind = page is Page.NO_EVIDENCE
    name = NO_EVIDENCE_ALERT if blind else breach_alert_name(spec.name)
    labels = {
        **own,
        "alertname": name,
        "guardrail": spec.name,
        "slice": plain_slice(transition.slice),
        "severity": spec.severity,
    }
    interrupted = "the guardrail was firing when its evidence ended"
    annotations = {
        "summary": wording.summary(transition, page, ended=ends_at is not None),
        "title": spec.title,
        "signal": spec.signal,
        "objective": wording.objective(spec, transition.judged),
        "reason": "" if blind or transition.judged is None else plain_reason(transition.judged.reason),
        "runbook_url": spec.runbook_url,
        "interrupted": interrupted if blind and transition.interrupted else "",
    }
    return Alert(
        name=name,
        labels=labels,
        annotations={key: text for key, text in annotations.items() if text},
        starts_at=starts_at,
        ends_at=ends_at,
    )
