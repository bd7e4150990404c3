"""What the receivers offer of OTLP: spans, and log records as far as they tell of requests.

Source: opentelemetry.io/docs/specs/otlp, "Full Success" and "Partial Success".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.otlp import Limits, decode_json, decode_logs_json, decode_logs_proto, decode_proto
from collectors.span import SpanBatch


@dataclass(slots=True, frozen=True)
class Signal:
    """One signal of OTLP: where it is sent, how it is read and how its sender is answered."""

    service: str
    """The gRPC service; its one method is `Export`."""
    path: str
    """The path of OTLP/HTTP."""
    read_proto: Callable[[bytes, Limits], SpanBatch]
    read_json: Callable[[bytes, Limits], SpanBatch]
    respond: Callable[[SpanBatch], Message]
    """Success, or partial success with the count of what was refused alone."""
    rejected: str
    """That count's name in JSON."""

    def serialize(self, batch: SpanBatch) -> bytes:
        """The response in protobuf."""
        return self.respond(batch).SerializeToString()

    def respond_json(self, batch: SpanBatch) -> str:
        """The response in JSON, whose 64-bit numbers are strings."""
        if not batch.rejected:
            return "{}"
        count = str(len(batch.rejected))
        return json.dumps({"partialSuccess": {self.rejected: count, "errorMessage": _message(batch)}})


def _message(batch: SpanBatch) -> str:
    first = batch.rejected[0]
    return f"{first.reason}: {first.detail}"


def _respond_to_spans(batch: SpanBatch) -> ExportTraceServiceResponse:
    response = ExportTraceServiceResponse()
    if batch.rejected:
        response.partial_success.rejected_spans = len(batch.rejected)
        response.partial_success.error_message = _message(batch)
    return response


def _respond_to_logs(batch: SpanBatch) -> ExportLogsServiceResponse:
    response = ExportLogsServiceResponse()
    if batch.rejected:
        response.partial_success.rejected_log_records = len(batch.rejected)
        response.partial_success.error_message = _message(batch)
    return response


TRACES = Signal(
    "opentelemetry.proto.collector.trace.v1.TraceService",
    "/v1/traces",
    decode_proto,
    decode_json,
    _respond_to_spans,
    "rejectedSpans",
)
LOGS = Signal(
    "opentelemetry.proto.collector.logs.v1.LogsService",
    "/v1/logs",
    decode_logs_proto,
    decode_logs_json,
    _respond_to_logs,
    "rejectedLogRecords",
)
SIGNALS = (TRACES, LOGS)
