"""Log records in both encodings: which tell of a request, and what becomes of the others."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.errors import Reason, Undecodable
from collectors.otlp import Limits, decode, decode_json, decode_logs_json, decode_logs_proto
from collectors.otlp_logs import NO_TRACE
from collectors.span import SpanBatch

TRACE, SPAN = "14579f4bb39f5fc9a9d864e82e16e3e2", "0a967d3225ac8475"


def text(value: str) -> dict[str, Any]:
    return {"stringValue": value}


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": text(value)}


def record(**more: Any) -> dict[str, Any]:
    return {"timeUnixNano": "7", "traceId": TRACE, "spanId": SPAN, "eventName": "gen_ai.user.message", **more}


def document(*records: Any) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


def from_json(found: dict[str, Any]) -> SpanBatch:
    return decode_logs_json(json.dumps(found).encode())


def from_proto(found: dict[str, Any]) -> SpanBatch:
    return decode_logs_proto(encoded(found))


def encoded(found: dict[str, Any]) -> bytes:
    spelt = json.loads(json.dumps(found))
    for group in spelt["resourceLogs"]:
        for scope in group["scopeLogs"]:
            for one in scope["logRecords"]:
                for name, raw in (("traceId", one.pop("traceId", "")), ("spanId", one.pop("spanId", ""))):
                    one[name] = base64_of(raw)
    return ParseDict(spelt, ExportLogsServiceRequest()).SerializeToString()


def base64_of(raw: str) -> str:
    return base64.b64encode(bytes.fromhex(raw)).decode()


BOTH = pytest.mark.parametrize("read", [from_json, from_proto])
Read = Callable[[dict[str, Any]], SpanBatch]


@BOTH
def test_an_event_stands_under_its_span(read: Read) -> None:
    body = {"kvlistValue": {"values": [attribute("content", "How long?")]}}
    (span,) = read(document(record(body=body, attributes=[attribute("gen_ai.system", "openai")]))).spans
    assert (span.trace_id, span.parent_id, span.start_ns, span.end_ns) == (TRACE, SPAN, 7, 7)
    assert span.is_log
    (event,) = span.events
    assert event.name == "gen_ai.user.message"
    assert event.attributes == {"content": "How long?", "gen_ai.system": "openai"}


@BOTH
def test_other_bodies_and_older_names(read: Read) -> None:
    one = record(body=text("How long?"), attributes=[attribute("event.name", "gen_ai.choice")])
    del one["eventName"]
    (span,) = read(document(one)).spans
    assert span.name == "gen_ai.choice"
    assert span.events[0].attributes["body"] == "How long?"


@BOTH
def test_the_same_record_again_is_the_same_and_another_is_not(read: Read) -> None:
    first, again, later = read(document(record(), record(), record(timeUnixNano="8"))).spans
    assert first.span_id == again.span_id != later.span_id


@BOTH
def test_feedback_needs_no_span_and_other_events_do(read: Read) -> None:
    loose = {"traceId": "", "spanId": ""}
    batch = read(document(record(eventName="gen_ai.evaluation.result", **loose), record(**loose)))
    (feedback,) = batch.spans
    assert (feedback.trace_id, feedback.parent_id) == (NO_TRACE, None)
    assert batch.ignored == 1


@BOTH
def test_ordinary_logs_are_counted_and_left_alone(read: Read) -> None:
    batch = read(
        document(record(eventName="", body=text("GET /")), record(eventName="device.app.crash"), record())
    )
    assert (len(batch.spans), batch.ignored, batch.rejected) == (1, 2, ())


def test_a_bad_record_is_refused_alone() -> None:
    batch = from_json(document(7, record(traceId="xyz"), record(attributes={}), record()))
    assert [one.reason for one in batch.rejected] == ["bad_structure", "bad_trace_id", "bad_attributes"]
    assert len(batch.spans) == 1


def test_a_misshapen_list_is_refused_alone() -> None:
    found = {"resourceLogs": [7, {"scopeLogs": [{"logRecords": 7}, {"logRecords": [record()]}]}]}
    batch = from_json(found)
    assert len(batch.spans) == 1
    assert [one.reason for one in batch.rejected] == ["bad_structure", "bad_structure"]


def test_caps_hold() -> None:
    raw = json.dumps(document(record(), record())).encode()
    with pytest.raises(Undecodable) as refused:
        decode_logs_json(raw, Limits(spans=1))
    assert refused.value.reason is Reason.TOO_MANY_SPANS


@pytest.mark.parametrize("raw", [b"{oops", b"[]", b'{"resourceSpans": []}', b'{"resourceLogs": 7}'])
def test_what_is_no_request_for_logs(raw: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_logs_json(raw)


def test_no_bytes_and_an_empty_object_are_requests_of_nothing() -> None:
    assert decode_logs_proto(b"").spans == decode_logs_json(b"{}").spans == ()


def test_sniffing_tells_logs_from_spans() -> None:
    found = document(record(), record(timeUnixNano="0", observedTimeUnixNano="9"))
    assert decode(json.dumps(found).encode()).spans == decode(encoded(found)).spans
    assert [span.start_ns for span in decode(encoded(found)).spans] == [7, 9]


def test_sniffing_takes_no_span_for_a_log() -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name="no ids")
    batch = decode(request.SerializeToString())
    assert [one.reason for one in batch.rejected] == ["bad_trace_id"]


def test_where_only_spans_are_read_logs_say_so() -> None:
    with pytest.raises(Undecodable) as refused:
        decode_json(json.dumps(document(record())).encode())
    assert refused.value.reason is Reason.LOGS
