"""How much one message may make us hold, and what happens to what is over it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from collectors.errors import SpanReason, SpanRefused
from collectors.span import AttributeValue, SpanFlag

Entry = TypeVar("Entry")

MAX_TIME_NS = 2**63 - 1
"""The last nanosecond (in the year 2262) that a signed 64-bit column holds."""


class Limits(BaseModel):
    """Caps of the decoder. A message over one of the first three is refused whole; a span over one of the
    others is kept without what is over it, and says so in its flags."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message_bytes: int = Field(16 * 2**20, gt=0, description="Largest message, in bytes as it comes.")
    decompressed_bytes: int = Field(32 * 2**20, gt=0, description="Largest message once unpacked, in bytes.")
    spans: int = Field(50_000, gt=0, description="Most spans in one message.")
    attributes: int = Field(4_096, gt=0, description="Most attributes of one span, event, link or resource.")
    events: int = Field(1_024, gt=0, description="Most events of one span.")
    links: int = Field(1_024, gt=0, description="Most links of one span.")
    depth: int = Field(
        16,
        gt=0,
        le=30,
        description="Deepest nesting of lists and maps in an attribute's value (protobuf ends at 30).",
    )
    name_length: int = Field(1_024, gt=0, description="Longest span or event name, in characters.")
    key_length: int = Field(
        1_024, gt=0, description="Longest attribute key; an attribute over it is dropped."
    )
    value_length: int = Field(2**20, gt=0, description="Longest string (characters) or bytes value.")


class Caps:
    """Applies `Limits` to the parts of one span or resource and remembers in `flags` what it had to do."""

    __slots__ = ("dropped", "flags", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.flags: set[SpanFlag] = set()
        self.dropped = 0

    def text(self, value: str) -> str:
        """A string without NUL characters, which many stores cut or refuse, and within its cap."""
        if "\0" in value:
            value = value.replace("\0", "")
        if len(value) > self.limits.value_length:
            self.flags.add(SpanFlag.VALUE_CAPPED)
            value = value[: self.limits.value_length]
        return value

    def name(self, value: str) -> str:
        if "\0" in value:
            value = value.replace("\0", "")
        if len(value) > self.limits.name_length:
            self.flags.add(SpanFlag.NAME_CAPPED)
            value = value[: self.limits.name_length]
        return value

    def blob(self, value: bytes) -> bytes:
        if len(value) > self.limits.value_length:
            self.flags.add(SpanFlag.VALUE_CAPPED)
            value = value[: self.limits.value_length]
        return value

    def number(self, value: float) -> float | None:
        """A finite number; NaN and the infinities say nothing that could be averaged and become None."""
        if math.isfinite(value):
            return value
        self.flags.add(SpanFlag.NOT_FINITE)
        return None

    def too_deep(self, depth: int) -> bool:
        if depth <= self.limits.depth:
            return False
        self.flags.add(SpanFlag.DEPTH_CAPPED)
        return True

    def attributes(
        self, entries: Sequence[Entry], read: Callable[[Entry], tuple[str, AttributeValue]]
    ) -> dict[str, AttributeValue]:
        """Keys and values as a dict: the first up to the cap, and of a key that comes twice the last one."""
        over = len(entries) - self.limits.attributes
        if over > 0:
            self._drop(over)
            entries = entries[: self.limits.attributes]
        found: dict[str, AttributeValue] = {}
        for entry in entries:
            key, value = read(entry)
            if "\0" in key:
                key = key.replace("\0", "")
            if len(key) > self.limits.key_length:
                self._drop(1)
                continue
            if key in found:
                self.flags.add(SpanFlag.DUPLICATE_KEY)
            found[key] = value
        return found

    def _drop(self, count: int) -> None:
        self.dropped += count
        self.flags.add(SpanFlag.ATTRIBUTES_CAPPED)


def checked_time(value: int) -> int:
    """Unix nanoseconds that a store can hold.

    >>> checked_time(-1)
    Traceback (most recent call last):
    collectors.errors.SpanRefused: bad_time: -1 is no Unix time in nanoseconds
    """
    if not 0 <= value <= MAX_TIME_NS:
        raise SpanRefused(SpanReason.BAD_TIME, f"{value} is no Unix time in nanoseconds")
    return value
