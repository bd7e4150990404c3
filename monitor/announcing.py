"""From a change of state to people: alerts to the dispatcher, their lives to the store."""

from __future__ import annotations

import json
from collections.abc import Mapping

from alerts.alert import Alert, alerts_of, current_alert
from alerts.delivery import Dispatcher
from alerts.guardrail import Guardrail, Transition
from alerts.http_post import FailureReason
from alerts.signals import Reading
from monitor.metrics import Clock, Metrics
from monitor.status import AlertRecord
from monitor.store import Store

_OUTBOX = "undelivered_alerts"


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
        """Keep a standing alert's numbers current; after a restart this takes it up again. It is then sent once more
        with the same start, which a receiver that knows it takes for the same alert: a page that a kill kept from going
        out is worth more than one that may come twice."""
        alert = current_alert(guardrail, reading, now, self._service, self._labels)
        if alert is not None:
            self._send(alert)

    def _send(self, alert: Alert) -> None:
        if self._dispatcher is not None:
            self._dispatcher.submit(alert)


class Outbox:
    """The dispatcher, and what it could not deliver before the process ended: kept, and tried by the next one."""

    def __init__(self, dispatcher: Dispatcher, store: Store, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._store = store
        self._clock = clock

    def start(self) -> None:
        kept = self._store.load_state(_OUTBOX) or {}
        for alert in json.loads(str(kept.get("alerts", "[]"))):
            self._dispatcher.submit(Alert.model_validate(alert))
        self._dispatcher.start()

    def stop(self, deadline_s: float = 10.0) -> None:
        self._dispatcher.stop(deadline_s)
        waiting = [alert.model_dump(mode="json") for alert in self._dispatcher.undelivered()]
        self._store.save_state(_OUTBOX, {"alerts": json.dumps(waiting)}, self._clock())


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
