"""The parts that OTLP's JSON is made of: members, whole numbers, ids, text and attribute values, read
strictly enough that nothing is guessed. Each raises `SpanRefused` where it cannot be read."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from collectors.errors import SpanReason, SpanRefused
from collectors.otlp_limits import Caps, checked_time
from collectors.span import AttributeValue

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]+", re.ASCII)

JsonObject = Mapping[str, Any]


@cache
def _snake(name: str) -> str:
    """The name in the protobuf file.

    >>> _snake("startTimeUnixNano")
    'start_time_unix_nano'
    """
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def member(item: JsonObject, name: str) -> Any:
    """The member by its camel-case name or else by its name in the protobuf file; null is absent."""
    value = item.get(name)
    return value if value is not None else item.get(_snake(name))


def members(item: object, name: str, reason: SpanReason = SpanReason.BAD_STRUCTURE) -> list[Any]:
    if not isinstance(item, dict):
        raise SpanRefused(reason, f"{type(item).__name__} where an object should be")
    found = member(item, name)
    if not isinstance(found, list | None):
        raise SpanRefused(reason, f"`{name}` is {type(found).__name__}, not an array")
    return found or []


def enumerated(value: object, names: Mapping[str, int]) -> int:
    """An enumeration's number; a name that OTLP does not know is its default, 0."""
    if isinstance(value, str) and not _WHOLE_NUMBER.fullmatch(value):
        return names.get(value, 0)
    return whole(value, SpanReason.BAD_STRUCTURE)


def whole(value: object, reason: SpanReason) -> int:
    """A whole number as JSON has it or in a string, as ProtoJSON writes 64 bits; absent is 0."""
    if value is None or value == "":
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        return int(value)
    raise SpanRefused(reason, f"{str(value)[:40]!r} is no whole number")


def count(value: object) -> int:
    return max(0, whole(value, SpanReason.BAD_STRUCTURE))


def time_ns(value: object) -> int:
    return checked_time(whole(value, SpanReason.BAD_TIME))


def identifier(value: object, size: int, reason: SpanReason) -> str:
    """An id of so many bytes, not all zero, as lower-case hexadecimal."""
    found = _hexadecimal(value, size, reason)
    if not found.strip("0"):
        raise SpanRefused(reason, f"{value!r} is all zero")
    return found


def parent_identifier(value: object) -> str | None:
    """The parent's id; None where it is absent, empty or all zero."""
    if value is None or (isinstance(value, str) and not value.strip("0")):
        return None
    found = _hexadecimal(value, 8, SpanReason.BAD_PARENT_ID)
    return found if found.strip("0") else None


def _hexadecimal(value: object, size: int, reason: SpanReason) -> str:
    if not isinstance(value, str):
        raise SpanRefused(reason, "no id")
    is_hex = len(value) == 2 * size and _HEX.fullmatch(value)
    found = value.lower() if is_hex else _from_base64(value, reason).hex()
    if len(found) != 2 * size:
        raise SpanRefused(reason, f"{value[:64]!r} is not of {size} bytes")
    return found


def _from_base64(value: str, reason: SpanReason) -> bytes:
    padded = value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SpanRefused(reason, f"{value[:64]!r} is neither hexadecimal nor base64") from error


def string(value: object) -> str:
    """A string that any store takes; absent is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SpanRefused(SpanReason.BAD_STRUCTURE, f"{type(value).__name__} where a string should be")
    return _whole_characters(value)


def _whole_characters(value: str) -> str:
    """The text without halves of surrogate pairs, which JSON can spell and UTF-8 cannot."""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def read_attributes(caps: Caps, entries: list[Any], depth: int = 1) -> dict[str, AttributeValue]:
    return caps.attributes(entries, partial(_attribute, caps, depth))


def _attribute(caps: Caps, depth: int, entry: object) -> tuple[str, AttributeValue]:
    if not isinstance(entry, dict):
        raise SpanRefused(
            SpanReason.BAD_ATTRIBUTES, f"an attribute that is {type(entry).__name__}, not an object"
        )
    key = entry.get("key") or ""  # ProtoJSON leaves out what is empty
    if not isinstance(key, str):
        raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"a key that is {type(key).__name__}, not a string")
    return _whole_characters(key), _value(caps, entry.get("value"), depth)


def _value(caps: Caps, value: object, depth: int) -> AttributeValue:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"a value that is {type(value).__name__}, not an object")
    for name, item in value.items():
        read = _VALUES.get(name)
        if read is not None and item is not None:
            return read(caps, item, depth)
    return None


def _string_value(caps: Caps, item: object, _depth: int) -> AttributeValue:
    if not isinstance(item, str):
        raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"`stringValue` is {type(item).__name__}")
    return caps.text(_whole_characters(item))


def _bool_value(_caps: Caps, item: object, _depth: int) -> AttributeValue:
    if not isinstance(item, bool):
        raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"`boolValue` is {type(item).__name__}")
    return item


def _int_value(_caps: Caps, item: object, _depth: int) -> AttributeValue:
    number = whole(item, SpanReason.BAD_ATTRIBUTES)
    if not -(2**63) <= number < 2**63:
        raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"{number} does not fit 64 bits")
    return number


def _double_value(caps: Caps, item: object, _depth: int) -> AttributeValue:
    try:
        if isinstance(item, int | float | str) and not isinstance(item, bool):
            return caps.number(float(item))
    except (ValueError, OverflowError) as error:
        raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"{str(item)[:40]!r} is no number") from error
    raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"`doubleValue` is {type(item).__name__}")


def _bytes_value(caps: Caps, item: object, _depth: int) -> AttributeValue:
    if not isinstance(item, str):
        raise SpanRefused(SpanReason.BAD_ATTRIBUTES, f"`bytesValue` is {type(item).__name__}")
    return caps.blob(_from_base64(item, SpanReason.BAD_ATTRIBUTES))


def _array_value(caps: Caps, item: object, depth: int) -> AttributeValue:
    if caps.too_deep(depth):
        return None
    return [_value(caps, inner, depth + 1) for inner in members(item, "values", SpanReason.BAD_ATTRIBUTES)]


def _kvlist_value(caps: Caps, item: object, depth: int) -> AttributeValue:
    if caps.too_deep(depth):
        return None
    return read_attributes(caps, members(item, "values", SpanReason.BAD_ATTRIBUTES), depth + 1)


_VALUES: dict[str, Callable[[Caps, Any, int], AttributeValue]] = {
    spelling: read
    for name, read in {
        "stringValue": _string_value,
        "boolValue": _bool_value,
        "intValue": _int_value,
        "doubleValue": _double_value,
        "bytesValue": _bytes_value,
        "arrayValue": _array_value,
        "kvlistValue": _kvlist_value,
    }.items()
    for spelling in (name, _snake(name))
}
