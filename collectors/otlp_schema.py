"""OTLP's messages as we parse them: the same bytes as the published ones, declared so that less is made of them.

- A request is only taken apart: its spans, resources and scopes stay bytes, to be parsed one by one.
- A span's attributes are a map instead of a list of `KeyValue`. Both are the same on the wire ("Maps",
  protobuf.dev/programming-guides/proto3), but a map is looked up in the parser's own memory, and a value that nobody
  asks for never becomes a Python object. Of a key that comes twice a map keeps the last value.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_PACKAGE = "groundwatch"


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="groundwatch/trace.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.extend([Span.DESCRIPTOR.file.name, KeyValue.DESCRIPTOR.file.name])
    _add(file, "ScopeSpans", {"scope": 1, "spans": 2})
    _add(file, "ResourceSpans", {"resource": 1}, {"scope_spans": 2, "legacy_scope_spans": 1000}, "ScopeSpans")
    _add(file, "Request", {}, {"resource_spans": 1}, "ResourceSpans")
    _add_span(file)
    return file


def _add(
    file: FileDescriptorProto,
    name: str,
    blobs: dict[str, int],
    messages: dict[str, int] | None = None,
    kind: str = "",
) -> None:
    """A message of repeated fields, names with numbers: bytes as they stand, and messages of one kind."""
    made, repeated = file.message_type.add(name=name), FieldDescriptorProto.LABEL_REPEATED
    for field, number in blobs.items():
        made.field.add(name=field, number=number, label=repeated, type=FieldDescriptorProto.TYPE_BYTES)
    for field, number in (messages or {}).items():
        added = made.field.add(name=field, number=number, label=repeated)
        added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


def _add_span(file: FileDescriptorProto) -> None:
    """The published span but for its attributes."""
    span, entry = file.message_type.add(), DescriptorProto()
    Span.DESCRIPTOR.CopyToProto(span)
    KeyValue.DESCRIPTOR.CopyToProto(entry)
    del span.nested_type[:], span.enum_type[:]
    made = span.nested_type.add(name="AttributesEntry")
    made.options.map_entry = True
    made.field.extend(field for field in entry.field if field.number in (1, 2))
    attributes = next(field for field in span.field if field.name == "attributes")
    attributes.type_name = f".{_PACKAGE}.{span.name}.{made.name}"


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(
        descriptor_pool.Default().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    )


descriptor_pool.Default().AddSerializedFile(_file().SerializeToString())

Request = _message("Request")
"""An `ExportTraceServiceRequest`, today's or one of before OTLP 0.19 (`legacy_scope_spans`), taken apart."""

MappedSpan = _message("Span")
"""A `Span` whose `attributes` are a map of `AnyValue`."""
