"""Spans as they came over the wire, before anything is understood of them, and where they go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

AttributeValue = (
    str | bool | int | float | bytes | None | list["AttributeValue"] | dict[str, "AttributeValue"]
)
"""An OTLP `AnyValue` as Python: `kvlistValue` becomes a dict, `arrayValue` a list, an empty value None."""


class StatusCode(IntEnum):
    """`opentelemetry.proto.trace.v1.Status.StatusCode`."""

    UNSET = 0
    OK = 1
    ERROR = 2


@dataclass(slots=True, frozen=True)
class Scope:
    """The instrumentation that made a span: name and version, empty where the wire had none."""

    name: str = ""
    version: str = ""


@dataclass(slots=True, frozen=True)
class SpanEvent:
    """A span event; `time_ns` is Unix time in nanoseconds."""

    name: str
    time_ns: int
    attributes: Mapping[str, AttributeValue]


@dataclass(slots=True, frozen=True)
class SpanLink:
    """A span link; ids are lower-case hex."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, AttributeValue]


class SpanFlag(StrEnum):
    """What the decoder had to do to a span to accept it."""

    ATTRIBUTES_CAPPED = "attributes_capped"
    DUPLICATE_KEY = "duplicate_key"
    DEPTH_CAPPED = "depth_capped"
    VALUE_CAPPED = "value_capped"
    NAME_CAPPED = "name_capped"
    NOT_FINITE = "not_finite"


@dataclass(slots=True)
class Span:
    """One OTLP span. Ids are lower-case hex (32 and 16 characters), times Unix nanoseconds.

    `attributes` may be read from the wire's bytes only when they are asked for. `resource` and `scope` are shared
    between spans and must not be changed.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    kind: int = 0
    status: StatusCode = StatusCode.UNSET
    status_message: str = ""
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    dropped_attributes: int = 0
    dropped_events: int = 0
    trace_state: str = ""
    resource: Mapping[str, AttributeValue] = field(default_factory=dict)
    scope: Scope = field(default_factory=Scope)
    own_flags: frozenset[SpanFlag] = field(default=frozenset(), compare=False)
    """What the decoder had to do to it when it came; what it has to do to attributes that are read later is not
    known yet, but that it left none out."""
    is_log: bool = False
    """A log record: a span of no length under the one that it tells of, with the record as its one event."""
    wire_bytes: int = field(default=0, compare=False)
    """Its share of the message, in bytes: what holding it costs."""

    @property
    def flags(self) -> frozenset[SpanFlag]:
        """All that the decoder had to do to it; reads every attribute."""
        later: frozenset[SpanFlag] = getattr(self.attributes, "flags", frozenset())
        return self.own_flags | later

    def fold(self) -> None:
        """Hold as little as can be: what the parser made of the span is made again when somebody asks."""
        fold = getattr(self.attributes, "fold", None)
        if fold is not None:
            fold()


class Receipt:
    """Counts the holders of one message (a Kafka record) and calls `on_finished` once when the last lets go.

    The collector makes it with one hold, which goes with the batch to whoever takes it: that one holds it for every
    open request that still needs the message, then releases the first hold. Only when all have released may the
    offset be committed.
    Thread-safe.

    >>> done = []
    >>> receipt = Receipt(lambda: done.append("commit"))
    >>> receipt.hold(); receipt.release(); done
    []
    >>> receipt.release(); done
    ['commit']
    """

    __slots__ = ("_holds", "_lock", "_on_finished")

    def __init__(self, on_finished: Callable[[], None]) -> None:
        self._on_finished = on_finished
        self._holds = 1
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Keep the message unfinished until a matching `release`."""
        with self._lock:
            if self._holds == 0:
                raise RuntimeError("this receipt is finished: nothing may hold it any more")
            self._holds += 1

    def release(self) -> None:
        """Let go of one hold; the last one finishes the message."""
        with self._lock:
            if self._holds == 0:
                raise RuntimeError("this receipt was released more often than it was held")
            self._holds -= 1
            finished = self._holds == 0
        if finished:
            self._on_finished()


@dataclass(slots=True, frozen=True)
class Rejection:
    """A span that was refused alone, its neighbours kept: a reason from a closed set, and what was wrong with it."""

    reason: str
    detail: str


@dataclass(slots=True, frozen=True)
class SpanBatch:
    """The spans of one message, those refused in it, and the receipt of the message if its source wants one."""

    spans: tuple[Span, ...]
    rejected: tuple[Rejection, ...] = ()
    receipt: Receipt | None = None
    source: str = ""
    """Which collector it came through: `otlp_grpc`, `otlp_http`, `kafka`, `replay`."""
    ignored: int = 0
    """Log records that tell of no request: well-formed, and not for us."""


class SpanSink(Protocol):
    """Where collectors put what they read."""

    def offer(self, batch: SpanBatch) -> bool:
        """Take the batch and answer True, or take nothing and answer False (full, or draining): the collector
        must then hold its source back (pause the partition, answer UNAVAILABLE) and may offer the same batch again.
        Never blocks for longer than a few milliseconds; safe to call from several threads."""
        ...
