"""Alerts to Alertmanager over its v2 API."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.alert import Alert
from alerts.http_post import post_json
from alerts.sink import rfc3339, sink_name

_EXPIRY_RESENDS = 4


class AlertmanagerSink:
    """One Alertmanager; of a cluster each member gets its own sink, as Prometheus does it.

    Firing alerts are sent again every `resend_s` with an end `4 * resend_s` ahead, so that the alerts of a
    monitor that died end by themselves and one lost message ends nothing (Prometheus' own rule).
    """

    def __init__(
        self, url: str, *, resend_s: float = 60.0, timeout_s: float = 5.0, generator_url: str = ""
    ) -> None:
        self._url = url.rstrip("/") + "/api/v2/alerts"
        self._name = sink_name("alertmanager", url)
        self._resend_s = resend_s
        self._timeout_s = timeout_s
        self._generator_url = generator_url

    @property
    def name(self) -> str:
        return self._name

    @property
    def resend_s(self) -> float | None:
        return self._resend_s

    def send(self, alerts: Sequence[Alert], now: float) -> None:
        """POST these alerts in one request."""
        post_json(self._url, [self._posted(alert, now) for alert in alerts], self._timeout_s)

    def _posted(self, alert: Alert, now: float) -> dict[str, object]:
        ends_at = now + _EXPIRY_RESENDS * self._resend_s if alert.ends_at is None else alert.ends_at
        posted: dict[str, object] = {
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": rfc3339(alert.starts_at),
            "endsAt": rfc3339(ends_at),
        }
        return posted | ({"generatorURL": self._generator_url} if self._generator_url else {})
