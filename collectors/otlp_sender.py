"""Sends one OTLP message to a receiver over HTTP, as an exporter would: with its token, and again when it is full."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

from collectors.dead_letter import DeadLetter
from collectors.otlp import Limits, unwrap
from collectors.otlp_signals import LOGS, TRACES
from collectors.redrive import RedriveFailed

_RETRYABLE = frozenset({429, 502, 503, 504})
"""Source: opentelemetry.io/docs/specs/otlp, "Retryable Response Codes"."""
_TIMEOUT_S = 30.0
_MOST_DELAY_S = 30.0


class OtlpHttpTarget:
    """A receiver at a base address such as `http://127.0.0.1:4318`; `context` is how TLS is spoken to it.

    Raises `ValueError` where the address is none.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
        *,
        tries: int = 5,
        limits: Limits | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http or https address")
        self._url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._context = context
        self._tries = tries
        self._limits = limits or Limits()
        self._sleep = sleep

    def close(self) -> None:
        """Nothing: each message has a connection of its own."""

    def send(self, letter: DeadLetter, is_logs: bool) -> str:
        """Send the message without its wrapping. Raises `RedriveFailed`."""
        body, is_json = unwrap(letter.raw, self._limits)
        url = self._url + (LOGS if is_logs else TRACES).path
        content_type = "application/json" if is_json else "application/x-protobuf"
        request = urllib.request.Request(url, body, self._headers | {"Content-Type": content_type})  # noqa: S310
        for left in reversed(range(self._tries)):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._context) as answer:  # noqa: S310
                    answer.read()
                return url
            except urllib.error.HTTPError as error:
                with error:
                    delay_s = _delay_s(error.headers.get("Retry-After"))
                if error.code not in _RETRYABLE or not left:
                    raise RedriveFailed(f"{url} answered {error.code} {error.reason}") from error
            except OSError as error:
                raise RedriveFailed(f"{url}: {error}") from error
            self._sleep(delay_s)
        raise AssertionError("the last try answers or raises")


def _delay_s(retry_after: str | None) -> float:
    """Seconds to wait; a date, or nothing, is one.

    >>> _delay_s("3"), _delay_s("Fri, 31 Jan 2026 00:00:00 GMT")
    (3.0, 1.0)
    """
    return min(float(retry_after), _MOST_DELAY_S) if retry_after and retry_after.isdigit() else 1.0
