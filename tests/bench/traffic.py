"""Recorded traffic as often as it is wanted: a capture's requests again and again, each time with fresh ids."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_IDS = ("traceId", "spanId", "parentSpanId")


@cache
def recorded(path: Path) -> tuple[ExportTraceServiceRequest, ...]:
    """The requests of a capture (`*.requests.jsonl`, hexadecimal ids) in the order in which they were exported."""
    lines = path.read_text().splitlines()
    return tuple(
        json_format.ParseDict(json.loads(line, object_hook=_with_base64_ids), ExportTraceServiceRequest())
        for line in lines
    )


def spans_in(requests: tuple[ExportTraceServiceRequest, ...]) -> int:
    """How many spans they hold."""
    return sum(
        len(scope.spans)
        for request in requests
        for group in request.resource_spans
        for scope in group.scope_spans
    )


def rounds(path: Path, first: int, count: int) -> Iterator[bytes]:
    """The messages of `count` rounds of the capture from the round `first` on: what was one trace in the capture is
    one trace in each round, and the same round always has the same ids."""
    for number in range(first, first + count):
        for request in recorded(path):
            yield _renamed(request, number).SerializeToString()


def _renamed(request: ExportTraceServiceRequest, number: int) -> ExportTraceServiceRequest:
    fresh = ExportTraceServiceRequest()
    fresh.CopyFrom(request)
    for group in fresh.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                for one in (span, *span.links):
                    one.trace_id = _fresh(one.trace_id, number)
                    one.span_id = _fresh(one.span_id, number)
                span.parent_span_id = _fresh(span.parent_span_id, number)
    return fresh


def _fresh(identity: bytes, number: int) -> bytes:
    if not identity:
        return identity
    return hashlib.blake2s(identity + number.to_bytes(8, "big"), digest_size=len(identity)).digest()


def _with_base64_ids(item: dict[str, Any]) -> dict[str, Any]:
    """As ProtoJSON writes bytes."""
    hexadecimal = {name: value for name in _IDS if (value := item.get(name))}
    return item | {
        name: base64.b64encode(bytes.fromhex(value)).decode() for name, value in hexadecimal.items()
    }
