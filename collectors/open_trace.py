"""One trace while its spans are held: what is new in it, and the requests that it becomes when it closes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collectors.anchors import Node, Request, requests_in
from collectors.conventions import ANCHOR_KINDS, SpanKind, Spoken, has_answer, kind_of
from collectors.span import Receipt, Span
from collectors.trace import Flag

_SPAN_BYTES = 1024
"""What a span takes in memory beside its own bytes: ids, name, its place in the tree."""


@dataclass(slots=True, frozen=True)
class Assembled:
    """One request as far as it came. Whoever takes it must `release` it once what it led to is safe."""

    trace_id: str
    anchor_span_id: str
    spans: tuple[Span, ...]
    """By start time. A span of another trace is feedback that links to this request."""
    kinds: tuple[SpanKind | None, ...]
    """What each of the spans did."""
    spoken: tuple[Spoken, ...]
    """What can be said of each of them."""
    revision: int
    flags: frozenset[Flag]
    has_root: bool
    closed_at: float
    """Arrival time at which it was closed, Unix seconds."""
    receipts: tuple[Receipt, ...] = ()

    def release(self) -> None:
        """Let go of the messages that its spans came in."""
        for receipt in self.receipts:
            receipt.release()


@dataclass(slots=True)
class _Emitted:
    revision: int
    closed_at: float


@dataclass(slots=True)
class OpenTrace:
    """The spans of a trace by key (the span id; `trace:span` for feedback that links from another trace)."""

    trace_id: str
    nodes: dict[str, Node] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """Keys of spans that no closed request holds yet; the trace is open while there are any."""
    opened_at: float = 0.0
    touched_at: float = 0.0
    held_bytes: int = 0
    """What its spans take in memory, about."""
    settled: bool = False
    """An anchor and an answer have been seen: what is still missing should come soon."""
    _anchored: bool = False
    _answered: bool = False
    _duplicates: set[str] = field(default_factory=set)
    _receipts: dict[int, Receipt] = field(default_factory=dict)
    _emitted: dict[str, _Emitted] = field(default_factory=dict)

    def holds(self, key: str, span: Span) -> bool:
        """Whether this very span is here already; another version of it is a duplicate too, but news."""
        known = self.nodes.get(key)
        if known is None:
            return False
        self._duplicates.add(key)
        return known.span == span

    def put(
        self, key: str, parent: str | None, span: Span, receipt: Receipt | None, now: float, spoken: Spoken
    ) -> None:
        """Take a span, in place of an earlier version of it, and hold the message that it came in. `spoken` is what
        `spoken_of` says of it."""
        kind = kind_of(span, spoken)
        known = self.nodes.get(key)
        if known is not None:
            self.held_bytes -= _held_bytes(known.span)
        self.held_bytes += span.wire_bytes + _SPAN_BYTES
        self.nodes[key] = Node(key, parent, span, kind, spoken)
        if not self.fresh:
            self.opened_at = now
        self.fresh.add(key)
        self.touched_at = now
        self._anchored = self._anchored or parent is None or kind in ANCHOR_KINDS
        self._answered = self._answered or has_answer(span, kind, spoken)
        self.settled = self._anchored and self._answered
        if receipt is not None and id(receipt) not in self._receipts:
            receipt.hold()
            self._receipts[id(receipt)] = receipt

    def close(self, now: float, capped: bool) -> list[Assembled]:
        """Every request that has news, with all of its spans; the trace keeps them for revisions."""
        requests = requests_in(self.nodes)
        anchors = self._settled_anchors(requests)
        flags = {Flag.MULTI_REQUEST_TRACE} if len(requests) > 1 else set()
        if capped:
            flags.add(Flag.SPANS_CAPPED)
        receipts = tuple(self._receipts.values())
        changed = [(anchor, one) for anchor, one in anchors.items() if not one.keys.isdisjoint(self.fresh)]
        for receipt in receipts:
            for _ in changed[1:]:
                receipt.hold()
        given = [self._assembled(anchor, one, flags, receipts, now) for anchor, one in changed]
        self.fresh = set()
        self._receipts = {}
        self.touched_at = now
        return given

    def drop_expired(self, limit: float) -> None:
        """Forget the requests that closed before `limit`, for a trace that never ends."""
        expired = [anchor for anchor, one in self._emitted.items() if one.closed_at < limit]
        if not expired:
            return
        anchors = self._settled_anchors(requests_in(self.nodes))
        kept = frozenset[str]().union(*(one.keys for anchor, one in anchors.items() if anchor not in expired))
        for key in self.nodes.keys() - kept:
            self.held_bytes -= _held_bytes(self.nodes.pop(key).span)
            self._duplicates.discard(key)
        for anchor in expired:
            del self._emitted[anchor]

    def _assembled(
        self, anchor: str, request: Request, common: set[Flag], receipts: tuple[Receipt, ...], now: float
    ) -> Assembled:
        before = self._emitted.get(anchor)
        revision = 0 if before is None else before.revision + 1
        self._emitted[anchor] = _Emitted(revision, now)
        own = (
            (Flag.NO_ROOT, not request.has_root),
            (Flag.ORPHAN_PARENT, request.orphaned),
            (Flag.LATE_REVISION, revision > 0),
            (Flag.DUPLICATE_SPANS, not request.keys.isdisjoint(self._duplicates)),
        )
        nodes = sorted(
            (self.nodes[key] for key in request.keys),
            key=lambda node: (node.span.start_ns, node.span.span_id),
        )
        return Assembled(
            trace_id=self.trace_id,
            anchor_span_id=anchor,
            spans=tuple([node.span for node in nodes]),
            kinds=tuple([node.kind for node in nodes]),
            spoken=tuple([node.spoken for node in nodes]),
            revision=revision,
            flags=frozenset(common).union(flag for flag, holds in own if holds),
            has_root=request.has_root,
            closed_at=now,
            receipts=receipts,
        )

    def _settled_anchors(self, requests: Iterable[Request]) -> Mapping[str, Request]:
        """The requests by name: each keeps the one under which it was first given, though a truer top has come."""
        free = dict.fromkeys(self._emitted)
        named: dict[str, Request] = {}
        for request in requests:
            anchor = request.anchor
            if free and anchor not in free:
                tops = {self.nodes[key].parent for key in request.keys}
                anchor = next((one for one in free if one in request.keys or one in tops), anchor)
            free.pop(anchor, None)
            named[anchor] = request
        return named


def _held_bytes(span: Span) -> int:
    return span.wire_bytes + _SPAN_BYTES
