"""Log records through both receivers, sent by OpenTelemetry's own exporters and by hand."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from collectors.events import ORDINARY_LOG, NullEvents
from collectors.otlp_grpc import OtlpGrpcReceiver, OtlpGrpcSettings
from collectors.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collectors.span import Span, SpanBatch

PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Sink:
    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.refusals = 0

    def offer(self, batch: SpanBatch) -> bool:
        if self.refusals:
            self.refusals -= 1
            return False
        self.spans.extend(batch.spans)
        return True


class Counted(NullEvents):
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def received(self, source: str, spans: int) -> None:
        self.counts["received"] += spans

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        self.counts[reason] += count


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def events() -> Counted:
    return Counted()


@pytest.fixture
def grpc_receiver(sink: Sink, events: Counted) -> Iterator[OtlpGrpcReceiver]:
    with OtlpGrpcReceiver(OtlpGrpcSettings(port=0, retry_delay_s=0.1), sink, events) as receiver:
        yield receiver


@pytest.fixture
def http_receiver(sink: Sink, events: Counted) -> Iterator[OtlpHttpReceiver]:
    with OtlpHttpReceiver(OtlpHttpSettings(port=0, workers=2), sink, events) as receiver:
        yield receiver


@pytest.fixture(params=["grpc", "http"])
def exporter(request: pytest.FixtureRequest) -> LogRecordExporter:
    if request.param == "grpc":
        port = request.getfixturevalue("grpc_receiver").port
        return GrpcExporter(endpoint=f"http://127.0.0.1:{port}", insecure=True)
    port = request.getfixturevalue("http_receiver").port
    return HttpExporter(endpoint=f"http://127.0.0.1:{port}/v1/logs")


def test_what_the_sdk_sends_arrives_under_its_span(
    exporter: LogRecordExporter, sink: Sink, events: Counted
) -> None:
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("app")
    tracing = TracerProvider(shutdown_on_exit=False)
    with tracing.get_tracer("app").start_as_current_span("chat") as chat:
        logger.emit(
            LogRecord(
                timestamp=5,
                event_name="gen_ai.choice",
                body={"index": 0, "message": {"content": "5 days"}},
                attributes={"gen_ai.provider.name": "openai"},
            )
        )
        logger.emit(LogRecord(timestamp=6, body="GET /", severity_number=SeverityNumber.INFO))
    provider.shutdown()
    (span,) = sink.spans
    context = chat.get_span_context()
    assert (span.trace_id, span.parent_id) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert span.is_log
    assert span.events[0].attributes["message"] == {"content": "5 days"}
    assert events.counts == {"received": 1, ORDINARY_LOG: 1}


def wire(good: int = 1, bad: int = 0) -> ExportLogsServiceRequest:
    made = ExportLogsServiceRequest()
    scope = made.resource_logs.add().scope_logs.add()
    for number in range(good):
        scope.log_records.add(
            time_unix_nano=number + 1, trace_id=b"\1" * 16, span_id=b"\2" * 8, event_name="gen_ai.choice"
        )
    for _ in range(bad):
        scope.log_records.add(time_unix_nano=1, trace_id=b"\1" * 3, event_name="gen_ai.choice")
    return made


def test_refused_records_are_counted_in_the_answer_over_grpc(
    grpc_receiver: OtlpGrpcReceiver, sink: Sink, events: Counted
) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{grpc_receiver.port}") as channel:
        stub = LogsServiceStub(channel)  # type: ignore[no-untyped-call]
        response = stub.Export(wire(good=1, bad=2))
        assert response.partial_success.rejected_log_records == 2
        assert "bad_trace_id" in response.partial_success.error_message
        assert stub.Export(wire()) == ExportLogsServiceResponse()
        sink.refusals = 1
        with pytest.raises(grpc.RpcError) as refused:
            stub.Export(wire())
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert len(sink.spans) == 2
    assert events.counts == {"received": 2, "bad_trace_id": 2}


@pytest.fixture
def post(http_receiver: OtlpHttpReceiver) -> Any:
    def send(body: bytes, content_type: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", http_receiver.port, timeout=5)
        try:
            connection.request("POST", "/v1/logs", body, {"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    return send


def test_refused_records_are_counted_in_the_answer_over_http(post: Any, sink: Sink) -> None:
    status, body = post(wire(good=1, bad=2).SerializeToString(), PROTOBUF)
    assert status == 200
    assert ExportLogsServiceResponse.FromString(body).partial_success.rejected_log_records == 2
    record = {"timeUnixNano": "1", "traceId": "xyz", "eventName": "gen_ai.choice"}
    raw = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
    status, body = post(raw, JSON)
    assert (status, json.loads(body)["partialSuccess"]["rejectedLogRecords"]) == (200, "1")
    assert post(b"{}", JSON) == (200, b"{}")
    assert len(sink.spans) == 1


def test_what_is_no_request_for_logs_is_not_to_be_sent_again(post: Any) -> None:
    for body, content_type in ((b"welcome techworld", PROTOBUF), (b'{"resourceSpans": []}', JSON)):
        status, _ = post(body, content_type)
        assert status == 400
