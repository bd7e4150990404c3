"""The sniffing decoder: what wraps a message, what is refused whole and what alone."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors import otlp_json, otlp_proto
from collectors.conventions import SpanKind, kind_of
from collectors.errors import Reason, SpanReason, Undecodable
from collectors.otlp import Limits, decode, decode_json, decode_proto
from collectors.span import SpanFlag

TRACE, SPAN, PARENT = "14579f4bb39f5fc9a9d864e82e16e3e2", "0a967cd3225ac875", "00f067aa0ba902b7"


def request(*names: str) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    service = group.resource.attributes.add(key="service.name")
    service.value.string_value = "kb-assistant"
    scope = group.scope_spans.add()
    scope.scope.name, scope.scope.version = "openinference", "1.0"
    for number, name in enumerate(names or ("retrieve",), start=1):
        span = scope.spans.add(
            trace_id=bytes.fromhex(TRACE), span_id=number.to_bytes(8, "big"), name=name, kind=1
        )
        span.start_time_unix_nano, span.end_time_unix_nano = 10, 20
    return made


def json_request(**members: Any) -> bytes:
    span = {"traceId": TRACE, "spanId": SPAN, "name": "retrieve"} | members
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def framed(payload: bytes, index: bytes = b"\x00") -> bytes:
    return b"\x00" + (42).to_bytes(4, "big") + index + payload


PROTO = request().SerializeToString()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(PROTO, id="protobuf"),
        pytest.param(gzip.compress(PROTO), id="gzip"),
        pytest.param(gzip.compress(PROTO[:9]) + gzip.compress(PROTO[9:]), id="gzip of two members"),
        pytest.param(framed(PROTO), id="schema registry, first message"),
        pytest.param(framed(PROTO, b"\x04\x02\x04"), id="schema registry, index 1, 2"),
        pytest.param(framed(PROTO, b""), id="schema registry without index"),
        pytest.param(framed(json_request(), b""), id="schema registry around JSON"),
        pytest.param(gzip.compress(framed(PROTO)), id="gzip around schema registry"),
        pytest.param(framed(gzip.compress(PROTO), b""), id="schema registry around gzip"),
        pytest.param(json_request(), id="JSON"),
        pytest.param(b"\xef\xbb\xbf " + json_request(), id="JSON with byte order mark"),
        pytest.param(b"\n" + json_request(), id="JSON after a line feed"),
        pytest.param(json.dumps(json.loads(json_request()), indent=1).encode(), id="JSON in lines"),
        pytest.param(json.dumps(json.loads(json_request())["resourceSpans"]).encode(), id="bare array"),
        pytest.param(gzip.compress(json_request()), id="gzip around JSON"),
    ],
)
def test_a_message_is_read_whatever_wraps_it(raw: bytes) -> None:
    batch = decode(raw)
    assert [(span.trace_id, span.name) for span in batch.spans] == [(TRACE, "retrieve")]
    assert batch.rejected == ()


def test_a_request_whose_length_looks_like_a_brace_is_protobuf() -> None:
    name = ""
    while (raw := request(name).SerializeToString())[1] != ord("{"):
        name += "x"
    assert raw[0] == ord("\n")
    assert [span.name for span in decode(raw).spans] == [name]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"welcome techworld", Reason.NOT_OTLP),
        (b"\x08\x01", Reason.NOT_OTLP),
        (b"\x02\x00", Reason.NOT_OTLP),
        (PROTO[:-3], Reason.TRUNCATED),
        (PROTO[:1], Reason.TRUNCATED),
        (b"\x1f\x8b", Reason.BAD_GZIP),
        (gzip.compress(PROTO)[:-4], Reason.BAD_GZIP),
        (gzip.compress(PROTO) + b"tail", Reason.BAD_GZIP),
        (b"\x00\x00", Reason.BAD_FRAMING),
        (framed(b"", b"\x7f"), Reason.BAD_FRAMING),
        (framed(b"", b"\xfe\xff\xff\xff\xff\x0f"), Reason.BAD_FRAMING),
        (b"{", Reason.BAD_JSON),
        (b'{"a": \xff}', Reason.BAD_JSON),
        (b"[" * 100_000, Reason.BAD_JSON),
        (b'{"resourceSpans": ' + b"1" * 5_000 + b"}", Reason.BAD_JSON),
        (b'{"resourceSpans": {}}', Reason.NOT_OTLP),
        (b'{"spans": []}', Reason.NOT_OTLP),
        (b'{"data": [{"traceID": "1", "spans": []}]}', Reason.JAEGER_JSON),
        (b'[{"traceId": "1", "id": "2", "name": "a"}]', Reason.ZIPKIN_JSON),
        (b'{"resource_metrics": [{}]}', Reason.METRICS),
    ],
)
def test_what_is_no_request_for_spans_is_refused_with_its_reason(raw: bytes, reason: Reason) -> None:
    with pytest.raises(Undecodable) as refused:
        decode(raw)
    assert refused.value.reason == reason
    assert refused.value.detail


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[]", b'{"resourceSpans": null}', gzip.compress(b""), b"\x0a\x00"]
)
def test_a_request_without_spans_is_no_fault(raw: bytes) -> None:
    batch = decode(raw)
    assert (batch.spans, batch.rejected) == ((), ())


def test_caps_on_a_message() -> None:
    with pytest.raises(Undecodable, match="too_large"):
        decode(PROTO, Limits(message_bytes=10))
    with pytest.raises(Undecodable, match="decompression_cap"):
        decode(gzip.compress(PROTO), Limits(decompressed_bytes=len(PROTO) - 1))
    assert decode(gzip.compress(PROTO), Limits(decompressed_bytes=len(PROTO))).spans
    three = request("a", "b", "c")
    assert len(decode(three.SerializeToString(), Limits(spans=3)).spans) == 3
    with pytest.raises(Undecodable, match="too_many_spans"):
        decode(three.SerializeToString(), Limits(spans=2))
    with pytest.raises(Undecodable, match="too_many_spans"):
        decode(json.dumps(json.loads(json_request())["resourceSpans"] * 2).encode(), Limits(spans=1))


def test_caps_on_a_span() -> None:
    made = request("x" * 50)
    span = made.resource_spans[0].scope_spans[0].spans[0]
    for number in range(5):
        span.attributes.add(key=f"k{number}").value.string_value = "v" * 50
        span.events.add(name=f"e{number}")
        span.links.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(PARENT))
    span.dropped_attributes_count, span.dropped_events_count = 7, 8
    limits = Limits(attributes=3, events=2, links=1, name_length=10, value_length=20)
    (read,) = decode(made.SerializeToString(), limits).spans
    assert list(read.attributes) == ["k0", "k1", "k2"]
    assert set(read.attributes.values()) == {"v" * 20}
    assert (read.dropped_attributes, read.dropped_events) == (7 + 2, 8 + 3)
    assert [event.name for event in read.events] == ["e0", "e1"]
    assert [(link.trace_id, link.span_id) for link in read.links] == [(TRACE, PARENT)]
    assert read.flags == {SpanFlag.ATTRIBUTES_CAPPED, SpanFlag.NAME_CAPPED, SpanFlag.VALUE_CAPPED}


def test_what_the_resource_lost_is_told_by_each_of_its_spans() -> None:
    made = request("a", "b")
    made.resource_spans[0].resource.attributes.add(key="host.name").value.string_value = "pod"
    batch = decode(made.SerializeToString(), Limits(attributes=1))
    assert [span.flags for span in batch.spans] == [{SpanFlag.ATTRIBUTES_CAPPED}] * 2
    assert batch.spans[0].resource == {"service.name": "kb-assistant"}
    assert batch.spans[0].resource is batch.spans[1].resource


def test_a_string_that_is_not_utf8_loses_its_span_alone() -> None:
    made = request("good", "MARK", "fine")
    raw = made.SerializeToString().replace(b"MARK", b"\xff\xfe\xff\xfe")
    batch = decode(raw)
    assert [span.name for span in batch.spans] == ["good", "fine"]
    assert [rejection.reason for rejection in batch.rejected] == [SpanReason.BAD_STRUCTURE]
    assert batch.spans[0].resource == {"service.name": "kb-assistant"}
    assert batch.spans[0].scope.name == "openinference"


def test_a_bad_resource_loses_all_its_spans_and_no_other() -> None:
    made, other = request("a", "b"), request("c")
    made.resource_spans[0].resource.attributes.add(key="MARK").value.string_value = "x"
    raw = made.SerializeToString().replace(b"MARK", b"\xff\xfe\xff\xfe") + other.SerializeToString()
    batch = decode(raw)
    assert [span.name for span in batch.spans] == ["c"]
    assert [rejection.reason for rejection in batch.rejected] == [SpanReason.BAD_RESOURCE] * 2


def test_protobuf_of_before_0_19_is_read_by_its_old_field() -> None:
    scope_spans = request("old").resource_spans[0].scope_spans[0].SerializeToString()
    group = b"\xc2\x3e" + bytes([len(scope_spans)]) + scope_spans  # field 1000, length-delimited
    raw = b"\x0a" + bytes([len(group)]) + group
    (span,) = decode(raw).spans
    assert (span.name, span.scope.version) == ("old", "1.0")


def test_values_nested_beyond_the_parser_lose_only_what_is_too_deep() -> None:
    made = request("deep", "beside")
    value = made.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="deep").value
    for _ in range(60):  # more levels than the protobuf parser takes
        value = value.kvlist_value.values.add(key="k").value
    value.string_value = "bottom"
    deep, beside = decode(made.SerializeToString(), Limits(depth=4)).spans
    assert deep.attributes == {"deep": {"k": {"k": {"k": {"k": None}}}}}
    assert deep.flags == {SpanFlag.DEPTH_CAPPED}
    assert beside.flags == frozenset()


def test_times_beyond_a_signed_64_bit_number_lose_the_span_alone() -> None:
    made = request("a", "b")
    made.resource_spans[0].scope_spans[0].spans[0].end_time_unix_nano = 2**64 - 1
    batch = decode(made.SerializeToString())
    assert [span.name for span in batch.spans] == ["b"]
    assert [rejection.reason for rejection in batch.rejected] == [SpanReason.BAD_TIME]


def test_parents() -> None:
    base64_id = base64.b64encode(bytes.fromhex(PARENT)).decode()
    for written, read in [(PARENT, PARENT), (base64_id, PARENT), (base64_id.rstrip("="), PARENT)]:
        assert decode(json_request(parentSpanId=written)).spans[0].parent_id == read
    for written in ("", None, "0" * 16):
        assert decode(json_request(parentSpanId=written)).spans[0].parent_id is None
    refused = decode(json_request(parentSpanId="beef")).rejected
    assert [rejection.reason for rejection in refused] == [SpanReason.BAD_PARENT_ID]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"stringValue": "a\0b"}, "ab"),
        ({"string_value": "x"}, "x"),
        ({"stringValue": "\ud83d\ude00 \ud83d"}, "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": 5}, 5),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "0.25"}, 0.25),
        ({"doubleValue": "Infinity"}, None),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAE="}, b"\x00\x01"),
        ({"arrayValue": {"values": [{"intValue": 1}, {}, {"stringValue": "a"}]}}, [1, None, "a"]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}}, {"a": True}),
        ({"stringValue": None}, None),
        ({"somethingNew": 1}, None),
        ({}, None),
        (None, None),
    ],
)
def test_json_values(value: object, read: object) -> None:
    (span,) = decode(json_request(attributes=[{"key": "k", "value": value}])).spans
    assert span.attributes == {"k": read}
    assert type(span.attributes["k"]) is type(read)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"traceId": "xyz"}, SpanReason.BAD_TRACE_ID),
        ({"traceId": 17}, SpanReason.BAD_TRACE_ID),
        ({"traceId": "0" * 32}, SpanReason.BAD_TRACE_ID),
        ({"spanId": None}, SpanReason.BAD_SPAN_ID),
        ({"startTimeUnixNano": "1_000"}, SpanReason.BAD_TIME),
        ({"startTimeUnixNano": -1}, SpanReason.BAD_TIME),
        ({"endTimeUnixNano": True}, SpanReason.BAD_TIME),
        ({"attributes": {"a": "b"}}, SpanReason.BAD_ATTRIBUTES),
        ({"attributes": [{"key": 5, "value": {}}]}, SpanReason.BAD_ATTRIBUTES),
        ({"attributes": [{"key": "a", "value": "b"}]}, SpanReason.BAD_ATTRIBUTES),
        ({"attributes": [{"key": "a", "value": {"intValue": "1e9"}}]}, SpanReason.BAD_ATTRIBUTES),
        ({"attributes": [{"key": "a", "value": {"intValue": str(2**63)}}]}, SpanReason.BAD_ATTRIBUTES),
        ({"attributes": [{"key": "a", "value": {"doubleValue": 10**400}}]}, SpanReason.BAD_ATTRIBUTES),
        ({"attributes": [{"key": "a", "value": {"boolValue": "yes"}}]}, SpanReason.BAD_ATTRIBUTES),
        ({"attributes": [{"key": "a", "value": {"bytesValue": "?"}}]}, SpanReason.BAD_ATTRIBUTES),
        ({"name": 5}, SpanReason.BAD_STRUCTURE),
        ({"events": [5]}, SpanReason.BAD_STRUCTURE),
        ({"status": "STATUS_CODE_OK"}, SpanReason.BAD_STRUCTURE),
        ({"links": [{"traceId": "no"}]}, SpanReason.BAD_STRUCTURE),
    ],
)
def test_a_bad_json_span_is_refused_alone(members: dict[str, Any], reason: SpanReason) -> None:
    document = json.loads(json_request(**members))
    good = {"traceId": TRACE, "spanId": PARENT, "name": "beside"}
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].append(good)
    batch = decode(json.dumps(document).encode())
    assert [span.name for span in batch.spans] == ["beside"]
    assert [rejection.reason for rejection in batch.rejected] == [reason]


@pytest.mark.parametrize(
    ("group", "reasons"),
    [
        ("text", [SpanReason.BAD_STRUCTURE]),
        ({"scopeSpans": {}}, [SpanReason.BAD_STRUCTURE]),
        ({"scopeSpans": ["text"]}, [SpanReason.BAD_STRUCTURE]),
        ({"scopeSpans": [{"spans": {}}]}, [SpanReason.BAD_STRUCTURE]),
        (
            {"resource": {"attributes": {}}, "scopeSpans": [{"spans": [{}, {}]}]},
            [SpanReason.BAD_RESOURCE] * 2,
        ),
        ({"scopeSpans": [{"scope": "text", "spans": [{}]}]}, [SpanReason.BAD_RESOURCE]),
    ],
)
def test_a_misshapen_group_is_refused_and_its_neighbours_kept(
    group: object, reasons: list[SpanReason]
) -> None:
    document = json.loads(json_request())
    document["resourceSpans"].insert(0, group)
    batch = decode(json.dumps(document).encode())
    assert [span.name for span in batch.spans] == ["retrieve"]
    assert [rejection.reason for rejection in batch.rejected] == reasons


def test_enumerations_by_number_name_and_unknown_name() -> None:
    for written, read in [(3, 3), ("3", 3), ("SPAN_KIND_CLIENT", 3), ("SPAN_KIND_NEW", 0), (None, 0)]:
        assert decode(json_request(kind=written)).spans[0].kind == read


def test_a_receiver_that_knows_the_encoding_does_not_sniff() -> None:
    assert decode_proto(PROTO).spans
    assert decode_json(json_request()).spans
    with pytest.raises(Undecodable, match="bad_json"):
        decode_json(PROTO)
    with pytest.raises(Undecodable):
        decode_proto(json_request())


def test_a_fault_of_the_decoder_is_an_outcome_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(otlp_json, "_read_group", broken)
    monkeypatch.setattr(otlp_proto, "_span", broken)
    for raw in (json_request(), PROTO):
        with pytest.raises(Undecodable) as refused:
            decode(raw)
        assert refused.value.reason == Reason.DECODER_FAULT
        assert "KeyError" in refused.value.detail


def test_what_assembly_asks_of_every_span_is_read_while_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = request()
    span = made.resource_spans[0].scope_spans[0].spans[0]
    said = {"openinference.span.kind": "CHAIN", "session.id": "s\0-1", "input.value": "How long?"}
    for name, value in said.items():
        span.attributes.add(key=name).value.string_value = value
    (read,) = decode(made.SerializeToString()).spans
    with monkeypatch.context() as patched:
        patched.setattr("collectors.otlp_proto_values.MappedSpan", None)
        assert kind_of(read) is SpanKind.CHAIN
        assert read.attributes["session.id"] == "s-1"
        with pytest.raises(AttributeError):
            read.attributes["input.value"]
    assert read.attributes["input.value"] == "How long?"
    read.fold()
    assert read.attributes == said | {"session.id": "s-1"}
