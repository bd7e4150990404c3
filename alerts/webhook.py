"""Alerts to any receiver of Alertmanager's webhook payload (version 4), without an Alertmanager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from alerts.alert import Alert
from alerts.http_post import post_json
from alerts.sink import rfc3339, sink_name

_NEVER = "0001-01-01T00:00:00Z"
"""Go's zero time, which is how Alertmanager writes the end of an alert that has none."""


class WebhookSink:
    """Posts each alert when it begins and when it ends, once; whoever wants reminders takes Alertmanager."""

    def __init__(
        self, url: str, *, bearer_token: str = "", timeout_s: float = 5.0, external_url: str = ""
    ) -> None:
        self._url = url
        self._name = sink_name("webhook", url)
        self._headers = {"Authorization": f"Bearer {bearer_token}"} if bearer_token else {}
        self._timeout_s = timeout_s
        self._external_url = external_url

    @property
    def name(self) -> str:
        return self._name

    @property
    def resend_s(self) -> float | None:
        return None

    def send(self, alerts: Sequence[Alert], now: float) -> None:
        """POST these alerts in one request."""
        post_json(self._url, payload(alerts, self._external_url), self._timeout_s, self._headers)


def payload(alerts: Sequence[Alert], external_url: str = "") -> dict[str, object]:
    """The webhook payload of these alerts: Alertmanager's version 4, one group."""
    common = _common([alert.labels for alert in alerts])
    return {
        "version": "4",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
        "status": _status(all(alert.resolved for alert in alerts)),
        "receiver": "groundwatch",
        "groupLabels": {},
        "commonLabels": common,
        "commonAnnotations": _common([alert.annotations for alert in alerts]),
        "externalURL": external_url,
        "alerts": [_posted(alert, external_url) for alert in alerts],
    }


def _posted(alert: Alert, external_url: str) -> dict[str, object]:
    return {
        "status": _status(alert.resolved),
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": rfc3339(alert.starts_at),
        "endsAt": _NEVER if alert.ends_at is None else rfc3339(alert.ends_at),
        "generatorURL": external_url,
        "fingerprint": alert.fingerprint,
    }


def _status(resolved: bool) -> str:
    return "resolved" if resolved else "firing"


def _common(maps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first = maps[0] if maps else {}
    return {key: text for key, text in first.items() if all(other.get(key) == text for other in maps)}
