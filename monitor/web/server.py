"""The HTTP server of the status page and the metrics: a WSGI application on cheroot's threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, Field

from collectors.http_server import BoundedServer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_LOG = logging.getLogger(__name__)
_THREADS = 6
_CONNECTIONS = 100
_IDLE_S, _REQUEST_S = 10.0, 10.0
_MOST_BODY_BYTES = 1024 * 1024


class WebSettings(BaseModel):
    """Where the status page and the metrics stand."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(True, description="Serve the status page, the metrics and the health checks.")
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; 0.0.0.0 for all.")
    port: int = Field(9464, ge=0, le=65535, description="TCP port to listen on; 0 takes any free one.")


class WebServer:
    """Serves `app` until stopped. Starting twice, stopping twice and stopping before start are harmless.

    `start` returns once the port is bound, and raises OSError where it cannot be. A stopped server may start
    again.
    """

    def __init__(self, settings: WebSettings, app: WSGIApplication) -> None:
        self._settings = settings
        self._app = app
        self._server: BoundedServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port in use while it serves; else the one asked for."""
        return int(self._server.bind_addr[1]) if self._server is not None else self._settings.port

    def start(self) -> None:
        """Bind the port and serve from a thread of its own; nothing where the settings switch it off."""
        if self._server is not None or not self._settings.enabled:
            return
        server = BoundedServer(
            (self._settings.host, self._settings.port),
            self._app,
            threads=_THREADS,
            connections=_CONNECTIONS,
            idle_s=_IDLE_S,
            request_s=_REQUEST_S,
            tls=None,
            on_tls_failure=lambda: None,
        )
        server.max_request_body_size = _MOST_BODY_BYTES
        server.prepare()
        self._server = server
        self._thread = threading.Thread(target=server.serve, name="web", daemon=True)
        self._thread.start()
        _LOG.info("status page at http://%s:%d/", self._settings.host, self.port)

    def stop(self, deadline_s: float = 10.0) -> None:
        """Let requests in flight end, then close; returns after `deadline_s` at the latest."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        self._server = self._thread = None
        server.shutdown_timeout = max(0.1, deadline_s / 2)
        # cheroot's own stop waits without bound for a worker that does not return.
        stopping = _daemon(server.stop)
        stopping.join(deadline_s)
        thread.join(0.0 if stopping.is_alive() else 1.0)
        if stopping.is_alive():
            _LOG.error("the web server did not end within %.1f s", deadline_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _daemon(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, name="web-stop", daemon=True)
    thread.start()
    return thread
