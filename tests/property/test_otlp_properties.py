"""Whatever the bytes, the decoder answers or refuses; whatever the encoding, the spans are the same."""

from __future__ import annotations

import gzip
import json
from typing import Any

from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from collectors.errors import Reason, SpanReason, Undecodable
from collectors.otlp import Limits, decode
from collectors.otlp_proto_values import WireAttributes
from collectors.otlp_wire import SPAN, groups, prune, varint, walked
from collectors.span import SpanFlag

LIMITS = Limits(attributes=6, events=3, links=2, depth=3, name_length=12, value_length=16, key_length=12)

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_scalars = st.one_of(
    st.builds(lambda value: AnyValue(string_value=value), _text),
    st.builds(lambda value: AnyValue(int_value=value), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda value: AnyValue(double_value=value), st.floats()),
    st.builds(lambda value: AnyValue(bool_value=value), st.booleans()),
    st.builds(lambda value: AnyValue(bytes_value=value), st.binary(max_size=20)),
    st.just(AnyValue()),
)


def _nest(inner: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    def array(values: list[AnyValue]) -> AnyValue:
        made = AnyValue()
        made.array_value.SetInParent()
        made.array_value.values.extend(values)
        return made

    def kvlist(pairs: list[tuple[str, AnyValue]]) -> AnyValue:
        made = AnyValue()
        made.kvlist_value.SetInParent()
        for key, value in pairs:
            made.kvlist_value.values.add(key=key).value.CopyFrom(value)
        return made

    return st.one_of(
        st.lists(inner, max_size=3).map(array), st.lists(st.tuples(_text, inner), max_size=3).map(kvlist)
    )


_values = st.recursive(_scalars, _nest, max_leaves=8)
_pairs = st.lists(st.tuples(_text, _values), max_size=8)


@st.composite
def _spans(draw: st.DrawFn) -> WireSpan:
    made = WireSpan(
        trace_id=draw(st.one_of(st.binary(min_size=16, max_size=16), st.binary(max_size=3))),
        span_id=draw(st.one_of(st.binary(min_size=8, max_size=8), st.binary(max_size=3))),
        parent_span_id=draw(st.one_of(st.just(b""), st.binary(min_size=8, max_size=8))),
        name=draw(_text),
        kind=draw(st.integers(0, 5)),
        start_time_unix_nano=draw(st.integers(0, 2**64 - 1)),
        end_time_unix_nano=draw(st.integers(0, 2**63 - 1)),
        trace_state=draw(_text),
        dropped_attributes_count=draw(st.integers(0, 9)),
    )
    made.status.code = draw(st.integers(0, 2))
    for key, value in draw(_pairs):
        made.attributes.add(key=key).value.CopyFrom(value)
    for name, pairs in draw(st.lists(st.tuples(_text, _pairs), max_size=4)):
        event = made.events.add(name=name, time_unix_nano=draw(st.integers(0, 2**63 - 1)))
        for key, value in pairs:
            event.attributes.add(key=key).value.CopyFrom(value)
    return made


@st.composite
def _requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    for pairs, spans in draw(st.lists(st.tuples(_pairs, st.lists(_spans(), max_size=3)), max_size=3)):
        group = made.resource_spans.add()
        for key, value in pairs:
            group.resource.attributes.add(key=key).value.CopyFrom(value)
        scope = group.scope_spans.add()
        scope.scope.name = draw(_text)
        scope.spans.extend(spans)
    return made


ROOMY = Limits(depth=3)
"""Within these, a span's attributes are read when they are asked for; beyond LIMITS they are read at once."""


def _as_json(request: ExportTraceServiceRequest, snake_case: bool) -> bytes:
    """ProtoJSON, whose ids are base64, as the decoder must also read."""
    return json_format.MessageToJson(request, preserving_proto_field_name=snake_case).encode()


def _outcome(raw: bytes, limits: Limits = LIMITS) -> Any:
    batch = decode(raw, limits)
    flags = [span.flags for span in batch.spans]
    return batch.spans, flags, [rejection.reason for rejection in batch.rejected]


@settings(max_examples=60)
@given(_requests(), st.booleans(), st.sampled_from([LIMITS, ROOMY]))
def test_protobuf_and_json_give_the_same_spans(
    request: ExportTraceServiceRequest, snake_case: bool, limits: Limits
) -> None:
    raw = request.SerializeToString()
    if not raw:
        return
    expected = _outcome(_as_json(request, snake_case), limits)
    assert _outcome(raw, limits) == expected
    assert _outcome(gzip.compress(raw), limits) == expected


@settings(max_examples=60)
@given(_requests())
def test_attributes_are_the_same_whenever_they_are_read(request: ExportTraceServiceRequest) -> None:
    raw = request.SerializeToString()
    told = decode(_as_json(request, False), ROOMY).spans if raw else ()
    for span, other in zip(decode(raw, ROOMY).spans, told, strict=True):
        assert set(span.attributes) == set(other.attributes)
        assert len(span.attributes) == len(other.attributes)
        assert (SpanFlag.ATTRIBUTES_CAPPED in span.flags) == (SpanFlag.ATTRIBUTES_CAPPED in other.flags)
        for name in other.attributes:
            assert span.attributes.get(name) == span.attributes[name] == other.attributes[name]
        if isinstance(span.attributes, WireAttributes):
            span.attributes.fold()
        assert span.attributes == other.attributes
        assert span.attributes.get("no such name") is None


@settings(max_examples=40)
@given(_requests())
def test_every_span_has_one_outcome_and_keeps_within_the_caps(request: ExportTraceServiceRequest) -> None:
    batch = decode(request.SerializeToString(), LIMITS)
    sent = sum(len(scope.spans) for group in request.resource_spans for scope in group.scope_spans)
    assert len(batch.spans) + len(batch.rejected) == sent
    assert {rejection.reason for rejection in batch.rejected} <= set(SpanReason)
    for span in batch.spans:
        assert len(span.trace_id) == 32
        assert len(span.span_id) == 16
        assert len(span.attributes) <= LIMITS.attributes
        assert len(span.events) <= LIMITS.events
        assert len(span.name) <= LIMITS.name_length
        assert all(len(key) <= LIMITS.key_length for key in span.attributes)
        for value in span.attributes.values():
            assert _depth(value) <= LIMITS.depth
            assert "\0" not in repr(value)
        json.dumps([span.name, sorted(span.flags), list(span.attributes)]).encode()
        if span.dropped_attributes > 9:
            assert SpanFlag.ATTRIBUTES_CAPPED in span.flags


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


@given(_requests(), st.data())
def test_a_message_with_bytes_changed_is_read_or_refused(
    request: ExportTraceServiceRequest, data: st.DataObject
) -> None:
    whole = data.draw(st.sampled_from([request.SerializeToString(), _as_json(request, False)]))
    raw = bytearray(gzip.compress(whole) if data.draw(st.booleans()) else whole)
    for _ in range(data.draw(st.integers(0, 4))):
        if raw:
            at = data.draw(st.integers(0, len(raw) - 1))
            raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    _answers(bytes(raw))


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\x00\x00\x00\x00\x2a", b"{", b"[", b"\x0a", b"\x1f\x8b\x08"]),
)
def test_any_bytes_are_read_or_refused(raw: bytes, begin: bytes) -> None:
    _answers(begin + raw)


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["key", "value", "stringValue", "values", "spans", "traceId"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


_members = ("name", "kind", "attributes", "events", "links", "status", "startTimeUnixNano", "parentSpanId")


@given(
    st.fixed_dictionaries(
        {"traceId": st.just("01" * 16), "spanId": st.just("02" * 8)},
        optional=dict.fromkeys(_members, _json_values),
    )
)
def test_a_misshapen_json_span_is_kept_or_refused_alone(span: dict[str, Any]) -> None:
    beside = {"traceId": "03" * 16, "spanId": "04" * 8, "name": "beside"}
    batch = decode(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span, beside]}]}]}).encode(), LIMITS
    )
    assert batch.spans[-1].name == "beside"
    assert len(batch.spans) + len(batch.rejected) == 2


