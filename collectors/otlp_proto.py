"""OTLP in protobuf: `ExportTraceServiceRequest` bytes to spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from collectors.conventions import ASKED_FIRST
from collectors.errors import SpanReason, SpanRefused, Undecodable
from collectors.otlp_batch import BatchBuilder, Origin, status_code
from collectors.otlp_limits import MAX_TIME_NS, Caps, Limits, checked_time
from collectors.otlp_proto_values import WireAttributes, read_attributes
from collectors.otlp_schema import MappedSpan
from collectors.otlp_wire import RESOURCE, SCOPE, SPAN, WireShape, groups, prune
from collectors.shape import Shape, named
from collectors.span import AttributeValue, Scope, Span, SpanBatch, SpanEvent, SpanLink

_FRAME_FIELDS_PER_SPAN = 4
"""How many fields the frame around spans may have for each span that a message may hold."""
_FRAME_FIELDS = 64
"""How many it may have beside those."""
_PRUNABLE_BYTES = 256 * 1024
"""A larger span that the parser refuses stays refused: taking it apart here would hold up the stream."""
_SMALLEST_ENTRY = 2
"""Bytes of an attribute with nothing in it."""
_ORIGINS = 128
"""Resources and scopes remembered at most: a process sends the same with each message."""
_ORIGIN_BYTES = 8 * 1024
"""A larger one is not remembered, so that what is remembered stays small."""
_SHAPES = 1024
"""Shapes for which it is remembered at most what is asked first."""

_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_parse = MappedSpan.FromString


def read_proto(raw: bytes, limits: Limits) -> SpanBatch:
    """Read one export request: each span alone, so that only the bad ones are lost. Raises `Undecodable` where it is
    none."""
    builder = BatchBuilder(limits)
    for group in groups(raw, _FRAME_FIELDS + _FRAME_FIELDS_PER_SPAN * limits.spans):
        builder.room_for(len(group.spans))
        small = len(group.resource) + len(group.scope) <= _ORIGIN_BYTES
        try:
            origin = (_remembered_origin if small else _origin)(group.resource, group.scope, limits)
        except SpanRefused as refused:
            builder.refuse(refused, len(group.spans))
            continue
        builder.extend(group.spans, partial(_span, limits, origin))
    return builder.batch()


def _origin(resource: bytes, scope: bytes, limits: Limits) -> Origin:
    caps = Caps(limits)
    try:
        read_resource, _ = _parsed(Resource, resource, RESOURCE, limits)
        read_scope, _ = _parsed(InstrumentationScope, scope, SCOPE, limits)
    except SpanRefused as refused:
        raise SpanRefused(SpanReason.BAD_RESOURCE, refused.detail) from refused
    attributes = read_attributes(caps, read_resource.attributes)
    return Origin(
        attributes, Scope(caps.text(read_scope.name), caps.text(read_scope.version)), frozenset(caps.flags)
    )


_remembered_origin = lru_cache(_ORIGINS)(_origin)


def _parsed(kind: Any, raw: bytes, shape: WireShape, limits: Limits) -> tuple[Any, bytes]:
    """The message of this kind and the bytes that it was parsed from: where the parser refuses them, those without what
    is nested too deep."""
    try:
        return kind.FromString(raw), raw
    except DecodeError as error:
        if len(raw) > _PRUNABLE_BYTES:
            raise SpanRefused(SpanReason.BAD_STRUCTURE, str(error)) from error
        try:
            raw = prune(raw, shape, limits.depth + 1)
            return kind.FromString(raw), raw
        except (DecodeError, Undecodable) as still:
            raise SpanRefused(SpanReason.BAD_STRUCTURE, str(still)) from still


def _span(limits: Limits, origin: Origin, raw: bytes) -> Span:
    """A span within the caps keeps the bytes of its attributes; of any other they are read at once."""
    try:
        wire = _parse(raw)
    except DecodeError:
        wire, raw = _parsed(MappedSpan, raw, SPAN, limits)
    fields = wire.attributes
    shape = named(tuple(fields))
    if not _is_within(raw, shape, limits):
        return _read_at_once(raw, wire, origin, limits)
    attributes = WireAttributes(raw, shape, limits)
    if first := _asked_first(shape):
        attributes.read_first(fields, first)
    return _read(wire, attributes, Caps(limits), origin, len(raw))


@lru_cache(_SHAPES)
def _asked_first(shape: Shape) -> tuple[str, ...]:
    """What assembly will ask of every span of this shape."""
    return tuple(shape.members & ASKED_FIRST)


def _is_within(raw: bytes, shape: Shape, limits: Limits) -> bool:
    """Whether no attribute of the span, or of an event or link of it, is over the caps in number or in length."""
    if len(raw) > limits.value_length or shape.longest > limits.key_length or shape.has_nul:
        return False
    if len(raw) <= _SMALLEST_ENTRY * limits.attributes:
        return True
    wire = WireSpan.FromString(raw)
    holders: tuple[Any, ...] = (wire, *wire.events, *wire.links)
    return all(len(one.attributes) <= limits.attributes for one in holders)


def _read_at_once(raw: bytes, wire: Any, origin: Origin, limits: Limits) -> Span:
    caps = Caps(limits)
    attributes = read_attributes(caps, WireSpan.FromString(raw).attributes)
    dropped = caps.dropped
    span = _read(wire, attributes, caps, origin, len(raw))
    span.dropped_attributes += dropped
    return span


def _read(wire: Any, attributes: Mapping[str, AttributeValue], caps: Caps, origin: Origin, size: int) -> Span:
    parent, status, events, links = wire.parent_span_id, wire.status, wire.events, wire.links
    message, state = status.message, wire.trace_state
    trace_id = _id(wire.trace_id, _NO_TRACE, SpanReason.BAD_TRACE_ID)
    span_id = _id(wire.span_id, _NO_SPAN, SpanReason.BAD_SPAN_ID)
    parent_id = _id(parent, _NO_SPAN, SpanReason.BAD_PARENT_ID) if parent and any(parent) else None
    start_ns, end_ns = wire.start_time_unix_nano, wire.end_time_unix_nano
    if start_ns > MAX_TIME_NS or end_ns > MAX_TIME_NS:
        checked_time(start_ns)
        checked_time(end_ns)
    # By position, which takes a third of the time that twenty names take.
    return Span(
        trace_id,
        span_id,
        parent_id,
        caps.name(wire.name),
        start_ns,
        end_ns,
        attributes,
        wire.kind,
        status_code(status.code),
        caps.text(message) if message else "",
        tuple(_events(caps, events)) if events else (),
        tuple(_links(caps, links)) if links else (),
        wire.dropped_attributes_count,
        wire.dropped_events_count + (max(0, len(events) - caps.limits.events) if events else 0),
        caps.text(state) if state else "",
        origin.resource,
        origin.scope,
        origin.flags | caps.flags if caps.flags else origin.flags,
        False,
        size,
    )


def _id(raw: bytes, none: bytes, reason: SpanReason) -> str:
    if len(raw) != len(none) or raw == none:
        raise SpanRefused(reason, f"{raw[:32].hex() or 'empty'}: {len(none)} bytes, not all zero, are needed")
    return raw.hex()


def _events(caps: Caps, events: Sequence[WireSpan.Event]) -> Iterator[SpanEvent]:
    for event in events[: caps.limits.events]:
        yield SpanEvent(
            caps.name(event.name), checked_time(event.time_unix_nano), read_attributes(caps, event.attributes)
        )


def _links(caps: Caps, links: Sequence[WireSpan.Link]) -> Iterator[SpanLink]:
    for link in links[: caps.limits.links]:
        yield SpanLink(link.trace_id.hex(), link.span_id.hex(), read_attributes(caps, link.attributes))
