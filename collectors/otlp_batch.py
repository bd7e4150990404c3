"""What both encodings of OTLP gather their spans in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from collectors.errors import Reason, SpanRefused, Undecodable
from collectors.otlp_limits import Limits
from collectors.span import AttributeValue, Rejection, Scope, Span, SpanBatch, SpanFlag, StatusCode

Item = TypeVar("Item")


@dataclass(slots=True, frozen=True)
class Origin:
    """What the spans of one scope share; `flags` tell what its resource lost to the caps."""

    resource: dict[str, AttributeValue]
    scope: Scope
    flags: frozenset[SpanFlag]


class BatchBuilder:
    """Gathers the spans of one message and those refused in it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._spans: list[Span] = []
        self._rejected: list[Rejection] = []

    def room_for(self, count: int) -> None:
        """Raises `Undecodable` where so many more spans would be over the cap."""
        if len(self._spans) + len(self._rejected) + count > self._limits.spans:
            raise Undecodable(Reason.TOO_MANY_SPANS, f"more than {self._limits.spans} spans")

    def extend(self, items: Iterable[Item], read: Callable[[Item], Span]) -> None:
        """Keep the span that `read` gives of each item, or the refusal that it raises."""
        for item in items:
            try:
                self._spans.append(read(item))
            except SpanRefused as refused:
                self.refuse(refused)

    def refuse(self, refused: SpanRefused, times: int = 1) -> None:
        self._rejected.extend([Rejection(refused.reason, refused.detail)] * times)

    def batch(self, size: int = 0) -> SpanBatch:
        """What was gathered. `size` is that of the message in bytes, where its spans have none of their own."""
        for span in self._spans if size else ():
            span.wire_bytes = size // len(self._spans)
        return SpanBatch(tuple(self._spans), tuple(self._rejected))


_STATUSES = {int(code): code for code in StatusCode}


def status_code(code: int) -> StatusCode:
    """The status; a code that OTLP does not know is UNSET, the enumeration's default.

    >>> status_code(7)
    <StatusCode.UNSET: 0>
    """
    return _STATUSES.get(code, StatusCode.UNSET)
