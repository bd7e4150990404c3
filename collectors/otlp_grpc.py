"""OTLP/gRPC receiver: `Export` of the `TraceService` and the `LogsService`, port 4317.

Source: opentelemetry.io/docs/specs/otlp, "OTLP/gRPC". A full sink answers UNAVAILABLE with `RetryInfo`, which exporters
retry; a request that cannot be read answers INVALID_ARGUMENT, which they must not; spans refused alone are counted in
`partial_success`. Other services (metrics, health, reflection) are not offered and answer UNIMPLEMENTED.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field

from collectors.errors import Reason, Undecodable
from collectors.events import CollectorEvents, NullEvents, count_taken
from collectors.otlp import Limits
from collectors.otlp_signals import SIGNALS, Signal
from collectors.span import SpanBatch, SpanSink

_log = logging.getLogger(__name__)

SOURCE = "otlp_grpc"
_TOO_MUCH = frozenset({Reason.TOO_LARGE, Reason.TOO_MANY_SPANS})


class OtlpGrpcSettings(BaseModel):
    """The OTLP/gRPC receiver."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(True, description="Whether to receive OTLP over gRPC.")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 for all of the host's.")
    port: int = Field(4317, ge=0, le=65535, description="Port to listen on; 0 for any free one.")
    max_message_bytes: int = Field(16 * 2**20, gt=0, description="Largest request, in bytes, once unpacked.")
    workers: int = Field(4, ge=1, description="Requests that are decoded at the same time.")
    retry_delay_s: float = Field(
        1.0, gt=0, description="How long a sender is asked to wait when we are full."
    )


class OtlpGrpcReceiver:
    """Receives spans and offers them to the sink; an answer of success means that the sink took them.

    `on_failure` hears of an exception that nobody expected, which is logged in any case; the sender is then asked to
    try again.
    Raises `OSError` on `start` where the port is taken.
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
        self._server: grpc.Server | None = None
        self._workers: ThreadPoolExecutor | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before `start`."""
        return self._port

    def start(self) -> None:
        """Begin to listen, if enabled; harmless when it was started before."""
        if self._server is not None or not self._settings.enabled:
            return
        self._workers = ThreadPoolExecutor(self._settings.workers, thread_name_prefix=SOURCE)
        server = grpc.server(
            self._workers,
            options=[
                ("grpc.max_receive_message_length", self._settings.max_message_bytes),
                ("grpc.so_reuseport", 0),  # else a second sidecar would silently take half of the traffic
            ],
        )
        # Without a deserializer the handler gets bytes: what is no request is then ours to answer and to count.
        for signal in SIGNALS:
            export = grpc.unary_unary_rpc_method_handler(
                partial(self._export, signal), response_serializer=signal.serialize
            )
            server.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(signal.service, {"Export": export})]
            )
        address = f"{self._settings.host}:{self._settings.port}"
        try:
            self._port = server.add_insecure_port(address)
        except RuntimeError as error:
            self._workers.shutdown()
            raise OSError(f"cannot listen on {address}: {error}") from error
        server.start()
        self._server = server

    def stop(self, deadline_s: float = 10.0) -> None:
        """Refuse new requests and finish those under way, for at most so many seconds."""
        if self._server is not None:
            self._server.stop(deadline_s).wait(deadline_s)
        if self._workers is not None:
            self._workers.shutdown(wait=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _export(self, signal: Signal, raw: bytes, context: grpc.ServicerContext) -> SpanBatch:
        try:
            batch = replace(signal.read_proto(raw, self._limits), source=SOURCE)
        except Undecodable as refused:
            self._events.rejected(SOURCE, refused.reason)
            _refuse(context, refused)
        if not self._taken(batch):
            self._events.held_back(SOURCE)
            self._hold_back(context)
        count_taken(self._events, SOURCE, batch)
        return batch

    def _taken(self, batch: SpanBatch) -> bool:
        try:
            return not batch.spans or self._sink.offer(batch)
        except Exception as error:  # whatever it is, the sender still has the spans: have them sent again
            _log.exception("the sink failed")
            if self._on_failure is not None:
                self._on_failure(error)
            return False

    def _hold_back(self, context: grpc.ServicerContext) -> None:
        """End the call, by an exception of gRPC's own, with the wish to have it again later."""
        retry = RetryInfo()
        retry.retry_delay.FromNanoseconds(int(self._settings.retry_delay_s * 1e9))
        detail = AnyMessage()
        detail.Pack(retry)
        message = "the receiver is full; send again"
        status = Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message=message, details=[detail])
        context.set_trailing_metadata(
            [
                ("grpc-status-details-bin", status.SerializeToString()),
                # OpenTelemetry's Python exporter looks for the delay here instead.
                ("google.rpc.retryinfo-bin", retry.SerializeToString()),
            ]
        )
        context.abort(grpc.StatusCode.UNAVAILABLE, message)


def _refuse(context: grpc.ServicerContext, refused: Undecodable) -> None:
    """End the call, by an exception of gRPC's own, with a status that says not to send it again."""
    # RESOURCE_EXHAUSTED without `RetryInfo` says that sending the same again is of no use.
    code = (
        grpc.StatusCode.RESOURCE_EXHAUSTED
        if refused.reason in _TOO_MUCH
        else grpc.StatusCode.INVALID_ARGUMENT
    )
    context.abort(code, str(refused))
