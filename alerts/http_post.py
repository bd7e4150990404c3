"""One JSON POST over HTTP or HTTPS, with a time-out, no redirects and no proxies from the environment."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import urlsplit


class FailureReason(StrEnum):
    """Why a delivery failed; a closed set, safe as a metric label."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BAD_REPLY = "bad_reply"
    """What answered does not speak HTTP."""
    HTTP_3XX = "http_3xx"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    REFUSED = "refused"
    """The receiver finds fault with the content: sending the same again is of no use."""
    QUEUE_FULL = "queue_full"
    ERROR = "error"
    """The sink itself broke."""


class DeliveryError(Exception):
    """A delivery that failed; `reason` says whether another try may help."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason

    @property
    def retryable(self) -> bool:
        """Whether the same content may be taken later."""
        return self.reason is not FailureReason.REFUSED


_REFUSED = frozenset({400, 413, 422})
_LONGEST_REPLY = 2000


def post_json(url: str, body: object, timeout_s: float, headers: Mapping[str, str] | None = None) -> None:
    """POST `body` as JSON to `url`. Raises DeliveryError unless the answer is 2xx.

    A wrong path, a missing token or a redirect are mended by people, so that another try may help; 400, 413
    and 422 speak of the content.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout_s)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    payload = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    try:
        connection.request("POST", target, payload, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        reply = response.read(_LONGEST_REPLY)
    except TimeoutError as error:
        raise DeliveryError(FailureReason.TIMEOUT, f"no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise DeliveryError(FailureReason.UNREACHABLE, str(error)) from error
    except http.client.HTTPException as error:
        raise DeliveryError(FailureReason.BAD_REPLY, repr(error)) from error
    finally:
        connection.close()
    if not 200 <= response.status < 300:
        raise DeliveryError(_reason(response.status), f"{response.status} {reply.decode(errors='replace')}")


def _reason(status: int) -> FailureReason:
    if status in _REFUSED:
        return FailureReason.REFUSED
    if status >= 500:
        return FailureReason.HTTP_5XX
    return FailureReason.HTTP_4XX if status >= 400 else FailureReason.HTTP_3XX
