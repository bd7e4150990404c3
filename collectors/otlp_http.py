"""OTLP/HTTP receiver: POST /v1/traces and /v1/logs in protobuf or JSON, gzip or identity, port 4318.

Source: opentelemetry.io/docs/specs/otlp, "OTLP/HTTP". A full sink answers 503 with `Retry-After`; a request that cannot
be read answers 400 (413 where it is too large, 415 in an encoding that is not spoken), which senders must not retry;
spans refused alone are counted in `partialSuccess`. Errors are a `google.rpc.Status` in the request's encoding.
/v1/metrics answers 404: nothing here reads it.
"""

from __future__ import annotations

import json
import logging
import math
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cheroot.wsgi import Server
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from collectors.errors import Reason, Undecodable
from collectors.events import CollectorEvents, NullEvents, count_taken
from collectors.otlp import Limits, gunzip
from collectors.otlp_signals import SIGNALS, Signal
from collectors.span import SpanBatch, SpanSink

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_log = logging.getLogger(__name__)

SOURCE = "otlp_http"
_SIGNALS = {signal.path: signal for signal in SIGNALS}
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_TOO_MUCH = frozenset({Reason.TOO_LARGE, Reason.DECOMPRESSION_CAP, Reason.TOO_MANY_SPANS})
_INVALID_ARGUMENT, _UNAVAILABLE = 3, 14
"""`google.rpc.Code`."""


class OtlpHttpSettings(BaseModel):
    """The OTLP/HTTP receiver."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(True, description="Whether to receive OTLP over HTTP.")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 for all of the host's.")
    port: int = Field(4318, ge=0, le=65535, description="Port to listen on; 0 for any free one.")
    max_message_bytes: int = Field(
        16 * 2**20, gt=0, description="Largest request body, in bytes as it comes."
    )
    workers: int = Field(16, ge=1, description="Connections that are served at the same time.")
    read_timeout_s: float = Field(
        10.0, gt=0, description="How long a silent connection is waited for, in seconds."
    )
    retry_delay_s: float = Field(
        1.0, gt=0, description="How long a sender is asked to wait when we are full."
    )


class _Server(Server):
    """Writes its errors to the log, not to standard error, and leaves no socket behind where the port is taken."""

    @classmethod
    def bind_socket(cls, socket_: socket.socket, bind_addr: tuple[str, int]) -> socket.socket:
        try:
            bound: socket.socket = super().bind_socket(socket_, bind_addr)  # type: ignore[no-untyped-call]
        except OSError:
            socket_.close()
            raise
        return bound

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        _log.log(level, "%s", msg, exc_info=traceback)


class OtlpHttpReceiver:
    """Receives spans and offers them to the sink; an answer of 200 means that the sink took them.

    `on_failure` hears of an exception that nobody expected, which is logged in any case; the sender is then asked to
    try again.
    Raises `OSError` on `start` where the port is taken.
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
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before `start`."""
        return int(self._server.bind_addr[1]) if self._server is not None else 0

    def start(self) -> None:
        """Begin to listen, if enabled; harmless when it was started before."""
        if self._server is not None or not self._settings.enabled:
            return
        address = (self._settings.host, self._settings.port)
        server = _Server(address, self, numthreads=self._settings.workers, server_name="groundwatch")
        server.timeout = self._settings.read_timeout_s
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

    def _serve(self, server: Server) -> None:
        try:
            server.serve()
        except Exception as error:
            _log.exception("the HTTP server ended")
            if self._on_failure is not None:
                self._on_failure(error)

    def _answer(self, request: Request) -> Response:
        signal = _SIGNALS.get(request.path)
        if signal is None:
            return _failure(request, HTTPStatus.NOT_FOUND, f"there is only {' and '.join(_SIGNALS)} here")
        if request.method != "POST":
            failure = _failure(request, HTTPStatus.METHOD_NOT_ALLOWED, "POST is the only method here")
            failure.headers["Allow"] = "POST"
            return failure
        try:
            batch = replace(self._decoded(request, signal), source=SOURCE)
        except Undecodable as refused:
            self._events.rejected(SOURCE, refused.reason)
            return _failure(request, _status(refused.reason), str(refused))
        if not self._taken(batch):
            self._events.held_back(SOURCE)
            failure = _failure(request, HTTPStatus.SERVICE_UNAVAILABLE, "the receiver is full; send again")
            failure.headers["Retry-After"] = str(math.ceil(self._settings.retry_delay_s))
            return failure
        count_taken(self._events, SOURCE, batch)
        return _success(request, signal, batch)

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
    except (HTTPException, OSError, ValueError) as error:  # the sender went away, or its chunks are none
        raise Undecodable(Reason.TRUNCATED, f"the body could not be read: {error}") from error
    if max(request.content_length or 0, len(body)) > cap:
        raise Undecodable(Reason.TOO_LARGE, f"the cap is {cap} bytes")
    return bytes(body)


def _status(reason: Reason) -> HTTPStatus:
    if reason is Reason.UNSUPPORTED_ENCODING:
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE if reason in _TOO_MUCH else HTTPStatus.BAD_REQUEST


def _success(request: Request, signal: Signal, batch: SpanBatch) -> Response:
    if request.mimetype == _JSON:
        return Response(signal.respond_json(batch), content_type=_JSON)
    return Response(signal.serialize(batch), content_type=_PROTOBUF)


def _failure(request: Request, status: HTTPStatus, message: str) -> Response:
    code = _UNAVAILABLE if status is HTTPStatus.SERVICE_UNAVAILABLE else _INVALID_ARGUMENT
    if request.mimetype == _PROTOBUF:
        body = Status(code=code, message=message).SerializeToString()
        return Response(body, status=status, content_type=_PROTOBUF)
    return Response(json.dumps({"code": code, "message": message}), status=status, content_type=_JSON)
