"""Values of OTLP in protobuf as Python: all of them at once, or each when it is asked for.

A span carries a dozen attributes and more, of which a reader needs a few, and making Python objects of all of them
costs five times what parsing costs. So a span keeps the bytes of its attributes, parsed when one is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from collectors.otlp_limits import Caps, Limits
from collectors.otlp_schema import MappedSpan
from collectors.shape import Shape
from collectors.span import AttributeValue, SpanFlag


class WireAttributes(Mapping[str, AttributeValue]):
    """The attributes of a span that is within the caps, in alphabetical order; each is read when it is asked for.

    Holds the span's bytes, and what the parser made of them once one is asked for that was not read first, until it is
    folded. It begins without: parsing again from memory that was just freed costs less than keeping what was parsed.
    """

    __slots__ = ("_fields", "_limits", "_names", "_raw", "_read", "shape")

    def __init__(self, raw: bytes, shape: Shape, limits: Limits) -> None:
        self._raw = raw
        self._fields: Mapping[str, AnyValue] | None = None
        self._limits = limits
        self._names = shape.members
        self._read: dict[str, AttributeValue] = {}
        self.shape = shape

    @property
    def flags(self) -> frozenset[SpanFlag]:
        """What the decoder has to do to them, once all are read."""
        caps = Caps(self._limits)
        read_attributes(caps, WireSpan.FromString(self._raw).attributes)
        return frozenset(caps.flags)

    def read_first(self, fields: Mapping[str, AnyValue], names: Iterable[str]) -> None:
        """Read these from what the parser has just made of the span, the map of a `MappedSpan`, and let go of it."""
        self._fields = fields
        for name in names:
            self._value(name)
        self._fields = None

    def fold(self) -> None:
        """Keep the bytes only, which take a third of the memory; what is read after this parses them once more."""
        if self._read or self._fields is not None:
            self._fields = None
            self._read = {}

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self._names:
            return default
        return self._read[name] if name in self._read else self._value(name)

    def __getitem__(self, name: str) -> AttributeValue:
        if name not in self._names:
            raise KeyError(name)
        return self._read[name] if name in self._read else self._value(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self.shape.names)

    def __len__(self) -> int:
        return len(self.shape.names)

    def __repr__(self) -> str:
        return repr(dict(self))

    def _value(self, name: str) -> AttributeValue:
        if self._fields is None:
            self._fields = MappedSpan.FromString(self._raw).attributes
        value = self._fields[name]
        text: str = value.string_value
        if not text:
            found = read_value(Caps(self._limits), value, 1)
        else:
            found = text.replace("\0", "") if "\0" in text else text
        self._read[name] = found
        return found


def read_attributes(caps: Caps, entries: Sequence[KeyValue], depth: int = 1) -> dict[str, AttributeValue]:
    """All of them, within the caps."""
    return caps.attributes(entries, lambda entry: (entry.key, read_value(caps, entry.value, depth)))


def read_value(caps: Caps, value: AnyValue, depth: int) -> AttributeValue:
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
        return [read_value(caps, item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return read_attributes(caps, value.kvlist_value.values, depth + 1)
    return None  # a kind of later versions
