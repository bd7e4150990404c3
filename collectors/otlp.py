"""OTLP bytes to spans, whatever wrapped them: each message is sniffed, never believed by where it came from.

`decode` is pure: bytes in, `SpanBatch` out, or `Undecodable`. A bad span is refused alone
(`SpanBatch.rejected`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

from collectors.errors import Reason, Undecodable
from collectors.otlp_json import read_json
from collectors.otlp_limits import Limits
from collectors.otlp_logs import are_logs, read_logs_json, read_logs_proto
from collectors.otlp_proto import read_proto
from collectors.otlp_wire import varint
from collectors.span import SpanBatch

__all__ = [
    "Limits",
    "decode",
    "decode_any_json",
    "decode_json",
    "decode_logs_json",
    "decode_logs_proto",
    "decode_proto",
    "gunzip",
    "unwrap",
]

_GZIP = b"\x1f\x8b"
_SCHEMA_REGISTRY = 0
"""First byte of a message framed for a schema registry; no protobuf and no JSON begins with it."""
_PREFIX = 5
"""That byte and the four of the schema's id."""
_EXPORT_REQUEST = 0x0A
"""First byte of an export request: field 1, length-delimited. It is also a line feed."""
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*[\[{]")

_DEFAULTS = Limits()


def decode(raw: bytes, limits: Limits = _DEFAULTS) -> SpanBatch:
    """Read one message of unknown encoding, of spans or of log records: gzip, a Schema-Registry prefix, JSON (an
    object or a bare array) or, last, protobuf. No bytes at all are a valid request without spans, as a Kafka
    tombstone is too.

    Raises `Undecodable`, and nothing else whatever the bytes.

    >>> decode(b"").spans
    ()
    >>> span = b'{"traceId": "14579F4BB39F5FC9A9D864E82E16E3E2", "spanId": "CpZ9MiWshHU="}'
    >>> decode(b'[{"scopeSpans": [{"spans": [' + span + b"]}]}]").spans[0].span_id
    '0a967d3225ac8475'
    """
    return _fenced(lambda: _sniff(_unwrap(_checked(raw, limits), limits), limits))


def decode_proto(raw: bytes, limits: Limits = _DEFAULTS) -> SpanBatch:
    """Read one protobuf `ExportTraceServiceRequest`. Raises `Undecodable`."""
    return _fenced(lambda: read_proto(_checked(raw, limits), limits))


def decode_json(raw: bytes, limits: Limits = _DEFAULTS) -> SpanBatch:
    """Read one JSON `ExportTraceServiceRequest`, or a bare array of `ResourceSpans`. Raises `Undecodable`."""
    return _fenced(lambda: read_json(_checked(raw, limits), limits))


def decode_logs_proto(raw: bytes, limits: Limits = _DEFAULTS) -> SpanBatch:
    """Read one protobuf `ExportLogsServiceRequest`. Raises `Undecodable`."""
    return _fenced(lambda: read_logs_proto(_checked(raw, limits), limits))


def decode_logs_json(raw: bytes, limits: Limits = _DEFAULTS) -> SpanBatch:
    """Read one JSON `ExportLogsServiceRequest`. Raises `Undecodable`."""
    return _fenced(lambda: read_logs_json(_checked(raw, limits), limits))


def decode_any_json(raw: bytes, limits: Limits = _DEFAULTS) -> SpanBatch:
    """Read one JSON export request, of spans or of log records. Raises `Undecodable`."""
    return _fenced(lambda: _read_any_json(_checked(raw, limits), limits))


def gunzip(raw: bytes, cap: int) -> bytes:
    """Unpack gzip (one member or several) to at most `cap` bytes. Raises `Undecodable`.

    >>> import gzip
    >>> gunzip(gzip.compress(b"spans"), cap=5)
    b'spans'
    """
    unpacked = bytearray()
    while raw:
        member = zlib.decompressobj(wbits=31)
        try:
            unpacked += member.decompress(raw, cap + 1 - len(unpacked))
        except zlib.error as error:
            raise Undecodable(Reason.BAD_GZIP, str(error)) from error
        if len(unpacked) > cap:
            raise Undecodable(Reason.DECOMPRESSION_CAP, f"{len(raw)} bytes unpack to more than {cap}")
        if not member.eof:
            raise Undecodable(Reason.BAD_GZIP, "the gzip stream ends in the middle")
        raw = member.unused_data
    return bytes(unpacked)


def unwrap(raw: bytes, limits: Limits = _DEFAULTS) -> tuple[bytes, bool]:
    """A message without what wrapped it, as an OTLP/HTTP receiver takes it, and whether it is JSON (else protobuf).

    Raises `Undecodable`.

    >>> import gzip
    >>> unwrap(gzip.compress(b'[{"scopeSpans": []}]'))
    (b'{"resourceSpans":[{"scopeSpans": []}]}', True)
    """
    inner = _unwrap(_checked(raw, limits), limits)
    is_json = _JSON.match(inner) is not None
    if is_json and inner[0] == _EXPORT_REQUEST:
        try:
            _read_any_proto(inner, limits)
        except Undecodable:  # it was a line feed
            pass
        else:
            is_json = False
    if is_json and inner.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        inner = b'{"resourceSpans":' + inner.removeprefix(b"\xef\xbb\xbf") + b"}"
    return inner, is_json


def _fenced(read: Callable[[], SpanBatch]) -> SpanBatch:
    """A message that trips the decoder must neither stop the stream nor be met for ever: that it did is its
    outcome, counted under a reason of its own."""
    try:
        return read()
    except Undecodable:
        raise
    except Exception as error:
        raise Undecodable(Reason.DECODER_FAULT, f"{type(error).__name__}: {error}") from error


def _checked(raw: bytes, limits: Limits) -> bytes:
    if len(raw) > limits.message_bytes:
        raise Undecodable(Reason.TOO_LARGE, f"{len(raw)} bytes, the cap is {limits.message_bytes}")
    return raw


def _unwrap(raw: bytes, limits: Limits) -> bytes:
    """Without gzip and Schema-Registry prefix, whichever is outside."""
    if raw.startswith(_GZIP):
        raw = gunzip(raw, limits.decompressed_bytes)
    if raw and raw[0] == _SCHEMA_REGISTRY:
        raw = _unframed(raw)
        if raw.startswith(_GZIP):
            raw = gunzip(raw, limits.decompressed_bytes)
    return raw


def _unframed(raw: bytes) -> bytes:
    """What follows the prefix: magic byte, schema id (4 bytes) and, for protobuf, the message's index (a count
    and that many numbers, all zigzag varints, or a single 0 for the schema's first message)."""
    if len(raw) < _PREFIX:
        raise Undecodable(Reason.BAD_FRAMING, f"a Schema-Registry prefix of {len(raw)} bytes")
    payload = raw[_PREFIX:]
    if not payload or payload[0] == _EXPORT_REQUEST or payload.startswith(_GZIP) or _JSON.match(payload):
        return payload
    zigzag, at = varint(payload, 0)
    if zigzag % 2 or zigzag > 2 * len(payload):
        raise Undecodable(Reason.BAD_FRAMING, "no payload after the Schema-Registry prefix")
    for _ in range(zigzag // 2):
        _, at = varint(payload, at)
    return payload[at:]


def _sniff(raw: bytes, limits: Limits) -> SpanBatch:
    if not _JSON.match(raw):
        return _read_any_proto(raw, limits)
    if raw[0] != _EXPORT_REQUEST:
        return _read_any_json(raw, limits)
    try:
        return _read_any_proto(raw, limits)
    except Undecodable:  # it was a line feed
        return _read_any_json(raw, limits)


def _read_any_json(raw: bytes, limits: Limits) -> SpanBatch:
    try:
        return read_json(raw, limits)
    except Undecodable as refused:
        if refused.reason is not Reason.LOGS:
            raise
        return read_logs_json(raw, limits)


def _read_any_proto(raw: bytes, limits: Limits) -> SpanBatch:
    batch = read_proto(raw, limits)
    misread = batch.rejected and not batch.spans and are_logs(raw)
    return read_logs_proto(raw, limits) if misread else batch
