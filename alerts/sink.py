"""What every place that alerts are sent to must offer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import urlsplit

from alerts.alert import Alert


class AlertSink(Protocol):
    """A place that alerts are sent to."""

    @property
    def name(self) -> str:
        """Which one it is, without secrets; a metric label."""
        ...

    @property
    def resend_s(self) -> float | None:
        """Seconds after which a firing alert is sent again; None where once is enough."""
        ...

    def send(self, alerts: Sequence[Alert], now: float) -> None:
        """Deliver all of these or raise DeliveryError; `now` is Unix seconds. Sending one twice does no harm."""
        ...


def rfc3339(seconds: float) -> str:
    """Unix seconds as RFC 3339 in UTC, with milliseconds.

    >>> rfc3339(1700000000.25)
    '2023-11-14T22:13:20.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sink_name(kind: str, url: str) -> str:
    """The name of a sink: its kind and where it is, without credentials, path or query.

    >>> sink_name("webhook", "https://user:secret@hooks.example:8443/T0/abc?key=1")
    'webhook:hooks.example:8443'
    """
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{kind}:{parts.hostname}{port}"
