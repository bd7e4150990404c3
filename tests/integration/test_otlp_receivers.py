"""OpenTelemetry's own exporters, and raw requests, into the receivers."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import Status as SpanStatus
from opentelemetry.trace import StatusCode as SpanStatusCode

from collectors.events import NullEvents
from collectors.otlp_grpc import OtlpGrpcReceiver, OtlpGrpcSettings
from collectors.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collectors.span import Span, SpanBatch, StatusCode

PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Sink:
    """Takes batches, after it has said no so many times."""

    def __init__(self) -> None:
        self.refusals = 0
        self.batches: list[SpanBatch] = []
        self.fault: Exception | None = None
        self.hold = threading.Event()
        self.hold.set()

    def offer(self, batch: SpanBatch) -> bool:
        self.hold.wait(10)
        if self.fault is not None:
            raise self.fault
        if self.refusals:
            self.refusals -= 1
            return False
        self.batches.append(batch)
        return True

    @property
    def spans(self) -> list[Span]:
        return [span for batch in self.batches for span in batch.spans]


class Counted(NullEvents):
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def received(self, source: str, spans: int) -> None:
        self.counts[f"{source} received"] += spans

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        self.counts[f"{source} {reason}"] += count

    def held_back(self, source: str) -> None:
        self.counts[f"{source} held back"] += 1


class Wiring:
    """What the receivers are wired to in the test that runs: they live as long as the module, since one takes half a
    second to stop."""

    def __init__(self) -> None:
        self.sink = Sink()
        self.events = Counted()
        self.failures: list[BaseException] = []

    def offer(self, batch: SpanBatch) -> bool:
        return self.sink.offer(batch)

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)


class WiredEvents(NullEvents):
    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def received(self, source: str, spans: int) -> None:
        self._wiring.events.received(source, spans)

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        self._wiring.events.rejected(source, reason, count)

    def held_back(self, source: str) -> None:
        self._wiring.events.held_back(source)


@pytest.fixture(scope="module")
def wiring() -> Wiring:
    return Wiring()


@pytest.fixture
def sink(wiring: Wiring) -> Sink:
    wiring.sink = Sink()
    return wiring.sink


@pytest.fixture(autouse=True)
def events(wiring: Wiring) -> Counted:
    wiring.events = Counted()
    return wiring.events


@pytest.fixture
def failures(wiring: Wiring) -> list[BaseException]:
    wiring.failures = []
    return wiring.failures


@pytest.fixture(scope="module")
def grpc_receiver(wiring: Wiring) -> Iterator[OtlpGrpcReceiver]:
    settings = OtlpGrpcSettings(port=0, retry_delay_s=0.1, max_message_bytes=100_000)
    with OtlpGrpcReceiver(settings, wiring, WiredEvents(wiring), on_failure=wiring.failed) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def http_receiver(wiring: Wiring) -> Iterator[OtlpHttpReceiver]:
    settings = OtlpHttpSettings(
        port=0, retry_delay_s=0.1, max_message_bytes=100_000, read_timeout_s=1, workers=4
    )
    with OtlpHttpReceiver(settings, wiring, WiredEvents(wiring), on_failure=wiring.failed) as receiver:
        yield receiver


@pytest.fixture(params=["grpc", "grpc gzip", "http", "http gzip"])
def exporter(
    request: pytest.FixtureRequest, grpc_receiver: OtlpGrpcReceiver, http_receiver: OtlpHttpReceiver
) -> SpanExporter:
    if request.param.startswith("grpc"):
        compression = grpc.Compression.Gzip if "gzip" in request.param else grpc.Compression.NoCompression
        endpoint = f"http://127.0.0.1:{grpc_receiver.port}"
        return GrpcExporter(endpoint=endpoint, insecure=True, compression=compression)
    compression = Compression.Gzip if "gzip" in request.param else Compression.NoCompression
    return HttpExporter(f"http://127.0.0.1:{http_receiver.port}/v1/traces", compression=compression)


def ask(exporter: SpanExporter, *questions: str) -> None:
    """What an instrumented service does: one trace of two spans per question, exported as each ends."""
    provider = TracerProvider(resource=Resource({"service.name": "kb-assistant"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("openinference.instrumentation.test", "1.2")
    for question in questions:
        with tracer.start_as_current_span("chain", attributes={"input.value": question}) as root:
            with tracer.start_as_current_span("retrieve") as span:
                span.add_event("retrieved", {"ids": ["kb-1", "kb-2"], "score": 0.5, "hit": True, "k": 2})
            root.set_status(SpanStatus(SpanStatusCode.ERROR, "timeout"))
    provider.shutdown()


def test_the_sdk_exports_into_a_receiver(exporter: SpanExporter, sink: Sink, events: Counted) -> None:
    ask(exporter, "How long do refunds take?")
    retrieve, chain = sink.spans
    assert (chain.name, chain.attributes) == ("chain", {"input.value": "How long do refunds take?"})
    assert (chain.status, chain.status_message) == (StatusCode.ERROR, "timeout")
    assert chain.resource["service.name"] == "kb-assistant"
    assert (chain.scope.name, chain.scope.version) == ("openinference.instrumentation.test", "1.2")
    assert retrieve.parent_id == chain.span_id
    assert retrieve.trace_id == chain.trace_id
    assert chain.parent_id is None
    assert retrieve.events[0].attributes == {"ids": ["kb-1", "kb-2"], "score": 0.5, "hit": True, "k": 2}
    assert chain.start_ns <= retrieve.start_ns <= retrieve.end_ns <= chain.end_ns
    (source,) = {batch.source for batch in sink.batches}
    assert events.counts == {f"{source} received": 2}


def test_back_pressure_loses_nothing(exporter: SpanExporter, sink: Sink, events: Counted) -> None:
    sink.refusals = 2
    ask(exporter, "a", "b")
    assert sorted(span.name for span in sink.spans) == ["chain", "chain", "retrieve", "retrieve"]
    (source,) = {batch.source for batch in sink.batches}
    assert events.counts == {f"{source} received": 4, f"{source} held back": 2}


def test_a_sink_that_fails_is_reported_and_the_spans_are_sent_again(
    exporter: SpanExporter, sink: Sink, failures: list[BaseException]
) -> None:
    sink.fault = ValueError("defect")
    threading.Timer(0.3, lambda: setattr(sink, "fault", None)).start()
    ask(exporter, "a")
    assert {type(error) for error in failures} == {ValueError}
    assert sorted(span.name for span in sink.spans) == ["chain", "retrieve"]


def wire(*names: str, bad: int = 0) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    for number, name in enumerate(names, start=1):
        scope.spans.add(trace_id=b"\1" * 16, span_id=number.to_bytes(8, "big"), name=name)
    for _ in range(bad):
        scope.spans.add(name="bad")
    return made


class TestGrpc:
    @pytest.fixture
    def channel(self, grpc_receiver: OtlpGrpcReceiver) -> Iterator[grpc.Channel]:
        with grpc.insecure_channel(f"127.0.0.1:{grpc_receiver.port}") as channel:
            yield channel

    @pytest.fixture
    def export(self, channel: grpc.Channel) -> Any:
        return channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")

    def test_refused_spans_are_counted_in_the_answer(
        self, channel: grpc.Channel, sink: Sink, events: Counted
    ) -> None:
        response = TraceServiceStub(channel).Export(wire("good", bad=3))
        assert response.partial_success.rejected_spans == 3
        assert "bad_trace_id" in response.partial_success.error_message
        assert [span.name for span in sink.spans] == ["good"]
        assert events.counts == {"otlp_grpc received": 1, "otlp_grpc bad_trace_id": 3}

    def test_full_success_says_nothing(self, channel: grpc.Channel) -> None:
        assert TraceServiceStub(channel).Export(wire("good")) == ExportTraceServiceResponse()
        assert TraceServiceStub(channel).Export(wire()) == ExportTraceServiceResponse()

    def test_a_full_sink_asks_to_be_tried_again(self, export: Any, sink: Sink) -> None:
        sink.refusals = 1
        with pytest.raises(grpc.RpcError) as refused:
            export(wire("a").SerializeToString())
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        trailer = dict(refused.value.trailing_metadata())
        status = Status.FromString(trailer["grpc-status-details-bin"])
        assert status.code == grpc.StatusCode.UNAVAILABLE.value[0]
        retry = RetryInfo()
        assert status.details[0].Unpack(retry)
        assert retry.retry_delay.ToMilliseconds() == 100

    @pytest.mark.parametrize("raw", [b"welcome techworld", b"\x0a\x05abc"])
    def test_what_cannot_be_read_is_not_to_be_sent_again(
        self, export: Any, raw: bytes, events: Counted
    ) -> None:
        with pytest.raises(grpc.RpcError) as refused:
            export(raw)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "google.rpc.retryinfo-bin" not in dict(refused.value.trailing_metadata())
        assert sum(events.counts.values()) == 1

    @pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
    def test_a_request_over_the_cap_is_refused_packed_or_not(
        self, export: Any, compression: grpc.Compression, sink: Sink
    ) -> None:
        with pytest.raises(grpc.RpcError) as refused:
            export(wire("x" * 200_000).SerializeToString(), compression=compression)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert sink.spans == []

    def test_other_services_are_not_offered(self, channel: grpc.Channel) -> None:
        for method in (
            "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            "/grpc.health.v1.Health/Check",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        ):
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(method)(b"")
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


class TestHttp:
    @pytest.fixture
    def post(self, http_receiver: OtlpHttpReceiver) -> Any:
        def send(
            body: bytes,
            content_type: str = PROTOBUF,
            method: str = "POST",
            path: str = "/v1/traces",
            **headers: str,
        ) -> tuple[http.client.HTTPResponse, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", http_receiver.port, timeout=5)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            try:
                connection.request(method, path, body, {"Content-Type": content_type} | named)
                response = connection.getresponse()
                return response, response.read()
            finally:
                connection.close()

        return send

    def test_protobuf(self, post: Any, sink: Sink) -> None:
        response, body = post(wire("good", bad=2).SerializeToString())
        assert (response.status, response.headers["Content-Type"]) == (200, PROTOBUF)
        assert ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans == 2
        assert [span.name for span in sink.spans] == ["good"]
        assert post(wire("good").SerializeToString())[1] == b""

    def test_json(self, post: Any, sink: Sink) -> None:
        span = {"traceId": "01" * 16, "spanId": "02" * 8, "name": "good"}
        body = {"resourceSpans": [{"scopeSpans": [{"spans": [span, {"name": "bad"}]}]}]}
        response, answer = post(json.dumps(body).encode(), f"{JSON}; charset=utf-8")
        assert (response.status, response.headers["Content-Type"]) == (200, JSON)
        partial = json.loads(answer)["partialSuccess"]
        assert partial["rejectedSpans"] == "1"
        assert "bad_trace_id" in partial["errorMessage"]
        assert [span.name for span in sink.spans] == ["good"]
        assert json.loads(post(b"{}", JSON)[1]) == {}

    @pytest.mark.parametrize("body", [gzip.compress(wire("good").SerializeToString())])
    def test_gzip(self, post: Any, sink: Sink, body: bytes) -> None:
        assert post(body, Content_Encoding="gzip")[0].status == 200
        assert [span.name for span in sink.spans] == ["good"]

    def test_a_full_sink_asks_to_be_tried_again(self, post: Any, sink: Sink) -> None:
        sink.refusals = 2
        response, body = post(wire("a").SerializeToString())
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
        assert Status.FromString(body).code == 14
        response, body = post(
            b'[{"scopeSpans": [{"spans": [{"traceId": "'
            + b"01" * 16
            + b'", "spanId": "'
            + b"02" * 8
            + b'"}]}]}]',
            JSON,
        )
        assert response.status == 503
        assert json.loads(body)["code"] == 14

    @pytest.mark.parametrize(
        ("body", "content_type", "headers", "status"),
        [
            (b"welcome techworld", PROTOBUF, {}, 400),
            (b"{oops", JSON, {}, 400),
            (b'{"resourceLogs": []}', JSON, {}, 400),
            (b"", "text/plain", {}, 415),
            (b"", PROTOBUF, {"Content-Encoding": "br"}, 415),
            (b"not gzip", PROTOBUF, {"Content-Encoding": "gzip"}, 400),
            (bytes(200_000), PROTOBUF, {}, 413),
            (gzip.compress(bytes(40 * 2**20)), PROTOBUF, {"Content-Encoding": "gzip"}, 413),
        ],
    )
    def test_what_cannot_be_read_is_not_to_be_sent_again(
        self,
        post: Any,
        sink: Sink,
        events: Counted,
        body: bytes,
        content_type: str,
        headers: dict[str, str],
        status: int,
    ) -> None:
        response, answer = post(body, content_type, **headers)
        assert response.status == status
        assert "Retry-After" not in response.headers
        if content_type == PROTOBUF:
            assert response.headers["Content-Type"] == PROTOBUF
            assert Status.FromString(answer).message
        else:
            assert response.headers["Content-Type"] == JSON
            assert json.loads(answer)["message"]
        assert sink.batches == []
        assert sum(events.counts.values()) == 1

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/v1/traces", 405),
            ("PUT", "/v1/traces", 405),
            ("GET", "/v1/logs", 405),
            ("POST", "/v1/metrics", 404),
            ("POST", "/", 404),
        ],
    )
    def test_paths_and_methods(self, post: Any, method: str, path: str, status: int) -> None:
        response, _ = post(b"", method=method, path=path)
        assert response.status == status
        assert (response.headers["Allow"] == "POST") is (status == 405)

    def test_a_chunked_body_is_read_up_to_the_cap(self, http_receiver: OtlpHttpReceiver, sink: Sink) -> None:
        for size, status in [(1_000, 200), (300_000, 413)]:
            raw = wire("x" * size).SerializeToString()
            connection = http.client.HTTPConnection("127.0.0.1", http_receiver.port, timeout=5)
            chunks = (raw[at : at + 1_000] for at in range(0, len(raw), 1_000))
            try:
                connection.request(
                    "POST", "/v1/traces", chunks, {"Content-Type": PROTOBUF}, encode_chunked=True
                )
                assert connection.getresponse().status == status
            except (BrokenPipeError, ConnectionResetError):
                assert status == 413, "only a refused body may be cut off"
            finally:
                connection.close()
        assert len(sink.spans) == 1

    @pytest.mark.parametrize(
        ("method", "path", "content_type", "status"),
        [
            ("POST", "/nowhere", PROTOBUF, 404),
            ("PUT", "/v1/traces", PROTOBUF, 405),
            ("POST", "/v1/traces", "text/plain", 415),
        ],
    )
    @pytest.mark.parametrize("framing", [("Content-Length", "900000000"), ("Transfer-Encoding", "chunked")])
    def test_a_body_that_nobody_wants_is_not_waited_for(
        self,
        http_receiver: OtlpHttpReceiver,
        method: str,
        path: str,
        content_type: str,
        status: int,
        framing: tuple[str, str],
    ) -> None:
        """Announced and never sent: who reads it first would wait, and hold it all."""
        connection = http.client.HTTPConnection("127.0.0.1", http_receiver.port, timeout=3)
        connection.putrequest(method, path)
        connection.putheader("Content-Type", content_type)
        connection.putheader(*framing)
        connection.endheaders()
        response = connection.getresponse()
        connection.close()
        assert (response.status, response.headers["Connection"]) == (status, "close")

    def test_after_a_small_body_that_nobody_wanted_the_connection_stays(
        self, http_receiver: OtlpHttpReceiver, sink: Sink
    ) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", http_receiver.port, timeout=5)
        raw = wire("kept").SerializeToString()
        for path, status in [("/nowhere", 404), ("/v1/traces", 200)]:
            connection.request("POST", path, raw, {"Content-Type": PROTOBUF})
            response = connection.getresponse()
            response.read()
            assert response.status == status
        connection.close()
        assert len(sink.spans) == 1

    def test_a_silent_connection_does_not_hold_the_others_up(
        self, http_receiver: OtlpHttpReceiver, post: Any
    ) -> None:
        silent = [http.client.HTTPConnection("127.0.0.1", http_receiver.port) for _ in range(8)]
        for connection in silent:
            connection.connect()
        try:
            assert post(wire("good").SerializeToString())[0].status == 200
        finally:
            for connection in silent:
                connection.close()


@pytest.mark.parametrize("kind", ["grpc", "http"])
class TestLife:
    @pytest.fixture
    def receiver(self, kind: str, sink: Sink, failures: list[BaseException]) -> Any:
        if kind == "grpc":
            return OtlpGrpcReceiver(OtlpGrpcSettings(port=0), sink, on_failure=failures.append)
        return OtlpHttpReceiver(OtlpHttpSettings(port=0), sink, on_failure=failures.append)

    def test_starting_and_stopping_twice_is_harmless(
        self, receiver: Any, failures: list[BaseException]
    ) -> None:
        receiver.stop()
        receiver.start()
        port = receiver.port
        receiver.start()
        assert receiver.port == port > 0
        receiver.stop()
        receiver.stop()
        assert failures == []

    def test_what_is_not_enabled_does_not_listen(self, kind: str, sink: Sink) -> None:
        off: Any = (
            OtlpGrpcReceiver(OtlpGrpcSettings(enabled=False, port=0), sink)
            if kind == "grpc"
            else OtlpHttpReceiver(OtlpHttpSettings(enabled=False, port=0), sink)
        )
        with off:
            assert off.port == 0

    def test_a_taken_port_is_an_error(self, kind: str, receiver: Any, sink: Sink) -> None:
        with receiver:
            if kind == "grpc":
                second: Any = OtlpGrpcReceiver(OtlpGrpcSettings(port=receiver.port), sink)
            else:
                second = OtlpHttpReceiver(OtlpHttpSettings(port=receiver.port), sink)
            with pytest.raises(OSError, match=r"(?i)cannot listen|in use"):
                second.start()
            second.stop()

    def test_stopping_finishes_what_is_under_way(self, kind: str, receiver: Any, sink: Sink) -> None:
        receiver.start()
        sink.hold.clear()
        answers: list[int] = []

        def send() -> None:
            raw = wire("under way").SerializeToString()
            if kind == "grpc":
                with grpc.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:
                    TraceServiceStub(channel).Export(wire("under way"))
            else:
                connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
                connection.request("POST", "/v1/traces", raw, {"Content-Type": PROTOBUF})
                assert connection.getresponse().status == 200
                connection.close()
            answers.append(1)

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(0.3)
        threading.Timer(0.3, sink.hold.set).start()
        receiver.stop(5)
        sender.join(5)
        assert answers == [1]
        assert [span.name for span in sink.spans] == ["under way"]


@pytest.mark.part("shared")
def test_a_gzip_bomb_is_refused_over_http(http_receiver: OtlpHttpReceiver, shared: Path) -> None:
    bomb = (shared / "fixtures/otlp/malformed/gzip-bomb.pb.gz").read_bytes()
    connection = http.client.HTTPConnection("127.0.0.1", http_receiver.port, timeout=5)
    headers = {"Content-Type": PROTOBUF, "Content-Encoding": "gzip"}
    connection.request("POST", "/v1/traces", bomb, headers)
    assert connection.getresponse().status == 413
    connection.close()
