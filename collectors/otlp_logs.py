"""OTLP log records, as far as they tell of requests: the events that GenAI instrumentations write beside their spans.

A record that belongs to a span becomes a span of no length under it (`Span.is_log`), with the record as its one
event: it waits, is held, revised and let go as spans are, and is read as an event of the span it stands under. A body
that is a map adds to the event's attributes, any other stands under `body`. Records of any other kind are ordinary
logs: they are counted (`SpanBatch.ignored`) and left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from collectors.errors import Reason, SpanReason, SpanRefused, Undecodable
from collectors.otlp_batch import BatchBuilder
from collectors.otlp_json_values import identifier, member, members, read_attributes, time_ns
from collectors.otlp_limits import Caps, Limits
from collectors.span import AttributeValue, Span, SpanBatch, SpanEvent

BODY = "body"
_PREFIX = "gen_ai."
FEEDBACK = "gen_ai.evaluation.result"
NO_TRACE = "0" * 32
"""The trace id of a record that names none."""


class _Record(NamedTuple):
    name: str
    time_ns: int
    attributes: dict[str, AttributeValue]
    trace_id: str | None
    span_id: str | None


def read_logs_json(raw: bytes, limits: Limits) -> SpanBatch:
    """Read one JSON `ExportLogsServiceRequest`. Raises `Undecodable` where it is none."""
    try:
        document = json.loads(raw)
    except RecursionError as error:
        raise Undecodable(Reason.BAD_JSON, "nested too deep") from error
    except ValueError as error:
        raise Undecodable(Reason.BAD_JSON, str(error)) from error
    if not isinstance(document, dict):
        raise Undecodable(Reason.NOT_OTLP, f"JSON, but {type(document).__name__} at the top")
    groups = member(document, "resourceLogs")
    if not isinstance(groups, list | None) or (groups is None and document):
        raise Undecodable(Reason.NOT_OTLP, "JSON without an array of `resourceLogs`")
    return _gathered(groups or [], limits, len(raw))


def read_logs_proto(raw: bytes, limits: Limits) -> SpanBatch:
    """Read one protobuf `ExportLogsServiceRequest`. Raises `Undecodable` where it is none."""
    request = ExportLogsServiceRequest()
    try:
        request.ParseFromString(raw)
    except DecodeError as error:
        raise Undecodable(Reason.NOT_OTLP, str(error)) from error
    if raw and not request.resource_logs:
        raise Undecodable(Reason.NOT_OTLP, "protobuf, but no export request for logs")
    # Log records are few beside spans: one reader for both encodings is worth the detour.
    return _gathered(MessageToDict(request).get("resourceLogs", []), limits, len(raw))


def are_logs(raw: bytes) -> bool:
    """Whether the bytes are log records rather than spans: both requests have the same frame, but only a log record
    holds its time where a span has its trace's id."""
    request = ExportLogsServiceRequest()
    try:
        request.ParseFromString(raw)
    except DecodeError:
        return False
    records = [
        record
        for group in request.resource_logs
        for scope in group.scope_logs
        for record in scope.log_records
    ]
    return bool(records) and all(one.time_unix_nano or one.observed_time_unix_nano for one in records)


def _gathered(groups: list[Any], limits: Limits, size: int) -> SpanBatch:
    builder = BatchBuilder(limits)
    ignored = 0
    for scope in _each(builder, groups, "scopeLogs"):
        for item in _each(builder, [scope], "logRecords"):
            builder.room_for(1)
            try:
                record = _record(item, limits)
            except SpanRefused as refused:
                builder.refuse(refused)
                continue
            if _tells_of_a_request(record):
                builder.extend((record,), _span)
            else:
                ignored += 1
    return replace(builder.batch(size), ignored=ignored)


def _each(builder: BatchBuilder, items: list[Any], name: str) -> Iterator[Any]:
    """The members of each; one that is misshapen is refused alone."""
    for item in items:
        try:
            yield from members(item, name)
        except SpanRefused as refused:
            builder.refuse(refused)


def _tells_of_a_request(record: _Record) -> bool:
    """Feedback may name its request by trace, response or session; other events mean nothing without their span."""
    return record.name == FEEDBACK or (record.name.startswith(_PREFIX) and record.span_id is not None)


def _span(record: _Record) -> Span:
    return Span(
        trace_id=record.trace_id or NO_TRACE,
        span_id=_identity(record),
        parent_id=record.span_id,
        name=record.name,
        start_ns=record.time_ns,
        end_ns=record.time_ns,
        events=(SpanEvent(record.name, record.time_ns, record.attributes),),
        is_log=True,
    )


def _identity(record: _Record) -> str:
    """The same for the same record sent again."""
    spelt = json.dumps(record, default=repr, sort_keys=True)
    return hashlib.blake2s(spelt.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _event_attributes(
    attributes: dict[str, AttributeValue], body: AttributeValue
) -> dict[str, AttributeValue]:
    if isinstance(body, dict):
        return {**body, **attributes}
    return attributes if body is None else {BODY: body, **attributes}


def _named(name: str, attributes: dict[str, AttributeValue]) -> str:
    """The event's name; SDKs of before it had a field of its own wrote it as an attribute."""
    older = attributes.get("event.name")
    return name or (older if isinstance(older, str) else "")


def _record(item: object, limits: Limits) -> _Record:
    if not isinstance(item, dict):
        raise SpanRefused(SpanReason.BAD_STRUCTURE, f"a record that is {type(item).__name__}, not an object")
    caps = Caps(limits)
    attributes = read_attributes(caps, members(item, "attributes", SpanReason.BAD_ATTRIBUTES))
    body = read_attributes(caps, [{"key": BODY, "value": member(item, "body")}])[BODY]
    name = member(item, "eventName")
    return _Record(
        _named(caps.name(name) if isinstance(name, str) else "", attributes),
        time_ns(member(item, "timeUnixNano")) or time_ns(member(item, "observedTimeUnixNano")),
        _event_attributes(attributes, body),
        _optional(member(item, "traceId"), 16, SpanReason.BAD_TRACE_ID),
        _optional(member(item, "spanId"), 8, SpanReason.BAD_SPAN_ID),
    )


def _optional(value: object, size: int, reason: SpanReason) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip("0")):
        return None
    return identifier(value, size, reason)
