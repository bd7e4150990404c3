"""OTLP in JSON, as the specification has it and as it is met: hexadecimal or base64 ids in any case, camel or
snake case names, enumerations by number or name, nanoseconds as string or number, a bare array of
`ResourceSpans`, and the `instrumentationLibrarySpans` of OTLP before 0.19.

Source: opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding", and the ProtoJSON format.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from collectors.errors import Reason, SpanReason, SpanRefused, Undecodable
from collectors.otlp_batch import BatchBuilder, Origin, status_code
from collectors.otlp_json_values import (
    JsonObject,
    count,
    enumerated,
    identifier,
    member,
    members,
    parent_identifier,
    read_attributes,
    string,
    time_ns,
)
from collectors.otlp_limits import Caps, Limits
from collectors.span import Scope, Span, SpanBatch, SpanEvent, SpanLink, StatusCode

_KINDS = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_STATUSES = {f"STATUS_CODE_{code.name}": int(code) for code in StatusCode}


def read_json(raw: bytes, limits: Limits) -> SpanBatch:
    """Read one export request. Raises `Undecodable` where it is none."""
    try:
        document = json.loads(raw)
    except RecursionError as error:
        raise Undecodable(Reason.BAD_JSON, "nested too deep") from error
    except ValueError as error:  # includes text that is not Unicode and numbers of thousands of digits
        raise Undecodable(Reason.BAD_JSON, str(error)) from error
    builder = BatchBuilder(limits)
    for group in _resource_spans(document):
        _read_group(builder, group, limits)
    return builder.batch(len(raw))


_GROUP_KEYS = frozenset(
    ("resource", "scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
)
"""What an element of a bare array has at least one of."""


def _resource_spans(document: object) -> list[object]:
    if isinstance(document, list):
        if any(isinstance(item, dict) and _is_zipkin(item) for item in document):
            raise Undecodable(Reason.ZIPKIN_JSON, "an array of Zipkin spans")
        if document and not any(isinstance(item, dict) and _GROUP_KEYS & item.keys() for item in document):
            raise Undecodable(Reason.NOT_OTLP, "a JSON array without any `ResourceSpans`")
        return document
    if not isinstance(document, dict):
        raise Undecodable(Reason.NOT_OTLP, f"JSON, but {type(document).__name__} at the top")
    groups = member(document, "resourceSpans")
    if groups is None and document and not {"resourceSpans", "resource_spans"} & document.keys():
        raise _foreign(document)
    if not isinstance(groups, list | None):
        raise Undecodable(Reason.NOT_OTLP, "`resourceSpans` is no array")
    return groups or []


def _is_zipkin(item: JsonObject) -> bool:
    return "traceId" in item and "id" in item and "resource" not in item


def _foreign(document: JsonObject) -> Undecodable:
    """What a JSON object without resource spans is, as far as its keys tell."""
    if "operationName" in document or _has_jaeger_traces(document.get("data")):
        return Undecodable(Reason.JAEGER_JSON, "Jaeger's JSON; send OTLP")
    if member(document, "resourceLogs") is not None:
        return Undecodable(Reason.LOGS, "an export request for logs")
    if member(document, "resourceMetrics") is not None:
        return Undecodable(Reason.METRICS, "an export request for metrics")
    return Undecodable(Reason.NOT_OTLP, f"JSON without `resourceSpans`: {', '.join(sorted(document))[:200]}")


def _has_jaeger_traces(data: object) -> bool:
    return isinstance(data, list) and any(isinstance(item, dict) and "traceID" in item for item in data)


def _read_group(builder: BatchBuilder, group: object, limits: Limits) -> None:
    """Read one `ResourceSpans`; what is misshapen in it is refused as small as it is."""
    try:
        scopes = members(group, "scopeSpans") or members(group, "instrumentationLibrarySpans")
    except SpanRefused as refused:
        builder.refuse(refused)
        return
    for scope in scopes:
        try:
            spans = members(scope, "spans")
        except SpanRefused as refused:
            builder.refuse(refused)
            continue
        builder.room_for(len(spans))
        try:
            origin = _origin(group, scope, limits)
        except SpanRefused as refused:
            builder.refuse(SpanRefused(SpanReason.BAD_RESOURCE, refused.detail), len(spans))
            continue
        builder.extend(spans, partial(_span, origin=origin, limits=limits))


def _origin(group: Any, scope_spans: Any, limits: Limits) -> Origin:
    caps = Caps(limits)
    resource = member(group, "resource") or {}
    scope = member(scope_spans, "scope") or member(scope_spans, "instrumentationLibrary") or {}
    attributes = read_attributes(caps, members(resource, "attributes"))
    if not isinstance(scope, dict):
        raise SpanRefused(SpanReason.BAD_STRUCTURE, "the scope is no object")
    return Origin(
        attributes,
        Scope(caps.text(string(scope.get("name"))), caps.text(string(scope.get("version")))),
        frozenset(caps.flags),
    )


def _span(item: object, origin: Origin, limits: Limits) -> Span:
    if not isinstance(item, dict):
        raise SpanRefused(SpanReason.BAD_STRUCTURE, f"a span that is {type(item).__name__}, not an object")
    trace_id = identifier(member(item, "traceId"), 16, SpanReason.BAD_TRACE_ID)
    span_id = identifier(member(item, "spanId"), 8, SpanReason.BAD_SPAN_ID)
    caps = Caps(limits)
    wire_events = members(item, "events")
    events = tuple(_event(caps, event) for event in wire_events[: limits.events])
    links = tuple(_link(caps, link) for link in members(item, "links")[: limits.links])
    dropped_below = caps.dropped
    attributes = read_attributes(caps, members(item, "attributes", SpanReason.BAD_ATTRIBUTES))
    status = member(item, "status") or {}
    if not isinstance(status, dict):
        raise SpanRefused(
            SpanReason.BAD_STRUCTURE, f"a status that is {type(status).__name__}, not an object"
        )
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_identifier(member(item, "parentSpanId")),
        name=caps.name(string(item.get("name"))),
        start_ns=time_ns(member(item, "startTimeUnixNano")),
        end_ns=time_ns(member(item, "endTimeUnixNano")),
        attributes=attributes,
        kind=enumerated(item.get("kind"), _KINDS),
        status=status_code(enumerated(status.get("code"), _STATUSES)),
        status_message=caps.text(string(status.get("message"))),
        events=events,
        links=links,
        dropped_attributes=count(member(item, "droppedAttributesCount")) + caps.dropped - dropped_below,
        dropped_events=count(member(item, "droppedEventsCount")) + max(0, len(wire_events) - limits.events),
        trace_state=caps.text(string(member(item, "traceState"))),
        resource=origin.resource,
        scope=origin.scope,
        own_flags=origin.flags | caps.flags,
    )


def _event(caps: Caps, item: object) -> SpanEvent:
    attributes = read_attributes(caps, members(item, "attributes"))
    assert isinstance(item, dict)  # `members` has refused anything else
    return SpanEvent(caps.name(string(item.get("name"))), time_ns(member(item, "timeUnixNano")), attributes)


def _link(caps: Caps, item: object) -> SpanLink:
    attributes = read_attributes(caps, members(item, "attributes"))
    assert isinstance(item, dict)
    return SpanLink(
        identifier(member(item, "traceId"), 16, SpanReason.BAD_STRUCTURE),
        identifier(member(item, "spanId"), 8, SpanReason.BAD_STRUCTURE),
        attributes,
    )
