"""OTLP in protobuf: `ExportTraceServiceRequest` bytes to spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from collectors.errors import SpanReason, SpanRefused, Undecodable
from collectors.otlp_batch import BatchBuilder, Origin, status_code
from collectors.otlp_limits import Caps, Limits, checked_time
from collectors.otlp_wire import RESOURCE, SCOPE, SPAN, Shape, prune, split
from collectors.span import AttributeValue, Scope, Span, SpanBatch, SpanEvent, SpanLink

Wire = TypeVar("Wire", bound=Message)

_FRAME_FIELDS_PER_SPAN = 4
"""How many fields the frame around spans may have for each span that a message may hold."""
_PRUNABLE_BYTES = 256 * 1024
"""A larger span that the parser refuses stays refused: taking it apart here would hold up the stream."""


def read_proto(raw: bytes, limits: Limits) -> SpanBatch:
    """Read one export request. Raises `Undecodable` where it is none."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(raw)
    except DecodeError:
        return _read_apart(raw, limits)
    groups = request.resource_spans
    if (raw and not groups) or any(not group.scope_spans for group in groups):
        return _read_apart(raw, limits)  # no export request at all, or one of before OTLP 0.19
    builder = BatchBuilder(limits)
    for group in groups:
        for scope_spans in group.scope_spans:
            builder.room_for(len(scope_spans.spans))
            origin = _origin(group.resource, scope_spans.scope, limits)
            for wire in scope_spans.spans:
                builder.add(partial(_span, wire, origin, limits))
    return builder.batch()


def _read_apart(raw: bytes, limits: Limits) -> SpanBatch:
    """Read a request that the parser refused: each span alone, so that only the bad ones are lost."""
    builder = BatchBuilder(limits)
    for group in split(raw, _FRAME_FIELDS_PER_SPAN * limits.spans):
        builder.room_for(len(group.spans))
        try:
            origin = _origin(*_parsed_origin(group.resource, group.scope, limits), limits)
        except SpanRefused as refused:
            builder.refuse(refused, len(group.spans))
            continue
        for span in group.spans:
            builder.add(partial(_span_apart, span, origin, limits))
    return builder.batch()


def _parsed_origin(resource: bytes, scope: bytes, limits: Limits) -> tuple[Resource, InstrumentationScope]:
    try:
        return (
            _parsed(Resource(), resource, RESOURCE, limits),
            _parsed(InstrumentationScope(), scope, SCOPE, limits),
        )
    except SpanRefused as refused:
        raise SpanRefused(SpanReason.BAD_RESOURCE, refused.detail) from refused


def _span_apart(raw: bytes, origin: Origin, limits: Limits) -> Span:
    return _span(_parsed(WireSpan(), raw, SPAN, limits), origin, limits)


def _parsed(message: Wire, raw: bytes, shape: Shape, limits: Limits) -> Wire:
    """Parse the bytes into the message; where the parser refuses, once more without what is nested too deep."""
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        if len(raw) > _PRUNABLE_BYTES:
            raise SpanRefused(SpanReason.BAD_STRUCTURE, str(error)) from error
        try:
            message.ParseFromString(prune(raw, shape, limits.depth + 1))
        except (DecodeError, Undecodable) as still:
            raise SpanRefused(SpanReason.BAD_STRUCTURE, str(still)) from still
    return message


def _origin(resource: Resource, scope: InstrumentationScope, limits: Limits) -> Origin:
    caps = Caps(limits)
    attributes = _attributes(caps, resource.attributes)
    return Origin(attributes, Scope(caps.text(scope.name), caps.text(scope.version)), frozenset(caps.flags))


def _span(wire: WireSpan, origin: Origin, limits: Limits) -> Span:
    caps = Caps(limits)
    events = tuple(_events(caps, wire))
    links = tuple(_links(caps, wire))
    dropped_below = caps.dropped
    attributes = _attributes(caps, wire.attributes)
    return Span(
        trace_id=_id(wire.trace_id, 16, SpanReason.BAD_TRACE_ID),
        span_id=_id(wire.span_id, 8, SpanReason.BAD_SPAN_ID),
        parent_id=_id(wire.parent_span_id, 8, SpanReason.BAD_PARENT_ID) if any(wire.parent_span_id) else None,
        name=caps.name(wire.name),
        start_ns=checked_time(wire.start_time_unix_nano),
        end_ns=checked_time(wire.end_time_unix_nano),
        attributes=attributes,
        kind=wire.kind,
        status=status_code(wire.status.code),
        status_message=caps.text(wire.status.message),
        events=events,
        links=links,
        dropped_attributes=wire.dropped_attributes_count + caps.dropped - dropped_below,
        dropped_events=wire.dropped_events_count + max(0, len(wire.events) - limits.events),
        trace_state=caps.text(wire.trace_state),
        resource=origin.resource,
        scope=origin.scope,
        flags=origin.flags | caps.flags,
    )


def _id(raw: bytes, size: int, reason: SpanReason) -> str:
    if len(raw) != size or not any(raw):
        raise SpanRefused(reason, f"{raw[:32].hex() or 'empty'}: {size} bytes, not all zero, are needed")
    return raw.hex()


def _events(caps: Caps, wire: WireSpan) -> Iterator[SpanEvent]:
    for event in wire.events[: caps.limits.events]:
        yield SpanEvent(
            caps.name(event.name), checked_time(event.time_unix_nano), _attributes(caps, event.attributes)
        )


def _links(caps: Caps, wire: WireSpan) -> Iterator[SpanLink]:
    for link in wire.links[: caps.limits.links]:
        yield SpanLink(link.trace_id.hex(), link.span_id.hex(), _attributes(caps, link.attributes))


def _attributes(caps: Caps, entries: Sequence[KeyValue], depth: int = 1) -> dict[str, AttributeValue]:
    return caps.attributes(entries, lambda entry: (entry.key, _value(caps, entry.value, depth)))


def _value(caps: Caps, value: AnyValue, depth: int) -> AttributeValue:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return caps.text(value.string_value)
    if kind == "int_value":
        return int(value.int_value)
    if kind == "double_value":
        return caps.number(value.double_value)
    if kind == "bool_value":
        return bool(value.bool_value)
    if kind == "bytes_value":
        return caps.blob(value.bytes_value)
    return _nested(caps, value, kind, depth)


def _nested(caps: Caps, value: AnyValue, kind: str | None, depth: int) -> AttributeValue:
    if kind is None or caps.too_deep(depth):
        return None
    if kind == "array_value":
        return [_value(caps, item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(caps, value.kvlist_value.values, depth + 1)
    return None  # a kind of later versions
