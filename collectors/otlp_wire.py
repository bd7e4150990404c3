"""The protobuf wire format, as far as a request is taken apart that the parser refuses or that is too large for it.

A parser takes or refuses a message whole: one string that is not UTF-8, or one value nested beyond the
parser's own hundred levels, loses every span beside it; and it makes objects of millions of empty spans before anybody
can count them. So spans are parsed one by one, and in one that is refused, values nested too deep are emptied first.

Source: "Encoding", protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from collectors.errors import Reason, Undecodable
from collectors.otlp_schema import Request

_VARINT, _FIXED64, _LEN, _FIXED32 = 0, 1, 2, 5

_RESOURCE_SPANS = 1
_RESOURCE, _SCOPE_SPANS, _LEGACY_SCOPE_SPANS = 1, 2, 1000
_SCOPE, _SPANS = 1, 2

_PARSABLE_BYTES = 4 * 2**20
"""The parser takes eight times the memory of a larger message that holds nothing but empty spans."""

WireShape = dict[int, "WireShape"]
"""Which fields of a message hold messages that may hold an `AnyValue`, and of what shape those are."""

_ANY_VALUE: WireShape = {}
_KEY_VALUE: WireShape = {2: _ANY_VALUE}
_ANY_VALUE |= {5: {1: _ANY_VALUE}, 6: {1: _KEY_VALUE}}
SCOPE: WireShape = {3: _KEY_VALUE}
SPAN: WireShape = {9: _KEY_VALUE, 11: {3: _KEY_VALUE}, 13: {4: _KEY_VALUE}}
RESOURCE: WireShape = {1: _KEY_VALUE}


class Group(NamedTuple):
    """The bytes of spans with those of the resource and the scope that they stand under."""

    resource: bytes
    scope: bytes
    spans: Sequence[bytes]


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where the next byte stands.

    >>> varint(bytes([0x96, 0x01]), 0)
    (150, 2)
    """
    if at + 1 < len(raw):  # nearly all are of one byte or two
        first, second = raw[at], raw[at + 1]
        if first < 0x80:
            return first, at + 1
        if second < 0x80:
            return first & 0x7F | second << 7, at + 2
    value = shift = 0
    while True:
        if at >= len(raw):
            raise Undecodable(Reason.TRUNCATED, "the message ends inside a number")
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Undecodable(Reason.NOT_OTLP, "a number of more than ten bytes")


def fields(raw: bytes) -> Iterator[tuple[int, bool, int, int, int]]:
    """The fields of one message, in order: number, whether length-delimited, and where the field with its tag begins,
    its content begins and it ends. Raises `Undecodable` where the bytes are no protobuf."""
    at, end = 0, len(raw)
    while at < end:
        begin, tag = at, raw[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = varint(raw, at)
        number, kind = tag >> 3, tag & 7
        size = 0
        if kind == _LEN:
            size, at = varint(raw, at)
        elif kind == _VARINT:
            _, at = varint(raw, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise Undecodable(Reason.NOT_OTLP, f"field {number} has the unknown wire type {kind}")
        if not number:
            raise Undecodable(Reason.NOT_OTLP, "a field numbered 0")
        if at + size > end:
            raise Undecodable(Reason.TRUNCATED, f"field {number} ends {at + size - end} bytes past the end")
        yield number, kind == _LEN, begin, at, at + size
        at += size


def groups(raw: bytes, most: int) -> Iterator[Group]:
    """The spans of an `ExportTraceServiceRequest`, of today or with the names of before OTLP 0.19.

    Raises `Undecodable` where its frame is broken, it holds nothing of one, or its frame has more than `most`
    fields, for walking them takes a microsecond each.
    """
    if len(raw) > _PARSABLE_BYTES:
        return walked(raw, most)
    try:
        request = Request.FromString(raw)
    except DecodeError:
        return walked(raw, most)
    if raw and not request.resource_spans:
        raise Undecodable(Reason.NOT_OTLP, "protobuf, but no export request for spans")
    return _parsed(request)


def _parsed(request: Any) -> Iterator[Group]:
    for group in request.resource_spans:
        # The bytes of a message field that comes twice, put together, are the merged message.
        resource = b"".join(group.resource)
        for scope_spans in (*group.scope_spans, *group.legacy_scope_spans):
            yield Group(resource, b"".join(scope_spans.scope), scope_spans.spans)


def walked(raw: bytes, most: int) -> Iterator[Group]:
    """The same without the parser: raises where the bytes stop being protobuf, and says why."""
    budget = iter(range(most))

    def messages(content: bytes) -> list[tuple[int, bytes]]:
        found = []
        for number, delimited, _, start, end in fields(content):
            if next(budget, None) is None:
                raise Undecodable(Reason.TOO_MANY_SPANS, f"a frame of more than {most} fields")
            if delimited:
                found.append((number, content[start:end]))
        return found

    outer = [content for number, content in messages(raw) if number == _RESOURCE_SPANS]
    if raw and not outer:
        raise Undecodable(Reason.NOT_OTLP, "protobuf, but no export request for spans")
    for group in outer:
        inner = messages(group)
        resource = b"".join(content for number, content in inner if number == _RESOURCE)
        for number, content in inner:
            if number in (_SCOPE_SPANS, _LEGACY_SCOPE_SPANS):
                parts = messages(content)
                scope = b"".join(part for number, part in parts if number == _SCOPE)
                yield Group(resource, scope, [part for number, part in parts if number == _SPANS])


def prune(raw: bytes, shape: WireShape, depth: int) -> bytes:
    """The message's bytes with each `AnyValue` emptied that is nested deeper than `depth`."""
    kept = bytearray()
    for number, delimited, begin, start, end in fields(raw):
        inner = shape.get(number) if delimited else None
        if inner is None:
            kept += raw[begin:end]
            continue
        left = depth - 1 if inner is _ANY_VALUE else depth
        content = prune(raw[start:end], inner, left) if left >= 0 else b""
        kept += _encoded(number << 3 | _LEN) + _encoded(len(content)) + content
    return bytes(kept)


def _encoded(number: int) -> bytes:
    coded = bytearray()
    while number > 0x7F:
        coded.append(number & 0x7F | 0x80)
        number >>= 7
    coded.append(number)
    return bytes(coded)
