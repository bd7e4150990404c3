"""The protobuf wire format, as far as a message that the parser refuses must be taken apart.

A parser takes or refuses a message whole: one string that is not UTF-8, or one value nested beyond the
parser's own hundred levels, loses every span beside it. So a refused message is split into its spans here, each
of which is then parsed alone, and values nested too deep are emptied first.

Source: "Encoding", protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from collectors.errors import Reason, Undecodable

_VARINT, _FIXED64, _LEN, _FIXED32 = 0, 1, 2, 5

_RESOURCE_SPANS = 1
_RESOURCE, _SCOPE_SPANS, _LEGACY_SCOPE_SPANS = 1, 2, 1000
_SCOPE, _SPANS = 1, 2

Shape = dict[int, "Shape"]
"""Which fields of a message hold messages that may hold an `AnyValue`, and of what shape those are."""

_ANY_VALUE: Shape = {}
_KEY_VALUE: Shape = {2: _ANY_VALUE}
_ANY_VALUE |= {5: {1: _ANY_VALUE}, 6: {1: _KEY_VALUE}}
SCOPE: Shape = {3: _KEY_VALUE}
SPAN: Shape = {9: _KEY_VALUE, 11: {3: _KEY_VALUE}, 13: {4: _KEY_VALUE}}
RESOURCE: Shape = {1: _KEY_VALUE}


class Field(NamedTuple):
    """One field: its number, its content (empty unless length-delimited) and all its bytes with the tag."""

    number: int
    content: bytes
    whole: bytes
    delimited: bool


class Group(NamedTuple):
    """The bytes of spans with those of the resource and the scope that they stand under."""

    resource: bytes
    scope: bytes
    spans: list[bytes]


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where the next byte stands.

    >>> varint(bytes([0x96, 0x01]), 0)
    (150, 2)
    """
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


def fields(raw: bytes) -> Iterator[Field]:
    """The fields of one message, in order. Raises `Undecodable` where the bytes are no protobuf."""
    at = 0
    while at < len(raw):
        begin = at
        tag, at = varint(raw, at)
        number, kind = tag >> 3, tag & 7
        size = 0
        if kind == _VARINT:
            _, at = varint(raw, at)
        elif kind == _LEN:
            size, at = varint(raw, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise Undecodable(Reason.NOT_OTLP, f"field {number} has the unknown wire type {kind}")
        if not number:
            raise Undecodable(Reason.NOT_OTLP, "a field numbered 0")
        if at + size > len(raw):
            raise Undecodable(
                Reason.TRUNCATED, f"field {number} ends {at + size - len(raw)} bytes past the end"
            )
        content = raw[at : at + size]
        at += size
        yield Field(number, content, raw[begin:at], kind == _LEN)


def split(raw: bytes, most: int) -> Iterator[Group]:
    """The spans of an `ExportTraceServiceRequest`, of today or with the names of before OTLP 0.19.

    Raises `Undecodable` where its frame is broken, it holds nothing of one, or its frame has more than `most`
    fields, for walking them takes a microsecond each.
    """
    budget = iter(range(most))

    def messages(content: bytes) -> list[Field]:
        found = []
        for field in fields(content):
            if next(budget, None) is None:
                raise Undecodable(Reason.TOO_MANY_SPANS, f"a frame of more than {most} fields")
            if field.delimited:
                found.append(field)
        return found

    outer = [field.content for field in messages(raw) if field.number == _RESOURCE_SPANS]
    if raw and not outer:
        raise Undecodable(Reason.NOT_OTLP, "protobuf, but no export request for spans")
    for content in outer:
        inner = messages(content)
        # The bytes of a message field that comes twice, put together, are the merged message.
        resource = b"".join(field.content for field in inner if field.number == _RESOURCE)
        for group in inner:
            if group.number in (_SCOPE_SPANS, _LEGACY_SCOPE_SPANS):
                parts = messages(group.content)
                scope = b"".join(part.content for part in parts if part.number == _SCOPE)
                yield Group(resource, scope, [part.content for part in parts if part.number == _SPANS])


def prune(raw: bytes, shape: Shape, depth: int) -> bytes:
    """The message's bytes with each `AnyValue` emptied that is nested deeper than `depth`."""
    kept = bytearray()
    for field in fields(raw):
        inner = shape.get(field.number) if field.delimited else None
        if inner is None:
            kept += field.whole
            continue
        left = depth - 1 if inner is _ANY_VALUE else depth
        content = prune(field.content, inner, left) if left >= 0 else b""
        kept += _encoded(field.number << 3 | _LEN) + _encoded(len(content)) + content
    return bytes(kept)


def _encoded(number: int) -> bytes:
    coded = bytearray()
    while number > 0x7F:
        coded.append(number & 0x7F | 0x80)
        number >>= 7
    coded.append(number)
    return bytes(coded)
