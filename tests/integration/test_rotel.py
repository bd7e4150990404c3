"""A real OpenTelemetry collector between a service and us: SDK exporter, rotel, Kafka, our collector."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path

from broker import Broker, free_port, wait_for_port
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

from collectors.dead_letter import DeadLetterSettings, FileDeadLetters, read
from collectors.kafka import KafkaCollector, KafkaSettings
from collectors.span import Span, SpanBatch


class Sink:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def offer(self, batch: SpanBatch) -> bool:
        self.spans += batch.spans
        assert batch.receipt is not None
        batch.receipt.release()
        return True


@contextmanager
def rotel(broker: Broker, topic: str, form: str, compression: str, folder: Path) -> Iterator[int]:
    """A collector that writes to the topic; gives its gRPC port."""
    port = free_port()
    options = {
        "otlp-grpc-endpoint": f"127.0.0.1:{port}",
        "otlp-http-endpoint": f"127.0.0.1:{free_port()}",
        "exporter": "kafka",
        "kafka-exporter-brokers": broker.bootstrap,
        "kafka-exporter-traces-topic": topic,
        "kafka-exporter-format": form,
        "kafka-exporter-compression": compression,
        "pid-file": folder / f"{form}.pid",
        "log-file": folder / f"{form}.log",
    }
    with resources.as_file(resources.files("rotel") / "rotel-agent") as program:
        command = [str(program), "start", *(f"--{name}={value}" for name, value in options.items())]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def ask(port: int, service: str) -> list[ReadableSpan]:
    """What an instrumented service sends, kept here as well."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": service}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.add_span_processor(
        SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}", insecure=True))
    )
    tracer = provider.get_tracer("openinference", "1.0")
    for number in range(5):
        with (
            tracer.start_as_current_span("chain", attributes={"input.value": f"Grüße {number}?"}),
            tracer.start_as_current_span("retrieve", attributes={"scores": [0.5, 0.25], "k": 2}) as span,
        ):
            span.add_event("retrieved", {"ids": ["kb-1", "kb-2"]})
    provider.shutdown()
    return list(kept.get_finished_spans())


def test_spans_through_a_collector_and_kafka_arrive_as_they_were_made(broker: Broker, tmp_path: Path) -> None:
    forms = [("protobuf", "none"), ("json", "gzip")]
    topics = [broker.topic(partitions=3) for _ in forms]
    dead = tmp_path / "dead.jsonl"
    settings = KafkaSettings(
        bootstrap_servers=(broker.bootstrap,), topics=tuple(topics), group_id=tmp_path.name
    )
    sink, failures = Sink(), list[BaseException]()
    letters = FileDeadLetters(DeadLetterSettings(path=dead))
    with ExitStack() as stack:
        stack.enter_context(KafkaCollector(settings, sink, letters, on_failure=failures.append))
        made: list[ReadableSpan] = []
        for topic, (form, compression) in zip(topics, forms, strict=True):
            port = stack.enter_context(rotel(broker, topic, form, compression, tmp_path))
            made += ask(port, service=form)
        ends = time.monotonic() + 20
        while len(sink.spans) < len(made) and time.monotonic() < ends:
            time.sleep(0.05)
    assert failures == []
    assert list(read(dead)) == []
    arrived = {(span.trace_id, span.span_id): span for span in sink.spans}
    assert len(arrived) == len(sink.spans) == len(made) == 20
    for original in made:
        context = original.get_span_context()
        assert context is not None
        span = arrived[format_trace_id(context.trace_id), format_span_id(context.span_id)]
        assert span.name == original.name
        assert span.parent_id == (format_span_id(original.parent.span_id) if original.parent else None)
        assert (span.start_ns, span.end_ns) == (original.start_time, original.end_time)
        plain = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in (original.attributes or {}).items()
        }
        assert span.attributes == plain
        assert [event.name for event in span.events] == [event.name for event in original.events]
        assert span.resource["service.name"] == original.resource.attributes["service.name"]
        assert span.scope.name == "openinference"
