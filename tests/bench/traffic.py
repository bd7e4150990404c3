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
        for raw, ids in _templates(path):
            renamed = raw
            for identity in ids:
                renamed = renamed.replace(identity, _fresh(identity, number))
            yield renamed


@cache
def _templates(path: Path) -> tuple[tuple[bytes, frozenset[bytes]], ...]:
    """Each request as it is sent, and the ids in it: random bytes, so that nothing else looks like one."""
    return tuple((request.SerializeToString(), frozenset(_ids(request))) for request in recorded(path))


def _ids(request: ExportTraceServiceRequest) -> Iterator[bytes]:
    for group in request.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                yield from filter(None, (span.trace_id, span.span_id, span.parent_span_id))
                for link in span.links:
                    yield from (link.trace_id, link.span_id)


def _fresh(identity: bytes, number: int) -> bytes:
    return hashlib.blake2s(identity + number.to_bytes(8, "big"), digest_size=len(identity)).digest()


def _with_base64_ids(item: dict[str, Any]) -> dict[str, Any]:
    """As ProtoJSON writes bytes."""
    hexadecimal = {name: value for name in _IDS if (value := item.get(name))}
    return item | {
        name: base64.b64encode(bytes.fromhex(value)).decode() for name, value in hexadecimal.items()
    }
