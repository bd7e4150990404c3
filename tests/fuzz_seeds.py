"""What the fuzzer begins with: real messages, cut to a size that it can work through, in every wrapping."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

MOST_BYTES = 20_000
_PREFIX = b"\0\0\0\0\7"
_OWN = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "kb"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "tests", "version": "1"},
                    "spans": [
                        {
                            "traceId": "14579f4bb39f5fc9a9d864e82e16e3e2",
                            "spanId": "0a967d3225ac8475",
                            "parentSpanId": "0a967d3225ac8476",
                            "name": "retrieve",
                            "kind": 3,
                            "startTimeUnixNano": "1700000000000000000",
                            "endTimeUnixNano": "1700000000100000000",
                            "attributes": [
                                {"key": "k", "value": {"intValue": "4"}},
                                {
                                    "key": "scores",
                                    "value": {"arrayValue": {"values": [{"doubleValue": 0.5}]}},
                                },
                                {
                                    "key": "filter",
                                    "value": {
                                        "kvlistValue": {
                                            "values": [{"key": "a", "value": {"bytesValue": "AAEC"}}]
                                        }
                                    },
                                },
                            ],
                            "events": [{"timeUnixNano": "1700000000050000000", "name": "hit"}],
                            "links": [
                                {"traceId": "14579f4bb39f5fc9a9d864e82e16e3e3", "spanId": "0a967d3225ac8477"}
                            ],
                            "status": {"code": 2, "message": "late"},
                        }
                    ],
                }
            ],
        }
    ]
}


def write_seeds(corpus: Path, shared: Path | None) -> int:
    """Fill the folder with seeds, from the captures where they are at hand; gives how many there are."""
    corpus.mkdir(parents=True, exist_ok=True)
    messages = [json.dumps(_OWN).encode(), *(_captured(shared / "fixtures/otlp") if shared else ())]
    seeds = {seed for message in messages for seed in _wrapped(message) if len(seed) <= MOST_BYTES}
    if shared:
        folders = (shared / "fixtures/otlp/malformed", shared / "fixtures/otlp/kafka")
        for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
            seeds.add(path.read_bytes()[:MOST_BYTES])
    for number, seed in enumerate(sorted(seeds)):
        (corpus / f"seed-{number:04}").write_bytes(seed)
    return len(seeds)


def _captured(folder: Path) -> Iterator[bytes]:
    """The smallest three requests of every capture: one of each shape is enough for a fuzzer."""
    for capture in sorted(folder.glob("*.jsonl")):
        yield from sorted(capture.read_bytes().splitlines(), key=len)[:3]
    yield from (path.read_bytes() for path in sorted(folder.glob("*logs.json")))


def _wrapped(message: bytes) -> Iterator[bytes]:
    yield message
    document = json.loads(message)
    if "resourceSpans" not in document:
        return
    yield json.dumps(document["resourceSpans"]).encode()
    request = json_format.ParseDict(
        _with_base64(document), ExportTraceServiceRequest(), ignore_unknown_fields=True
    )
    raw = request.SerializeToString()
    yield from (raw, gzip.compress(raw), _PREFIX + raw, _PREFIX + b"\0" + raw)


def _with_base64(value: Any) -> Any:
    """The document with its ids as protobuf's own JSON mapping wants them."""
    if isinstance(value, list):
        return [_with_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode()
        if key in ("traceId", "spanId", "parentSpanId") and isinstance(item, str)
        else _with_base64(item)
        for key, item in value.items()
    }
