"""The signals that are received, spans and log records, and how each is answered.

Source: opentelemetry.io/docs/specs/otlp, "Full Success", "Partial Success", "Failures" and "Bad Data".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.errors import Reason, Undecodable
from collectors.otlp import Limits, decode_json, decode_logs_json, decode_logs_proto, decode_proto
from collectors.span import SpanBatch

INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED = 3, 8, 14, 16
"""`google.rpc.Code`, which gRPC's own codes equal."""

TOO_MUCH = frozenset({Reason.TOO_LARGE, Reason.DECOMPRESSION_CAP, Reason.TOO_MANY_SPANS})
"""Refused for their size: 413 over HTTP, RESOURCE_EXHAUSTED (without `RetryInfo`: not to be sent again) over gRPC."""

FULL = "the receiver is full; send again"


class Signal(NamedTuple):
    """One kind of export request."""

    path: str
    service: str
    read_proto: Callable[[bytes, Limits], SpanBatch]
    read_json: Callable[[bytes, Limits], SpanBatch]
    response: type[Message]
    rejected: str

    def success(self, batch: SpanBatch) -> Message:
        """The response to a request that was taken, all of it or in part.

        >>> from collectors.span import Rejection
        >>> TRACES.success(SpanBatch((), (Rejection("bad_trace_id", "no bytes"),))).partial_success.rejected_spans
        1
        """
        made = self.response()
        if batch.rejected:
            partial = made.partial_success  # type: ignore[attr-defined]
            setattr(partial, self.rejected, len(batch.rejected))
            reasons = sorted(
                {f"{rejection.reason}: {rejection.detail}" for rejection in batch.rejected[:100]}
            )
            partial.error_message = "; ".join(reasons[:5])
        return made


TRACES = Signal(
    "/v1/traces",
    "opentelemetry.proto.collector.trace.v1.TraceService",
    decode_proto,
    decode_json,
    ExportTraceServiceResponse,
    "rejected_spans",
)
LOGS = Signal(
    "/v1/logs",
    "opentelemetry.proto.collector.logs.v1.LogsService",
    decode_logs_proto,
    decode_logs_json,
    ExportLogsServiceResponse,
    "rejected_log_records",
)
SIGNALS = (TRACES, LOGS)


def refusal(refused: Undecodable) -> Status:
    """What is wrong with a request that must not be sent again."""
    code = RESOURCE_EXHAUSTED if refused.reason in TOO_MUCH else INVALID_ARGUMENT
    status = Status(code=code, message=str(refused))
    if code == INVALID_ARGUMENT:
        violation = BadRequest.FieldViolation(description=refused.detail)
        status.details.add().Pack(BadRequest(field_violations=[violation]))
    return status


def retry_later(delay_s: float) -> Status:
    """The wish to have the same request again, so much later."""
    status = Status(code=UNAVAILABLE, message=FULL)
    retry = RetryInfo()
    retry.retry_delay.FromNanoseconds(int(delay_s * 1e9))
    status.details.add().Pack(retry)
    return status