def _answers(raw: bytes) -> None:
    try:
        decode(raw, LIMITS)
    except Undecodable as refused:
        reason = refused.reason
    else:
        reason = None
    assert reason is not Reason.DECODER_FAULT


@given(st.integers(0, 2**32 - 1))
def test_numbers_are_read_as_protobuf_writes_them(number: int) -> None:
    raw = WireSpan(dropped_links_count=number).SerializeToString()
    assert (varint(raw, 1) if raw else (0, 0)) == (number, len(raw))


@settings(max_examples=60)
@given(_spans())
def test_pruning_loses_nothing_that_the_depth_cap_would_keep(span: WireSpan) -> None:
    raw = span.SerializeToString()
    assert prune(raw, SPAN, 30) == raw or len(prune(raw, SPAN, 30)) == len(raw)
    assert _outcome(_wrapped(prune(raw, SPAN, LIMITS.depth + 1))) == _outcome(_wrapped(raw))


def _wrapped(span: bytes) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.append(WireSpan.FromString(span))
    return request.SerializeToString()


@settings(max_examples=60)
@given(_requests(), st.data())
def test_the_parser_and_the_walk_take_a_request_apart_alike(
    request: ExportTraceServiceRequest, data: st.DataObject
) -> None:
    raw = bytearray(request.SerializeToString())
    if raw and data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))

    def apart(take: Any) -> Any:
        try:
            return sorted(
                (group.resource, group.scope, list(group.spans)) for group in take(bytes(raw), 10_000)
            )
        except Undecodable as refused:
            return refused.reason

    walk = apart(walked)
    if walk is not Reason.NOT_OTLP:  # the walk knows no groups, which the parser passes over
        assert apart(groups) == walk
