"""Where alerts go: the settings of delivery, and the sinks that they ask for."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from alerts.alertmanager import AlertmanagerSink
from alerts.sink import AlertSink
from alerts.webhook import WebhookSink


def _http_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no http:// or https:// address")
    if parts.username or parts.password:
        raise ValueError("an address must not hold credentials; use bearer_token")
    _ = parts.port  # raises ValueError for a port that is no number
    return url


HttpUrl = Annotated[str, AfterValidator(_http_url)]
LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WebhookSettings(_Settings):
    """One receiver of Alertmanager's webhook payload (version 4)."""

    url: HttpUrl = Field(description="Where to POST.")
    bearer_token: SecretStr = Field(
        default=SecretStr(""), description="Sent as `Authorization: Bearer`; empty = none."
    )


class AlertingSettings(_Settings):
    """Who evaluates the guardrails, and where alerts go.

    >>> AlertingSettings(alertmanager_urls=("alertmanager:9093",))
    Traceback (most recent call last):
        ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for AlertingSettings
    alertmanager_urls.0
      Value error, 'alertmanager:9093' is no http:// or https:// address ...
    """

    mode: Literal["local", "prometheus"] = Field(
        default="local",
        description="`local`: this process sends the alerts; `prometheus`: rules do, and nothing is sent "
        "from here. Never both, or people are paged twice.",
    )
    service: str = Field(default="rag", min_length=1, description="The watched service; the label `service`.")
    external_labels: dict[LabelName, str] = Field(
        default_factory=dict, description="Labels that every alert carries: cluster, namespace, ..."
    )
    external_url: Annotated[str, AfterValidator(lambda url: url and _http_url(url))] = Field(
        default="", description="Where people reach the status page; linked from the alert. Empty = no link."
    )
    alertmanager_urls: tuple[HttpUrl, ...] = Field(
        default=(), description="Every member of the Alertmanager cluster, as Prometheus would list them."
    )
    webhooks: tuple[WebhookSettings, ...] = Field(
        default=(), description="Receivers without an Alertmanager."
    )
    resend_s: float = Field(
        default=60, gt=0, allow_inf_nan=False, description="Seconds between resends of a firing alert."
    )
    timeout_s: float = Field(
        default=5, gt=0, le=60, description="Seconds that one connection, or one read from it, may take."
    )
    retry_first_s: float = Field(
        default=1, gt=0, allow_inf_nan=False, description="Seconds before the first retry."
    )
    retry_most_s: float = Field(
        default=60, gt=0, allow_inf_nan=False, description="The longest wait between retries, in seconds."
    )
    capacity: int = Field(default=10_000, ge=1, description="Alerts that one sink's lane may hold.")


def sinks_of(settings: AlertingSettings) -> tuple[AlertSink, ...]:
    """The sinks that the settings ask for; none where Prometheus' rules send the alerts."""
    if settings.mode == "prometheus":
        return ()
    alertmanagers = (
        AlertmanagerSink(
            url,
            resend_s=settings.resend_s,
            timeout_s=settings.timeout_s,
            generator_url=settings.external_url,
        )
        for url in settings.alertmanager_urls
    )
    webhooks = (
        WebhookSink(
            webhook.url,
            bearer_token=webhook.bearer_token.get_secret_value(),
            timeout_s=settings.timeout_s,
            external_url=settings.external_url,
        )
        for webhook in settings.webhooks
    )
    return (*alertmanagers, *webhooks)
