"""From a change of state to people: alerts to the dispatcher, their lives to the store."""

from __future__ import annotations

from collections.abc import Mapping

from alerts.alert import Alert, alerts_of, current_alert
from alerts.delivery import Dispatcher
from alerts.guardrail import Guardrail, Transition
from alerts.http_post import FailureReason
from alerts.signals import Reading
from monitor.metrics import Metrics
from monitor.status import AlertRecord
from monitor.store import Store


class Announcer:
    """Tells the dispatcher what changed and renews what stands; keeps every alert's life in the store."""

    def __init__(
        self, dispatcher: Dispatcher | None, store: Store, service: str, labels: Mapping[str, str]
    ) -> None:
        self._dispatcher = dispatcher
        self._store = store
        self._service = service
        self._labels = labels

    def changed(self, transition: Transition) -> None:
        """Send what this transition ends and begins."""
        for alert in alerts_of(transition, self._service, self._labels):
            self._send(alert)
            self._store.record_alert(_record(alert, transition.slice))

    def renew(self, guardrail: Guardrail, reading: Reading, now: float) -> None:
        """Keep a standing alert's numbers current; after a restart this takes it up again without a second page."""
        alert = current_alert(guardrail, reading, now, self._service, self._labels)
        if alert is not None:
            self._send(alert)

    def _send(self, alert: Alert) -> None:
        if self._dispatcher is not None:
            self._dispatcher.submit(alert)


class MeteredDelivery:
    """Counts deliveries (`alerts.delivery.DeliveryEvents`) in the catalogue."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def sent(self, sink: str, alerts: int) -> None:
        self._metrics.notifications.labels(sink, "sent", "").inc(alerts)

    def failed(self, sink: str, reason: FailureReason, alerts: int) -> None:
        self._metrics.notifications.labels(sink, "failed", reason).inc(alerts)

    def dropped(self, sink: str, reason: FailureReason, alerts: int) -> None:
        self._metrics.notifications.labels(sink, "dropped", reason).inc(alerts)


def _record(alert: Alert, slice_name: str) -> AlertRecord:
    return AlertRecord(
        guardrail=alert.labels["guardrail"],
        slice=slice_name,
        severity=alert.labels["severity"],
        summary=alert.annotations.get("summary", alert.name),
        fired_at=alert.starts_at,
        resolved_at=alert.ends_at,
    )
