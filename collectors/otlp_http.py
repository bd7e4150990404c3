"""OTLP/HTTP receiver: POST /v1/traces and /v1/logs in protobuf or JSON, gzip or identity, port 4318.

Source: opentelemetry.io/docs/specs/otlp, "OTLP/HTTP". A full sink answers 503 with `Retry-After`; a request that cannot
be read answers 400 (413 where it is too large, 415 in an encoding that is not spoken), one without the token 401, all
of which senders must not retry; spans refused alone are counted in `partialSuccess`. Errors are a `google.rpc.Status`
in the request's encoding. /v1/metrics answers 404: nothing here reads them.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Self

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from pydantic import Field
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from collectors.errors import Reason, Undecodable
from collectors.events import CollectorEvents, NullEvents, count_taken
from collectors.http_server import BoundedServer
from collectors.otlp import Limits, gunzip
from collectors.otlp_signals import (
    INVALID_ARGUMENT,
    SIGNALS,
    TOO_MUCH,
    UNAUTHENTICATED,
    Signal,
    refusal,
    retry_later,
)
from collectors.receiver_security import BearerToken, ReceiverSecurity, TlsFiles
from collectors.span import SpanBatch, SpanSink

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_log = logging.getLogger(__name__)

SOURCE = "otlp_http"
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_SIGNALS = {signal.path: signal for signal in SIGNALS}


class OtlpHttpSettings(ReceiverSecurity):
    """The OTLP/HTTP receiver."""

    enabled: bool = Field(True, description="Whether to receive OTLP over HTTP.")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 for all of the host's.")
    port: int = Field(4318, ge=0, le=65535, description="Port to listen on; 0 for any free one.")
    max_message_bytes: int = Field(
        20 * 2**20, gt=0, description="Largest request body, in bytes as it comes."
    )
    workers: int = Field(16, ge=1, description="Requests that are served at the same time.")
    connections: int = Field(1_000, ge=1, description="Connections held at the same time; more are closed.")
    idle_timeout_s: float = Field(
        60.0, gt=0, description="How long a connection may be silent between requests, in seconds."
    )
    read_timeout_s: float = Field(
        10.0, gt=0, description="How long one request may take to come in, from its first byte, in seconds."
    )
    retry_delay_s: float = Field(
        1.0, gt=0, description="How long a sender is asked to wait when we are full."
    )


class OtlpHttpReceiver:
    """Receives spans and offers them to the sink; an answer of 200 means that the sink took them.

    `on_failure` hears of an exception that nobody expected, which is logged in any case; the sender is then asked to
    try again.
    Raises `OSError` on `start` where the port is taken or the TLS files are not usable.
    """

    def __init__(
        self,
        settings: OtlpHttpSettings,
        sink: SpanSink,
        events: CollectorEvents | None = None,
        *,
        on_failure: Callable[[BaseException], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._settings = settings
        self._sink = sink
        self._events = events or NullEvents()
        self._limits = limits or Limits(message_bytes=settings.max_message_bytes)
        self._on_failure = on_failure
        self._token = BearerToken(settings.bearer_token)
        self._server: BoundedServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before `start`."""
        return int(self._server.bind_addr[1]) if self._server is not None else 0

    def start(self) -> None:
        """Begin to listen, if enabled; harmless when it was started before."""
        if self._server is not None or not self._settings.enabled:
            return
        settings = self._settings
        server = BoundedServer(
            (settings.host, settings.port),
            self,
            threads=settings.workers,
            connections=settings.connections,
            idle_s=settings.idle_timeout_s,
            request_s=settings.read_timeout_s,
            tls=None if settings.tls is None else TlsFiles(settings.tls),
            on_tls_failure=partial(self._events.rejected, SOURCE, Reason.TLS_FAILED),
        )
        server.prepare()
        self._server = server
        self._thread = threading.Thread(target=self._serve, args=(server,), name=SOURCE, daemon=True)
        self._thread.start()

    def stop(self, deadline_s: float = 10.0) -> None:
        """Refuse new requests and finish those under way, for at most so many seconds."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown_timeout = deadline_s
        self._server.stop()
        self._thread.join(deadline_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """The WSGI application."""
        return self._answer(Request(environ))(environ, start_response)

    def _serve(self, server: BoundedServer) -> None:
        try:
            server.serve()
        except Exception as error:
            _log.exception("the HTTP server ended")
            if self._on_failure is not None:
                self._on_failure(error)

    def _answer(self, request: Request) -> Response:
        if not self._token.allows(request.headers.get("Authorization")):
            self._events.rejected(SOURCE, Reason.UNAUTHENTICATED)
            status = Status(code=UNAUTHENTICATED, message="the token is missing or wrong")
            challenge = {"WWW-Authenticate": 'Bearer realm="groundwatch"'}
            return _reply(request, status, HTTPStatus.UNAUTHORIZED, challenge)
        signal = _SIGNALS.get(request.path)
        if signal is None:
            return _wrong(request, HTTPStatus.NOT_FOUND, f"there is only {' and '.join(_SIGNALS)} here")
        if request.method != "POST":
            return _wrong(
                request, HTTPStatus.METHOD_NOT_ALLOWED, "POST is the only method here", {"Allow": "POST"}
            )
        try:
            batch = replace(self._decoded(request, signal), source=SOURCE)
        except Undecodable as refused:
            self._events.rejected(SOURCE, refused.reason)
            return _refuse(request, refused)
        if not self._taken(batch):
            self._events.held_back(SOURCE)
            delay_s = self._settings.retry_delay_s
            after = {"Retry-After": str(math.ceil(delay_s))}
            return _reply(request, retry_later(delay_s), HTTPStatus.SERVICE_UNAVAILABLE, after)
        count_taken(self._events, SOURCE, batch)
        return _reply(request, signal.success(batch))

    def _decoded(self, request: Request, signal: Signal) -> SpanBatch:
        read = {_PROTOBUF: signal.read_proto, _JSON: signal.read_json}.get(request.mimetype)
        if read is None:
            raise Undecodable(Reason.UNSUPPORTED_ENCODING, f"Content-Type must be {_PROTOBUF} or {_JSON}")
        encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", ""):
            raise Undecodable(Reason.UNSUPPORTED_ENCODING, "Content-Encoding must be gzip or identity")
        body = _body(request, self._limits.message_bytes)
        if encoding != "gzip":
            return read(body, self._limits)
        unpacked = gunzip(body, self._limits.decompressed_bytes)
        # The body was within its own cap; what it unpacks to is within the other.
        return read(
            unpacked, self._limits.model_copy(update={"message_bytes": self._limits.decompressed_bytes})
        )

    def _taken(self, batch: SpanBatch) -> bool:
        try:
            return not batch.spans or self._sink.offer(batch)
        except Exception as error:  # whatever it is, the sender still has the spans: have them sent again
            _log.exception("the sink failed")
            if self._on_failure is not None:
                self._on_failure(error)
            return False


def _body(request: Request, cap: int) -> bytes:
    """The whole body, whether its length was announced or it comes in chunks."""
    body = bytearray()
    try:
        while (request.content_length or 0) <= cap and (part := request.stream.read(cap + 1 - len(body))):
            body += part
    except (HTTPException, OSError, ValueError) as error:  # gone, too slow, or its chunks are none
        raise Undecodable(Reason.INTERRUPTED, f"the body could not be read: {error}") from error
    if max(request.content_length or 0, len(body)) > cap:
        raise Undecodable(Reason.TOO_LARGE, f"the cap is {cap} bytes")
    return bytes(body)


def _refuse(request: Request, refused: Undecodable) -> Response:
    if refused.reason is Reason.UNSUPPORTED_ENCODING:
        accept = {"Accept": f"{_PROTOBUF}, {_JSON}", "Accept-Encoding": "gzip, identity"}
        return _reply(request, refusal(refused), HTTPStatus.UNSUPPORTED_MEDIA_TYPE, accept)
    too_much = refused.reason in TOO_MUCH
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if too_much else HTTPStatus.BAD_REQUEST
    # The rest of a body that was not read would be taken for the next request.
    return _reply(request, refusal(refused), status, {"Connection": "close"} if too_much else {})


def _wrong(
    request: Request, http: HTTPStatus, message: str, headers: dict[str, str] | None = None
) -> Response:
    return _reply(request, Status(code=INVALID_ARGUMENT, message=message), http, headers)


def _reply(
    request: Request,
    message: Message,
    http: HTTPStatus = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
) -> Response:
    """The message in the request's encoding; JSON for what asked in neither."""
    if request.mimetype == _PROTOBUF:
        return Response(message.SerializeToString(), http, headers, content_type=_PROTOBUF)
    return Response(MessageToJson(message, indent=None), http, headers, content_type=_JSON)
