"""OTLP/gRPC receiver: `Export` of the trace and the logs service, port 4317.

Source: opentelemetry.io/docs/specs/otlp, "OTLP/gRPC". A full sink, and more requests than may wait, answer UNAVAILABLE
with `RetryInfo`, which exporters retry; a request that cannot be read answers INVALID_ARGUMENT, one that is too large
RESOURCE_EXHAUSTED and one without the token UNAUTHENTICATED, which they must not; spans refused alone are counted in
`partial_success`. Other services (metrics, health, reflection) are not offered and answer UNIMPLEMENTED.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from pydantic import Field

from collectors.errors import Reason, Undecodable
from collectors.events import CollectorEvents, NullEvents, count_taken
from collectors.otlp import Limits
from collectors.otlp_signals import SIGNALS, UNAUTHENTICATED, Signal, refusal, retry_later
from collectors.receiver_security import BearerToken, ReceiverSecurity, TlsFiles, TlsSettings
from collectors.span import SpanBatch, SpanSink

_log = logging.getLogger(__name__)

SOURCE = "otlp_grpc"
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_PING_MS, _PONG_MS = 60_000, 20_000
"""How long a connection may be silent before it is asked whether it lives, and how soon it must say so."""


class OtlpGrpcSettings(ReceiverSecurity):
    """The OTLP/gRPC receiver."""

    enabled: bool = Field(True, description="Whether to receive OTLP over gRPC.")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 for all of the host's.")
    port: int = Field(4317, ge=0, le=65535, description="Port to listen on; 0 for any free one.")
    max_message_bytes: int = Field(16 * 2**20, gt=0, description="Largest request, in bytes, once unpacked.")
    workers: int = Field(4, ge=1, description="Requests that are decoded at the same time.")
    waiting: int = Field(
        64, ge=1, description="Requests that may wait for that; more are asked to try again."
    )
    read_timeout_s: float = Field(
        10.0, gt=0, description="How long one request may take to come in, in seconds."
    )
    retry_delay_s: float = Field(
        1.0, gt=0, description="How long a sender is asked to wait when we are full."
    )


class OtlpGrpcReceiver:
    """Receives spans and offers them to the sink; an answer of success means that the sink took them.

    `on_failure` hears of an exception that nobody expected, which is logged in any case; the sender is then asked to
    try again.
    Raises `OSError` on `start` where the port is taken or the TLS files are not usable.
    """

    def __init__(
        self,
        settings: OtlpGrpcSettings,
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
        self._server: grpc.Server | None = None
        self._workers = _Workers(settings.workers, SOURCE)
        self._turning_away = _Workers(1, f"{SOURCE}_away")
        self._slow = _SlowSenders(settings.read_timeout_s)
        self._port = 0

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before `start`."""
        return self._port

    def start(self) -> None:
        """Begin to listen, if enabled; harmless when it was started before."""
        if self._server is not None or not self._settings.enabled:
            return
        server = grpc.server(
            self._workers,
            options=[
                ("grpc.max_receive_message_length", self._settings.max_message_bytes),
                ("grpc.so_reuseport", 0),  # else a second sidecar would silently take half of the traffic
                ("grpc.keepalive_time_ms", _PING_MS),
                ("grpc.keepalive_timeout_ms", _PONG_MS),
                ("grpc.http2.min_ping_interval_without_data_ms", _PONG_MS),
            ],
        )
        server.add_generic_rpc_handlers([_Door(self)])
        address = f"{self._settings.host}:{self._settings.port}"
        try:
            if self._settings.tls is None:
                self._port = server.add_insecure_port(address)
            else:
                self._port = server.add_secure_port(address, _credentials(TlsFiles(self._settings.tls)))
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from error
        self._slow.start()
        server.start()
        self._server = server

    def stop(self, deadline_s: float = 10.0) -> None:
        """Refuse new requests and finish those under way, for at most so many seconds."""
        if self._server is not None:
            self._server.stop(deadline_s).wait(deadline_s)
        self._slow.stop()
        for pool in (self._workers, self._turning_away):
            pool.shutdown(wait=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def admit(self, signal: Signal, authorization: str | bytes | None) -> grpc.RpcMethodHandler:
        """What answers a request of which only the head is here yet."""
        if not self._token.allows(authorization):
            status = Status(code=UNAUTHENTICATED, message="the token is missing or wrong")
            return self._turned_away(status, partial(self._events.rejected, SOURCE, Reason.UNAUTHENTICATED))
        if self._workers.under_way >= self._settings.workers + self._settings.waiting:
            status = retry_later(self._settings.retry_delay_s)
            return self._turned_away(status, partial(self._events.held_back, SOURCE))
        # Without a deserializer the handler gets bytes: what is no request is then ours to answer and to count.
        # As a stream, of which one message is read, it also gets them under our own deadline.
        return grpc.stream_unary_rpc_method_handler(
            partial(self._export, signal), response_serializer=_serialized
        )

    def _turned_away(self, status: Status, count: Callable[[], None]) -> grpc.RpcMethodHandler:
        """Ends the call before its body is read, in a thread that no body can hold up."""

        def turn_away(_requests: Iterator[bytes], context: grpc.ServicerContext) -> NoReturn:
            count()
            _end(context, status)

        turn_away.experimental_thread_pool = self._turning_away  # type: ignore[attr-defined]
        return grpc.stream_unary_rpc_method_handler(turn_away)

    def _export(self, signal: Signal, requests: Iterator[bytes], context: grpc.ServicerContext) -> Message:
        try:
            batch = replace(signal.read_proto(self._message(requests, context), self._limits), source=SOURCE)
        except Undecodable as refused:
            self._events.rejected(SOURCE, refused.reason)
            _end(context, refusal(refused))
        if not self._taken(batch):
            self._events.held_back(SOURCE)
            _end(context, retry_later(self._settings.retry_delay_s))
        count_taken(self._events, SOURCE, batch)
        return signal.success(batch)

    def _message(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        try:
            with self._slow.watched(context):
                return next(requests)
        except Exception as error:  # the end, or gRPC's own of no public type: the call is over
            raise Undecodable(Reason.INTERRUPTED, "the call ended before its message had come") from error

    def _taken(self, batch: SpanBatch) -> bool:
        try:
            return not batch.spans or self._sink.offer(batch)
        except Exception as error:  # whatever it is, the sender still has the spans: have them sent again
            _log.exception("the sink failed")
            if self._on_failure is not None:
                self._on_failure(error)
            return False


class _Door(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Knows which methods there are and looks at each call's head before anything of its body is read."""

    def __init__(self, receiver: OtlpGrpcReceiver) -> None:
        self._receiver = receiver
        self._methods = {f"/{signal.service}/Export": signal for signal in SIGNALS}

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        signal = self._methods.get(call.method)
        if signal is None:
            return None
        return self._receiver.admit(signal, dict(call.invocation_metadata or ()).get("authorization"))


class _Workers(ThreadPoolExecutor):
    """A pool that knows how many calls it runs or holds."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._count = 0
        self._counting = threading.Lock()

    @property
    def under_way(self) -> int:
        return self._count

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._counting:
            self._count += 1
        try:
            call = super().submit(*args, **kwargs)
        except BaseException:
            self._done()
            raise
        call.add_done_callback(self._done)
        return call

    def _done(self, _call: object = None) -> None:
        with self._counting:
            self._count -= 1


class _SlowSenders:
    """Cancels the calls whose message has not come in time, which gRPC itself waits for without end."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._reading: dict[grpc.ServicerContext, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"{SOURCE}_slow", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    @contextmanager
    def watched(self, context: grpc.ServicerContext) -> Iterator[None]:
        self._reading[context] = time.monotonic() + self._limit_s
        try:
            yield
        finally:
            del self._reading[context]

    def _look(self) -> None:
        while not self._stopping.wait(self._limit_s / 4):
            now = time.monotonic()
            for context, ends in list(self._reading.items()):
                if now > ends:
                    context.cancel()


def _credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Asked for at every handshake, so that renewed certificates are used without a restart."""
    return grpc.dynamic_ssl_server_credentials(
        _certificates(files.settings),
        lambda: _certificates(files.settings) if files.renewed() else None,
        require_client_authentication=files.settings.client_ca is not None,
    )


def _certificates(settings: TlsSettings) -> grpc.ServerCertificateConfiguration:
    pair = (settings.key.read_bytes(), settings.certificate.read_bytes())
    authorities = None if settings.client_ca is None else settings.client_ca.read_bytes()
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=authorities)


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _end(context: grpc.ServicerContext, status: Status) -> NoReturn:
    """End the call, by an exception of gRPC's own, with this status and its details."""
    trailers = [("grpc-status-details-bin", status.SerializeToString())]
    # OpenTelemetry's Python exporter looks for the delay here instead.
    retries = (detail for detail in status.details if detail.Is(RetryInfo.DESCRIPTOR))
    trailers.extend(("google.rpc.retryinfo-bin", detail.value) for detail in retries)
    context.set_trailing_metadata(trailers)
    context.abort(_CODES[status.code], status.message)
    raise AssertionError("abort raises")
